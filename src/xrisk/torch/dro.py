"""DRO over single examples, for any task: the worst distribution near the observed one, at the cost of a batch."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xrisk.functions.worst_case import worst_case
from xrisk.torch.across import joint, logged
from xrisk.torch.checks import is_finite, number, scores_of
from xrisk.torch.risks import chi_ball_level
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful


class Numbers(NamedTuple):
    """The numbers of an ambiguity set and of a method."""

    radius: float  # 0 without a ball, where it plays no part
    low: float  # least λ, or α
    high: float  # largest λ
    limit: float  # the largest KL divergence of any weights
    track: float
    temperature_step: float
    threshold_step: float


class Dual(NamedTuple):
    """The dual variables of a risk over examples, all of shape (1,)."""

    temperature: Tensor  # λ
    temperature_before: Tensor  # λ of the batch before
    log_s: Tensor  # logarithm of s, which tracks mean exp(v/λ)
    slope: Tensor  # U, which tracks the derivative in λ
    threshold: Tensor  # η, of "cvar" and "chi2"
    excess: Tensor  # tracks mean (v − η)₊, of "cvar", and mean (v − η)₊², of "chi2"
    started: Tensor  # whether there was a batch
    guarded: Tensor  # batches after which s had to be kept positive


class Step(NamedTuple):
    """What a batch leads to."""

    dual: Dual
    weights: Tensor  # (rows,) of the gradients, divided by the number of rows
    value: Tensor  # (1,) the objective at what is tracked


Update = Callable[[Dual, Tensor, Tensor, Numbers], Step]


def log_mean_exp(v: Tensor, lam: Tensor) -> Tensor:
    """log mean exp(v/λ), (1,)."""
    return torch.logsumexp(v / lam, 0, keepdim=True) - math.log(v.shape[0])


def log_average(old: Tensor, new: Tensor, weight: float) -> Tensor:
    """log( (1 − weight) eᵒˡᵈ + weight eⁿᵉʷ )."""
    return torch.logaddexp(old + math.log1p(-weight), new + math.log(weight)) if weight < 1.0 else new


def scdro(old: Dual, v: Tensor, before: Tensor, numbers: Numbers) -> Step:
    """Moving averages of exp(v/λ) and of the derivative in λ, in the log domain: no weight exceeds 1/β."""
    lam, beta = old.temperature, numbers.track
    fresh = log_mean_exp(v, lam)
    log_s = torch.where(old.started, log_average(old.log_s, fresh, beta), fresh)
    weights = (v / lam - log_s).exp() / v.shape[0]
    # σ + ρ − Σ weights v/λ, in an order in which nothing large cancels
    slope = numbers.radius + (weights * (log_s - v / lam)).sum() + log_s * (1.0 - weights.sum())
    slope = torch.where(old.started, (1.0 - beta) * old.slope + beta * slope, slope)
    new = old._replace(log_s=log_s, slope=slope)
    return _cooled(new, slope, weights, numbers)


def ascdro(old: Dual, v: Tensor, before: Tensor, numbers: Numbers) -> Step:
    """STORM's estimators: s ← g(x_t) + (1 − β)(s − g(x_{t−1})), the derivative in λ likewise, both over s."""
    lam, lam_before, beta = old.temperature, old.temperature_before, numbers.track
    fresh, stale = log_mean_exp(v, lam), log_mean_exp(before, lam_before)
    log_s, kept, stale, fell = storm_scale(old, fresh, stale, beta)
    weights = (v / lam - log_s).exp() / v.shape[0]
    weights_before = (before / lam_before - stale).exp() / v.shape[0]
    change = (weights_before * before).sum() / lam_before.square() - (weights * v).sum() / lam.square()
    slope = kept * old.slope + change
    new = old._replace(log_s=log_s, slope=slope, guarded=old.guarded + fell)
    return _cooled(new, lam * slope + log_s + numbers.radius, weights, numbers)


