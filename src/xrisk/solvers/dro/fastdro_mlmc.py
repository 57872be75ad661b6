"""FastDRO by multilevel Monte Carlo: the bias of large batches at the mean cost of small ones."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.groups import RowBatch
from xrisk.inner.oracle import Oracles, batch_losses, batch_losses_vjp, new_batch
from xrisk.problem import Problem
from xrisk.solvers.base import calls_ahead, passes_made
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import ROWS, SINGLE_ROWS, WORST_CASE, add_worst_case, draw_rows, prepare_rows
from xrisk.solvers.shared.tracking import average_into, fill_zero


class FastDROMLMCState(NamedTuple):
    w: np.ndarray  # iterate
    v: np.ndarray  # momentum
    w_mean: np.ndarray  # average of the iterates
    rows: int  # drawn so far
    t: int  # iterations done


class FastDROMLMC(NamedTuple):
    """Multilevel Monte Carlo gradients of the risk of a large batch [1]_.

    A level J = 0, …, K with P(J) = 2^{−(J+1)}, the rest for K; m = 2ᴶB rows, L the risk over some of them::

        L̂ = L(first B/2) + ( L(all m) − ½ L(first half) − ½ L(second half) )/P(J),    g = ∇L̂(w_t)
        V ← μV + g,    w_{t+1} = prox_{s′ r}( w_t − s (g + μV) ),    s′ = s/(1 − μ)

    Parameters
    ----------
    step : float or schedule
        Step size s.
    batch : int
        Rows at the lowest level B, an even number.
    levels : int
        K; the largest batch has 2ᴷB rows.
    inertia : float
        μ of Nesterov's momentum, below 1; 0 for none.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The update is that of the authors' code. The expectation of g is that of a batch of 2ᴷB rows; an iteration draws B(1
    + K/2) rows on average. The state counts the rows drawn; budgets are planned with the average. The authors'
    configurations have no momentum here, nor has ours by default. With unequal masses p every row counts n·pᵢ times; a
    half without any mass does not count.

    References
    ----------
    .. [1] Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020;
       daniellevy/fast-dro.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> solver = xrisk.solvers.FastDROMLMC(step=0.1, batch=8, levels=3)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    batch: int = 16
    levels: int = 5
    inertia: float = 0.0
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "FastDRO-MLMC",
            "Levy et al. 2020; authors' code",
            "as published",
            values="B(1 + K/2)",
            gradients="B(1 + K/2)",
            rate="convex 1/ε²",
            needs=(SINGLE_ROWS, WORST_CASE),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "FastDROMLMC"]:
        problem, solver = prepare_rows(problem, self)
        if solver.batch % 2:
            raise ValueError(f"batch must be even, got {solver.batch}")
        return problem, solver

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> FastDROMLMCState:
        return FastDROMLMCState(w.copy(), np.zeros(w.size), w.copy(), 0, 0)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        rows = t * self.batch * (2 + self.levels) // 2
        return Oracles(values=rows, gradients=rows)


@passes_made.of(FastDROMLMC)
def _(solver, problem, state, t):
    return Oracles(values=state.rows, gradients=state.rows)


@calls_ahead.of(FastDROMLMC)
def _(solver, problem, state, t, steps):
    return Oracles(values=steps * solver.batch, gradients=steps * solver.batch)


@register_jitable
def drawn_level(levels, rng):
    """J with P(J) = 2^{−(J+1)}, the rest for the highest level; and P(J)."""
    level, chance, left = 0, 0.5, rng.random()
    while level < levels and left < chance:
        level, chance = level + 1, 0.5 * chance
    return level, (chance if level < levels else 2.0 * chance)


@register_jitable
def rows_between(batch, low, high):
    """The batch of the rows at places low, …, high − 1."""
    return RowBatch(
        batch.rows[low:high],
        batch.target[low:high],
        batch.weights[low:high],
        batch.losses[low:high],
        batch.scales[low:high],
        batch.work[low:high],
    )


@method(ROWS, {"fastdro-mlmc": FastDROMLMC()})
def fastdromlmc_steps(problem, state, solver, n_steps, rng):
    w, v, w_mean, rows, t0 = state
    g, rho, r = problem
    workspace, grad = new_batch(g, solver.batch * 2**solver.levels), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        level, chance = drawn_level(solver.levels, rng)
        m = solver.batch * 2**level
        rows += m
        batch = rows_between(workspace, 0, m)
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        fill_zero(batch.scales)
        add_worst_case(rho, rows_between(batch, 0, solver.batch // 2), 1.0)
        add_worst_case(rho, batch, 1.0 / chance)
        add_worst_case(rho, rows_between(batch, 0, m // 2), -0.5 / chance)
        add_worst_case(rho, rows_between(batch, m // 2, m), -0.5 / chance)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        for j in range(w.size):
            v[j] = solver.inertia * v[j] + grad[j]
            w[j] -= step * (grad[j] + solver.inertia * v[j])
        prox(r, w, step / (1.0 - solver.inertia))
        average_into(w_mean, w, average_weight(solver.average, t))
    return FastDROMLMCState(w, v, w_mean, rows, t0 + n_steps)
