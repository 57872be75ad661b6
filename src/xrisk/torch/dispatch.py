"""Functions that pick their implementation by the type of their first argument, also inside ``torch.compile``."""

import functools
from collections.abc import Callable
from typing import Any


def by_type(stub: Callable) -> Any:
    """Turn an empty ``stub`` into such a function; ``.of(Type)`` implements it, ``.otherwise`` for all other types."""
    table: dict[type, Callable] = {}
    default: list[Callable] = []

    @functools.wraps(stub)
    def function(spec: Any, *arguments: Any) -> Any:
        if type(spec) in table:
            return table[type(spec)](spec, *arguments)
        if default:
            return default[0](spec, *arguments)
        raise TypeError(f"xrisk.torch has no {stub.__name__} for {type(spec).__name__}: see {stub.__name__}.of")

    def of(cls: type) -> Callable[[Callable], Callable]:
        def implement(found: Callable) -> Callable:
            table[cls] = found
            return found

        return implement

    def otherwise(found: Callable) -> Callable:
        default[:] = [found]
        return found

    function.of, function.otherwise, function.table = of, otherwise, table  # type: ignore[attr-defined]
    return function
