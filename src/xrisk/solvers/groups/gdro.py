"""GDRO-EXP3P and GDRO-TINF: gradient descent against a bandit that observes one group per step."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import kl_project_logs, prox, risk_cap
from xrisk.functions.parameters import checks, from_zero_to_one, non_negative, positive
from xrisk.functions.special import clip
from xrisk.generic import generic
from xrisk.inner.oracle import batch_value, batch_vjp, draw, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED
from xrisk.solvers.card import MAXIMUM, SUPPORT_RISK, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.tracking import average_into
from xrisk.solvers.shared.weights import equal_logs, pick, raised


@generic
def bandit_start(bandit, n):
    """Equal weights in the bandit's own coordinates, (n,)."""


@generic
def bandit_weights(bandit, mirror, q):
    """Write the weights to draw by into ``q``."""


@generic
def bandit_learn(bandit, mirror, q, i, loss, dual_step, cap):
    """Change the coordinates after group i, drawn by ``q``, had this loss."""


@generic
def bandit_facts(bandit):
    """What a `MethodCard` says of the game with this bandit."""


@checks(bias=non_negative, exploration=from_zero_to_one)
class EXP3P(NamedTuple):
    """Exponential weights q̃ of estimated losses, optimistic about groups that are rarely drawn [1]_.

    q̃ ← KL-projection of q̃ ⊙ exp(η ĥ) with ĥ_k = (ℓ·1{k = i} + β)/q_k, and q = (1 − γ) q̃ + γ/n.

    Parameters
    ----------
    bias : float
        β, in units of the loss; the theory has √(log n/(nT)).
    exploration : float
        γ; the theory has √(n log(n)/T).

    References
    ----------
    .. [1] Bubeck and Cesa-Bianchi, Regret analysis of stochastic and nonstochastic multi-armed bandit problems, 2012,
       figure 3.1.
    """

    bias: float = 0.0005
    exploration: float = 0.02


@checks(top=positive)
class TINF(NamedTuple):
    """Mirror descent under the entropy −2 Σ √q_k of Tsallis.

    1/√q_k ← 1/√q_k + η 1{k = i} (top − ℓ)/q_i + λ, with the λ for which the weights sum to one.

    Parameters
    ----------
    top : float
        Upper bound on sampled losses, from which they are measured.
    """

    top: float = 1.0


bandit_start.of(EXP3P)(lambda bandit, n: equal_logs(n))
bandit_start.of(TINF)(lambda bandit, n: np.full(n, math.sqrt(n)))


@bandit_facts.of(EXP3P)
def _(bandit):
    rate = "convex n(log n)/ε² in the objective, with high probability, for bounded losses"
    return {"paper": "Soma et al. 2022, GDRO-EXP3P", "confidence": "recalled", "rate": rate, "needs": (SUPPORT_RISK,)}


@bandit_facts.of(TINF)
def _(bandit):
    rate = "convex n/ε² in the objective, for losses in [0, top]"
    return {"paper": "Soma et al. 2022, GDRO-TINF", "confidence": "reconstructed", "rate": rate, "needs": (MAXIMUM,)}


@bandit_weights.of(EXP3P)
def _(bandit, mirror, q):
    for k in range(q.size):
        q[k] = (1.0 - bandit.exploration) * math.exp(mirror[k]) + bandit.exploration / q.size


@bandit_learn.of(EXP3P)
def _(bandit, mirror, q, i, loss, dual_step, cap):
    for k in range(q.size):
        estimate = bandit.bias + (loss if k == i else 0.0)
        if estimate != 0.0:  # without exploration a weight may be too small for a float64
            mirror[k] = raised(mirror[k], dual_step * estimate / max(q[k], 1e-290))
    kl_project_logs(mirror, cap)


@bandit_weights.of(TINF)
def _(bandit, mirror, q):
    for k in range(q.size):
        q[k] = 1.0 / (mirror[k] * mirror[k])


@bandit_learn.of(TINF)
def _(bandit, mirror, q, i, loss, dual_step, cap):
    mirror[i] += dual_step * (bandit.top - clip(loss, 0.0, bandit.top)) / q[i]
    # solved for the smallest coordinate x, between 1 and √n, with the distances of the others fixed: next to large ones
    # λ would lose digits. Σ (x + distance)⁻² − 1 is convex and decreasing: where it is positive, Newton's steps do not
    # overshoot
    smallest = mirror.min()
    x = smallest
    for _ in range(100):
        excess, slope = -1.0, 0.0
        for k in range(q.size):
            root = 1.0 / (x + (mirror[k] - smallest))
            excess += root * root
            slope -= 2.0 * root * root * root
        if abs(excess) < 1e-15 * q.size:
            break
        x = max(x - excess / slope, 1.0)
    for k in range(q.size):
        mirror[k] = x + (mirror[k] - smallest)


