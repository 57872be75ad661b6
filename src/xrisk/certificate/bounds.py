"""Both sides of a certificate: the objective from above, the dual function from below."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate.rounding import (
    EPS,
    TINY,
    block_sizes,
    conjugate_above,
    project_blocks,
    risk_terms,
)
from xrisk.certificate.sums import (
    Sums,
    Weights,
    balancing_slopes,
    balancing_weights,
    dual_sums,
    scaled_slopes,
    slope_candidates,
    sum_rounding,
    values_with_error,
)
from xrisk.compile import canonical, specialise, worthwhile
from xrisk.functions import (
    Unpenalised,
    block_is_monotone,
    block_start,
    penalty_convexity,
    penalty_value,
    prox,
    risk_conjugate,
    risk_project,
    risk_value,
    risk_weights,
)
from xrisk.inner.groups import group_form
from xrisk.inner.oracle import inner_is_affine, inner_size
from xrisk.problem import Problem, block_slopes, is_risk

LEAST = TINY / EPS  # numbers below it have fewer digits


class Certificate(NamedTuple):
    """dual ≤ optimum ≤ primal, so the point is within gap = primal − dual of the optimum.

    ``relative`` is the gap over the larger of |primal| and |dual|; where either is infinite, both are inf.
    """

    primal: float
    dual: float
    gap: float
    relative: float


def certify(problem: Problem, result: Any) -> Certificate:
    """Bound the optimum from both sides at a result of `xrisk.minimize` or `xrisk.solvers.exact`.

    With weights q in the dual set of the risk and any slopes v in the domain of ℓ*,

        D(q, v) = −ρ*(q) − Σᵢ qᵢ meanⱼ ℓ*(vᵢⱼ) − r*(−Σᵢ qᵢ meanⱼ vᵢⱼ xᵢⱼ)

    is below the optimum. Tried are the weights of the solver and those of the worst case at ``result.w``, with the
    slopes of the solver and those of the losses there; the best bound is kept. Both sides allow for rounding: they
    hold for the real numbers that the arrays of the problem stand for.

    Parameters
    ----------
    problem : Problem
        Group means of a linear or softmax model, what is such means (`group_form`), or means over pairs of rows.
    result : Result, Optimum, or anything with ``w`` and, if known, ``dual`` (n, m) and ``slopes``
        The point and the dual weights; these need not be feasible, they are moved to where they are.

    Returns
    -------
    Certificate
        Outside the domain of the penalty, and where the objective overflows, ``primal = inf``. The gap of an exact
        solution is small where r* is finite everywhere (l2, elastic net, ball, box), for l1, and with one intercept.
        Where r* is infinite on the way to 0 (no penalty, the non-negative numbers, more than one free coordinate)
        slopes 0 may be all that is left, and the bound that of losses that are not negative. Affine losses have but
        one slope: under a risk or a maximum, where r* is infinite there, ``dual = -inf``. Where either side is
        infinite, so are ``gap`` and ``relative``.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((200, 2)), rng.integers(0, 3, 200)
    >>> y = np.where(X[:, 0] + rng.standard_normal(200) > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max", l2=0.1)
    >>> best = xrisk.solvers.exact(problem)
    >>> xrisk.certify(problem, best).relative < 1e-6
    True
    """
    problem.check()
    if not certifiable(problem):
        kind = type(problem.inner).__name__
        raise TypeError(f"a certificate needs group means of a linear model or means over pairs, got {kind}")
    problem = canonical(problem._replace(inner=group_form(problem.inner)))
    w = _point(problem, result)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
        u, error = values_with_error(problem.inner, w)
        primal = _primal(problem, w, u, error)
        candidates = slope_candidates(problem.inner, w, getattr(result, "slopes", None))
        weights = _weights(problem, u, getattr(result, "dual", None))
        dual = max(_dual(problem, q, v) for v in candidates for q in weights)
    return between(primal, dual)


def certifiable(problem: Problem) -> bool:
    """Whether `certify` knows the inner functions of the problem."""
    return bool(values_with_error.implemented(group_form(problem.inner)))


def between(primal: float, dual: float) -> Certificate:
    """The certificate of two bounds, each proved in its own way."""
    gap = max(primal - dual, 0.0)
    return Certificate(primal, dual, gap, gap / max(abs(primal), abs(dual), LEAST) if gap < np.inf else np.inf)


def _point(problem: Problem, result: Any) -> np.ndarray:
    """The point; moved into the domain where it is outside by no more than rounding."""
    w, d = np.array(result.w, dtype=np.float64), inner_size(problem.inner)
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w must be finite and of shape ({d},), got shape {w.shape}")
    if penalty_value(problem.penalty, w) < np.inf:
        prox(problem.penalty, w, TINY)  # so short a step is the projection
    return w


def _primal(problem: Problem, w: np.ndarray, u: np.ndarray, error: np.ndarray) -> float:
    f, n, m = problem.outer, *u.shape
    penalty = penalty_value(problem.penalty, w)
    if not (np.isfinite(u + error).all() and penalty < np.inf):
        return np.inf
    if is_risk(f):
        values = np.array([risk_value(f, (u + error)[:, 0])])
        size = float(np.abs(u).max() + error.max()) + risk_terms(f, n)
    else:
        ends = (u + error,) if block_is_monotone(f) else (u - error, u + error)  # convex: largest at an end
        parts = [end.reshape(-1, m if block_is_monotone(f) else 1) for end in ends]
        values, sizes = np.empty((2, len(parts), len(parts[0])))
        for part, value, terms in zip(parts, values, sizes, strict=True):
            worthwhile(block_sizes, part.size, f)(f, part, value, terms)
        values, size = values.max(axis=0) * (len(parts[0]) / n), float(sizes.mean(axis=1).max()) * (len(parts[0]) / n)
    slack = 16 * EPS * (n + m + 16) * size + 4 * EPS * (w.size + 16) * penalty
    slack += TINY * (1.0 + w.size * penalty_convexity(problem.penalty))
    primal = float(values.mean() + penalty + slack)
    return np.inf if math.isnan(primal) else primal


def _weights(problem: Problem, u: np.ndarray, known: Any) -> list[Weights]:
    """Candidates for the weights: those of the worst case at u, and those that are known."""
    candidates = [_worst(problem.outer, u)]
    if known is not None:
        if np.shape(known) != u.shape:
            raise ValueError(f"dual must have shape {u.shape}, got {np.shape(known)}")
        candidates.append(np.array(known, dtype=np.float64))
    usable = [y for y in candidates if np.isfinite(y).all()] or [_central(problem.outer, u.shape)]
    return [(_of_risk if is_risk(problem.outer) else _of_blocks)(problem.outer, y) for y in usable]


def _worst(f: Any, u: np.ndarray) -> np.ndarray:
    if not np.isfinite(u).all():
        return np.full_like(u, np.nan)
    if is_risk(f):
        q = np.empty(u.shape[0])
        risk_weights(f, np.ascontiguousarray(u[:, 0]), q)
        return u.shape[0] * q[:, None]
    return block_slopes(f, u)


def _central(f: Any, shape: tuple[int, ...]) -> np.ndarray:
    y = np.ones(shape)
    for row in () if is_risk(f) else y:
        block_start(f, row)
    return y


def _of_risk(rho: Any, y: np.ndarray) -> Weights:
    q, n = np.maximum(y[:, 0], 0.0), y.shape[0]
    total = float(q.sum())
    q = q / total if 0.0 < total < np.inf else np.full(n, 1.0 / n)
    risk_project(rho, q)
    conjugate = float(risk_conjugate(rho, q))
    defect = abs(math.fsum(q) - 1.0) + 16 * EPS
    return Weights(q[:, None], conjugate, 2 * abs(conjugate) + risk_terms(rho, n), defect)


def _of_blocks(f: Any, y: np.ndarray) -> Weights:
    n, m = y.shape
    conjugates, sizes = np.empty((2, n))
    worthwhile(project_blocks, y.size, f)(f, y, conjugates, sizes)
    defect = 4 * EPS * (m + 8) * float(np.abs(y).sum() / n)
    return Weights(y / n, float(conjugates.mean()), float(sizes.mean()), defect)


def _dual(problem: Problem, weights: Weights, v: Any) -> float:
    """D(q, v) less its rounding; v is made smaller where r* would be infinite, which the domain of ℓ* allows.

    An affine loss has no other slopes than its own: there the weights are made smaller, where the domain of f* allows.
    """
    g, r, free = problem.inner, problem.penalty, 0
    by_weights = inner_is_affine(g) and not is_risk(problem.outer)
    shrink = _smaller_weights if by_weights else _smaller_slopes
    if isinstance(r, Unpenalised):
        r, free = r.penalty, r.free
        if by_weights:
            share, loose = balancing_weights(g, weights.q, v, free)
            weights = weights._replace(loose=loose)
        else:
            share = balancing_slopes(g, weights.q, v, free)
        weights, v = shrink(problem, weights, v, share)
    sums = dual_sums(g, weights, v, free)
    if not np.isfinite(sums.pull.sum() + sums.off):
        return -np.inf
    part = _finite_share(r, sums)
    if part < 1.0:
        weights, v = shrink(problem, weights, v, np.full(1, part))
        sums = dual_sums(g, weights, v, free)
    q, n = weights.q, weights.q.shape[0]
    inner = float((q * sums.mean).sum())
    penalty = specialise(conjugate_above, r)(r, -sums.pull, sums.off)
    slack = (16 * EPS * (n + 16) + weights.loose) * weights.size
    slack += (sum_rounding(g) + weights.loose) * float((np.abs(q) * sums.size).sum())
    slack += weights.defect * float(sums.size.max()) + 4 * EPS * abs(penalty) + TINY
    bound = -weights.conjugate - inner - penalty - slack
    return float(bound) if np.isfinite(bound) else -np.inf


def _finite_share(r: Any, sums: Sums) -> float:
    """The largest part of the pull, up to all of it, at which r* is finite."""
    above = specialise(conjugate_above, r)
    if above(r, -sums.pull, 4 * sums.off) < np.inf:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if above(r, -middle * sums.pull, 4 * middle * sums.off) < np.inf:
            low = middle
        else:
            high = middle
    return low


def _smaller_slopes(problem: Problem, weights: Weights, v: Any, share: np.ndarray) -> tuple[Weights, Any]:
    return weights, scaled_slopes(problem.inner, v, share)


def _smaller_weights(problem: Problem, weights: Weights, v: Any, share: np.ndarray) -> tuple[Weights, Any]:
    f, n, m = problem.outer, *weights.q.shape
    wanted = n * weights.q * share.reshape(-1, m if share.size > 1 else 1)
    y, zero = wanted.copy(), np.zeros((1, m))
    smaller, nothing = _of_blocks(f, y), _of_blocks(f, zero)
    if zero.any() or not np.allclose(y, wanted, rtol=4 * EPS, atol=0.0):  # the domain of f* does not allow it
        return smaller._replace(conjugate=np.inf), v
    # f* is convex: to make weights smaller by a part of them costs no more than that part of the way to none at all
    return smaller._replace(size=smaller.size + abs(nothing.conjugate) + nothing.size, loose=weights.loose), v
