"""Rare positives with a small network: cross-entropy, then the corner of the ROC curve that matters.

Run ``python examples/torch_rare_positives.py``; it takes about half a minute. Two kinds of positives, 3 % of the rows,
one of them hard to tell from the negatives. The network is trained by cross-entropy first. Then the same network is
trained further by cross-entropy and by `xrisk.torch.TwoWayPartialAUCLoss`, and both are scored on test rows.
"""

import copy

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import xrisk.torch as xt
from xrisk.metrics import partial_auc_score

MIN_TPR, MAX_FPR = 0.5, 0.3
SEEDS = 3


def rows(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 8))
    easy = X[:, 0] + 0.5 * rng.standard_normal(count) > 2.6
    hard = X[:, 1] * X[:, 2] - X[:, 0] + rng.standard_normal(count) > 4.0
    return torch.tensor(X, dtype=torch.float32), torch.tensor(easy | hard, dtype=torch.float32)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1), torch.nn.Flatten(0))


def cross_entropy(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for x, t in DataLoader(TensorDataset(X, y), batch_size=128, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(model(x), t).backward()
            optimizer.step()


def partial_auc(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor, epochs: int, seed: int) -> None:
    loss = xt.TwoWayPartialAUCLoss(y, min_tpr=MIN_TPR, max_fpr=MAX_FPR)
    batches = xt.ClassBatches(y, positives=16, negatives=112, steps=epochs * len(y) // 128, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, t, index in DataLoader(xt.Indexed(TensorDataset(X, y)), batch_sampler=batches):
        optimizer.zero_grad()
        loss(model(x).sigmoid(), t, index).backward()
        optimizer.step()


def score(model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return partial_auc_score(y.numpy(), model(X).numpy(), min_tpr=MIN_TPR, max_fpr=MAX_FPR)


def main() -> None:
    torch.set_num_threads(1)
    test = rows(40_000, seed=1000)
    found: dict[str, list[float]] = {"cross-entropy": [], "… trained further": [], "… then partial AUC": []}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        train, first = rows(8_000, seed), network()
        cross_entropy(first, *train, epochs=20)
        further, robust = copy.deepcopy(first), copy.deepcopy(first)
        cross_entropy(further, *train, epochs=10)
        partial_auc(robust, *train, epochs=10, seed=seed)
        for name, model in zip(found, (first, further, robust), strict=True):
            found[name].append(score(model, *test))
    print(f"test partial AUC, TPR ≥ {MIN_TPR}, FPR ≤ {MAX_FPR}, {SEEDS} seeds")
    for name, scores in found.items():
        print(f"{name:<20}{np.mean(scores):.3f} ± {np.std(scores):.3f}")


if __name__ == "__main__":
    main()
