"""What methods for risks over single rows share: batches of rows, exponentials in the log domain, the temperature λ."""
# mypy: disable-error-code="empty-body"

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel, prefetch, worthwhile
from xrisk.data.rows import fetch_row
from xrisk.functions import KLBallRisk, KLRisk, WithMasses, risk_weights
from xrisk.functions.ambiguity import reweigh
from xrisk.functions.special import norm
from xrisk.generic import generic
from xrisk.inner.models import add_batch_grads, batch_losses
from xrisk.inner.oracle import inner_count, inner_size, uniform_index
from xrisk.inner.samples import Samples
from xrisk.problem import Problem, inner_values
from xrisk.solvers.base import Form, parameters_alone, prepare_as_stated
from xrisk.solvers.card import Need


class RowBatch(NamedTuple):
    """Rows that were drawn, and room to work on them."""

    rows: np.ndarray  # (B,)
    target: np.ndarray  # (B,)
    factors: np.ndarray  # (B,) n times the mass of each row, 1 where all have the same
    losses: np.ndarray  # (B,)
    scales: np.ndarray  # (B,) what each gradient is multiplied by
    work: np.ndarray  # (B,)


@generic
def new_rows(g, size):
    """Room for a batch of ``size`` rows."""


@generic
def ask_for_row(g, k):
    """Tell the memory that row k and its target are about to be read."""


@generic
def place_row(g, k, batch, b):
    """Make row k the b-th of the batch."""


@generic
def read_losses(g, w, batch, out):
    """Write the losses of the batch at w into ``out`` (B,)."""


@generic
def add_gradients(g, w, batch, scales, grad):
    """Add Σ scales[b]·(gradient on row b of the batch) to ``grad``."""


@generic
def mass_factor(rho, k, n):
    """n·p_k: how often row k counts where all n rows are drawn alike."""


@generic
def bare_risk(rho):
    """The risk without the masses of the rows."""


@generic
def ball_radius(rho):
    """Radius of a KL ball; 0 of a KL risk without one, where it plays no part."""


@generic
def temperature_range(rho):
    """(low, high): where the temperature λ of a KL risk may lie."""


@generic
def floored(rho, floor):
    """The risk with a price on KL: ``floor`` where it has none, without which λ has no bound below."""


@generic
def softened(rho, kappa):
    """The risk that has the price KL + κ times its own on the weights."""


@softened.of(KLRisk)
def _(rho, kappa):
    return KLRisk(1.0 + kappa * rho.lam)


@softened.of(KLBallRisk)
def _(rho, kappa):
    return KLBallRisk(rho.radius, 1.0 + kappa * rho.strength)


@new_rows.of(Samples)
def _(g, size):
    target = np.empty(size, dtype=g.model.target.dtype)
    return RowBatch(
        np.empty(size, dtype=np.int64), target, np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    )


@ask_for_row.of(Samples)
def _(g, k):
    fetch_row(g.model.rows, k)
    prefetch(g.model.target.reshape((-1, 1)), k)


@place_row.of(Samples)
def _(g, k, batch, b):
    batch.rows[b] = k
    batch.target[b] = g.model.target[k]


@read_losses.of(Samples)
def _(g, w, batch, out):
    batch_losses(g.model, batch.rows, batch.target, w, out)


@add_gradients.of(Samples)
def _(g, w, batch, scales, grad):
    add_batch_grads(g.model, batch.rows, batch.target, w, scales, batch.work, grad)


@generic
def divergence_limit(rho, n):
    """The largest KL divergence that any weights of n rows have: log n, or log 1/p of the least mass p > 0."""


@divergence_limit.otherwise
def _(rho, n):
    return math.log(n)


@divergence_limit.of(WithMasses)
def _(rho, n):
    return -math.log(float(rho.masses[rho.masses > 0.0].min()))


@mass_factor.otherwise
def _(rho, k, n):
    return 1.0


@bare_risk.otherwise
def _(rho):
    return rho


floored.otherwise(lambda rho, floor: rho)


@mass_factor.of(WithMasses)
def _(rho, k, n):
    return n * rho.masses[k]


@bare_risk.of(WithMasses)
def _(rho):
    return rho.risk


@ball_radius.of(KLRisk)
def _(rho):
    return 0.0


@ball_radius.of(KLBallRisk)
def _(rho):
    return rho.radius


@ball_radius.of(WithMasses)
def _(rho):
    return ball_radius(rho.risk)


