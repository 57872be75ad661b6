"""Weak duality: a proof of how far a point can be from the optimum."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import canonical, kernel, specialise
from xrisk.functions import (
    Unpenalised,
    block_conjugate,
    block_project,
    block_slope,
    block_value,
    loss_conjugate,
    loss_domain,
    loss_kink,
    loss_slope,
    penalty_conjugate,
    penalty_value,
    risk_conjugate,
    risk_project,
    risk_value,
    risk_weights,
    scores_conjugate,
    scores_slope,
)
from xrisk.generic import generic
from xrisk.inner.groups import Groups, row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel, sample_loss
from xrisk.inner.rows import add_row, row_dot, row_norm, row_size
from xrisk.problem import Problem, is_risk

EPS = np.finfo(np.float64).eps
SMOOTHING = (1e-3, 1e-2, 1e-1, 1.0)  # widths tried for the duals of losses with a kink


class Certificate(NamedTuple):
    """dual ≤ optimum ≤ primal, so the point is within gap = primal − dual of the optimum.

    ``relative`` is the gap over the larger of |primal| and |dual|.
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
    slopes of the loss there; the best bound is kept. Both sides allow for rounding.

    Parameters
    ----------
    problem : Problem
        Group means of a linear model, with a penalty or domain whose conjugate is finite: l2, elastic net, ball, box.
    result : Result, Optimum, or anything with ``w`` and, if known, ``dual`` (n, m) and ``slopes``
        The point and the dual weights.

    Returns
    -------
    Certificate
        With ``dual = -inf`` where the penalty leaves the dual without a finite value.

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
    problem = canonical(problem)
    if not isinstance(problem.inner, Groups):
        raise TypeError(f"a certificate needs group means of a linear model, got {type(problem.inner).__name__}")
    w = np.ascontiguousarray(result.w, dtype=np.float64)
    u, u_error = _inner_values(problem.inner, w)
    primal = _primal(problem, w, u + u_error)
    dual = -np.inf
    for v in _slopes(problem.inner, w, result):
        for q in _weights(problem, u, result):
            dual = max(dual, _dual(problem, w, q, v))
    gap = max(primal - dual, 0.0)
    return Certificate(primal, dual, gap, gap / max(abs(primal), abs(dual), np.finfo(float).tiny))


def _primal(problem: Problem, w: np.ndarray, u: np.ndarray) -> float:
    if is_risk(problem.outer):
        risk = risk_value(problem.outer, np.ascontiguousarray(u[:, 0]))
    else:
        risk = float(np.mean([block_value(problem.outer, row) for row in u]))
    penalty = penalty_value(problem.penalty, w)
    return float(risk + penalty + 4 * EPS * ((u.shape[0] + 4) * abs(risk) + (w.size + 4) * abs(penalty)))


def _weights(problem: Problem, u: np.ndarray, result: Any) -> list[np.ndarray]:
    """Candidates for the dual weights y (n, m), each feasible; of a risk, y = n·q."""
    known = getattr(result, "dual", None)
    if not is_risk(problem.outer):
        duals = [np.empty_like(u)]
        for i in range(u.shape[0]):
            block_slope(problem.outer, u[i], duals[0][i])
        if known is not None:
            duals.append(np.array(known, dtype=np.float64))
        for y in duals:
            for row in y:
                block_project(problem.outer, row)
        return duals
    n = u.shape[0]
    worst = np.empty(n)
    risk_weights(problem.outer, np.ascontiguousarray(u[:, 0]), worst)
    candidates = [worst]
    if known is not None:
        q = np.array(known[:, 0], dtype=np.float64)
        candidates.append(q / n)
        if q.sum() > 0:
            candidates.append(q / q.sum())
    for q in candidates:
        risk_project(problem.outer, q)
    return [n * q[:, None] for q in candidates]


def _slopes(g: Groups, w: np.ndarray, result: Any) -> list[np.ndarray]:
    """Candidates for the loss duals v (positions, scores)."""
    known = getattr(result, "slopes", None)
    if known is not None:
        return [np.ascontiguousarray(known, dtype=np.float64).reshape(int(g.offsets[-1]), -1)]
    kinked = isinstance(g.model, LinearModel) and type(g.model.loss) in loss_kink.table
    candidates = []
    for width in (0.0, *SMOOTHING) if kinked else (0.0,):
        v = np.empty((int(g.offsets[-1]), dual_width(g.model)))
        specialise(slopes_at, g)(g, w, width, v)
        candidates.append(v)
    return candidates


def _dual(problem: Problem, w: np.ndarray, y: np.ndarray, v: np.ndarray) -> float:
    g, n = problem.inner, y.shape[0]
    q = y / n
    if isinstance(problem.penalty, Unpenalised):
        v = _balanced(g, q, v)
    conjugates, combined = np.zeros_like(q), np.zeros(w.size)
    size, spread = specialise(dual_sums, g)(g, q, v, conjugates, combined)
    if is_risk(problem.outer):
        outer = risk_conjugate(problem.outer, np.ascontiguousarray(q[:, 0]))
    else:
        outer = float(np.mean([block_conjugate(problem.outer, row) for row in y]))
    inner = float((q * conjugates).sum())
    rounding = 4 * EPS * (float(np.diff(g.offsets).max()) + n + 8)
    if isinstance(problem.penalty, Unpenalised):
        combined[-problem.penalty.free :] = 0.0  # balanced to rounding, which the next line allows for
    # every |entry| grows by the rounding of the sums: no conjugate of ours falls with it
    moved = -combined - np.sign(combined) * rounding * spread
    penalty = max(penalty_conjugate(problem.penalty, -combined), penalty_conjugate(problem.penalty, moved))
    bound = -outer - inner - penalty
    bound -= rounding * (size + abs(outer)) + 4 * EPS * (w.size + 8) * abs(penalty) + rounding * spread * np.linalg.norm(w)
    return float(bound) if np.isfinite(bound) else -np.inf