def storm_scale(old: Dual, fresh: Tensor, stale: Tensor, beta: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(log s, what is kept of the old, the log of what the stale is divided by, whether s had to be kept positive).

    s is kept above β times the mean of the batch. Where it is so small that only rounding is left, the batch stands
    alone.
    """
    top = torch.maximum(torch.maximum(fresh, old.log_s), stale)
    s = (fresh - top).exp() + (1.0 - beta) * ((old.log_s - top).exp() - (stale - top).exp())
    log_s = torch.where(s > 0.0, top + s.clamp(min=torch.finfo(s.dtype).tiny).log(), -torch.inf)
    floor = fresh + math.log(beta)
    after = torch.maximum(log_s, floor)
    is_lost = (top - after > 30.0) | ~(old.slope.abs() < 1e100)
    is_alone = is_lost | ~old.started | (beta >= 1.0)
    fell = (is_lost | (log_s < floor)) & old.started & (beta < 1.0)
    kept = torch.where(is_alone, 0.0, (1.0 - beta) * (old.log_s - after).exp())
    scale = after - (math.log1p(-beta) if beta < 1.0 else 0.0)
    return torch.where(is_alone, fresh, after), kept, torch.where(is_alone, torch.inf, scale), fell


def _cooled(new: Dual, slope: Tensor, weights: Tensor, numbers: Numbers) -> Step:
    """A step on λ, whose derivative lies in [ρ − limit, ρ]; the objective is that before the step."""
    lam = new.temperature
    clipped = slope.clamp(numbers.radius - numbers.limit, numbers.radius)
    cooler = (lam - numbers.temperature_step * clipped).clamp(numbers.low, numbers.high)
    value = lam * new.log_s + (lam - numbers.low) * numbers.radius
    return Step(new._replace(temperature=cooler, temperature_before=lam), weights, value)


def tail(old: Dual, v: Tensor, before: Tensor, numbers: Numbers) -> Step:
    """c + mean (v − c)₊/α and a subgradient step on c."""
    alpha, rows = numbers.low, v.shape[0]
    rank = min(max(math.ceil(alpha * rows), 1), rows)
    c = torch.where(old.started, old.threshold, v.sort(descending=True).values[rank - 1])
    fresh = (v - c).clamp(min=0.0).mean(0, keepdim=True)
    excess = _averaged(old, fresh, numbers.track)
    weights = (v > c).to(v.dtype) / (alpha * rows)
    threshold = c - numbers.threshold_step * (1.0 - weights.sum())
    return Step(old._replace(threshold=threshold, excess=excess), weights, c + excess / alpha)


def chi_square(old: Dual, v: Tensor, before: Tensor, numbers: Numbers) -> Step:
    """η + λ/2 + mean (v − η)₊²/(2λ) + (λ − λ₀)ρ at the best λ for what is tracked, and a step on η."""
    radius = numbers.radius if numbers.high > numbers.low else math.inf  # a price alone is a ball without an end
    eta = torch.where(old.started, old.threshold, chi_ball_level(v, radius, numbers.low))
    over = (v - eta).clamp(min=0.0)
    excess = _averaged(old, over.square().mean(0, keepdim=True), numbers.track)
    lam = (excess / (1.0 + 2.0 * numbers.radius)).sqrt().clamp(numbers.low, numbers.high)
    weights = over / (lam * v.shape[0])
    threshold = eta - numbers.threshold_step * (1.0 - weights.sum())
    value = eta + 0.5 * lam + 0.5 * excess / lam + (lam - numbers.low) * numbers.radius
    return Step(old._replace(threshold=threshold, excess=excess, temperature=lam), weights, value)


def _averaged(old: Dual, fresh: Tensor, track: float) -> Tensor:
    return torch.where(old.started, old.excess + track * (fresh - old.excess), fresh)


UPDATES: dict[tuple[str, str], Update] = {
    ("kl", "scdro"): scdro,
    ("kl", "ascdro"): ascdro,
    ("chi2", "scdro"): chi_square,
    ("cvar", "scdro"): tail,
}
METHODS = ("scdro", "ascdro")


class DROLoss(Stateful):
    """max of Σ qᵢvᵢ(w) over the distributions q near equal weights, vᵢ the loss of example i.

    For a KL ball it is min over λ ≥ λ₀ of λ log mean exp(vᵢ(w)/λ) + (λ − λ₀)ρ; for a batch of B examples::

        log s ← log( (1 − β) s + β mean exp(vᵢ/λ) ),    Pᵢ = exp(vᵢ/λ − log s)
        U ← (1 − β) U + β ( log s + ρ − mean Pᵢvᵢ/λ )
        gradient = mean Pᵢ∇vᵢ,    λ ← max( λ₀, λ − η clip(U, ρ − log n, ρ) )

    Parameters
    ----------
    ambiguity : {"kl", "chi2", "cvar"}
        The set of distributions, as for `xrisk.worst_case`.
    radius : float, optional
        Largest divergence ρ of "kl" and "chi2". None: a price alone.
    strength : float, optional
        The price λ₀ of divergence. Without one, a ball has λ₀ = ``floor``, which keeps λ positive.
    alpha : float, optional
        Fraction of the examples, for "cvar", which takes neither radius nor strength.
    method : {"scdro", "ascdro"}
        "ascdro" corrects s and U by the losses at the previous weights, ``loss(values, previous=…)``, for "kl".
    track : float
        Weight β of the present batch.
    temperature, temperature_step : float
        The first λ and its step size, for a KL ball.
    threshold_step : float
        Step size of the threshold η of "cvar" and "chi2", which starts near its optimum for the first batch.
    floor : float
        λ₀ of a ball without a price.
    rows : int, optional
        The number n of examples of the training set. It bounds the derivative in λ from below.
    group : process group, optional
        The processes that share a batch; by default all.

    Notes
    -----
    ``loss(values)`` takes the losses (rows,) of examples with their graph. The returned value is the objective at the
    tracked quantities, its gradient the one above. SCDRO and ASCDRO average the gradient too: this is the optimizer's
    part, ``SGD(momentum=1 - β, dampening=1 - β)``. With it "scdro" is Algorithm 1 of [1]_; "ascdro" leaves out the
    correction of the gradient by the previous weights, which only an optimizer could do, and has all else of Algorithm
    2. s is kept as its logarithm and cannot overflow. s of "ascdro" is kept above β times the mean of the batch;
    ``guarded`` counts how often.

    "cvar" is min over η of η + mean (v − η)₊/α, "chi2" min over η and λ ≥ λ₀ of
    η + λ/2 + mean (v − η)₊²/(2λ) + (λ − λ₀)ρ [2]_, λ from the tracked mean of the squares. λ is then not learned by
    steps. A call in training mode updates the state; after ``.eval()``, or if a value is not finite, nothing is
    written.

    References
    ----------
    .. [1] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.
    .. [2] Levy, Carmon, Duchi and Sidford, Large-scale methods for distributionally robust optimization, 2020.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> values = torch.tensor([0.0, 1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = xt.DROLoss("kl", radius=None, strength=1.0)
    >>> round(loss(values).item(), 6)
    2.053895
    >>> round(xt.DROLoss("kl", radius=0.1).exact(values).item(), 6)
    1.994274
    """

    def __init__(
        self,
        ambiguity: str = "kl",
        radius: float | None = None,
        strength: float | None = None,
        *,
        alpha: float | None = None,
        method: str = "scdro",
        track: float = 0.1,
        temperature: float = 1.0,
        temperature_step: float = 0.05,
        threshold_step: float = 0.05,
        floor: float = 1e-3,
        rows: int | None = None,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.update = update_of(ambiguity, method)
        self.known = known_of(ambiguity, radius, strength, alpha)
        self.ambiguity, self.method, self.group = ambiguity, method, group
        self.numbers = numbers_of(self.known, floor, rows, track, temperature_step, threshold_step)
        first = number("temperature", temperature, 1e-300, 1e300, "positive")
        for name in Dual._fields:
            self.keep(name, torch.zeros(1, dtype=torch.float64))
        self.temperature.fill_(min(max(first, self.numbers.low), self.numbers.high))
        self.temperature_before.copy_(self.temperature)
        self.keep("started", torch.zeros(1, dtype=torch.bool))
        self.keep("guarded", torch.zeros(1, dtype=torch.int64))

    def forward(self, values: Tensor, previous: Tensor | None = None) -> Tensor:
        """The objective at the tracked quantities, with the gradient of the method; shape ()."""
        values = scores_of("values", values)
        with torch.autocast(values.device.type, enabled=False):
            batch = joint(values, (self._previous(values, previous),), self.group)
            if batch.values.shape[0] == 0:
                return batch.values.sum()
            with torch.no_grad():
                v, before = batch.values.detach().double(), batch.others[0].double()
                step = self.update(self._dual(), v, before, self.numbers)
                self._write(step.dual, is_finite(v, before))
            carrier = (snapshot(step.weights).to(values.dtype) * batch.values).sum()
            return logged(step.value[0].to(values.dtype), carrier, batch.ranks)

    def exact(self, values: Tensor) -> Tensor:
        """The worst case of the losses of a whole set, to machine precision: `xrisk.worst_case`; nothing is written."""
        values = scores_of("values", values).detach()
        found = worst_case(values.cpu().double().numpy(), ambiguity=self.ambiguity, **self.known)
        return torch.tensor(found.value, dtype=torch.float64, device=values.device)

    def _previous(self, values: Tensor, previous: Tensor | None) -> Tensor:
        """The losses at the previous weights, or those at hand where they are not used."""
        if self.method != "ascdro":
            if previous is not None:
                raise TypeError(f"previous must be left out for method={self.method!r}, which does not use it")
            return values.detach()
        if previous is None:
            raise TypeError("previous must be the losses at the previous weights for method='ascdro'")
        previous = scores_of("previous", previous).detach().to(values.dtype)
        if previous.shape != values.shape:
            raise ValueError(f"previous must have shape {tuple(values.shape)}, got {tuple(previous.shape)}")
        return previous

    def _dual(self) -> Dual:
        return Dual(*(getattr(self, name) for name in Dual._fields))

    def _write(self, new: Dual, is_usable: Tensor) -> None:
        if self.training:
            new = new._replace(started=torch.ones_like(self.started))
            kept = self._dual()
            # all before any is written: new values may be old ones under another name
            values = [torch.where(is_usable, value, before) for value, before in zip(new, kept, strict=True)]
            for mine, value in zip(kept, values, strict=True):
                mine.copy_(value)


def update_of(ambiguity: str, method: str) -> Update:
    """The update of a method on an ambiguity set."""
    known = sorted({name for name, _ in UPDATES})
    if ambiguity not in known:
        raise ValueError(f"ambiguity must be one of {', '.join(map(repr, known))}, got {ambiguity!r}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    if (ambiguity, method) not in UPDATES:
        raise ValueError(f"method must be 'scdro' for ambiguity={ambiguity!r}, got {method!r}")
    return UPDATES[ambiguity, method]


def known_of(ambiguity: str, radius: Any, strength: Any, alpha: Any) -> dict[str, float]:
    """The arguments that an ambiguity set takes, checked."""
    given = {"radius": radius, "strength": strength, "alpha": alpha}
    known = {name: value for name, value in given.items() if value is not None}
    takes = ("alpha",) if ambiguity == "cvar" else ("radius", "strength")
    for name, value in known.items():
        if name not in takes:
            raise ValueError(f"{name} must be left out for ambiguity={ambiguity!r}, got {value!r}")
        words = "above 0 and at most 1" if name == "alpha" else "a positive number"
        number(name, value, 1e-300, 1.0 if name == "alpha" else 1e300, words)
    if not known:
        raise ValueError(f"{' or '.join(takes)} must be given for ambiguity={ambiguity!r}, got none")
    return known


def numbers_of(
    known: dict[str, float],
    floor: float,
    rows: int | None,
    track: float,
    temperature_step: float,
    threshold_step: float,
) -> Numbers:
    """The numbers of an ambiguity set and of a method; a price alone holds λ at it."""
    floor = number("floor", floor, 1e-300, 1e300, "positive")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows must be a whole number of at least 1, got {rows!r}")
    low = float(known.get("alpha", known.get("strength", floor)))
    return Numbers(
        radius=float(known.get("radius", 0.0)),
        low=low,
        high=math.inf if "radius" in known else low,
        limit=math.log(rows) if rows is not None else math.inf,
        track=number("track", track, 1e-12, 1.0, "above 0 and at most 1"),
        temperature_step=number("temperature_step", temperature_step, 0.0, 1e300, "a number of at least 0"),
        threshold_step=number("threshold_step", threshold_step, 0.0, 1e300, "a number of at least 0"),
    )
