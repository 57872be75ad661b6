"""What every linear robust estimator does: check the data, state the problem, solve it, keep the answer."""

import reprlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from xrisk.applications import LOSSES
from xrisk.auto import Auto, pass_seconds
from xrisk.certificate import NOTHING_PROVED, Certificate, certify_measured, is_perfect, measured
from xrisk.certificate.least_squares import ProvedPoint
from xrisk.data.grouping import distinct
from xrisk.data.matrices import refuse_broken
from xrisk.data.threads import Interrupted, interruptible
from xrisk.estimators.callbacks import Callbacks, CallbackSupport, GapBar, with_callbacks
from xrisk.functions import Logistic, Multinomial, loss_is_classification, loss_value
from xrisk.functions.parameters import flag, whole
from xrisk.functions.parameters import positive as check_positive
from xrisk.inner.oracle import inner_size
from xrisk.problem import Problem
from xrisk.run import Budget, Result, Stop, Trace, minimize
from xrisk.run.clock import ctrl_c, now
from xrisk.run.observers import ProgressBar, Snapshot, TracePoint
from xrisk.solvers.base import PROVED_ENDINGS
from xrisk.solvers.newton.smoothed import constant_size

LARGEST_TARGET = 1e150
USER = 4  # frames up from where a fit warns to where it is called
BLOCK = 2**20  # numbers of rows that are multiplied at a time
GRACE = 0.5  # seconds that a certificate may take after the time of a fit is up

# what stands in the docstrings of all of them
SOLVING = """    solver : "auto" or solver spec
        "auto" needs no step size and stops on the certificate; a spec such as ``ALEXR()`` runs for ``max_iter``.
    tol : float
        Certified relative gap at which "auto" stops.
    max_iter : int
        Limit on iterations.
    max_seconds : float, optional
        Limit on the time of the fit, from when the problem is stated; passes over the data are cut short. Compiling,
        the first time that a machine sees a kind of problem, does not count.
    warm_start : bool
        Whether to start from the last fit.
    random_state : int, RandomState or None
        The seed.
    verbose : int
        1 for a progress bar (needs tqdm).
"""
FITTED = """    certificate_ : Certificate
        The optimum of the training objective lies between ``dual`` and ``primal``.
    objective_ : float
        The training objective.
    trace_ : tuple of TracePoint
        The objective against time, and what was proved of the optimum.
    stop_ : Stop
        Why the fit ended; ``str(stop_)`` is a sentence.
    n_iter_ : int
        Iterations done.
"""


def linear_scores(X: Any, coef: np.ndarray) -> np.ndarray:
    """X coefᵀ (rows, scores); rows of single precision are not copied whole to be multiplied by doubles."""
    if scipy.sparse.issparse(X):
        return np.asarray(X @ coef.T)
    step = max(BLOCK // X.shape[1], 1)
    return np.concatenate([X[low : low + step] @ coef.T for low in range(0, max(X.shape[0], 1), step)])


def _check_limit(name: str, value: Any) -> None:
    if value is not None:
        check_positive(name, value)


def _check_least(least: int) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if whole(name, value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")

    return check


def _check_verbose(name: str, value: Any) -> None:
    _check_least(0)(name, int(value) if isinstance(value, bool | np.bool_) else value)


def _check_seed(name: str, value: Any) -> None:
    try:
        check_random_state(value)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} must be None, a whole number from 0 to 2³² − 1 or a RandomState, got {value!r}"
        ) from error


def _check_solver(name: str, value: Any) -> None:
    if not (value == "auto" if isinstance(value, str) else hasattr(value, "advance") and not isinstance(value, type)):
        raise ValueError(f"{name} must be 'auto' or a solver spec such as ALEXR(), got {value!r}")


PARAMETERS: dict[str, Callable[[str, Any], Any]] = {
    "fit_intercept": flag,
    "solver": _check_solver,
    "tol": check_positive,
    "max_iter": _check_least(1),
    "max_seconds": _check_limit,
    "warm_start": flag,
    "random_state": _check_seed,
    "verbose": _check_verbose,
    "copies": _check_least(1),
}


FITTED_KINDS: dict[str, tuple[Any, str]] = {
    "n_features_in_": (int, "a whole number"),
    "certificate_": (Certificate, "a Certificate"),
    "trace_": (tuple, "a tuple of trace points"),
    "stop_": (Stop, "a Stop"),
    "n_iter_": (int, "a whole number"),
    "objective_": (float, "a number"),
}


def check_finite(name: str, value: Any) -> None:
    """Refuse a fitted attribute that is no array of finite numbers."""
    if not isinstance(value, np.ndarray | np.floating) or value.dtype.kind != "f" or not np.isfinite(value).all():
        raise ValueError(f"{name} must be an array of finite numbers, got {reprlib.repr(value)}")


