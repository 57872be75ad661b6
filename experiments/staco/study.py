"""The linear columns of the STACO paper: test TPAUC of ijcnn1, ours beside the published numbers, and of other tables.

``python experiments/staco/study.py [table …]`` writes expected.json for the tables whose files are in the data folder.
Steps are tuned as in the paper by the fifth of the training rows that is left out; five folds.
"""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold

import xrisk
from xrisk.applications import two_way_partial_auc
from xrisk.datasets import find_file
from xrisk.metrics import partial_auc_score
from xrisk.solvers import AUCM, PAUCI, STACO1, CrossEntropy, LastIterate, SOTAs, Stagewise, TailSONX

HERE = Path(__file__).parent
RATES = ((0.5, 0.5), (0.25, 0.75))  # (min_tpr, max_fpr): θ = (0.5, 0.5) and (0.75, 0.75)
ITERATIONS, MARGIN, DECAY, FOLDS = 3000, 0.5, 2e-4, 5
STEPS, SMALL = (0.01, 0.1, 0.5), (0.001, 0.01, 0.1)
GRIDS = {"CE": SMALL, "AUCM": STEPS, "SOTA-s": SMALL, "PAUCI": STEPS, "SONX": SMALL, "STACO": STEPS}
OF_ROWS = ("CE", "PAUCI")  # they have no margin
PUBLISHED = {
    "CE": (0.230, 0.581),
    "AUCM": (0.487, 0.728),
    "SOTA-s": (0.637, 0.813),
    "PAUCI": (0.664, 0.830),
    "SONX": (0.633, 0.810),
    "STACO": (0.682, 0.839),
}


def falling(step: float) -> Stagewise:
    """A tenth after 500 iterations, and again after 1,500."""
    return Stagewise(step, 0.1, 500, 2.0)


def methods(step: float) -> dict[str, Any]:
    """The sampled methods at a step size.

    Those with a margin of 0.5 are run with one of 1: there scores are twice as large, and losses four times.
    """
    own, dual, tail = falling(step / 4.0), falling(step / 4.0), falling(4.0 * step)
    sizes = {"blocks": 32, "batch": 32}
    return {
        "CE": CrossEntropy(falling(step), average=LastIterate(), **sizes),
        "AUCM": AUCM(own, margin=1.0, **sizes),
        "SOTA-s": SOTAs(own, lam=4.0, outer_lam=4.0, average=LastIterate(), **sizes),
        "PAUCI": PAUCI(step, **sizes),
        "SONX": TailSONX(own, tail, tail, **sizes),
        "STACO": STACO1(own, dual, tail, tail, average=LastIterate(), **sizes),
    }


