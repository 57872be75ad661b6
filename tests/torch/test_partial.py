"""One-way partial AUC in PyTorch follows the naive twins, and its exact value is that of the problem."""

import numpy as np
import pytest
import torch

from tests.reference.sota import sota_s
from tests.reference.staco import staco
from tests.torch.linear import DOUBLE, Rows, assert_close, descend, difference_quotients, gradient
from xrisk.applications import partial_auc, two_way_partial_auc
from xrisk.torch.partial import PartialAUCLoss


@pytest.fixture
def rows():
    return Rows()


def test_low_false_positive_rates_follow_the_twin(rows):
    loss, w = PartialAUCLoss(rows.targets, max_fpr=0.5, tail_step=0.05, **DOUBLE), rows.weights()
    rows.p.theta0 = 1.0
    still = {"dual_step": 0.0, "threshold_step": 0.0}
    twin = staco(rows.p, 60, np.random.default_rng(1), step=0.05, tail_step=0.05, blocks=5, **still)
    for (index, second), (x, s, _) in zip(rows.batches(60, 1, 5, batches=2), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index, second=second)[1], 0.05)
        np.testing.assert_allclose(w.detach().numpy(), x, atol=1e-10)
        np.testing.assert_allclose(loss.s.numpy(), s, atol=1e-10)


def test_high_true_positive_rates_follow_the_twin(rows):
    steps = {"dual_step": 0.5, "threshold_step": 0.05}
    loss, w = PartialAUCLoss(rows.targets, min_tpr=0.5, **steps, **DOUBLE), rows.weights()
    rows.p.theta1 = 1.0
    twin = staco(rows.p, 60, np.random.default_rng(1), step=0.05, tail_step=0.0, blocks=5, **steps)
    for (index, second), (x, _, level) in zip(rows.batches(60, 1, 5, batches=2), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index, second=second)[1], 0.05)
        np.testing.assert_allclose(w.detach().numpy(), x, atol=1e-10)
        np.testing.assert_allclose(loss.level.item(), level, atol=1e-10)


def test_the_soft_form_follows_the_twin(rows):
    loss, w = PartialAUCLoss(rows.targets, strength=0.7, track=0.6, **DOUBLE), rows.weights()
    options = {"step": 0.02, "lam": 0.7, "outer_lam": np.inf, "track": 0.6, "outer_track": 1.0, "momentum": 1.0}
    twin = sota_s(rows.p, 60, np.random.default_rng(1), blocks=5, **options)
    for (index, _), x in zip(rows.batches(60, 1, 5), twin, strict=True):
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.02)
        np.testing.assert_allclose(w.detach().numpy(), x, atol=1e-10)


def test_the_exact_value_for_true_positive_rates_is_that_of_the_problem(rows):
    problem = partial_auc(rows.X.numpy(), rows.y, min_tpr=0.6, loss="squared_hinge")
    loss = PartialAUCLoss(rows.targets, min_tpr=0.6, margin=1.0)
    assert loss.exact(rows.X @ rows.weights(), rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)


def test_the_exact_value_for_false_positive_rates_is_that_of_the_problem(rows):
    problem = two_way_partial_auc(rows.X.numpy(), rows.y, min_tpr=0.0, max_fpr=0.3)
    loss = PartialAUCLoss(rows.targets, max_fpr=0.3, margin=1.0)
    assert loss.exact(rows.X @ rows.weights(), rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)


def test_the_soft_form_of_all_rows_has_the_exact_value_and_gradient(rows):
    loss, w = PartialAUCLoss(rows.targets, strength=0.7, **DOUBLE), rows.weights()
    value, grad = gradient(rows, loss, w, rows.all_rows())
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert value.item() == pytest.approx(loss.exact(rows.X @ w, rows.targets), rel=1e-12)
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


def test_the_soft_form_does_not_overflow():
    targets = torch.tensor([1, 0, 0])
    loss = PartialAUCLoss(targets, strength=0.01, dtype=torch.float64)
    scores = torch.tensor([-30.0, 0.0, 10.0], requires_grad=True)
    value = loss(scores, targets, torch.arange(3))
    value.backward()
    assert value.item() == pytest.approx(40.5**2 - 0.01 * np.log(2.0), rel=1e-6)
    assert_close(scores.grad, torch.tensor([-81.0, 0.0, 81.0]))


@pytest.mark.parametrize("given", [{}, {"min_tpr": 0.5, "max_fpr": 0.5}, {"max_fpr": 0.5, "strength": 1.0}])
def test_exactly_one_form_is_chosen(rows, given):
    with pytest.raises(ValueError, match="one of min_tpr, max_fpr and strength must be given"):
        PartialAUCLoss(rows.targets, **given)
