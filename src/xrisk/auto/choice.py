"""Which method solves which problem: all of that is decided in this file."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.auto.costs import HESSIAN_ROWS, expected
from xrisk.certificate import Measured, measured
from xrisk.data.rows import row_count
from xrisk.functions import risk_is_capped
from xrisk.inner.oracle import inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import add_hessian, as_linear_groups, has_gradients, pass_rows, sampled
from xrisk.problem import Problem
from xrisk.solvers.bundle import Bundle, cheaper_by_cuts, needs_cuts
from xrisk.solvers.faces import Faces, is_quadratic, least_squares
from xrisk.solvers.lbfgs import SmoothedLBFGS
from xrisk.solvers.newton.barrier import Barrier, barrier_count, barrier_of
from xrisk.solvers.newton.composite import CompositeNewton
from xrisk.solvers.newton.coupling import coupling_has_kinks, coupling_of
from xrisk.solvers.newton.points import SmoothedProblem, has_kinks
from xrisk.solvers.newton.rows import RowNewton, row_sample, row_task, takes_rows
from xrisk.solvers.newton.smoothed import smoothed_problem
from xrisk.solvers.newton.solver import MAX_VARIABLES, Newton

SAMPLE_TOL = 0.02  # to which samples of the rows are solved
EXACT = 1e-9  # tolerance of a method whose last step is exact, whatever the one of the run
MANY_COLUMNS = 100
FEW_ROWS = 6  # for each column: with so few, those in a tail change from step to step
LARGEST_JACOBIAN = 2.5e7  # numbers

Kind = tuple[Callable[[Problem], bool], Callable[[float], Any]]  # whether a problem is one, and its method by tol
ONLY_BY_CUTS: Kind = (needs_cuts, Bundle)
CHEAPER_BY_CUTS: Kind = (cheaper_by_cuts, Bundle)


def choose(problem: Problem, general: Any, special: Sequence[Kind]) -> Any:
    """The solver of a problem: the first ``special`` method that is for problems of its kind, or the ``general`` one.

    `Auto` and `exact` ask for theirs. All that `Auto` does itself, one method after another, is `planned`.
    """
    return next((method(general.tol) for suits, method in special if suits(problem)), general)


class Stage(NamedTuple):
    """A method on the problem, or on a sample of its rows."""

    task: Spec  # () → the problem as the method works on it; the first call prepares it, which takes passes
    solver: Solver
    on_all_rows: bool
    least_tol: float = 0.0  # the tolerance of the method lies
    most_tol: float = np.inf  # between these two
    step_seconds: float = 0.0  # of an iteration of the next stage, if a sample shows how many it takes
    other_seconds: float = np.inf  # of all iterations of the stage after it, which may be cheaper


class Staged(NamedTuple):
    """The problem as `Auto` works on it."""

    problem: Problem
    measured: Callable[[], Measured]  # for certificates, on the first call
    stages: tuple[Stage, ...]
    samples: int  # of all rows
    is_linear_in_part: bool  # the penalty has a linear term


def planned(problem: Problem, auto: Solver) -> Staged:
    """The stages that `Auto` runs, one after another."""
    linear = True
    if is_quadratic(problem):
        stages = _by_faces(problem, auto)
    elif takes_rows(problem) and not _has_few_rows(problem):
        stages, linear = _by_rows(problem, auto), False
    else:
        barrier = barrier_of(problem.penalty, inner_size(problem.inner))
        task = cache(partial(smoothed_problem, problem))
        linear, alone = bool(barrier.linear.any()), np.isfinite(barrier.total) or takes_rows(problem)
        stages = _by_newton(problem, task) if alone else _by_cost(problem, auto, barrier, task)
    last = stages[-1].task
    known = cache(lambda: measured(problem, last().columns, last().centre))
    return Staged(problem, known, tuple(stages), inner_samples(as_linear_groups(problem.inner)), linear)


def _by_faces(problem: Problem, auto: Solver) -> list[Stage]:
    tol = min(auto.tol, EXACT)
    return [Stage(cache(partial(least_squares, problem)), Faces(tol), True, tol, tol)]


def _by_rows(problem: Problem, auto: Solver) -> list[Stage]:
    """`RowNewton`, on a sample of the rows first where they are many."""
    shares = [share for share in auto.shares if _has_enough_rows(auto, problem, share)]
    tasks = [cache(partial(row_sample, problem, share)) for share in shares]
    stages = [Stage(task, RowNewton(), False, SAMPLE_TOL) for task in tasks]
    return [*stages, Stage(cache(partial(row_task, problem)), RowNewton(), True)]


def _by_cost(problem: Problem, auto: Solver, barrier: Barrier, task: Callable[[], SmoothedProblem]) -> list[Stage]:
    """The cheapest of three methods; on a sample first where that pays, by the same method or by L-BFGS."""
    g, costs = as_linear_groups(problem.inner), expected(auto, problem)
    knows_coupling = has_gradients(g) and not has_kinks(g) and not barrier_count(barrier)
    steps = auto.lbfgs_steps if knows_coupling else auto.blind_steps
    shares = [share for share in auto.shares if _saves_time(auto, problem, share, costs.lbfgs_step)]
    composite = costs.composite < min(costs.newton, steps * costs.lbfgs_step)
    if shares and not coupling_has_kinks(coupling_of(problem.outer, inner_count(g), inner_dim(g))):
        composite = False  # from a good start, a smooth risk takes L-BFGS no more steps, and these are cheaper
    first = CompositeNewton(hessian_rows=HESSIAN_ROWS) if composite else SmoothedLBFGS()
    seconds = (0.0, np.inf) if composite else (costs.lbfgs_step, costs.newton)
    samples = [cache(partial(_sample_task, problem, share)) for share in shares]
    stages = [Stage(sample, first, False, SAMPLE_TOL, np.inf, *seconds) for sample in samples]
    if composite or stages or costs.newton > steps * costs.lbfgs_step:
        stages.append(Stage(task, first, True))
    if np.isfinite(costs.newton):  # where L-BFGS costs more, or a method ends short of the certificate
        stages += _by_newton(problem, task)
    return stages


def _by_newton(problem: Problem, task: Callable[[], SmoothedProblem]) -> list[Stage]:
    """Newton's method with a Hessian of a sample of the rows, then of all: columns of unlike scales may need it."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    if d > MAX_VARIABLES or not add_hessian.implemented(g):  # L-BFGS takes no domain with a fixed sum
        inner = f"{type(problem.inner).__name__} of {d} variables"
        raise ValueError(
            f"a domain with a fixed sum needs a Hessian and at most {MAX_VARIABLES} variables, got {inner}"
        )
    is_sampled = row_count(pass_rows(g)) > 2 * HESSIAN_ROWS * d
    return [Stage(task, Newton(hessian_rows=HESSIAN_ROWS), True), *[Stage(task, Newton(), True)] * is_sampled]


