"""What every linear robust estimator does: check the data, state the problem, solve it, keep the answer."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from xrisk.annotations import Estimator, Matrix, Seed, Solver, Spec, Vector
from xrisk.applications import LOSSES
from xrisk.auto import Auto
from xrisk.data.grouping import Grouping, distinct
from xrisk.data.matrices import refuse_broken
from xrisk.estimators.callbacks import CallbackSupport, GapBar, Listeners, listening, with_callbacks
from xrisk.estimators.parameters import OF_ALL, check_attributes, check_parameters
from xrisk.estimators.proving import proved
from xrisk.functions import Logistic, Multinomial, loss_is_classification, loss_value
from xrisk.inner.oracle import inner_count, inner_size
from xrisk.problem import Problem
from xrisk.run import Result, Runs, Stop, Trace
from xrisk.run.observers import ProgressBar
from xrisk.solvers.base import PROVED_ENDINGS

LARGEST_TARGET = 1e150
USER = 4  # frames up from where a fit warns to where it is called
BLOCK = 2**20  # numbers of rows that are multiplied at a time

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


def linear_scores(X: Matrix, coef: np.ndarray) -> np.ndarray:
    """X coefᵀ (rows, scores); rows of single precision are not copied whole to be multiplied by doubles."""
    if scipy.sparse.issparse(X):
        return np.asarray(X @ coef.T)
    step = max(BLOCK // X.shape[1], 1)
    return np.concatenate([X[low : low + step] @ coef.T for low in range(0, max(X.shape[0], 1), step)])


class Training(NamedTuple):
    """What a model is fitted to, validated."""

    X: Matrix  # rows, dense or CSR
    y: np.ndarray  # targets as given
    target: np.ndarray  # targets as the problem has them
    weight: np.ndarray | None  # of the rows
    metadata: Any = None  # what else `fit` was given: groups, tasks


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRobust(CallbackSupport, BaseEstimator):
    """Fits once, for all estimators. A class adds its parameters and says what they are by a few methods:

    - ``_problem(training)``: the problem that the parameters state;
    - ``_coded(y, weight)``: targets as the problem has them;
    - ``_keep(problem, result, training)``: fitted attributes beyond the coefficients;
    - ``_check_shapes()``: how fitted attributes, which a file may hold, fit together.
    """

    solver: Solver = "auto"
    tol: float = 1e-3
    max_iter: int = 1_000_000
    max_seconds: float | None = None
    warm_start: bool = False
    random_state: Seed = None
    verbose: int = 0

    _attributes: ClassVar[tuple[str, ...]] = OF_ALL  # after a fit, those of its bases too
    _weights: ClassVar[str] = ""  # the fitted attribute with the weights of the inner functions

    @with_callbacks
    def fit(self, X: Matrix, y: Vector) -> Any:
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

    def _training(self, X: Matrix, y: Vector, sample_weight: Vector = None) -> Training:
        check_parameters(self)
        X, y = validate_data(
            self,
            refuse_broken("X", X),
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            y_numeric=isinstance(self, RegressorMixin),
        )
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return Training(X, y, self._coded(y, weight), weight)

    def _fitted(self, training: Training) -> Any:
        """State the problem, solve it and keep the answer; called by ``fit`` itself, to which warnings point."""
        problem = self._problem(training)
        with listening(self, training, lambda: GapBar(self.tol)) as listeners, Runs(self.max_seconds) as runs:
            result = self._solve(problem, training, runs, listeners)
            if result.stop not in PROVED_ENDINGS:
                relative = result.certificate.relative
                gap = f"the certified relative gap is {relative:.2g}" if relative < np.inf else "no gap is certified"
                message = f"{result.stop}; {gap}, tol is {self.tol:.2g}; {self._advice(result)}"
                warnings.warn(message, ConvergenceWarning, stacklevel=USER)
            self._keep(problem, result, training)
        return self

    def _solve(
        self, problem: Problem, training: Training, runs: Runs, listeners: Listeners, start: Any = None
    ) -> Result:
        """The result with its certificate; ``start`` are parameters and dual weights to begin at."""
        w0, weights = start or (self._warm(problem) if self.warm_start else (None, None))
        ours, trace = isinstance(self.solver, str), Trace()
        auto = Auto(self.tol) if weights is None else Auto(self.tol, np.ascontiguousarray(weights))
        bars = [ProgressBar(runs.budget(self.max_iter))] if self.verbose and not ours else []
        result = runs.minimize(
            problem,
            auto if ours else self.solver,
            w0,
            iterations=self.max_iter,
            rng=self._generator(),
            trace=trace,
            observers=[*bars, listeners.observer(trace)],
            until=listeners.request_stop,
        )
        return self._proved(problem, result, training, runs)

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))

    def _proved(self, problem: Problem, result: Result, training: Training, runs: Runs) -> Result:
        """The result with its certificate, at the point that it is of."""
        return proved(problem, result, runs, self.tol)

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
        if not hasattr(self, "n_iter_"):
            return None, None
        w = self._packed()
        return (w, self._warm_dual(problem)) if w.shape == (inner_size(problem.inner),) else (None, None)

    def _warm_dual(self, problem: Problem) -> np.ndarray | None:
        """The dual point of the last fit, of an estimator that keeps it."""
        n, weights = inner_count(problem.inner), getattr(self, self._weights, np.zeros(0))
        return n * weights[:, None] if weights.shape == (n,) else None

    def _packed(self) -> np.ndarray:
        """The coefficients as the parameters of the problem: an intercept is the last one of each score."""
        coef = np.atleast_2d(self.coef_).astype(np.float64)
        if self.fit_intercept:
            coef = np.column_stack([coef, np.atleast_1d(self.intercept_).astype(np.float64)])
        return coef.reshape(-1)

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        """What ``w`` is as fitted attributes, to the last digit: it is what the certificate is of."""
        rows = w.reshape(self._n_scores(), -1)
        coef, intercept = (rows[:, :-1], rows[:, -1]) if self.fit_intercept else (rows, np.zeros(rows.shape[0]))
        return {"coef_": coef.copy(), "intercept_": intercept.copy()}

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        for name, value in self._model(result.w, training).items():
            setattr(self, name, value)
        self.certificate_ = result.certificate
        self.trace_ = tuple(result.trace.points)
        self.stop_ = result.stop
        self.n_iter_ = max(1, result.progress.iterations)
        self.objective_ = result.value

    def check(self) -> None:
        """Refuse parameters of the wrong kind and fitted attributes that no fit leaves behind: a file may hold both."""
        check_parameters(self)
        if "loss" in self.get_params(deep=False):
            spec = self._loss()
            if not loss_value.implemented(spec) or not self._accepts(spec):
                raise ValueError(f"loss must be a word or a spec of a loss that the model can have, got {spec!r}")
        if any(name.endswith("_") for name in vars(self)):
            check_attributes(self)
            self._check_shapes()

    def _check_shapes(self) -> None:
        scores, features = self._n_scores(), self.n_features_in_
        shape = np.atleast_2d(self.coef_).shape
        if shape != (scores, features) or np.size(self.intercept_) != scores:
            raise ValueError(f"coef_ must have {features} numbers for each of {scores} scores, got shape {shape}")

    def _scores(self, X: Matrix) -> np.ndarray:
        check_is_fitted(self)
        refuse_broken("X", X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._scores_of(X)

    def _scores_of(self, X: Matrix) -> np.ndarray:
        return linear_scores(X, np.atleast_2d(self.coef_)) + self.intercept_

    def _loss(self) -> Any:
        if not isinstance(self.loss, str):
            return self.loss
        words = [word for word, spec in LOSSES.items() if self._accepts(spec)]
        if self.loss not in words:
            raise ValueError(f"loss must be one of {', '.join(words)} or a loss spec, got {self.loss!r}")
        return LOSSES[self.loss]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _has_probabilities(estimator: Estimator) -> bool:
    if estimator._without_probabilities:
        raise AttributeError(estimator._without_probabilities)
    if estimator.loss == "logistic" or isinstance(estimator.loss, Logistic):
        return True
    raise AttributeError(f"probabilities need the logistic loss, got {estimator.loss!r}")


class LinearRobustClassifier(ClassifierMixin, LinearRobust):
    """Labels of any kind, coded ±1 for two classes and 0, …, K−1 for more."""

    _attributes: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_")
    _without_groups: ClassVar[str] = "the classes are its groups"
    _is_for_two_classes: ClassVar[bool] = False  # the second in sorted order is the positive one
    _without_probabilities: ClassVar[str] = ""  # why there are none

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, codes = distinct(y)
        weighed = self.classes_ if weight is None else np.unique(y[weight > 0])
        if weighed.size < 2:
            raise ValueError(f"y must hold at least two classes of positive weight, got one class: {weighed[:1]}")
        if self._is_for_two_classes and self.classes_.size > 2:
            raise ValueError(
                f"y must hold two classes, got {self.classes_.size}. Only binary classification is supported. "
                "The type of the target is multiclass."
            )
        return np.where(codes == 1, np.int8(1), np.int8(-1)) if self.classes_.size == 2 else codes

    def _n_scores(self) -> int:
        return 1 if self.classes_.size == 2 else self.classes_.size

    def _accepts(self, spec: Spec) -> bool:
        return not isinstance(spec, Multinomial) and bool(loss_is_classification(spec))

    def _default_groups(self, target: np.ndarray) -> Grouping:
        """The groups where none are given: the classes, which ``target`` (n,) codes in their order."""
        return Grouping(distinct(target)[1], tuple(str(label) for label in self.classes_), 0, ())

    def _row_loss(self) -> Any:
        """The loss of a row."""
        loss = self._loss()
        if self.classes_.size == 2:
            return loss
        if not isinstance(loss, Logistic):
            raise ValueError(f"loss must be 'logistic' for more than two classes, got {self.loss!r}")
        return Multinomial()

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Scores: one for each row and class, or for each row if there are two classes."""
        scores = self._scores(X)
        return scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: Matrix) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Probabilities of the classes under the logistic model."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            positive = 0.5 * (1.0 + np.tanh(0.5 * scores))  # exp would overflow
            return np.column_stack([1.0 - positive, positive])
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        return parts / parts.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Matrix) -> np.ndarray:
        """Logarithms of the probabilities of the classes."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        shifted = scores - scores.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._is_for_two_classes
        return tags


class LinearRobustRegressor(RegressorMixin, LinearRobust):
    """Targets are numbers."""

    _attributes: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")
    _without_groups: ClassVar[str] = "all rows are one group"

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        target = np.asarray(y, dtype=np.float64)
        if np.abs(target).max() > LARGEST_TARGET:
            raise ValueError(f"y must be at most {LARGEST_TARGET:g} in size for squares to be finite: scale it")
        return target

    def _n_scores(self) -> int:
        return 1

    def _accepts(self, spec: Spec) -> bool:
        return not isinstance(spec, Multinomial) and not loss_is_classification(spec)

    def _default_groups(self, target: np.ndarray) -> Grouping:
        """The groups where none are given: one of all rows."""
        return Grouping(np.zeros(target.size, dtype=np.int64), ("all",), 0, ())

    def _row_loss(self) -> Any:
        """The loss of a row."""
        return self._loss()

    def predict(self, X: Matrix) -> np.ndarray:
        """The prediction for each row."""
        return self._scores(X)[:, 0]

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        model = super()._model(w, training)
        return {name: value[0] for name, value in model.items()}
