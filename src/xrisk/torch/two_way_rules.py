"""Update rules of two-way partial AUC: what each keeps for a positive, and how a batch changes it."""

import math
from typing import Any, NamedTuple

import torch
from torch.nn.functional import softplus

from xrisk.torch.checks import number
from xrisk.torch.pairs import JointPairs, PairLoss, Update


class STACORule(NamedTuple):
    """Primal and dual steps one after the other (STACO1), in stages with proximal terms if ``gamma`` is given (STACO2).

    Zhou et al. 2025, Algorithms 1 and 2, (4)–(12), with the proximal term of sᵢ as in the gradient of (8).
    """

    gamma: float | None = None

    def prepare(self, loss: PairLoss) -> None:
        """What is kept."""
        loss.keep_rows("y", fill=1.0)
        keep_thresholds(loss, self.gamma)

    def update(self, loss: Any, pairs: JointPairs) -> Update:
        """The steps of a batch; with one batch of negatives, gradients have the duals from before it."""
        y, s, level = loss.rows("y", pairs), loss.rows("s", pairs), loss.numbers("level")
        g = tail_values(pairs.values, s, pairs.first, loss.theta1)
        y_new = (y + loss.dual_step / loss.theta0 * (pairs.average @ g - level)).clamp(0.0, 1.0)
        used = y if pairs.is_lagged else y_new
        slope, carrier = tail_slopes(pairs, s, used / loss.theta0, loss.theta1)
        change = used / loss.theta0 * slope
        if self.gamma is not None:
            change = change + (s - loss.rows("s_bar", pairs)) / self.gamma
        s_new = s - loss.tail_step * change
        level_new = level - loss.threshold_step * (1.0 - pairs.share @ y_new / loss.theta0)
        means, mean = staged(loss, self.gamma, pairs, ("s",), level_new)
        value = (level + pairs.share @ (used * (g - level)) / loss.theta0).squeeze()
        return Update(value, carrier, {"y": y_new, "s": s_new, **means}, {"level": level_new, **mean})

    def stage(self, loss: Any) -> None:
        """sᵢ and s′ go on from their means over the stage, and all yᵢ from 1."""
        next_stage(loss, self.gamma, ("s",))
        loss.y.fill_(1.0)


class SOTARule(NamedTuple):
    """Primal and dual steps taken at the same point, proximal ones if ``gamma`` is given; thresholds not sampled stay.

    Zhu et al. 2022, supplement, Algorithm 4, as printed. A step η with the proximal term inside is the step
    η/(1 + η/γ) of an optimizer with `ProximalPoint`.
    """

    gamma: float | None = None

    def prepare(self, loss: PairLoss) -> None:
        """What is kept."""
        loss.keep_rows("y", fill=1.0)
        keep_thresholds(loss, self.gamma)
        if self.gamma is not None:
            loss.keep_rows("y_sum")
            loss.keep("level_bar", loss.level.clone())

    def update(self, loss: Any, pairs: JointPairs) -> Update:
        """The steps of a batch."""
        y, s, level = loss.rows("y", pairs), loss.rows("s", pairs), loss.numbers("level")
        g = tail_values(pairs.values, s, pairs.first, loss.theta1)
        y_new = (y + loss.dual_step / loss.theta0 * (pairs.average @ g - level)).clamp(0.0, 1.0)
        slope, carrier = tail_slopes(pairs, s, y / loss.theta0, loss.theta1)
        s_new = s - loss.tail_step * y / loss.theta0 * slope
        level_new = level - loss.threshold_step * (1.0 - pairs.share @ y / loss.theta0)
        if self.gamma is not None:
            near, level_near = loss.positives * loss.tail_step / self.gamma, loss.threshold_step / self.gamma
            s_new = (s_new + near * loss.rows("s_bar", pairs)) / (1.0 + near)
            level_new = (level_new + level_near * loss.level_bar) / (1.0 + level_near)
        means, mean = staged(loss, self.gamma, pairs, ("s", "y"), level_new)
        value = (level + pairs.share @ (y * (g - level)) / loss.theta0).squeeze()
        return Update(value, carrier, {"y": y_new, "s": s_new, **means}, {"level": level_new, **mean})

    def stage(self, loss: Any) -> None:
        """sᵢ, yᵢ and s′ go on from their means over the stage."""
        next_stage(loss, self.gamma, ("s", "y"))
        loss.level_bar.copy_(loss.level)