def _balanced(g: Groups, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The slopes with one sign scaled down so that their weighted sum is zero: an intercept is free."""
    sizes = np.diff(g.offsets)
    part = np.repeat(q.reshape(-1) / sizes, sizes)[:, None]
    part = part * getattr(g.weight, "weights", np.ones(part.size))[:, None]
    above, below = float((part * np.maximum(v, 0.0)).sum()), float((part * np.maximum(-v, 0.0)).sum())
    if above == below:
        return v
    up, down = (below / above, 1.0) if above > below else (1.0, above / below)
    return np.where(v > 0, up * v, down * v)


def _inner_values(g: Groups, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group means and a bound on their rounding errors, both (n, m)."""
    n = (g.offsets.size - 1) // g.dim
    u, error = np.empty((n, g.dim)), np.empty((n, g.dim))
    v = np.empty((int(g.offsets[-1]), dual_width(g.model)))
    specialise(slopes_at, g)(g, w, 0.0, v)
    specialise(means_with_error, g)(g, w, v, float(np.linalg.norm(w)), u, error)
    return u, error


@generic
def dual_width(model):
    """Number of dual variables of a row."""


@generic
def sample_slope(model, k, w, width, v):
    """Write the slope of the loss on row k, smoothed over ``width`` where it has a kink, into ``v``."""


@generic
def sample_conjugate(model, k, v):
    """ℓ*(v) on row k."""


@generic
def add_sample_dual(model, k, scale, v, combined):
    """Add scale·v⊗x_k to ``combined``."""


@dual_width.of(LinearModel)
def _(model):
    return 1


@sample_slope.of(LinearModel)
def _(model, k, w, width, v):
    z, y = row_dot(model.rows, k, w), model.target[k]
    low, high = loss_domain(model.loss, y)
    v[0] = min(max(smoothed_slope(model.loss, z, y, width), low), high)


@sample_conjugate.of(LinearModel)
def _(model, k, v):
    return loss_conjugate(model.loss, v[0], model.target[k])


@add_sample_dual.of(LinearModel)
def _(model, k, scale, v, combined):
    add_row(model.rows, k, scale * v[0], combined)


@dual_width.of(SoftmaxModel)
def _(model):
    return model.n_classes


@sample_slope.of(SoftmaxModel)
def _(model, k, w, width, v):
    d = row_size(model.rows)
    z = np.empty(model.n_classes)
    for c in range(z.size):
        z[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])
    scores_slope(model.loss, z, model.target[k], v)


@sample_conjugate.of(SoftmaxModel)
def _(model, k, v):
    return scores_conjugate(model.loss, v, model.target[k])


@add_sample_dual.of(SoftmaxModel)
def _(model, k, scale, v, combined):
    d = row_size(model.rows)
    for c in range(v.size):
        add_row(model.rows, k, scale * v[c], combined[c * d : (c + 1) * d])


@generic
def smoothed_slope(loss, z, y, width):
    """Slope of the loss, of its Moreau envelope if it is piecewise linear and ``width`` is positive."""


@smoothed_slope.otherwise
def _(loss, z, y, width):
    return loss_slope(loss, z, y)


def _envelope_slope(loss, z, y, width):
    low, high, at = loss_kink(loss, y)
    if width == 0.0:
        return loss_slope(loss, z, y)
    return min(max((z - at) / width, low), high)


for _kinked in loss_kink.table:
    smoothed_slope.of(_kinked)(_envelope_slope)


@kernel
def slopes_at(g, w, width, v):
    for p in range(v.shape[0]):
        sample_slope(g.model, row_at(g.index, p), w, width, v[p])


@kernel
def means_with_error(g, w, v, norm, u, error):
    """Group means, and the first-order bound on their rounding: |ℓ′| times that of a dot product, plus that of ℓ."""
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        total, lost, off = 0.0, 0.0, 0.0
        for p in range(low, high):
            k, a = row_at(g.index, p), weight_at(g.weight, p)
            value = sample_loss(g.model, k, w)
            off += a * (np.abs(v[p]).sum() * (w.size + 4) * norm * row_norm(g.model.rows, k) + 16.0 * (1.0 + abs(value)))
            term = a * value - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
        u[i // g.dim, i % g.dim] = total / (high - low)
        error[i // g.dim, i % g.dim] = EPS * off / (high - low)


@kernel
def dual_sums(g, q, v, conjugates, combined):
    """Means of ℓ*(v), the combined rows Σ qᵢ mean vx, and the sizes of the sums that rounding is measured by."""
    size, spread = 0.0, 0.0
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        part = q[i // g.dim, i % g.dim] / (high - low)
        if part == 0.0:
            continue
        total = 0.0
        for p in range(low, high):
            k, a = row_at(g.index, p), weight_at(g.weight, p)
            conjugate = sample_conjugate(g.model, k, v[p])
            total += a * conjugate
            size += abs(part) * a * (abs(conjugate) + 1.0)
            spread += abs(part) * a * np.abs(v[p]).sum() * row_norm(g.model.rows, k)
            add_sample_dual(g.model, k, part * a, v[p], combined)
        conjugates[i // g.dim, i % g.dim] = total / (high - low)
    return size, spread
