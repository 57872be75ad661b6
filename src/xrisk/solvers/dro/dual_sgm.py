"""Dual SGM: simultaneous gradient steps on parameters and multipliers of the dual form of a risk."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.functions import ChiSquareBallRisk, ChiSquareRiskA, CVaRRisk, KLBallRisk, KLRisk, prox
from xrisk.functions.parameters import finite
from xrisk.functions.row_risks import ball_radius, bare_risk, floored, temperature_range
from xrisk.functions.special import clip
from xrisk.generic import generic
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard, Need
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import ROWS, SINGLE_ROWS, draw_rows
from xrisk.solvers.shared.temperature import log_mean_exp, tilt
from xrisk.solvers.shared.tracking import average_into, descend, fill_zero


@generic
def dual_slopes(rho, losses, factors, eta, lam, scales):
    """Derivatives of the dual form in η and λ over a batch; that in each loss into ``scales`` (B,)."""


@generic
def lifted(rho, losses, factors, eta, lam, slack):
    """η, raised so far that all derivatives are bounded."""


@generic
def multiplier_range(rho):
    """(low, high): the range of λ; of a risk without λ it is [1, 1]."""


lifted.otherwise(lambda rho, losses, factors, eta, lam, slack: eta)


@multiplier_range.otherwise
def _(rho):
    return 1.0, 1.0


@multiplier_range.of(KLRisk)
@multiplier_range.of(KLBallRisk)
def _(rho):
    return temperature_range(rho)


@register_jitable
def excess_scales(losses, factors, eta, lam, scales):
    """Scales (v − η)₊/(λB); their sum."""
    total = 0.0
    for b in range(losses.size):
        scales[b] = factors[b] * max(losses[b] - eta, 0.0) / (lam * losses.size)
        total += scales[b]
    return total


@dual_slopes.of(CVaRRisk)
def _(rho, losses, factors, eta, lam, scales):
    total = 0.0
    for b in range(losses.size):
        scales[b] = factors[b] / (rho.alpha * losses.size) if losses[b] > eta else 0.0
        total += scales[b]
    return 1.0 - total, 0.0


@dual_slopes.of(ChiSquareRiskA)
def _(rho, losses, factors, eta, lam, scales):
    return 1.0 - excess_scales(losses, factors, eta, rho.lam, scales), 0.0


@dual_slopes.of(ChiSquareBallRisk)
def _(rho, losses, factors, eta, lam, scales):
    squares = 0.0
    for b in range(losses.size):
        excess = max(losses[b] - eta, 0.0)
        squares += factors[b] * excess * excess / losses.size
    best = max(math.sqrt(squares / (1.0 + 2.0 * rho.radius)), rho.strength)  # λ, minimised over
    return 1.0 - excess_scales(losses, factors, eta, best if best > 0.0 else 1.0, scales), 0.0


@dual_slopes.of(KLRisk)
@dual_slopes.of(KLBallRisk)
def _(rho, losses, factors, eta, lam, scales):
    total = tilt(losses, factors, lam, eta / lam, scales)
    adjoint = ball_radius(rho) - 1.0
    for b in range(losses.size):
        adjoint += scales[b] * (1.0 - (losses[b] - eta) / lam)
    return 1.0 - total, adjoint


@lifted.of(KLRisk)
@lifted.of(KLBallRisk)
def _(rho, losses, factors, eta, lam, slack):
    least = log_mean_exp(losses, factors, lam)
    return lam * least if eta / lam < least - slack else eta


DUAL_FORM = Need(
    "a CVaR, KL or χ² risk",
    lambda problem: dual_slopes.implemented(bare_risk(problem.outer)),
)


class DualSGMState(NamedTuple):
    x: np.ndarray  # (w, η, λ)
    x_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class DualSGM(NamedTuple):
    """Stochastic gradients of the dual form of a risk, in w and its multipliers [1]_.

    With vᵢ the loss of row i, on min over w, η (and λ ≥ λ₀) of::

        CVaR         η + mean (vᵢ − η)₊/α
        χ², price    η + λ₀/2 + mean (vᵢ − η)₊²/(2λ₀)
        χ², ball     η + ( (1 + 2ρ) mean (vᵢ − η)₊² )^½
        KL           η + λ mean exp((vᵢ − η)/λ) − λ + (λ − λ₀)ρ

    plus r(w), one step along the gradient on a batch, w ← prox_{s r}(w − s g_w), η ← η − s_η g_η,
    λ ← max(λ₀, λ − s_λ g_λ).

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    threshold_step : float or schedule
        Step size s_η of η.
    temperature_step : float or schedule
        Step size s_λ of λ, for KL.
    batch : int
        Rows per iteration B, with replacement.
    threshold, temperature : float
        The first η and λ.
    slack : float
        δ of the guard of KL: where η/λ is below log mean exp(v/λ) − δ on the batch, η is raised to λ times that mean,
        so that the mean weight stays below e^δ.
    floor : float
        λ₀ of a KL ball without a price (``KLBallRisk(radius)``): it keeps λ above zero.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The update is that of the authors' code. The gradient is unbiased, with two exceptions: the χ² ball,
    which takes a square root of a batch mean, and the guard, which is ours: without it exp((v − η)/λ) overflows. The KL
    ball is not in the authors' code; it is the form that [2]_ compares with. A χ² ball with a price λ₀ has λ̂ = max(λ₀,
    (mean (v − η)₊²/(1 + 2ρ))^½ ) and weights (v − η)₊/λ̂. The λ of ``KLRisk(λ)`` is fixed. With unequal masses p every
    row counts n·pᵢ times. The reported duals are the worst-case weights at the solution, by a full pass.

    References
    ----------
    .. [1] Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020;
       daniellevy/fast-dro.
    .. [2] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, CVaRRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), CVaRRisk(0.5), L2(0.1))
    >>> solver = xrisk.solvers.DualSGM(step=0.1, threshold_step=0.1, batch=32)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    threshold_step: float | Decreasing | Stagewise = 0.02
    temperature_step: float | Decreasing | Stagewise = 0.02
    batch: int = 64
    threshold: float = 0.0
    temperature: float = 1.0
    slack: float = 1.0
    floor: float = 1e-3
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "Dual SGM",
            "Levy et al. 2020, authors' code; Qi et al. 2022, section 6",
            "as published",
            values="B",
            gradients="B",
            rate="convex 1/ε²",
            needs=(SINGLE_ROWS, DUAL_FORM),
        )

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        low, high = multiplier_range(bare_risk(floored(problem.outer, self.floor)))
        return np.concatenate((w, [self.threshold, min(max(self.temperature, low), high)]))

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> DualSGMState:
        return DualSGMState(x.copy(), x.copy(), 0)


@method(ROWS, {"dual-sgm": DualSGM()}, threshold=finite)
def dualsgm_steps(problem, state, solver, n_steps, rng):
    x, x_mean, t0 = state
    g, masses, r = problem
    rho, w = bare_risk(masses), x[:-2]
    low, high = multiplier_range(rho)
    batch, grad = new_batch(g, solver.batch), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        eta, lam, step = x[-2], x[-1], rate(solver.step, t)
        draw_rows(g, masses, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        eta = lifted(rho, batch.losses, batch.weights, eta, lam, solver.slack)
        g_eta, g_lam = dual_slopes(rho, batch.losses, batch.weights, eta, lam, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        descend(w, step, grad)
        prox(r, w, step)
        x[-2] = eta - rate(solver.threshold_step, t) * g_eta
        x[-1] = clip(lam - rate(solver.temperature_step, t) * g_lam, low, high)
        average_into(x_mean, x, average_weight(solver.average, t))
    return DualSGMState(x, x_mean, t0 + n_steps)
