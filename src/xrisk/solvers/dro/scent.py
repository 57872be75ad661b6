"""SCENT: a mirror step on the logarithm of mean exp(v/λ), for DRO with a price on KL divergence."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.row_risks import bare_risk
from xrisk.functions.special import log1pexp
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import KL_PRICE, ROWS, SINGLE_ROWS, draw_rows
from xrisk.solvers.shared.temperature import log_mean_exp, tilt
from xrisk.solvers.shared.tracking import average_into, descend, fill_zero


class SCENTState(NamedTuple):
    w: np.ndarray  # iterate
    nu: float  # tracks log mean exp(v/λ)
    w_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class SCENT(NamedTuple):
    """Stochastic proximal mirror steps for a log-mean-exp, under φ(ν) = e^{−ν} [1]_.

    On λ log mean exp(vᵢ(w)/λ) + r(w) = min over w, ν of λ mean exp(vᵢ/λ − ν) + λν − λ + r(w), for a batch with
    m = log mean exp(vᵢ(w_t)/λ)::

        ν ← ν + log(1 + α e^m) − log(1 + α e^ν)
        w_{t+1} = prox_{η r}( w_t − η mean exp(vᵢ/λ − ν) ∇vᵢ )

    Parameters
    ----------
    step : float or schedule
        Step size η of the parameters.
    dual_step : float or schedule
        Step size α of ν, an average in which the new value has the weight αe^ν/(1 + αe^ν).
    batch : int
        Rows per iteration B, with replacement.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The update is that of the authors' code. ν stays between the values m seen so far, and no weight exceeds B(1 +
    e^{−ν}/α), so nothing overflows if losses are not negative. The first batch initialises ν. If the mean of
    exponentials is far from one, the weight of ν's step is near 0 or 1 unless α is of the size of e^{−ν}. The authors'
    code handles many such means at once, one for each positive of a ranking; here there is one. Their steps are α/√T
    and proportional to it. With unequal masses p every row counts n·pᵢ times.

    References
    ----------
    .. [1] Optimization-AI/SCENT; Yang, opt4ml.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLRisk(0.5), L2(0.1))
    >>> solver = xrisk.solvers.SCENT(step=0.2, batch=32)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=60), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.1
    batch: int = 64
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SCENT",
            "authors' code; book",
            "as published",
            values="B",
            gradients="B",
            rate="convex 1/ε²",
            needs=(SINGLE_ROWS, KL_PRICE),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SCENTState:
        return SCENTState(w.copy(), 0.0, w.copy(), 0)


@method(ROWS, {"scent": SCENT()})
def scent_steps(problem, state, solver, n_steps, rng):
    w, nu, w_mean, t0 = state
    g, rho, r = problem
    lam, batch, grad = bare_risk(rho).lam, new_batch(g, solver.batch), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step, log_alpha = rate(solver.step, t), math.log(rate(solver.dual_step, t))
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        m = log_mean_exp(batch.losses, batch.weights, lam)
        nu = nu + (log1pexp(log_alpha + m) - log1pexp(log_alpha + nu)) if t > 0 else m
        tilt(batch.losses, batch.weights, lam, nu, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        descend(w, step, grad)
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return SCENTState(w, float(nu), w_mean, t0 + n_steps)