class Table(NamedTuple):
    """Training rows and test rows with labels ±1, and whose the training rows are where one owner has several."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    owner: np.ndarray | None = None

    def folds(self) -> Any:
        """Five times the rows to train on, and those to choose a step by."""
        if self.owner is None:
            return StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(self.X, self.y)
        return GroupKFold(FOLDS).split(self.X, self.y, self.owner)


def scaled(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, owner: Any = None) -> Table:
    """Columns to mean 0 and variance 1 in the training rows."""
    mean, size = X[train].mean(axis=0), X[train].std(axis=0)
    Z = (X - mean) / np.where(size > 0, size, 1.0)
    return Table(Z[train], y[train], Z[test], y[test], None if owner is None else owner[train])


def ijcnn1(z: Any) -> Table:
    return Table(*(z[f"{k}_{part}"].astype(t) for part in ("train", "test") for k, t in (("X", float), ("y", int))))


def covertype(z: Any) -> Table:
    """Class 2 against the rest: the first 80 % of the rows for training, then 99.5 % of the positives dropped."""
    y = np.where(z["y"] == 2, 1, -1)
    kept = np.flatnonzero((y < 0) | (np.random.default_rng(0).random(y.size) < 0.005))
    X = np.hstack([z["num"][kept], np.eye(4)[z["wilderness"][kept]], np.eye(40)[z["soil"][kept]]]).astype(np.float64)
    cut = int(np.searchsorted(kept, 0.8 * y.size))
    return scaled(X, y[kept], np.arange(cut), np.arange(cut, kept.size))


def xrays(z: Any, label: str) -> Table:
    """Logits of eight networks as 112 columns; of the patients 60 % are for training."""
    X = z["logits"].reshape(len(z["logits"]), -1).astype(np.float64)
    y = np.where(z["labels"][:, [str(n) for n in z["label_names"]].index(label)] > 0, 1, -1)
    patients = np.unique(z["patient"])
    chosen = np.random.default_rng(0).permutation(patients)[: int(0.6 * patients.size)]
    inside = np.isin(z["patient"], chosen)
    return scaled(X, y, np.flatnonzero(inside), np.flatnonzero(~inside), z["patient"])


TABLES: dict[str, tuple[str, Callable[[Any], Table]]] = {
    "ijcnn1": ("ijcnn1.npz", ijcnn1),
    "Cardiomegaly": ("nih_cxr14_logits.npz", lambda z: xrays(z, "Cardiomegaly")),
    "Mass": ("nih_cxr14_logits.npz", lambda z: xrays(z, "Mass")),
    "Covertype": ("covtype.npz", covertype),
}


def ranges(name: str) -> tuple[tuple[float, float], ...]:
    """The ranges of a table: both of the one that numbers were published of, the first of the others."""
    return RATES if name == "ijcnn1" else RATES[:1]


def score(y: np.ndarray, z: np.ndarray, rates: tuple[float, float]) -> float:
    return partial_auc_score(y > 0, z, min_tpr=rates[0], max_fpr=rates[1], method="counts")


def worth(y: np.ndarray, z: np.ndarray, rates: tuple[float, float]) -> float:
    """The score of rows left out; scores that all tie, of a run that diverged, are not chosen: ties count one half."""
    return score(y, z, rates) if np.isfinite(z).all() and np.ptp(z) > 0.0 else -1.0


def sampled(X: np.ndarray, y: np.ndarray, rates: tuple[float, float], name: str, step: float, seed: int) -> np.ndarray:
    """The weights that a method finds."""
    margin = 1.0 if name in OF_ROWS else MARGIN
    stated = two_way_partial_auc(X / margin, y, min_tpr=rates[0], max_fpr=rates[1], l2=DECAY / margin**2)
    run = xrisk.minimize(stated, methods(step)[name], budget=xrisk.Budget(iterations=ITERATIONS), rng=seed)
    return run.w


def exact(X: np.ndarray, y: np.ndarray, rates: tuple[float, float]) -> dict[str, Any]:
    """Models that are not sampled."""
    convex = xrisk.TwoWayPartialAUCClassifier(*rates, surrogate="convex", l2=1e-3, tol=1e-3)
    return {
        "logistic regression": LogisticRegression(C=1e4 / y.size, max_iter=2000),
        "balanced logistic regression": LogisticRegression(C=1e4 / y.size, class_weight="balanced", max_iter=2000),
        "certified optimum, squared hinge": convex,
        "default, bounded surrogate": xrisk.TwoWayPartialAUCClassifier(*rates, random_state=0),
    }


def study(data: Table, rates: tuple[float, float]) -> dict[str, list[float]]:
    """Test scores of every model, trained without one fold after the other."""
    table: dict[str, list[float]] = {}
    for seed, (train, left) in enumerate(data.folds()):
        X, y, X_left, y_left = data.X[train], data.y[train], data.X[left], data.y[left]
        for name, steps in GRIDS.items():
            tried = [sampled(X, y, rates, name, step, seed) for step in steps]
            best = max(tried, key=lambda w: worth(y_left, X_left @ w, rates))
            table.setdefault(name, []).append(round(score(data.y_test, data.X_test @ best, rates), 4))
        for name, model in exact(X, y, rates).items():
            scores = model.fit(X, y).decision_function(data.X_test)
            table.setdefault(name, []).append(round(score(data.y_test, scores, rates), 4))
    return table


def cell(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ({np.std(values):.3f})"


def as_markdown(name: str, found: dict[str, Any]) -> str:
    """The table of README.md; numbers were published of ijcnn1."""
    known = [found[f"{low:g}, {high:g}"] for low, high in ranges(name)]
    lines = []
    for method in known[0]:
        theirs = [f"{x:.3f}" for x in PUBLISHED.get(method, ())] or ["–", "–"]
        pairs = zip(theirs, (cell(table[method]) for table in known), strict=False)
        lines.append(" | ".join([f"| {method}", *(f"{a} | {b}" if name == "ijcnn1" else b for a, b in pairs)]) + " |")
    thetas = [f"({1 - low:g}, {high:g})" for low, high in ranges(name)]
    heads = [f"published, θ = {t} | ours" if name == "ijcnn1" else f"θ = {t}" for t in thetas]
    return "\n".join([f"| method | {' | '.join(heads)} |", "|---" * (lines[0].count("|") - 1) + "|", *lines])


def main(wanted: list[str]) -> None:
    target = HERE / "expected.json"
    known = json.loads(target.read_text()) if target.exists() else {}
    warnings.simplefilter("ignore")
    for name, (file, opened) in TABLES.items():
        path = find_file(file)
        if path is None or (wanted and name not in wanted):
            continue
        data = opened(np.load(path))
        found: dict[str, Any] = {
            "train": [int((data.y > 0).sum()), int((data.y < 0).sum())],
            "test": [int((data.y_test > 0).sum()), int((data.y_test < 0).sum())],
        }
        for rates in ranges(name):
            here = found[f"{rates[0]:g}, {rates[1]:g}"] = study(data, rates)
            print(name, rates, {method: cell(values) for method, values in here.items()}, flush=True)
        known[name] = found
        target.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
