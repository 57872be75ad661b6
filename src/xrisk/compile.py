"""The ``kernel`` decorator, its cache on disk, and the private copies that foreign specs get."""

import functools
import hashlib
import types as python_types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

# a loop of products whose sum may be reordered, which is what lets it use vector registers; infinities and NaN
# keep their meaning. Not for formulas: reordering would undo their care about cancellation.
dot_loop = njit(error_model="numpy", fastmath={"reassoc", "contract"})


def kernel(function: Callable) -> Any:
    """Compile ``function`` on first use and keep the machine code on disk.

    Numba notices edits to the file of a kernel, not to the files of what it calls. The stamp of our cache is
    therefore a digest of all sources of the package: after an upgrade or an edit nothing stale is run.
    """
    compiled = njit(cache=True, error_model="numpy")(function)
    if isinstance(compiled, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is the plain function
        cache = compiled._cache
        cache._cache_file = IndexDataCacheFile(
            cache_path=cache._cache_path, filename_base=cache._impl.filename_base, source_stamp=source_digest()
        )
    return compiled


@functools.cache
def source_digest() -> str:
    """Digest of every source file of the package."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def specialise(compiled: Any, *specs: Any) -> Any:
    """Return what runs ``specs``: the cached kernel, a private copy of it, or its plain Python function.

    Numba tells NamedTuples apart by name and fields only, so two specs of one name would share the first one's
    code. Built-in specs have unique names; specs from elsewhere (a script, a notebook cell run twice) get a copy
    of the kernel of their own. Specs that hold Python functions cannot be compiled: they run uncompiled.
    """
    python = getattr(compiled, "py_func", compiled)
    if any(_holds_functions(spec) for spec in specs):
        return python
    classes = frozenset(_classes(specs))
    ours = all(cls.__module__.startswith(__package__ + ".") for cls in classes)
    return compiled if ours else _private(python, classes)


def canonical(spec: Any) -> Any:
    """The same spec with ``float`` where a field says so: an ``int`` there would compile a kernel once more.

    Examples
    --------
    >>> from xrisk.compile import canonical
    >>> from xrisk.functions import L2
    >>> canonical(L2(1))
    L2(l2=1.0)
    """
    if not _is_spec(spec):
        return spec
    hints = _float_fields(type(spec))
    return spec._replace(
        **{
            name: float(value) if name in hints and isinstance(value, int) else canonical(value)
            for name, value in zip(spec._fields, spec, strict=True)
        }
    )


def walk(*specs: Any) -> Iterator[Any]:
    """Every spec inside ``specs``, themselves included."""
    for spec in specs:
        if _is_spec(spec):
            yield spec
            yield from walk(*spec)


def _is_spec(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _classes(specs: Any) -> Iterator[type]:
    return (type(spec) for spec in walk(*specs))


def _holds_functions(spec: Any) -> bool:
    return any(callable(field) for found in walk(spec) for field in found)


@functools.cache
def _float_fields(cls: type) -> frozenset[str]:
    hints = typing.get_type_hints(cls)
    return frozenset(
        name
        for name, hint in hints.items()
        if hint is float or (isinstance(hint, python_types.UnionType) and float in typing.get_args(hint))
    )


@functools.cache
def _private(python: Callable, classes: frozenset[type]) -> Any:
    return njit(error_model="numpy")(python)
