"""The ``kernel`` decorator, its cache on disk, and the private copies that foreign specs get."""

import contextlib
import functools
import glob
import hashlib
import numbers
import os
import pickle
import time
import types as python_types
import typing
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, event, serialize
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array

from xrisk.generic import INLINED, STRICT
from xrisk.sources import digest_of, snapshot

VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__)
_plain: ContextVar[bool] = ContextVar("plain", default=False)
snapshot()  # before any kernel is imported: an edit from here on is not what this process runs

# what the inner loops of kernels call: not inlined, it would count references to its arrays at every call
inlined = njit(**INLINED)


CACHE_LINE, FETCHED = 64, 2048  # bytes; of a longer row the beginning is asked for, the processor sees the rest coming


def prefetch(X, k):
    """Ask for row k of a matrix before it is read, without waiting for it; nothing happens outside kernels."""


@overload(prefetch)
def _prefetch(X, k):
    step, most = CACHE_LINE // (X.dtype.bitwidth // 8), FETCHED // (X.dtype.bitwidth // 8)

    def lines(X, k):
        last = min(X.shape[1], most) - 1
        for j in range(0, last, step):
            _prefetch_line(X, k, j)
        _prefetch_line(X, k, last)  # rows need not begin where a line does

    return lines


@intrinsic
def _prefetch_line(typing_context, X, k, j):
    def generate(context, builder, signature, arguments):
        array = make_array(signature.args[0])(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, signature.args[0], array, arguments[1:])
        place = builder.bitcast(place, cgutils.voidptr_t)
        flag = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        intrinsic = builder.module.declare_intrinsic("llvm.prefetch", [place.type], shape)
        builder.call(intrinsic, [place, flag(0), flag(3), flag(1)])  # to read, into the nearest cache, of data
        return context.get_dummy_value()

    return types.void(X, types.intp, types.intp), generate


class Compiling(event.Listener):
    """How long this process has been compiling kernels."""

    def __init__(self) -> None:
        self._known = (0, 0.0, 0.0)  # depth, since when, seconds before: one tuple, for other threads read it

    def on_start(self, event: Any) -> None:
        depth, since, before = self._known
        self._known = (depth + 1, since if depth else time.perf_counter(), before)

    def on_end(self, event: Any) -> None:
        depth, since, before = self._known
        self._known = (depth - 1, since, before) if depth > 1 else (0, 0.0, self.seconds())

    def seconds(self) -> float:
        """So far; what is being compiled now is included."""
        depth, since, before = self._known
        return before + (time.perf_counter() - since if depth else 0.0)


compiling = Compiling()
event.register("numba:compile", compiling)  # Numba compiles one kernel at a time


def kernel(function: Callable) -> Any:
    """Compile ``function`` on first use; machine code of the package's own kernels is kept on disk.

    Numba notices edits to the file of a kernel, not to the files of what it calls. Our files are stamped with a
    digest of all that the kernel can call (`xrisk.sources`): after an upgrade or an edit nothing stale is run, and
    what the edit cannot reach is not compiled anew.
    """
    compiled = njit(**STRICT, forceinline=False, nogil=True)(function)
    ours = function.__module__.startswith(__package__ + ".")
    if ours and isinstance(compiled, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is the plain function
        with contextlib.suppress(RuntimeError):  # no folder that can be written
            compiled._cache = MachineCode(function)  # type: ignore[attr-defined]
    return compiled


class MachineCode(FunctionCache):
    """Numba's cache with files of our own, and without a cache rather than an error where they cannot be written."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        self._cache_file = Files(Path(self._cache_path), self._impl.filename_base, function.__module__)

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


class Files(NamedTuple):
    """Files of machine code, one per kernel and signature.

    Stands in for Numba's own index, in which two processes that compile at once can exchange their entries:
    the name of a file here says what is in it. A file begins with a digest of the rest; what does not agree with it
    is damaged, and never unpickled.
    """

    folder: Path
    base: str
    module: str

    def save(self, key: Any, data: Any) -> None:
        path = self._path(key)
        if path is None:
            return
        payload = serialize.dumps(data)
        scratch = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            scratch.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
        for other in self.folder.glob(f"{glob.escape(self._prefix(key))}.*"):
            if other.name != path.name and other.suffix == ".nbc":
                other.unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        path = self._path(key)
        try:
            content = b"" if path is None else path.read_bytes()
        except OSError:
            return None
        digest, payload = content[:32], content[32:]
        return pickle.loads(payload) if payload and hashlib.sha256(payload).digest() == digest else None

    def flush(self) -> None:
        for path in self.folder.glob(f"{glob.escape(self.base)}.*.nbc"):
            path.unlink(missing_ok=True)

    def _prefix(self, key: Any) -> str:
        """What the successors of a file share with it: kernel, signature and machine."""
        signature, machine, _ = key
        return f"{self.base}.{_short(repr((signature, machine)))}"

    def _path(self, key: Any) -> Path | None:
        kinds = list(_kinds(*key[0]))
        if any(isinstance(kind, types.Callable) for kind in kinds):  # a function is a stranger to the digest
            return None
        sources = digest_of(self.module, {kind.instance_class for kind in kinds if hasattr(kind, "instance_class")})
        if sources is None:
            return None
        return self.folder / f"{self._prefix(key)}.{_short(repr((sources, key[2], VERSIONS)))}.nbc"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _kinds(*found: Any) -> Iterator[Any]:
    """Every type inside Numba's types, themselves included."""
    for kind in found:
        yield kind
        inside = (getattr(kind, name) for name in ("dtype", "type") if hasattr(kind, name))  # of a list, an optional
        yield from _kinds(*getattr(kind, "types", ()), *inside)


def specialise(compiled: Any, *specs: Any) -> Any:
    """Return what runs ``specs``: the cached kernel, a private copy of it, or its plain Python function.

    Numba tells NamedTuples apart by name and fields only, so two specs of one name would share the first one's
    code. Built-in specs have unique names; specs from elsewhere (a script, a notebook cell run twice) get a copy
    of the kernel of their own. Specs that hold Python functions cannot be compiled: they run uncompiled, as everything
    does inside `uncompiled`.
    """
    python = getattr(compiled, "py_func", compiled)
    if _plain.get() or any(_holds_functions(spec) for spec in specs):
        return python
    classes = frozenset(_classes(specs))
    ours = all(cls.__module__.startswith(__package__ + ".") for cls in classes)
    return compiled if ours else _private(python, classes)


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Run kernels as the plain Python they are written in: for breakpoints, and for short runs.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.compile import uncompiled
    >>> problem = xrisk.applications.hard_smooth(4).problem
    >>> with uncompiled():
    ...     result = xrisk.minimize(problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=3), rng=0)
    >>> result.progress.iterations
    3
    """
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


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
    return njit(**STRICT, forceinline=False, nogil=True)(python)