class SONXRule(NamedTuple):
    """Moving averages uᵢ of gᵢ, and a subgradient of the outer hinge, smoothed where ``nu`` > 0 (SONEX).

    Hu, Zhu and Yang 2023, appendix; Yang, opt4ml, Algorithms 17 and 25. ``correction`` > 0 (MSVR) needs the scores at
    the weights before, ``previous``.
    """

    track: float = 0.9
    correction: float = 0.0
    nu: float = 0.0

    def prepare(self, loss: PairLoss) -> None:
        """What is kept."""
        number("track", self.track, 1e-12, 1.0, "a number in (0, 1]")
        number("correction", self.correction, 0.0, 1e30, "a finite number that is not negative")
        number("nu", self.nu, 0.0, 1e30, "a finite number that is not negative")
        loss.keep_rows("u")
        loss.keep_rows("s", fill=loss.threshold)
        loss.keep_rows("touched", fill=-1, dtype=torch.int64)
        loss.keep_numbers("level", fill=loss.threshold)
        loss.keep_numbers("t", dtype=torch.int64)
        if self.correction > 0.0:
            loss.keep_rows("s_before", fill=loss.threshold)

    def update(self, loss: Any, pairs: JointPairs) -> Update:
        """The steps of a batch; SONX weights by the uᵢ from before it, SONEX by the new ones of two batches."""
        s, level, is_new = loss.rows("s", pairs), loss.numbers("level"), loss.rows("touched", pairs) < 0
        g = pairs.average @ tail_values(pairs.values, s, pairs.first, loss.theta1)
        old = torch.where(is_new, g, loss.rows("u", pairs))
        u = old + self.track * (g - old) + self._corrected(loss, pairs, g, s, is_new)
        if self.nu > 0.0:
            d = (((old if pairs.is_lagged else u) - level) / self.nu).clamp(0.0, 1.0 / loss.theta0)
        else:
            d = (old > level) / s.new_tensor(loss.theta0)
        slope, carrier = tail_slopes(pairs, s, d, loss.theta1)
        rows = {"u": u, "s": s - loss.tail_step * d * slope, "touched": loss.t.expand_as(s)}
        if self.correction > 0.0:
            rows["s_before"] = s
        level_new = level - loss.threshold_step * (1.0 - pairs.share @ d)
        value = (level + pairs.share @ (d * (u - level))).squeeze()
        return Update(value, carrier, rows, {"level": level_new, "t": loss.t + 1})

    def _corrected(self, loss: Any, pairs: JointPairs, g: torch.Tensor, s: torch.Tensor, is_new: Any) -> Any:
        """γ′ (gᵢ now − gᵢ at the weights and the threshold before)."""
        if self.correction == 0.0 or (pairs.past is None and not loss.training):
            return 0.0
        if pairs.past is None:
            raise ValueError("previous must be the scores at the weights before the last step, got None")
        s_then = torch.where(loss.touched[pairs.slot] == loss.t - 1, loss.s_before[pairs.slot], s)
        then = pairs.average @ tail_values(pairs.past, s_then, pairs.first, loss.theta1)
        return self.correction * torch.where(is_new, 0.0, g - then)

    def stage(self, loss: Any) -> None:
        """There are no stages."""
        raise ValueError("stage() must not be called for method='sonx' or 'sonex': they have no stages")


class SOTAsRule(NamedTuple):
    """λ′ log meanᵢ (meanⱼ exp(ℓᵢⱼ/λ))^{λ/λ′} by moving averages, in logarithms; Zhu et al. 2022, SOTA-s."""

    lam: float = 1.0
    outer_lam: float = 1.0
    track: float = 0.9
    outer_track: float = 0.9

    def prepare(self, loss: PairLoss) -> None:
        """What is kept."""
        for name in ("lam", "outer_lam"):
            number(name, getattr(self, name), 1e-30, 1e30, "a positive number")
        for name in ("track", "outer_track"):
            number(name, getattr(self, name), 1e-12, 1.0, "a number in (0, 1]")
        loss.keep_rows("log_u")
        loss.keep_rows("seen", dtype=torch.bool)
        loss.keep_numbers("log_v")
        loss.keep_numbers("started", dtype=torch.bool)

    def update(self, loss: Any, pairs: JointPairs) -> Update:
        """The averages first, then the weights of the pairs."""
        power = self.lam / self.outer_lam
        log_u = tracked_log(loss, pairs, self.lam, self.track)
        now = log_mean(power * log_u, pairs.share)
        log_v = torch.where(loss.numbers("started"), log_average(loss.numbers("log_v"), now, self.outer_track), now)
        carrier = soft_carrier(pairs, self.lam, (power - 1.0) * log_u - log_v)
        rows = {"log_u": log_u, "seen": torch.ones_like(log_u, dtype=torch.bool)}
        numbers = {"log_v": log_v, "started": torch.ones_like(loss.started)}
        return Update((self.outer_lam * log_v).squeeze(), carrier, rows, numbers)

    def stage(self, loss: Any) -> None:
        """There are no stages."""
        raise ValueError("stage() must not be called for method='sota-s': it has no stages")


