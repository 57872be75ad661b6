"""The functions of `xrisk.functions` for tensors: values and slopes of outer functions, values of losses.

The specs are the same. An outer function of a number acts on every entry; one of a block (`MaxOuter`, `LogSumExp`,
`TopSum`, `Quotient`) acts on the last axis. ``outer_value.of(Spec)`` and ``outer_slope.of(Spec)`` add your own.
"""

import math
from typing import Any, NamedTuple

import torch
from torch.nn.functional import logsigmoid, one_hot

from xrisk import functions as xf
from xrisk.functions.parameters import checks, positive
from xrisk.torch.dispatch import by_type
from xrisk.torch.roots import logit_root, power_root, wright_omega

Tensor = torch.Tensor


@by_type
def outer_value(f, u):
    """f(u) of every entry, or of the last axis for a function of a block."""


@by_type
def outer_slope(f, u):
    """f′(u), one subgradient at a kink; of the shape of u."""


@by_type
def outer_prox(f, u, nu):
    """(z, y): z minimises f(z) + (z − u)²/(2ν), and y = (u − z)/ν is the slope of the Moreau smoothing of f at u."""


@by_type
def loss_value(loss, z, y):
    """ℓ(z, y), differentiable by autograd; of `Multinomial`, of the scores (…, K) and classes (…)."""


class Quotient(NamedTuple):
    """f(u) = −u₁/u₂, of two positive numbers.

    Examples
    --------
    >>> outer_value(Quotient(), torch.tensor([1.0, 4.0])).item()
    -0.25
    """


class Discount(NamedTuple):
    """f(u) = −1/log₂(1 + u): the discount of rank u.

    Examples
    --------
    >>> outer_value(Discount(), torch.tensor(3.0)).item()
    -0.5
    """


@checks(tau=positive)
class LogMeanExp(NamedTuple):
    """f = τ log E exp(v): its inner function is E exp(v), and values v and trackers u are logarithms.

    Nothing is exponentiated that is above 0, so large values cannot overflow.

    Examples
    --------
    >>> outer_value(LogMeanExp(0.5), torch.tensor(2.0)).item()
    1.0
    """

    tau: float = 1.0


@checks(tau=positive)
class Sigmoid(NamedTuple):
    """ℓ(z, y) = σ(−y z/τ): the step at 0 for small τ, so that rankings are counted; not convex.

    Examples
    --------
    >>> loss_value(Sigmoid(), torch.tensor(0.0), 1.0).item()
    0.5
    """

    tau: float = 1.0


def block_value(f: Any, u: Tensor) -> Tensor:
    """f(u) of blocks u (…, m), shape (…): a scalar f acts as the sum of f(u_k)."""
    return outer_value(f, u) if type(f) in JOINT else outer_value(f, u).sum(-1)


def check_outer(name: str, f: Any, width: int) -> None:
    """Refuse what is not an outer function with a PyTorch version, or not of that many values."""
    if type(f) not in outer_value.table or type(f) not in outer_slope.table:
        raise TypeError(f"{name} must be an outer function such as xrisk.functions.CVaRHinge(), got {f!r}")
    if type(f) is Quotient and width != 2:
        raise ValueError(f"width must be 2 for Quotient, got {width}")
    getattr(f, "check", lambda: None)()


# clamped rather than chosen by `where`: the branch that is not taken cannot overflow, and autograd agrees with slopes
outer_value.of(xf.Identity)(lambda f, u: u)
outer_slope.of(xf.Identity)(lambda f, u: torch.ones_like(u))
outer_prox.of(xf.Identity)(lambda f, u, nu: (u - nu, torch.ones_like(u)))

outer_value.of(xf.CVaRHinge)(lambda f, u: torch.relu(u) / f.alpha)
outer_slope.of(xf.CVaRHinge)(lambda f, u: (u > 0.0).to(u.dtype) / f.alpha)
outer_prox.of(xf.CVaRHinge)(lambda f, u, nu: _kink_prox(u, nu, 1.0 / f.alpha, 0.0))

outer_value.of(xf.HardNonsmooth)(lambda f, u: f.beta * torch.where(u <= -f.nu, -f.nu, u))
outer_slope.of(xf.HardNonsmooth)(lambda f, u: f.beta * (u > -f.nu).to(u.dtype))
outer_prox.of(xf.HardNonsmooth)(lambda f, u, nu: _kink_prox(u, nu, f.beta, -f.nu))


def _kink_prox(u: Tensor, nu: float, top: float, at: float) -> tuple[Tensor, Tensor]:
    """Of max of y (u − at) over y in [0, top]; z is exactly ``at`` if that is the minimiser."""
    return torch.maximum(u - nu * top, u.clamp(max=at)), ((u - at) / nu).clamp(0.0, top)


