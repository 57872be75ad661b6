"""State of a loss that is saved with the model, follows it to a device, and is no buffer."""

from typing import Any

import torch


class Stateful(torch.nn.Module):
    """A module that keeps tensors which are neither parameters nor buffers.

    What `keep` has stored is in ``state_dict``, follows the module to a device, and keeps its dtype. It is not a
    buffer: distributed data parallel overwrites the buffers of all processes by those of the first one at every
    forward, and ``.bfloat16()`` would cast them. Every process must load a checkpoint.
    """

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_kept"] = {}

    def keep(self, name: str, value: torch.Tensor) -> None:
        """Store a tensor under a name; it is then an attribute."""
        self._kept[name] = value

    def __getattr__(self, name: str) -> Any:
        kept = self.__dict__.get("_kept", {})
        return kept[name] if name in kept else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_kept", {}):
            self._kept[name] = value
        else:
            super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        for name, value in self._kept.items():
            self._kept[name] = value.to(fn(value).device)  # a cast of the model does not change what is tracked
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._kept.items():
            destination[prefix + name] = value.detach()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        others = {key: value for key, value in state_dict.items() if key.removeprefix(prefix) not in self._kept}
        super()._load_from_state_dict(others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for name, value in self._kept.items():
            found = state_dict.get(prefix + name)
            if found is None:
                if strict:
                    missing_keys.append(prefix + name)
            elif not isinstance(found, torch.Tensor) or found.shape != value.shape:
                shown = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
                error_msgs.append(
                    f"{prefix}{name} must have shape {tuple(value.shape)}, got {shown}: the state of another data set"
                )
            else:
                self._kept[name] = found.detach().to(dtype=value.dtype, device=value.device, copy=True)
