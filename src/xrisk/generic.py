"""Functions that pick their implementation by the type of their first argument, in Python and in kernels alike."""

import functools
from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload


def generic(stub: Callable) -> Any:
    """Turn an empty ``stub`` into a generic function; ``@function.of(Type)`` implements it.

    ``@function.otherwise`` gives the implementation for every type that has none of its own. The table of
    implementations is ``function.table``. A compiled kernel that calls the function resolves it while
    compiling, so a call costs nothing at run time.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from xrisk.generic import generic
    >>> @generic
    ... def area(shape):
    ...     '''Area of a shape.'''
    >>> class Square(NamedTuple):
    ...     side: float = 1.0
    >>> @area.of(Square)
    ... def _(shape):
    ...     return shape.side**2
    >>> area(Square(3.0))
    9.0
    """
    table: dict[type, Callable] = {}
    default: list[Callable] = []

    def implementation(cls: type | None) -> Callable | None:
        return table.get(cls, default[0] if default else None)  # type: ignore[arg-type]

    @functools.wraps(stub)
    def function(spec: Any, *args: Any) -> Any:
        found = implementation(type(spec))
        if found is None:
            raise TypeError(f"{stub.__name__} is not implemented for {type(spec).__name__}")
        return found(spec, *args)

    # implementations name their own parameters; inlined, they need not count references to the arrays of a spec
    @overload(function, strict=False, jit_options={"forceinline": True})
    def compiled(spec, *args):
        # a plain number is a spec too: a constant step size
        return implementation(getattr(spec, "instance_class", float if spec is types.float64 else None))

    def of(cls: type) -> Callable[[Callable], Callable]:
        def implement(found: Callable) -> Callable:
            if cls in table:  # a kernel compiled meanwhile would keep the first one
                raise TypeError(f"{stub.__name__} is already implemented for {cls.__name__}")
            table[cls] = found
            return found

        return implement

    def otherwise(found: Callable) -> Callable:
        if default:
            raise TypeError(f"{stub.__name__} already has a default implementation")
        default.append(found)
        return found

    def implemented(spec: Any) -> bool:
        return implementation(type(spec)) is not None

    function.of, function.otherwise = of, otherwise  # type: ignore[attr-defined]
    function.implemented, function.table = implemented, table  # type: ignore[attr-defined]
    return function