def check_names(name: str, value: Any) -> None:
    """Refuse a fitted attribute that is no tuple of names."""
    if not isinstance(value, tuple) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} must be the names of {name[:-1]}, got {value!r}")


class Training(NamedTuple):
    """What a model is fitted to, validated."""

    X: Any  # rows, dense or CSR
    y: np.ndarray  # targets as given
    target: np.ndarray  # targets as the problem has them
    weight: np.ndarray | None  # of the rows
    metadata: Any = None  # what else `fit` was given: groups, tasks


class _Telling:
    """Tells those who watch a fit of every new point of its trace."""

    def __init__(self, trace: Trace, watchers: list[Any]) -> None:
        self._trace, self._watchers, self._told = trace, watchers, 0

    def __call__(self, seen: Snapshot) -> None:
        for point in self._trace.points[self._told :]:
            for watcher in self._watchers:
                watcher.seen(point, seen.w)
        self._told = len(self._trace.points)


def settled(result: Result, proof: ProvedPoint) -> Result:
    """The result at the point of the proof."""
    if result.trace.points:
        result.trace.points[-1] = result.trace.points[-1]._replace(value=proof.value, bound=proof.certificate.dual)
    return replace(result, w=proof.w, value=proof.value, certificate=proof.certificate)


class LinearRobust(CallbackSupport, BaseEstimator):
    """Fit once, for all of them; a subclass gives ``_problem``, how targets are coded and what else is kept."""

    @with_callbacks
    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Targets.

        Returns
        -------
        self
        """
        return self._fitted(self._training(X, y))

    def _training(self, X: Any, y: Any, sample_weight: Any = None) -> Training:
        self._check_parameters()
        X, y = self._validated(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return Training(X, y, self._coded(y, weight), weight)

    def _fitted(self, training: Training) -> Any:
        """State the problem, solve it and keep the answer; called by ``fit`` itself, to which warnings point."""
        problem = self._problem(training)
        watchers = self._watchers(training)
        try:
            result = self._settled(problem, self._solve(problem, watchers), training)
            if result.stop not in PROVED_ENDINGS:
                warnings.warn(self._shortfall(result), ConvergenceWarning, stacklevel=USER)
            self._keep(problem, result, training)
        finally:
            for watcher in watchers:
                watcher.close()
        for watcher in watchers:
            watcher.end()
        return self

    def _watchers(self, training: Training) -> list[Any]:
        watchers: list[Any] = [self._bar()] if self.verbose and isinstance(self.solver, str) else []
        return [*watchers, Callbacks(self, training)] if hasattr(self, "_init_callback_context") else watchers

    def _bar(self) -> Any:
        return GapBar(self.tol)

    def _validated(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        return validate_data(
            self,
            refuse_broken("X", X),
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            y_numeric=isinstance(self, RegressorMixin),
        )

    def check(self) -> None:
        """Refuse parameters of the wrong kind and fitted attributes that no fit leaves behind: a file may hold both."""
        self._check_parameters()
        if hasattr(self, "loss"):
            self._check_loss()
        if any(name.endswith("_") for name in vars(self)):
            self._check_fitted()

    def _check_fitted(self) -> None:
        for name, (kind, wanted) in FITTED_KINDS.items():
            if not isinstance(getattr(self, name, None), kind):
                raise ValueError(f"{name} must be {wanted}, got {getattr(self, name, None)!r}")
        if not all(isinstance(point, TracePoint) for point in self.trace_):
            raise ValueError(f"trace_ must be {FITTED_KINDS['trace_'][1]}, got {self.trace_!r}")
        for name in ("coef_", "intercept_"):
            check_finite(name, getattr(self, name, None))
        scores, features = self._n_scores(), self.n_features_in_
        shape = np.atleast_2d(self.coef_).shape
        if shape != (scores, features) or np.size(self.intercept_) != scores:
            raise ValueError(f"coef_ must have {features} numbers for each of {scores} scores, got shape {shape}")

    def _check_parameters(self) -> None:
        """Refuse what all of them have in common and is of the wrong kind; the problem checks the rest."""
        for name, value in self.get_params(deep=False).items():
            if name in PARAMETERS:
                PARAMETERS[name](name, value)

    def _solve(self, problem: Problem, watchers: list[Any], start: Any = None, seconds: float | None = None) -> Result:
        """The result; ``start`` are parameters and dual weights to begin at, ``seconds`` what is left of the time."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        w0, weights = start or (self._warm(problem) if self.warm_start else (None, None))
        budget = Budget(iterations=self.max_iter, elapsed=self.max_seconds if seconds is None else seconds)
        trace = Trace()
        bars = [ProgressBar(budget)] if self.verbose and not isinstance(self.solver, str) else []
        result = minimize(
            problem,
            self._solver(weights),
            w0,
            budget=budget,
            rng=rng,
            trace=trace,
            observers=[*bars, _Telling(trace, watchers)],
            until=lambda seen: any([watcher.asked_to_stop() for watcher in watchers]),
        )
        return self._proved(problem, result)

    def _solver(self, weights: np.ndarray | None) -> Any:
        if not isinstance(self.solver, str):
            return self.solver
        return Auto(self.tol) if weights is None else Auto(self.tol, np.ascontiguousarray(weights))

    def _proved(self, problem: Problem, result: Result) -> Result:
        """The result with its certificate; converged is what is certified to the tolerance."""
        known = result.certificate or self._certified(problem, result)
        stop = Stop.INTERRUPTED if result.stop is Stop.UNTIL else result.stop
        if known.relative <= self.tol:
            stop = Stop.CONVERGED
        elif stop is Stop.CONVERGED:  # by its own estimate, to its own tolerance
            size, _ = constant_size(problem, float(problem.value(np.zeros(result.w.size))))
            stop = Stop.PERFECT if is_perfect(known, size) else Stop.LOOSE
        return replace(result, certificate=known, stop=stop)

    def _settled(self, problem: Problem, result: Result, training: Training) -> Result:
        """The result to keep; proved of the data where the problem is theirs up to rounding only."""
        return result

    def _certified(self, problem: Problem, result: Result) -> Certificate:
        """The certificate of a result that has none, in the time left; if none is, the first bound, if it is cheap."""

        def prove(hurried: bool) -> Certificate:
            return self._bounds(problem, result, np.inf if hurried else 0.0)

        return self._in_time(problem, result, prove) or NOTHING_PROVED

    def _in_time(self, problem: Problem, result: Result, prove: Callable[[bool], Any]) -> Any:
        """What ``prove`` finds in the time left, told whether it must hurry; None where there is too little."""
        hurried = result.stop in (Stop.SECONDS, Stop.INTERRUPTED)
        if hurried and 2.0 * pass_seconds(Auto(), problem) > GRACE:
            return None
        left = 0.0 if hurried else np.inf if self.max_seconds is None else self.max_seconds - result.progress.elapsed
        end = now() + max(left, GRACE)
        with ctrl_c() as pressed, interruptible(lambda: bool(pressed) or now() > end):
            try:
                return prove(hurried)
            except Interrupted:
                return None

    def _bounds(self, problem: Problem, result: Result, enough: float) -> Certificate:
        """What full passes prove of the result; others are tried while the relative gap is above ``enough``."""
        return certify_measured(measured(problem), result, enough)

    def _shortfall(self, result: Result) -> str:
        relative = result.certificate.relative
        gap = f"the certified relative gap is {relative:.2g}" if relative < np.inf else "no gap is certified"
        return f"{result.stop}; {gap}, tol is {self.tol:.2g}; {self._advice(result)}"

    def _advice(self, result: Result) -> str:
        """What would help."""
        if not (getattr(self, "l1", 1.0) or getattr(self, "l2", 1.0)):
            return "without a penalty there is no tight bound, l2 > 0 gives one"
        limits = {Stop.ITERATIONS: "max_iter", Stop.SECONDS: "max_seconds"}
        if result.stop is Stop.SECONDS and not result.progress.iterations:
            return "the model is where the fit started: give it a larger max_seconds or fewer rows"
        if result.stop in limits:
            return f"a larger {limits[result.stop]} or tol would end certified"
        if result.stop is Stop.INTERRUPTED:
            return "fit again with warm_start=True to go on from here"
        if result.stop is Stop.LOOSE:
            return "a smaller tolerance of the solver or columns scaled to similar sizes (StandardScaler) may help"
        return "columns scaled to similar sizes (StandardScaler), a larger l2 or a larger tol may help"

    def _warm(self, problem: Problem) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The parameters and the dual point of the last fit, where they are of the right size."""
        if not hasattr(self, "coef_"):
            return None, None
        w = self._packed()
        return (w, self._warm_dual(problem)) if w.shape == (inner_size(problem.inner),) else (None, None)

    def _warm_dual(self, problem: Problem) -> np.ndarray | None:
        """The dual point of the last fit, of an estimator that keeps it."""
        return None

    def _has_intercept(self) -> bool:
        """Whether the last parameter of the problem, for each score, is an intercept."""
        return bool(self.fit_intercept)

    def _packed(self) -> np.ndarray:
        coef = np.atleast_2d(self.coef_).astype(np.float64)
        if self._has_intercept():
            coef = np.column_stack([coef, np.atleast_1d(self.intercept_).astype(np.float64)])
        return coef.reshape(-1)

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        """What ``w`` is as fitted attributes, to the last digit: it is what the certificate is of."""
        rows = w.reshape(self._n_scores(), -1)
        coef, intercept = (rows[:, :-1], rows[:, -1]) if self._has_intercept() else (rows, np.zeros(rows.shape[0]))
        return {"coef_": coef.copy(), "intercept_": intercept.copy()}

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        for name, value in self._model(result.w, training).items():
            setattr(self, name, value)
        self.certificate_ = result.certificate
        self.trace_ = tuple(result.trace.points)
        self.stop_ = result.stop
        self.n_iter_ = max(1, result.progress.iterations)
        self.objective_ = result.value

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        refuse_broken("X", X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._scores_of(X)

    def _scores_of(self, X: Any) -> np.ndarray:
        return linear_scores(X, np.atleast_2d(self.coef_)) + self.intercept_

    def _loss(self) -> Any:
        if not isinstance(self.loss, str):
            return self.loss
        words = [word for word, spec in LOSSES.items() if self._accepts(spec)]
        if self.loss not in words:
            raise ValueError(f"loss must be one of {', '.join(words)} or a loss spec, got {self.loss!r}")
        return LOSSES[self.loss]

    def _check_loss(self) -> None:
        """Refuse a loss that is none, or none of targets like these; `_problem` asks the same of a fit."""
        spec = self._loss()
        if not loss_value.implemented(spec) or not self._accepts(spec):
            raise ValueError(f"loss must be a word or a spec of a loss that the model can have, got {spec!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_probabilistic(estimator: Any) -> bool:
    return bool(estimator._has_probabilities())


class LinearRobustClassifier(ClassifierMixin, LinearRobust):
    """Labels of any kind, coded ±1 for two classes and 0, …, K−1 for more."""

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, codes = distinct(y)
        weighed = self.classes_ if weight is None else np.unique(y[weight > 0])
        if weighed.size < 2:
            raise ValueError(f"y must hold at least two classes of positive weight, got one class: {weighed[:1]}")
        return np.where(codes == 1, np.int8(1), np.int8(-1)) if self.classes_.size == 2 else codes

    def _check_fitted(self) -> None:
        classes = getattr(self, "classes_", None)
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or np.unique(classes).size < max(2, classes.size):
            raise ValueError(f"classes_ must be an array of at least two classes, each once, got {classes!r}")
        super()._check_fitted()

    def _n_scores(self) -> int:
        return 1 if self.classes_.size == 2 else self.classes_.size

    def _accepts(self, spec: Any) -> bool:
        return not isinstance(spec, Multinomial) and bool(loss_is_classification(spec))

    def _class_loss(self) -> Any:
        loss = self._loss()
        if self.classes_.size == 2:
            return loss
        if not isinstance(loss, Logistic):
            raise ValueError(f"loss must be 'logistic' for more than two classes, got {self.loss!r}")
        return Multinomial()

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one for each row and class, or for each row if there are two classes."""
        scores = self._scores(X)
        return scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _has_probabilities(self) -> bool:
        if self.loss == "logistic" or isinstance(self.loss, Logistic):
            return True
        raise AttributeError(f"probabilities need the logistic loss, got {self.loss!r}")

    @available_if(_is_probabilistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes under the logistic model."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            positive = 0.5 * (1.0 + np.tanh(0.5 * scores))  # exp would overflow
            return np.column_stack([1.0 - positive, positive])
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        return parts / parts.sum(axis=1, keepdims=True)

    @available_if(_is_probabilistic)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        shifted = scores - scores.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


class TwoClassRobust(LinearRobustClassifier):
    """Labels of two classes, the second in sorted order the positive one."""

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        target = super()._coded(y, weight)
        if self.classes_.size > 2:
            raise ValueError(
                f"y must hold two classes, got {self.classes_.size}. Only binary classification is supported. "
                "The type of the target is multiclass."
            )
        return target

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class LinearRobustRegressor(RegressorMixin, LinearRobust):
    """Targets are numbers."""

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        target = np.asarray(y, dtype=np.float64)
        if np.abs(target).max() > LARGEST_TARGET:
            raise ValueError(f"y must be at most {LARGEST_TARGET:g} in size for squares to be finite: scale it")
        return target

    def _n_scores(self) -> int:
        return 1

    def _accepts(self, spec: Any) -> bool:
        return not isinstance(spec, Multinomial) and not loss_is_classification(spec)

    def predict(self, X: Any) -> np.ndarray:
        """The prediction for each row."""
        return self._scores(X)[:, 0]

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        model = super()._model(w, training)
        return {name: value[0] for name, value in model.items()}
