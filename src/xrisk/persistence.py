"""Fitted models as files: arrays and JSON in one file, versioned; reading one never executes code from it.

The format, version 1
---------------------
A zip archive whose members are stored, not compressed: what a member claims to hold is then no more than the file
itself holds. It has a member ``header.json`` and members ``0.npy``, ``1.npy``, … (NumPy's format 1.0: numbers, text
and dates, never objects), and no others. The header is one JSON object:

========== ==========================================================================================
format     ``"xrisk model"``
version    1; a reader refuses a version above its own
written_by version of xrisk, for the curious
arrays     how many ``.npy`` members there are
model      an estimator, encoded as below
========== ==========================================================================================

Null, true, false, text, whole numbers, finite numbers and lists stand for themselves. Anything else is an object with
one key, which says what it is:

============== ======================================================================================
float          ``"nan"``, ``"inf"`` or ``"-inf"``
tuple          list of entries
dict           list of pairs of key and value
scalar         [type, value]: a NumPy scalar, the type as NumPy calls it
array          k: the array in ``k.npy``
objects        [shape, entries]: an array of Python objects, row by row
enum           [class, member]
spec           [class, {field: value}]: a NamedTuple or dataclass
estimator      [class, {parameter: value}, {fitted attribute: value}]
============== ======================================================================================

Classes are named, and only those on a list are built: the estimators and specs that this package shows to its users,
and the classes that `savable` has added. Fitted attributes are the attributes that end in ``_``; requests for metadata
and the configuration of outputs are not part of a file.
"""

import inspect
import json
import math
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import xrisk
from xrisk.annotations import Estimator
from xrisk.files import ARRAY_KINDS, UnreadableError, read_array, read_json, read_members, refuse, write_archive
from xrisk.registry import (
    fields_of,
    is_enum,
    is_estimator,
    is_fitted_name,
    is_listed,
    is_of_known_kind,
    is_spec,
    listed,
    savable,
)

__all__ = ["UnreadableError", "load", "savable", "save"]

FORMAT, VERSION = "xrisk model", 1
DEPTH = 50  # of values inside values
SPECS = ("xrisk.functions", "xrisk.inner", "xrisk.run", "xrisk.solvers", "xrisk.certificate")
MODELS = ("xrisk.estimators", "xrisk.tables")  # they take longer to import: only before a model is saved or loaded
SCALARS: dict[str, type] = {
    kind.__name__: kind
    for kind in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
} | {kind.__name__: kind for kind in (np.float16, np.float32, np.float64, np.str_)}


