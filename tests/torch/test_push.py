"""Pushes in PyTorch follow their twins, and their exact values are those of the problems."""

import numpy as np
import pytest
import torch

from tests.reference.problems import sampled
from tests.reference.sox import sox
from tests.reference.staco import staco
from tests.torch.linear import DOUBLE, Rows, assert_close, descend, difference_quotients, gradient
from xrisk.applications import p_norm_push, top_push
from xrisk.functions import HingeLoss
from xrisk.torch.push import PNormPushLoss, TopPushLoss


@pytest.fixture
def rows():
    return Rows()


class Push:
    """meanᵢ gᵢ^p with the exponential loss, negatives outside; all blocks of an iteration share a batch."""

    def __init__(self, rows, power, blocks, batches):
        self.n, self.x0, self.power, self.prox = len(rows.p.below), rows.p.x0, power, rows.p.prox
        self.p, self.blocks, self.batches, self.drawn = rows.p, blocks, batches, 0

    def draw(self, i, rng):
        self.drawn += 1
        return self.batches[(self.drawn - 1) // self.blocks]

    def losses(self, i, x, chosen):
        return np.exp(-(self.p.above[chosen] - self.p.below[i]) @ x)

    def value(self, i, x, chosen):
        return self.losses(i, x, chosen).mean()

    def jacobian(self, i, x, chosen):
        return -(self.losses(i, x, chosen) @ (self.p.above[chosen] - self.p.below[i]))[None, :] / len(chosen)

    def slope(self, u):
        return np.array([self.power * u ** (self.power - 1)])


def test_the_p_norm_push_follows_sox(rows):
    loss, w = PNormPushLoss(rows.targets, p=3, track=0.6, **DOUBLE), rows.weights()
    drawn = list(np.random.default_rng(2).integers(0, rows.n, (60, 7)))
    options = {"step": 0.01, "track": 0.6, "momentum": 1.0, "blocks": 5, "again": False, "old": False}
    twin = sox(Push(rows, 3, 5, drawn), 60, np.random.default_rng(1), **options)
    rng, order = np.random.default_rng(1), np.arange(len(rows.p.below))
    for chosen, x in zip(drawn, twin, strict=True):
        index = torch.tensor([rows.n + i for i in sampled(order, 5, rng)] + chosen.tolist())
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.01)
        np.testing.assert_allclose(w.detach().numpy(), x, atol=1e-10)


def test_top_push_follows_its_twin(rows):
    loss, w = TopPushLoss(rows.targets, tail_step=0.05 * len(rows.p.below), dtype=torch.float64), rows.weights()
    rows.p.theta0, rows.p.theta1 = 1.0, 1.0 / len(rows.p.below)
    options = {"step": 0.002, "tail_step": 0.05, "dual_step": 0.0, "threshold_step": 0.0}
    twin = staco(rows.p, 60, np.random.default_rng(1), blocks=5, **options)
    for (index, second), (x, s, _) in zip(rows.batches(60, 1, 5, batches=2), twin, strict=True):
        index = index[(rows.targets[index] == 1) | second]
        descend(rows, w, gradient(rows, loss, w, index)[1], 0.002)
        np.testing.assert_allclose(w.detach().numpy(), x, atol=1e-10)
        np.testing.assert_allclose(loss.s.numpy(), s, atol=1e-10)


@pytest.mark.parametrize("outer", ["negatives", "positives"])
def test_the_exact_push_is_the_value_of_the_problem(rows, outer):
    problem = p_norm_push(rows.X.numpy(), rows.y, p=3, outer=outer, loss="hinge")
    loss = PNormPushLoss(rows.targets, p=3, outer=outer, loss=HingeLoss())
    assert loss.exact(rows.X @ rows.weights(), rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)


def test_exact_top_push_is_the_value_of_the_problem(rows):
    problem = top_push(rows.X.numpy(), rows.y)
    loss = TopPushLoss(rows.targets)
    assert loss.exact(rows.X @ rows.weights(), rows.targets) == pytest.approx(problem.value(rows.p.x0), rel=1e-12)


@pytest.mark.parametrize("outer", ["negatives", "positives"])
def test_the_push_of_all_rows_has_the_exact_value_and_gradient(rows, outer):
    loss, w = PNormPushLoss(rows.targets, p=3, outer=outer, **DOUBLE), rows.weights()
    value, grad = gradient(rows, loss, w, rows.all_rows())
    exact = difference_quotients(lambda x: loss.exact(rows.X @ x, rows.targets), w.detach())
    assert value.item() == pytest.approx(loss.exact(rows.X @ w, rows.targets), rel=1e-12)
    assert_close(grad, exact, rtol=1e-6, atol=1e-7)


def test_top_push_at_its_thresholds_has_the_exact_value(rows):
    loss, w = TopPushLoss(rows.targets, dtype=torch.float64), rows.weights()
    scores = (rows.X @ w).detach()
    loss.s.copy_((1.0 - (scores[: rows.n] - scores[rows.n :].max())).clamp(min=0.0) ** 2)
    value = loss(scores, rows.targets, rows.all_rows())
    assert value.item() == pytest.approx(loss.exact(scores, rows.targets), rel=1e-12)


def test_an_unknown_side_is_refused(rows):
    with pytest.raises(ValueError, match="outer must be 'negatives' or 'positives', got 'both'"):
        PNormPushLoss(rows.targets, outer="both")
