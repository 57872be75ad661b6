"""PAUCI: two-way partial AUC of sigmoid scores as a min-max problem of single rows, solved by ASGDA."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions import prox
from xrisk.functions.parameters import non_negative, positive
from xrisk.functions.special import clip, sigmoid
from xrisk.inner.oracle import batch_scores, batch_scores_vjp, draw, inner_count, new_batch, tail_share
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.shared.thresholds import PARTIAL_AUC, TWO_WAY, draw_blocks, prepare_two_way
from xrisk.solvers.shared.tracking import assign

INTERCEPT, A, B, S, S2, TA, TB = range(7)  # variables after w
FIRST = np.array([0.0, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0])
LOW = np.array([-np.inf, 0.0, 0.0, -4.0, 0.0, 0.0, 0.0])
HIGH = np.array([np.inf, 1.0, 1.0, 1.0, 5.0, 1e9, 1e9])


class PAUCIState(NamedTuple):
    x: np.ndarray  # (d + 7,) w, intercept, a, b, s, s₂, θ_a, θ_b
    x_prev: np.ndarray  # (d + 7,) the iterate before
    gamma: float  # the dual γ
    gamma_prev: float  # that before
    v: np.ndarray  # (d + 7,) tracks the gradient in x
    ascent: float  # tracks the slope in γ
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    t: int  # iterations done


class PAUCI(NamedTuple):
    """Instance-wise two-way partial AUC [1]_ by ASGDA, accelerated gradient descent and ascent.

    It does not minimise the problem as stated, whose loss it ignores, but that of the square loss (1 − (fᵢ − fⱼ))² of
    sigmoid scores f = σ(⟨x, w⟩ + c), the selection of rows smoothed by r(x) = log(1 + e^{κx})/κ::

        min over w, c, a, b in [0, 1], s in [−4, 1], s₂ in [0, 5], θ_a, θ_b ≥ 0  max over γ in [−1, 1] of
            s + meanᵢ r(P(fᵢ) − s)/θ₀ + s₂ + meanⱼ r(N(fⱼ) − s₂)/θ₁
            − (1 + ω) γ² + θ_a (a + γ) − θ_b (b − 1 − γ) + r(w)
        P(f) = (f − a)² − 2(1 + γ) f,    N(f) = (f − b)² + 2(1 + γ) f

    With x all that is minimised, G_x and G_γ gradients on a batch of S positives and B negatives and
    e_t = k/(m + t)^{1/3}::

        v = G_x(x_t, γ_t) + (1 − c₁ e²_{t−1}) (v − G_x(x_{t−1}, γ_{t−1})),    u likewise with G_γ and c₂
        x_{t+1} = (1 − e_t) x_t + e_t Proj( x_t − ν v ),    γ_{t+1} = (1 − e_t) γ_t + e_t Proj( γ_t + μ u )

    Parameters
    ----------
    step : float
        Step size ν of what is minimised.
    dual_step : float
        Step size μ of γ.
    scale, delay : float
        k and m of e_t.
    decay, dual_decay : float
        c₁ and c₂; c e²_t is the weight of new gradients.
    kappa : float
        Sharpness κ of the smoothed selection; γ has one maximiser if κ ≤ 2 + 2ω.
    omega : float
        Ridge ω on γ.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives per iteration B, with replacement.

    Notes
    -----
    Both public implementations descend in γ, which is maximised; ours ascends. v and u start at the first gradients, in
    the implementations at 0. The prox of the penalty on w replaces a projection. The intercept does not influence a
    ranking, but sigmoid scores need one; it is not part of ``result.w``. The method forms no pairs, so oracle calls
    count rows. It reports the last iterate, and duals of 1.

    References
    ----------
    .. [1] Shao, Xu, Yang, Bao and Huang, Asymptotically unbiased instance-wise regularized partial AUC optimization:
       theory and algorithm, 2022, and its journal extension, 2025.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5)
    >>> result = xrisk.minimize(problem, xrisk.solvers.PAUCI(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.w[0] > 4 * abs(result.w[1:]).max())
    True
    """

    step: float = 0.5
    dual_step: float = 0.1
    scale: float = 1.0
    delay: float = 10.0
    decay: float = 1.0
    dual_decay: float = 1.0
    kappa: float = 2.0
    omega: float = 0.0
    blocks: int | None = None
    batch: int = 32

    def card(self) -> MethodCard:
        return MethodCard(
            "PAUCI",
            "Shao et al. 2022 and 2025, ASGDA",
            "as published",
            values="0",
            gradients="2S + 2B",
            rate="stationary points of its own min-max problem: 1/ε³",
            needs=(PARTIAL_AUC,),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "PAUCI"]:
        problem, solver = prepare_two_way(problem, self)
        least = solver.scale**3 * max(1.0, solver.decay, solver.dual_decay) ** 1.5
        if solver.delay < least:
            raise ValueError(f"delay must be at least {least:.6g} for that scale and decay, got {solver.delay}")
        return problem, solver

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return np.append(w, FIRST)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> PAUCIState:
        order = np.arange(inner_count(problem.inner))
        return PAUCIState(x.copy(), x.copy(), 1.0, 1.0, np.zeros(x.size), 0.0, order, 0)


@register_jitable
def mixing(solver, t):
    """e_t."""
    return solver.scale / (solver.delay + t) ** (1.0 / 3.0)


@register_jitable
def pauci_side(g, solver, batch, at, sign, theta, x, up, grad):
    """Add what one side, − for positives and + for negatives, has in the gradient in x, and return that in γ.

    ``at`` is the place of its mean and threshold after w.
    """
    d, (mean, level), slope = x.size - FIRST.size, at, 0.0
    rest, out = x[d:], grad[d:]
    batch_scores(g, x[:d], batch)
    for b in range(batch.rows.size):
        f = sigmoid(batch.scores[b] + rest[INTERCEPT])
        gap = f - rest[mean]
        weight = sigmoid(solver.kappa * (gap * gap + sign * 2.0 * up * f - rest[level])) / (theta * batch.rows.size)
        batch.coefs[b] = weight * 2.0 * (gap + sign * up) * f * (1.0 - f)
        out[INTERCEPT] += batch.coefs[b]
        out[mean] -= weight * 2.0 * gap
        out[level] -= weight
        slope += weight * sign * 2.0 * f
    batch_scores_vjp(g, batch, grad[:d])
    return slope


@register_jitable
def pauci_gradient(problem, solver, batch_i, batch_j, x, gamma, grad):
    """Write the gradient in x into ``grad`` (d + 7), and return that in γ."""
    g, d, up = problem.inner, x.size - FIRST.size, 1.0 + gamma
    rest, out = x[d:], grad[d:]
    for j in range(grad.size):
        grad[j] = 0.0
    out[A], out[B], out[S], out[S2] = rest[TA], -rest[TB], 1.0, 1.0
    out[TA], out[TB] = rest[A] + gamma, gamma + 1.0 - rest[B]
    slope = pauci_side(g, solver, batch_i, (A, S), -1.0, problem.outer.alpha, x, up, grad)
    slope += pauci_side(g, solver, batch_j, (B, S2), 1.0, tail_share(g), x, up, grad)
    return slope - 2.0 * (1.0 + solver.omega) * gamma + rest[TA] + rest[TB]


@method(
    TWO_WAY,
    {"pauci": PAUCI()},
    **dict.fromkeys(("scale", "delay", "dual_decay", "kappa"), positive),
    omega=non_negative,
)
def pauci_steps(problem, state, solver, n_steps, rng):
    x, x_prev, gamma, gamma_prev, v, ascent, order, t0 = state
    g, r, d = problem.inner, problem.penalty, x.size - FIRST.size
    batch_i, batch_j = new_batch(g, solver.blocks), new_batch(g, solver.batch)
    grad, grad_prev, moved = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    for t in range(t0, t0 + n_steps):
        e, e_prev = mixing(solver, t), mixing(solver, max(t - 1, 0))
        keep, keep_dual = 1.0 - solver.decay * e_prev * e_prev, 1.0 - solver.dual_decay * e_prev * e_prev
        draw_blocks(g, order, batch_i, rng)
        draw(g, order[0], rng, batch_j)
        slope_prev = pauci_gradient(problem, solver, batch_i, batch_j, x_prev, gamma_prev, grad_prev)
        slope = pauci_gradient(problem, solver, batch_i, batch_j, x, gamma, grad)
        ascent = slope + keep_dual * (ascent - slope_prev) if t > 0 else slope
        for j in range(x.size):
            v[j] = grad[j] + keep * (v[j] - grad_prev[j]) if t > 0 else grad[j]
            moved[j] = x[j] - solver.step * v[j]
        prox(r, moved[:d], solver.step)
        for k in range(FIRST.size):
            moved[d + k] = clip(moved[d + k], LOW[k], HIGH[k])
        assign(x_prev, x)
        gamma_prev = gamma
        for j in range(x.size):
            x[j] += e * (moved[j] - x[j])
        gamma += e * (clip(gamma + solver.dual_step * ascent, -1.0, 1.0) - gamma)
    return PAUCIState(x, x_prev, float(gamma), float(gamma_prev), v, float(ascent), order, t0 + n_steps)
