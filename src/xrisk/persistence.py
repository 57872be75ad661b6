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

Classes are named, and only those on a list are built: the specs of this package and the classes that `savable` has
put there. Fitted attributes are the attributes that end in ``_``; requests for metadata and the configuration of
outputs are not part of a file.
"""

import dataclasses
import enum
import inspect
import io
import json
import math
import os
import uuid
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

import xrisk
from xrisk import functions, inner, run, solvers
from xrisk.certificate import Certificate

FORMAT, VERSION = "xrisk model", 1
DEPTH = 50  # of values inside values
NUMBERS_AND_TEXT = "biufcSUmM"  # kinds of arrays in members
SCALARS: dict[str, type] = {
    kind.__name__: kind
    for kind in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
} | {kind.__name__: kind for kind in (np.float16, np.float32, np.float64, np.str_)}

Class = TypeVar("Class", bound=type)


class UnreadableError(ValueError):
    """A file that is damaged, hostile, too new, or no model at all."""


def savable(cls: Class) -> Class:
    """Put a class on the list of those that `save` and `load` know, by its name; a decorator.

    Parameters
    ----------
    cls : class
        An estimator that follows scikit-learn's conventions, or a NamedTuple, dataclass or enum that is the value of
        a parameter or of a fitted attribute.
    """
    if not (hasattr(cls, "get_params") or _is_spec(cls) or issubclass(cls, enum.Enum)):
        raise TypeError(f"cls must be an estimator, a NamedTuple, a dataclass or an enum, got {cls.__name__}")
    known = _classes.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"the name {cls.__name__} is taken by {known.__module__}.{known.__qualname__}")
    _classes[cls.__name__] = cls  # a cell of a notebook run twice makes a new class
    return cls


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not, so that `load` gives it back exactly.

    The file is written beside ``path`` and moved there when it is complete: a crash leaves the old file or the new
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
    ...     again = load(Path(folder) / "model.xrisk")
    >>> again, again.mean_
    (Average(divergence=CVaRRisk(alpha=0.2)), array([2., 3.]))
    """
    if not _is_listed(type(estimator)) or not hasattr(estimator, "get_params"):
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
    target = Path(path).resolve()
    if target.is_dir():
        raise ValueError(f"path must be a file, {path} is a directory")
    scratch = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with open(scratch, "xb") as file:
            _write_members(file, text, arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


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
    try:
        return _read(content)
    except UnreadableError as error:
        raise UnreadableError(f"{name} cannot be loaded: {error}") from error
    except Exception as error:  # whatever a parser of foreign bytes may stumble over
        raise UnreadableError(f"{name} cannot be loaded: it is damaged, or was not written by xrisk.save") from error


def _is_spec(cls: type) -> bool:
    return (issubclass(cls, tuple) and hasattr(cls, "_fields")) or dataclasses.is_dataclass(cls)


def _package_specs() -> dict[str, type]:
    """NamedTuples, dataclasses and enums that the package shows to its users."""
    shown = [value for module in (functions, inner, run, solvers) for value in vars(module).values()]
    classes = [
        value for value in (*shown, Certificate) if isinstance(value, type) and value.__module__.startswith("xrisk.")
    ]
    return {cls.__name__: cls for cls in classes if _is_spec(cls) or issubclass(cls, enum.Enum)}


_classes: dict[str, type] = _package_specs()


def _is_listed(cls: type) -> bool:
    return _classes.get(cls.__name__) is cls


def _fields(spec: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(spec):
        return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec) if field.init}
    return spec._asdict()


def _is_fitted_name(cls: type, name: str) -> bool:
    """Whether ``name`` is that of a fitted attribute, and setting it would replace no method or property."""
    static = inspect.getattr_static(cls, name, None)
    plain = not callable(static) and not hasattr(static, "__get__")
    return name.isidentifier() and name.endswith("_") and not name.startswith("__") and plain


def _encode(value: Any, arrays: list[np.ndarray], where: str, depth: int) -> Any:
    """The JSON form of ``value``; arrays are put aside. ``where`` is for the sentence when it has none."""
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
    if _is_listed(cls):
        return _encode_listed(value, where, inside)
    seed = " (give a seed, an integer)" if isinstance(value, np.random.Generator | np.random.RandomState) else ""
    raise TypeError(f"{where} cannot be saved: its type {cls.__name__} has no place in the format{seed}")


def _encode_listed(value: Any, where: str, inside: Callable[..., Any]) -> dict[str, Any]:
    cls = type(value)
    if isinstance(value, enum.Enum):
        return {"enum": [cls.__name__, value.name]}
    if _is_spec(cls):
        return {
            "spec": [cls.__name__, {name: inside(entry, f"{where}.{name}") for name, entry in _fields(value).items()}]
        }
    params = value.get_params(deep=False)
    fitted = {name: entry for name, entry in vars(value).items() if name not in params and _is_fitted_name(cls, name)}
    return {
        "estimator": [
            cls.__name__,
            {name: inside(entry, f"{where}.{name}") for name, entry in params.items()},
            {name: inside(entry, f"{where}.{name}") for name, entry in fitted.items()},
        ]
    }


def _encode_array(
    value: np.ndarray, arrays: list[np.ndarray], where: str, inside: Callable[..., Any]
) -> dict[str, Any]:
    if type(value) not in (np.ndarray, np.memmap):
        raise TypeError(f"{where} cannot be saved: it is a {type(value).__name__}, not a plain array")
    if value.dtype.kind == "O":
        return {"objects": [list(value.shape), [inside(entry) for entry in value.flat]]}
    if value.dtype.kind not in NUMBERS_AND_TEXT or value.dtype.itemsize == 0:
        raise TypeError(f"{where} cannot be saved: arrays of {value.dtype} have no place in the format")
    arrays.append(value)
    return {"array": len(arrays) - 1}