@outer_value.of(xf.ChiSquareA)
def _(f, u):
    t = u.clamp(min=-f.lam)
    return t * (1.0 + 0.5 * (t / f.lam))


@outer_slope.of(xf.ChiSquareA)
def _(f, u):
    return torch.relu(u / f.lam + 1.0)


@outer_prox.of(xf.ChiSquareA)
def _(f, u, nu):
    z = torch.where(u > -f.lam, (u - nu) * (f.lam / (f.lam + nu)), u)
    return z, torch.relu((u + f.lam) / (f.lam + nu))


@outer_value.of(xf.ChiSquareB)
def _(f, u):
    t = u.clamp(min=-2.0 * f.lam)
    return t * (1.0 + 0.25 * (t / f.lam))


@outer_slope.of(xf.ChiSquareB)
def _(f, u):
    return torch.relu(0.5 * (u / f.lam) + 1.0)


@outer_prox.of(xf.ChiSquareB)
def _(f, u, nu):
    double = 2.0 * f.lam
    return torch.where(u > -double, (u - nu) * (double / (double + nu)), u), torch.relu((u + double) / (double + nu))


outer_value.of(xf.Square)(lambda f, u: f.scale * u * u)
outer_slope.of(xf.Square)(lambda f, u: 2.0 * f.scale * u)


@outer_prox.of(xf.Square)
def _(f, u, nu):
    stiff = 1.0 + 2.0 * f.scale * nu
    return u / stiff, u * (2.0 * f.scale / stiff)


@outer_value.of(xf.HardSmooth)
def _(f, u):
    t = u.clamp(-1.0, 1.0)
    return f.nu * u + t * (u - 0.5 * t)


@outer_slope.of(xf.HardSmooth)
def _(f, u):
    return u.clamp(-1.0, 1.0) + f.nu


@outer_prox.of(xf.HardSmooth)
def _(f, u, nu):
    inside = (u - nu * f.nu) / (1.0 + nu)
    z = torch.where(inside.abs() <= 1.0, inside, u - nu * (f.nu + torch.sign(inside)))
    return z, ((u + f.nu) / (1.0 + nu)).clamp(f.nu - 1.0, f.nu + 1.0)


@outer_value.of(xf.Power)
def _(f, u):
    return torch.relu(u) ** f.p


@outer_slope.of(xf.Power)
def _(f, u):
    return f.p * torch.relu(u) ** (f.p - 1.0)


outer_prox.of(xf.Power)(lambda f, u, nu: power_root(f.p, u, nu))

outer_value.of(xf.Exponential)(lambda f, u: f.tau * torch.exp(u / f.tau))
outer_slope.of(xf.Exponential)(lambda f, u: torch.exp(u / f.tau))


@outer_prox.of(xf.Exponential)
def _(f, u, nu):
    z = u / f.tau + (math.log(nu) - math.log(f.tau))
    # below −40 the term ν y is too small to matter, and ω(z) might underflow; beyond overflow log ω is negligible
    y = torch.where(z < -40.0, torch.exp(u / f.tau), f.tau / nu * wright_omega(z))
    y = torch.where(torch.isinf(z) & (z > 0.0), u / nu, y)
    # in u − ν y the two terms nearly cancel when u is large
    return torch.where(nu * y > f.tau, f.tau * torch.log(y.clamp(min=1e-30)), u - nu * y), y


outer_value.of(xf.Softplus)(lambda f, u: -logsigmoid(-u))
outer_slope.of(xf.Softplus)(lambda f, u: torch.sigmoid(u))


@outer_prox.of(xf.Softplus)
def _(f, u, nu):
    z = logit_root(u, nu)
    return z, torch.sigmoid(z)


outer_value.of(xf.LogisticOuter)(lambda f, u: -logsigmoid(f.sign * u))
outer_slope.of(xf.LogisticOuter)(lambda f, u: -f.sign * torch.sigmoid(-f.sign * u))


@outer_prox.of(xf.LogisticOuter)
def _(f, u, nu):
    z = logit_root(-f.sign * u, nu)
    return -f.sign * z, -f.sign * torch.sigmoid(z)


@outer_value.of(xf.Scaled)
def _(f, u):
    return f.factor * outer_value(f.f, f.slope * u + f.shift) + f.constant


@outer_slope.of(xf.Scaled)
def _(f, u):
    return f.factor * f.slope * outer_slope(f.f, f.slope * u + f.shift)


