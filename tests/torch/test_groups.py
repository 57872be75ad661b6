"""`GroupDROLoss` against the naive twins on the same batches, against the exact objective, and hostile."""

import io
from typing import NamedTuple

import numpy as np
import pytest
import torch

import xrisk
import xrisk.torch as xt
from tests.conftest import table
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


def full_batch(seed=3):
    rng = np.random.default_rng(seed)
    values = torch.tensor(rng.normal(size=30), requires_grad=True)
    return values, torch.arange(30) % 6


@pytest.mark.parametrize("word", ["max", "cvar", "chi2", "chi2-b", "kl"])
@pytest.mark.parametrize("method", ["sox", "sonx", "alexr-conjugate"])
def test_a_full_batch_has_the_gradient_of_the_exact_objective(word, method):
    values, groups = full_batch()
    loss = xt.GroupDROLoss(6, divergence=word, alpha=0.5, lam=0.4, method=method, track=1.0)
    loss(values.detach(), groups)
    loss.threshold.copy_(between(values, groups, word, loss.threshold_before))
    loss(values, groups).backward()
    expected = [difference(loss, values.detach(), groups, k) for k in range(30)]
    np.testing.assert_allclose(values.grad.numpy(), expected, atol=1e-8)


def between(values, groups, word, c):
    """The optimum, for kinks in the middle of the minimisers: between the worst groups and the others."""
    means = torch.stack([values.detach()[groups == i].mean() for i in range(6)]).sort(descending=True).values
    return {"max": means[:2].mean(), "cvar": means[2:4].mean()}.get(word, c)


def difference(loss, values, groups, k, h=1e-6):
    step = torch.zeros(30, dtype=torch.float64).index_fill(0, torch.tensor(k), h)
    return float(loss.exact(values + step, groups) - loss.exact(values - step, groups)) / (2.0 * h)


@pytest.mark.parametrize(
    "risk",
    [
        risks.MaxRisk(),
        risks.CVaRRisk(0.01),
        risks.CVaRRisk(0.3),
        risks.CVaRRisk(0.5),
        risks.CVaRRisk(1.0),
        risks.ChiSquareRiskA(0.2),
        risks.ChiSquareRiskA(5.0),
        risks.ChiSquareRiskB(0.7),
        risks.KLRisk(0.3),
        risks.KLRisk(1e-3),
    ],
    ids=repr,
)
def test_the_exact_objective_is_the_risk_of_the_means(risk):
    values, groups = full_batch()
    means = np.array([values.detach().numpy()[groups.numpy() == i].mean() for i in range(6)])
    found = xt.GroupDROLoss(6, divergence=risk).exact(values, groups).item()
    with uncompiled():
        assert found == pytest.approx(risks.risk_value(risk, means), rel=1e-13)


def test_the_exact_objective_is_that_of_the_linear_problem():
    X, y, groups = table()
    w = np.array([0.3, -0.2, 0.1, 0.5])
    values = torch.from_numpy(np.logaddexp(0.0, -y * (X @ w)))
    found = xt.GroupDROLoss(torch.from_numpy(groups), alpha=0.4).exact(values, torch.from_numpy(groups))
    assert found.item() == pytest.approx(xrisk.group_dro(X, y, groups, alpha=0.4).value(w), rel=1e-12)


def test_the_returned_value_is_the_risk_of_the_tracked_losses_of_the_groups_seen():
    loss = xt.GroupDROLoss(4, divergence="cvar", alpha=0.5, track=0.5)
    loss(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]))
    value = loss(torch.tensor([5.0, 2.0]), torch.tensor([1, 2]))
    assert loss.tracked.tolist() == [1.0, 4.0, 2.0, 0.0]
    assert value.item() == pytest.approx((4.0 + 0.5 * 2.0) / 1.5)


