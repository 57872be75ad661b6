"""What the worst case over single rows costs: certified fits over logistic regression, iterations and memory by rows.

Run ``python benchmarks/dro.py``. The rival is benchmarks/rival.py with every row a group: smoothing, SciPy's L-BFGS and
a bound without allowance for rounding. ``python benchmarks/dro.py --other PYTHON`` adds the models of the package
`dro` (0.4.3), which that interpreter must have; of what it imports, its linear models need no more than PyTorch.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from rival import rival
from sklearn.linear_model import LogisticRegression

import xrisk

L2, TOL = 1e-3, 1e-3
SHAPES = ((10**3, 10), (10**4, 20), (10**5, 50), (10**6, 20), (20_000, 1_000))
MODELS = {
    "kl, strength 1": {"ambiguity": "kl", "strength": 1.0},
    "kl, radius 0.1": {"ambiguity": "kl", "radius": 0.1},
    "chi2, strength 1": {"ambiguity": "chi2", "strength": 1.0},
    "chi2, radius 0.1": {"ambiguity": "chi2", "radius": 0.1},
    "cvar, alpha 0.5": {"ambiguity": "cvar", "alpha": 0.5},
    "cvar, alpha 0.1": {"ambiguity": "cvar", "alpha": 0.1},
}
RIVALS = {
    "kl, strength 1": {"divergence": "kl", "lam": 1.0},
    "chi2, strength 1": {"divergence": "chi2", "lam": 1.0},
    "cvar, alpha 0.5": {"divergence": "cvar", "alpha": 0.5},
    "cvar, alpha 0.1": {"divergence": "cvar", "alpha": 0.1},
}


def table(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), 2.0 * rng.standard_normal(d) / np.sqrt(d)
    return X, np.where(X @ w + rng.standard_normal(n) > 0, 1.0, -1.0)


def seconds(function):
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def fits(shape, rounds):
    """The least seconds of every fit, in rounds; and whether all were certified."""
    X, y = table(*shape)
    ordinary = LogisticRegression(C=1.0 / (L2 * len(y)), tol=1e-6, max_iter=1000)
    models = {name: xrisk.DROClassifier(**options, l2=L2, tol=TOL) for name, options in MODELS.items()}
    taken = {name: [] for name in ("logistic regression", *models)}
    for _ in range(rounds):
        taken["logistic regression"].append(seconds(lambda: ordinary.fit(X, y)))
        for name, model in models.items():
            taken[name].append(seconds(lambda model=model: model.fit(X, y)))
    rows = np.arange(len(y))
    others = {
        name: seconds(lambda options=options: rival(X, y, rows, l2=L2, tol=TOL, intercept=True, **options))
        for name, options in RIVALS.items()
        if len(y) <= 10**5  # its bisections take minutes beyond
    }
    gaps = {name: model.certificate_.relative for name, model in models.items()}
    return {name: min(times) for name, times in taken.items()}, others, gaps


SAMPLED = """
import sys, time, threading, numpy as np, xrisk
from xrisk.functions import L2, KLBallRisk
from xrisk.inner import LinearModel, Samples, as_rows
path, n = sys.argv[1], int(sys.argv[2])
X = np.load(path, mmap_mode="r")
y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
def problem(k):
    return xrisk.Problem(Samples(LinearModel(as_rows(X[:k]), y[:k])), KLBallRisk(0.1), L2(1e-3))
solver = xrisk.solvers.SCDRO()
def resident():
    with open("/proc/self/status") as status:
        return 1024 * int(dict(line.split(":", 1) for line in status)["RssAnon"].split()[0])
stated, solver = solver.prepare(problem(n))
rng = np.random.default_rng(0)
state = solver.init(stated, solver.start(problem(n), np.zeros(X.shape[1])), rng)
state = solver.advance(stated, state, 20_000, rng)
before, peak, done, times = resident(), [0], [], []
def watch():
    while not done:
        peak[0] = max(peak[0], resident()); time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
for _ in range(10):
    started = time.perf_counter()
    state = solver.advance(stated, state, 5_000, rng)
    times.append((time.perf_counter() - started) / 5_000)
