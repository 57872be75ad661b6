"""ASC-PG: the inner values are tracked at a point ahead of the iterate."""

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
from xrisk.solvers.card import LIPSCHITZ_OUTER, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block


class ASCPGState(NamedTuple):
    w: np.ndarray  # iterate
    ahead: np.ndarray  # the extrapolated point z, where the inner values are sampled
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of f
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class ASCPG(NamedTuple):
    """Accelerated stochastic compositional proximal gradient on the stacked map (g₁, …, gₙ) [1]_.

    For all blocks, then for a sample of blocks i, z_0 = x_0::

        uᵢ ← (1 − β_{t−1}) uᵢ + β_{t−1} g(z_t; 𝓑)
        x_{t+1} = prox_{α_t r}( x_t − α_t · mean Jᵢ(x_t; 𝓑̃)ᵀ ∇f(uᵢ) )
        z_{t+1} = (1 − 1/β_t) x_t + (1/β_t) x_{t+1}

    Parameters
    ----------
    step : float or schedule
        Step size α; in the convex case α_k = a·k^{−5/7}.
    track : float or schedule
        Weight β of the new inner values; in the convex case β_k = k^{−4/7}.
    blocks : int
        Blocks whose gradient is sampled per iteration, S; 1 as published.
    batch : int
        Samples per block and batch, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    z lies beyond x_{t+1}, by a factor 1/β that grows without bound, and may leave the domain of r: every gᵢ must be
    defined on all of Rᵈ. A gᵢ that grows exponentially may overflow there; the run then ends as diverged. x stays in
    the domain, so values and certificates have their usual meaning.

    The form is that of the paper; the exponents of the convex case are recalled from accelerated SCGD. In the
    non-convex case the paper has α_k = k^{−5/9} and β_k = k^{−4/9}; the strongly convex one is in
    `xrisk.solvers.theory`. It takes one sample of one block per gradient; larger S and B are ours. The first
    values initialise u. With a kink in f the method runs on a subgradient, which its theorems do not cover.

    References
    ----------
    .. [1] Wang, Liu and Fang, Accelerating stochastic composition optimization, JMLR, 2017, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.ASCPG(), budget=xrisk.Budget(iterations=60), rng=0)
    >>> result.value - xrisk.solvers.exact(problem).value < 0.02
    True
    """

    step: float | Decreasing | Stagewise = Decreasing(0.2, 500.0, 5.0 / 7.0)
    track: float | Decreasing | Stagewise = Decreasing(1.0, 10.0, 4.0 / 7.0)
    blocks: int = 1
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "ASC-PG",
            "Wang, Liu and Fang 2017, Algorithm 1",
            "as published",
            values="nB",
            gradients="SB",
            rate="convex 1/ε^3.5 in the objective; strongly convex 1/(με^1.25) in (μ/2)‖x − x*‖²",
            theory=(SMOOTH_OUTER, LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> ASCPGState:
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        return ASCPGState(x.copy(), x.copy(), np.zeros((n, m)), x.copy(), first_duals(problem), np.arange(n), 0)


@method(COUPLED, {"asc-pg": ASCPG()})
def ascpg_steps(problem, state, solver, n_steps, rng):
    w, ahead, u, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    value, y, grad = np.empty(u.shape[1]), np.empty(u.shape[1]), np.empty(w.size)
    batch, batch_grad = new_batch(g, solver.batch), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, track = rate(solver.step, t), rate(solver.track, t - 1) if t > 0 else 1.0
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(order.size):
            i = next_block(order, a, rng) if a < solver.blocks else order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if a < solver.blocks:
                    draw(g, i, rng, batch_grad)
            batch_value(g, i, ahead, batch, value)
            average_into(u[i], value, track)
            block_slope(f, u[i], y)
            average_into(y_mean[i], y, weight)
            if a < solver.blocks:
                batch_vjp(g, i, w, batch_grad, y, 1.0 / solver.blocks, grad)
        for j in range(w.size):
            ahead[j] = w[j]
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(ahead, w, 1.0 / rate(solver.track, t))
        average_into(w_mean, w, weight)
    return ASCPGState(w, ahead, u, w_mean, y_mean, order, t0 + n_steps)
