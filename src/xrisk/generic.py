"""Functions that pick their implementation by the type of their first argument, in Python and in kernels alike."""

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

# every option that Numba would otherwise hand down from whoever happens to be the first to call a function
STRICT: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
INLINED: Any = {**STRICT, "forceinline": True}


class Registration(NamedTuple):
    """That an implementation exists; where it stands decides whether machine code on disk is still right."""

    verb: str  # module of the generic function
    cls: type | None  # None: for every class that has none of its own
    homes: frozenset[str]  # modules of the implementation and of whoever registered it


REGISTRATIONS: list[Registration] = []


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
    by_default: set[type] = set()  # classes for which kernels were compiled with the default

    def implementation(cls: type | None) -> Callable | None:
        return table.get(cls, default[0] if default else None)  # type: ignore[arg-type]

    @functools.wraps(stub)
    def function(spec: Any, *args: Any) -> Any:
        found = implementation(type(spec))
        if found is None:
            raise TypeError(f"{stub.__name__} is not implemented for {type(spec).__name__}")
        return found(spec, *args)

    # implementations name their own parameters; inlined, they need not count references to the arrays of a spec
    @overload(function, strict=False, jit_options=INLINED)
    def compiled(spec, *args):
        # a plain number is a spec too: a constant step size
        cls = getattr(spec, "instance_class", float if spec is types.float64 else None)
        if default and cls not in table:
            by_default.add(cls)
        return implementation(cls)

    def of(cls: type) -> Callable[[Callable], Callable]:
        def implement(found: Callable) -> Callable:
            if cls in table:  # a kernel compiled meanwhile would keep the first one
                raise TypeError(f"{stub.__name__} is already implemented for {cls.__name__}")
            if cls in by_default:
                raise TypeError(
                    f"{stub.__name__} must be implemented for {cls.__name__} before a kernel is compiled for it"
                )
            table[cls] = found
            REGISTRATIONS.append(Registration(stub.__module__, cls, _homes(found)))
            return found

        return implement

    def otherwise(found: Callable) -> Callable:
        if default:
            raise TypeError(f"{stub.__name__} already has a default implementation")
        default.append(found)
        REGISTRATIONS.append(Registration(stub.__module__, None, _homes(found)))
        return found

    def implemented(spec: Any) -> bool:
        return implementation(type(spec)) is not None

    function.of, function.otherwise = of, otherwise  # type: ignore[attr-defined]
    function.implemented, function.table = implemented, table  # type: ignore[attr-defined]
    return function


def _homes(found: Callable) -> frozenset[str]:
    """The module of an implementation, that which registers it, and those of the functions it does so through."""
    homes, frame = {found.__module__}, sys._getframe(2)
    while frame is not None:
        homes.add(frame.f_globals.get("__name__", ""))
        frame = None if frame.f_code.co_name == "<module>" else frame.f_back  # type: ignore[assignment]
    return frozenset(homes)