@outer_prox.of(xf.Scaled)
def _(f, u, nu):
    steepness = f.factor * f.slope
    z, y = outer_prox(f.f, f.slope * u + f.shift, nu * f.slope * steepness)
    return (z - f.shift) / f.slope, steepness * y


@outer_value.of(xf.Smoothed)
def _(f, u):
    fixed = u.detach()
    z, y = outer_prox(f.f, fixed, f.nu)
    # the slope is known, so autograd need not go through the steps that found z
    return outer_value(f.f, z) + 0.5 * f.nu * y * y + y * (u - fixed)


outer_slope.of(xf.Smoothed)(lambda f, u: outer_prox(f.f, u, f.nu)[1])


@outer_prox.of(xf.Smoothed)
def _(f, u, nu):
    far, y = outer_prox(f.f, u, nu + f.nu)
    return (f.nu / (nu + f.nu)) * u + (nu / (nu + f.nu)) * far, y


outer_value.of(xf.MaxOuter)(lambda f, u: u.max(-1).values)
outer_slope.of(xf.MaxOuter)(lambda f, u: one_hot(u.argmax(-1), u.shape[-1]).to(u.dtype))


@outer_value.of(xf.LogSumExp)
def _(f, u):
    top = u.detach().amax(-1, keepdim=True)
    return top.squeeze(-1) + torch.logsumexp(f.beta * (u - top), -1) / f.beta


@outer_slope.of(xf.LogSumExp)
def _(f, u):
    return torch.softmax(f.beta * (u - u.amax(-1, keepdim=True)), -1)


outer_value.of(xf.TopSum)(lambda f, u: u.topk(f.k, -1).values.sum(-1))
outer_slope.of(xf.TopSum)(lambda f, u: torch.zeros_like(u).scatter(-1, u.topk(f.k, -1).indices, 1.0))

outer_value.of(Quotient)(lambda f, u: -u[..., 0] / u[..., 1])


@outer_slope.of(Quotient)
def _(f, u):
    return torch.stack([-1.0 / u[..., 1], u[..., 0] / u[..., 1] / u[..., 1]], -1)


outer_value.of(Discount)(lambda f, u: -math.log(2.0) / torch.log1p(u))


@outer_slope.of(Discount)
def _(f, u):
    logs = torch.log1p(u)
    return math.log(2.0) / (logs * logs * (1.0 + u))


outer_value.of(LogMeanExp)(lambda f, u: f.tau * u)
outer_slope.of(LogMeanExp)(lambda f, u: torch.full_like(u, f.tau))

JOINT = frozenset({xf.MaxOuter, xf.LogSumExp, xf.TopSum, Quotient})  # functions of a whole block

loss_value.of(xf.Logistic)(lambda loss, z, y: -logsigmoid(y * z))
loss_value.of(xf.HingeLoss)(lambda loss, z, y: torch.relu(1.0 - y * z))
loss_value.of(xf.SquaredHinge)(lambda loss, z, y: torch.relu(1.0 - y * z) ** 2)
loss_value.of(xf.ExponentialLoss)(lambda loss, z, y: torch.exp(-y * z))
loss_value.of(xf.MarginLoss)(lambda loss, z, y: -y * z)
loss_value.of(xf.Squared)(lambda loss, z, y: 0.5 * (z - y) * (z - y))
loss_value.of(xf.Absolute)(lambda loss, z, y: (z - y).abs())
loss_value.of(xf.AffineLoss)(lambda loss, z, y: z - y)
loss_value.of(Sigmoid)(lambda loss, z, y: torch.sigmoid(-y * z / loss.tau))


@loss_value.of(xf.SmoothedHinge)
def _(loss, z, y):
    gap = 1.0 - y * z
    t = (gap / loss.width).clamp(0.0, 1.0)
    return t * (gap - 0.5 * loss.width * t)


@loss_value.of(xf.Huber)
def _(loss, z, y):
    t = (z - y).clamp(-loss.delta, loss.delta)
    return t * ((z - y) - 0.5 * t)


@loss_value.of(xf.Pinball)
def _(loss, z, y):
    return torch.where(z < y, loss.quantile * (y - z), (1.0 - loss.quantile) * (z - y))


@loss_value.of(xf.Multinomial)
def _(loss, z, y):
    # as the softplus of the others' log-sum over the class's own score: exact where the class has nearly all the mass
    own = one_hot(y.long(), z.shape[-1]).bool()
    others = torch.logsumexp(z.masked_fill(own, -math.inf), -1)
    return -logsigmoid(z.gather(-1, y.long().unsqueeze(-1)).squeeze(-1) - others)
