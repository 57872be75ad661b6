"""Speed as ratios in one process: one ALEXR iteration against dotting the same rows, and against PyTorch.

The setting is that of the ALEXR experiments on Adult: 22,792 rows, 123 columns, 83 groups, CVaR at α = 0.1,
S = B = 8, θ = 1.
Run ``python benchmarks/speed.py``; ratios are medians over rounds in which the contestants take turns.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import xrisk
from xrisk.compile import kernel
from xrisk.data.rows import row_dot
from xrisk.solvers import ALEXR, LastIterate

ROWS, COLUMNS, GROUPS, BLOCKS, BATCH, ALPHA, L2, STEP, DUAL_STEP = 22_792, 123, 83, 8, 8, 0.1, 0.05, 0.05, 0.1

FIRST_SOLVE = """
import time
import xrisk
started = time.perf_counter()
import sys
sys.path.insert(0, {folder!r})
from speed import table
X, y, groups = table()
problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.1, l2=0.05)
started = time.perf_counter()
xrisk.minimize(problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=100), rng=0)
print(time.perf_counter() - started)
"""


def table():
    """A table of Adult's shape: about 14 of 123 indicators set, two classes, 83 groups of uneven size."""
    rng = np.random.default_rng(0)
    X = (rng.random((ROWS, COLUMNS)) < 14 / COLUMNS).astype(np.float64)
    y = np.where(X @ rng.standard_normal(COLUMNS) + rng.logistic(size=ROWS) > 0, 1, -1)
    share = rng.dirichlet(np.full(GROUPS, 2.0))
    groups = np.concatenate([np.arange(GROUPS), rng.choice(GROUPS, ROWS - GROUPS, p=share)])
    return X, y, np.sort(groups)


@kernel
def dot_rows(rows, chosen, w):
    total = 0.0
    for t in range(chosen.shape[0]):
        for k in chosen[t]:
            total += row_dot(rows, k, w)
    return total


def rows_of(offsets, steps, rng):
    """The rows an ALEXR run of so many steps would touch: 8 groups, 16 rows of each."""
    groups = np.stack([rng.choice(GROUPS, BLOCKS, replace=False) for _ in range(steps)])
    low, high = offsets[groups], offsets[groups + 1]
    return rng.integers(low[..., None], high[..., None], (steps, BLOCKS, 2 * BATCH)).reshape(steps, -1)


def torch_loop(X, y, offsets, steps):
    """The same algorithm as one would first write it in PyTorch, one thread."""
    import torch

    torch.set_num_threads(1)
    X, y = torch.from_numpy(X), torch.from_numpy(y.astype(np.float64))
    rng = np.random.default_rng(0)
    w = torch.zeros(COLUMNS, dtype=torch.float64)
    w_prev, c, c_prev = w.clone(), 0.7, 0.7
    duals = torch.zeros(GROUPS, dtype=torch.float64)
    started = time.perf_counter()
    for _ in range(steps):
        sampled = rng.choice(GROUPS, BLOCKS, replace=False)
        grad, grad_c = torch.zeros_like(w), 1.0
        for i in sampled:
            first = torch.from_numpy(rng.integers(offsets[i], offsets[i + 1], BATCH))
            second = torch.from_numpy(rng.integers(offsets[i], offsets[i + 1], BATCH))
            value = torch.nn.functional.softplus(-y[first] * (X[first] @ w)).mean() - c
            value_prev = torch.nn.functional.softplus(-y[first] * (X[first] @ w_prev)).mean() - c_prev
            duals[i] = torch.clamp(duals[i] + DUAL_STEP * (2.0 * value - value_prev), 0.0, 1.0 / ALPHA)
            slope = -y[second] * torch.sigmoid(-y[second] * (X[second] @ w))
            grad += duals[i] * (X[second].T @ slope) / (BATCH * BLOCKS)
            grad_c -= float(duals[i]) / BLOCKS
        w_prev, c_prev = w, c
        w = (w - STEP * grad) / (1.0 + STEP * L2)
        c = c - STEP * grad_c
    return (time.perf_counter() - started) / steps