@temperature_range.of(KLRisk)
def _(rho):
    return rho.lam, rho.lam


@temperature_range.of(KLBallRisk)
def _(rho):
    return rho.strength, np.inf


@temperature_range.of(WithMasses)
def _(rho):
    return temperature_range(rho.risk)


@floored.of(KLBallRisk)
def _(rho, floor):
    return rho if rho.strength > 0.0 else rho._replace(strength=floor)


@floored.of(WithMasses)
def _(rho, floor):
    return rho._replace(risk=floored(rho.risk, floor))


SINGLE_ROWS = Need("single rows", lambda problem: place_row.implemented(problem.inner), "inner")
KL_RISK = Need(
    "a KL risk",
    lambda problem: temperature_range.implemented(bare_risk(problem.outer)),
)
KL_PRICE = Need("KLRisk", lambda problem: type(bare_risk(problem.outer)) is KLRisk)
WORST_CASE = Need(
    "a CVaR, KL or χ² risk",
    lambda problem: reweigh.implemented(bare_risk(problem.outer)),
)
EQUAL_MASSES = Need("equal masses", lambda problem: type(problem.outer) is not WithMasses)


def prepare_rows(problem: Problem, solver: Any) -> tuple[Problem, Any]:
    """`prepare_as_stated` for methods of risks over rows; a ball gets the solver's ``floor`` as its price."""
    problem, solver = prepare_as_stated(problem, solver)
    if "floor" in solver._fields:
        problem = problem._replace(outer=floored(problem.outer, solver.floor))
    return problem, solver


def with_temperature(problem: Problem, solver: Any, w: np.ndarray) -> np.ndarray:
    """(w, λ) with the first temperature of the solver, or the one next to it that the risk allows."""
    low, high = temperature_range(floored(problem.outer, solver.floor))
    return np.append(w, min(max(solver.temperature, low), high))


def largest_temperature(radius: float, spread: float) -> float:
    """A bound on the λ that is optimal for a KL ball and losses within ``spread`` of each other.

    min( spread/ρ, spread/√(8ρ) ): KL(p_λ) ≤ spread²/(8λ²), and λ·KL(p_λ) ≤ largest − mean loss.
    """
    return min(spread / radius, spread / math.sqrt(8.0 * radius))


def worst_weights(problem: Problem, w: np.ndarray) -> np.ndarray:
    """n·q (n, 1) of the worst case q at w, by a full pass."""
    u = np.ascontiguousarray(inner_values(problem, w)[:, 0])
    q = np.empty(u.size)
    worthwhile(write_weights_of_risk, u.size, problem.outer)(problem.outer, u, q)
    return u.size * q[:, None]


@kernel
def write_weights_of_risk(rho, u, q):
    risk_weights(rho, u, q)


def worst_weights_at(problem: Problem, x: np.ndarray) -> np.ndarray:
    """The worst case at a variable x = (w, …)."""
    return worst_weights(problem, x[: inner_size(problem.inner)])


ROWS = Form(prepare_rows, parameters_alone, worst_weights_at)


@register_jitable
def draw_rows(g, rho, rng, batch):
    """Draw rows, each as likely as any other and with replacement; a batch without any mass is drawn anew."""
    n, total = inner_count(g), 0.0
    while total <= 0.0:
        for b in range(batch.rows.size):
            batch.rows[b] = uniform_index(rng, 0, n)
            ask_for_row(g, batch.rows[b])
        for b in range(batch.rows.size):  # what was asked for arrives together
            place_row(g, batch.rows[b], batch, b)
            batch.factors[b] = mass_factor(rho, batch.rows[b], n)
            total += batch.factors[b]


@register_jitable
def rows_between(batch, low, high):
    """The batch of the rows at places low, …, high − 1."""
    return RowBatch(
        batch.rows[low:high],
        batch.target[low:high],
        batch.factors[low:high],
        batch.losses[low:high],
        batch.scales[low:high],
        batch.work[low:high],
    )


@register_jitable
def add_worst_case(rho, batch, weight):
    """Add weight times the worst-case weights of the batch to its scales."""
    if largest_loss(batch.losses, batch.factors) > -np.inf:  # else no row has mass
        reweigh(bare_risk(rho), batch.factors, batch.losses, batch.work)
        for b in range(batch.work.size):
            batch.scales[b] += weight * batch.work[b]


