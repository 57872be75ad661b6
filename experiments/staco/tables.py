"""Rare positives on real tables: partial AUC of held-out rows, for logistic models, convex optima and the default.

``python experiments/staco/tables.py`` writes tables.json; every table is split five times, and what is in the table of
README.md are means and standard deviations over the splits.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xrisk
from xrisk.datasets import find_file
from xrisk.metrics import partial_auc_score

HERE = Path(__file__).parent
RANGES = ((0.5, 0.3), (0.5, 0.05), (0.0, 0.05))
SPLITS, TEST = 5, 0.4
MOST = 15_000  # rows of a table


def rare(y: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """Rows with the positives thinned out."""
    return np.flatnonzero(~y | (np.random.default_rng(seed).random(y.size) < share))


class Table(NamedTuple):
    """Rows, which of them are positive, and whose they are where one owner has several."""

    X: np.ndarray
    y: np.ndarray
    owner: np.ndarray | None = None

    def splits(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Training rows and held-out rows; no owner has both."""
        if self.owner is None:
            return StratifiedShuffleSplit(SPLITS, test_size=TEST, random_state=0).split(self.X, self.y)
        return GroupShuffleSplit(SPLITS, test_size=TEST, random_state=0).split(self.X, self.y, self.owner)


def some(X: np.ndarray, y: np.ndarray, seed: int = 0, owner: np.ndarray | None = None) -> Table:
    """At most so many rows, drawn at random."""
    if y.size <= MOST:
        return Table(X, y, owner)
    chosen = np.sort(np.random.default_rng(seed).choice(y.size, MOST, replace=False))
    return Table(X[chosen], y[chosen], None if owner is None else owner[chosen])


def tables() -> Iterator[tuple[str, Table]]:
    """Name and table, of those whose files are there; X-rays are split by patient."""

    def opened(name: str) -> Any:
        path = find_file(name)
        return None if path is None else np.load(path)

    if (z := opened("ijcnn1.npz")) is not None:
        yield "ijcnn1", some(z["X_train"].astype(np.float64), z["y_train"] > 0)
    if (z := opened("covtype.npz")) is not None:
        X = np.hstack([z["num"], np.eye(4)[z["wilderness"]], np.eye(40)[z["soil"]]]).astype(np.float64)
        yield "covertype, class 5", some(X, z["y"] == 5)
        yield "covertype, class 4", some(X, z["y"] == 4, 1)
    if (z := opened("a9a.npz")) is not None:
        y = z["y_train"] > 0
        kept = rare(y, 0.1)
        yield "Adult, one positive in ten kept", some(z["X_train"][kept].astype(np.float64), y[kept])
    if (z := opened("nih_cxr14_logits.npz")) is not None:
        X, names = z["logits"].reshape(len(z["logits"]), -1).astype(np.float64), [str(n) for n in z["label_names"]]
        for name in ("Cardiomegaly", "Mass"):
            yield f"chest X-rays, {name}", some(X, z["labels"][:, names.index(name)] > 0, owner=z["patient"])
    if (z := opened("tox21_ecfp4.npz")) is not None:
        kept = z["labels"][:, 0] >= 0
        X = np.unpackbits(z["fp_packed"][kept], axis=1)[:, ::4].astype(np.float64)
        yield "Tox21, NR-AR, every fourth bit", Table(X, z["labels"][kept, 0] > 0)
    digits, tumours = load_digits(), load_breast_cancer()
    kept = rare(digits.target == 8, 0.3)
    yield "digits, 8, three in ten kept", Table(digits.data[kept], digits.target[kept] == 8)
    kept = rare(tumours.target == 0, 0.2)
    yield "breast cancer, one malignant in five kept", Table(tumours.data[kept], tumours.target[kept] == 0)


def models(min_tpr: float, max_fpr: float) -> dict[str, Any]:
    """The contestants; the AUC surrogate is the convex one of the whole curve."""
    two_way = {"random_state": 0, "max_seconds": 60.0}
    return {
        "logistic": LogisticRegression(max_iter=2000),
        "balanced": LogisticRegression(class_weight="balanced", max_iter=2000),
        "AUC surrogate": xrisk.PartialAUCClassifier(
            0.0, surrogate="convex", l2=1e-3, solver=xrisk.solvers.Bundle(), max_iter=200
        ),
        "convex optimum": xrisk.TwoWayPartialAUCClassifier(min_tpr, max_fpr, surrogate="convex", l2=1e-3, **two_way),
        "default": xrisk.TwoWayPartialAUCClassifier(min_tpr, max_fpr, **two_way),
    }


def scores(table: Table, min_tpr: float, max_fpr: float) -> dict[str, list[float]]:
    """Partial AUC of the held-out rows of every split."""
    found: dict[str, list[float]] = {}
    X, y = table.X, table.y
    for train, test in table.splits():
        for name, model in models(min_tpr, max_fpr).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pipe = make_pipeline(StandardScaler(), model).fit(X[train], y[train])
            value = partial_auc_score(y[test], pipe.decision_function(X[test]), min_tpr=min_tpr, max_fpr=max_fpr)
            found.setdefault(name, []).append(round(float(value), 4))
    return found


def as_markdown(known: dict[str, Any]) -> str:
    """The table of README.md."""
    heads = ["table (rows × columns, positives)", "range", *models(0.5, 0.5)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, table in known.items():
        for rates in (f"{low:g}, {high:g}" for low, high in RANGES):
            size = f"{name} ({table['rows']:,} × {table['columns']}, {table['positives']:,})"
            cells = [f"{np.mean(v):.3f} ({np.std(v):.3f})" for v in table[rates].values()]
            lines.append(f"| {' | '.join([size, rates, *cells])} |")
    return "\n".join(lines)


def verdict(known: dict[str, Any]) -> tuple[int, int, int]:
    """In how many cells the default is best or level with the best, within one deviation of it, and below that."""
    counts = [0, 0, 0]
    for table in known.values():
        for found in (table[f"{low:g}, {high:g}"] for low, high in RANGES):
            behind = max(np.mean(v) for v in found.values()) - np.mean(found["default"])
            counts[0 if behind < 5e-4 else 1 if behind <= np.std(found["default"]) else 2] += 1
    return counts[0], counts[1], counts[2]


def main(wanted: list[str]) -> None:
    target = HERE / "tables.json"
    known = json.loads(target.read_text()) if target.exists() else {}
    for name, table in tables():
        if wanted and name not in wanted:
            continue
        found: dict[str, Any] = {"rows": table.y.size, "columns": table.X.shape[1], "positives": int(table.y.sum())}
        for rates in RANGES:
            here = found[f"{rates[0]:g}, {rates[1]:g}"] = scores(table, *rates)
            print(name, rates, {key: round(float(np.mean(value)), 3) for key, value in here.items()}, flush=True)
        known[name] = found
        target.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
