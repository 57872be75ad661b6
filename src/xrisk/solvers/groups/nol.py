"""NOL: a bandit picks one group per step and plays against gradient descent."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import normalise_logs, prox
from xrisk.functions.parameters import positive
from xrisk.functions.special import clip
from xrisk.inner.oracle import batch_value, batch_vjp, draw, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED
from xrisk.solvers.card import MAXIMUM, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.weights import equal_logs, pick, raised, write_weights


class NOLState(NamedTuple):
    w: np.ndarray  # iterate
    logq: np.ndarray  # (n,) logarithms of the weights
    w_mean: np.ndarray  # average of the iterates
    q_mean: np.ndarray  # (n,) average of the weights
    t: int  # iterations done


class NOL(NamedTuple):
    """Non-oblivious online learning for the worst group [1]_, Algorithm 2.

    On min over w of max over q on the simplex of Σ qᵢgᵢ(w) + r(w); of one group i ~ q_t, with a batch 𝓑 of it and its
    loss ℓ = gᵢ(w_t; 𝓑)/scale in [0, 1]::

        log q_{t+1,i} = log q_{t,i} − η (1 − ℓ) / (q_{t,i} + η/2),    then normalised
        w_{t+1} = prox_{s r}( w_t − s ∇gᵢ(w_t; 𝓑) )

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size η of the weights.
    scale : float
        Upper bound on sampled losses, by which they are divided.
    batch : int
        Samples of the group, B.
    average : UniformAverage(), PolynomialAverage(), LastIterate(), …
        What is reported, of the parameters and of the weights; the theorem is about the uniform average.

    Notes
    -----
    The bandit is Exp3-IX: η/2 in the denominator is its implicit exploration, which draws the weights
    towards equal ones by O(nη). It needs losses in [0, 1]; the problem knows no bound on them, so ``scale`` must be
    given. For the weights, losses are clipped to [0, scale]: if ``scale`` is too small, bad groups look equally bad. If
    it is too large, the method is slow, as only η/scale matters. Gradients are neither scaled nor clipped. Only the
    maximum of the inner values has such a bandit; a CVaR of more than one group is refused. The paper projects on a
    domain, where we take the proximal step of r, and has B = 1. An iteration takes O(n) operations. The paper's step
    sizes are in `xrisk.solvers.theory.nol_setting`.

    References
    ----------
    .. [1] Zhang, Zhao, Zhuang, Jin, Zhou and Yang, Stochastic approximation approaches to group distributionally
       robust optimization, 2023.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 2)), rng.permutation(100) < 10
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) + X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.NOL(step=0.1, dual_step=0.02, scale=2.0)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=200), rng=0)
    >>> result.value - xrisk.solvers.exact(problem).value < 0.03
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    dual_step: float | Decreasing | Stagewise = 0.005
    scale: float = 1.0
    batch: int = 8
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "NOL",
            "Zhang et al. 2023, Algorithm 2",
            "recalled",
            values="B",
            gradients="B",
            rate="convex n(log n)/ε² in the duality gap, with high probability, for losses in [0, scale]",
            needs=(MAXIMUM,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> NOLState:
        logq = equal_logs(inner_count(problem.inner))
        return NOLState(w.copy(), logq, w.copy(), np.exp(logq), 0)


@method(AS_STATED, {"nol": NOL()}, scale=positive)
def nol_steps(problem, state, solver, n_steps, rng):
    w, logq, w_mean, q_mean, t0 = state
    g, r = problem.inner, problem.penalty
    q, value, one, grad = np.empty(logq.size), np.empty(1), np.ones(1), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    write_weights(logq, q)
    for t in range(t0, t0 + n_steps):
        step, dual_step, weight = rate(solver.step, t), rate(solver.dual_step, t), average_weight(solver.average, t)
        i = pick(q, rng)
        draw(g, i, rng, batch)
        batch_value(g, i, w, batch, value)
        loss = clip(value[0] / solver.scale, 0.0, 1.0)
        logq[i] = raised(logq[i], -dual_step * (1.0 - loss) / (q[i] + 0.5 * dual_step))
        normalise_logs(logq)
        write_weights(logq, q)
        for j in range(w.size):
            grad[j] = 0.0
        batch_vjp(g, i, w, batch, one, 1.0, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        for j in range(w.size):
            w_mean[j] += weight * (w[j] - w_mean[j])
        for k in range(q.size):
            q_mean[k] += weight * (q[k] - q_mean[k])
    return NOLState(w, logq, w_mean, q_mean, t0 + n_steps)
