"""The tail of the samples: linear models of least loss under the worst reweighting of the rows."""

import numpy as np

from xrisk.annotations import Loss, Matrix, Spec, Vector
from xrisk.applications.arguments import LOSSES, ambiguity_of, by_name, checked_problem, penalty_of, row_weights
from xrisk.applications.groups import model_of
from xrisk.data.rows import as_rows, frozen, row_count
from xrisk.functions import WithMasses
from xrisk.inner import Samples, WithIntercept
from xrisk.problem import Problem


def sample_dro(
    X: Matrix,
    y: Vector,
    *,
    ambiguity: Spec = "kl",
    alpha: float | None = None,
    radius: float | None = None,
    strength: float | None = None,
    loss: Loss = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
    sample_weight: Vector = None,
) -> Problem:
    """A linear model with the least loss under the worst distribution near the observed one: ρ(ℓ₁(w), …, ℓₙ(w)) + r(w).

    r(w) = l1‖w‖₁ + (l2/2)‖w‖². ρ(ℓ) is the largest Σ qᵢℓᵢ over the distributions q of an ambiguity set, less a cost of
    being far from the observed distribution p, which is uniform or proportional to ``sample_weight``.

    Parameters
    ----------
    X, y, loss, l1, l2, fit_intercept
        As for `xrisk.group_dro`.
    ambiguity : {"kl", "cvar", "chi2"} or risk spec
        "kl": Σ qᵢ log(qᵢ/pᵢ) at most ``radius``, or at the cost ``strength`` times it, or both;
        "chi2": the same with ½ Σ pᵢ(qᵢ/pᵢ − 1)²; "cvar": qᵢ ≤ pᵢ/alpha, the mean of the worst fraction alpha.
    alpha, radius, strength : float, optional
        As above.
    sample_weight : array (rows,), optional
        Weights of the rows in the observed distribution.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.5], [1.0, 1.0], [-1.0, 2.0]])
    >>> problem = xrisk.applications.sample_dro(X, [1, -1, 1, -1], ambiguity="cvar", alpha=0.5, l2=0.1)
    >>> round(problem.value(np.array([1.0, -1.0])), 6)  # the mean of the two largest losses, and the penalty
    0.603204
    """
    rows = as_rows(X)
    spec, n = by_name("loss", loss, LOSSES), row_count(rows)
    risk = ambiguity_of(ambiguity, alpha=alpha, radius=radius, strength=strength)
    if sample_weight is not None:
        risk = WithMasses(risk, masses_of(sample_weight, n))
    model = model_of(WithIntercept(rows) if fit_intercept else rows, y, spec, n)
    return checked_problem(Samples(model), risk, penalty_of(l1, l2, fit_intercept, spec))


def masses_of(sample_weight: Vector, n: int) -> np.ndarray:
    """Weights of n rows as masses (n,) that sum to one."""
    weights = row_weights(sample_weight, n)
    if not weights.any():
        raise ValueError("sample_weight must be positive somewhere, it is zero in all rows")
    weights = weights / weights.max()  # sums of huge weights would overflow
    return frozen(weights / weights.sum())
