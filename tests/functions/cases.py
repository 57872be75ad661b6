"""The specs the properties run over: every entry of every table built without arguments, and a few more of each."""

import itertools

import numpy as np
from hypothesis import strategies as st

from xrisk import functions as xf

EXTREMES = (0.0, -0.0, 5e-324, -5e-324, 1e-300, 1.0, -1.0, 1e10, -1e10, 1e300, -1e300)


def ours(table):
    """The classes of a table that ``xrisk.functions`` exports, built without arguments."""
    return [cls() for cls in table if getattr(xf, cls.__name__, None) is cls]


LOSSES = [
    *ours(xf.loss_value.table),
    xf.SmoothedHinge(0.25),
    xf.SmoothedHinge(3.0),
    xf.Huber(0.3),
    xf.Pinball(0.9),
    xf.Pinball(0.05),
]
KINKED_LOSSES = [loss for loss in LOSSES if xf.loss_kink.implemented(loss)]

OUTERS = [
    *ours(xf.outer_value.table),
    xf.CVaRHinge(0.25),
    xf.CVaRHinge(1.0),
    xf.ChiSquareA(0.7),
    xf.ChiSquareB(0.7),
    xf.Square(0.5),
    xf.Power(1.5),
    xf.Power(3.0),
    xf.Power(4.0),
    xf.Power(7.5),
    xf.Exponential(0.6),
    xf.Exponential(4.0),
    xf.LogisticOuter(-1.0),
    xf.HardSmooth(0.3),
    xf.HardNonsmooth(1.7, 0.3),
    xf.Smoothed(xf.CVaRHinge(0.25), 0.2),
    xf.Smoothed(xf.Softplus(), 0.5),
    xf.Smoothed(xf.Power(1.5), 0.5),
    xf.Smoothed(xf.Square(2.0), 0.5),
    xf.Smoothed(xf.HardSmooth(0.3), 0.5),
    xf.Smoothed(xf.HardNonsmooth(1.7, 0.3), 0.2),
    xf.Smoothed(xf.Smoothed(xf.CVaRHinge(0.5), 0.1), 0.2),
    xf.Scaled(xf.CVaRHinge(0.3), 0.7, 1.3, 0.2, -0.4),
    xf.Scaled(xf.Exponential(0.7), 1.0, 1.0, 0.0, -0.7),
    xf.Scaled(xf.Softplus(), 2.0, 3.0, -0.5, 1.0),
    xf.Scaled(xf.Smoothed(xf.HardNonsmooth(), 0.3), 0.5, 2.0, 0.1, 0.0),
]
KINKED_OUTERS = [f for f in OUTERS if xf.outer_is_piecewise_linear(f)]

JOINTS = [xf.MaxOuter(), xf.LogSumExp(), xf.LogSumExp(3.0), xf.TopSum(1), xf.TopSum(2)]
ENTROPIC = [xf.MaxOuter(), xf.LogSumExp(), xf.LogSumExp(3.0)]

RISKS = [
    *[rho for rho in ours(xf.risk_value.table) if type(rho) is not xf.WithMasses],  # it takes one number of values
    xf.CVaRRisk(0.3),
    xf.CVaRRisk(0.5),
    xf.CVaRRisk(1.0),
    xf.ChiSquareRiskA(0.2),
    xf.ChiSquareRiskB(3.0),
    xf.KLRisk(0.3),
    xf.KLBallRisk(0.1, 0.3),
    xf.KLBallRisk(3.0, 0.3),
    xf.KLBallRisk(1e-6),
    xf.ChiSquareBallRisk(0.1, 0.3),
    xf.ChiSquareBallRisk(3.0, 0.3),
    xf.ChiSquareBallRisk(1e-6),
]
MEAN_RISKS = [rho for rho in RISKS if xf.risk_outer.implemented(rho)]  # ρ(u) = min_c c + mean f(u − c)

