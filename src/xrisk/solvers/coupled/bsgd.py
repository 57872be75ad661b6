"""BSGD: the mean of a batch in place of the inner function."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    inner_count,
    inner_dim,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import LIPSCHITZ_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block, visit_weight


class BSGDState(NamedTuple):
    w: np.ndarray  # iterate
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of each block
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class BSGD(NamedTuple):
    """Biased stochastic gradients [1]_. The update is that of the authors' SOX code with γ = β = 1.

    For a sample of blocks i, with one batch 𝓑 of each::

        z = mean Jᵢ(x_t; 𝓑)ᵀ ∂f( g(x_t; 𝓑) )
        x_{t+1} = prox_{s r}( x_t − s z )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The method minimises mean E f(gᵢ(x; 𝓑)), which is above F by at most L_f σ₀²/(2B) for a smooth f and by C_f σ₀/√B
    for any other; no step size removes this bias. The dual is an average of ∂f(g(x; 𝓑)), with the same bias.

    References
    ----------
    .. [1] Hu, Zhang, Chen and He, Biased stochastic first-order methods for conditional stochastic optimization, 2020.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125))
    >>> solver = xrisk.solvers.BSGD(step=0.2, blocks=2, batch=200)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(abs(result.w + 0.2).max() < 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    blocks: int | None = None
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "BSGD",
            "Hu, Zhang, Chen and He 2020; as SOX with γ = β = 1 in the code of Wang and Yang 2022",
            "as published",
            values="SB",
            gradients="SB",
            rate="convex 1/ε², strongly convex 1/(με) in the objective, "
            "with B = 1/ε if f is smooth and 1/ε² if it has a kink",
            theory=(LIPSCHITZ_OUTER,),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> BSGDState:
        return BSGDState(x.copy(), x.copy(), first_duals(problem), np.arange(inner_count(problem.inner)), 0)


@method(COUPLED, {"bsgd": BSGD()})
def bsgd_steps(problem, state, solver, n_steps, rng):
    w, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    m = inner_dim(g)
    value, y, grad = np.empty(m), np.empty(m), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, weight = rate(solver.step, t), average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_value(g, i, w, batch, value)
            block_slope(f, value, y)
            batch_vjp(g, i, w, batch, y, 1.0 / solver.blocks, grad)
            average_into(y_mean[i], y, visit_weight(weight, order.size, solver.blocks))
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return BSGDState(w, w_mean, y_mean, order, t0 + n_steps)