def first_solve(cache):
    """Seconds of the first solve in a new process."""
    code = FIRST_SOLVE.format(folder=os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def iteration_ratios(rounds=15, steps=4000):
    X, y, groups = table()
    stated = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=ALPHA, l2=L2)
    chosen = ALEXR(STEP, DUAL_STEP, theta=1.0, blocks=BLOCKS, batch=BATCH, average=LastIterate())
    problem, solver = chosen.prepare(stated)
    rng = np.random.default_rng(0)
    state = solver.init(problem, solver.start(stated, np.zeros(COLUMNS)), rng)
    state = solver.advance(problem, state, 10, rng)
    rows, offsets = stated.inner.model.rows, stated.inner.offsets
    w = rng.standard_normal(COLUMNS)
    dot_rows(rows, rows_of(offsets, 10, rng), w)
    ours, dots, torch_seconds = [], [], []
    for _ in range(rounds):
        touched = rows_of(offsets, steps, rng)
        started = time.perf_counter()
        dot_rows(rows, touched, w)
        dots.append((time.perf_counter() - started) / steps)
        started = time.perf_counter()
        state = solver.advance(problem, state, steps, rng)
        ours.append((time.perf_counter() - started) / steps)
        torch_seconds.append(torch_loop(X, y, offsets, 30))
    return np.median(ours), np.median(np.array(ours) / dots), np.median(np.array(ours) / torch_seconds)


def robust_over_ordinary(rounds=5):
    """A certified group-robust fit over a logistic regression of the same rows and penalty; Adult if it is there."""
    from sklearn.linear_model import LogisticRegression

    try:
        adult = xrisk.datasets.load_adult("train", random_state=0)
        X, y, groups, name = np.ascontiguousarray(adult.X, dtype=np.float64), adult.y, adult.groups, "Adult"
    except OSError:
        (X, y, groups), name = table(), "a table of Adult's shape"
    robust = xrisk.GroupDROClassifier(alpha=ALPHA)
    ordinary = LogisticRegression(C=1.0 / (robust.l2 * y.size), tol=1e-6, max_iter=10_000)
    robust.fit(X, y, groups=groups)
    ratios, seconds = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        ordinary.fit(X, y)
        between = time.perf_counter()
        robust.fit(X, y, groups=groups)
        seconds.append(time.perf_counter() - between)
        ratios.append(seconds[-1] / (between - started))
    return name, robust.certificate_, float(np.median(seconds)), float(np.median(ratios))


def import_ratio(rounds=5):
    """Seconds of ``import xrisk`` over those of what it stands on, each in a new process."""

    def seconds(code):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    pairs = [(seconds("import xrisk"), seconds("import sklearn.linear_model, numba")) for _ in range(rounds)]
    return float(np.median([ours / theirs for ours, theirs in pairs]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    seconds, over_dots, over_torch = iteration_ratios(parser.parse_args().rounds)
    print(f"one ALEXR iteration (83 groups, d = 123, S = B = 8, θ = 1)      {1e6 * seconds:8.1f} µs")
    print(f"  over dotting the same 128 rows                 (at most 1.5)  {over_dots:8.2f}")
    print(f"  over a straightforward PyTorch loop            (at most 1/100)  1/{1 / over_torch:.0f}")
    name, certificate, seconds, ratio = robust_over_ordinary()
    print(f"GroupDROClassifier(alpha=0.1) on {name}, certified to {certificate.relative:.0e}  {seconds:8.2f} s")
    print(f"  over LogisticRegression(tol=1e-6)              (at most 5)    {ratio:8.2f}")
    print(f"import xrisk over scikit-learn and numba         (at most 1.2)  {import_ratio():8.2f}")
    with tempfile.TemporaryDirectory() as cache:
        print(f"first solve in a new process, nothing compiled                  {first_solve(cache):8.2f} s")
        print(f"first solve in a new process, kernels on disk    (at most 1 s)  {first_solve(cache):8.2f} s")


if __name__ == "__main__":
    main()
