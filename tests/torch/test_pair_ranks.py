"""Losses of pairs on two real processes equal one process with the joint batch."""

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import xrisk.torch as xt
from tests.torch.ranks import on_ranks

TARGETS = (torch.arange(60) < 20).long()
DOUBLE = {"dtype": torch.float64}
RATES = {"min_tpr": 0.5, "max_fpr": 0.5, **DOUBLE}
LOSSES = {
    "staco": lambda: xt.TwoWayPartialAUCLoss(TARGETS, **RATES, method=xt.STACORule(gamma=50.0)),
    "sonx": lambda: xt.TwoWayPartialAUCLoss(TARGETS, **RATES, method="sonx"),
    "sota-s": lambda: xt.TwoWayPartialAUCLoss(TARGETS, **RATES, method="sota-s"),
    "pauci": lambda: xt.TwoWayPartialAUCLoss(TARGETS, **RATES, method="pauci"),
    "fpr": lambda: xt.PartialAUCLoss(TARGETS, max_fpr=0.3, **DOUBLE),
    "tpr": lambda: xt.PartialAUCLoss(TARGETS, min_tpr=0.3, **DOUBLE),
    "soft": lambda: xt.PartialAUCLoss(TARGETS, strength=0.5, **DOUBLE),
    "push": lambda: xt.PNormPushLoss(TARGETS, **DOUBLE),
    "top-push": lambda: xt.TopPushLoss(TARGETS, **DOUBLE),
    "aucm": lambda: xt.AUCMLoss(**DOUBLE),
    "auc": lambda: xt.AUCLoss(**DOUBLE),
}


def joint_batch(t):
    """Positives and negatives in random places, one row twice."""
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(t))[:16]
    rows[9] = rows[0]
    return rows


def part(sharing, t, rank, ranks):
    rows = joint_batch(t)
    if ranks == 1:
        return rows
    if sharing == "classes":  # one process has no negatives, the other one no positives
        return rows[TARGETS[rows] == 1 - rank]
    first = {"even": 8, "uneven": 11, "empty": 16}[sharing]
    return rows[:first] if rank == 0 else rows[first:]


def train(rank, ranks, name, sharing):
    """(values, weights and state) after 30 steps."""
    torch.manual_seed(0)
    X = torch.randn(60, 4, dtype=torch.float64) + TARGETS[:, None]
    net, loss = torch.nn.Linear(4, 1).double(), LOSSES[name]()
    model = DistributedDataParallel(net) if ranks > 1 else net
    optimizer, values = torch.optim.SGD(net.parameters(), lr=0.02), []
    for t in range(30):
        rows = part(sharing, t, rank, ranks)
        optimizer.zero_grad()
        value = loss(model(X[rows]).sigmoid(), TARGETS[rows], rows)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return {"values": torch.tensor(values), "weights": net.weight.detach()[0], **loss.state_dict()}


def train_all(rank, ranks, sharing, names):
    """Every loss in turn: starting processes takes longer."""
    return {f"{name}.{key}": each for name in names for key, each in train(rank, ranks, name, sharing).items()}


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["classes", "even", "uneven", "empty"])
def test_two_processes_equal_one_with_the_joint_batch(sharing, tmp_path):
    first, second = on_ranks(2, train_all, tmp_path, sharing, tuple(LOSSES))
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    for name, expected in train_all(0, 1, sharing, tuple(LOSSES)).items():
        np.testing.assert_allclose(first[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)
