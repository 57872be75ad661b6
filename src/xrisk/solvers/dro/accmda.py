"""AccMDA: momentum and variance reduction for parameters and the weights of all rows."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.functions import KLBallRisk, KLRisk, prox
from xrisk.functions.ambiguity import kl_divergence
from xrisk.functions.row_risks import temperature_range
from xrisk.functions.simplex import project_simplex
from xrisk.functions.special import wright_omega
from xrisk.generic import generic
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import EQUAL_MASSES, KL_RISK, ROWS, SINGLE_ROWS, draw_rows, raise_least
from xrisk.solvers.shared.tracking import assign, average_into


@generic
def project_weights(rho, q, least):
    """The nearest weights to q (n,) that the risk allows, none below least/n, in place."""


@project_weights.of(KLRisk)
def _(rho, q, least):
    onto_simplex(q, least)


@project_weights.of(KLBallRisk)
def _(rho, q, least):
    before = q.copy()
    onto_simplex(q, least)
    if kl_divergence(np.empty(0), q) > rho.radius:
        onto_kl_ball(before, rho.radius, q)
        raise_least(q, least)


@register_jitable
def onto_simplex(q, least):
    """The nearest point of {q: Σ q = 1, qᵢ ≥ least/n}, in place."""
    for i in range(q.size):
        q[i] -= least / q.size
    project_simplex(q, 1.0 - least)
    for i in range(q.size):
        q[i] += least / q.size


@register_jitable
def entropic_weights(q, mu, out):
    """argmin ½‖p − q‖² + μ KL(p) over the simplex into ``out``: pᵢ = μω((qᵢ − ν)/μ − log μ), ν by Newton's method.

    Σ p is convex and falls with ν, and is at least 1 at the first one: the iterates rise to the solution.
    """
    nu = q.max() - 1.0
    for _ in range(100):
        total, slope = 0.0, 0.0
        for i in range(q.size):
            omega = wright_omega((q[i] - nu) / mu - math.log(mu))
            out[i] = mu * omega
            total += out[i]
            slope += omega / (1.0 + omega)
        if total - 1.0 <= 1e-13 * q.size:
            break
        nu += (total - 1.0) / slope


@register_jitable
def onto_kl_ball(q, radius, out):
    """The nearest weights to q with KL(p) ≤ radius into ``out``, for q outside: log KL against log μ, by secants."""
    low = high = math.log(1e-3 / q.size)
    upper = lower = log_divergence(q, low, out) - math.log(radius)
    while upper <= 0.0:
        high, lower, low = low, upper, low - 4.0
        upper = log_divergence(q, low, out) - math.log(radius)
    while lower > 0.0:
        low, upper, high = high, lower, high + 4.0
        lower = log_divergence(q, high, out) - math.log(radius)
    side = 0.0
    for _ in range(100):
        middle = low + (high - low) * upper / (upper - lower)
        height = log_divergence(q, middle, out) - math.log(radius)
        if abs(height) <= 1e-10 or high - low <= 1e-12:
            break
        halved = 0.5 if side * height > 0.0 else 1.0  # at an end kept twice, so that neither end stays for good
        if height > 0.0:
            low, upper, lower = middle, height, halved * lower
        else:
            high, lower, upper = middle, height, halved * upper
        side = height


@register_jitable
def log_divergence(q, log_mu, out):
    """log KL of `entropic_weights`."""
    entropic_weights(q, math.exp(log_mu), out)
    return math.log(max(kl_divergence(np.empty(0), out), 1e-300))


class AccMDAState(NamedTuple):
    w: np.ndarray  # iterate
    p: np.ndarray  # (n,) weights of the rows
    v: np.ndarray  # tracks the gradient in w
    y: np.ndarray  # (n,) tracks the gradient in p
    w_mean: np.ndarray  # average of the iterates
    p_mean: np.ndarray  # (n,) average of the weights
    t: int  # iterations done


class AccMDA(NamedTuple):
    """Accelerated momentum descent ascent [1]_, as in [2]_.

    On min over w of max over p of f(w, p) = Σ pᵢvᵢ(w) − λ₀ KL(p), plus r(w), with a_t = k/(m + t)^{1/3}, the same batch
    at the new and the old point::

        w⁺ = (1 − a_t) w + a_t prox_{s r}( w − s v ),    p⁺ = (1 − a_t) p + a_t Π( p + s_p y )
        v ← ∇_w f(w⁺, p⁺; 𝓑) + (1 − c a_t²)( v − ∇_w f(w, p; 𝓑) ),    y likewise with ∇_p f

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        n·s_p.
    mixing : float or schedule
        a_t in (0, 1]; k/(m + t)^{1/3} is ``Decreasing(k/m^(1/3), m, 1/3)``.
    decay : float
        c, for parameters and weights; the weight of the batch is c·a_t², at most 1.
    least : float
        δ in (0, 1): no weight falls below δ/n, where the gradient of KL would grow without bound.
    batch : int
        Rows per iteration B, with replacement; each is evaluated at two points.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    An iteration takes O(n) operations. ∇_p f is estimated by mean n vᵢeᵢ − λ₀(log(n p) + 1), where the
    price is exact. v and y begin at 0, so the first iteration only shrinks. Π is the Euclidean projection on weights of
    at least δ/n; on a ball, it is the exact projection, by two nested equations, after which weights below δ/n are
    raised to δ/n. Public implementations descend in p where the method ascends; ours ascends. The paper has no penalty;
    ours enters by its prox.

    References
    ----------
    .. [1] Huang, Gao, Pei and Huang, Accelerated zeroth-order and first-order momentum methods from mini to minimax
       optimization, 2020.
    .. [2] Shao, Xu, Yang, Bao and Huang, Asymptotically unbiased instance-wise regularized partial AUC optimization:
       theory and algorithm, 2022, and its journal extension, 2025; its ASGDA is this method.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> result = xrisk.minimize(problem, xrisk.solvers.AccMDA(step=1.0), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.5
    dual_step: float | Decreasing | Stagewise = 0.5
    mixing: float | Decreasing | Stagewise = Decreasing(0.126, 500.0, 1 / 3)
    decay: float = 3.0
    least: float = 0.05
    batch: int = 32
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "AccMDA",
            "Huang et al. 2020, as in Shao et al. 2025",
            "as published",
            values="2B",
            gradients="2B",
            rate="non-convex, strongly concave 1/ε³, O(n) per iteration",
            needs=(SINGLE_ROWS, KL_RISK, EQUAL_MASSES),
            theory=(SMOOTH_INNER,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> AccMDAState:
        n = inner_count(problem.inner)
        p = np.full(n, 1.0 / n)
        return AccMDAState(w.copy(), p, np.zeros(w.size), np.zeros(n), w.copy(), p.copy(), 0)

    def dual(self, problem: Problem, state: AccMDAState) -> np.ndarray:
        return state.p_mean.size * state.p_mean[:, None]


@register_jitable
def add_saddle_slopes(g, w, p, lam, batch, scale, v, y):
    """Add scale times the gradients of Σ pᵢvᵢ(w) − λ KL(p) on the batch to v (d) and y (n)."""
    n = p.size
    batch_losses(g, w, batch, batch.losses)
    for b in range(batch.rows.size):
        batch.scales[b] = scale * n * p[batch.rows[b]] / batch.rows.size
        y[batch.rows[b]] += scale * n * batch.losses[b] / batch.rows.size
    batch_losses_vjp(g, w, batch, batch.scales, v)
    for i in range(n):
        y[i] -= scale * lam * (math.log(n * p[i]) + 1.0)


@method(ROWS, {"accmda": AccMDA()})
def accmda_steps(problem, state, solver, n_steps, rng):
    w, p, v, y, w_mean, p_mean, t0 = state
    g, rho, r = problem
    n, lam, batch = p.size, temperature_range(rho)[0], new_batch(g, solver.batch)
    w_prev, p_prev, w_new, p_new = np.empty(w.size), np.empty(n), np.empty(w.size), np.empty(n)
    for t in range(t0, t0 + n_steps):
        step, dual_step, mix = rate(solver.step, t), rate(solver.dual_step, t) / n, rate(solver.mixing, t)
        assign(w_prev, w)
        assign(p_prev, p)
        for j in range(w.size):
            w_new[j] = w[j] - step * v[j]
        prox(r, w_new, step)
        for i in range(n):
            p_new[i] = p[i] + dual_step * y[i]
        project_weights(rho, p_new, solver.least)
        average_into(w, w_new, mix)
        average_into(p, p_new, mix)
        draw_rows(g, rho, rng, batch)
        kept = 1.0 - min(solver.decay * mix * mix, 1.0)
        for j in range(w.size):
            v[j] *= kept
        for i in range(n):
            y[i] *= kept
        add_saddle_slopes(g, w, p, lam, batch, 1.0, v, y)
        add_saddle_slopes(g, w_prev, p_prev, lam, batch, -kept, v, y)
        average_into(w_mean, w, average_weight(solver.average, t))
        average_into(p_mean, p, average_weight(solver.average, t))
    return AccMDAState(w, p, v, y, w_mean, p_mean, t0 + n_steps)
