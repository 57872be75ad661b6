"""Parameters: every spec is built without arguments and passes its check; wrong parameters are named."""

import inspect
import typing
from collections import Counter

import numpy as np
import pytest

from tests.functions.cases import ALL_SPECS
from xrisk import functions as xf


def check(spec):
    getattr(spec, "check", lambda: None)()


@pytest.mark.parametrize("spec", ALL_SPECS, ids=repr)
def test_good_parameters_pass(spec):
    check(spec)


WRONG = [
    (xf.SmoothedHinge(0.0), "width must be positive, got 0.0"),
    (xf.Huber(-1.0), "delta must be positive, got -1.0"),
    (xf.Pinball(1.0), "quantile must lie strictly between 0 and 1, got 1.0"),
    (xf.CVaRHinge(0.0), r"alpha must lie in \(0, 1\], got 0.0"),
    (xf.CVaRHinge(1.5), "alpha must lie in"),
    (xf.ChiSquareA(-2.0), "lam must be positive, got -2.0"),
    (xf.ChiSquareB(-2.0), "lam must be positive"),
    (xf.Square(0.0), "scale must be positive"),
    (xf.Power(1.0), "p must be above 1 and finite, got 1.0"),
    (xf.Exponential(-1.0), "tau must be positive, got -1.0"),
    (xf.LogisticOuter(0.5), "sign must be 1 or -1, got 0.5"),
    (xf.HardSmooth(1.0), "nu must lie strictly between 0 and 1"),
    (xf.HardNonsmooth(1.0, 0.0), "nu must be positive"),
    (xf.HardNonsmooth(0.0, 1.0), "beta must be positive"),
    (xf.Smoothed(xf.CVaRHinge(), 0.0), "nu must be positive"),
    (xf.Scaled(xf.Softplus(), -1.0), "factor must be positive"),
    (xf.Scaled(xf.Softplus(), 1.0, 0.0), "slope must be positive"),
    (xf.LogSumExp(0.0), "beta must be positive"),
    (xf.TopSum(0), "k must be at least 1, got 0"),
    (xf.CVaRRisk(2.0), "alpha must lie in"),
    (xf.ChiSquareRiskA(0.0), "lam must be positive"),
    (xf.ChiSquareRiskB(0.0), "lam must be positive"),
    (xf.KLRisk(0.0), "lam must be positive"),
    (xf.L1(-1.0), "l1 must be finite and not negative, got -1.0"),
    (xf.L2(-1.0), "l2 must be finite and not negative"),
    (xf.ElasticNet(-1.0, 1.0), "l1 must be finite and not negative"),
    (xf.GroupLasso(1.0, 0.0, 0), "size must be at least 1"),
    (xf.Box(1.0, -1.0), r"high must be at least low=1.0, got -1.0"),
    (xf.Ball(0.0), "radius must be positive"),
    (xf.Simplex(0.0), "total must be positive"),
    (xf.CappedSimplex(1.0, 0.0), "cap must be positive"),
    (xf.WithThreshold(xf.L2(), 1.0, 2.0, 1.0), "high must be at least low=2.0"),
    (xf.Unpenalised(xf.L2(), -1), "free must be at least 0"),
    (xf.Hyperplane(np.inf), "total must be finite, got inf"),
    (xf.L1Ball(0.0), "radius must be positive, got 0.0"),
    (xf.SolidSimplex(-1.0), "total must be positive, got -1.0"),
    (xf.LeveragedBudget(1.0, 0.5), r"gross must be at least \|total\|=1.0, got 0.5"),
    (xf.Restricted(xf.L1(), xf.L1Ball()), "L1 on L1Ball"),
    (xf.Tilted(xf.L2(), np.zeros((2, 2))), r"slope must be of shape \(d,\), got \(2, 2\)"),
    (xf.Tilted(xf.L2(), np.array([np.nan])), "slope must be finite"),
    (xf.Tilted(xf.L2(), np.zeros(1), np.inf), "constant must be finite, got inf"),
    (xf.Restricted(xf.L1(), xf.Simplex()), "L1 on Simplex"),
    (xf.Restricted(xf.ElasticNet(0.1, 1.0), xf.CappedSimplex()), "l1 must be 0 on a CappedSimplex"),
    (xf.Restricted(xf.GroupLasso(), xf.Box()), "GroupLasso on Box"),
    (xf.Restricted(xf.GroupLasso(), xf.NonNegative()), "GroupLasso on NonNegative"),
    (xf.Restricted(xf.GroupLasso(), xf.Simplex()), "GroupLasso on Simplex"),
]


@pytest.mark.parametrize(("spec", "message"), WRONG, ids=repr)
def test_wrong_parameters_are_named(spec, message):
    with pytest.raises(ValueError, match=message):
        spec.check()


UNBOUNDED = {(xf.WithThreshold, "low", -np.inf), (xf.WithThreshold, "high", np.inf)}
NOT_NUMBERS = [
    (cls, name, value)
    for cls in dict.fromkeys(type(spec) for spec in ALL_SPECS)
    for name, hint in typing.get_type_hints(cls).items()
    for value in (np.nan, np.inf, -np.inf)
    if hint is float and (cls, name, value) not in UNBOUNDED
]


@pytest.mark.parametrize(("cls", "name", "value"), NOT_NUMBERS)
def test_nan_and_infinities_are_refused(cls, name, value):
    with pytest.raises(ValueError, match=f"{name} must (be|lie)"):
        cls()._replace(**{name: value}).check()


def test_spec_names_are_unique():
    modules = [module for module in vars(xf).values() if inspect.ismodule(module)]
    specs = {
        cls
        for module in (xf, *modules)
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, tuple) and hasattr(cls, "_fields")
    }
    assert max(Counter(cls.__name__ for cls in specs).values()) == 1


def test_everything_public_is_exported():
    assert all(hasattr(xf, type(spec).__name__) for spec in ALL_SPECS)


def test_every_spec_has_a_docstring_that_starts_with_its_formula():
    undocumented = [type(spec).__name__ for spec in ALL_SPECS if type(spec).__doc__.startswith(type(spec).__name__)]
    assert undocumented == []
