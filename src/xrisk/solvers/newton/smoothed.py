"""A convex problem of linear scores, prepared for full-batch methods: kinks smoothed, domains behind barriers.

Kinks are smoothed so that slopes are interior dual points, domains get logarithmic barriers, thresholds of risks are
eliminated. At smoothing θ the gap of a stationary point is known, and vanishes with θ.
"""

from typing import Any

import numpy as np

from xrisk.annotations import Inner
from xrisk.compile import canonical
from xrisk.data.rows import row_count
from xrisk.functions.smoothing import smoothable_loss
from xrisk.inner.oracle import inner_count, inner_dim, inner_size
from xrisk.inner.passes import (
    NO_SHARE,
    as_linear_groups,
    centred,
    column_sizes,
    less_target,
    pass_loss,
    pass_rows,
    score_count,
    score_size,
    scores_at,
    scores_only,
    target_centre,
    walk,
    with_loss,
)
from xrisk.inner.visitors import LossValues
from xrisk.problem import Problem, is_risk
from xrisk.solvers.newton.algebra import positive_or_one
from xrisk.solvers.newton.barrier import Barrier, barrier_count, barrier_of, fix_points, linear_size
from xrisk.solvers.newton.coupling import coupled_value, coupling_of
from xrisk.solvers.newton.points import START, Point, SmoothedProblem, at_smoothing, evaluate, inside, shortfall

LARGEST_COLUMN = 1e150  # root mean square of its entries
SAME = 1e-15  # relative: numbers that differ by less are equal up to rounding
VANISHING = 1e-3  # ridge on scores that nothing else holds, relative to the smoothing


def smoothed_problem(problem: Problem) -> SmoothedProblem:
    """The problem, prepared; raises one sentence where a full-batch method does not know a part of it."""
    problem = canonical(problem)
    g = as_linear_groups(problem.inner)
    if not walk.implemented(g):
        raise ValueError(f"a full-batch method needs inner functions with full passes, got {type(g).__name__}")
    if not barrier_of.implemented(problem.penalty):
        raise ValueError(f"a full-batch method knows no barriers of the penalty {type(problem.penalty).__name__}")
    n, m, d = inner_count(g), inner_dim(g), inner_size(g)
    barrier, fixed, place = fix_points(barrier_of(problem.penalty, d))
    g, centre, columns = centred_columns(g, barrier)
    shape = (1, n) if is_risk(problem.outer) else (n, m)
    g = with_loss(g, smoothable_loss(pass_loss(g)))
    coupling, linear, passes = coupling_of(problem.outer, n, m), linear_size(barrier, columns**2), np.zeros(2, np.int64)
    task = SmoothedProblem(
        problem, g, coupling, barrier, fixed, place, n, shape, 1.0, 1.0, 1.0, linear, np.zeros(d), columns, centre,
        passes, passes,
    )  # fmt: skip
    x = inside(task, np.zeros(d))
    point = evaluate(task, x, scores_at(task.inner, x), 1e-3)
    task = _with_ridge(_with_sizes(task, point), point)
    return task._replace(prepared=passes.copy())


def centred_columns(g: Inner, barrier: Barrier) -> tuple[Any, np.ndarray, np.ndarray]:
    """The inner functions centred, their centre, and the sizes of their columns."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        g, centre = _centred(g, barrier)
        columns = column_sizes(g)
    if not (columns <= LARGEST_COLUMN).all():
        raise ValueError(
            f"columns of X must be at most {LARGEST_COLUMN:g} in size for squares to be finite: scale them"
        )
    return g, centre, positive_or_one(columns)


def _centred(g: Inner, barrier: Barrier) -> tuple[Any, np.ndarray]:
    """The inner functions with columns far from zero centred, where a free intercept makes that the same problem."""
    d = barrier.l2.size
    bounded = np.isfinite(barrier.radius) or np.isfinite(barrier.total)
    penalised = barrier.covered == d and (barrier.strength > 0.0 or bounded)
    penalised |= bool(barrier.l2[-1] != 0.0 or barrier.linear[-1] != 0.0)
    free = np.isinf(barrier.low[-1]) and np.isinf(barrier.high[-1]) and not penalised
    return centred(g) if free else (g, np.zeros(d))


def _with_sizes(task: SmoothedProblem, point: Point) -> SmoothedProblem:
    """Measure losses and objective at the start, so that smoothing means the same at every scale of the data."""
    u = point.sums[:, 1]
    if not np.isfinite(u).all():
        raise ValueError("the losses overflow near w = 0, where a full-batch method starts: scale the data down")
    loss_size = float(np.abs(u).mean()) or task.linear_size or 1.0
    spread = float(np.abs(point.y.reshape(-1) * (u - np.median(u))).mean())
    size = max(float(np.abs(point.y).mean()) * loss_size, spread, task.linear_size)
    if not (np.isfinite(size) and size > 0.0):
        size = 1.0
    barrier_size = size / max(1, barrier_count(task.barrier))
    return task._replace(size=size, loss_size=loss_size, barrier_size=barrier_size)


def _with_ridge(task: SmoothedProblem, point: Point) -> SmoothedProblem:
    """Give free coordinates a ridge that vanishes with the smoothing: on a smoothed kink nothing rests."""
    start = at_smoothing(task, point, START)
    if not shortfall(task, start)[1] > 1e-13 * task.size:  # nothing is smoothed
        return task
    barrier = task.barrier
    loose = (barrier.l2 == 0.0) & (np.isinf(barrier.low) | np.isinf(barrier.high))
    loose[: barrier.covered] &= barrier.strength == 0.0 and np.isinf(barrier.radius) and np.isnan(barrier.total)
    ridge = VANISHING * task.size * (task.columns / score_size(task.inner)) ** 2
    return task._replace(ridge=np.where(loose, ridge, 0.0))


def constant_size(problem: Problem, at_zero: float = np.nan) -> tuple[float, int]:
    """The objective of the best constant model, next to which that of a perfect fit is nothing; passes it took.

    Targets that are all the same are fitted by a constant, so their own size is taken instead. ``at_zero`` is the
    objective at zero, where it is known.
    """
    g = as_linear_groups(problem.inner)
    centre, unknown = float(target_centre(g)), bool(np.isnan(at_zero))
    size = _constant_value(problem, g, 0.0) if unknown else abs(at_zero)
    if not centre or float(np.abs(less_target(g, centre).model.target).max()) <= SAME * abs(centre):
        return size, int(unknown)
    return min(size, _constant_value(problem, g, centre)), 1 + unknown


def _constant_value(problem: Problem, g: Inner, score: float) -> float:
    z = np.full((row_count(pass_rows(g)), score_count(g)), score)
    u = walk(g, LossValues(), scores_only(g, z), NO_SHARE).sums[:, 0].reshape(-1, inner_dim(g))
    return abs(coupled_value(problem.outer, u))
