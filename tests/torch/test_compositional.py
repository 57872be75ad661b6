"""Compositional losses: the methods they stand for, their gradients, what they write and what they refuse."""

import copy
import math

import numpy as np
import pytest
import torch

from tests.reference import problems
from tests.reference.bsgd import bsgd
from tests.reference.sox import sox
from xrisk import functions as xf
from xrisk.torch.compositional import CompositionalLoss
from xrisk.torch.functions import LogMeanExp, Quotient, loss_value

OUTERS = [xf.CVaRHinge(0.4), xf.Exponential(0.7), xf.Power(3.0), xf.LogSumExp(2.0), LogMeanExp(0.5), Quotient()]


class Exponential:
    """f(u) = τ exp(u/τ), τ = 0.7."""

    def slope(self, u):
        return np.exp(u / 0.7)


def batches(p, blocks, rng):
    """Rows and the numbers of their blocks, as the naive twins draw them; blocks of ``per_block`` groups."""
    order = np.arange(p.n)
    while True:
        drawn = [(i, p.draw(i, rng)) for i in problems.sampled(order, blocks, rng)]
        rows = torch.tensor(np.stack([rows.T for _, rows in drawn]).reshape(-1, p.m))
        yield rows, torch.tensor(np.repeat([i for i, _ in drawn], p.batch))


def trained(p, outer, steps, *, step, track, momentum, blocks):
    """Iterates of a linear model under PyTorch's SGD; the penalty is the proximal step of the naive problem."""
    X, y = torch.tensor(p.X), torch.tensor(p.y)
    x = torch.nn.Parameter(torch.tensor(p.x0))
    loss = CompositionalLoss(p.n, outer, width=p.m, track=track, dtype=torch.float64)
    optimizer = torch.optim.SGD([x], lr=step, momentum=1.0 - momentum, dampening=1.0 - momentum)
    source, xs = batches(p, blocks, np.random.default_rng(0)), []
    for _ in range(steps):
        rows, index = next(source)
        w, c = (x[:-1], x[-1]) if p.threshold else (x, 0.0)
        values = loss_value(xf.Logistic(), X[rows] @ w, y[rows]) - c
        optimizer.zero_grad()
        loss(values, index).backward()
        optimizer.step()
        with torch.no_grad():
            x.copy_(torch.tensor(p.prox(x.numpy(), step)))
        xs.append(x.detach().numpy().copy())
    return np.array(xs)


def naive(outer, **setting):
    threshold = setting.pop("threshold", True)
    x0 = np.append(np.full(4, 0.1), 0.2) if threshold else np.full(4, 0.1)
    return problems.Naive(outer, threshold=threshold, x0=x0, batch=5, **setting)


CASES = [
    (naive(problems.Hinge()), xf.CVaRHinge(0.4)),
    (naive(problems.ChiSquare()), xf.ChiSquareA()),
    (naive(Exponential()), xf.Exponential(0.7)),
    (naive(problems.LogSumExp(), threshold=False, per_block=2), xf.LogSumExp(2.0)),
]


