"""Classes that a file may name: only those on the list are ever built from one."""

import dataclasses
import enum
import inspect
from typing import Any, TypeVar

from xrisk.annotations import Spec

Class = TypeVar("Class", bound=type)

_classes: dict[str, type] = {}


def savable(cls: Class) -> Class:
    """Put a class on the list of those that `xrisk.save` and `xrisk.load` know, by its name; a decorator.

    Parameters
    ----------
    cls : class
        An estimator that follows scikit-learn's conventions, or a NamedTuple, dataclass or enum that is the value of
        a parameter or of a fitted attribute.
    """
    if not is_of_known_kind(cls):
        raise TypeError(f"cls must be an estimator, a NamedTuple, a dataclass or an enum, got {cls.__name__}")
    known = _classes.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"the name {cls.__name__} is taken by {known.__module__}.{known.__qualname__}")
    _classes[cls.__name__] = cls  # a cell of a notebook run twice makes a new class
    return cls


def is_of_known_kind(cls: type) -> bool:
    """Whether files have a form for the instances of a class."""
    return is_estimator(cls) or is_spec(cls) or is_enum(cls)


def is_listed(cls: type) -> bool:
    """Whether this very class is on the list."""
    return _classes.get(cls.__name__) is cls


def listed(name: Any) -> type | None:
    """The class of this name, None if there is none on the list."""
    return _classes.get(name)


def is_estimator(cls: type) -> bool:
    """Whether a class has parameters as scikit-learn's estimators do."""
    return hasattr(cls, "get_params")


def is_spec(cls: type) -> bool:
    """Whether a class is a NamedTuple or a dataclass, and no estimator."""
    is_named_tuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    return is_named_tuple or (dataclasses.is_dataclass(cls) and not is_estimator(cls))


def is_enum(cls: type) -> bool:
    """Whether a class is an enum."""
    return issubclass(cls, enum.Enum)


def fields_of(spec: Spec) -> dict[str, Any]:
    """What a NamedTuple or dataclass is built from."""
    if dataclasses.is_dataclass(spec):
        return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec) if field.init}
    return spec._asdict()


def is_fitted_name(cls: type, name: str) -> bool:
    """Whether ``name`` is that of a fitted attribute, and setting it would replace no method or property."""
    static = inspect.getattr_static(cls, name, None)
    plain = not callable(static) and not hasattr(static, "__get__")
    return name.isidentifier() and name.endswith("_") and not name.startswith("__") and plain
