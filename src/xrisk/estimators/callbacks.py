"""Progress of a fit: a bar, and scikit-learn's callbacks where its version has them (1.9 on)."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xrisk.annotations import Estimator
from xrisk.run import Snapshot, Trace, TracePoint

CallbackSupport: Any
try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn below 1.9

    class CallbackSupport:
        """Nothing to support."""

    def with_callbacks(method: Callable) -> Callable:
        @functools.wraps(method)
        def same(*args: Any, **kwargs: Any) -> Any:  # as deep a call as scikit-learn's: warnings point to the caller
            return method(*args, **kwargs)

        return same


class Listener:
    """Is notified of the progress of a fit, and may ask for its end; every answer here is "nothing to do"."""

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        """A new point of the trace, with its parameters."""

    def folds_done(self, part: float) -> None:
        """This part of a cross-validation is done."""

    def requests_stop(self) -> bool:
        """Whether the fit is to end."""
        return False

    def end(self) -> None:
        """The fit is done, and the estimator is fitted; not called when it fails."""

    def close(self) -> None:
        """The fit is over, well or not."""


class Callbacks(Listener):
    """Reports every certified point to the callbacks of an estimator; each is a task of the fit, "stage"."""

    def __init__(self, estimator: Estimator, training: Any) -> None:
        self._estimator, self._training = estimator, training
        self._data = {
            "X": training.X,
            "y": training.y,
            "metadata": None if training.weight is None else {"sample_weight": training.weight},
        }
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._stops = False

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        def model() -> dict[str, Any]:
            return self._estimator._model(w, self._training)

        stage = self._fit.subcontext(task_name="stage")
        stage.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        stops = stage.call_on_fit_task_end(estimator=self._estimator, **self._data, reconstruction_attributes=model)
        self._stops = self._stops or bool(stops)

    def requests_stop(self) -> bool:
        return self._stops

    def end(self) -> None:
        self._fit.call_on_fit_task_end(estimator=self._estimator, **self._data, reconstruction_attributes={})


def _bar() -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: pip install xrisk[progress]") from error
    return tqdm(total=100, bar_format="{l_bar}{bar}| {elapsed}{postfix}")


class StepBar(Listener):
    """A bar of which cross-validation fills the first half, and the steps of a descent the second."""

    def __init__(self, steps: int) -> None:
        self._steps, self._bar = steps, _bar()

    def folds_done(self, part: float) -> None:
        self._bar.update(max(50.0 * part - self._bar.n, 0.0))
        self._bar.set_postfix_str("cross-validation")

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        self._bar.update(max(50.0 * (1.0 + point.iterations / self._steps) - self._bar.n, 0.0))
        self._bar.set_postfix_str(f"{point.phase}: objective {point.value:.4g}")

    def requests_stop(self) -> bool:
        self._bar.refresh()
        return False

    def close(self) -> None:
        self._bar.update(100.0 - self._bar.n)
        self._bar.close()


class GapBar(Listener):
    """A bar that fills as the certified gap falls to the tolerance."""

    def __init__(self, tol: float) -> None:
        self._tol, self._first, self._bar = tol, 0.0, _bar()

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        relative = (point.value - point.bound) / max(abs(point.value), abs(point.bound), 1e-300)
        left = max(np.log(max(relative, 1e-300) / self._tol), 0.0) if np.isfinite(relative) else np.inf
        self._first = max(self._first, left) if np.isfinite(left) else self._first
        share = 100.0 if left == 0.0 else 100.0 * (1.0 - left / self._first) if self._first else 0.0
        self._bar.update(max(share - self._bar.n, 0.0))
        gap = f"gap {relative:.1e}" if np.isfinite(relative) else "no gap yet"
        self._bar.set_postfix_str(f"{point.phase}: {gap}, tol {self._tol:.0e}")

    def requests_stop(self) -> bool:
        self._bar.refresh()  # shows the time between two certificates
        return False

    def close(self) -> None:
        self._bar.close()


class Listeners:
    """All who listen to a fit."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all = listeners

    def observer(self, trace: Trace) -> Callable[[Snapshot], None]:
        """An observer of a run that reports every new point of its trace."""
        seen = 0

        def observe(present: Snapshot) -> None:
            nonlocal seen
            for point in trace.points[seen:]:
                for listener in self._all:
                    listener.seen(point, present.w)
            seen = len(trace.points)

        return observe

    def folds_done(self, part: float) -> None:
        """Report how much of a cross-validation is done."""
        for listener in self._all:
            listener.folds_done(part)

    def request_stop(self, present: Snapshot | None = None) -> bool:
        """Whether one of them wants the fit to end; the ``until`` condition of a run."""
        return any([listener.requests_stop() for listener in self._all])


@contextlib.contextmanager
def listening(estimator: Estimator, training: Any, bar: Callable[[], Listener]) -> Iterator[Listeners]:
    """Those who listen to a fit: callbacks, and the bar if the estimator is verbose and the solver ours."""
    listeners = [bar()] if estimator.verbose and isinstance(estimator.solver, str) else []
    if hasattr(estimator, "_init_callback_context"):
        listeners.append(Callbacks(estimator, training))
    try:
        yield Listeners(listeners)
    finally:
        for listener in listeners:
            listener.close()
    for listener in listeners:
        listener.end()
