"""The whole area in PyTorch: AUCM follows its twin, and the pairwise loss is that of the problem."""

import numpy as np
import pytest
import torch

from tests.reference.rows_auc import aucm
from tests.torch.linear import DOUBLE, Rows, assert_close, descend, difference_quotients, gradient
from xrisk.applications import partial_auc
from xrisk.torch.aucm import AUCLoss, AUCMLoss


@pytest.fixture
def rows():
    return Rows()


def test_aucm_follows_its_twin(rows):
    loss, w = AUCMLoss(margin=0.7, dual_step=0.05, mean_step=0.05, dtype=torch.float64), rows.weights()
    options = {"step": 0.05, "margin": 0.7, "strength": 0.0, "momentum": 1.0, "epoch": 100, "blocks": 5}
    twin = aucm(rows.p, 60, np.random.default_rng(1), **options)
    for (index, _), x in zip(rows.batches(60, 1, 5), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.05)
        found = torch.cat([w.detach(), loss.a, loss.b, loss.alpha])
        np.testing.assert_allclose(found.numpy(), x, atol=1e-10)


def test_aucm_is_version_one_of_libauc_up_to_the_shares(rows):
    w, index = rows.weights(), rows.all_rows()
    h, positive = (rows.X @ w).detach(), rows.targets.double()
    p = positive.mean()
    loss = AUCMLoss(dtype=torch.float64)
    for name, value in (("a", 0.2), ("b", -0.1), ("alpha", 0.4)):
        getattr(loss, name).fill_(value)
    squares = (1 - p) * ((h - 0.2) ** 2 * positive).mean() + p * ((h + 0.1) ** 2 * (1 - positive)).mean()
    gap = p * (1 - p) * 1.0 + (p * h * (1 - positive) - (1 - p) * h * positive).mean()
    libauc = squares + 2 * 0.4 * gap - p * (1 - p) * 0.4**2
    assert loss(h, rows.targets, index).item() == pytest.approx((libauc / (p * (1 - p))).item(), rel=1e-12)


def test_aucm_at_its_optima_has_the_exact_value_and_gradient(rows):
    loss, w = AUCMLoss(dual_step=0.5, mean_step=0.5, dtype=torch.float64), rows.weights()
    gradient(rows, loss, w, rows.all_rows())  # steps of 0.5 go to the optima
    value, grad = gradient(rows, loss, w, rows.all_rows())
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert value.item() == pytest.approx(loss.exact(rows.X @ w, rows.targets), rel=1e-12)
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


def test_the_pairwise_loss_of_all_rows_is_the_value_of_the_problem(rows):
    problem = partial_auc(rows.X.numpy(), rows.y, min_tpr=0.0, loss="squared_hinge")
    loss, w = AUCLoss(**DOUBLE), rows.weights()
    value, grad = gradient(rows, loss, w, rows.all_rows())
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert value.item() == pytest.approx(problem.value(rows.p.x0), rel=1e-12)
    assert loss.exact(rows.X @ w, rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("loss", [AUCMLoss(), AUCLoss()])
@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_class_has_no_gradient(loss, label):
    scores = torch.tensor([0.1, 3.0], requires_grad=True)
    value = loss(scores, torch.full((2,), label))
    value.backward()
    assert value.item() == 0.0
    assert scores.grad.tolist() == [0.0, 0.0]


def test_aucm_counts_batches_of_one_class_and_keeps_its_state():
    loss = AUCMLoss()
    loss(torch.tensor([0.1, 3.0]), torch.tensor([1, 1]))
    assert loss.batches_without_pairs.item() == 1
    assert (loss.a.item(), loss.b.item(), loss.alpha.item()) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_aucm_writes_nothing_for_scores_that_are_not_finite(bad):
    loss = AUCMLoss()
    assert loss(torch.tensor([0.1, bad]), torch.tensor([1, 0])).isnan()
    assert (loss.a.item(), loss.b.item(), loss.alpha.item()) == (0.0, 0.0, 0.0)


def test_aucm_writes_nothing_in_evaluation():
    loss = AUCMLoss().eval()
    loss(torch.tensor([0.1, 0.3]), torch.tensor([1, 0]))
    assert (loss.a.item(), loss.b.item(), loss.alpha.item()) == (0.0, 0.0, 0.0)


def test_aucm_goes_on_from_its_state_dict():
    batch = torch.tensor([0.1, 0.3, 0.2]), torch.tensor([1, 0, 0])
    loss, other = AUCMLoss(), AUCMLoss()
    loss(*batch)
    other.load_state_dict(loss.state_dict())
    assert loss(*batch).item() == other(*batch).item()


def test_alpha_is_no_parameter():
    assert list(AUCMLoss().parameters()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of inductor's own
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("loss", [AUCMLoss, AUCLoss])
def test_compiled_losses_are_those_of_eager_mode(loss, backend):
    torch.compiler.reset()
    eager, other = loss(dtype=torch.float64), loss(dtype=torch.float64)
    compiled = torch.compile(other, fullgraph=True, backend=backend)
    for seed in range(4):
        scores = torch.randn(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, requires_grad=True)
        targets = (torch.arange(12) < 4 + seed).long()
        values = [each(scores, targets) for each in (eager, compiled)]
        grads = [torch.autograd.grad(value, scores)[0] for value in values]
        assert_close(*values)
        assert_close(*grads)
