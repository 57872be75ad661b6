"""SGD with momentum on the mean loss of all rows."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.oracle import Oracles, batch_vjp, draw, inner_pooled, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import POOLED, MethodCard
from xrisk.solvers.coupled.sgd import MEAN_OF_ROWS
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import EQUAL_MASSES
from xrisk.solvers.shared.tracking import average_into


class MomentumSGDState(NamedTuple):
    w: np.ndarray  # iterate
    v: np.ndarray  # momentum
    w_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class MomentumSGD(NamedTuple):
    """Stochastic gradient descent with Polyak's momentum on the mean loss of all rows.

    For a batch 𝓑 of rows of the pool::

        v ← μv + ∇ℓ(w_t; 𝓑),    w_{t+1} = prox_{s′ r}( w_t − s v ),    s′ = s/(1 − μ)

    Parameters
    ----------
    step : float or schedule
        Step size s; 1/(1 − μ) times the step of `SGD` in effect.
    batch : int
        Rows per iteration.
    inertia : float
        μ, below 1: how much of the last direction is kept. 0 is `SGD`.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    As `SGD`, it does not minimise the problem as stated, but the mean over all rows, of groups Σᵢ (nᵢ/N) gᵢ(w) + r(w):
    the baseline that robust methods are compared with. The rule is that of PyTorch's SGD with ``momentum``, but
    with the prox in place of weight decay. Its step is s′, the effective step; with s it would scale r by 1 − μ.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, CVaRRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), CVaRRisk(0.2), L2(0.1))
    >>> solver = xrisk.solvers.MomentumSGD(step=0.02, batch=32)
    >>> plain = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=150), rng=0)
    >>> mean = problem._replace(outer=CVaRRisk(1.0))
    >>> bool(mean.value(plain.w) < xrisk.solvers.exact(mean).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.005
    batch: int = 64
    inertia: float = 0.9
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SGD with momentum",
            "Polyak 1964",
            "recalled",
            values="0",
            gradients="B",
            rate="convex 1/ε², strongly convex 1/(με), both for the mean over all rows",
            needs=(POOLED, EQUAL_MASSES),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> MomentumSGDState:
        return MomentumSGDState(w.copy(), np.zeros(w.size), w.copy(), 0)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return Oracles(values=0, gradients=t * self.batch)


@method(MEAN_OF_ROWS, {"sgd-momentum": MomentumSGD()})
def momentumsgd_steps(problem, state, solver, n_steps, rng):
    w, v, w_mean, t0 = state
    g, r = inner_pooled(problem.inner), problem.penalty
    one, batch = np.ones(1), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        for j in range(w.size):
            v[j] *= solver.inertia
        draw(g, 0, rng, batch)
        batch_vjp(g, 0, w, batch, one, 1.0, v)
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step / (1.0 - solver.inertia))
        average_into(w_mean, w, average_weight(solver.average, t))
    return MomentumSGDState(w, v, w_mean, t0 + n_steps)