def _has_few_rows(problem: Problem) -> bool:
    """Whether a tail over single rows has so few that `Newton` takes it, whose weights are all positive.

    `RowNewton` steps by the rows in the tail alone; where columns are as many, other rows take their places.
    """
    n, d = inner_count(problem.inner), inner_size(problem.inner)
    small = MANY_COLUMNS <= d <= MAX_VARIABLES and n * d <= LARGEST_JACOBIAN
    return bool(risk_is_capped(problem.outer)) and small and n < FEW_ROWS * d


def _has_enough_rows(auto: Solver, problem: Problem, share: float) -> bool:
    return share * inner_samples(as_linear_groups(problem.inner)) >= max(auto.least_rows, 8 * inner_size(problem.inner))


def _saves_time(auto: Solver, problem: Problem, share: float, step: float) -> bool:
    """Whether to start on a share of the rows, an iteration on all of them taking ``step`` seconds."""
    is_faster = step > auto.least_speedup * (share * (step - auto.call_seconds) + auto.call_seconds)
    can_sample = sampled.implemented(as_linear_groups(problem.inner))
    return bool(is_faster and can_sample) and _has_enough_rows(auto, problem, share)


def _sample_task(problem: Problem, share: float) -> SmoothedProblem:
    """The problem on a sample of its rows, prepared."""
    g = sampled(as_linear_groups(problem.inner), share, np.random.default_rng(0))
    return smoothed_problem(problem._replace(inner=g))
