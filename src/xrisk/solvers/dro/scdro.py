"""SCDRO: moving averages of exp(v/λ) and of the gradient, for parameters and temperature at once."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.row_risks import ball_radius, divergence_limit, temperature_range
from xrisk.functions.special import clip
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import KL_RISK, ROWS, SINGLE_ROWS, draw_rows
from xrisk.solvers.shared.temperature import log_average, log_mean_exp, temperature_slope, tilt, with_temperature
from xrisk.solvers.shared.tracking import average_into, descend, fill_zero


class SCDROState(NamedTuple):
    x: np.ndarray  # (w, λ)
    z: np.ndarray  # (V, U): tracks the gradient in w and λ
    sigma: float  # logarithm of s, which tracks mean exp(v/λ)
    x_mean: np.ndarray  # average of the iterates
    limit: float  # the largest KL divergence of any weights
    t: int  # iterations done


class SCDRO(NamedTuple):
    """Stochastic KL-constrained DRO whose cost per iteration does not depend on n [1]_, Algorithm 1.

    On min over w and λ ≥ λ₀ of F(w, λ) = λ log mean exp(vᵢ(w)/λ) + (λ − λ₀)ρ + r(w), vᵢ the loss of row i, for a batch
    of B rows, with σ = log s::

        m = log mean exp(vᵢ(w_t)/λ_t),    σ ← log( (1 − β) e^σ + β e^m ),    Pᵢ = exp(vᵢ/λ_t − σ)
        V ← (1 − β) V + β mean Pᵢ∇vᵢ
        U ← (1 − β) U + β ( σ + ρ − mean Pᵢvᵢ/λ_t )
        w_{t+1} = prox_{η r}( w_t − η V ),    λ_{t+1} = max( λ₀, λ_t − η_λ clip(U, ρ − log n, ρ) )

    Parameters
    ----------
    step : float or schedule
        Step size η of the parameters.
    temperature_step : float or schedule
        Step size η_λ of the temperature λ.
    track : float or schedule
        Weight β of the present batch.
    batch : int
        Rows per iteration B, with replacement.
    temperature : float
        The first λ.
    floor : float
        λ₀ of a ball without a price (``KLBallRisk(radius)``): it keeps λ above zero.
    strength : float
        μ of the term (μ/2)‖(w, λ)‖² that its restarted form, `Restarted`, adds; 0 for none.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    The paper keeps s itself, which overflows for v/λ > 709. Its logarithm cannot overflow: s ≥ β mean exp(v/λ), so no
    Pᵢ exceeds B/β. U is computed as ρ + mean Pᵢ(σ − vᵢ/λ) + σ(1 − mean Pᵢ), where no large terms cancel. The true
    derivative in λ, ρ − KL(p), lies in [ρ − log n, ρ], and the averaged U is always clipped to this interval. The
    printed method does not clip and cannot be run as printed: U then leaves the range of floats with s. The paper has
    one step size for w and λ, projections in place of our prox, and an upper bound on λ that is never active at the
    optimum. The paper's L_F, and with it the theorem's step, is exponential in 1/λ₀; the true one is not, see
    `xrisk.solvers.theory.scdro_setting`. s forgets at the rate β: if a step changes v/λ by more than about β,
    weights vanish or lag behind, so η should not be much above βλ/‖∇v‖². The first batch initialises s, V and U.
    ``KLRisk(λ)`` is accepted as well, with a fixed λ. With unequal masses p every row counts n·pᵢ times, and
    log n is the largest log 1/pᵢ. The reported duals are the worst-case weights at the solution, by a full pass.

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
    >>> result = xrisk.minimize(problem, xrisk.solvers.SCDRO(batch=32), budget=xrisk.Budget(iterations=120), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.06
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
            "SCDRO",
            "Qi et al. 2022, Algorithm 1, (6)",
            "as published",
            values="B",
            gradients="B",
            rate="non-convex 1/ε⁴ to a subgradient of length ε",
            needs=(SINGLE_ROWS, KL_RISK),
            theory=(SMOOTH_INNER,),
        )

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return with_temperature(problem, self, w)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SCDROState:
        return SCDROState(
            x.copy(), np.zeros(x.size), 0.0, x.copy(), divergence_limit(problem.outer, inner_count(problem.inner)), 0
        )


@method(ROWS, {"scdro": SCDRO()})
def scdro_steps(problem, state, solver, n_steps, rng):
    x, z, sigma, x_mean, limit, t0 = state
    g, rho, r = problem
    (low, high), radius = temperature_range(rho), ball_radius(rho)
    batch, grad = new_batch(g, solver.batch), np.empty(x.size)
    for t in range(t0, t0 + n_steps):
        w, lam = x[:-1], x[-1]
        beta = rate(solver.track, t) if t > 0 else 1.0
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        sigma = log_average(sigma, log_mean_exp(batch.losses, batch.weights, lam), beta)
        tilt(batch.losses, batch.weights, lam, sigma, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad[:-1])
        grad[-1] = temperature_slope(radius, batch.losses, batch.scales, lam, sigma)
        for j in range(x.size):
            grad[j] += solver.strength * x[j]
        average_into(z, grad, beta)
        step = rate(solver.step, t)
        descend(w, step, z)
        prox(r, w, step)
        adjoint = clip(z[-1] - solver.strength * lam, radius - limit, radius) + solver.strength * lam
        x[-1] = clip(lam - rate(solver.temperature_step, t) * adjoint, low, high)
        average_into(x_mean, x, average_weight(solver.average, t))
    return SCDROState(x, z, float(sigma), x_mean, limit, t0 + n_steps)
