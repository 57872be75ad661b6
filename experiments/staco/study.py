"""The linear column of the STACO paper that we have data for: ijcnn1, test TPAUC, ours beside the published numbers.

``python experiments/staco/study.py`` writes expected.json (needs ijcnn1.npz in the data folder). Steps are tuned as in
the paper, over {0.01, 0.1, 0.5}, by the fifth of the training rows that is left out; five folds.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import xrisk
from xrisk.applications import two_way_partial_auc
from xrisk.datasets import find_file
from xrisk.metrics import partial_auc_score
from xrisk.solvers import AUCM, PAUCI, STACO1, CrossEntropy, LastIterate, SOTAs, Stagewise, TailSONX

HERE = Path(__file__).parent
RATES = ((0.5, 0.5), (0.25, 0.75))  # (min_tpr, max_fpr): θ = (0.5, 0.5) and (0.75, 0.75)
STEPS = (0.01, 0.1, 0.5)
ITERATIONS, MARGIN, DECAY, FOLDS = 3000, 0.5, 2e-4, 5
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
    """The sampled methods at a step size for margin 0.5: scores are twice as large here, and losses four times."""
    own, dual, tail = falling(step / 4.0), falling(step / 4.0), falling(4.0 * step)
    sizes = {"blocks": 32, "batch": 32}
    return {
        "CE": CrossEntropy(falling(step), average=LastIterate(), **sizes),
        "AUCM": AUCM(falling(step / 4.0), margin=1.0, **sizes),
        "SOTA-s": SOTAs(falling(step / 4.0), lam=4.0, outer_lam=4.0, average=LastIterate(), **sizes),
        "PAUCI": PAUCI(step, **sizes),
        "SONX": TailSONX(own, tail, tail, **sizes),
        "STACO": STACO1(own, dual, tail, tail, average=LastIterate(), **sizes),
    }


def score(y: np.ndarray, z: np.ndarray, rates: tuple[float, float]) -> float:
    return partial_auc_score(y > 0, z, min_tpr=rates[0], max_fpr=rates[1], method="counts")


def sampled(X: np.ndarray, y: np.ndarray, rates: tuple[float, float], name: str, step: float, seed: int) -> np.ndarray:
    """The weights that a method finds."""
    stated = two_way_partial_auc(X / MARGIN, y, min_tpr=rates[0], max_fpr=rates[1], l2=DECAY)
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


def main() -> None:
    path = find_file("ijcnn1.npz")
    if path is None:
        raise SystemExit("ijcnn1.npz is neither in the folder named by XRISK_DATA nor in ../shared/data")
    z = np.load(path)
    X, y = z["X_train"].astype(np.float64), z["y_train"].astype(np.int64)
    X_test, y_test = z["X_test"].astype(np.float64), z["y_test"].astype(np.int64)
    found: dict[str, dict[str, list[float]]] = {}
    warnings.simplefilter("ignore")
    for rates in RATES:
        table = found.setdefault(f"{rates[0]:g}, {rates[1]:g}", {})
        for seed, (train, left) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)):
            for name in PUBLISHED:
                tried = [sampled(X[train], y[train], rates, name, step, seed) for step in STEPS]
                best = max(tried, key=lambda w: score(y[left], X[left] @ w, rates) if np.isfinite(w).all() else -1.0)
                table.setdefault(name, []).append(round(score(y_test, X_test @ best, rates), 4))
            for name, model in exact(X[train], y[train], rates).items():
                scores = model.fit(X[train], y[train]).decision_function(X_test)
                table.setdefault(name, []).append(round(score(y_test, scores, rates), 4))
        print(rates, {name: (round(float(np.mean(v)), 3), round(float(np.std(v)), 3)) for name, v in table.items()})
    (HERE / "expected.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
