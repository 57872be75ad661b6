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


def first_run(code, cache):
    """Seconds of the first solve or fit in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code.format(folder=os.path.dirname(os.path.abspath(__file__)))],
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


SHAPES = {  # rows, columns, groups, entries of a sparse row; ratios over LogisticRegression that we hold ourselves to
    "22,792 × 123, 83 groups (Adult's shape)": (22_792, 123, 83, 0, 2.0),
    "10⁵ × 20, 100 groups": (100_000, 20, 100, 0, 1.5),
    "10⁶ × 20, 100 groups": (1_000_000, 20, 100, 0, 1.5),
    "10⁶ × 50, 1,000 groups": (1_000_000, 50, 1_000, 0, 1.0),
    "20,000 × 1,000, 50 groups": (20_000, 1_000, 50, 0, 3.0),
    "5,000 × 3,000, 20 groups": (5_000, 3_000, 20, 0, 1.5),
    "20,000 × 40,000 CSR, 60 a row, 30 groups": (20_000, 40_000, 30, 60, 1.0),
}


def grouped(rows, columns, n_groups, entries, seed=0):
    """A table whose groups have models of their own around a common one, labels by logistic noise."""
    import scipy.sparse

    rng = np.random.default_rng(seed)
    if columns == COLUMNS:
        return table()
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, rows - n_groups)])
    if entries:
        X = scipy.sparse.random_array((rows, columns), density=entries / columns, format="csr", rng=rng)
        X.data = rng.standard_normal(X.nnz)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    else:
        X = rng.standard_normal((rows, columns))
    common, own = rng.standard_normal(columns), rng.standard_normal((n_groups, min(columns, 50)))
    scale = np.sqrt(entries or columns)
    z = X @ (common / scale) + 0.5 * np.asarray(X[:, : own.shape[1]] @ own.T)[np.arange(rows), groups] / scale
    return X, np.where(z + 0.5 * rng.logistic(size=rows) > 0, 1, -1), groups


def robust_over_ordinary(shape, divergence="cvar", intercept=True, rounds=3):
    """Seconds of a certified group-robust fit, of the rival and of a logistic regression of the same rows and l2."""
    from rival import rival
    from sklearn.linear_model import LogisticRegression

    X, y, groups = grouped(*shape[:4])
    robust = xrisk.GroupDROClassifier(divergence, alpha=ALPHA, fit_intercept=intercept)
    ordinary = LogisticRegression(C=1.0 / (robust.l2 * y.size), tol=1e-6, max_iter=10_000, fit_intercept=intercept)
    seconds = []
    contestants = (
        lambda: ordinary.fit(X, y),
        lambda: robust.fit(X, y, groups=groups),
        lambda: rival(X, y, groups, divergence, ALPHA, l2=robust.l2, intercept=intercept),
    )
    for _ in range(rounds + 1):  # the first compiles
        times = []
        for run in contestants:
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        seconds.append(times)
    return (*np.min(seconds[1:], axis=0), robust.certificate_.relative)


def print_fits():
    print("certified to 1e-3, over LogisticRegression(tol=1e-6) and over the rival of rival.py; seconds")
    for intercept in (True, False):
        print(f"  with{'' if intercept else 'out'} an intercept, CVaR")
        for name, shape in SHAPES.items():
            print_fit(name, shape, "cvar", intercept)
    for divergence in ("max", "chi2", "kl"):
        print(f"  with an intercept, {divergence}")
        for name, shape in SHAPES.items():
            print_fit(name, shape, divergence, True)
    print("  small tables, with an intercept")
    for divergence in ("cvar", "max", "chi2", "kl"):
        for shape in ((1_000, 10, 10, 0, np.nan), (10_000, 20, 20, 0, np.nan)):
            print_fit(f"{shape[0]:,} × {shape[1]}, {shape[2]} groups, {divergence}", shape, divergence, True)


def print_fit(name, shape, divergence, intercept):
    ordinary, ours, theirs, gap = robust_over_ordinary(shape, divergence, intercept)
    bar = f"(at most {shape[4]:.1f})" if divergence == "cvar" and shape[4] == shape[4] else ""
    ratios = f"over LR {ours / ordinary:5.2f} {bar:14s} over rival {ours / theirs:5.2f}"
    print(f"    {name:44s} {ours:7.3f}  {ratios}  gap {gap:.0e}", flush=True)


def thread_speed_up(rounds=7):
    """Seconds of scores, walk and adjoint of 10⁶ × 20 on one thread over those on two."""
    from xrisk.data import threads
    from xrisk.inner.passes import adjoint, scores_at, scores_only, walk
    from xrisk.inner.visitors import LossValues

    X, y, groups = grouped(1_000_000, 20, 100, 0)
    g = xrisk.group_dro(X, y, groups, l2=1e-3).inner
    w, share, kept = np.full(20, 0.1), np.full(100, 0.01), threads.threads
    seconds = {1: [], 2: []}
    for _ in range(rounds + 1):
        for count in seconds:
            threads.threads = lambda count=count: count
            started = time.perf_counter()
            adjoint(g, walk(g, LossValues(), scores_only(g, scores_at(g, w)), share).coefs)
            seconds[count].append(time.perf_counter() - started)
    threads.threads = kept
    return min(seconds[1][1:]) / min(seconds[2][1:])


MEMORY = """
import resource, sys, numpy as np, xrisk
kind, dtype, path = sys.argv[1:]
n, d = 500_000, 100
rng = np.random.default_rng(0)
X = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(n, d))
for start in range(0, n, 50_000):
    X[start : start + 50_000] = rng.standard_normal((50_000, d))
