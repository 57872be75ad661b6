"""Passes over all samples for both sides of a certificate: values, and sums over slopes, with error bounds."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner, Loss, Penalty
from xrisk.certificate.penalties import penalised_part, penalty_needs
from xrisk.certificate.rounding import (
    EPS,
    TINY,
    Weights,
    block_conjugate_terms,
    block_terms,
    loss_rounding,
    outer_conjugate_terms,
    outer_terms,
    risk_terms,
)
from xrisk.compile import canonical
from xrisk.data.products import adjoint_rounding, row_scores, scaled_norms, with_intercept
from xrisk.functions import block_value, loss_is_affine, loss_kink
from xrisk.functions.smoothing import plain_loss, smoothable_loss
from xrisk.inner.oracle import inner_count, inner_dim, inner_size
from xrisk.inner.passes import (
    NO_SHARE,
    Scores,
    Slopes,
    adjoint,
    as_linear_groups,
    centred,
    column_sizes,
    pass_loss,
    pass_rows,
    score_count,
    to_centred,
    walk,
    walk_rounding,
    with_loss,
)
from xrisk.inner.visitors import DualTerms, FreeSlope, LossBounds
from xrisk.problem import Problem, is_risk

# widths tried for the duals of losses with a kink, relative to the mean distance of scores from it
SMOOTHING = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)


class Measured(NamedTuple):
    """A problem and the sizes that its rounding errors are measured by."""

    problem: Problem
    inner: Inner  # with a loss that can be smoothed
    penalty: Penalty  # on the coordinates that are penalised
    free: int  # coordinates, the last ones, that are not
    scale: np.ndarray  # (columns,) root mean squares of the columns
    sizes: np.ndarray  # (rows,) lengths of the rows over the scale
    free_entry: np.ndarray  # (rows,) entries in the free coordinate
    centre: np.ndarray  # (d,) what a free intercept absorbs
    target_error: float  # error bound of the intercept and a target once the centre of the targets is taken out
    rounding: float  # relative error of sums over the samples
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients


class Bounded(NamedTuple):
    """Numbers, each with an error bound: its distance from the real number that it stands for."""

    value: np.ndarray
    error: np.ndarray


class Sums(NamedTuple):
    """The sums over a choice of slopes v."""

    mean: np.ndarray  # (n, m) of ℓ*(v)
    size: np.ndarray  # (n, m) of its terms
    vjp: np.ndarray  # Σᵢ qᵢ mean v⊗x on the coordinates that are penalised
    error_bound: np.ndarray  # of every entry of it


class Candidate(NamedTuple):
    """Slopes of the losses, times ``up`` where they increase a free coordinate and ``down`` where they decrease it."""

    slopes: Slopes
    up: float = 1.0
    down: float = 1.0

    def times(self, up: float, down: float) -> "Candidate":
        """The slopes made smaller by two more factors."""
        return self._replace(up=up * self.up, down=down * self.down)


def measured(problem: Problem, columns: np.ndarray | None = None, centre: np.ndarray | None = None) -> Measured:
    """The problem, its rows measured once for all certificates; unknown parts are refused.

    ``columns`` (d,) are sizes of the columns, and ``centre`` (d,) what an intercept absorbs, where they are known.
    """
    refuse_unknown(problem)
    problem = canonical(problem._replace(inner=as_linear_groups(problem.inner)))
    g, (r, free) = problem.inner, penalised_part(problem.penalty)
    g, centre = centred(g, centre) if free == 1 else (g, np.zeros(inner_size(g)))
    problem = problem._replace(inner=g)
    rows = pass_rows(g)
    scale = (column_sizes(g) if columns is None else columns)[: inner_size(g) // score_count(g)]
    scale = np.where(scale > 0.0, scale, 1.0)
    sizes = scaled_norms(rows, scale)
    free_entry = (np.ones if free == 1 and with_intercept(rows) else np.zeros)(sizes.size)
    if free and not free_entry.any():
        last = np.zeros((1, scale.size))
        last[0, -1] = 1.0
        free_entry = row_scores(rows, last)[:, 0]
    rounding = adjoint_rounding(rows) + walk_rounding(g) + EPS * (inner_count(g) + 513)
    inner, passes = with_loss(g, smoothable_loss(pass_loss(g))), np.zeros(2, dtype=np.int64)
    target_error = EPS * (2.0 * abs(float(centre[-1])) + float(np.abs(g.model.target).max())) if centre[-1] else 0.0
    return Measured(problem, inner, r, free, scale, sizes, free_entry, centre, target_error, rounding, passes)


def refuse_unknown(problem: Problem) -> None:
    """Raise an error of one sentence if a certificate does not know a part of the problem."""
    missing = unknown_part(problem)
    if missing is not None:
        raise TypeError(f"a certificate is a proof and refuses what it does not know: {missing}")


def unknown_part(problem: Problem) -> str | None:
    """A sentence on the part of the problem that a certificate does not know; None if it knows all."""
    g, f, r = as_linear_groups(problem.inner), problem.outer, penalised_part(problem.penalty)[0]
    if not walk.implemented(g):
        return f"inner functions with full passes are needed, got {type(g).__name__}"
    verbs: list[tuple[Any, Any]] = [(loss_rounding, plain_loss(pass_loss(g))), *penalty_needs(r)]
    if is_risk(f):
        verbs.append((risk_terms, f))
    elif type(f) in block_value.table:
        verbs += [(block_terms, f), (block_conjugate_terms, f)]
    else:
        verbs += [(outer_terms, f), (outer_conjugate_terms, f)]
    for verb, spec in verbs:
        if not verb.implemented(spec):
            return f"{type(spec).__name__} must implement {verb.__name__}"
    return None


def _scores(known: Measured, slopes: Slopes) -> Scores:
    return Scores(slopes.z, slopes.direction, known.sizes, known.free_entry, slopes.factor)


def at_scores(known: Measured, z: np.ndarray, mu: float = 0.0) -> Slopes:
    """The slopes at the scores z."""
    return Slopes(z, z, np.zeros(inner_count(known.inner) * inner_dim(known.inner)), mu)


def bounded_values(known: Measured, w: np.ndarray, z: np.ndarray) -> Bounded:
    """The inner values (n, m) at w, whose scores are z."""
    g = known.problem.inner
    columns = known.scale.size
    length = float(np.linalg.norm(to_centred(known.centre, w).reshape(-1, columns) * known.scale))
    # a dot product has d roundings; a projection leaves w outside by about as many
    error = EPS * (2 * columns + 16) * (length + float(np.abs(known.centre[:-1]) @ np.abs(w[:-1])))
    sums = walk(g, LossBounds(error + known.target_error), _scores(known, at_scores(known, z)), NO_SHARE).sums
    known.passes[0] += 1
    shape = (inner_count(g), inner_dim(g))
    each = walk_rounding(g) + EPS * loss_rounding(pass_loss(g))
    return Bounded(sums[:, 0].copy().reshape(shape), (sums[:, 1] * (1.0 + each) + each * sums[:, 2]).reshape(shape))


def slope_candidates(known: Measured, z: np.ndarray, given: Any) -> list[Candidate]:
    """Slopes to try: the given ones and those at the scores z; without given ones also several smoothed ones."""
    loss = pass_loss(known.problem.inner)
    if given is not None:
        at_z = at_scores(known, z)
        for name, needed in zip(("z", "direction", "factor"), at_z[:3], strict=True):
            found = np.shape(getattr(given, name, 0.0))
            if found != needed.shape:
                kind = type(given).__name__
                raise ValueError(f"slopes must be Slopes with {name} of shape {needed.shape}, got {kind} with {found}")
        return [Candidate(at_z)] if loss_is_affine(loss) else [Candidate(given), Candidate(at_z)]
    return [Candidate(at_scores(known, z, mu)) for mu in _widths(known, loss, z)]


def _widths(known: Measured, loss: Loss, z: np.ndarray) -> tuple[float, ...]:
    if type(loss) not in loss_kink.table or loss_is_affine(loss):
        return (0.0,)
    spread = float(np.abs(z - np.median(z)).mean()) or 1.0
    return (0.0, *(spread * share for share in SMOOTHING))


def dual_sums(known: Measured, weights: Weights, candidate: Candidate) -> Sums:
    """The sums over the slopes, without the free coordinates."""
    g, q = known.inner, weights.q
    slopes = candidate.slopes
    visitor = DualTerms(float(slopes.mu), float(candidate.up), float(candidate.down))
    done = walk(g, visitor, _scores(known, slopes), np.ascontiguousarray(q).reshape(-1))
    mean, size, spread = (done.sums[:, k].reshape(q.shape) for k in range(3))
    vjp = adjoint(g, done.coefs)
    known.passes[1] += 1
    error_bound = (known.rounding + weights.loose) * float((np.abs(q) * spread).sum())
    error_bound += weights.defect * float(spread.max())
    scale = np.tile(known.scale, score_count(g)) if error_bound > 0.0 else np.zeros(vjp.size)
    kept = slice(0, vjp.size - known.free)
    return Sums(mean, size, vjp[kept], error_bound * scale[kept] + (TINY if error_bound > 0.0 else 0.0))


def shares_of_slopes(known: Measured, q: np.ndarray, candidate: Candidate) -> tuple[float, float]:
    """Factors for the slopes that increase and that decrease a free coordinate, so that its own slope is zero."""
    if known.free > 1 or score_count(known.inner) > 1:
        return 0.0, 0.0
    sums = _free_slopes(known, candidate)
    return _balanced(float(q.reshape(-1) @ sums[:, 0]), float(q.reshape(-1) @ sums[:, 1]))


def _balanced(up: float, down: float) -> tuple[float, float]:
    """Factors that make two numbers equal, the larger one smaller."""
    if up > down:
        return down / up, 1.0
    return 1.0, up / down if down > 0.0 else 1.0


def shares_of_weights(known: Measured, q: np.ndarray, candidate: Candidate) -> tuple[np.ndarray, float]:
    """The share of each weight at which the free coordinate has no slope, and the relative error of the shares."""
    if known.free > 1:
        return np.zeros(q.size), 0.0
    sums = _free_slopes(known, candidate)
    net = q.reshape(-1) * (sums[:, 0] - sums[:, 1])
    size, left = float(np.abs(q.reshape(-1)) @ (sums[:, 0] + sums[:, 1])), float(np.abs(net).sum())
    cancelled = size / left if left > 0.0 else np.inf if size > 0.0 else 1.0
    up, down = _balanced(float(net[net > 0].sum()), float(-net[net < 0].sum()))
    return np.where(net > 0, up, np.where(net < 0, down, 1.0)), (walk_rounding(known.inner) + 512 * EPS) * cancelled


def _free_slopes(known: Measured, candidate: Candidate) -> np.ndarray:
    slopes = candidate.slopes
    sums = walk(known.inner, FreeSlope(float(slopes.mu)), _scores(known, slopes), NO_SHARE).sums
    known.passes[0] += 1
    return sums
