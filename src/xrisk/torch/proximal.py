"""A proximal term around an anchor for any optimizer, and the average of the iterates of a stage."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from xrisk.torch.checks import number


class ProximalPoint(torch.optim.Optimizer):
    """Steps on F(w) + ‖w − w̄‖²/(2γ) with any optimizer; after a stage w̄ becomes the average of its iterates.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The optimizer that makes the steps.
    gamma : float
        γ; (w − w̄)/γ is added to the gradients before each step. ``inf`` leaves it out.
    power : int
        Iterate t of a stage counts (t + 1)(t + 2)…(t + power): 0 for the plain average of STACO2, 3 for ALEXR-DL.

    Notes
    -----
    The first anchor is the weights at construction. `stage` moves weights and anchor to the average, as STACO2 [1]_
    and ALEXR-DL [2]_ do, whose ρ̄ is 1/γ; `stage_keeping_weights` moves the anchor only, as LibAUC's
    ``update_regularizer`` does. The proximal term enters by its gradient, not by a proximal step. Parameters whose
    gradient is None are left alone; clip gradients before ``step`` if they should be clipped without the term. Buffers
    such as the statistics of batch norm are not averaged: pass the training set once more through the model after a
    stage, or keep them as they are.

    ``param_groups``, ``state``, ``zero_grad`` and hooks are those of the optimizer inside, so that schedulers and
    ``GradScaler`` work. ``state_dict`` is that of the optimizer inside with one more key, ``"proximal"``.

    References
    ----------
    .. [1] Zhou, Wang, Thai and Yang, Stochastic primal-dual double block-coordinate for two-way partial AUC
       maximization, 2025, Algorithm 2.
    .. [2] Wang and Yang, ALEXR, Algorithm 2.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> w = torch.nn.Parameter(torch.tensor([0.0]))
    >>> optimizer = xt.ProximalPoint(torch.optim.SGD([w], lr=0.5), gamma=2.0)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (w - 4.0).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stage()
    >>> w.item()
    3.5
    """

    def __init__(self, optimizer: torch.optim.Optimizer, gamma: float, *, power: int = 0) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch optimizer, got {type(optimizer).__name__}")
        if isinstance(power, bool) or not isinstance(power, int) or power < 0:
            raise ValueError(f"power must be a whole number of at least 0, got {power!r}")
        self.optimizer, self.power = optimizer, power
        self.gamma = number("gamma", gamma, 1e-300, float("inf"), "positive")
        self.anchor = [p.detach().clone() for p in self._parameters()]
        self.average = [p.detach().clone() for p in self._parameters()]
        self.count = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the optimizer inside on the gradients with the proximal term."""
        found = self.optimizer.step(self._with_term(closure)) if closure else self._plain()
        self._average()
        return found

    @torch.no_grad()
    def stage(self) -> None:
        """End a stage: weights and anchor become the average of its iterates."""
        for p, mean in zip(self._parameters(), self.average, strict=True):
            p.copy_(mean)
        self.stage_keeping_weights()

    @torch.no_grad()
    def stage_keeping_weights(self) -> None:
        """End a stage: the anchor becomes the average of its iterates; the weights stay."""
        for anchor, mean in zip(self.anchor, self.average, strict=True):
            anchor.copy_(mean)
        self.count = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """A group of the optimizer inside, with its anchor at the present weights."""
        self.optimizer.add_param_group(param_group)
        new = list(self._parameters())[len(self.anchor) :]
        self.anchor += [p.detach().clone() for p in new]
        self.average += [p.detach().clone() for p in new]

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        return self.optimizer.defaults

    def __getattr__(self, name: str) -> Any:
        """Hooks and the like of the optimizer inside."""
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"ProximalPoint(gamma={self.gamma}, power={self.power}, {self.optimizer!r})"

    def state_dict(self) -> dict[str, Any]:
        proximal = {"anchor": list(self.anchor), "average": list(self.average), "count": self.count}
        return {**self.optimizer.state_dict(), "proximal": proximal}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if "proximal" not in state_dict:
            raise ValueError("state_dict must have the key 'proximal', it is the state of another optimizer")
        kept = state_dict["proximal"]
        for name in ("anchor", "average"):
            found, wanted = [tuple(a.shape) for a in kept[name]], [tuple(a.shape) for a in self.anchor]
            if found != wanted:
                raise ValueError(f"{name} of state_dict must have the shapes of the parameters, {wanted}, got {found}")
        self.optimizer.load_state_dict({key: value for key, value in state_dict.items() if key != "proximal"})
        for mine, given in zip(self.anchor + self.average, kept["anchor"] + kept["average"], strict=True):
            mine.copy_(given)
        self.count = int(kept["count"])

    def _parameters(self) -> Iterator[Tensor]:
        return (p for group in self.optimizer.param_groups for p in group["params"])

    def _plain(self) -> Any:
        self._add_term()
        return self.optimizer.step()

    def _with_term(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluated() -> Any:
            value = closure()
            self._add_term()
            return value

        return evaluated

    @torch.no_grad()
    def _add_term(self) -> None:
        for p, anchor in zip(self._parameters(), self._on_device(self.anchor), strict=True):
            if p.grad is not None and self.gamma < float("inf"):
                p.grad.add_(p - anchor, alpha=1.0 / self.gamma)

    @torch.no_grad()
    def _average(self) -> None:
        weight = (self.power + 1) / (self.count + self.power + 1)
        for p, mean in zip(self._parameters(), self._on_device(self.average), strict=True):
            mean.lerp_(p, weight)
        self.count += 1

    def _on_device(self, kept: list[Tensor]) -> list[Tensor]:
        """What is kept, where the parameters are: a model may move after its optimizer is built."""
        for place, p in enumerate(self._parameters()):
            if kept[place].device != p.device:
                kept[place] = kept[place].to(p.device)
        return kept
