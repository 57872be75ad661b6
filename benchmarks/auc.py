"""Time of one iteration of the methods for two-way partial AUC, and of STACO1 as a plain PyTorch loop.

Run ``python benchmarks/auc.py``; the shape is that of ijcnn1: 35,000 rows of 22 numbers, 9.7 % of them positive, 32
positives and two batches of 32 negatives per iteration. Without PyTorch its line is left out.
"""

import time

import numpy as np

from xrisk.applications import two_way_partial_auc
from xrisk.solvers import AUCM, PAUCI, SOTA, STACO1, STACO2, AllThresholds, CrossEntropy, SOTAs, TailSONEX, TailSONX

ROWS, FEATURES, POSITIVE, STEPS = 35_000, 22, 0.097, 1_000
METHODS = {
    "STACO1": STACO1(),
    "STACO2": STACO2(),
    "SONX": TailSONX(),
    "SONEX": TailSONEX(),
    "SOTA": SOTA(),
    "SOTA, all thresholds": SOTA(coordinates=AllThresholds()),
    "SOTA-s": SOTAs(),
    "PAUCI": PAUCI(),
    "AUCM": AUCM(),
    "cross-entropy": CrossEntropy(),
}


def rows(n=ROWS, share=POSITIVE):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) < round(share * n), 1, -1)
    X = rng.standard_normal((n, FEATURES))
    X[y == 1] += np.linspace(-0.4, 0.4, FEATURES)
    order = rng.permutation(n)
    return X[order], y[order]


def iteration(solver, X, y, loss="squared_hinge", rounds=40):
    """Microseconds of an iteration, the least of some rounds."""
    stated = two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, loss=loss, l2=1e-3)
    problem, solver = solver.prepare(stated)
    rng = np.random.default_rng(0)
    state = solver.init(problem, solver.start(stated, np.zeros(X.shape[1])), rng)
    state, seconds = solver.advance(problem, state, 10, rng), []
    for _ in range(rounds):
        started = time.perf_counter()
        state = solver.advance(problem, state, STEPS, rng)
        seconds.append(time.perf_counter() - started)
    return 1e6 * min(seconds) / STEPS


def torch_iteration(X, y, steps=2_000, rounds=3):
    """Microseconds of STACO1 with squared hinges as one writes it in PyTorch, gradients by hand."""
    import torch

    torch.set_num_threads(1)
    above, below = torch.from_numpy(X[y == 1]), torch.from_numpy(X[y == -1])
    w, s, dual = torch.zeros(FEATURES, dtype=torch.float64), torch.zeros(len(above)), torch.ones(len(above))
    s, dual, level, theta, seconds = s.double(), dual.double(), 0.0, 0.5, []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(steps):
            i = torch.randint(len(above), (32,))
            batch, again = below[torch.randint(len(below), (32,))], below[torch.randint(len(below), (32,))]
            x, si = above[i], s[i]
            scores = x @ w
            losses = torch.clamp(1.0 - scores[:, None] + batch @ w, min=0.0) ** 2
            value = si + torch.clamp(losses - si[:, None], min=0.0).mean(dim=1) / theta
            yi = torch.clamp(dual[i] + 0.5 / theta * (value - level), 0.0, 1.0)
            gap = torch.clamp(1.0 - scores[:, None] + again @ w, min=0.0)
            hit = (gap**2 > si[:, None]).double()
            slope = -2.0 * yi[:, None] * hit * gap / (theta * theta * 32 * 32)
            dual[i], s[i] = yi, si - 0.05 / theta * yi * (1.0 - hit.mean(dim=1) / theta)
            w = (w - 0.05 * (slope.sum(dim=1) @ x - slope.sum(dim=0) @ again)) / (1.0 + 0.05 * 1e-3)
            level = level - 0.05 * (1.0 - yi.mean() / theta)
        seconds.append(time.perf_counter() - started)
    return 1e6 * min(seconds) / steps


def main():
    X, y = rows()
    print(f"one iteration, {ROWS:,} × {FEATURES}, {POSITIVE:.1%} positive, S = B = 32, squared hinge; microseconds")
    for name, solver in METHODS.items():
        print(f"  {name:22s} {iteration(solver, X, y):7.2f}", flush=True)
    print("STACO1 with other losses, and with a million positives; microseconds")
    for loss in ("hinge", "logistic"):
        print(f"  {loss:22s} {iteration(STACO1(), X, y, loss):7.2f}", flush=True)
    print(f"  {'a million positives':22s} {iteration(STACO1(), *rows(1_100_000, 1 / 1.1)):7.2f}", flush=True)
    try:
        print(f"  {'PyTorch':22s} {torch_iteration(X, y):7.2f}")
    except ModuleNotFoundError:
        print("  PyTorch is not installed")


if __name__ == "__main__":
    main()