class PAUCIRule(NamedTuple):
    """A min-max problem of single rows with the square loss of sigmoid scores, no state per row (Shao et al. 2022).

    The plain steps of gradient descent in (a, b, s, s₂, θ_a, θ_b) and ascent in γ; both public implementations descend.
    """

    kappa: float = 2.0
    omega: float = 0.0

    def prepare(self, loss: PairLoss) -> None:
        """What is kept."""
        number("kappa", self.kappa, 1e-30, 1e30, "a positive number")
        number("omega", self.omega, 0.0, 1e30, "a finite number that is not negative")
        first = [0.5, 0.5, 0.5, 0.5, 0.0, 0.0]
        loss.keep("minimised", torch.tensor(first, dtype=loss.dtype, device=loss.batches_without_pairs.device))
        loss.keep_numbers("maximised", fill=1.0)

    def update(self, loss: Any, pairs: JointPairs) -> Update:
        """Steps in a, b, s, s₂, θ_a, θ_b and γ at the point before them."""
        refuse_logits(pairs)
        x, gamma = loss.numbers("minimised"), loss.numbers("maximised")
        a, b, s, s2, ta, tb = x.unbind()
        up, k = 1.0 + gamma, self.kappa
        f, h = pairs.outer, pairs.inner
        high, low = (f - a) ** 2 - 2.0 * up * f - s, (h - b) ** 2 + 2.0 * up * h - s2
        p, q = pairs.share / loss.theta0, pairs.first / loss.theta1
        tails = (p @ softplus(k * high) + q @ softplus(k * low)) / k
        rest = s + s2 - (1.0 + self.omega) * gamma**2 - tb * (b - 1.0 - gamma) + ta * (a + gamma)
        with torch.no_grad():
            u, v = p * torch.sigmoid(k * high), q * torch.sigmoid(k * low)
            slopes = (ta - 2.0 * u @ (f - a), -tb - 2.0 * v @ (h - b), 1.0 - u.sum(), 1.0 - v.sum(), a + gamma, up - b)
            low_x, high_x = x.new_tensor([0, 0, -4, 0, 0, 0]), x.new_tensor([1, 1, 1, 5, 1e9, 1e9])
            x_new = x - loss.tail_step * torch.stack([slope.reshape(()) for slope in slopes])
            ascent = 2.0 * (v @ h - u @ f) - 2.0 * (1.0 + self.omega) * gamma + ta + tb
            numbers = {"minimised": torch.clamp(x_new, low_x, high_x)}
            numbers["maximised"] = (gamma + loss.dual_step * ascent).clamp(-1.0, 1.0)
        return Update((1.0 + tails.detach() + rest).squeeze(), tails, {}, numbers)

    def stage(self, loss: Any) -> None:
        """There are no stages."""
        raise ValueError("stage() must not be called for method='pauci': it has no stages")


RULES = {
    "staco": STACORule(),
    "sonx": SONXRule(),
    "sonex": SONXRule(nu=0.05),
    "sota": SOTARule(),
    "sota-s": SOTAsRule(),
    "pauci": PAUCIRule(),
}


def refuse_logits(pairs: JointPairs) -> None:
    """Refuse scores that are no sigmoid outputs."""
    if torch.compiler.is_compiling():
        return
    for scores in (pairs.outer.detach(), pairs.inner.detach()):
        outside = (scores < 0.0) | (scores > 1.0)
        if bool(outside.any()):
            found = scores[outside][0].item()
            raise ValueError(f"scores must be sigmoid outputs in [0, 1] for method='pauci', got {found:.6g}")


