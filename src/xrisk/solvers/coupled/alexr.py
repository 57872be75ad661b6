"""ALEXR: primal-dual steps on sampled blocks, with extrapolated inner values."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.compile import kernel, worthwhile
from xrisk.functions import WithThreshold, prox
from xrisk.generic import generic
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    inner_count,
    inner_dim,
    new_batch,
    shares_batch,
    uniform_index,
)
from xrisk.problem import Problem, ThresholdBounds, coupled, coupled_start, is_risk
from xrisk.solvers.base import COUPLED, known_omega, prepare_coupled
from xrisk.solvers.card import (
    CONVEX_COUPLING,
    LIPSCHITZ_INNER,
    LIPSCHITZ_OUTER,
    SMOOTH_OUTER,
    STRONGLY_CONVEX,
    MethodCard,
    Need,
)
from xrisk.solvers.method import method
from xrisk.solvers.schedules import (
    Decreasing,
    PolynomialAverage,
    Stagewise,
    average_kept,
    average_weight,
    rate,
)
from xrisk.solvers.shared.mirror import (
    Conjugate,
    Entropy,
    Quadratic,
    mirror_check,
    mirror_distance,
    mirror_dual,
    mirror_start,
    mirror_step,
)
from xrisk.solvers.shared.pairing import FreshBatch, SameBatch, draws_twice, looks_back

DISTANCE = "in (μ/2)‖x − x*‖²"
CONVEX_RATE = "convex √(n/S)/ε + nσ₀²/(BSε²) + σ₁²/(Bε²) + δ²/(Sε²), with a kink in g + 1/ε², in the objective"
CONVEX_RATE_0 = "convex 1/ε² + nσ₀²/(BSε²) + σ₁²/(Bε²) + δ²/(Sε²) in the objective"
STRONG_RATE = (
    "f smooth and r strongly convex n/S + √(n/(Sμ)) + 1/μ + nσ₀²/(BSε) + σ₁²/(μBε) + δ²/(μSε), "
    f"with a kink in g + 1/(με), {DISTANCE}"
)
LAYERED = (LIPSCHITZ_OUTER, LIPSCHITZ_INNER, CONVEX_COUPLING)


class Claim(NamedTuple):
    """What is proved of the method with a mirror map."""

    rate: str
    theory: tuple[Need, ...]


@generic
def map_claim(mirror, theta):
    """The `Claim` for a map: theorems 3 and 20 for all, 6 and 22 for smooth maps only."""


@map_claim.of(Quadratic)
def _(mirror, theta):
    return Claim(f"{CONVEX_RATE_0 if theta == 0.0 else CONVEX_RATE}; {STRONG_RATE}", LAYERED)


@map_claim.of(Conjugate)
@map_claim.of(Entropy)
def _(mirror, theta):
    return Claim(STRONG_RATE, (SMOOTH_OUTER, *LAYERED, STRONGLY_CONVEX))


@map_claim.otherwise
def _(mirror, theta):
    return Claim("unknown for this map", LAYERED)


class ALEXRState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    z: np.ndarray  # (n, m) dual blocks in the coordinates of their mirror map
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the duals, block i up to iteration touched[i]
    touched: np.ndarray  # (n,) iteration at which block i moved last
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class ALEXR(NamedTuple):
    """Accelerated block-coordinate proximal primal-dual method [1]_, Algorithm 1.

    For a sample of blocks i, with two independent batches 𝓑, 𝓑̃ of each::

        g̃ᵢ = g(x_t; 𝓑) + θ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))
        yᵢ = argmax ⟨y, g̃ᵢ⟩ − f*(y) − τ D_ψ(y, yᵢ)
        x_{t+1} = prox_{s r}( x_t − s · mean Jᵢ(x_t; 𝓑̃)ᵀ yᵢ )

    Parameters
    ----------
    step : float or schedule
        Primal step size s (1/η in the paper).
    dual_step : float or schedule
        Dual step size 1/τ.
    theta : float
        Extrapolation θ in [0, 1]; 0 saves the evaluation at the previous iterate.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block and batch, B.
    mirror : Quadratic(), Conjugate() or Entropy()
        The map ψ of the dual step.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), GeometricAverage() or StageAverage()
        What is reported: the last iterate or an average of x_1, …, x_T.
    pairing : FreshBatch() or SameBatch()
        Whether 𝓑̃ is another batch, or 𝓑̃ = 𝓑.
    threshold : ThresholdBounds
        Interval to which the threshold of a joint risk is projected; by default the whole line.

    Notes
    -----
    With 𝓑̃ = 𝓑 an iteration draws half of the samples, but its gradient is biased given the new yᵢ, and no theorem
    covers it; the oracle calls are the same.

    A joint risk is solved in its coupled form, with the threshold as one more variable that starts at its
    optimum for the first w. The theorems' parameter settings are in `xrisk.solvers.theory`.

    References
    ----------
    .. [1] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125))
    >>> solver = xrisk.solvers.ALEXR(step=0.2, dual_step=0.05, blocks=2)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(abs(result.w + 0.2).max() < 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.1
    theta: float = 1.0
    blocks: int | None = None
    batch: int = 8
    mirror: Spec = Quadratic()
    average: Spec = PolynomialAverage()
    pairing: Spec = FreshBatch()
    threshold: ThresholdBounds = ThresholdBounds()

    def card(self) -> MethodCard:
        claim = map_claim(self.mirror, self.theta)
        return MethodCard(
            "ALEXR",
            "Wang and Yang, ALEXR, Algorithm 1; its book chapter, Algorithm 18",
            "as published",
            values="SB" if self.theta == 0.0 else "2SB",
            gradients="SB",
            rate=claim.rate,
            theory=claim.theory,
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "ALEXR"]:
        check_bounds(problem, self.threshold)
        problem, solver = prepare_coupled(coupled(problem, self.threshold), self)
        mirror_check(self.mirror, problem.outer)
        if not draws_twice.implemented(self.pairing) or looks_back(self.pairing):
            raise TypeError(f"pairing must be FreshBatch() or SameBatch(), got {self.pairing!r}")
        return problem, solver

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return coupled_start(problem, w, self.threshold)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> ALEXRState:
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        z, y = np.zeros((n, m)), np.zeros((n, m))
        mirror_start(self.mirror, problem.outer, z[0])
        mirror_dual(self.mirror, problem.outer, z[0], y[0])
        z[1:], y[1:] = z[0], y[0]
        return ALEXRState(x.copy(), x.copy(), z, x.copy(), y, np.zeros(n, dtype=np.int64), np.arange(n), 0)

    def dual(self, problem: Problem, state: ALEXRState) -> np.ndarray:
        y_mean = state.y_mean.copy()
        worthwhile(averaged_duals, y_mean.size, problem.outer, self)(problem.outer, self, state, y_mean)
        return y_mean


@known_omega.of(ALEXR)
def _(solver, problem, state):
    f, mirror = problem.outer, solver.mirror
    return float(worthwhile(omega_of, state.z.size, f, mirror)(f, mirror, state.z))


@kernel
def omega_of(f, mirror, z):
    """Σᵢ D_ψ(yᵢ, yᵢ₀) of the dual blocks with coordinates z (n, m)."""
    start, y0, y = np.zeros((3, z.shape[1]))
    mirror_start(mirror, f, start)
    mirror_dual(mirror, f, start, y0)
    total = 0.0
    for i in range(z.shape[0]):
        mirror_dual(mirror, f, z[i], y)
        total += mirror_distance(mirror, f, z[i], y, y0)
    return total


def check_bounds(problem: Problem, bounds: ThresholdBounds) -> None:
    """Refuse an empty interval, and one for a problem that has no threshold."""
    if not bounds.low <= bounds.high:
        raise ValueError(f"threshold must have low ≤ high, got {bounds}")
    if bounds != ThresholdBounds() and not is_risk(problem.outer) and type(problem.penalty) is not WithThreshold:
        kind = type(problem.outer).__name__
        raise ValueError(
            f"threshold must be ThresholdBounds() unless the problem has a joint risk, got {bounds} for {kind}"
        )


@kernel
def averaged_duals(f, solver, state, y_mean):
    """Bring the averages of blocks that have not moved up to date."""
    y = np.empty(y_mean.shape[1])
    for i in range(y_mean.shape[0]):
        mirror_dual(solver.mirror, f, state.z[i], y)
        kept = average_kept(solver.average, state.touched[i], state.t)
        for j in range(y.size):
            y_mean[i, j] = y[j] + kept * (y_mean[i, j] - y[j])


@method(
    COUPLED,
    {
        "alexr": ALEXR(),
        "alexr-theta0": ALEXR(theta=0.0),
        "alexr-conjugate": ALEXR(mirror=Conjugate()),
        "alexr-same": ALEXR(pairing=SameBatch()),
    },
    mirror=mirror_step,
)
def alexr_steps(problem, state, solver, n_steps, rng):
    w, w_prev, z, w_mean, y_mean, touched, order, t0 = state
    g, f, r = problem
    m = inner_dim(g)
    u, u_prev, y, grad = np.empty(m), np.empty(m), np.empty(m), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    batch_grad = new_batch(g, solver.batch) if draws_twice(solver.pairing) else batch
    for t in range(t0, t0 + n_steps):
        step, tau = rate(solver.step, t), 1.0 / rate(solver.dual_step, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            b = uniform_index(rng, a, order.size)
            order[a], order[b] = order[b], order[a]
            i = order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if draws_twice(solver.pairing):
                    draw(g, i, rng, batch_grad)
            if solver.theta == 0.0:
                batch_value(g, i, w, batch, u)
            else:
                batch_values(g, i, w, w_prev, batch, u, u_prev)
                for j in range(m):
                    u[j] += solver.theta * (u[j] - u_prev[j])
            mirror_dual(solver.mirror, f, z[i], y)
            kept = average_kept(solver.average, touched[i], t)  # block i has not moved since it was touched
            for j in range(m):
                y_mean[i, j] = y[j] + kept * (y_mean[i, j] - y[j])
            touched[i] = t
            mirror_step(solver.mirror, f, u, z[i], tau)
            mirror_dual(solver.mirror, f, z[i], y)
            batch_vjp(g, i, w, batch_grad, y, 1.0 / solver.blocks, grad)
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * grad[j]
        prox(r, w, step)
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            w_mean[j] += weight * (w[j] - w_mean[j])
    return ALEXRState(w, w_prev, z, w_mean, y_mean, touched, order, t0 + n_steps)
