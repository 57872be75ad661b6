"""What every linear robust estimator does: check the data, state the problem, solve it, keep the answer."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from xrisk.applications import LOSSES
from xrisk.auto import AutoPoint, Solution, auto
from xrisk.certificate import certify
from xrisk.estimators.watching import Callbacks, CallbackSupport, GapBar, with_callbacks
from xrisk.functions import Logistic, Multinomial, loss_is_classification
from xrisk.grouping import Grouping, encode_groups
from xrisk.inner.oracle import exact_values, inner_count, inner_size
from xrisk.problem import Problem
from xrisk.run import Budget, Stop, minimize
from xrisk.run.observers import ProgressBar, Snapshot

TINY_GROUP = 10  # rows; a mean over fewer says little
USER = 4  # frames up from where fit warns to where it is called


class LinearRobust(CallbackSupport, BaseEstimator):
    """Fit once, for all of them; a subclass gives ``_problem`` and how targets are coded."""

    # groups go to fit without being asked for: a robust model that does not see them is another model
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    @with_callbacks
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Targets.
        groups : array, DataFrame, list of columns or boolean matrix, optional
            The group of each row; of several columns, their intersections; of boolean columns, membership, in which
            groups may overlap. A missing value is a group of its own. Without groups the classes are the groups.
        sample_weight : array (rows,), optional
            Weights of the rows within their groups.

        Returns
        -------
        self
        """
        X, y = self._validated(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        target = self._coded(y, weight)
        grouping = self._grouping(groups, target, X.shape[0], weight)
        problem = self._problem(X, target, grouping, weight)
        watchers = self._watchers(X, y, weight)
        try:
            self._keep(problem, self._solve(problem, watchers), grouping)
        finally:
            for watcher in watchers:
                watcher.close()
        for watcher in watchers:
            watcher.end()
        return self

    def _watchers(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> list[Any]:
        watchers: list[Any] = [GapBar(self.tol)] if self.verbose and isinstance(self.solver, str) else []
        return [*watchers, Callbacks(self, X, y, weight)] if hasattr(self, "_init_callback_context") else watchers

    def _validated(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        return validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            y_numeric=isinstance(self, RegressorMixin),
        )

    def _grouping(self, groups: Any, target: np.ndarray, n: int, weight: np.ndarray | None) -> Grouping:
        grouping = self._default_groups(target) if groups is None else encode_groups(groups, n)
        if weight is not None:
            _refuse_weightless(grouping, weight)
        if groups is None:
            return grouping
        if grouping.missing:
            warnings.warn(f"{grouping.missing} rows have no group: they are a group of their own", stacklevel=USER)
        if len(grouping.names) == 1:
            warnings.warn("there is a single group: the robust model is the ordinary one", stacklevel=USER)
        sizes = np.array([rows.size for rows in grouping.rows()])
        if (sizes < TINY_GROUP).any() and len(sizes) > 1:
            small = int((sizes < TINY_GROUP).sum())
            warnings.warn(
                f"{small} of {sizes.size} groups have fewer than {TINY_GROUP} rows, "
                f"the smallest, {grouping.names[int(sizes.argmin())]!r}, has {sizes.min()}: their risks are uncertain",
                stacklevel=USER,
            )
        return grouping

    def _solve(self, problem: Problem, watchers: list[Any]) -> Solution:
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        if isinstance(self.solver, str) and self.solver == "auto":
            solution = self._automatic(problem, rng, watchers)
        elif hasattr(self.solver, "advance"):
            solution = self._by(problem, rng, watchers)
        else:
            raise ValueError(f"solver must be 'auto' or a solver spec such as ALEXR(), got {self.solver!r}")
        if solution.stop is not Stop.REACHED:
            advice = "" if self.l1 or self.l2 else "; without a penalty there is no tight bound, l2 > 0 gives one"
            warnings.warn(
                f"{solution.stop}; the certified relative gap is {solution.certificate.relative:.2g}, "
                f"tol is {self.tol:.2g}{advice}",
                ConvergenceWarning,
                stacklevel=USER,
            )
        return solution

    def _automatic(self, problem: Problem, rng: np.random.Generator, watchers: list[Any]) -> Solution:
        def watch(seen: AutoPoint, w: np.ndarray) -> None:
            for watcher in watchers:
                watcher.seen(seen, lambda: self._model(problem, w))

        w0, dual = self._warm(problem) if self.warm_start else (None, None)
        return auto(
            problem,
            w0,
            dual,
            tol=self.tol,
            max_iter=self.max_iter,
            max_seconds=np.inf if self.max_seconds is None else self.max_seconds,
            rng=rng,
            watch=watch,
            until=lambda: any([watcher.asked_to_stop() for watcher in watchers]),
        )

    def _by(self, problem: Problem, rng: np.random.Generator, watchers: list[Any]) -> Solution:
        """A run of the user's own solver, certified at its end."""

        def watch(seen: Snapshot) -> None:
            done = seen.progress
            point = AutoPoint(done.seconds, done.iterations, seen.value, -np.inf, "run")
            for watcher in watchers:
                watcher.seen(point, lambda: self._model(problem, seen.w))

        budget = Budget(iterations=self.max_iter, seconds=self.max_seconds)
        observers = [ProgressBar(budget)] if self.verbose else []
        listeners = [watch] if hasattr(self, "_skl_callbacks") else []
        w0 = self._warm(problem)[0] if self.warm_start else None
        result = minimize(
            problem,
            self.solver,
            w0,
            budget=budget,
            rng=rng,
            observers=[*observers, *listeners],
            until=lambda seen: any(watcher.asked_to_stop() for watcher in watchers),
        )
        certificate = certify(problem, result)
        ended = Stop.INTERRUPTED if result.stop is Stop.REACHED else result.stop
        done = result.progress
        points = tuple(
            AutoPoint(point.seconds, point.iterations, point.value, -np.inf, "run") for point in result.trace.points
        )
        last = AutoPoint(done.seconds, done.iterations, certificate.primal, certificate.dual, "run")
        stop = Stop.REACHED if certificate.relative <= self.tol else ended
        return Solution(result.w, result.value, result.dual, certificate, stop, done.iterations, (*points, last))

    def _warm(self, problem: Problem) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The parameters and the weights of the groups of the last fit, where they are of the right size."""
        if not hasattr(self, "coef_"):
            return None, None
        w, n = self._packed(), inner_count(problem.inner)
        if w.shape != (inner_size(problem.inner),):
            return None, None
        weights = self.group_weights_
        return w, n * weights[:, None] if weights.shape == (n,) else None

    def _packed(self) -> np.ndarray:
        coef = np.atleast_2d(self.coef_).astype(np.float64)
        if self.fit_intercept:
            coef = np.column_stack([coef, np.atleast_1d(self.intercept_).astype(np.float64)])
        return coef.reshape(-1)

    def _model(self, problem: Problem, w: np.ndarray) -> dict[str, Any]:
        """What ``w`` is as fitted attributes, in the type of the data."""
        rows = w.reshape(self._n_scores(), -1)
        coef, intercept = (rows[:, :-1], rows[:, -1]) if self.fit_intercept else (rows, np.zeros(rows.shape[0]))
        data = getattr(problem.inner.model.rows, "rows", problem.inner.model.rows)[0]
        return {"coef_": np.array(coef, dtype=data.dtype), "intercept_": np.array(intercept, dtype=data.dtype)}

    def _keep(self, problem: Problem, solution: Solution, grouping: Grouping) -> None:
        for name, value in self._model(problem, solution.w).items():
            setattr(self, name, value)
        risks = np.empty((len(grouping.names), 1))
        exact_values(problem.inner, solution.w, risks)
        self.groups_ = grouping.names
        self.group_risk_ = risks[:, 0]
        self.group_weights_ = _normalised(solution.dual[:, 0])
        self.certificate_ = solution.certificate
        self.trace_ = solution.trace
        self.stop_ = solution.stop
        self.n_iter_ = max(1, solution.iterations)
        self.objective_ = solution.value

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = X @ np.atleast_2d(self.coef_).T
        return (scores.toarray() if scipy.sparse.issparse(scores) else np.asarray(scores)) + self.intercept_

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


def _refuse_weightless(grouping: Grouping, weight: np.ndarray) -> None:
    for name, rows in zip(grouping.names, grouping.rows(), strict=True):
        if not weight[rows].any():
            raise ValueError(f"sample_weight must be positive somewhere in every group, it is zero in all of {name!r}")


def _normalised(dual: np.ndarray) -> np.ndarray:
    weights = np.maximum(dual, 0.0)
    return weights / weights.sum() if weights.sum() > 0 else np.full(weights.size, 1.0 / weights.size)


class LinearRobustClassifier(ClassifierMixin, LinearRobust):
    """Labels of any kind, coded ±1 for two classes and 0, …, K−1 for more."""

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weighed = self.classes_ if weight is None else np.unique(y[weight > 0])
        if weighed.size < 2:
            raise ValueError(f"y must hold at least two classes of positive weight, got one class: {weighed[:1]}")
        return np.where(codes == 1, 1, -1) if self.classes_.size == 2 else codes

    def _default_groups(self, target: np.ndarray) -> Grouping:
        codes = np.unique(target, return_inverse=True)[1]
        return Grouping(codes, tuple(str(label) for label in self.classes_), 0, ())

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

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes under the logistic model."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            positive = 0.5 * (1.0 + np.tanh(0.5 * scores))  # exp would overflow
            return np.column_stack([1.0 - positive, positive])
        parts = np.exp(scores - scores.max(axis=1, keepdims=True))
        return parts / parts.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        shifted = scores - scores.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


class LinearRobustRegressor(RegressorMixin, LinearRobust):
    """Targets are numbers."""

    def _coded(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        return np.asarray(y, dtype=np.float64)

    def _default_groups(self, target: np.ndarray) -> Grouping:
        return Grouping(np.zeros(target.size, dtype=np.int64), ("all",), 0, ())

    def _n_scores(self) -> int:
        return 1

    def _accepts(self, spec: Any) -> bool:
        return not isinstance(spec, Multinomial) and not loss_is_classification(spec)

    def predict(self, X: Any) -> np.ndarray:
        """The prediction for each row."""
        return self._scores(X)[:, 0]

    def _model(self, problem: Problem, w: np.ndarray) -> dict[str, Any]:
        model = super()._model(problem, w)
        return {name: value[0] for name, value in model.items()}