def test_groups_that_are_not_in_a_batch_keep_their_state():
    loss = xt.GroupDROLoss(3, method="alexr", alpha=0.5)
    loss(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 2]))
    tracked, duals = loss.tracked.clone(), loss.duals.clone()
    loss(torch.tensor([7.0, 5.0]), torch.tensor([1, 1]))
    assert (loss.tracked[[0, 2]] == tracked[[0, 2]]).all()
    assert (loss.duals[[0, 2]] == duals[[0, 2]]).all()
    assert loss.tracked[1] != tracked[1]


def state_of(loss):
    return {name: value.clone() for name, value in loss.state_dict().items()}


def assert_same_state(loss, state):
    assert {name: value.tolist() for name, value in loss.state_dict().items()} == {
        name: value.tolist() for name, value in state.items()
    }


METHODS = ["sox", "msvr", "sonx", "sonex", "alexr", "alexr-conjugate"]


def call(loss, values, groups):
    """A call with previous values where the method takes them."""
    return loss(values, groups) if loss.method == "sox" else loss(values, groups, previous=values.detach() + 0.1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("method", METHODS)
def test_values_that_are_not_finite_write_nothing(method, bad):
    loss = xt.GroupDROLoss(3, method=method)
    call(loss, torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
    before = state_of(loss)
    call(loss, torch.tensor([1.5, bad]), torch.tensor([0, 2]))
    assert_same_state(loss, before)


def test_the_state_stays_in_evaluation_mode():
    loss = xt.GroupDROLoss(3).eval()
    before = state_of(loss)
    assert torch.isfinite(loss(torch.tensor([1.0, 2.0]), torch.tensor([0, 1])))
    assert_same_state(loss, before)


def test_an_empty_batch_writes_nothing_and_has_a_zero_gradient():
    loss, w = xt.GroupDROLoss(3), torch.zeros(2, requires_grad=True)
    before = state_of(loss)
    loss(torch.zeros(0, 2) @ w, torch.zeros(0, dtype=torch.long)).backward()
    assert_same_state(loss, before)
    assert w.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_is_the_same_bit_for_bit(method):
    torch.manual_seed(0)
    batches = [(torch.randn(9), torch.randint(0, 4, (9,))) for _ in range(12)]
    straight, stopped = xt.GroupDROLoss(4, method=method), xt.GroupDROLoss(4, method=method)
    expected = [call(straight, *batch).item() for batch in batches][7:]
    for batch in batches[:7]:
        call(stopped, *batch)
    file = io.BytesIO()
    torch.save(stopped.state_dict(), file)
    file.seek(0)
    resumed = xt.GroupDROLoss(4, method=method)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert [call(resumed, *batch).item() for batch in batches[7:]] == expected


def test_the_state_of_other_groups_is_refused():
    with pytest.raises(RuntimeError, match=r"tracked must have shape \(3,\), got \(4,\)"):
        xt.GroupDROLoss(3).load_state_dict(xt.GroupDROLoss(4).state_dict())


@pytest.mark.parametrize("word", ["cvar", "chi2", "kl"])
@pytest.mark.parametrize("method", ["sox", "alexr"])
def test_it_compiles_as_one_graph(word, method):
    torch.compiler.reset()
    plain = xt.GroupDROLoss(4, divergence=word, method=method, alpha=0.5)
    other = xt.GroupDROLoss(4, divergence=word, method=method, alpha=0.5)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    batches = [(torch.randn(8, requires_grad=True), torch.arange(8) % 4) for _ in range(4)]
    found = [compiled(*batch).item() for batch in batches]
    assert found == pytest.approx([plain(*batch).item() for batch in batches], rel=1e-6)
    np.testing.assert_allclose(other.tracked, plain.tracked)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("word", ["cvar", "chi2", "kl"])
def test_it_compiles_to_machine_code(word):
    torch.compiler.reset()
    plain, other = xt.GroupDROLoss(4, divergence=word, alpha=0.5), xt.GroupDROLoss(4, divergence=word, alpha=0.5)
    compiled = torch.compile(other, fullgraph=True)
    torch.manual_seed(0)
    batches = [(torch.randn(8, requires_grad=True), torch.arange(8) % 4) for _ in range(6)]
    found, expected = ([each(*batch) for batch in batches] for each in (compiled, plain))
    np.testing.assert_allclose([v.item() for v in found], [v.item() for v in expected], rtol=1e-6)
    np.testing.assert_allclose(other.tracked, plain.tracked)
    np.testing.assert_allclose(other.threshold, plain.threshold)


def test_half_precision_does_not_touch_the_state():
    loss = xt.GroupDROLoss(3, divergence="kl", lam=0.01).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = torch.tensor([1.0, 9.0], dtype=torch.bfloat16, requires_grad=True)
        loss(values, torch.tensor([0, 1])).backward()
    assert loss.tracked.dtype == torch.float64
    assert values.grad.dtype == torch.bfloat16
    assert values.grad.sum().item() == 1.0


@pytest.mark.parametrize("word", ["max", "cvar", "chi2", "kl"])
def test_huge_values_stay_finite(word):
    loss = xt.GroupDROLoss(3, divergence=word, lam=1e-3, alpha=0.4)
    values = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        loss(values, torch.arange(3)).backward()
    assert torch.isfinite(values.grad).all()
    assert torch.isfinite(loss.threshold).all()


WRONG = {
    "groups must be at least 1, got 0": lambda: xt.GroupDROLoss(0),
    "group 1 has no row": lambda: xt.GroupDROLoss(torch.tensor([0, 2])),
    "groups must not be negative, got -1": lambda: xt.GroupDROLoss(torch.tensor([0, -1])),
    "method must be one of": lambda: xt.GroupDROLoss(2, method="best"),
    "divergence must be one of": lambda: xt.GroupDROLoss(2, divergence="far"),
    "alpha must": lambda: xt.GroupDROLoss(2, alpha=0.0),
    "lam must": lambda: xt.GroupDROLoss(2, divergence="kl", lam=-1.0),
    "track must be above 0 and at most 1, got 0.0": lambda: xt.GroupDROLoss(2, track=0.0),
    "theta must be between 0 and 1, got 2.0": lambda: xt.GroupDROLoss(2, theta=2.0),
    "groups must lie between 0 and 1, got 5": lambda: xt.GroupDROLoss(2)(torch.ones(1), torch.tensor([5])),
    "values must have at least one row": lambda: xt.GroupDROLoss(2).exact(torch.ones(0), torch.ones(0).long()),
    r"previous must have shape \(2,\), got \(1,\)": lambda: xt.GroupDROLoss(2, method="sonx")(
        torch.ones(2), torch.tensor([0, 1]), previous=torch.ones(1)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_numbers_are_refused_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()


UNFIT = {
    "previous must be the values at the previous weights for method='msvr'": lambda: xt.GroupDROLoss(2, method="msvr")(
        torch.ones(1), torch.tensor([0])
    ),
    "previous must be the values at the previous weights for method='alexr'": lambda: xt.GroupDROLoss(
        2, method="alexr", theta=1.0
    )(torch.ones(1), torch.tensor([0])),
    "previous must be left out for method='sox'": lambda: xt.GroupDROLoss(2)(
        torch.ones(1), torch.tensor([0]), previous=torch.ones(1)
    ),
    "groups must be a tensor of integers": lambda: xt.GroupDROLoss(2)(torch.ones(1), torch.ones(1)),
    "values must be a tensor of floating-point numbers": lambda: xt.GroupDROLoss(2)([1.0], torch.tensor([0])),
    "groups must be a number of groups or integers": lambda: xt.GroupDROLoss(torch.ones(3)),
}


@pytest.mark.parametrize("message", UNFIT)
def test_wrong_kinds_are_refused_in_a_sentence(message):
    with pytest.raises(TypeError, match=message):
        UNFIT[message]()
