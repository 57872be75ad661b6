"""Linear models of least loss under the worst reweighting of their rows."""

import reprlib
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from xrisk.annotations import Loss, Matrix, Spec, Vector
from xrisk.applications import AMBIGUITIES, CLASS_LOSSES, NUMBER_LOSSES, sample_dro
from xrisk.applications.arguments import quoted
from xrisk.auto import minimize_trimmed
from xrisk.estimators.base import (
    FITTED,
    SOLVING,
    USER,
    LinearRobust,
    LinearRobustClassifier,
    LinearRobustRegressor,
    Training,
)
from xrisk.estimators.callbacks import Listeners, with_callbacks
from xrisk.estimators.groups import distribution
from xrisk.functions import worst
from xrisk.functions.parameters import counted, require
from xrisk.problem import Problem, inner_values
from xrisk.run import Result, Runs

RADIUS = 0.1  # of the ball, where neither radius nor strength is given
FEW = 1e-3  # share of the rows, or three of them, that is warned of where it carries half of the weight
ENOUGH_ROWS = 200  # rows; of fewer nothing is said of their weights
OPTIMAL = 0.01  # relative gap up to which a model that is constant is the optimum, not where the fit stopped
FLAT = 0.02  # deviation of the scores of a classifier that is as good as constant: probabilities within half a percent

PARAMETERS = """
    The worst case is over distributions q near the observed one p, in which every row counts the same, or as
    ``sample_weight`` says. What it buys is the tail of the loss: rows with large losses, whoever they are, count more.
    Of a linear classifier it makes probabilities less confident where they are wrong: on noisy tables of many rows the
    worst tenth of held-out losses falls by a fifth to two fifths under a ball of radius 0.1, for a tenth or so of the
    mean, while ranking and accuracy stay; on few rows choose ``l2`` first. In regression expect a few percent, from
    "cvar"; under "kl" weights gather on a few rows where errors have heavy tails. For named groups of rows use the
    group DRO estimators. Mislabelled rows have large losses too: look at ``heaviest_rows()``, and set an
    ``outlier_fraction``, below the share of the rarest class, where some labels are wrong.

    Parameters
    ----------
    ambiguity : {{words}} or risk spec
        Which distributions are near:
{meanings}
    alpha : float
        Fraction of the rows, for "cvar".
    radius : float, optional
        Of the ball, for "kl" and "chi2"; it has no units, unlike ``strength``. {default} if neither is given.
    strength : float, optional
        Of the cost, for "kl" and "chi2", in the units of the loss: a large one is close to the average of all rows, a
        small one to the worst row.
    outlier_fraction : float
        Part of the rows, those of largest loss, that is set aside before the worst case is taken [1]_: found in rounds,
        each a fit of the other rows. The certificate is that of the last round, given the rows that are set aside.
    loss : str or loss spec
        {loss}
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖². Without any the certificate may not close.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised{intercept}.
{solving}
    Attributes
    ----------
    coef_, intercept_ : ndarray
        The model.
    sample_weights_ : ndarray (rows,)
        The worst-case distribution over the training rows.
    sample_losses_ : ndarray (rows,)
        Their losses.
    outliers_ : ndarray
        Numbers of the rows that were set aside.
{fitted}
    References
    ----------
    .. [1] Zhai, Dan, Kolter and Ravikumar, DORO: distributional and outlier robust optimization, 2021.
    .. [2] Qi and others, Stochastic constrained DRO with a complexity independent of sample size, 2022, for the KL
       ball; Duchi and Namkoong 2019 for χ², Rockafellar and Uryasev 2000 for CVaR.
"""


class HeavyRows(NamedTuple):
    """Rows by their weight in the worst case, heaviest first."""

    rows: np.ndarray  # numbers of training rows
    weights: np.ndarray


def _documented(first: str, loss: str, intercept: str, example: str) -> str:
    """The docstring of an estimator of rows."""
    filled = {
        "words": quoted(AMBIGUITIES),
        "meanings": "\n".join(f'        "{word}": {each.meaning};' for word, each in AMBIGUITIES.items())[:-1] + ".",
        "default": str(RADIUS),
        "loss": loss,
        "intercept": intercept,
        "solving": SOLVING,
        "fitted": FITTED,
    }
    text = PARAMETERS.replace("{{words}}", "{" + filled["words"] + "}")
    for name, words in filled.items():
        text = text.replace("{" + name + "}", words)
    return f"{first}\n{text}{example}"


