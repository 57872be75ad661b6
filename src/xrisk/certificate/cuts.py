"""Cuts: linear functions below an objective, proved by weights and slopes, and what a mixture of them proves.

Of pairs with a loss that does not increase, weights q of the rows i and p of the rows j, each in its capped simplex,
and slopes v of the losses at any scores prove

    F(w) ≥ Σ qᵢ pⱼ (vᵢⱼ side·⟨xᵢ − xⱼ, w⟩ − ℓ*(vᵢⱼ))    for all w,

a linear function of w. At the scores of a point, with the weights of its worst case, it touches F there. A mixture of
cuts is a cut, and c + ⟨s, w⟩ ≤ F(w) proves min F + r ≥ c − r*(−s). Everything allows for rounding, as in `certify`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Penalty
from xrisk.certificate.penalties import bound_conjugate, penalty_rounding
from xrisk.certificate.rounding import EPS, TINY, loss_rounding
from xrisk.compile import worthwhile
from xrisk.data.products import adjoint_rounding, row_adjoint, scaled_norms
from xrisk.functions import loss_domain, loss_slope, loss_value, risk_cap, risk_is_support
from xrisk.generic import generic
from xrisk.inner.oracle import inner_count
from xrisk.inner.pairs import Pairs
from xrisk.inner.passes import column_sizes, pass_loss, pass_rows, scores_at
from xrisk.inner.sorted_pairs import pair_rounding
from xrisk.inner.tail import Tail, corner, pair_coefs, tail_scores
from xrisk.problem import Problem, penalty_at

MIXTURES = 41  # of two cuts that are tried


class Sizes(NamedTuple):
    """The sizes that rounding errors are measured by."""

    scale: np.ndarray  # (d,) root mean squares of the columns of differences
    ahead: np.ndarray  # (n,) lengths of the rows i over the scale
    behind: np.ndarray  # (m,) and of the rows j
    repeats: int  # of a row among the rows i and j


class Cut(NamedTuple):
    """A linear function offset + ⟨slope, w⟩ below F, up to rounding, and F where it touches."""

    value: float  # F
    upper: float  # a bound on F
    offset: float
    slope: np.ndarray  # (d,)
    slack: float  # error bound of the offset
    spread: float  # error bound of the entries of the slope, over the scale
    weights: np.ndarray  # (n,) of the rows i


class Cuts(NamedTuple):
    """Arrays of cuts; the first ``filled`` are in use."""

    slopes: np.ndarray  # (capacity, d)
    offsets: np.ndarray  # (capacity,)
    slacks: np.ndarray  # (capacity,)
    spreads: np.ndarray  # (capacity,)
    filled: int


class Line(NamedTuple):
    """A linear function offset + ⟨slope, w⟩ below an objective without its penalty, up to rounding."""

    offset: float
    slope: np.ndarray  # (d,)
    error_bound: np.ndarray  # (d,) of the slope
    slack: float  # error bound of the offset

    def bound(self, penalty: Penalty) -> float:
        """The lower bound on the optimum that the line proves under a penalty."""
        if not math.isfinite(self.offset - self.slack):
            return -np.inf
        upper = worthwhile(bound_conjugate, self.slope.size, penalty)(penalty, -self.slope, self.error_bound)
        return self.bound_by(float(upper))

    def bound_by(self, conjugate: float) -> float:
        """The same, given an upper bound on r*(−slope)."""
        bound = self.offset - conjugate - self.slack - 4 * EPS * abs(conjugate) - TINY
        return bound if math.isfinite(bound) else -np.inf


@generic
def cut_at(g, sizes, rho, w):
    """The cut that touches ρ(g₁, …) at w."""


@generic
def cut_sizes(g):
    """The `Sizes` of the inner functions."""


def has_cuts(problem: Problem) -> bool:
    """Whether cuts of the problem are known: a CVaR or the maximum of losses of pairs that do not increase."""
    if not (cut_at.implemented(problem.inner) and risk_is_support(problem.outer)):
        return False
    loss = pass_loss(problem.inner)
    falls = loss_domain.implemented(loss) and loss_domain(loss, 1.0)[1] <= 0.0
    return bool(falls and loss_rounding.implemented(loss))


@cut_sizes.of(Pairs)
def _(g):
    scale = column_sizes(g)
    scale = np.where(scale > 0.0, scale, 1.0)
    repeats = int(np.bincount(g.outer).max() + np.bincount(g.inner).max())
    rows = scaled_norms(pass_rows(g), scale)
    return Sizes(scale, rows[g.outer], rows[g.inner], repeats)


cut_sizes.of(Tail)(lambda g: cut_sizes(g.pairs))


@cut_at.of(Pairs)
def _(g, sizes, rho, w):
    return cut_at(Tail(g, g.inner.size), sizes, rho, w)


@cut_at.of(Tail)
def _(g, sizes, rho, w):
    pairs, loss = g.pairs, g.pairs.loss
    with np.errstate(over="ignore", invalid="ignore"):
        ahead, behind = tail_scores(g, scores_at(g, w))
    size = max(float(np.abs(ahead).max()), float(np.abs(behind).max()))
    if not size < np.inf:  # the point is too far away to be evaluated
        return Cut(np.inf, np.inf, -np.inf, np.zeros(w.size), np.inf, np.inf, np.ones(ahead.size))
    centre = 0.5 * (float(ahead.mean()) + float(behind.mean()))
    ahead, behind = ahead - centre, behind - centre  # any scores give a cut; small ones have more digits
    low = 1.0 / risk_cap(rho, inner_count(g))
    with np.errstate(over="ignore", invalid="ignore"):
        found = corner(loss, ahead, behind, low, g.top)
        slope = row_adjoint(pairs.rows, pair_coefs(pairs, found.up, found.down)[:, None])[0]
        offset = found.value - (float(found.up @ ahead) - float(found.down @ behind))
        error, slack, spread = _rounding(g, sizes, w, found, (ahead, behind, size))
    return Cut(found.value, found.value + error, offset, slope, slack, spread, ahead.size * found.share)


def _rounding(g: Tail, sizes: Sizes, w: np.ndarray, found: Any, scores: Any) -> tuple[float, float, float]:
    """Error bounds of F, of the offset, and of the entries of the slope over their scale."""
    (ahead, behind, size), loss = scores, g.pairs.loss
    d, n, longest = w.size, ahead.size + behind.size, max(float(sizes.ahead.max()), float(sizes.behind.max()))
    each = pair_rounding(loss, ahead.size, behind.size) + EPS * (loss_rounding(loss) + 64)
    worst = float(ahead.min() - behind.max())
    # a margin has the errors of the dot products of two rows, and of its own subtractions
    error_bound = 2.0 * EPS * (2 * d + 16) * float(np.linalg.norm(w * sizes.scale)) * longest + 64 * EPS * (1.0 + size)
    steepest, largest = abs(loss_slope(loss, worst - error_bound, 1.0)), abs(loss_value(loss, worst, 1.0))
    error = error_bound * steepest + 4 * each * abs(found.value) + 64 * EPS * largest
    vjp, near = float(np.abs(found.up).sum()), 1.0 + float(np.abs(ahead).max() + np.abs(behind).max())
    slack = 4 * each * (abs(found.value) + 2.0 * vjp * near)
    slack += 64 * EPS * (largest + steepest * near) + EPS * n * vjp * near  # the weights, and sums over the rows
    lengths = float(-found.up @ sizes.ahead - found.down @ sizes.behind)
    spread = (adjoint_rounding(g.pairs.rows) + 2 * each + EPS * (sizes.repeats + 512)) * lengths
    return error, slack, spread + 128 * EPS * steepest * longest + TINY


def cut_bounds(problem: Problem, w: np.ndarray) -> tuple[float, float]:
    """Bounds (primal, dual) at w, by the cuts that touch at w and at zero, and mixtures of the two: two full passes.

    If F is smooth at a minimiser, the cut there is a proof; at a kink, cuts from all sides are needed, which `Bundle`
    collects.
    """
    sizes = cut_sizes(problem.inner)
    at_w, zero = (cut_at(problem.inner, sizes, problem.outer, point) for point in (w, np.zeros_like(w)))
    if not np.isfinite(at_w.slope.sum() + at_w.offset + at_w.slack + at_w.spread):
        at_w = zero._replace(upper=np.inf)
    numbers = [np.array(pair) for pair in zip(at_w[2:6], zero[2:6], strict=True)]
    cuts = Cuts(numbers[1], numbers[0], numbers[2], numbers[3], 2)
    mixtures = (np.array([part, 1.0 - part]) for part in np.linspace(0.0, 1.0, MIXTURES))
    dual = max(mixture_lower_bound(problem, cuts, q, sizes.scale) for q in mixtures)
    return objective_upper_bound(problem, at_w, w), dual


def objective_upper_bound(problem: Problem, cut: Cut, w: np.ndarray) -> float:
    """An upper bound on the objective at w, where the cut touches."""
    upper = cut.upper + penalty_at(problem.penalty, w) + penalty_rounding(problem.penalty, w)
    upper += 4 * EPS * abs(upper)
    return float(upper) if math.isfinite(upper) else np.inf


def mixture_lower_bound(problem: Problem, cuts: Cuts, share: np.ndarray, scale: np.ndarray) -> float:
    """A lower bound on the optimum by a mixture of the cuts; ``share`` (capacity,) is not negative."""
    return mixed(cuts, share, scale, np.zeros(scale.size)).bound(problem.penalty)


def mixed(cuts: Cuts, share: np.ndarray, scale: np.ndarray, tilt: np.ndarray) -> Line:
    """The mixture of cuts, less ⟨tilt, w⟩; shares are not negative; they prove nothing if their sum is zero."""
    total, filled = math.fsum(share), slice(0, min(cuts.filled, share.size))
    if not 0.0 < total < np.inf:
        return Line(-np.inf, np.zeros(tilt.size), np.zeros(tilt.size), np.inf)
    q, slopes, offsets = share[filled] / total, cuts.slopes[filled], cuts.offsets[filled]
    each = EPS * (2 * q.size + 32)
    error_bound = each * (q @ np.abs(slopes) + np.abs(tilt)) + (1.0 + each) * float(q @ cuts.spreads[filled]) * scale
    slack = (1.0 + each) * float(q @ cuts.slacks[filled]) + each * float(q @ np.abs(offsets))
    return Line(float(q @ offsets), q @ slopes - tilt, error_bound + TINY, slack)
