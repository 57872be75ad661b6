"""Both sides of a certificate: the objective from above, the dual function from below."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate.cuts import Cuts, cut_bounds, has_cuts
from xrisk.certificate.passes import (
    Bounded,
    Candidate,
    Measured,
    Sums,
    bounded_values,
    dual_sums,
    measured,
    shares_of_slopes,
    shares_of_weights,
    slope_candidates,
    unknown_part,
)
from xrisk.certificate.penalties import bound_conjugate, terms_of_penalty
from xrisk.certificate.reach import Reach, box_of, held_below, kink_size
from xrisk.certificate.rounding import (
    EPS,
    TINY,
    Weights,
    base_weights,
    block_sizes,
    project_blocks,
    risk_above,
    risk_terms,
)
from xrisk.compile import canonical, kernel, worthwhile
from xrisk.data.threads import Interrupted, one_thread_each
from xrisk.functions import (
    block_is_monotone,
    block_start,
    penalty_convexity,
    risk_conjugate,
    risk_project,
    risk_weights,
)
from xrisk.inner.oracle import inner_is_affine, inner_size
from xrisk.inner.passes import score_count, score_size, scores_at, to_centred
from xrisk.problem import Problem, apply_prox, block_slopes, is_risk, penalty_at, risk_at

LEAST = TINY / EPS  # numbers below it have fewer digits
PERFECT = 1e-12
SOME_ROWS = 2000  # enough to see which columns are almost the same
SAME = 1e-12


Choice = tuple[Weights, Candidate]


class Line(NamedTuple):
    """A linear function offset + ⟨vjp, w⟩ below all but the penalty."""

    offset: float
    vjp: np.ndarray  # on the coordinates that are penalised
    error_bound: np.ndarray  # by which every entry of it may be off
    slack: float  # by which the offset may be off


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
        Inner functions with full passes (group means of a linear or softmax model, means over pairs of rows), and an
        outer function or risk, loss and penalty whose rounding is known: a proof refuses what it does not know. Of
        losses in the tail of pairs the cuts at the point and at zero are tried; the run of `Bundle` proves more.
    result : Result, or anything with ``w`` and, if known, ``dual`` (n, m) and ``slopes``
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
    if not certifiable(problem) and has_cuts(problem):
        problem = canonical(problem)
        return between(*cut_bounds(problem, _point(problem, result)))
    return certify_measured(measured(problem), result)


def certify_measured(known: "Measured", result: Any, enough: float = 0.0) -> Certificate:
    """The certificate of a problem whose rows have been measured, as `certify`: in two full passes if all goes well.

    The solver's own weights and slopes are tried first, others only while the relative gap is above ``enough``, and
    until passes are asked to stop: a bound that is found is proved.
    """
    problem = known.problem
    w = _point(problem, result)
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
        z = scores_at(problem.inner, to_centred(known.centre, w))
        u = bounded_values(known, w, z)
        primal = _primal(problem, w, u)
        weights = _weights(problem, u.value, getattr(result, "dual", None))
        candidates = slope_candidates(known, z, getattr(result, "slopes", None))
        return _best_proof(known, primal, ((q, v) for q in weights for v in candidates), enough)


def _best_proof(known: Measured, primal: float, choices: Iterator[Choice], enough: float) -> Certificate:
    """The certificate of the weights and slopes that prove most; what no ridge holds takes more than one choice."""
    found, first, lines = between(primal, -np.inf), None, []
    with contextlib.suppress(Interrupted):
        for choice in choices:
            first = first or choice
            lines.append(_line(known, *choice))
            found = between(primal, max(found.dual, _dual(known, lines[-1])))
            if found.relative <= enough:
                return found
        box = _box(known)
        if first and box.loose.size and primal < np.inf:
            lines += [_line(known, *choice) for choice in _neighbours(known, box, first)]
            cuts = _as_cuts(lines, box.scale)
            found = between(primal, max(found.dual, held_below(box, cuts, primal)))
    return found


NOTHING_PROVED = Certificate(np.inf, -np.inf, np.inf, np.inf)


def certifiable(problem: Problem) -> bool:
    """Whether `certify` knows every part of the problem by walks over its samples."""
    return unknown_part(problem) is None


def between(primal: float, dual: float) -> Certificate:
    """The certificate of two bounds, each proved in its own way."""
    gap = max(primal - dual, 0.0)
    return Certificate(primal, dual, gap, gap / max(abs(primal), abs(dual), LEAST) if gap < np.inf else np.inf)


def is_perfect(known: Certificate, size: float) -> bool:
    """Whether next to nothing is left of an objective of this size: zero has no digits to compare a gap with."""
    return max(known.gap, known.primal) <= max(PERFECT * size, LEAST)


def _point(problem: Problem, result: Any) -> np.ndarray:
    """The point; moved into the domain where it is outside by no more than rounding."""
    w, d = np.array(result.w, dtype=np.float64), inner_size(problem.inner)
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w must be finite and of shape ({d},), got shape {w.shape}")
    if penalty_at(problem.penalty, w) < np.inf:
        apply_prox(problem.penalty, w, TINY)  # so short a step is the projection
    return w


def _primal(problem: Problem, w: np.ndarray, values: Bounded) -> float:
    (u, error), f = values, problem.outer
    n, m = u.shape
    penalty = penalty_at(problem.penalty, w)
    if not (np.isfinite(u + error).all() and penalty < np.inf):
        return np.inf
    if is_risk(f):
        top, size = (u + error)[:, 0], float(np.abs(u).max() + error.max())
        value, plain = risk_at(f, top), risk_above(f, top)
        drowned = not value + 16 * EPS * (n + m + 16) * risk_terms(f, n) < plain
        size += 0.0 if drowned else risk_terms(f, n)
        above = np.array([plain if drowned else value])
    else:
        ends = (u + error,) if block_is_monotone(f) else (u - error, u + error)  # convex: largest at an end
        parts = [end.reshape(-1, m if block_is_monotone(f) else 1) for end in ends]
        ends_values, sizes = np.empty((2, len(parts), len(parts[0])))
        for part, value, terms in zip(parts, ends_values, sizes, strict=True):
            worthwhile(block_sizes, part.size, f)(f, part, value, terms)
        share = len(parts[0]) / n
        above, size = ends_values.max(axis=0) * share, float(sizes.mean(axis=1).max()) * share
    terms = float(worthwhile(terms_of_penalty, w.size, problem.penalty)(problem.penalty, w))
    slack = 16 * EPS * (n + m + 16) * size + 4 * EPS * (w.size + 16) * terms
    slack += TINY * (1.0 + w.size * (1.0 + penalty_convexity(problem.penalty)))
    primal = float(above.mean() + penalty + slack)
    return np.inf if math.isnan(primal) else primal


def _weights(problem: Problem, u: np.ndarray, known: Any) -> Iterator[Weights]:
    """Candidates for the weights, one after another: those that are known, and those of the worst case at u."""
    if known is not None and np.shape(known) != u.shape:
        raise ValueError(f"dual must have shape {u.shape}, got {np.shape(known)}")
    usable, of = 0, _of_risk if is_risk(problem.outer) else _of_blocks
    for candidate in (lambda: np.array(known, dtype=np.float64), lambda: _worst(problem.outer, u))[known is None :]:
        y = candidate()
        if np.isfinite(y).all():
            usable += 1
            yield of(problem.outer, y)
    if not usable:
        yield of(problem.outer, _central(problem.outer, u.shape))
    if is_risk(problem.outer) and risk_above(problem.outer, np.zeros(len(u))) < np.inf:
        # ρ* is zero at the base, and has no digits to lose in λ
        yield Weights(base_weights(problem.outer, len(u))[:, None], 0.0, 0.0, 16 * EPS)


def _worst(f: Any, u: np.ndarray) -> np.ndarray:
    if not np.isfinite(u).all():
        return np.full_like(u, np.nan)
    if is_risk(f):
        q = np.empty(u.shape[0])
        worthwhile(weigh, q.size, f)(f, np.ascontiguousarray(u[:, 0]), q)
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
    conjugate = float(worthwhile(project_weights, n, rho)(rho, q))
    defect = abs(math.fsum(q) - 1.0) + 16 * EPS
    return Weights(q[:, None], conjugate, 2 * abs(conjugate) + risk_terms(rho, n), defect)


@kernel
def weigh(rho, u, q):
    risk_weights(rho, u, q)


@kernel
def project_weights(rho, q):
    """Move q into the dual set; ρ*(q)."""
    risk_project(rho, q)
    return risk_conjugate(rho, q)


def _of_blocks(f: Any, y: np.ndarray) -> Weights:
    n, m = y.shape
    conjugates, sizes = np.empty((2, n))
    worthwhile(project_blocks, y.size, f)(f, y, conjugates, sizes)
    defect = 4 * EPS * (m + 8) * float(np.abs(y).sum() / n)
    return Weights(y / n, float(conjugates.mean()), float(sizes.mean()), defect)


def _line(known: Measured, weights: Weights, slopes: Candidate) -> Line:
    """What weights and slopes prove of all but the penalty; v is made smaller where r* would be infinite.

    The domain of ℓ* allows it. An affine loss has no other slopes than its own: there the weights are made smaller,
    where the domain of f* allows.
    """
    problem, r = known.problem, known.penalty
    by_weights = inner_is_affine(problem.inner) and not is_risk(problem.outer)
    if known.free and by_weights:
        share, loose = shares_of_weights(known, weights.q, slopes)
        weights = _smaller_weights(problem, weights._replace(loose=loose), share)
    elif known.free:
        up, down = shares_of_slopes(known, weights.q, slopes)
        slopes = slopes._replace(up=up * slopes.up, down=down * slopes.down)
    sums = dual_sums(known, weights, slopes)
    if not np.isfinite(sums.vjp.sum() + sums.error_bound.sum()):
        return Line(-np.inf, sums.vjp, sums.error_bound, np.inf)
    part = _finite_share(r, sums)
    if part < 1.0:
        if by_weights:
            weights = _smaller_weights(problem, weights, np.full(1, part))
        else:
            slopes = slopes._replace(up=part * slopes.up, down=part * slopes.down)
        sums = dual_sums(known, weights, slopes)
    q, n = weights.q, weights.q.shape[0]
    slack = (16 * EPS * (n + 16) + weights.loose) * weights.size
    slack += (known.rounding + weights.loose) * float((np.abs(q) * sums.size).sum())
    slack += weights.defect * float(sums.size.max())
    return Line(float(-weights.conjugate - (q * sums.mean).sum()), sums.vjp, sums.error_bound, slack)


def _dual(known: Measured, line: Line) -> float:
    """D(q, v) less its rounding."""
    if not np.isfinite(line.offset - line.slack):
        return -np.inf
    penalty = worthwhile(bound_conjugate, line.error_bound.size, known.penalty)(
        known.penalty, -line.vjp, line.error_bound
    )
    bound = line.offset - penalty - line.slack - 4 * EPS * abs(penalty) - TINY
    return float(bound) if np.isfinite(bound) else -np.inf


def _box(known: Measured) -> Reach:
    """The coordinates that are penalised, and which of them the ridge does not hold."""
    r, g = known.penalty, known.problem.inner
    ridge = float(penalty_convexity(r)) if kink_size.implemented(r) else 0.0
    scale = np.tile(known.scale, score_count(g))[: inner_size(g) - known.free]
    return box_of(ridge, float(kink_size(r)) if ridge else 0.0, scale)


def _neighbours(known: Measured, box: Reach, choice: Choice) -> Iterator[Choice]:
    """The choice with the slopes that it would have on either side, along the columns that the ridge does not hold."""
    (weights, candidate), g = choice, known.problem.inner
    for step in _steps(known, box):
        move = scores_at(g, step)
        for z in (candidate.slopes.z - move, candidate.slopes.z + move):
            yield weights, candidate._replace(slopes=candidate.slopes._replace(z=z))


def _steps(known: Measured, box: Reach) -> np.ndarray:
    """Steps (., d) along the columns that the ridge does not hold, as far as scores go, and each unlike the others.

    Columns that are almost the same differ by little, and that little is a direction of its own.
    """
    g = known.problem.inner
    ones = np.zeros((box.loose.size, inner_size(g)))
    ones[np.arange(box.loose.size), box.loose] = 1.0 / box.scale[box.loose]
    every = max(known.sizes.size // SOME_ROWS, 1)
    moves = np.stack([scores_at(g, one)[::every].reshape(-1) for one in ones])
    turn, sizes, _ = np.linalg.svd(moves, full_matrices=False)
    apart = sizes > SAME * sizes[0]
    return (turn[:, apart] * (score_size(g) * np.sqrt(moves.shape[1]) / sizes[apart])).T @ ones


def _as_cuts(lines: list[Line], scale: np.ndarray) -> Cuts:
    kept = [line for line in lines if np.isfinite(line.offset - line.slack)]
    spreads = np.array([float((line.error_bound / scale).max()) * (1.0 + 4 * EPS) for line in kept])
    offsets, slacks = np.array([line.offset for line in kept]), np.array([line.slack for line in kept])
    return Cuts(np.array([line.vjp for line in kept]), offsets, slacks, spreads, len(kept))


def _finite_share(r: Any, sums: Sums) -> float:
    """The largest part of the adjoint, up to all of it, at which r* is finite."""
    above = worthwhile(bound_conjugate, sums.error_bound.size, r)
    if above(r, -sums.vjp, 4 * sums.error_bound) < np.inf:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if above(r, -middle * sums.vjp, 4 * middle * sums.error_bound) < np.inf:
            low = middle
        else:
            high = middle
    return low


def _smaller_weights(problem: Problem, weights: Weights, share: np.ndarray) -> Weights:
    f, n, m = problem.outer, *weights.q.shape
    wanted = n * weights.q * share.reshape(-1, m if share.size > 1 else 1)
    y, zero = wanted.copy(), np.zeros((1, m))
    smaller, nothing = _of_blocks(f, y), _of_blocks(f, zero)
    if zero.any() or not np.allclose(y, wanted, rtol=4 * EPS, atol=0.0):  # the domain of f* does not allow it
        return smaller._replace(conjugate=np.inf)
    # f* is convex: to make weights smaller by a part of them costs no more than that part of the way to none at all
    return smaller._replace(size=smaller.size + abs(nothing.conjugate) + nothing.size, loose=weights.loose)
