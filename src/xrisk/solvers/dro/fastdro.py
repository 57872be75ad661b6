"""FastDRO: steps along the worst case of a batch."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import ROWS, SINGLE_ROWS, WORST_CASE, add_worst_case, draw_rows
from xrisk.solvers.shared.tracking import average_into, fill_zero


class FastDROState(NamedTuple):
    w: np.ndarray  # iterate
    v: np.ndarray  # momentum
    w_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class FastDRO(NamedTuple):
    """Mini-batch gradients of the risk of a batch [1]_.

    For a batch of B rows, with the worst case q of the risk over them as if they were all there is::

        q = argmax ⟨q, v(w_t)⟩ − (price of q),    g = Σ_b q_b ∇v_b(w_t)
        V ← μV + g,    w_{t+1} = prox_{s′ r}( w_t − s (g + μV) ),    s′ = s/(1 − μ)

    Parameters
    ----------
    step : float or schedule
        Step size s.
    batch : int
        Rows per iteration B, with replacement.
    inertia : float
        μ of Nesterov's momentum, below 1; 0 for none.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The update is that of the authors' code. The method minimises the mean risk of a batch, which is below the risk of
    all rows: by about 1/B for risks with a price, and for balls and CVaR where the inverse distribution function of the
    losses is Lipschitz (Qi et al. 2022, Table 1), else 1/√B. Larger batches, or `FastDROMLMC`, come closer. KL balls
    are not in the authors' code; we treat them the same way. The prox has the effective step s′; with s it would scale
    r by 1 − μ. q is exact, O(B) to O(B log B). With unequal masses p every row counts n·pᵢ times.

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
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> result = xrisk.minimize(problem, xrisk.solvers.FastDRO(step=0.03), budget=xrisk.Budget(iterations=50), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.01
    batch: int = 64
    inertia: float = 0.9
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "FastDRO",
            "Levy et al. 2020; authors' code",
            "as published",
            values="B",
            gradients="B",
            rate="convex 1/ε³: 1/ε² steps with B = 1/ε",
            needs=(SINGLE_ROWS, WORST_CASE),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> FastDROState:
        return FastDROState(w.copy(), np.zeros(w.size), w.copy(), 0)


@method(ROWS, {"fastdro": FastDRO()})
def fastdro_steps(problem, state, solver, n_steps, rng):
    w, v, w_mean, t0 = state
    g, rho, r = problem
    batch, grad = new_batch(g, solver.batch), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        fill_zero(batch.scales)
        add_worst_case(rho, batch, 1.0)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        for j in range(w.size):
            v[j] = solver.inertia * v[j] + grad[j]
            w[j] -= step * (grad[j] + solver.inertia * v[j])
        prox(r, w, step / (1.0 - solver.inertia))
        average_into(w_mean, w, average_weight(solver.average, t))
    return FastDROState(w, v, w_mean, t0 + n_steps)