steps = peak[0] - before
value = problem(n).value(solver.solution(state)[:-1])
done.append(1); thread.join()
print(1e6 * min(times), steps / 1e6, (peak[0] - before) / n)
"""


def sampled(n, d=10):
    """Microseconds of an SCDRO iteration on a memory map of n rows, megabytes it adds, bytes a row of the objective."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "X.npy")
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
        rng = np.random.default_rng(0)
        for start in range(0, n, 10**6):
            X[start : start + 10**6] = rng.standard_normal((min(10**6, n - start), d), dtype=np.float32)
        X.flush()
        run = [sys.executable, "-c", SAMPLED, path, str(n)]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


OTHER = """
import sys, time, types, warnings
class Empty(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})
for name in ("torchvision", "torchvision.transforms", "torchvision.models", "xgboost", "lightgbm", "torchattacks"):
    sys.modules[name] = Empty(name)
warnings.simplefilter("ignore")
import numpy as np
from dro.linear_model.chi2_dro import Chi2DRO
from dro.linear_model.cvar_dro import CVaRDRO
from dro.linear_model.kl_dro import KLDRO
n, d = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X, w = rng.standard_normal((n, d)), 2.0 * rng.standard_normal(d) / np.sqrt(d)
y = np.where(X @ w + rng.standard_normal(n) > 0, 1.0, -1.0)
models = (("kl", KLDRO, {"eps": 0.1}), ("chi2", Chi2DRO, {"eps": 0.1}), ("cvar", CVaRDRO, {"alpha": 0.1}))
for name, kind, config in models:
    model = kind(input_dim=d, model_type="logistic")
    model.update(config)
    started = time.perf_counter()
    try:
        model.fit(X, y)
        print(name, f"{time.perf_counter() - started:.2f} s", flush=True)
    except Exception as error:
        print(name, f"fails after {time.perf_counter() - started:.2f} s: {str(error)[:80]}", flush=True)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--other", help="an interpreter that has the package dro")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of models that are nearly constant
    print("DROClassifier certified to 1e-3 over LogisticRegression(tol=1e-6) (at most 3 at 10⁵ × 50), [over the rival]")
    for shape in SHAPES:
        ours, others, gaps = fits(shape, given.rounds)
        base = ours.pop("logistic regression")
        print(f"  {shape[0]:,} × {shape[1]:,}: logistic regression {base:.3f} s")
        for name, least in ours.items():
            beside = f"[{least / others[name]:5.2f}]" if name in others else ""
            print(f"    {name:18s} {least:7.3f} s {least / base:6.2f} {beside}  gap {gaps[name]:.0e}", flush=True)
    print("one SCDRO iteration on a memory map, batch 64 of 10 columns (10⁷ over 10⁴ rows: at most 1.5)")
    first = None
    for n in (10**4, 10**5, 10**6, 10**7):
        micro, mega, each = sampled(n)
        first = first or micro
        print(f"  {n:>10,} rows {micro:7.2f} µs {micro / first:5.2f}", end="  ")
        print(f"iterations add {mega:.1f} MB, the objective {each:.0f} bytes a row", flush=True)
    for shape in ((1_000, 20), (10_000, 50)) if given.other else ():
        beside_dro(given.other, *shape)


def beside_dro(interpreter, n, d):
    """Print the seconds of the models of the package dro and of ours on the same rows."""
    print(f"dro 0.4.3 at {n:,} × {d}, and ours on the same rows")
    print(subprocess.run([interpreter, "-c", OTHER, str(n), str(d)], capture_output=True, text=True).stdout, end="")
    X, y = table(n, d)
    for ambiguity, numbers in (("kl", {"radius": 0.1}), ("chi2", {"radius": 0.1}), ("cvar", {"alpha": 0.1})):
        model = xrisk.DROClassifier(ambiguity, **numbers, l2=L2)
        print(f"  ours, {ambiguity}: {seconds(lambda model=model: model.fit(X, y)):.3f} s", flush=True)


if __name__ == "__main__":
    main()
