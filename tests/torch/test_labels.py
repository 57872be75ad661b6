"""One loss for each label: missing labels, classes against the rest, and what is refused."""

import math

import numpy as np
import pytest
import torch

from xrisk.torch.aucm import AUCLoss, AUCMLoss
from xrisk.torch.labels import PerLabel
from xrisk.torch.push import PNormPushLoss, TopPushLoss
from xrisk.torch.rankings import AveragePrecisionLoss

RNG = np.random.default_rng(3)
ROWS = 20
SCORES = torch.tensor(RNG.normal(size=(ROWS, 3)))
INDEX = torch.arange(ROWS)
LABELS = torch.tensor((RNG.random((ROWS, 3)) < 0.4).astype(float))
MISSING = torch.tensor(RNG.random((ROWS, 3)) < 0.3)
PARTIAL = torch.where(MISSING, math.nan, LABELS)
CLASSES = torch.tensor(RNG.permutation(np.arange(ROWS) % 3))


class Counted(torch.nn.Module):
    """A loss without state that remembers its calls."""

    def __init__(self, targets, scale=1.0):
        super().__init__()
        self.rows, self.scale, self.calls = len(targets), scale, []

    def forward(self, scores, targets, index=None):
        self.calls.append(index)
        return self.scale * (scores * targets).sum()


def new(targets):
    return PerLabel(AveragePrecisionLoss, targets, dtype=torch.float64)


def alone(label, rows):
    """The loss of one label, on the rows that have it."""
    loss = AveragePrecisionLoss(LABELS[rows, label], dtype=torch.float64)
    return loss(SCORES[rows, label], LABELS[rows, label], torch.arange(int(rows.sum()))).item()


def test_it_is_the_mean_over_the_labels():
    every = torch.ones(ROWS, dtype=torch.bool)
    found = new(LABELS)(SCORES, LABELS, INDEX).item()
    assert found == pytest.approx(np.mean([alone(label, every) for label in range(3)]), rel=1e-14)


def test_missing_labels_are_left_out():
    found = new(PARTIAL)(SCORES, PARTIAL, INDEX).item()
    assert found == pytest.approx(np.mean([alone(label, ~MISSING[:, label]) for label in range(3)]), rel=1e-14)


def test_scores_of_missing_labels_have_no_gradient():
    scores = SCORES.clone().requires_grad_()
    new(PARTIAL)(scores, PARTIAL, INDEX).backward()
    assert not scores.grad[MISSING].any()


def test_each_label_keeps_its_own_rows():
    loss, rows = new(PARTIAL), torch.tensor([17, 3, 11, 8, 2, 5, 9])
    loss(SCORES[rows], PARTIAL[rows], rows)
    for label, each in enumerate(loss.losses):
        known = rows[~MISSING[rows, label]]
        positive = known[LABELS[known, label] == 1]
        kept = torch.nonzero(~MISSING[:, label])[:, 0][each.ranks.seen]
        assert set(kept.tolist()) <= set(positive.tolist())
        assert each.ranks.u.shape[0] == int((~MISSING[:, label]).sum())


def test_classes_are_labels_against_the_rest():
    found = new(CLASSES)(SCORES, CLASSES, INDEX).item()
    columns = (CLASSES[:, None] == torch.arange(3)).double()
    assert found == pytest.approx(new(columns)(SCORES, columns, INDEX).item(), rel=1e-14)


def test_the_exact_objective_is_that_of_a_first_full_batch():
    assert new(PARTIAL).exact(SCORES, PARTIAL).item() == pytest.approx(
        new(PARTIAL)(SCORES, PARTIAL, INDEX).item(), rel=1e-13
    )


@pytest.mark.parametrize("loss", [AUCLoss, AUCMLoss, PNormPushLoss, TopPushLoss])
def test_it_takes_our_other_losses(loss):
    found = PerLabel(loss, PARTIAL)
    scores = SCORES.clone().requires_grad_()
    found(scores, PARTIAL, INDEX).backward()
    single = loss() if "AUC" in loss.__name__ else loss(LABELS[:, 0])
    known = ~MISSING[:, 0]
    expected = single.exact(SCORES[known, 0], LABELS[known, 0])
    assert torch.isfinite(scores.grad).all()
    assert found.losses[0].exact(SCORES[known, 0], LABELS[known, 0]) == expected


def test_losses_without_state_need_no_index():
    loss = PerLabel(Counted, PARTIAL, scale=2.0)
    found = loss(SCORES, PARTIAL).item()
    expected = torch.where(MISSING, 0.0, SCORES * LABELS).sum(0).mean() * 2.0
    assert found == pytest.approx(expected.item(), rel=1e-14)
    assert loss.losses[0].calls == [None]


def test_every_label_is_called_in_a_batch_without_it():
    """Processes wait for each other inside each call."""
    rows = torch.nonzero(MISSING[:, 0])[:, 0]
    loss = PerLabel(Counted, PARTIAL)
    loss(SCORES[rows], PARTIAL[rows], rows)
    assert len(loss.losses[0].calls) == 1
    assert loss.losses[0].calls[0].shape == (0,)


def test_the_state_is_that_of_all_labels():
    loss, other = new(PARTIAL), new(PARTIAL)
    loss(SCORES, PARTIAL, INDEX)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.losses[2].ranks.u, loss.losses[2].ranks.u)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.zeros(4), r"targets must have shape \(rows, labels\), or be classes \(rows,\) as integers, got \(4,\)"),
        ([[0, 1]], "targets must be a tensor of labels, got list"),
        (torch.tensor([[0.0, 0.0], [1.0, 0.0]]), "label 1: targets must have both classes, got 0 positives in 2"),
        (torch.tensor([[0.0, 2.0], [1.0, 0.0]]), "label 1: targets must be 0 and 1, or -1 and 1, got 2.0"),
    ],
)
def test_wrong_targets_are_refused(targets, message):
    with pytest.raises((TypeError, ValueError), match=message):
        new(targets)


@pytest.mark.parametrize(
    ("scores", "targets", "message"),
    [
        (SCORES[:, :2], LABELS, r"scores must have shape \(rows, 3\), got \(20, 2\)"),
        (SCORES, LABELS[:5], "targets must have as many rows as the scores, 20, got 5"),
        (SCORES, LABELS[:, :2], r"targets must have shape \(rows, 3\)"),
    ],
)
def test_wrong_batches_are_refused(scores, targets, message):
    with pytest.raises(ValueError, match=message):
        new(LABELS)(scores, targets, INDEX)