@register_jitable
def largest_loss(losses, factors):
    """The largest loss of a row with mass."""
    top = -np.inf
    for b in range(losses.size):
        if factors[b] > 0.0 and losses[b] > top:
            top = losses[b]
    return top


@register_jitable
def scaled_mean(losses, factors, lam):
    """(A, s) with mean exp(v/λ) = s·exp(A) and A the largest exponent: exp overflows at 710."""
    top, total = largest_loss(losses, factors), 0.0
    for b in range(losses.size):
        if factors[b] > 0.0:
            total += factors[b] * math.exp((losses[b] - top) / lam)
    return top / lam, total / losses.size


@register_jitable
def log_mean_exp(losses, factors, lam):
    """log of the mean of exp(v/λ) over the batch."""
    top, mean = scaled_mean(losses, factors, lam)
    return top + math.log(mean)


@register_jitable
def log_average(old, new, weight):
    """log( (1 − weight) eᵒˡᵈ + weight eⁿᵉʷ )."""
    if weight >= 1.0:
        return new
    return np.logaddexp(math.log1p(-weight) + old, math.log(weight) + new)


@register_jitable
def tilt(losses, factors, lam, sigma, scales):
    """Scales exp(v/λ − σ)/B of the gradients, and their sum."""
    total = 0.0
    for b in range(losses.size):
        scales[b] = 0.0
        if factors[b] > 0.0:
            scales[b] = factors[b] * math.exp(losses[b] / lam - sigma) / losses.size
        total += scales[b]
    return total


@register_jitable
def fill_zero(x):
    """x ← 0."""
    for j in range(x.size):
        x[j] = 0.0


@register_jitable
def move(x, step, v):
    """x ← x − step·v, as far as x goes."""
    for j in range(x.size):
        x[j] -= step * v[j]


@register_jitable
def mean_loss(losses, scales):
    """Σ scales·v."""
    total = 0.0
    for b in range(losses.size):
        total += scales[b] * losses[b]
    return total


@register_jitable
def temperature_slope(radius, losses, scales, lam, sigma):
    """σ + ρ − Σ scales·v/λ, in an order in which nothing large cancels where the scales have a sum near one."""
    total, rest = 0.0, 1.0
    for b in range(losses.size):
        if scales[b] > 0.0:
            total += scales[b] * (sigma - losses[b] / lam)
            rest -= scales[b]
    return radius + total + sigma * rest


@register_jitable
def storm_scale(m, size, here, there, beta):
    """(m⁺, kept, there, guarded): how STORM's e^m goes on from the log means ``here`` and ``there`` of one batch.

    s⁺ = e^here + (1 − β)(e^m − e^there) may be negative; it is kept above β e^here, and ``guarded`` says that it had
    to be. ``kept`` is the factor (1 − β)e^{m − m⁺} of what is tracked beside it, and the new ``there`` such that the
    old point counts (1 − β)e^{v/λ − m⁺}. Where these terms are e³⁰ times s⁺, or what is tracked is of a ``size`` beyond
    use, nothing but rounding is left of them: the batch stands alone.
    """
    top, floor = max(here, m, there), math.log(beta) + here
    if beta >= 1.0:
        return here, 0.0, np.inf, 0
    s = math.exp(here - top) + (1.0 - beta) * (math.exp(m - top) - math.exp(there - top))
    after = max(top + math.log(s), floor) if s > 0.0 else floor
    guarded = 0 if s > 0.0 and top + math.log(s) >= floor else 1
    if top - after > 30.0 or not size < 1e100:
        return here, 0.0, np.inf, 1
    return after, (1.0 - beta) * math.exp(m - after), after - math.log1p(-beta), guarded


@register_jitable
def shorten(z, longest):
    """z, no longer than ``longest``, in place."""
    length = norm(z)
    if length > longest:
        for j in range(z.size):
            z[j] *= longest / length


@register_jitable
def weights_step(rho, kappa, logits, least, p):
    """p ← argmax over q of ⟨q, logits⟩ − KL(q) − κ (price of q), none below least/n.

    With logits κ·ĝ + log p this is the step of mirror ascent under KL divergence.
    """
    reweigh(softened(rho, kappa), np.empty(0), logits, p)
    raise_least(p, least)


@register_jitable
def raise_least(p, least):
    """Raise weights below least/n to it and scale all to a sum of one, in place; divergences can but fall."""
    total = 0.0
    for i in range(p.size):
        p[i] = max(p[i], least / p.size)
        total += p[i]
    for i in range(p.size):
        p[i] /= total
