"""Those who watch a fit: a progress bar, and scikit-learn's callbacks where its version has them (1.9 on)."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xrisk.run import TracePoint

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


class Callbacks:
    """Tells the callbacks of an estimator of every certified point; each is a task of the fit, "stage"."""

    def __init__(self, estimator: Any, training: Any) -> None:
        self._estimator, self._training = estimator, training
        self._data = {
            "X": training.X,
            "y": training.y,
            "metadata": None if training.weight is None else {"sample_weight": training.weight},
        }
        self._fit = estimator._init_callback_context(max_subtasks=None)
        self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._asked = False

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        def model() -> dict[str, Any]:
            return self._estimator._model(w, self._training)

        stage = self._fit.subcontext(task_name="stage")
        stage.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        asked = stage.call_on_fit_task_end(estimator=self._estimator, **self._data, reconstruction_attributes=model)
        self._asked = self._asked or bool(asked)

    def folds_done(self, part: float) -> None:
        """Nothing to do: a fold leaves no model of the whole."""

    def asked_to_stop(self) -> bool:
        return self._asked

    def end(self) -> None:
        """The fit is done and the estimator is fitted; not called when it fails."""
        self._fit.call_on_fit_task_end(estimator=self._estimator, **self._data, reconstruction_attributes={})

    def close(self) -> None:
        """Nothing to do: `with_callbacks` takes down what the fit has set up."""


def _bar() -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: pip install xrisk[progress]") from error
    return tqdm(total=100, bar_format="{l_bar}{bar}| {elapsed}{postfix}")


class StepBar:
    """A bar of which cross-validation fills the first half, and the steps of a descent the second."""

    def __init__(self, steps: int) -> None:
        self._steps, self._bar = steps, _bar()

    def folds_done(self, part: float) -> None:
        self._bar.update(max(50.0 * part - self._bar.n, 0.0))
        self._bar.set_postfix_str("cross-validation")

    def seen(self, point: TracePoint, w: np.ndarray) -> None:
        self._bar.update(max(50.0 * (1.0 + point.iterations / self._steps) - self._bar.n, 0.0))
        self._bar.set_postfix_str(f"{point.phase}: objective {point.value:.4g}")

    def asked_to_stop(self) -> bool:
        self._bar.refresh()
        return False

    def end(self) -> None:
        """Nothing to do: a bar need not know whether a fit ended well."""

    def close(self) -> None:
        self._bar.update(100.0 - self._bar.n)
        self._bar.close()


class GapBar:
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

    def asked_to_stop(self) -> bool:
        self._bar.refresh()  # shows the time between two certificates
        return False

    def end(self) -> None:
        """Nothing to do: a bar need not know whether a fit ended well."""

    def close(self) -> None:
        self._bar.close()
