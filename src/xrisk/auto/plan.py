"""What `Auto` is going to do: the methods to run, by what each is expected to cost."""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from xrisk.data.products import row_bytes, row_work
from xrisk.data.rows import row_count
from xrisk.functions import CVaRRisk
from xrisk.inner.oracle import inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import add_hessian, as_linear_groups, has_gradients, pass_rows, sampled, score_count
from xrisk.problem import Problem
from xrisk.solvers.lbfgs import SmoothedLBFGS
from xrisk.solvers.newton.barrier import barrier_count, barrier_of
from xrisk.solvers.newton.composite import CompositeNewton, takes_composite
from xrisk.solvers.newton.coupling import coupling_has_kinks, coupling_of
from xrisk.solvers.newton.rows import takes_rows
from xrisk.solvers.newton.smoothed import SmoothedProblem, is_curved, smoothed_problem
from xrisk.solvers.newton.solver import MAX_VARIABLES, Newton

HESSIAN_ROWS = 50  # for each variable: a Hessian of so many rows is as good as one of all
MODEL_STEPS = 20  # Newton steps that solve a model of `CompositeNewton`
MANY_COLUMNS = 100
FEW_ROWS = 6  # for each column: of so few, those in a tail change from step to step
LARGEST_JACOBIAN = 2.5e7  # numbers


class Stage(NamedTuple):
    """A method on the problem, or on a sample of its rows; prepared when first asked for, which takes passes."""

    task: Any  # () → SmoothedProblem
    solver: Any
    last: int  # 1 on all rows


class Costs(NamedTuple):
    """Expected seconds."""

    newton: float
    composite: float
    lbfgs_step: float  # of an iteration


def planned(auto: Any, problem: Problem) -> list[Stage]:
    """The methods to run, one after another; on a sample the one of all rows, or L-BFGS, to see how it does."""
    g, costs = as_linear_groups(problem.inner), expected(auto, problem)
    if takes_rows(problem):
        return by_newton(problem, cache(partial(smoothed_problem, problem)))
    barrier = barrier_of(problem.penalty, inner_size(g))
    if np.isfinite(barrier.total):
        return newton_stages(problem, costs)
    seeing = has_gradients(g) and not is_curved(g) and not barrier_count(barrier)
    steps = auto.lbfgs_steps if seeing else auto.blind_steps
    shares = [share for share in auto.shares if worth_a_sample(auto, problem, share, costs.lbfgs_step)]
    composite = costs.composite < min(costs.newton, steps * costs.lbfgs_step)
    if shares and not coupling_has_kinks(coupling_of(problem.outer, inner_count(g), inner_dim(g))):
        composite = False  # from a good start, a smooth risk takes L-BFGS no more steps, and these are cheaper
    first = CompositeNewton(hessian_rows=HESSIAN_ROWS) if composite else SmoothedLBFGS()
    stages = [Stage(cache(partial(sample_task, problem, share)), first, 0) for share in shares]
    task = cache(partial(smoothed_problem, problem))
    if composite or stages or costs.newton > steps * costs.lbfgs_step:
        stages.append(Stage(task, first, 1))
    if np.isfinite(costs.newton):  # where L-BFGS costs more, or a method ends short of the certificate
        stages += by_newton(problem, task)
    return stages


def few_rows(problem: Problem) -> bool:
    """Whether a tail over single rows is for `Newton`, all weights of which are positive: columns are many beside rows.

    `RowNewton` solves for the rows in the tail alone; where columns are as many, those left out take their places.
    """
    n, d = inner_count(problem.inner), inner_size(problem.inner)
    small = MANY_COLUMNS <= d <= MAX_VARIABLES and n * d <= LARGEST_JACOBIAN
    return type(problem.outer) is CVaRRisk and small and n < FEW_ROWS * d


def newton_stages(problem: Problem, costs: Costs) -> list[Stage]:
    """Newton's method alone: the weights have a fixed sum, and L-BFGS knows no such domain."""
    if not np.isfinite(costs.newton):
        inner = f"{type(problem.inner).__name__} of {inner_size(problem.inner)} variables"
        raise ValueError(
            f"a domain with a fixed sum needs a Hessian and at most {MAX_VARIABLES} variables, got {inner}"
        )
    return by_newton(problem, cache(partial(smoothed_problem, problem)))


def by_newton(problem: Problem, task: Any) -> list[Stage]:
    """Newton's method with a Hessian of a sample of the rows, then of all: columns of unlike scales may need it."""
    g = as_linear_groups(problem.inner)
    is_sampled = row_count(pass_rows(g)) > 2 * HESSIAN_ROWS * inner_size(problem.inner)
    return [Stage(task, Newton(hessian_rows=HESSIAN_ROWS), 1), *[Stage(task, Newton(), 1)] * is_sampled]


def worth_a_sample(auto: Any, problem: Problem, share: float, step: float) -> bool:
    """Whether to start on a share of the rows, an iteration on all of them taking ``step`` seconds."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    gain = step > auto.least_gain * (share * (step - auto.call_seconds) + auto.call_seconds)
    return bool(gain and share * inner_samples(g) >= max(auto.least_rows, 8 * d) and sampled.implemented(g))


def expected(auto: Any, problem: Problem) -> Costs:
    """What each method is expected to take; inf where it cannot be run."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    once = pass_seconds(auto, problem)
    lbfgs = 3.0 * once + 400.0 * d / auto.read_rate + auto.call_seconds
    if d > MAX_VARIABLES or not add_hessian.implemented(g):
        return Costs(np.inf, np.inf, lbfgs)
    rows = row_count(pass_rows(g))
    gram = row_work(pass_rows(g)) * score_count(g) ** 2 * min(1.0, HESSIAN_ROWS * d / rows) + d**3 / 3.0
    newton = auto.newton_steps * (gram / auto.product_rate + 8.0 * once + 2.0 * auto.call_seconds)
    if not takes_composite(problem):
        return Costs(newton, np.inf, lbfgs)
    model = MODEL_STEPS * (inner_count(g) * inner_dim(g) * d**2 + d**3 / 3.0)
    step = (gram + model) / auto.product_rate + 4.0 * once + 2.0 * auto.call_seconds
    return Costs(newton, auto.composite_steps * step, lbfgs)


def pass_seconds(auto: Any, problem: Problem) -> float:
    """Seconds of reading all rows once and of a walk over all samples."""
    g = as_linear_groups(problem.inner)
    return row_bytes(pass_rows(g)) / auto.read_rate + inner_samples(g) * auto.sample_seconds


def sample_task(problem: Problem, share: float) -> SmoothedProblem:
    """The problem on a sample of its rows, prepared."""
    g = sampled(as_linear_groups(problem.inner), share, np.random.default_rng(0))
    return smoothed_problem(problem._replace(inner=g))
