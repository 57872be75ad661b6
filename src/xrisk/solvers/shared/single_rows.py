"""What methods for risks over single rows share: what they need, how they draw rows, and the weights of all rows."""

from typing import Any

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Solver
from xrisk.compile import kernel, worthwhile
from xrisk.functions import KLRisk, WithMasses, risk_weights
from xrisk.functions.ambiguity import reweigh
from xrisk.functions.row_risks import bare_risk, floored, mass_factor, softened, temperature_range
from xrisk.inner.oracle import batch_losses, inner_count, inner_size, place_block, uniform_index
from xrisk.problem import Problem, inner_values
from xrisk.solvers.base import Form, parameters_alone, prepare_as_stated
from xrisk.solvers.card import Need
from xrisk.solvers.shared.temperature import largest_loss

SINGLE_ROWS = Need("single rows", lambda problem: batch_losses.implemented(problem.inner), "inner")
KL_RISK = Need(
    "a KL risk",
    lambda problem: temperature_range.implemented(bare_risk(problem.outer)),
)
KL_PRICE = Need("KLRisk", lambda problem: type(bare_risk(problem.outer)) is KLRisk)
WORST_CASE = Need(
    "a CVaR, KL or χ² risk",
    lambda problem: reweigh.implemented(bare_risk(problem.outer)),
)
EQUAL_MASSES = Need("equal masses", lambda problem: type(problem.outer) is not WithMasses)


def prepare_rows(problem: Problem, solver: Solver) -> tuple[Problem, Any]:
    """`prepare_as_stated` for methods of risks over rows; a ball gets the solver's ``floor`` as its price."""
    problem, solver = prepare_as_stated(problem, solver)
    if "floor" in solver._fields:
        problem = problem._replace(outer=floored(problem.outer, solver.floor))
    return problem, solver


def worst_weights(problem: Problem, w: np.ndarray) -> np.ndarray:
    """n·q (n, 1) of the worst case q at w, by a full pass."""
    u = np.ascontiguousarray(inner_values(problem, w)[:, 0])
    q = np.empty(u.size)
    worthwhile(write_weights_of_risk, u.size, problem.outer)(problem.outer, u, q)
    return u.size * q[:, None]


@kernel
def write_weights_of_risk(rho, u, q):
    risk_weights(rho, u, q)


def worst_weights_at(problem: Problem, x: np.ndarray) -> np.ndarray:
    """The worst case at a variable x = (w, …)."""
    return worst_weights(problem, x[: inner_size(problem.inner)])


ROWS = Form(prepare_rows, parameters_alone, worst_weights_at)


@register_jitable
def draw_rows(g, rho, rng, batch):
    """Draw rows, each as likely as any other and with replacement; a batch without any mass is drawn anew."""
    n, total = inner_count(g), 0.0
    while total <= 0.0:
        for b in range(batch.rows.size):
            place_block(g, uniform_index(rng, 0, n), batch, b)
            batch.weights[b] = mass_factor(rho, batch.rows[b], n)
            total += batch.weights[b]


@register_jitable
def add_worst_case(rho, batch, weight):
    """Add weight times the worst-case weights of the batch to its scales."""
    if largest_loss(batch.losses, batch.weights) > -np.inf:  # else no row has mass
        reweigh(bare_risk(rho), batch.weights, batch.losses, batch.work)
        for b in range(batch.work.size):
            batch.scales[b] += weight * batch.work[b]


@register_jitable
def weights_step(rho, kappa, logits, least, p):
    """p ← argmax over q of ⟨q, logits⟩ − KL(q) − κ (price of q), none below least/n.

    With logits κ·ĝ + log p this is the step of mirror ascent under KL divergence.
    """
    reweigh(softened(rho, kappa), np.empty(0), logits, p)
    raise_least(p, least)


@register_jitable
def raise_least(p, least):
    """Raise weights below least/n to it and scale all to a sum of one, in place; divergences can but fall."""
    total = 0.0
    for i in range(p.size):
        p[i] = max(p[i], least / p.size)
        total += p[i]
    for i in range(p.size):
        p[i] /= total
