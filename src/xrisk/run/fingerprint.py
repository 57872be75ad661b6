"""A digest that identifies specs, arrays and functions."""

import dis
import functools
import hashlib
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

CHUNK = 1 << 17  # entries of an array that does not lie in one piece, copied at a time
MADE_OF_PARTS = (tuple, list, dict, set, frozenset, types.FunctionType, types.MethodType, functools.partial)
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})

Known = dict[int, tuple[Any, bytes]]  # by identity: the object, which must stay alive, and its digest


def fingerprint(*values: Any) -> str:
    """Digest of values: types and numbers of specs, every entry of arrays, what functions do and what they refer to.

    A function is identified by its code, its defaults, and the values in its closure and its globals; functions of
    installed packages, and modules, by their names.

    Examples
    --------
    >>> from xrisk.run.fingerprint import fingerprint
    >>> fingerprint(lambda w: w + 1) == fingerprint(lambda w: w + 1)
    True
    >>> fingerprint(lambda w: w + 1) == fingerprint(lambda w: w + 2)
    False
    """
    return _digest(values, {}).hex()


def _digest(value: Any, known: Known) -> bytes:
    """Digest of a composite value; a value inside itself, as functions and objects can be, does not count."""
    if id(value) not in known:
        known[id(value)] = (value, b"")
        parts = tuple(_parts(value))
        digest = hashlib.sha256(_text(f"{type(value).__name__}{len(parts)}"))
        for part in parts:
            for mark in _marks(part, known):
                digest.update(mark)
        known[id(value)] = (value, digest.digest())
    return known[id(value)][1]


def _marks(value: Any, known: Known) -> Iterator[Any]:
    """The bytes that identify a value."""
    value = getattr(value, "py_func", value)  # of a compiled function
    if isinstance(value, np.ndarray):
        yield from _of_array(value, known)
    elif isinstance(value, MADE_OF_PARTS) or _is_plain_object(value):
        yield _digest(value, known)
    elif hasattr(value, "__name__"):  # a class, a module, a function that is not written in Python
        yield _text(f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value.__name__)}")
    else:
        yield _text(f"{type(value).__name__} {value!r}")


def _text(text: str) -> bytes:
    return f"{len(text)}:{text}".encode()


def _of_array(value: np.ndarray, known: Known) -> Iterator[Any]:
    yield _text(f"{value.dtype}{value.shape}")
    if value.dtype.hasobject:
        yield from _marks(value.tolist(), known)
    elif value.flags.c_contiguous and value.size:
        yield value.reshape(-1).view(np.uint8).data
    elif value.size:
        for part in np.nditer(value, flags=["external_loop", "buffered"], order="C", buffersize=CHUNK):
            yield np.ascontiguousarray(part).view(np.uint8).data


def _parts(value: Any) -> Any:
    if isinstance(value, types.FunctionType):
        name = (value.__module__, value.__qualname__)
        return name if _is_installed(value) else (*name[1:], _code(value.__code__), *_outside(value))
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, tuple | list):
        return value
    return type(value).__call__ if callable(value) else None, vars(value)


def _is_plain_object(value: Any) -> bool:
    """Whether a value is identified by its attributes: it is callable, or its repr is only an address."""
    if hasattr(value, "__name__") or not hasattr(value, "__dict__"):
        return False
    return callable(value) or type(value).__repr__ is object.__repr__


def _is_installed(function: types.FunctionType) -> bool:
    file, ours = (
        function.__code__.co_filename,
        (function.__module__ or "").startswith(__package__.partition(".")[0] + "."),
    )
    return not file.startswith("<") and (ours or file.startswith(INSTALLED))  # what is typed in has no file


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = tuple(_code(each) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _outside(function: types.FunctionType) -> tuple[Any, ...]:
    """Defaults, closure, and the globals that the function uses."""
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    names = sorted(set(_global_names(function.__code__)) & function.__globals__.keys())
    found = tuple((name, function.__globals__[name]) for name in names)
    return function.__defaults__, function.__kwdefaults__, cells, found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
