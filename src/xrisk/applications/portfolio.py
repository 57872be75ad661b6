"""Portfolios: expected return less risk aversion times variance."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Domain, Inner, Matrix
from xrisk.applications.arguments import as_number, checked_problem, domain_penalty, mean_loss
from xrisk.applications.quadratic import quadratic
from xrisk.certificate.doubled import doubled_scores, plain_scores
from xrisk.certificate.rounding import EPS
from xrisk.certificate.squares import BLOCK as PROVED_BLOCK
from xrisk.certificate.squares import Residuals, Squares, column_norms, sum_rounding
from xrisk.data.rows import as_numbers, as_rows, frozen
from xrisk.data.threads import give_way
from xrisk.functions import (
    AffineLoss,
    Hyperplane,
    L1Ball,
    LeveragedBudget,
    NonNegative,
    Scaled,
    Simplex,
    SolidSimplex,
    Square,
    Squared,
    Tilted,
)
from xrisk.functions.parameters import finite, positive, require
from xrisk.inner import Deviations, Groups, LinearModel
from xrisk.problem import Problem

BLOCK = 1 << 23  # numbers of a block of rows


class Moments(NamedTuple):
    """Mean (d,) and covariance (d, d), divided by the number of periods, of returns."""

    mean: np.ndarray
    covariance: np.ndarray


def mean_variance(
    returns: Matrix,
    *,
    risk_aversion: float = 1.0,
    l2: float = 0.0,
    domain: Domain = None,
    sampling: str = "uniform",
) -> Problem:
    """Portfolio of least −⟨r̄, w⟩ + risk_aversion·mean_i ⟨rᵢ − r̄, w⟩² + (l2/2)‖w‖², r̄ the mean of the returns rᵢ.

    Parameters
    ----------
    returns : array (periods, assets)
        rᵢ, of finite numbers.
    risk_aversion : float
        λ, positive: the price of variance.
    l2 : float
        Strength of the penalty.
    domain : domain spec, optional
        Such as ``Simplex(1.0)``, long positions that sum to one.
    sampling : {"uniform", "exact"}
        The sample of rᵢ − r̄ in a sampled method: rᵢ − rⱼ with j uniform, or rᵢ − r̄ itself.

    Returns
    -------
    Problem
        One inner function for each period, the square outside; the linear term is in the penalty.

    Notes
    -----
    Without a domain and a penalty the minimiser is (2λΣ)⁻¹r̄. f(u) = u² is not monotone; the problem is convex because
    the deviations are affine. It is the problem of [1]_, supplement C, there with λ = 1.

    References
    ----------
    .. [1] Devraj and Chen, Stochastic variance reduced primal dual algorithms for empirical composition optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import mean_variance
    >>> from xrisk.functions import Simplex
    >>> problem = mean_variance([[1.0, 0.0], [3.0, 2.0]], risk_aversion=0.5, domain=Simplex())
    >>> problem.value(np.array([0.5, 0.5]))
    -1.0
    """
    rows = _returns(returns)
    strength, penalty = _aversion(risk_aversion), domain_penalty(l2, domain)
    mean = rows.mean(axis=0).clip(rows.min(axis=0), rows.max(axis=0))  # of equal returns exactly what they are
    inner: Inner = Deviations(frozen(rows - mean))
    if sampling not in ("uniform", "exact"):
        raise ValueError(f"sampling must be one of uniform, exact, got {sampling!r}")
    if sampling == "exact":
        n = len(rows)
        model = LinearModel(as_rows(inner.rows), frozen(np.zeros(n)), AffineLoss())
        inner = Groups(model, frozen(np.arange(n + 1)))
    return checked_problem(inner, Scaled(Square(), strength), Tilted(penalty, frozen(-mean)))


def mean_variance_of_moments(
    mean: Any, covariance: Any, *, risk_aversion: float = 1.0, l2: float = 0.0, domain: Domain = None
) -> Problem:
    """The objective of `mean_variance` from the moments: −⟨mean, w⟩ + risk_aversion·wᵀ covariance w + (l2/2)‖w‖².

    This form is cheaper for full-batch methods: d rows instead of one for each period. Parameters are those
    of `mean_variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications.portfolio import mean_variance_of_moments
    >>> problem = mean_variance_of_moments([2.0, 1.0], np.ones((2, 2)), risk_aversion=0.5)
    >>> round(problem.value(np.array([0.5, 0.5])), 12)
    -1.0
    """
    strength, mean = _aversion(risk_aversion), as_numbers("mean", mean)
    second = strength * as_numbers("covariance", covariance)
    return quadratic(second, 0.5 * mean, penalty=domain_penalty(l2, domain))


def mean_variance_of_rows(
    deviations: np.ndarray, mean: np.ndarray, *, risk_aversion: float = 1.0, l2: float = 0.0, domain: Domain = None
) -> Problem:
    """The same from deviations (n, d) whose squares sum to the covariance: for fewer periods than assets."""
    n = len(deviations)
    rows = np.sqrt(2.0 * n * _aversion(risk_aversion)) * deviations
    model = LinearModel(as_rows(rows), frozen(np.zeros(n)), Squared())
    return mean_loss(model, Tilted(domain_penalty(l2, domain), frozen(-mean)))


def moments(returns: np.ndarray, weight: np.ndarray | None = None) -> Moments:
    """Mean and covariance of returns (n, d) in one pass, of weights (n,) if given.

    Blocks of rows are centred by their own means and put together (Chan, Golub and LeVeque, 1983): nothing cancels,
    however far the returns are from zero.
    """
    n, d = returns.shape
    mean, squares, seen = np.zeros(d), np.zeros((d, d)), 0.0
    for low in range(0, n, max(BLOCK // d, 1)):
        block = np.array(returns[low : low + max(BLOCK // d, 1)], dtype=np.float64)
        share = np.ones(len(block)) if weight is None else weight[low : low + len(block)].astype(np.float64)
        if not share.all():
            block, share = block[share > 0.0], share[share > 0.0]
        if not share.size:
            continue
        mass = float(share.sum())
        # a mean lies between the returns: of equal ones it is exactly what they are, and nothing varies
        centre = (share @ block / mass).clip(block.min(axis=0), block.max(axis=0))
        block -= centre
        if weight is not None:
            block *= np.sqrt(share)[:, None]
        squares += block.T @ block
        away = centre - mean
        squares += np.outer(away, away) * (seen * mass / (seen + mass))
        seen += mass
        mean += away * (mass / seen)
    return Moments(mean, squares / seen)


def returns_squares(
    returns: np.ndarray, weight: np.ndarray | None, known: Moments, *, risk_aversion: float, l2: float
) -> Squares:
    """The objective of `mean_variance` as returns (n, d), with weights (n,) if given, have it: for proofs.

    Deviations are those from the computed mean. The exact one is away from it by ``rest``, which every column of
    deviations may then err by.
    """
    n, d = returns.shape
    share = np.full(n, 1.0 / n) if weight is None else weight / math.fsum(weight)

    def rows(low: int, high: int) -> np.ndarray:
        return returns[low:high].astype(np.float64) - known.mean

    blocks = ((slice(low, low + PROVED_BLOCK), rows(low, low + PROVED_BLOCK)) for low in range(0, n, PROVED_BLOCK))
    norms, rest, sizes = column_norms(share, blocks, d)
    rounding = sum_rounding(n) * sizes
    linear, linear_error = -(known.mean + rest), rounding + EPS * (np.abs(known.mean) + np.abs(rest))
    loose = EPS * norms + np.abs(rest) + rounding

    def residuals(w: np.ndarray, doubled: bool) -> Residuals:
        return _deviations(returns, share, w, known, doubled)

    return Squares(rows, share, _aversion(risk_aversion), float(l2), linear, linear_error, norms, loose, residuals)


def _deviations(returns: np.ndarray, share: np.ndarray, w: np.ndarray, known: Moments, doubled: bool) -> Residuals:
    """Returns of the portfolio less their mean, and minus that mean."""
    scores = doubled_scores if doubled else plain_scores
    found, error = np.empty((2, len(returns)))
    about = float(scores(known.mean[None, :], w).high[0])
    for low in range(0, len(returns), PROVED_BLOCK):
        give_way()
        part = slice(low, low + PROVED_BLOCK)
        high, rest, rounding = scores(returns[part].astype(np.float64), w)
        found[part] = (high - about) + rest
        error[part] = rounding + 2.0 * EPS * (np.abs(found[part]) + np.abs(rest))
    each = sum_rounding(share.size)
    mean, size = math.fsum(share * found), float(share @ np.abs(found))
    mean_error = (float(share @ error) + each * size) * (1.0 + each)
    error += mean_error + 2.0 * EPS * (np.abs(found) + abs(mean))
    return Residuals(found - mean, error, -(about + mean), mean_error + 2.0 * EPS * abs(about + mean))


def _aversion(risk_aversion: Any) -> float:
    strength = as_number("risk_aversion", risk_aversion)
    positive("risk_aversion", strength)
    return strength


def _returns(returns: Matrix) -> np.ndarray:
    rows = np.ascontiguousarray(as_numbers("returns", returns), dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"returns must have a row for each period and a column for each asset, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("returns must be finite, they hold NaN or infinity")
    return rows


def portfolio_domain(long_only: bool, budget: float | None, leverage: float | None) -> Any:
    """The domain Σ w = budget, ‖w‖₁ ≤ leverage, w ≥ 0 if ``long_only``; None where nothing is asked.

    Examples
    --------
    >>> from xrisk.applications.portfolio import portfolio_domain
    >>> portfolio_domain(False, 1.0, 1.6)
    LeveragedBudget(total=1.0, gross=1.6)
    """
    total = None if budget is None else as_number("budget", budget)
    gross = None if leverage is None else as_number("leverage", leverage)
    if total is not None:
        finite("budget", total)
        require(total > 0.0 or not long_only, "budget", total, "positive where long_only=True")
    if gross is not None:
        positive("leverage", gross)
        require(total is None or gross >= abs(total), "leverage", gross, f"at least |budget|={abs(total or 0.0)!r}")
    if long_only and total is not None:
        return Simplex(total)
    if long_only:
        return NonNegative() if gross is None else SolidSimplex(gross)
    if total is None:
        return None if gross is None else L1Ball(gross)
    return Hyperplane(total) if gross is None else LeveragedBudget(total, gross)
