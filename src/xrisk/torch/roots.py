"""Roots of equations in one number, for tensors; the same equations as in `xrisk.functions.special`.

The numbers of Newton steps are fixed, as a compiled graph needs them; every start is on the side from which the
iterates are monotone, and close.
"""

import math

import torch

STEPS = 14  # quadratic convergence from a start within a factor of two


def wright_omega(z: torch.Tensor) -> torch.Tensor:
    """ω with ω + log ω = z."""
    low, high = z.clamp(max=1.0), z.clamp(min=1.0, max=1e18)
    x = low
    for _ in range(STEPS):
        e = torch.exp(x)
        x = x - (e + (x - low)) / (1.0 + e)
    omega = high - torch.log(high)
    for _ in range(STEPS):
        omega = omega - omega * ((omega - high) + torch.log(omega)) / (1.0 + omega)
    # beyond 1e18 log z is below half a unit in the last place
    return torch.where(z <= 1.0, torch.exp(x), torch.where(z > 1e18, z, omega))


def logit_root(w: torch.Tensor, tau: float) -> torch.Tensor:
    """x with x + τ σ(x) = w, by reflection onto its convex half x ≤ 0."""
    is_right = w > 0.5 * tau
    left = torch.where(is_right, tau - w, w)
    half = math.log(0.5 * tau)
    shifted = left + half
    start = torch.where(shifted < -40.0, left, torch.log(wright_omega(shifted.clamp(min=-40.0))) - half)
    x = start.clamp(max=0.0)
    for _ in range(STEPS):
        s = torch.sigmoid(x)
        x = x - ((x - left) + tau * s) / (1.0 + tau * s * (1.0 - s))
    return torch.where(is_right, -x, x)


def power_root(p: float, w: torch.Tensor, tau: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(z, p z^(p−1)) with z + τ p z^(p−1) = w, for w > 0; (w, 0) elsewhere."""
    inside = torch.where(w > 0.0, w, 1.0)
    if p >= 2.0:
        z = _convex_root(tau * p, p - 1.0, 1.0, inside)
        slope = p * z ** (p - 1.0)
    else:
        t = _convex_root(1.0, 1.0 / (p - 1.0), tau * p, inside)
        z, slope = t ** (1.0 / (p - 1.0)), p * t
    return torch.where(w > 0.0, z, w), torch.where(w > 0.0, slope, 0.0)


def _convex_root(a: float, q: float, b: float, w: torch.Tensor) -> torch.Tensor:
    """x > 0 with a x^q + b x = w; Newton decreases from the smaller root of the halves, where nothing overflows."""
    x = torch.minimum((w / a) ** (1.0 / q), w / b)
    for _ in range(STEPS):
        safe = torch.where(x > 0.0, x, 1.0)
        term = a * safe**q
        x = torch.where(x > 0.0, safe - (term - w + b * safe) / (q * (term / safe) + b), x)
    return x