class GDROState(NamedTuple):
    w: np.ndarray  # iterate
    mirror: np.ndarray  # (n,) the weights in the bandit's coordinates: log q̃, or 1/√q
    w_mean: np.ndarray  # average of the iterates
    q_mean: np.ndarray  # (n,) average of the weights
    t: int  # iterations done


class GDRO(NamedTuple):
    """No-regret play for the worst groups [1]_: GDRO-EXP3P and GDRO-TINF.

    On min over w of max over q in Q of Σ qᵢgᵢ(w) + r(w), Q = {q on the simplex: qᵢ ≤ κ}; of one group i ~ q_t, with
    a batch 𝓑 of it::

        w_{t+1} = prox_{s r}( w_t − s ∇gᵢ(w_t; 𝓑) )
        EXP3P:  q̃_{t+1} = KL-projection onto Q of q̃_t ⊙ exp(η ĥ),    ĥ_k = (gᵢ(w_t; 𝓑)·1{k = i} + β)/q_{t,k}
                q_{t+1} = (1 − γ) q̃_{t+1} + γ/n
        TINF:   1/√q_{t+1,k} = 1/√q_{t,k} + η 1{k = i} (top − gᵢ(w_t; 𝓑))/q_{t,i} + λ,    normalised by λ

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size η of the weights.
    bandit : EXP3P() or TINF()
        How the weights are learned.
    batch : int
        Samples of the group, B.
    average : UniformAverage(), PolynomialAverage(), LastIterate(), …
        What is reported, of the parameters and of the weights; the theorem is about the uniform average.

    Notes
    -----
    Summaries of the paper say that descent plays against a bandit, EXP3.P or one with Tsallis' entropy; we did not have
    its algorithm boxes. EXP3.P is that of Bubeck and Cesa-Bianchi. TINF is reconstructed from its principle: its bandit
    needs losses that are not negative, so a group's loss counts as its distance below ``top``, and losses above
    ``top`` count as ``top``.

    κ is 1 for the maximum, 1/(αn) for CVaR. A group drawn with q in Q has an unbiased gradient for CVaR too, and
    mixing with equal weights stays in Q, so CVaR only adds the projection. This is ours; we do not know how the paper
    treats such sets. TINF takes only the maximum. β makes EXP3P's bounds hold with high probability: it raises the
    estimate of a group by β/q_k, the more the rarer the group is drawn. γ draws all weights towards equal ones. The
    limit is optimal up to O(nβ + γ); the theory lets both decrease with the number of iterations. Losses of EXP3P may
    have any size; the larger they are, the smaller η must be.

    The state has two numbers per group; an iteration takes O(n) operations, under a CVaR O(n log n). The paper projects
    on a domain, where we take the proximal step of r, and has B = 1. `NOL` is the same game with another bandit,
    Exp3-IX.

    References
    ----------
    .. [1] Soma, Gatmiry, Gupta and Jegelka, Near-optimal algorithms for group distributionally robust optimization
       and beyond, arXiv 2212.13669.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 2)), rng.permutation(100) < 10
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) + X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.GDRO(step=0.05, dual_step=0.01)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=400), rng=0)
    >>> result.value - xrisk.solvers.exact(problem).value < 0.05
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    dual_step: float | Decreasing | Stagewise = 0.005
    bandit: Any = EXP3P()
    batch: int = 8
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard("GDRO", values="B", gradients="B", **bandit_facts(self.bandit))

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> GDROState:
        n = inner_count(problem.inner)
        return GDROState(w.copy(), bandit_start(self.bandit, n), w.copy(), np.full(n, 1.0 / n), 0)


@method(AS_STATED, {"gdro-exp3p": GDRO(), "gdro-tinf": GDRO(bandit=TINF())}, bandit=bandit_learn)
def gdro_steps(problem, state, solver, n_steps, rng):
    w, mirror, w_mean, q_mean, t0 = state
    g, rho, r = problem
    cap = risk_cap(rho, mirror.size)
    q, value, one, grad = np.empty(mirror.size), np.empty(1), np.ones(1), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    bandit_weights(solver.bandit, mirror, q)
    for t in range(t0, t0 + n_steps):
        step, dual_step, weight = rate(solver.step, t), rate(solver.dual_step, t), average_weight(solver.average, t)
        i = pick(q, rng)
        draw(g, i, rng, batch)
        batch_value(g, i, w, batch, value)
        for j in range(w.size):
            grad[j] = 0.0
        batch_vjp(g, i, w, batch, one, 1.0, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        bandit_learn(solver.bandit, mirror, q, i, value[0], dual_step, cap)
        bandit_weights(solver.bandit, mirror, q)
        average_into(w_mean, w, weight)
        average_into(q_mean, q, weight)
    return GDROState(w, mirror, w_mean, q_mean, t0 + n_steps)