def save(estimator: Estimator, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not, so that `load` gives it back exactly.

    The file is written next to ``path`` and moved there when it is complete: a crash leaves the old file or the new
    one, never a part.

    Parameters
    ----------
    estimator : estimator
        Of a class of this package, or of one that is `savable`.
    path : str or Path
        The file; an older one there is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from xrisk.functions import CVaRRisk
    >>> from xrisk.persistence import load, savable, save
    >>> @savable
    ... class Average(BaseEstimator):
    ...     def __init__(self, divergence=None):
    ...         self.divergence = divergence
    ...
    ...     def fit(self, X, y=None):
    ...         self.mean_ = np.mean(X, axis=0)
    ...         return self
    >>> model = Average(CVaRRisk(0.2)).fit([[1.0, 2.0], [3.0, 4.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model.xrisk")
    ...     loaded = load(Path(folder) / "model.xrisk")
    >>> loaded, loaded.mean_
    (Average(divergence=CVaRRisk(alpha=0.2)), array([2., 3.]))
    """
    _list_ours(MODELS)
    if not is_listed(type(estimator)) or not is_estimator(type(estimator)):
        raise TypeError(
            f"estimator must be of a class that xrisk.persistence.savable knows, got {type(estimator).__name__}"
        )
    arrays: list[np.ndarray] = []
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": xrisk.__version__,
        "model": _encode(estimator, arrays, type(estimator).__name__, DEPTH),
        "arrays": len(arrays),
    }
    text = json.dumps(header, allow_nan=False).encode()
    write_archive(path, text, {str(k): array for k, array in enumerate(arrays)})


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    estimator

    Raises
    ------
    UnreadableError
        A ``ValueError``: the file is cut, damaged, hostile, written by a newer version, or no model.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UnreadableError(f"path must be a file written by xrisk.save, {path} is a directory or a device")
    return _loaded(path.read_bytes(), str(path))


def _loaded(content: bytes, name: str) -> Any:
    _list_ours(MODELS)
    try:
        return _read(content)
    except UnreadableError as error:
        raise UnreadableError(f"{name} cannot be loaded: {error}") from error
    except Exception as error:  # whatever a parser of foreign bytes may stumble over
        raise UnreadableError(f"{name} cannot be loaded: it is damaged, or was not written by xrisk.save") from error


def _list_ours(modules: tuple[str, ...]) -> None:
    """Put the classes that modules of this package show to its users on the list."""
    for value in (value for name in modules for value in vars(import_module(name)).values()):
        if isinstance(value, type) and value.__module__.startswith("xrisk.") and is_of_known_kind(value):
            savable(value)


_list_ours(SPECS)


def _encode(value: Any, arrays: list[np.ndarray], where: str, depth: int) -> Any:
    """The JSON form of ``value``; arrays are collected. ``where`` names it in the error when it has none."""
    if depth == 0:
        raise TypeError(f"{where} cannot be saved: it is nested too deeply")

    def inside(entry: Any, at: str = where) -> Any:
        return _encode(entry, arrays, at, depth - 1)

    cls = type(value)
    if value is None or cls in (bool, int, str) or (cls is float and math.isfinite(value)):
        return value
    if cls is float:
        return {"float": str(value)}
    if cls is list:
        return [inside(entry) for entry in value]
    if cls is tuple:
        return {"tuple": [inside(entry) for entry in value]}
    if cls is dict:
        return {"dict": [[inside(key), inside(entry)] for key, entry in value.items()]}
    if SCALARS.get(cls.__name__) is cls:
        return {"scalar": [cls.__name__, inside(value.item())]}
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where, inside)
    if is_listed(cls):
        return _encode_listed(value, where, inside)
    seed = " (give a seed, an integer)" if isinstance(value, np.random.Generator | np.random.RandomState) else ""
    raise TypeError(f"{where} cannot be saved: its type {cls.__name__} has no place in the format{seed}")


def _encode_listed(value: Any, where: str, inside: Callable[..., Any]) -> dict[str, Any]:
    cls = type(value)

    def encoded(entries: dict[str, Any]) -> dict[str, Any]:
        return {name: inside(entry, f"{where}.{name}") for name, entry in entries.items()}

    if is_enum(cls):
        return {"enum": [cls.__name__, value.name]}
    if is_spec(cls):
        return {"spec": [cls.__name__, encoded(fields_of(value))]}
    params = value.get_params(deep=False)
    fitted = {name: entry for name, entry in vars(value).items() if name not in params and is_fitted_name(cls, name)}
    return {"estimator": [cls.__name__, encoded(params), encoded(fitted)]}


def _encode_array(
    value: np.ndarray, arrays: list[np.ndarray], where: str, inside: Callable[..., Any]
) -> dict[str, Any]:
    if type(value) not in (np.ndarray, np.memmap):
        raise TypeError(f"{where} cannot be saved: it is a {type(value).__name__}, not a plain array")
    if value.dtype.kind == "O":
        return {"objects": [list(value.shape), [inside(entry) for entry in value.flat]]}
    if value.dtype.kind not in ARRAY_KINDS or value.dtype.itemsize == 0:
        raise TypeError(f"{where} cannot be saved: arrays of {value.dtype} have no place in the format")
    arrays.append(value)
    return {"array": len(arrays) - 1}


def _read(content: bytes) -> Any:
    if not content:
        refuse("it is empty")
    members = read_members(content)
    if "header.json" not in members:
        refuse("it is no model written by xrisk.save, it has no header")
    header = read_json(members.pop("header.json"))
    if type(header) is not dict or header.get("format") != FORMAT:
        refuse("it is no model written by xrisk.save")
    if type(header["version"]) is not int or header["version"] < 1:
        refuse(f"its format has the version {header['version']!r}")
    if header["version"] > VERSION:
        refuse(f"it was written by a newer xrisk, in format {header['version']}, this one reads up to {VERSION}")
    if type(header["arrays"]) is not int or set(members) != {f"{k}.npy" for k in range(len(members))}:
        refuse("it has members that are no part of the format")
    if header["arrays"] != len(members):
        refuse(f"it must have {header['arrays']} arrays, it has {len(members)}")
    arrays = [read_array(members[f"{k}.npy"]) for k in range(len(members))]
    if type(header["model"]) is not dict or set(header["model"]) != {"estimator"}:
        refuse("it holds something other than an estimator")
    return _decode(header["model"], arrays, DEPTH)


def _decode(value: Any, arrays: list[np.ndarray], depth: int) -> Any:
    """The value of a JSON form."""
    if depth == 0:
        refuse("its header is nested too deeply")

    def inside(entry: Any) -> Any:
        return _decode(entry, arrays, depth - 1)

    if type(value) is list:
        return [inside(entry) for entry in value]
    if type(value) is not dict:
        return value
    (kind, body), *more = value.items()
    if kind == "array" and not more:
        return arrays[_count(body)]
    if more or kind not in _DECODERS:
        refuse(f"its header holds a value of the unknown kind {kind!r}")
    return _DECODERS[kind](body, inside)


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        refuse(f"its header has {number!r} where a count should be")
    return number


def _decode_float(body: Any, inside: Callable[[Any], Any]) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body]


def _decode_scalar(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, value = body
    value = inside(value)
    if name not in SCALARS or type(value) not in (bool, int, float, str):
        refuse(f"its header has a scalar of the unknown type {name!r}")
    return SCALARS[name](value)


def _decode_objects(body: Any, inside: Callable[[Any], Any]) -> np.ndarray:
    shape, entries = body
    if math.prod(_count(length) for length in shape) != len(entries):
        refuse("the shape of one of its arrays does not go with its size")
    array = np.empty(shape, dtype=object)
    for position, entry in enumerate(entries):
        array.flat[position] = inside(entry)
    return array


def _listed(name: Any, is_right: Callable[[type], bool]) -> type:
    cls = listed(name)
    if cls is None or not is_right(cls):
        refuse(f"it holds a {name!r}, a class that is not on the list of xrisk.persistence.savable")
    return cls


def _decode_enum(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, member = body
    cls: Any = _listed(name, is_enum)
    return cls[member]


def _decode_spec(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, fields = body
    cls = _listed(name, is_spec)
    return _checked(_built(cls, {field: inside(value) for field, value in fields.items()}))


def _decode_estimator(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, params, fitted = body
    cls = _listed(name, is_estimator)
    estimator = _built(cls, {param: inside(value) for param, value in params.items()})
    for attribute, value in fitted.items():
        if not is_fitted_name(cls, attribute):
            refuse(f"{attribute!r} cannot be a fitted attribute of {name}")
        setattr(estimator, attribute, inside(value))
    return _checked(estimator)


def _built(cls: type, values: dict[str, Any]) -> Any:
    unknown = set(values) - set(inspect.signature(cls).parameters)
    if unknown:
        refuse(f"{cls.__name__} has no {sorted(unknown)[0]!r} in this version of xrisk")
    return cls(**values)


def _checked(built: Any) -> Any:
    """What was built, once its own ``check`` accepts it; classes without one accept all values."""
    if hasattr(built, "check"):
        try:
            built.check()
        except (TypeError, ValueError) as error:
            refuse(" ".join(str(error).split()))
    return built


_DECODERS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "float": _decode_float,
    "tuple": lambda body, inside: tuple(inside(list(body))),
    "dict": lambda body, inside: {inside(key): inside(value) for key, value in body},
    "scalar": _decode_scalar,
    "objects": _decode_objects,
    "enum": _decode_enum,
    "spec": _decode_spec,
    "estimator": _decode_estimator,
}