def _write_members(file: Any, header: bytes, arrays: list[np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("header.json"), header)  # of no date: the same model is the same file
        for k, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{k}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _refuse(sentence: str) -> NoReturn:
    raise UnreadableError(sentence)


def _read(content: bytes) -> Any:
    if not content:
        _refuse("it is empty")
    members = _read_members(content)
    if "header.json" not in members:
        _refuse("it is no model written by xrisk.save, it has no header")
    header = json.loads(members.pop("header.json"), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    if type(header) is not dict or header.get("format") != FORMAT:
        _refuse("it is no model written by xrisk.save")
    if type(header["version"]) is not int or header["version"] < 1:
        _refuse(f"its format has the version {header['version']!r}")
    if header["version"] > VERSION:
        _refuse(f"it was written by a newer xrisk, in format {header['version']}, this one reads up to {VERSION}")
    if type(header["arrays"]) is not int or set(members) != {f"{k}.npy" for k in range(len(members))}:
        _refuse("it has members that are no part of the format")
    if header["arrays"] != len(members):
        _refuse(f"it must have {header['arrays']} arrays, it has {len(members)}")
    arrays = [_read_array(members[f"{k}.npy"]) for k in range(len(members))]
    if type(header["model"]) is not dict or set(header["model"]) != {"estimator"}:
        _refuse("it holds something other than an estimator")
    return _decode(header["model"], arrays, DEPTH)


def _read_members(content: bytes) -> dict[str, bytes]:
    """The members of the archive; stored ones only, which together are no larger than the file."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        _refuse("it is cut short, or no model written by xrisk.save")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        if len({info.filename for info in infos}) < len(infos):
            _refuse("two of its members have one name")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                _refuse(f"its member {info.filename!r} is compressed, which a model never is")
        if sum(info.file_size for info in infos) > len(content):
            _refuse("its members claim to be larger than the file")
        return {info.filename: archive.read(info) for info in infos}


def _read_array(data: bytes) -> np.ndarray:
    """An array of NumPy's format 1.0, its shape checked against the bytes there are before anything is allocated."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        _refuse("one of its arrays is not of NumPy's format 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.kind not in NUMBERS_AND_TEXT or dtype.itemsize == 0:
        _refuse(f"one of its arrays has the type {dtype}, which a model never has")
    start = stream.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - start:
        _refuse("the shape of one of its arrays does not go with its size")
    flat = np.frombuffer(data, dtype=np.uint8, offset=start).copy().view(dtype)
    if dtype.kind == "b" and (flat.view(np.uint8) > 1).any():
        _refuse("one of its arrays of truth values holds something else")
    if dtype.kind == "U" and (flat.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder)) > 0x10FFFF).any():
        _refuse("one of its arrays of text holds something that is no text")
    return flat.reshape(shape, order="F" if fortran else "C")


def _no_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    if len({name for name, _ in pairs}) < len(pairs):
        _refuse("its header names something twice")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    _refuse(f"its header holds {name}, which is not JSON")


def _decode(value: Any, arrays: list[np.ndarray], depth: int) -> Any:
    """What the JSON form ``value`` stands for."""
    if depth == 0:
        _refuse("its header is nested too deeply")

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
        _refuse(f"its header holds a value of the unknown kind {kind!r}")
    return _DECODERS[kind](body, inside)


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        _refuse(f"its header has {number!r} where a count should be")
    return number


def _decode_float(body: Any, inside: Callable[[Any], Any]) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body]


def _decode_scalar(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, value = body
    value = inside(value)
    if name not in SCALARS or type(value) not in (bool, int, float, str):
        _refuse(f"its header has a scalar of the unknown type {name!r}")
    return SCALARS[name](value)


def _decode_objects(body: Any, inside: Callable[[Any], Any]) -> np.ndarray:
    shape, entries = body
    if math.prod(_count(length) for length in shape) != len(entries):
        _refuse("the shape of one of its arrays does not go with its size")
    array = np.empty(shape, dtype=object)
    for position, entry in enumerate(entries):
        array.flat[position] = inside(entry)
    return array


def _listed(name: Any, is_right: Callable[[type], bool]) -> type:
    cls = _classes.get(name)
    if cls is None or not is_right(cls):
        _refuse(f"it holds a {name!r}, a class that is not on the list of xrisk.persistence.savable")
    return cls


def _decode_enum(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, member = body
    cls: Any = _listed(name, lambda cls: issubclass(cls, enum.Enum))
    return cls[member]


def _decode_spec(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, fields = body
    cls = _listed(name, _is_spec)
    return _built(cls, {field: inside(value) for field, value in fields.items()})


def _decode_estimator(body: Any, inside: Callable[[Any], Any]) -> Any:
    name, params, fitted = body
    cls = _listed(name, lambda cls: hasattr(cls, "get_params"))
    estimator = _built(cls, {param: inside(value) for param, value in params.items()})
    for attribute, value in fitted.items():
        if not _is_fitted_name(cls, attribute):
            _refuse(f"{attribute!r} cannot be a fitted attribute of {name}")
        setattr(estimator, attribute, inside(value))
    return estimator


def _built(cls: type, values: dict[str, Any]) -> Any:
    unknown = set(values) - set(inspect.signature(cls).parameters)
    if unknown:
        _refuse(f"{cls.__name__} has no {sorted(unknown)[0]!r} in this version of xrisk")
    return cls(**values)


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
