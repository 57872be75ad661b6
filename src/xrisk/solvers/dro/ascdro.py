"""ASCDRO: SCDRO with variance-reduced estimators, which evaluate every batch at two points."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.row_risks import ball_radius, divergence_limit, temperature_range
from xrisk.functions.special import clip, norm
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import KL_RISK, ROWS, SINGLE_ROWS, draw_rows, worst_weights_at
from xrisk.solvers.shared.temperature import log_mean_exp, mean_loss, storm_scale, tilt, with_temperature
from xrisk.solvers.shared.tracking import assign, average_into, descend, fill_zero, shorten


class ASCDROState(NamedTuple):
    x: np.ndarray  # (w, λ)
    x_prev: np.ndarray  # the iterate before
    q: np.ndarray  # (V̂, Û): tracks ∇g/g, g = mean exp(v/λ)
    m: float  # logarithm of s, which tracks g
    steepest: float  # longest weighted gradient of a batch so far
    x_mean: np.ndarray  # average of the iterates
    limit: float  # the largest KL divergence of any weights
    guarded: int  # iterations in which s had to be kept positive
    t: int  # iterations done


class ASCDRO(NamedTuple):
    """Accelerated SCDRO [1]_, Algorithm 2, in a scaled form.

    On the problem of `SCDRO`, with gᵢ(x) = exp(vᵢ(w)/λ), x = (w, λ), the same batch at x_t and x_{t−1}::

        s ← g(x_t) + (1 − β)( s − g(x_{t−1}) ),    V, U likewise with ∇_w g and ∂g/∂λ
        z = ( (λ_t/s) V, (λ_t/s) U + log s + ρ )
        w_{t+1} = prox_{η r}( w_t − η z_w ),    λ_{t+1} = max( λ₀, λ_t − η_λ z_λ )

    Parameters
    ----------
    step : float or schedule
        Step size η of the parameters.
    temperature_step : float or schedule
        Step size η_λ of the temperature λ.
    track : float or schedule
        Weight β of the present batch.
    batch : int
        Rows per iteration B, with replacement; each is evaluated at two points.
    temperature : float
        The first λ.
    floor : float
        λ₀ of a ball without a price (``KLBallRisk(radius)``): it keeps λ above zero.
    strength : float
        μ of the term (μ/2)‖(w, λ)‖² that its restarted form, `Restarted`, adds to z; 0 for none.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    s, V and U are kept as m = log s, V/s and U/s, so that all exponents are at most 0 and nothing
    overflows. The recursion subtracts, so s may become negative, which the paper's proof excludes and its algorithm
    does not. We keep s above β times the mean of the batch, which holds for SCDRO by itself; the state counts how often
    (``guarded``). Where s is so small that only rounding is left, the batch alone is used. z is projected to where the
    gradient can lie: z_w to the length of the longest weighted mean of gradients of a batch so far, z_λ to [ρ − log n,
    ρ]. If ``guarded`` is a large share of t, smaller steps are needed. The notes of `SCDRO` on its step size,
    projections, masses, KLRisk and duals apply. The theorem's schedules are `xrisk.solvers.theory.ascdro_setting`.

    References
    ----------
    .. [1] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLBallRisk(0.3), L2(0.1))
    >>> result = xrisk.minimize(problem, xrisk.solvers.ASCDRO(batch=32), budget=xrisk.Budget(iterations=80), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.05
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    temperature_step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.1
    batch: int = 64
    temperature: float = 1.0
    floor: float = 1e-3
    strength: float = 0.0
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "ASCDRO",
            "Qi et al. 2022, Algorithm 2, (7), (8)",
            "as published",
            values="2B",
            gradients="2B",
            rate="non-convex 1/ε³ to a subgradient of length ε",
            needs=(SINGLE_ROWS, KL_RISK),
            theory=(SMOOTH_INNER,),
        )

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return with_temperature(problem, self, w)

    def dual(self, problem: Problem, state: "ASCDROState") -> np.ndarray:
        return worst_weights_at(problem, state.x_mean)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> ASCDROState:
        return ASCDROState(
            x.copy(),
            x.copy(),
            np.zeros(x.size),
            0.0,
            0.0,
            x.copy(),
            divergence_limit(problem.outer, inner_count(problem.inner)),
            0,
            0,
        )


@method(ROWS, {"ascdro": ASCDRO()})
def ascdro_steps(problem, state, solver, n_steps, rng):
    x, x_prev, q, m, steepest, x_mean, limit, guarded, t0 = state
    g, rho, r = problem
    (low, high), radius = temperature_range(rho), ball_radius(rho)
    batch, losses_prev, grad, z = new_batch(g, solver.batch), np.empty(solver.batch), np.empty(x.size), np.empty(x.size)
    for t in range(t0, t0 + n_steps):
        w, w_prev, lam, lam_prev = x[:-1], x_prev[:-1], x[-1], x_prev[-1]
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        batch_losses(g, w_prev, batch, losses_prev)
        new, old = log_mean_exp(batch.losses, batch.weights, lam), log_mean_exp(losses_prev, batch.weights, lam_prev)
        m, kept, old, fell = storm_scale(m, norm(q), new, old, rate(solver.track, t) if t > 0 else 1.0)
        guarded += fell
        total = tilt(batch.losses, batch.weights, lam, m, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad[:-1])
        steepest = max(steepest, norm(grad[:-1]) / total) if total > 0.0 else steepest
        grad[-1] = -mean_loss(batch.losses, batch.scales) / lam
        for j in range(x.size):
            q[j] = kept * q[j] + grad[j] / lam
        tilt(losses_prev, batch.weights, lam_prev, old, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w_prev, batch, batch.scales, grad[:-1])
        grad[-1] = -mean_loss(losses_prev, batch.scales) / lam_prev
        for j in range(x.size):
            q[j] -= grad[j] / lam_prev
            z[j] = lam * q[j]
        shorten(z[:-1], steepest)
        z[-1] = clip(z[-1] + m + radius, radius - limit, radius)
        assign(x_prev, x)
        for j in range(x.size):
            z[j] += solver.strength * x[j]
        step = rate(solver.step, t)
        descend(w, step, z)
        prox(r, w, step)
        x[-1] = clip(lam - rate(solver.temperature_step, t) * z[-1], low, high)
        average_into(x_mean, x, average_weight(solver.average, t))
    return ASCDROState(x, x_prev, q, float(m), float(steepest), x_mean, limit, guarded, t0 + n_steps)
