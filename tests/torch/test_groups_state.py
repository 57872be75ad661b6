"""`GroupDROLoss` against its exact objective, what it keeps, and hostile input."""

import io

import numpy as np
import pytest
import torch

import xrisk
import xrisk.torch as xt
from tests.conftest import table
from xrisk.compile import uncompiled
from xrisk.functions import risk as risks


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
    assert_compiles("aot_eager", divergence=word, method=method)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own
@pytest.mark.parametrize("word", ["cvar", "chi2", "kl"])
def test_it_compiles_to_machine_code(word):
    assert_compiles("inductor", divergence=word)


def assert_compiles(backend, **options):
    """Values, gradients and states are those of the plain loss, at a size at which the compiler would read anew."""
    torch.compiler.reset()
    plain, other = (xt.GroupDROLoss(4, alpha=0.5, **options) for _ in range(2))
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    torch.manual_seed(0)
    found, expected = ([] for _ in range(2))
    for _ in range(3):
        values, groups = torch.randn(2000), torch.arange(2000) % 4
        for loss, seen in ((compiled, found), (plain, expected)):
            v = values.clone().requires_grad_()
            value = loss(v, groups)
            value.backward()
            seen.append(np.append(v.grad.numpy(), value.item()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(other.tracked, plain.tracked, rtol=1e-6)
    np.testing.assert_allclose(other.threshold, plain.threshold, rtol=1e-5)


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


@pytest.mark.parametrize("word", ["cvar", "kl"])
def test_it_comes_close_to_the_certified_optimum_of_a_linear_model(word):
    X, y, groups = (torch.from_numpy(each) for each in table())
    problem = xrisk.group_dro(*table(), divergence=word, alpha=0.5, lam=0.2, l2=0.1)
    w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    loss = xt.GroupDROLoss(groups, divergence=word, alpha=0.5, lam=0.2)
    optimizer = torch.optim.SGD([w], lr=0.1, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, 500)
    for batch in xt.GroupBatches(groups, count=3, rows=8, steps=500):
        optimizer.zero_grad()
        loss(torch.nn.functional.softplus(-y[batch] * (X[batch] @ w)), groups[batch]).backward()
        optimizer.step()
        schedule.step()
    assert problem.value(w.detach().numpy()) < xrisk.solvers.exact(problem).value + 0.01
