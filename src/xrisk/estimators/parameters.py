"""What parameters and fitted attributes must be: one table of each, by name, for all estimators."""

import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from xrisk.annotations import Estimator
from xrisk.applications.arguments import as_number
from xrisk.certificate import Certificate
from xrisk.functions.parameters import flag, positive, require, whole_from
from xrisk.run import Stop, TracePoint

MISSING = ("rows", "assets", "error")  # of `MeanVariancePortfolio`
CONVEX = ("squared_hinge", "hinge", "logistic")
SURROGATES = ("sigmoid", "convex", *CONVEX)  # of the partial AUC models
STARTS = ("logistic", "balanced")

Check = Callable[[str, Any], object]  # raises one sentence, or returns


def _one_of(words: tuple[str, ...]) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"{name} must be one of {', '.join(words)}, got {value!r}")

    return check


def _start(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and value in STARTS):
        raise ValueError(f"{name} must be one of {', '.join(STARTS)} or None, got {value!r}")


def _anchor(name: str, value: Any) -> None:
    if value is not None:
        require(as_number(name, value) > 0.0, name, value, "positive or None")


def _limit(name: str, value: Any) -> None:
    if value is not None:
        positive(name, value)


def _share_under(end: float, words: str) -> Check:
    def check(name: str, value: Any) -> None:
        require(0.0 <= as_number(name, value) < end, name, value, words)

    return check


def _verbose(name: str, value: Any) -> None:
    whole_from(0)(name, int(value) if isinstance(value, bool | np.bool_) else value)


def _seed(name: str, value: Any) -> None:
    try:
        check_random_state(value)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} must be None, a whole number from 0 to 2³² − 1 or a RandomState, got {value!r}"
        ) from error


def _solver(name: str, value: Any) -> None:
    if not (value == "auto" if isinstance(value, str) else hasattr(value, "advance") and not isinstance(value, type)):
        raise ValueError(f"{name} must be 'auto' or a solver spec such as ALEXR(), got {value!r}")


# what the statement of a problem checks itself, such as alpha, is not here
PARAMETERS: dict[str, Check] = {
    "anchor": _anchor,
    "copies": whole_from(1),
    "discount": _share_under(1.0, "at least 0 and below 1"),
    "fit_intercept": flag,
    "long_only": flag,
    "max_iter": whole_from(1),
    "max_seconds": _limit,
    "missing": _one_of(MISSING),
    "outlier_fraction": _share_under(0.5, "at least 0 and below 0.5"),
    "random_state": _seed,
    "risk_aversion": lambda name, value: positive(name, as_number(name, value)),
    "solver": _solver,
    "start": _start,
    "surrogate": _one_of(SURROGATES),
    "tol": positive,
    "verbose": _verbose,
    "warm_start": flag,
}


def _is(kind: Any, words: str) -> Check:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be {words}, got {value!r}")

    return check


def _trace(name: str, value: Any) -> None:
    _is(tuple, "a tuple of trace points")(name, value)
    if not all(isinstance(point, TracePoint) for point in value):
        raise ValueError(f"{name} must be a tuple of trace points, got {value!r}")


def _finite(name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray | np.floating) or value.dtype.kind != "f" or not np.isfinite(value).all():
        raise ValueError(f"{name} must be an array of finite numbers, got {reprlib.repr(value)}")


def _names(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} must be the names of {name[:-1]}, got {value!r}")


def _classes(name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.ndim != 1 or np.unique(value).size < max(2, value.size):
        raise ValueError(f"{name} must be an array of at least two classes, each once, got {value!r}")


def _count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number from 0 on, got {value!r}")


def _number(name: str, value: Any) -> None:
    if not isinstance(value, float) or not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")


ATTRIBUTES: dict[str, Check] = {
    "certificate_": _is(Certificate, "a Certificate"),
    "classes_": _classes,
    "coef_": _finite,
    "group_risk_": _finite,
    "group_weights_": _finite,
    "groups_": _names,
    "intercept_": _finite,
    "n_features_in_": _is(int, "a whole number"),
    "n_iter_": _is(int, "a whole number"),
    "n_left_out_": _count,
    "objective_": _is(float, "a number"),
    "roc_fpr_": _finite,
    "roc_thresholds_": _finite,
    "roc_tpr_": _finite,
    "sample_losses_": _finite,
    "sample_weights_": _finite,
    "stop_": _is(Stop, "a Stop"),
    "surrogate_coef_": _finite,
    "tasks_": _names,
    "threshold_": _number,
    "trace_": _trace,
    "weights_": _finite,
}
OF_ALL = ("n_features_in_", "certificate_", "trace_", "stop_", "n_iter_", "objective_")


def check_parameters(estimator: Estimator) -> None:
    """Refuse parameters of the wrong kind; the statement of the problem checks the rest."""
    for name, value in estimator.get_params(deep=False).items():
        if name in PARAMETERS:
            PARAMETERS[name](name, value)


def check_attributes(estimator: Estimator) -> None:
    """Refuse fitted attributes that are missing or that no fit leaves behind: those that its classes list."""
    for name in dict.fromkeys(name for cls in type(estimator).__mro__ for name in vars(cls).get("_attributes", ())):
        ATTRIBUTES[name](name, getattr(estimator, name, None))
