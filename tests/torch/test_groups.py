"""`GroupDROLoss` against the naive twins on the same batches."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

import xrisk.torch as xt
from tests.reference import problems
from tests.reference.alexr import alexr
from tests.reference.msvr import msvr
from tests.reference.sonex import sonex
from tests.reference.sonx import sonx
from tests.reference.sox import sox
from xrisk.compile import uncompiled
from xrisk.functions import risk as risks

STEPS, BLOCKS, BATCH, STEP, TRACK, ALPHA = 60, 3, 5, 0.05, 0.3, 0.4
W0 = np.full(4, 0.1)
OUTERS = {"cvar": problems.Hinge(ALPHA), "chi2": problems.ChiSquare()}
RISKS = {"cvar": risks.CVaRRisk(ALPHA), "chi2": risks.ChiSquareRiskA(1.0)}
SETTING = {"step": STEP, "track": TRACK, "blocks": BLOCKS}


class Recorded(problems.Naive):
    """Remembers its batches; ``copies`` draws in a row are one batch."""

    copies = 1

    def __init__(self, word, c):
        super().__init__(OUTERS[word], threshold=True, x0=np.append(W0, c), batch=BATCH)
        self.batches, self.calls = [], 0

    def draw(self, i, rng):
        if self.calls % self.copies == 0:
            self.batches.append((i, super().draw(i, rng)[0]))
        self.calls += 1
        return self.batches[-1][1][None, :]


class Apart(Recorded):
    """The trackers follow the mean losses alone; c of the last Jacobian is subtracted where a slope is taken."""

    def value(self, i, x, rows):
        return super().value(i, x, rows) + x[-1]

    def jacobian(self, i, x, rows):
        self.c = x[-1]
        return super().jacobian(i, x, rows)

    def slope(self, u):
        return super().slope(u - self.c)

    def dual_step(self, u, y, tau):
        return super().dual_step(u - self.c, y, tau)


class Twice(Apart):
    """For twins that draw a second batch for the gradient."""

    copies = 2


class Still(Apart):
    """The threshold does not move."""

    def jacobian(self, i, x, rows):
        return super().jacobian(i, x, rows) * np.array([1.0, 1.0, 1.0, 1.0, 0.0])

    def prox(self, x, s):
        return np.append(x[:-1] / (1.0 + s * self.l2), x[-1])


def first_threshold(word):
    """The optimum for the first batch, which does not depend on the iterate."""
    p = Apart(word, 0.0)
    sox(p, 1, np.random.default_rng(0), momentum=1.0, again=False, old=False, **SETTING)
    means = np.array([p.value(i, p.x0, rows[None, :])[0] for i, rows in p.batches])
    with uncompiled():
        return float(risks.risk_threshold(RISKS[word], means))


def losses(p, w, rows):
    X, y = torch.from_numpy(p.X), torch.from_numpy(p.y)
    return torch.nn.functional.softplus(-y[rows] * (X[rows] @ w))


def trained(p, loss, momentum=1.0, uses_previous=True):
    """(w, c)_1, …, _T of the loss on the batches of a twin, plain SGD and the proximal step of the penalty."""
    w = torch.tensor(W0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=STEP, momentum=1.0 - momentum, dampening=1.0 - momentum)
    before, found = w.detach().clone(), []
    for t in range(STEPS):
        batch = p.batches[t * BLOCKS : (t + 1) * BLOCKS]
        rows = torch.from_numpy(np.concatenate([rows for _, rows in batch]))
        groups = torch.tensor([i for i, rows in batch for _ in rows])
        previous = losses(p, before, rows) if uses_previous else None
        optimizer.zero_grad()
        loss(losses(p, w, rows), groups, previous).backward()
        before = w.detach().clone()
        optimizer.step()
        w.data /= 1.0 + STEP * p.l2
        found.append(np.append(w.detach().numpy(), loss.threshold.numpy()))
    return np.array(found)


class Case(NamedTuple):
    """A twin, and the loss that has to follow it."""

    twin: object
    problem: type
    setting: dict
    method: str
    options: dict
    uses_previous: bool


CASES = {
    "sox": Case(sox, Apart, {"momentum": 1.0, "again": False, "old": False}, "sox", {}, False),
    "sox-old": Case(sox, Apart, {"momentum": 1.0, "again": False, "old": True}, "sonx", {}, False),
    "msvr": Case(
        msvr, Apart, {"momentum": 1.0, "correction": 0.6, "corrected": False}, "msvr", {"correction": 0.6}, True
    ),
    "sonx": Case(sonx, Apart, {"correction": 0.6}, "sonx", {"correction": 0.6}, True),
    "sonex-v1": Case(sonex, Twice, {"momentum": 1.0, "nu": 0.1, "correction": 0.0}, "sonex", {"nu": 0.1}, False),
    "sonex-v2": Case(
        sonex, Twice, {"momentum": 1.0, "nu": 0.1, "correction": 0.6}, "sonex", {"nu": 0.1, "correction": 0.6}, True
    ),
}


def assert_follows(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)


def loss_of(word, method, **options):
    return xt.GroupDROLoss(6, divergence=word, alpha=ALPHA, method=method, track=TRACK, threshold_step=STEP, **options)


@pytest.mark.parametrize("word", OUTERS)
@pytest.mark.parametrize("name", CASES)
def test_it_follows_the_twin_of_a_tracking_method(name, word):
    case = CASES[name]
    p = case.problem(word, first_threshold(word))
    expected = case.twin(p, STEPS, np.random.default_rng(0), **SETTING, **case.setting)
    loss = loss_of(word, case.method, **case.options)
    assert_follows(trained(p, loss, uses_previous=case.uses_previous), expected)


def test_momentum_is_that_of_the_optimizer():
    p = Still("cvar", first_threshold("cvar"))
    expected = sox(p, STEPS, np.random.default_rng(0), momentum=0.4, again=False, old=False, **SETTING)
    loss = xt.GroupDROLoss(6, alpha=ALPHA, track=TRACK, threshold_step=0.0)
    assert_follows(trained(p, loss, momentum=0.4, uses_previous=False), expected)


def run_alexr(p, value, dual_step_of, dual_step, theta):
    return alexr(
        p.x0,
        6,
        STEPS,
        step=STEP,
        dual_step=dual_step,
        theta=theta,
        blocks=BLOCKS,
        draw=p.draw,
        value=value,
        jacobian=p.jacobian,
        dual_step_of=dual_step_of,
        prox=p.prox,
        rng=np.random.default_rng(0),
        again=False,
    )[0]


@pytest.mark.parametrize("word", OUTERS)
@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_it_follows_alexr_with_quadratic_distance(word, theta):
    p, y = Recorded(word, first_threshold(word)), np.zeros(6)

    def dual_step_of(i, g, tau):
        y[i] = p.dual_step(g[0], y[i], tau)
        return y[i]

    expected = run_alexr(p, p.value, dual_step_of, 0.2, theta)
    loss = loss_of(word, "alexr", dual_step=0.2, theta=theta)
    assert_follows(trained(p, loss, uses_previous=theta > 0.0), expected)
    assert_follows(loss.duals.numpy(), y)


@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_it_follows_alexr_with_the_distance_of_the_conjugate(theta):
    p, u, thresholds = Apart("chi2", first_threshold("chi2")), {}, []

    def value(i, x, rows):
        thresholds.append(x[-1])
        return p.value(i, x, rows)

    def dual_step_of(i, g, tau):
        u[i] = (tau * u[i] + g) / (1.0 + tau) if i in u else p.value(i, *first[i])
        p.c = thresholds[-2]
        return p.slope(u[i])

    first = FirstValues(p)
    expected = run_alexr(p, first.remember(value), dual_step_of, TRACK / (1.0 - TRACK), theta)
    loss = loss_of("chi2", "alexr-conjugate", theta=theta)
    assert_follows(trained(p, loss, uses_previous=theta > 0.0), expected)


class FirstValues:
    """Where and on which rows a block was evaluated first."""

    def __init__(self, p):
        self.seen = {}

    def __getitem__(self, i):
        return self.seen[i]

    def remember(self, value):
        def remembering(i, x, rows):
            self.seen.setdefault(i, (x.copy(), rows))
            return value(i, x, rows)

        return remembering
