"""What methods are expected to cost, in seconds, by the shape of the data."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Solver
from xrisk.data.products import row_bytes, row_work
from xrisk.data.rows import row_count
from xrisk.inner.oracle import inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import add_hessian, as_linear_groups, pass_rows, score_count
from xrisk.problem import Problem
from xrisk.solvers.newton.composite import takes_composite
from xrisk.solvers.newton.solver import MAX_VARIABLES

HESSIAN_ROWS = 50  # for each variable: a Hessian of so many rows is as good as one of all
MODEL_STEPS = 20  # Newton steps that solve a model of `CompositeNewton`


class Costs(NamedTuple):
    """Expected seconds; inf where a method cannot be run."""

    newton: float
    composite: float
    lbfgs_step: float  # of an iteration


def expected(auto: Solver, problem: Problem) -> Costs:
    """What each method is expected to take."""
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


def pass_seconds(auto: Solver, problem: Problem) -> float:
    """Seconds of reading all rows once and of a walk over all samples."""
    g = as_linear_groups(problem.inner)
    return row_bytes(pass_rows(g)) / auto.read_rate + inner_samples(g) * auto.sample_seconds
