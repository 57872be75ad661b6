"""The pAUC columns of the ALEXR paper (section 9.2) that we have data for: test pAUC, ours beside what is published.

``python experiments/alexr/study.py`` writes expected.json (needs covtype.npz and nih_cxr14_logits.npz). Every method is
tuned on the validation rows over its steps, with one seed apart, and run with five.
"""

import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xrisk
from xrisk.applications import partial_auc
from xrisk.datasets import find_file
from xrisk.inner import BatchForAll
from xrisk.metrics import partial_auc_score
from xrisk.run.observers import Trace
from xrisk.solvers import ALEXR, BSGD, OOA, SONX, SOX, CrossEntropy, LastIterate
from xrisk.solvers.catalogue import refusal

HERE = Path(__file__).parent
RATES = (0.5, 0.75)
STEPS = (0.01, 0.1, 1.0)  # of duals and cross-entropy
OWN = (0.0003, 0.003, 0.03)  # of methods on pairs: squares of margins are steep
L2, SEEDS = 1e-4, 5
SIZES = {"blocks": 16, "batch": 16}


class Parts(NamedTuple):
    """Rows and labels ±1 for training, validation and test, columns scaled by the first."""

    name: str
    iterations: int
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def parts(name: str, iterations: int, X: np.ndarray, y: np.ndarray, unit: np.ndarray) -> Parts:
    """Three, one and one fifth of the units (rows or patients)."""
    codes = np.unique(unit, return_inverse=True)[1]
    place = np.random.default_rng(0).permutation(codes.max() + 1)[codes] / (codes.max() + 1)
    kinds = [place < 0.6, (place >= 0.6) & (place < 0.8), place >= 0.8]
    mean, spread = X[kinds[0]].mean(axis=0), X[kinds[0]].std(axis=0)
    X = (X - mean) / np.where(spread > 0.0, spread, 1.0)
    return Parts(name, iterations, *((np.ascontiguousarray(X[kind]), y[kind]) for kind in kinds))


def tables() -> Iterator[Parts]:
    z = np.load(str(find_file("covtype.npz")))
    X = np.hstack([z["num"], np.eye(4)[z["wilderness"]], np.eye(40)[z["soil"]]]).astype(np.float64)
    positive = np.flatnonzero(z["y"] == 2)
    kept = np.random.default_rng(0).choice(positive, positive.size // 200, replace=False)
    rows = np.sort(np.concatenate([kept, np.flatnonzero(z["y"] != 2)]))
    yield parts("Covtype", 1500, X[rows], np.where(z["y"][rows] == 2, 1, -1), np.arange(rows.size))
    z = np.load(str(find_file("nih_cxr14_logits.npz")))
    X, names = z["logits"].reshape(len(z["logits"]), -1).astype(np.float64), [str(name) for name in z["label_names"]]
    for name in ("Cardiomegaly", "Mass"):
        yield parts(name, 750, X, np.where(z["labels"][:, names.index(name)] > 0, 1, -1), z["patient"])


def settings() -> dict[str, list[Any]]:
    """Methods, each at the cells of its grid."""
    last = {"average": LastIterate(), **SIZES}
    two = list(itertools.product(OWN, STEPS))
    return {
        "CE": [CrossEntropy(step, **last) for step in STEPS],
        "OOA": [OOA(step, dual, **SIZES) for step, dual in two],
        "BSGD": [BSGD(step, **last) for step in OWN],
        "SOX": [SOX(step, track, **last) for step, track in itertools.product(OWN, (0.1, 0.5, 0.9))],
        "SONX": [SONX(step, track, **last) for step, track in itertools.product(OWN, (0.1, 0.5, 0.9))],
        "ALEXR": [ALEXR(step, dual, **last) for step, dual in two],
    }


def score(rows: tuple[np.ndarray, np.ndarray], w: np.ndarray, min_tpr: float) -> float:
    if not np.isfinite(w).all():
        return -1.0
    return partial_auc_score(rows[1] > 0, rows[0] @ w, min_tpr=min_tpr, method="counts")


def found_by(problem: Any, solver: Any, iterations: int, seed: int) -> np.ndarray:
    budget = xrisk.Budget(iterations=iterations)
    return xrisk.minimize(problem, solver, budget=budget, rng=seed, trace=Trace(1e18)).w


def column(part: Parts, min_tpr: float) -> dict[str, list[float]]:
    """Test pAUC of every method and seed."""
    stated = partial_auc(*part.train, min_tpr=min_tpr, loss="squared_hinge", l2=L2)
    shared = stated._replace(inner=stated.inner._replace(sampling=BatchForAll()))
    table = {}
    for name, cells in settings().items():
        cells = [cell for cell in cells if refusal(shared, cell) is None]
        if not cells:
            continue
        tried = [score(part.validation, found_by(shared, cell, part.iterations, 10**6), min_tpr) for cell in cells]
        best = cells[int(np.argmax(tried))]
        runs = [found_by(shared, best, part.iterations, seed) for seed in range(SEEDS)]
        table[name] = [round(score(part.test, w, min_tpr), 4) for w in runs]
    optimum = xrisk.minimize(stated, xrisk.solvers.Bundle(), budget=xrisk.Budget(iterations=1000))
    table["certified optimum"] = [round(score(part.test, optimum.w, min_tpr), 4)]
    default = xrisk.PartialAUCClassifier(min_tpr, random_state=0).fit(*part.train)
    table["default"] = [round(score(part.test, default.coef_[0].astype(np.float64), min_tpr), 4)]
    return table


def main() -> None:
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for part in tables():
        for min_tpr in RATES:
            found[f"{part.name}, {min_tpr:g}"] = here = column(part, min_tpr)
            print(part.name, min_tpr, {name: round(float(np.mean(v)), 3) for name, v in here.items()}, flush=True)
            (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
