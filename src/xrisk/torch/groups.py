"""Group DRO for any model: the worst groups weigh most, by trackers of the groups' mean losses."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xrisk.functions.risk import risk_outer
from xrisk.torch.across import joint, logged
from xrisk.torch.checks import index_of, is_finite, number, scores_of
from xrisk.torch.functions import outer_prox, outer_slope
from xrisk.torch.risks import first_dual, learns_threshold, risk_of, risk_threshold, risk_value
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful


class Trackers(NamedTuple):
    """What is known of the n groups; numbers of all groups have shape (1,)."""

    tracked: Tensor  # (n,) u[i] tracks the mean loss of group i
    seen: Tensor  # (n,) whether group i was ever in a batch
    duals: Tensor  # (n,) y[i], the slope at which group i last counted
    threshold: Tensor  # (1,) c
    threshold_before: Tensor  # (1,) the threshold of the batch before


class TrackRates(NamedTuple):
    """The numbers of a method."""

    track: float
    correction: float
    theta: float
    nu: float
    dual_step: float


class RiskForm(NamedTuple):
    """ρ(u) = min over c of c + mean f(uᵢ − c) of n values."""

    risk: Any
    outer: Any  # f


class Seen(NamedTuple):
    """The groups of a joint batch."""

    means: Tensor  # (n,) their mean losses
    before: Tensor  # (n,) the same rows at the previous weights
    present: Tensor  # (n,) whether a group has a row


Slopes = Callable[[Trackers, Trackers, Seen, RiskForm, TrackRates], Tensor]


def new_slopes(old: Trackers, new: Trackers, seen: Seen, form: RiskForm, rates: TrackRates) -> Tensor:
    """f′(uᵢ − c) at the updated trackers."""
    return outer_slope(form.outer, new.tracked - _threshold(new, new.threshold, form))


def old_slopes(old: Trackers, new: Trackers, seen: Seen, form: RiskForm, rates: TrackRates) -> Tensor:
    """f′(uᵢ − c) at the trackers before the update, which do not depend on the batch; the first value is both."""
    known = new._replace(tracked=torch.where(old.seen, old.tracked, new.tracked))
    return outer_slope(form.outer, known.tracked - _threshold(known, new.threshold, form))


def smoothed_slopes(old: Trackers, new: Trackers, seen: Seen, form: RiskForm, rates: TrackRates) -> Tensor:
    """∇f_ν(uᵢ − c) = argmax y(uᵢ − c) − f*(y) − (ν/2)y²."""
    return outer_prox(form.outer, new.tracked - _threshold(new, new.threshold, form), rates.nu)[1]


def dual_slopes(old: Trackers, new: Trackers, seen: Seen, form: RiskForm, rates: TrackRates) -> Tensor:
    """argmax yg̃ᵢ − f*(y) − (τ/2)(y − yᵢ)², g̃ᵢ the extrapolated value of the batch less the threshold."""
    u, tau = seen.means - _threshold(new, new.threshold, form), 1.0 / rates.dual_step
    if rates.theta > 0.0:
        u = u + rates.theta * (u - (seen.before - _threshold(old, new.threshold_before, form)))
    return outer_prox(form.outer, u + tau * old.duals, tau)[1]


def _threshold(known: Trackers, learned: Tensor, form: RiskForm) -> Tensor:
    """c as it is learned, or the best one for what is tracked."""
    return learned if learns_threshold(form.risk) else risk_threshold(form.risk, known.tracked, known.seen)


class Method(NamedTuple):
    """How slopes are found, and whether the previous weights are used."""

    slopes: Slopes
    corrects: bool = False  # whether the tracker is corrected by previous values
    extrapolates: bool = False  # whether θ times the change is added
    needs_previous: bool = False


METHODS = {
    "sox": Method(new_slopes),
    "msvr": Method(old_slopes, corrects=True, needs_previous=True),
    "sonx": Method(old_slopes, corrects=True),
    "sonex": Method(smoothed_slopes, corrects=True),
    "alexr": Method(dual_slopes, extrapolates=True),
    "alexr-conjugate": Method(new_slopes, extrapolates=True),
}


class GroupDROLoss(Stateful):
    """ρ(R₁(w), …, Rₙ(w)) = min over c of c + mean f(Rᵢ(w) − c), Rᵢ the mean loss of group i.

    For the groups i of a batch 𝓑, with the slopes yᵢ at tracked values uᵢ::

        uᵢ ← (1 − γ) uᵢ + γ Rᵢ(w_t; 𝓑) + γ′ (Rᵢ(w_t; 𝓑) − Rᵢ(w_{t−1}; 𝓑))
        gradient = mean yᵢ ∇Rᵢ(w_t; 𝓑),    c ← c − s (1 − mean yᵢ)

    Parameters
    ----------
    groups : int or tensor (rows,)
        The number of groups n, or the groups 0, …, n−1 of the rows of the training set.
    divergence : {"cvar", "max", "chi2", "chi2-b", "kl"} or risk spec
        As for `xrisk.group_dro`: the mean of the worst fraction ``alpha`` of the groups, the worst group, or the worst
        mixture of the groups at the cost ``lam`` times its divergence from equal weights.
    alpha, lam : float
        Fraction of the groups, for "cvar"; strength of the cost, for the others but "max".
    method : {"sox", "msvr", "sonx", "sonex", "alexr", "alexr-conjugate"}
        ======================= ===================================================================
        ``"sox"``               yᵢ = f′(uᵢ − c) at the new uᵢ [1]_
        ``"msvr"``, ``"sonx"``  yᵢ = f′(uᵢ − c) at the old uᵢ; γ′ where ``previous`` is given [2]_ [3]_
        ``"sonex"``             yᵢ = ∇f_ν(uᵢ − c) of the smoothed f; γ′ where ``previous`` is given [5]_
        ``"alexr"``             yᵢ a proximal step on duals, from the values of the batch [4]_
        ``"alexr-conjugate"``   the same with ψ = f*: yᵢ = f′(uᵢ − c), γ = 1/(1 + τ), γ′ = γθ
        ======================= ===================================================================
    track, correction : float
        Weights γ in (0, 1] and γ′ ≥ 0.
    nu, dual_step, theta : float
        Smoothing ν of "sonex"; dual step 1/τ and extrapolation θ of "alexr". θ > 0 needs ``previous``.
    threshold_step : float
        Step size of c, which is minimised; 0 keeps it. "kl" uses the best c of the tracked values.
    group : process group, optional
        The processes that share a batch; by default all.

    Notes
    -----
    ``loss(values, groups)`` takes losses (rows,) with their graph and the groups of the rows. The returned value is ρ
    of the tracked values of the groups seen so far; its gradient is the one above. Groups that are not in the batch
    keep what is known of them. The gradient is unbiased for groups drawn with equal chance, as `GroupBatches` does.
    ``previous`` are the losses of the same rows at the weights of the previous step: one more forward pass, without a
    graph, by ``torch.func.functional_call``. Momentum is the optimizer's: the moving average with weight β is
    ``SGD(momentum=1 - β, dampening=1 - β)``.

    One batch serves values and gradients. The threshold starts at its optimum for the first batch and, except for
    "alexr", stays out of the trackers, as in the book's SONEX for groups. A call in training mode updates the state;
    after ``.eval()``, or if a value is not finite, nothing is written.

    References
    ----------
    .. [1] Wang and Yang, Finite-sum coupled compositional stochastic optimization, 2022, Algorithm 1.
    .. [2] Jiang, Li, Wang, Zhang and Yang, Multi-block-single-probe variance reduced estimator, 2022.
    .. [3] Hu, Zhu and Yang, Non-smooth weakly-convex finite-sum coupled compositional optimization, 2023.
    .. [4] Wang and Yang, ALEXR, Algorithm 1.
    .. [5] Yang, opt4ml, Algorithms 17 and 25.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> loss = xt.GroupDROLoss(3, divergence="max")
    >>> values, groups = torch.tensor([0.5, 1.5, 3.0], requires_grad=True), torch.tensor([0, 0, 2])
    >>> round(loss(values, groups).item(), 6)
    3.0
    >>> round(loss.exact(values, groups).item(), 6)
    3.0
    """

    def __init__(
        self,
        groups: Any,
        *,
        divergence: Any = "cvar",
        alpha: float = 0.1,
        lam: float = 1.0,
        method: str = "sox",
        track: float = 0.1,
        correction: float = 0.5,
        nu: float = 0.05,
        dual_step: float = 0.1,
        theta: float = 0.0,
        threshold_step: float = 0.05,
        group: Any = None,
    ) -> None:
        super().__init__()
        n = group_count(groups)
        risk = risk_of(divergence, alpha, lam)
        self.form = RiskForm(risk, risk_outer(risk, n))
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
        self.method, self.group = method, group
        self.rates = rates_of(track, correction, theta, nu, dual_step)
        self.threshold_step = number("threshold_step", threshold_step, 0.0, 1e300, "a number of at least 0")
        self.keep("tracked", torch.zeros(n, dtype=torch.float64))
        self.keep("seen", torch.zeros(n, dtype=torch.bool))
        self.keep("duals", torch.full((n,), first_dual(risk), dtype=torch.float64))
        self.keep("threshold", torch.zeros(1, dtype=torch.float64))
        self.keep("threshold_before", torch.zeros(1, dtype=torch.float64))

    def forward(self, values: Tensor, groups: Tensor, previous: Tensor | None = None) -> Tensor:
        """The objective at the tracked values, with the gradient of the method; shape ()."""
        values = scores_of("values", values)
        groups = index_of("groups", groups, values.shape[0], self.tracked.shape[0])
        with torch.autocast(values.device.type, enabled=False):
            batch = joint(values, (groups, self._previous(values, previous)), self.group)
            with torch.no_grad():
                seen, counts = groups_of(batch.values.detach(), batch.others[1], batch.others[0], self.tracked)
                new = self._updated(self._trackers(), seen)
                self._write(new, is_finite(batch.values.detach(), batch.others[1]) & seen.present.any())
                shares = new.duals / (counts.clamp(min=1) * seen.present.sum().clamp(min=1))
                value = risk_value(self.form.risk, new.tracked, new.seen)
            carrier = (snapshot(shares[batch.others[0]]).to(values.dtype) * batch.values).sum()
            return logged(value[0].to(values.dtype), carrier, batch.ranks)

    def exact(self, values: Tensor, groups: Tensor) -> Tensor:
        """ρ of the mean losses of the groups that occur, in double precision; nothing is written."""
        values = scores_of("values", values)
        groups = index_of("groups", groups, values.shape[0], self.tracked.shape[0])
        if values.shape[0] == 0:
            raise ValueError("values must have at least one row, got none")
        like = self.tracked.to(values.device)
        seen, _ = groups_of(values.double(), values.detach().double(), groups, like)
        return risk_value(self.form.risk, seen.means, seen.present)[0]

    def _previous(self, values: Tensor, previous: Tensor | None) -> Tensor:
        """The values at the previous weights, or those at hand where the method can do without."""
        method = METHODS[self.method]
        if previous is None:
            if method.needs_previous or (method.extrapolates and self.rates.theta > 0.0):
                raise TypeError(f"previous must be the values at the previous weights for method={self.method!r}")
            return values.detach()
        if not (method.corrects or method.extrapolates):
            raise TypeError(f"previous must be left out for method={self.method!r}, which does not use it")
        previous = scores_of("previous", previous).detach().to(values.dtype)
        if previous.shape != values.shape:
            raise ValueError(f"previous must have shape {tuple(values.shape)}, got {tuple(previous.shape)}")
        return previous

    def _trackers(self) -> Trackers:
        return Trackers(self.tracked, self.seen, self.duals, self.threshold, self.threshold_before)

    def _updated(self, old: Trackers, seen: Seen) -> Trackers:
        """The trackers after a batch; the duals of groups in it are the slopes at which they count."""
        method, risk, present = METHODS[self.method], self.form.risk, seen.present
        start = risk_threshold(risk, seen.means, present)
        started = old.seen.any()
        c, before = torch.where(started, old.threshold, start), torch.where(started, old.threshold_before, start)
        moved = filtered(old.tracked, seen, self.rates, method)
        tracked = torch.where(present, torch.where(old.seen, moved, seen.means), old.tracked)
        new = Trackers(tracked, old.seen | present, old.duals, c, before)
        duals = torch.where(present, method.slopes(old, new, seen, self.form, self.rates), old.duals)
        mean = torch.where(present, duals, 0.0).sum() / present.sum().clamp(min=1)
        if learns_threshold(risk):
            return new._replace(duals=duals, threshold=c - self.threshold_step * (1.0 - mean), threshold_before=c)
        best = risk_threshold(risk, tracked, new.seen)
        return new._replace(duals=duals, threshold=best, threshold_before=c)

    def _write(self, new: Trackers, is_usable: Tensor) -> None:
        if self.training:
            kept = self._trackers()
            # all before any is written: new values may be old ones under another name
            values = [torch.where(is_usable, value, before) for value, before in zip(new, kept, strict=True)]
            for mine, value in zip(kept, values, strict=True):
                mine.copy_(value)


def filtered(u: Tensor, seen: Seen, rates: TrackRates, method: Method) -> Tensor:
    """(1 − γ)u + γR(w_t) + γ′(R(w_t) − R(w_{t−1}))."""
    correction = rates.correction if method.corrects else rates.track * rates.theta if method.extrapolates else 0.0
    moved = u + rates.track * (seen.means - u)
    return moved + correction * (seen.means - seen.before) if correction else moved


def groups_of(values: Tensor, before: Tensor, groups: Tensor, like: Tensor) -> tuple[Seen, Tensor]:
    """The mean values of the groups in a batch, and how many rows each has (n,)."""
    counts = torch.zeros_like(like).index_add(0, groups, torch.ones_like(values, dtype=like.dtype))
    whole = counts.clamp(min=1)
    means = torch.zeros_like(like).index_add(0, groups, values.to(like.dtype)) / whole
    means_before = torch.zeros_like(like).index_add(0, groups, before.to(like.dtype)) / whole
    return Seen(means, means_before, counts > 0), counts


def group_count(groups: Any) -> int:
    """The number of groups, from itself or from the groups of all rows, numbered without gaps."""
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups < 1:
            raise ValueError(f"groups must be at least 1, got {groups}")
        return groups
    labels = torch.as_tensor(groups)
    if labels.ndim != 1 or labels.numel() == 0 or labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"groups must be a number of groups or integers (rows,), got {labels.dtype} {tuple(labels.shape)}"
        )
    if int(labels.min()) < 0:
        raise ValueError(f"groups must not be negative, got {int(labels.min())}")
    counts = torch.bincount(labels.long())
    if bool((counts == 0).any()):
        raise ValueError(f"groups must be numbered without gaps, group {int((counts == 0).nonzero()[0])} has no row")
    return int(counts.shape[0])


def rates_of(track: float, correction: float, theta: float, nu: float, dual_step: float) -> TrackRates:
    """The numbers of a method, checked."""
    return TrackRates(
        number("track", track, 1e-12, 1.0, "above 0 and at most 1"),
        number("correction", correction, 0.0, 1e300, "a number of at least 0"),
        number("theta", theta, 0.0, 1.0, "between 0 and 1"),
        number("nu", nu, 1e-300, 1e300, "positive"),
        number("dual_step", dual_step, 1e-300, 1e300, "positive"),
    )
