"""SPD: stochastic primal-dual mirror steps on parameters and the weights of all rows."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, inner_count, new_batch, place_block
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.single_rows import EQUAL_MASSES, KL_RISK, ROWS, SINGLE_ROWS, weights_step
from xrisk.solvers.shared.tracking import average_into, descend, fill_zero
from xrisk.solvers.shared.weights import pick


class SPDState(NamedTuple):
    w: np.ndarray  # iterate
    p: np.ndarray  # (n,) weights of the rows
    w_mean: np.ndarray  # average of the iterates
    p_mean: np.ndarray  # (n,) average of the weights
    t: int  # iterations done


class SPD(NamedTuple):
    """Stochastic primal-dual method for DRO with f-divergences [1]_.

    On min over w of max over p of Σ pᵢvᵢ(w) − (price of p) + r(w), for B rows i drawn with the probabilities p_t::

        w_{t+1} = prox_{s r}( w_t − s mean ∇vᵢ(w_t) )
        ĝ = mean (vᵢ(w_t)/pᵢ) eᵢ
        p_{t+1} = argmax over the ball of ⟨p, ĝ⟩ − (price of p) − KL(p, p_t)/κ,    then pᵢ ≥ δ/n

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        n·κ: a sampled row of weight 1/n is multiplied by exp(dual_step·vᵢ/B).
    least : float
        δ in (0, 1): weights below δ/n are raised to it, which keeps ĝ bounded.
    batch : int
        Rows per iteration B.
    average : UniformAverage(), PolynomialAverage(), LastIterate(), …
        What is reported, of the parameters and of the weights.

    Notes
    -----
    An iteration takes O(n) operations. We did not have the paper's text; the structure is from general knowledge of it:
    χ² balls, a Euclidean step and a balanced tree. The step under KL divergence follows from its use for KL balls in
    [2]_. The method converges to the saddle point over weights with pᵢ ≥ δ/n, whose risk is below the stated one by at
    most a share δ of the distance to the mean.

    References
    ----------
    .. [1] Namkoong and Duchi, Stochastic gradient methods for distributionally robust optimization with f-divergences,
       2016.
    .. [2] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> result = xrisk.minimize(problem, xrisk.solvers.SPD(step=0.1), budget=xrisk.Budget(iterations=150), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    dual_step: float | Decreasing | Stagewise = 2.0
    least: float = 0.05
    batch: int = 8
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SPD",
            "Namkoong and Duchi 2016",
            "recalled",
            values="B",
            gradients="B",
            rate="convex 1/ε², O(n) per iteration",
            needs=(SINGLE_ROWS, KL_RISK, EQUAL_MASSES),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SPDState:
        n = inner_count(problem.inner)
        return SPDState(w.copy(), np.full(n, 1.0 / n), w.copy(), np.full(n, 1.0 / n), 0)


@method(ROWS, {"spd": SPD()})
def spd_steps(problem, state, solver, n_steps, rng):
    w, p, w_mean, p_mean, t0 = state
    g, rho, r = problem
    n, batch, grad, logits = p.size, new_batch(g, solver.batch), np.empty(w.size), np.empty(p.size)
    for t in range(t0, t0 + n_steps):
        step, kappa, weight = rate(solver.step, t), rate(solver.dual_step, t) / n, average_weight(solver.average, t)
        for b in range(solver.batch):
            place_block(g, pick(p, rng), batch, b)
        batch_losses(g, w, batch, batch.losses)
        for i in range(n):
            logits[i] = math.log(p[i])
        for b in range(solver.batch):
            batch.scales[b] = 1.0 / solver.batch
            logits[batch.rows[b]] += kappa * batch.losses[b] / (solver.batch * p[batch.rows[b]])
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        descend(w, step, grad)
        prox(r, w, step)
        weights_step(rho, kappa, logits, solver.least, p)
        average_into(w_mean, w, weight)
        average_into(p_mean, p, weight)
    return SPDState(w, p, w_mean, p_mean, t0 + n_steps)