@pytest.mark.parametrize(("p", "outer"), CASES, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("momentum", [1.0, 0.2])
def test_a_linear_model_follows_sox(p, outer, momentum):
    setting = {"step": 0.05, "track": 0.3, "momentum": momentum, "blocks": 2}
    expected = sox(p, 50, np.random.default_rng(0), **setting, again=False, old=False)
    np.testing.assert_allclose(trained(p, outer, 50, **setting), expected, rtol=1e-10, atol=1e-12)


def test_with_the_newest_values_only_it_follows_bsgd():
    p, outer = CASES[0]
    expected = bsgd(p, 50, np.random.default_rng(0), step=0.05, blocks=3)
    xs = trained(p, outer, 50, step=0.05, track=1.0, momentum=1.0, blocks=3)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def sample(rows=12, blocks=5, seed=0):
    """Positive inner values (rows, 2) and their blocks, with repeats."""
    rng = np.random.default_rng(seed)
    index = np.concatenate([np.arange(blocks), rng.integers(0, blocks, rows - blocks)])
    return torch.tensor(rng.uniform(0.5, 2.0, (rows, 2))), torch.tensor(index)


def new(outer, **options):
    return CompositionalLoss(5, outer, **{"width": 2, "dtype": torch.float64, **options})


every_outer = pytest.mark.parametrize("outer", OUTERS, ids=repr)


@every_outer
def test_a_first_full_batch_has_the_exact_value(outer):
    values, index = sample()
    loss = new(outer)
    assert loss(values, index).item() == pytest.approx(loss.exact(values, index).item(), rel=1e-14)


@every_outer
def test_the_gradient_of_a_first_full_batch_is_that_of_the_exact_objective(outer):
    values, index = sample()
    values.requires_grad_()
    loss = new(outer)
    loss(values, index).backward()
    steps = 1e-6 * torch.eye(values.numel(), dtype=torch.float64).reshape(-1, *values.shape)
    found = [(loss.exact(values + h, index) - loss.exact(values - h, index)).item() / 2e-6 for h in steps]
    np.testing.assert_allclose(values.grad.flatten().numpy(), found, atol=1e-8)


def test_the_exact_objective_is_that_of_the_formula():
    values, index = sample()
    means = [values[index == i].mean(0).numpy() for i in range(5)]
    expected = np.mean([xf.block_value(xf.Exponential(0.7), u) for u in means])
    assert new(xf.Exponential(0.7)).exact(values, index).item() == pytest.approx(expected)


def test_logarithms_stand_for_their_exponentials():
    """τ log u of tracked exponentials, next to a tracker of logarithms."""
    logs, plain = new(LogMeanExp(0.5), track=0.3), np.full((5, 2), np.nan)
    for seed in range(4):
        values, index = sample(rows=9, seed=seed)
        logs(values, index)
        for i in range(5):
            newest = np.exp(values[index == i].numpy()).mean(0)
            plain[i] = np.where(np.isnan(plain[i]), newest, 0.7 * plain[i] + 0.3 * newest)
    np.testing.assert_allclose(logs.u.numpy(), np.log(plain), rtol=1e-12)


def test_logarithms_do_not_overflow():
    loss = CompositionalLoss(2, LogMeanExp(), track=0.5)
    for value in (-5000.0, 5000.0, 4000.0):
        values = torch.tensor([value, value - 1.0], requires_grad=True)
        found = loss(values, torch.tensor([0, 0]))
        found.backward()
        assert math.isfinite(found.item())
        assert torch.isfinite(values.grad).all()


def test_the_correction_follows_its_formula():
    loss, u = new(xf.Square(), track=0.3, correction=0.6), np.zeros((5, 2))
    for seed in range(4):
        values, previous = sample(rows=5, seed=seed)[0], sample(rows=5, seed=seed + 9)[0]
        loss(values, torch.arange(5), previous=previous)
        moved = 0.7 * u + 0.3 * values.numpy() + 0.6 * (values - previous).numpy()
        u = moved if seed else values.numpy()
    np.testing.assert_allclose(loss.u.numpy(), u, rtol=1e-12)


def test_the_gradient_weighs_by_the_tracker():
    loss = CompositionalLoss(3, xf.Square(), track=0.25)
    loss(torch.tensor([1.0]), torch.tensor([1]))
    values = torch.tensor([3.0], requires_grad=True)
    found = loss(values, torch.tensor([1]))
    found.backward()
    assert (found.item(), values.grad.item()) == (2.25, 3.0)  # u = ¾·1 + ¼·3


def test_evaluation_writes_nothing():
    values, index = sample()
    loss = new(xf.Square())
    loss(values, index)
    before = copy.deepcopy(loss.state_dict())
    loss.eval()
    loss(values + 1.0, index)
    assert all(torch.equal(before[name], kept) for name, kept in loss.state_dict().items())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@every_outer
def test_values_that_are_not_finite_write_nothing_and_give_nan(outer, bad):
    values, index = sample()
    loss = new(outer)
    loss(values, index)
    before = copy.deepcopy(loss.state_dict())
    values[3, 1] = bad
    assert math.isnan(loss(values, index).item())
    assert all(torch.equal(before[name], kept) for name, kept in loss.state_dict().items())


def test_an_empty_batch_has_value_and_gradient_zero():
    values = torch.zeros((0, 2), dtype=torch.float64, requires_grad=True)
    found = new(xf.Square())(values, torch.zeros(0, dtype=torch.int64))
    found.backward()
    assert found.item() == 0.0


def test_the_state_goes_on_from_a_checkpoint():
    values, index = sample()
    one, other = new(xf.Square(), track=0.5), new(xf.Square(), track=0.5)
    one(values, index)
    other.load_state_dict(one.state_dict())
    assert one(2.0 * values, index).item() == other(2.0 * values, index).item()


def test_half_precision_is_computed_in_single():
    values = torch.tensor([300.0, 300.0], dtype=torch.float16, requires_grad=True)
    found = CompositionalLoss(2, xf.Square())(values, torch.arange(2))
    found.backward()
    assert (found.item(), values.grad.dtype) == (90000.0, torch.float16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows must be a whole number from 1 on, got 0"),
        ({"outer": "cvar"}, "outer must be an outer function"),
        ({"outer": xf.CVaRHinge(2.0)}, "alpha must lie in"),
        ({"outer": Quotient()}, "width must be 2 for Quotient, got 1"),
        ({"track": 0.0}, "track must be above 0 and at most 1, got 0.0"),
        ({"track": 1.5}, "track must be above 0 and at most 1, got 1.5"),
        ({"dtype": torch.bfloat16}, "dtype must be torch.float32 or torch.float64"),
        ({"outer": LogMeanExp(), "correction": 0.5}, "correction must be None for LogMeanExp"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CompositionalLoss(**{"rows": 3, "outer": xf.Square(), **options})


@pytest.mark.parametrize(
    ("values", "index", "message"),
    [
        ([1.0, 2.0], torch.tensor([0, 3]), "index must lie between 0 and 2, got 3"),
        ([1.0, 2.0], torch.tensor([0.0, 1.0]), "index must be a tensor of integers"),
        ([1.0, 2.0], torch.tensor([0]), r"index must have shape \(2,\)"),
        ([1.0, 2.0], None, "index must be the numbers of the rows"),
        ([[1.0, 2.0]], torch.tensor([0]), r"values must have shape \(rows,\), got \(1, 2\)"),
        ([1, 2], torch.tensor([0, 1]), "values must be a tensor of floating-point numbers, got torch.int64"),
    ],
)
def test_wrong_batches_are_refused(values, index, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CompositionalLoss(3, xf.Square())(torch.tensor(values), index)


def test_previous_values_need_a_correction():
    with pytest.raises(ValueError, match="previous must be None without correction"):
        new(xf.Square())(*sample(), previous=sample()[0])
    with pytest.raises(ValueError, match="previous must be the values at the previous weights, got None"):
        new(xf.Square(), correction=0.5)(*sample())


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of the compiler itself
@pytest.mark.slow
@pytest.mark.parametrize("outer", [xf.CVaRHinge(0.4), LogMeanExp(0.5), Quotient()], ids=repr)
@pytest.mark.parametrize("backend", ["aot_eager_decomp_partition", "inductor"])
def test_a_compiled_loss_is_the_same(outer, backend):
    plain, compiled = new(outer, track=0.5), new(outer, track=0.5)
    call = torch.compile(compiled, fullgraph=True, backend=backend)
    for seed in range(3):
        values, index = sample(seed=seed)
        found, expected = values.clone().requires_grad_(), values.clone().requires_grad_()
        call(found, index).backward()
        plain(expected, index).backward()
        np.testing.assert_allclose(found.grad.numpy(), expected.grad.numpy(), rtol=1e-12)
        np.testing.assert_allclose(compiled.u.numpy(), plain.u.numpy(), rtol=1e-12)
