"""RECOVER: variance-reduced estimators for DRO with a price on KL divergence; stages cut the steps."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.special import norm
from xrisk.inner.oracle import batch_losses, batch_losses_vjp, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.single_rows import EQUAL_MASSES, KL_PRICE, ROWS, SINGLE_ROWS, draw_rows
from xrisk.solvers.shared.temperature import log_mean_exp, storm_scale, tilt
from xrisk.solvers.shared.tracking import assign, average_into, descend, fill_zero, shorten


class RECOVERState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    v: np.ndarray  # λV/u: tracks the gradient
    m: float  # logarithm of u, which tracks mean exp(v/λ)
    steepest: float  # longest weighted gradient of a batch so far
    w_mean: np.ndarray  # average of the iterates
    guarded: int  # iterations in which u had to be kept positive
    t: int  # iterations done


class RECOVER(NamedTuple):
    """Online stochastic method for KL-regularised DRO [1]_. The recursion is that of [2]_.

    On λ log mean exp(vᵢ(w)/λ) + r(w), with gᵢ = exp(vᵢ/λ) and the same batch at w_t and w_{t−1}::

        u ← g(w_t) + (1 − a)( u − g(w_{t−1}) ),    V ← ∇g(w_t) + (1 − a)( V − ∇g(w_{t−1}) )
        w_{t+1} = prox_{η r}( w_t − η (λ/u) V )

    in stages of smaller and smaller η and a.

    Parameters
    ----------
    step : float or schedule
        Step size η; by default in stages, each of which continues from the end of the last one.
    track : float or schedule
        Weight a of the present batch.
    batch : int
        Rows per iteration B, with replacement; each is evaluated at two points.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    Without stages it is COVER. We have the recursion, but not the constants of its stages, which a theorem gives under
    a Polyak–Łojasiewicz condition: that a halved target halves η and a is our assumption. The authors' script clips
    exp(v/λ) and averages two batches in the gradient, which is not the recursion. u is scaled, kept positive and
    counted as s in `ASCDRO`.

    References
    ----------
    .. [1] Qi, Guo, Xu, Jin and Yang, An online method for a class of distributionally robust optimization with
       non-convex objectives, 2021.
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
    >>> solver = xrisk.solvers.RECOVER(step=0.3, batch=32)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=40), rng=0)
    >>> bool(result.value < xrisk.solvers.exact(problem).value + 0.01)
    True
    """

    step: float | Decreasing | Stagewise = Stagewise(0.1, 0.5, 1000, 2.0)
    track: float | Decreasing | Stagewise = Stagewise(0.5, 0.5, 1000, 2.0)
    batch: int = 64
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "RECOVER",
            "Qi et al. 2021; Qi et al. 2022, section 2",
            "reconstructed",
            values="2B",
            gradients="2B",
            rate="non-convex 1/ε³ to a gradient of length ε; 1/(με) under a Polyak–Łojasiewicz condition",
            needs=(SINGLE_ROWS, KL_PRICE, EQUAL_MASSES),
            theory=(SMOOTH_INNER,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> RECOVERState:
        return RECOVERState(w.copy(), w.copy(), np.zeros(w.size), 0.0, 0.0, w.copy(), 0, 0)


@method(ROWS, {"recover": RECOVER()})
def recover_steps(problem, state, solver, n_steps, rng):
    w, w_prev, v, m, steepest, w_mean, guarded, t0 = state
    g, rho, r = problem
    lam, batch, losses_prev = rho.lam, new_batch(g, solver.batch), np.empty(solver.batch)
    grad, z = np.empty(w.size), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        draw_rows(g, rho, rng, batch)
        batch_losses(g, w, batch, batch.losses)
        batch_losses(g, w_prev, batch, losses_prev)
        new, old = log_mean_exp(batch.losses, batch.weights, lam), log_mean_exp(losses_prev, batch.weights, lam)
        m, kept, old, fell = storm_scale(m, norm(v), new, old, rate(solver.track, t) if t > 0 else 1.0)
        guarded += fell
        total = tilt(batch.losses, batch.weights, lam, m, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w, batch, batch.scales, grad)
        steepest = max(steepest, norm(grad) / total) if total > 0.0 else steepest
        for j in range(w.size):
            v[j] = kept * v[j] + grad[j]
        tilt(losses_prev, batch.weights, lam, old, batch.scales)
        fill_zero(grad)
        batch_losses_vjp(g, w_prev, batch, batch.scales, grad)
        for j in range(w.size):
            v[j] -= grad[j]
        assign(z, v)
        shorten(z, steepest)
        assign(w_prev, w)
        step = rate(solver.step, t)
        descend(w, step, z)
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return RECOVERState(w, w_prev, v, float(m), float(steepest), w_mean, guarded, t0 + n_steps)