y = np.where(X[:, 0] + X[:, 1] + rng.logistic(size=n) > (0.0 if kind == "groups" else 6.5), 1, -1)
groups = rng.integers(0, 50, n)
X.flush(); del X
X = np.load(path, mmap_mode="r")
small = np.array(X[:5000]), y[:5000].copy()
small[1][:40] = 1
model = xrisk.GroupDROClassifier(alpha=0.1) if kind == "groups" else xrisk.PNormPushClassifier(p=2.0)
meta = (lambda k: {"groups": groups[:k]}) if kind == "groups" else (lambda k: {})
model.fit(*small, **meta(5000))
def resident():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return 1024 * int(lines["RssAnon"].split()[0])
import threading, time
before, peak, done = resident(), [0], []
def watch():
    while not done:
        peak[0] = max(peak[0], resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
model.fit(X, y, **meta(n)); done.append(1); thread.join()
print((peak[0] - before) / (n * d * np.dtype(dtype).itemsize), model.certificate_.relative)
"""


def peak_memory(kind, dtype):
    """Peak extra memory of a fit on a memory map of 500,000 × 100, over the map's size; and the certified gap."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, kind, dtype, os.path.join(folder, "X.npy")],
            capture_output=True,
            text=True,
            check=True,
        )
    return [float(number) for number in done.stdout.split()]


FIRST_FIT = """
import time, numpy as np, xrisk
xrisk.GroupDROClassifier
rng = np.random.default_rng(0)
X, groups = rng.standard_normal((2000, 10)), rng.integers(0, 20, 2000)
y = np.where(X[:, 0] > 0, 1, -1)
started = time.perf_counter()
xrisk.GroupDROClassifier(alpha=0.1).fit(X, y, groups=groups)
print(time.perf_counter() - started)
"""


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
    print(f"import xrisk over scikit-learn and numba         (at most 1.2)  {import_ratio():8.2f}")
    with tempfile.TemporaryDirectory() as cache:
        print(f"first solve in a new process, nothing compiled                  {first_run(FIRST_SOLVE, cache):8.2f} s")
        print(f"first solve in a new process, kernels on disk    (at most 1 s)  {first_run(FIRST_SOLVE, cache):8.2f} s")
    with tempfile.TemporaryDirectory() as cache:
        print(f"first fit in a new process, nothing compiled     (at most 8 s)  {first_run(FIRST_FIT, cache):8.2f} s")
        print(f"first fit in a new process, kernels on disk                     {first_run(FIRST_FIT, cache):8.2f} s")
    print(f"a pass over 10⁶ × 20 on one thread over two      (at least 1.6) {thread_speed_up():8.2f}")
    for kind in ("groups", "ranking"):
        for dtype in ("float64", "float32"):
            share, gap = peak_memory(kind, dtype)
            print(f"peak extra memory on a memory map, {kind}, {dtype} (at most 0.20) {share:6.2f}  gap {gap:.0e}")
    print_fits()


if __name__ == "__main__":
    main()