@dataclass(eq=False, repr=False, kw_only=True)
class SampleRobust(LinearRobust):
    """A model whose inner functions are the losses of single rows."""

    ambiguity: Spec = field(default="chi2", kw_only=False)
    alpha: float = 0.1
    radius: float | None = None
    strength: float | None = None
    outlier_fraction: float = 0.0
    loss: Loss = None
    l1: float = 0.0
    l2: float = 1e-3
    fit_intercept: bool = True

    _attributes: ClassVar[tuple[str, ...]] = ("sample_weights_", "sample_losses_")
    _weights: ClassVar[str] = "sample_weights_"

    @with_callbacks
    def fit(self, X: Matrix, y: Vector, sample_weight: Vector = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Targets.
        sample_weight : array (rows,), optional
            Weights of the rows in the observed distribution.

        Returns
        -------
        self
        """
        return self._fitted(self._training(X, y, sample_weight))

    def heaviest_rows(self, count: int = 10) -> HeavyRows:
        """The training rows that have most weight in the worst case: hard ones, and mislabelled ones.

        Parameters
        ----------
        count : int
            How many, at the most; rows without a weight are left out.

        Returns
        -------
        HeavyRows
            Numbers of rows and their weights, heaviest first; of equal weights the larger loss.
        """
        check_is_fitted(self, "sample_weights_")
        require(isinstance(count, int | np.integer) and count >= 1, "count", count, "a whole number from 1 on")
        weights = self.sample_weights_
        order = np.lexsort((-self.sample_losses_, -weights))[:count]
        order = order[weights[order] > 0.0]
        return HeavyRows(order, weights[order])

    def _problem(self, training: Training) -> Problem:
        numbers: dict[str, Any] = {"radius": self.radius, "strength": self.strength}
        if isinstance(self.ambiguity, str) and self.ambiguity == "cvar":
            numbers["alpha"] = self.alpha
        elif isinstance(self.ambiguity, str) and self.radius is None and self.strength is None:
            numbers["radius"] = RADIUS
        return sample_dro(
            training.X,
            training.target,
            ambiguity=self.ambiguity,
            **numbers,
            loss=self._row_loss(),
            l1=self.l1,
            l2=self.l2,
            fit_intercept=self.fit_intercept,
            sample_weight=training.weight,
        )

    def _solve(
        self, problem: Problem, training: Training, runs: Runs, listeners: Listeners, start: Any = None
    ) -> Result:
        """The result; where rows are set aside, that of the last round."""
        self.outliers_ = np.zeros(0, dtype=np.int64)
        if not self.outlier_fraction:
            return super()._solve(problem, training, runs, listeners, start)

        def fit(problem: Problem, w0: np.ndarray | None) -> Result:
            return super(SampleRobust, self)._solve(
                problem, training, runs, listeners, None if w0 is None else (w0, None)
            )

        found = minimize_trimmed(problem, self.outlier_fraction, fit, runs, self.tol)
        self.outliers_ = found.outliers
        return found.result

    def _sample_weights(self, problem: Problem, result: Result) -> np.ndarray:
        """The worst-case distribution: proved by "auto"; of a sampled solver that at its solution."""
        if isinstance(self.solver, str):
            return distribution(result.dual[:, 0])
        return worst(problem.outer, self.sample_losses_, 0.0).weights

    def _check_shapes(self) -> None:
        super()._check_shapes()
        if self.sample_weights_.shape != self.sample_losses_.shape:
            raise ValueError(
                f"sample_losses_ must be one for each of the sample_weights_, got {reprlib.repr(self.sample_losses_)}"
            )

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        self.sample_losses_ = inner_values(problem, result.w)[:, 0]
        self.sample_weights_ = self._sample_weights(problem, result)
        few = concentration(self.sample_weights_)
        if few:
            warnings.warn(
                f"{counted(few, 'row carries', 'rows carry')} half of the weight of {self.sample_weights_.size}: "
                "look at them with heaviest_rows(), and if they are errors set outlier_fraction or a smaller radius",
                stacklevel=USER + 1,
            )


def concentration(weights: np.ndarray) -> int:
    """The number of rows that carry half of the weight, where it is so few that one should look at them; else 0."""
    n = weights.size
    most = max(3, int(FEW * n))
    if n < ENOUGH_ROWS:
        return 0
    heaviest = np.sort(np.partition(weights, n - most)[n - most :])[::-1]
    reached = np.flatnonzero(np.cumsum(heaviest) >= 0.5)
    return int(reached[0]) + 1 if reached.size else 0


@dataclass(eq=False, repr=False, kw_only=True)
class DROClassifier(SampleRobust, LinearRobustClassifier):
    __doc__ = _documented(
        "Linear classifier of least loss under the worst weights of its rows: min over w of max_q Σ qᵢℓᵢ(w) + r(w).",
        f"{quoted(CLASS_LOSSES)}; of more than two classes the logistic one is multinomial.",
        " (with more than two classes it is, as the coefficients are)",
        """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(400) > 0, "yes", "no")
    >>> clf = xrisk.DROClassifier("kl", strength=1.0).fit(X, y)
    >>> clf.certificate_.relative <= 1e-3
    True
    >>> clf.sample_weights_.shape, clf.heaviest_rows(3).rows.shape
    ((400,), (3,))
    """,
    )

    loss: Loss = "logistic"

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        optimal = result.certificate.relative <= OPTIMAL
        if optimal and training.X.shape[0] >= ENOUGH_ROWS and self._is_flat(training):
            warnings.warn(
                "the model is nearly constant: in the worst case over so few rows no linear model is better; a smaller "
                "radius, or a larger alpha or strength, leaves more of the rows in it",
                stacklevel=USER + 1,
            )

        lost = set(training.y.tolist()) - set(np.delete(training.y, self.outliers_).tolist())
        if lost:
            warnings.warn(
                f"all rows of class {lost.pop()!r} were set aside: outlier_fraction must be below the share of the "
                f"rarest class, got {self.outlier_fraction}",
                stacklevel=USER + 1,
            )

    def _is_flat(self, training: Training) -> bool:
        """Whether the scores of the training rows hardly differ."""
        scores = training.X @ np.atleast_2d(self.coef_).T
        return bool(np.std(np.asarray(scores), axis=0).max() < FLAT)


@dataclass(eq=False, repr=False, kw_only=True)
class DRORegressor(SampleRobust, LinearRobustRegressor):
    __doc__ = _documented(
        "Linear regression of least loss under the worst weights of its rows: min over w of max_q Σ qᵢℓᵢ(w) + r(w).",
        f"{quoted(NUMBER_LOSSES)}; the squared one is ½(z−y)².",
        "",
        """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> y = X[:, 0] + rng.standard_normal(300) * (1 + (X[:, 1] > 0))
    >>> reg = xrisk.DRORegressor("cvar", alpha=0.2).fit(X, y)
    >>> reg.certificate_.relative <= 1e-3
    True
    """,
    )

    loss: Loss = "squared"