def tail_values(values: torch.Tensor, s: torch.Tensor, first: torch.Tensor, theta1: float) -> torch.Tensor:
    """gᵢ(w, sᵢ; 𝓑) = sᵢ + mean over 𝓑 of (ℓᵢⱼ − sᵢ)₊/θ₁."""
    return s + (values - s[:, None]).clamp(min=0.0) @ first / theta1


def tail_slopes(
    pairs: JointPairs, s: torch.Tensor, weight: torch.Tensor, theta1: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """∂gᵢ/∂sᵢ (S,), and the scalar whose gradient is the mean of weightᵢ ∂gᵢ/∂w."""
    hit = (pairs.values > s[:, None]).to(s.dtype) * pairs.second
    slope = 1.0 - pairs.average @ hit.sum(1) / theta1
    return slope, ((pairs.share * weight / theta1) @ (hit * pairs.losses)).sum()


def log_average(log_u: torch.Tensor, log_new: torch.Tensor, track: float) -> torch.Tensor:
    """log((1 − γ) u + γ new)."""
    if track == 1.0:
        return log_new
    return torch.logaddexp(log_u + math.log1p(-track), log_new + math.log(track))


def log_mean(x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """log Σ share exp x along the last axis; 0 where no share is positive."""
    found = torch.logsumexp(x + share.log(), -1)
    return torch.where(found > -torch.inf, found, 0.0)


def tracked_log(loss: Any, pairs: JointPairs, lam: float, track: float) -> torch.Tensor:
    """log uᵢ after the batch, uᵢ the moving average of meanⱼ exp(ℓᵢⱼ/λ); the first batch initialises it."""
    now = log_mean(log_mean(pairs.values / lam, pairs.first)[None, :], pairs.average)
    return torch.where(loss.rows("seen", pairs), log_average(loss.rows("log_u", pairs), now, track), now)


def soft_carrier(pairs: JointPairs, lam: float, log_scale: torch.Tensor) -> torch.Tensor:
    """Mean of exp(ℓᵢⱼ/λ) exp(log_scaleᵢ) ℓᵢⱼ, the exponentials as constants."""
    share = pairs.share[:, None] * pairs.second
    weight = torch.where(share > 0.0, share * torch.exp(pairs.values / lam + log_scale[:, None]), 0.0)
    return (weight * pairs.losses).sum()


def keep_thresholds(loss: PairLoss, gamma: float | None) -> None:
    """sᵢ and s′, and with ``gamma`` their anchors and sums over the stage."""
    loss.keep_rows("s", fill=loss.threshold)
    loss.keep_numbers("level", fill=loss.threshold)
    if gamma is not None:
        number("gamma", gamma, 1e-30, 1e30, "a positive number")
        loss.keep_rows("s_bar", fill=loss.threshold)
        loss.keep_rows("s_sum")
        loss.keep_rows("touched", dtype=torch.int64)
        loss.keep_numbers("level_mean", fill=loss.threshold)
        loss.keep_numbers("t", dtype=torch.int64)


def staged(
    loss: Any, gamma: float | None, pairs: JointPairs, names: tuple[str, ...], level: torch.Tensor
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Sums over the stage of what is about to change; what is not sampled stays, and is added when it changes."""
    if gamma is None:
        return {}, {}
    stayed = loss.t - loss.touched[pairs.slot]
    rows = {}
    for name in names:
        value, total = getattr(loss, name), getattr(loss, f"{name}_sum")
        rows[f"{name}_sum"] = total[pairs.slot] + stayed * value[pairs.slot]
    mean = loss.level_mean + (level - loss.level_mean) / (loss.t + 1)
    return {**rows, "touched": loss.t.expand_as(stayed)}, {"level_mean": mean, "t": loss.t + 1}


@torch.no_grad()
def next_stage(loss: Any, gamma: float | None, names: tuple[str, ...]) -> None:
    """Begin a stage at the means of the last one, which become the anchors."""
    if gamma is None:
        raise ValueError("stage() must have gamma, as in method=STACORule(gamma=500): without it there are no stages")
    if int(loss.t) > 0:
        for name in names:
            kept, total = getattr(loss, name), getattr(loss, f"{name}_sum")
            kept.copy_((total + (loss.t - loss.touched) * kept) / loss.t)
            total.zero_()
        loss.level.copy_(loss.level_mean)
    loss.s_bar.copy_(loss.s)
    loss.touched.zero_()
    loss.t.zero_()