PENALTIES = [
    *ours(xf.penalty_value.table),
    xf.L2(0.0),
    xf.ElasticNet(0.3, 0.7),
    xf.ElasticNet(0.3, 0.0),
    xf.GroupLasso(0.4, 0.0, 2),
    xf.GroupLasso(0.4, 0.6, 3),
    xf.Box(-0.3, 0.8),
    xf.Box(0.2, 0.8),
    xf.Ball(0.7),
    xf.Simplex(2.5),
    xf.CappedSimplex(1.0, 0.4),
    xf.CappedSimplex(2.0, 0.5),
    xf.Restricted(xf.L1(0.3), xf.Ball(0.7)),
    xf.Restricted(xf.L1(0.3), xf.Box(-0.3, 0.8)),
    xf.Restricted(xf.L1(0.3), xf.Box(0.2, 0.8)),
    xf.Restricted(xf.L1(0.3), xf.NonNegative()),
    xf.Restricted(xf.ElasticNet(0.3, 0.7), xf.Ball(0.7)),
    xf.Restricted(xf.ElasticNet(0.3, 0.7), xf.Box(-0.3, 0.8)),
    xf.Restricted(xf.ElasticNet(0.3, 0.7), xf.Box(0.2, 0.8)),
    xf.Restricted(xf.ElasticNet(0.3, 0.7), xf.NonNegative()),
    xf.Restricted(xf.ElasticNet(0.0, 0.7), xf.Simplex()),
    xf.Restricted(xf.L2(0.7), xf.Simplex(2.5)),
    xf.Restricted(xf.L2(0.7), xf.CappedSimplex(1.0, 0.4)),
    xf.Restricted(xf.L2(0.0), xf.Simplex()),
    xf.Restricted(xf.NoPenalty(), xf.Box()),
    xf.Restricted(xf.GroupLasso(0.4, 0.6, 2), xf.Ball(0.7)),
    xf.Restricted(xf.GroupLasso(0.4, 0.0, 2), xf.Ball(0.7)),
    xf.WithThreshold(xf.ElasticNet(0.3, 0.7), 0.5, -0.2, 0.6),
    xf.WithThreshold(xf.Ball(0.7), 1.0, 0.0, 2.0),
    xf.Unpenalised(xf.ElasticNet(0.3, 0.7), 2),
    xf.Unpenalised(xf.L2(), 0),
    xf.Hyperplane(-0.7),
    xf.Hyperplane(0.0),
    xf.L1Ball(0.6),
    xf.L1Ball(30.0),
    xf.SolidSimplex(0.4),
    xf.SolidSimplex(30.0),
    xf.LeveragedBudget(1.0, 1.0),
    xf.LeveragedBudget(-1.0, 1.0),
    xf.LeveragedBudget(0.0, 1.5),
    xf.LeveragedBudget(-0.4, 3.0),
    xf.LeveragedBudget(1.0, 40.0),
    xf.Restricted(xf.L2(0.7), xf.Hyperplane(0.5)),
    xf.Restricted(xf.L2(0.7), xf.L1Ball(0.6)),
    xf.Restricted(xf.L2(0.7), xf.SolidSimplex(0.6)),
    xf.Restricted(xf.L2(0.7), xf.LeveragedBudget(0.5, 1.2)),
    xf.Restricted(xf.L2(0.0), xf.LeveragedBudget(0.5, 1.2)),
    xf.Tilted(xf.NoPenalty(), np.array([0.5]), 0.2),
    xf.Tilted(xf.ElasticNet(0.3, 0.7), np.array([-0.5]), -1.0),
    xf.Tilted(xf.Simplex(2.5), np.array([0.3])),
    xf.Tilted(xf.Restricted(xf.L2(0.7), xf.Box(-0.3, 0.8)), np.array([1.3]), 3.0),
]

ALL_SPECS = [*LOSSES, xf.Multinomial(), *OUTERS, *JOINTS, *RISKS, *PENALTIES]


def failing(fact, *choices):
    """The arguments, one of each of ``choices``, at which ``fact`` does not hold or raises, and what it said there."""
    found = [(arguments, _answer(fact, arguments)) for arguments in itertools.product(*choices)]
    return [(arguments, answer) for arguments, answer in found if answer is not True]


def _answer(fact, arguments):
    try:
        answer = fact(*arguments)
    except Exception as error:
        return repr(error)
    return True if answer else answer


def numbers(low=-4.0, high=4.0):
    """Ordinary numbers: no subnormals, which make difference quotients meaningless."""
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


def vectors(size, low=-3.0, high=3.0):
    """Arrays of ``size`` ordinary numbers."""
    return st.lists(numbers(low, high), min_size=size, max_size=size).map(np.array)


def inside(lo, hi, share):
    """The point at ``share`` of the way from lo to hi, infinite ends cut at distance 5."""
    low = max(lo, min(hi, 0.0) - 5.0)
    high = min(hi, max(lo, 0.0) + 5.0)
    return min(max(low + share * (high - low), lo), hi)
