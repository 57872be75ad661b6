"""The ``kernel`` decorator, its cache on disk, and the private copies that foreign specs get."""

import functools
import glob
import hashlib
import numbers
import os
import pickle
import types as python_types
import typing
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, serialize
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

# a loop of products whose sum may be reordered, which is what lets it use vector registers; infinities and NaN
# keep their meaning. Not for formulas: reordering would undo their care about cancellation.
dot_loop = njit(error_model="numpy", fastmath={"reassoc", "contract"})


CACHE_LINE, FETCHED = 64, 2048  # bytes; of a longer row the beginning is asked for, the processor sees the rest coming


def prefetch(X, k):
    """Ask for row k of a matrix before it is read, without waiting for it; nothing happens outside kernels."""


@overload(prefetch)
def _prefetch(X, k):
    step, most = CACHE_LINE // (X.dtype.bitwidth // 8), FETCHED // (X.dtype.bitwidth // 8)

    def lines(X, k):
        for j in range(0, min(X.shape[1], most), step):
            _prefetch_line(X, k, j)

    return lines


@intrinsic
def _prefetch_line(typing_context, X, k, j):
    def generate(context, builder, signature, arguments):
        array = make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], array, arguments[1:])
        place = builder.bitcast(place, cgutils.voidptr_t)
        flag = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        asked = builder.module.declare_intrinsic("llvm.prefetch", [place.type], shape)
        builder.call(asked, [place, flag(0), flag(3), flag(1)])  # to read, into the nearest cache, of data
        return context.get_dummy_value()

    return types.void(X, types.intp, types.intp), generate


def kernel(function: Callable) -> Any:
    """Compile ``function`` on first use and keep the machine code on disk.

    Numba notices edits to the file of a kernel, not to the files of what it calls. Our cache is stamped with a
    digest of all sources of the package as well: after an upgrade or an edit nothing stale is run.
    """
    try:
        compiled = njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # no file to keep the code beside: typed at a prompt, or a disk that cannot be written
        return njit(error_model="numpy")(function)
    if isinstance(compiled, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is the plain function
        cache: Any = compiled._cache  # type: ignore[attr-defined]
        cache._cache_file = MachineCode(cache)
    return compiled


class MachineCode:
    """Files of machine code, one per kernel and signature, in the folder Numba chose.

    Stands in for Numba's own index, in which two processes that compile at once can exchange their entries:
    the name of a file here says what is in it.
    """

    def __init__(self, cache: Any) -> None:
        stamp = repr((source_digest(), cache._impl.locator.get_source_stamp(), numba.__version__))
        self._folder = Path(cache._cache_path)
        self._base = cache._impl.filename_base
        self._stamp = hashlib.sha256(stamp.encode()).hexdigest()[:16]

    def save(self, key: Any, data: Any) -> None:
        path = self._path(key)
        scratch = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        scratch.write_bytes(serialize.dumps(data))
        os.replace(scratch, path)
        for stale in self._folder.glob(f"{glob.escape(self._base)}.*.nbc"):
            if not stale.name.startswith(f"{self._base}.{self._stamp}."):
                stale.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        try:
            return pickle.loads(self._path(key).read_bytes())
        except OSError:
            return None

    def flush(self) -> None:
        for path in self._folder.glob(f"{glob.escape(self._base)}.*.nbc"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return self._folder / f"{self._base}.{self._stamp}.{digest}.nbc"


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


def worthwhile(compiled: Any, size: int, *specs: Any) -> Any:
    """What runs ``specs`` over ``size`` values: compiled where there are enough to win back the time of compiling."""
    return specialise(compiled, *specs) if size > 500 else getattr(compiled, "py_func", compiled)


def canonical(spec: Any) -> Any:
    """The same spec with ``float`` where a field says so: any other number there would compile a kernel once more.

    Examples
    --------
    >>> from xrisk.compile import canonical
    >>> from xrisk.functions import L2
    >>> canonical(L2(1))
    L2(l2=1.0)
    """
    if not _is_spec(spec):
        return spec
    hints = _float_fields(type(spec))  # type: ignore[arg-type]
    return spec._replace(
        **{
            name: float(value) if name in hints and isinstance(value, numbers.Real) else canonical(value)
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
