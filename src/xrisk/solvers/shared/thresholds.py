"""Shared by methods with a threshold sᵢ for each row i of pairs: first thresholds, and samples of both sides."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Solver
from xrisk.compile import kernel, worthwhile
from xrisk.data.products import row_scores
from xrisk.functions import CVaRRisk, risk_threshold
from xrisk.functions.loss import loss_value
from xrisk.functions.parameters import checks, finite
from xrisk.generic import generic
from xrisk.inner.oracle import batch_scores, draw, inner_count, place_block, tail_value
from xrisk.inner.pairs import PairBatch, Pairs
from xrisk.inner.tail import Tail
from xrisk.problem import Problem, inner_values
from xrisk.solvers.base import Form, parameters_alone, prepare_as_stated
from xrisk.solvers.card import Need
from xrisk.solvers.shared.epochs import settled_epoch
from xrisk.solvers.shared.tracking import corrects, next_block

PARTIAL_AUC = Need(
    "a two-way partial AUC",
    lambda problem: type(problem.inner) in (Tail, Pairs) and type(problem.outer) is CVaRRisk,
    "inner",
)
SAMPLE = 32  # rows i per iteration, by default


@checks(value=finite)
class FixedThresholds(NamedTuple):
    """All sᵢ and s′ start at ``value``. With 0 every loss counts; the STACO paper has 1.

    w does not move while a threshold is above all losses, and a threshold moves in one of n/S iterations only.
    """

    value: float = 0.0


class ExactThresholds(NamedTuple):
    """All sᵢ and s′ start at their optima for the first w, by one full pass before the first iteration."""


@generic
def first_thresholds(first, problem, w):
    """(s, s′) at w: the first thresholds of all rows i (n,), and that of the risk."""


@first_thresholds.of(FixedThresholds)
def _(first, problem, w):
    return np.full(inner_count(problem.inner), float(first.value)), float(first.value)


@first_thresholds.of(ExactThresholds)
def _(first, problem, w):
    pairs, k = problem.inner.pairs, problem.inner.top
    scores = pairs.side * row_scores(pairs.rows, w[None, :])[:, 0]
    last = np.partition(scores[pairs.inner], -k)[-k]  # the lowest of the k rows j with the highest scores
    s = scores[pairs.outer] - last
    worthwhile(losses_of_margins, s.size, pairs.loss)(pairs.loss, s)
    return s, float(risk_threshold(problem.outer, np.ascontiguousarray(inner_values(problem, w)[:, 0])))


@kernel
def losses_of_margins(loss, margins):
    """Replace every margin by its loss."""
    for i in range(margins.size):
        margins[i] = loss_value(loss, margins[i], 1.0)


def prepare_two_way(problem: Problem, solver: Solver) -> tuple[Problem, Any]:
    """`prepare_as_stated` for methods of two-way partial AUC."""
    if "blocks" in solver._fields and solver.blocks is None:
        solver = solver._replace(blocks=min(SAMPLE, inner_count(problem.inner)))
    problem, solver = prepare_as_stated(problem, solver)
    if type(problem.inner) is Pairs:  # a tail of all rows j
        problem = problem._replace(inner=Tail(problem.inner, problem.inner.inner.size))
    return problem, solver


def prepare_stages(problem: Problem, solver: Solver) -> tuple[Problem, Any]:
    """`prepare_two_way`, with the stage settled: by default it samples every row i ten times on average."""
    problem, ready = prepare_two_way(problem, solver)
    if ready.epoch is None:
        return problem, ready._replace(epoch=-(-10 * inner_count(problem.inner) // ready.blocks))
    return problem, ready._replace(epoch=settled_epoch(ready.epoch, problem, 1))


def lazy_mean(x: np.ndarray, x_sum: np.ndarray, touched: np.ndarray, first: int, t: int) -> np.ndarray:
    """Means of x (n,) over the iterates of first, …, t − 1, of which ``x_sum`` has those up to ``touched``."""
    return x.copy() if t == first else (x_sum + (t - touched) * x) / (t - first)


def no_duals(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Ones, for methods without duals, which minimise their own objectives."""
    return np.ones((inner_count(problem.inner), 1))


TWO_WAY = Form(prepare_two_way, parameters_alone, no_duals)
STAGES = Form(prepare_stages, parameters_alone, no_duals)


@register_jitable(forceinline=True)  # called, it would count references to all arrays it is given
def draw_blocks(g, order, batch, rng):
    """Draw blocks without replacement; the head of ``order`` lists them."""
    for a in range(batch.rows.size):
        place_block(g, next_block(order, a, rng), batch, a)


@register_jitable(forceinline=True)
def draw_pairs(g, w, order, batch_i, batch_j, rng):
    """Draw rows i without replacement and rows j with it, and compute their scores at w."""
    draw_blocks(g, order, batch_i, rng)
    draw(g, order[0], rng, batch_j)
    batch_scores(g, w, batch_i)
    batch_scores(g, w, batch_j)


class Tails(NamedTuple):
    """The part of a state that methods with tracked inner values keep for every row i."""

    u: np.ndarray  # (n,) u[i] tracks gᵢ(w, sᵢ)
    s: np.ndarray  # (n,) thresholds
    s_prev: np.ndarray  # (n,) thresholds before they moved last
    touched: np.ndarray  # (n,) iteration at which they did; −1 before


def first_tails(s: np.ndarray) -> Tails:
    """Before the first value is tracked."""
    return Tails(np.zeros(s.size), s, s.copy(), np.full(s.size, -1))


@register_jitable
def same_rows(batch):
    """A batch of the same rows, for their scores at another point."""
    size = batch.rows.size
    return PairBatch(batch.rows, np.empty(size), np.empty(size), np.empty(size))


@register_jitable(forceinline=True)
def past_value(g, correction, tails, i, t, score, batch_j):
    """gᵢ(w, sᵢ; below) at the iterate and the threshold of before, if the filter of the inner values looks at it."""
    if not corrects(correction):
        return 0.0
    return tail_value(g, score, batch_j, tails.s_prev[i] if tails.touched[i] == t - 1 else tails.s[i])


@register_jitable(forceinline=True)
def track_tail(tails, i, value, value_prev, track, correction):
    """Update uᵢ by the filter of `tracking`, and return the old uᵢ.

    The first sample of a row initialises uᵢ without a correction.
    """
    if tails.touched[i] < 0:
        tails.u[i], value_prev = value, value
    old = tails.u[i]
    tails.u[i] += track * (value - old)
    if correction != 0.0:
        tails.u[i] += correction * (value - value_prev)
    return old


@register_jitable(forceinline=True)
def move_tail(tails, i, t, change):
    """sᵢ ← sᵢ − change."""
    tails.s_prev[i] = tails.s[i]
    tails.touched[i] = t
    tails.s[i] -= change
