"""Partial AUC with TPR ≥ α, Table 5 of the ALEXR paper: test scores of ours beside the published ones.

``python experiments/alexr/study.py [table …]`` writes expected.json and picture.png for the tables whose files are in
the data folder. One split, as in the paper: settings are chosen on its validation rows, and runs
have five seeds.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import xrisk
from xrisk.applications import partial_auc
from xrisk.datasets import find_file
from xrisk.inner import BatchForAll
from xrisk.metrics import partial_auc_score
from xrisk.solvers import ALEXR, BSGD, OOA, SONX, SOX, Bundle, CrossEntropy, EqualClasses, SameBatch

HERE = Path(__file__).parent
RATES = (0.5, 0.75)  # α
SEEDS = 5
L2, TOL = 1e-3, 5e-3
STEPS = tuple(m * 10.0**e for e in (-3, -2, -1) for m in (2, 5, 10))
TRACKS = (0.1, 0.3, 0.5, 0.7, 0.9)
EXTRAPOLATIONS = (0.1, 1.0)
SAMPLES = {"blocks": 16, "batch": 16}
GRIDS: dict[str, tuple[tuple[float, ...], ...]] = {  # the numbers of `SOLVERS`, each with the values tried
    "CE": (STEPS,),
    "OOA": (STEPS, STEPS),
    "BSGD": (STEPS,),
    "SOX": (STEPS, TRACKS),
    "SONX": (STEPS, TRACKS),
    "ALEXR": (STEPS, STEPS, EXTRAPOLATIONS),
}
SOLVERS: dict[str, Callable[..., Any]] = {
    "CE": lambda step: CrossEntropy(step, EqualClasses(), **SAMPLES),
    "OOA": lambda step, dual: OOA(step, dual, **SAMPLES),
    "BSGD": lambda step: BSGD(step, **SAMPLES),
    "SOX": lambda step, track: SOX(step, track, pairing=SameBatch(), **SAMPLES),
    "SONX": lambda step, track: SONX(step, track, **SAMPLES),
    "ALEXR": lambda step, dual, theta: ALEXR(step, dual, theta, pairing=SameBatch(), **SAMPLES),
}
PUBLISHED = {  # of the table of that name: CE, OOA, BSGD, SOX, SONX, ALEXR for α = 0.5, then for 0.75
    "Covertype": ((0.707, 0.716, 0.726, 0.726, 0.723, 0.727), (0.581, 0.594, 0.597, 0.597, 0.597, 0.605)),
    "Cardiomegaly": ((0.524, 0.613, 0.606, 0.607, 0.603, 0.613), (0.378, 0.477, 0.481, 0.481, 0.474, 0.477)),
    "Mass": ((0.292, 0.323, 0.329, 0.329, 0.318, 0.333), (0.143, 0.181, 0.170, 0.170, 0.165, 0.185)),
}
EXACT = ("logistic regression", "balanced logistic regression", "certified optimum", "default")


class Split(NamedTuple):
    """Rows and labels (±1) for training, for the choice of settings, and for the score."""

    train: tuple[np.ndarray, np.ndarray]
    valid: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def of_rows(X: np.ndarray, y: np.ndarray, parts: Iterable[np.ndarray], scale: Callable) -> Split:
    """The parts of a table, columns scaled by the first of them."""
    train, valid, test = parts
    low, size = scale(X[train])
    return Split(*(((X[k] - low) / np.where(size > 0, size, 1.0), y[k]) for k in (train, valid, test)))


def to_unit(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns to [0, 1]."""
    return X.min(axis=0), np.ptp(X, axis=0)


def standard(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns to mean 0 and variance 1."""
    return X.mean(axis=0), X.std(axis=0)


def sixty_twenty_twenty(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.split(rng.permutation(n), [int(0.6 * n), int(0.8 * n)])


def covertype(z: Any) -> Split:
    """Class 2 against the rest, 99.5 % of its rows dropped."""
    rng = np.random.default_rng(0)
    kept = np.flatnonzero((z["y"] != 2) | (rng.random(z["y"].size) < 0.005))
    X = np.hstack([z["num"][kept], np.eye(4)[z["wilderness"][kept]], np.eye(40)[z["soil"][kept]]]).astype(np.float64)
    y = np.where(z["y"][kept] == 2, 1, -1)
    return of_rows(X, y, sixty_twenty_twenty(y.size, rng), to_unit)


def xrays(z: Any, label: str) -> Split:
    """Logits of eight networks as 112 columns, split by patient."""
    X = z["logits"].reshape(len(z["logits"]), -1).astype(np.float64)
    y = np.where(z["labels"][:, [str(n) for n in z["label_names"]].index(label)] > 0, 1, -1)
    patients, of_row = np.unique(z["patient"], return_inverse=True)
    parts = sixty_twenty_twenty(patients.size, np.random.default_rng(0))
    return of_rows(X, y, (np.flatnonzero(np.isin(of_row, part)) for part in parts), standard)


def ijcnn1(z: Any) -> Split:
    """The parts as they are given."""
    X, y = (np.concatenate([z[f"{k}_train"], z[f"{k}_test"]]).astype(np.float64) for k in ("X", "y"))
    return of_rows(X, y.astype(np.int64), np.split(np.arange(y.size), [35_000, len(z["y_train"])]), standard)


TABLES: dict[str, tuple[str, int, Callable[[Any], Split]]] = {  # file, iterations, split
    "Covertype": ("covtype.npz", 1500, covertype),
    "Cardiomegaly": ("nih_cxr14_logits.npz", 750, lambda z: xrays(z, "Cardiomegaly")),
    "Mass": ("nih_cxr14_logits.npz", 750, lambda z: xrays(z, "Mass")),
    "ijcnn1": ("ijcnn1.npz", 1500, ijcnn1),
}


def score(w: np.ndarray, rows: tuple[np.ndarray, np.ndarray], alpha: float) -> float:
    """Partial AUC by counts: the lowest positives against all negatives."""
    if not np.isfinite(w).all():
        return 0.0
    return partial_auc_score(rows[1] > 0, rows[0] @ w, min_tpr=alpha, max_fpr=1.0, method="counts")


def found_by(problem: Any, solver: Any, iterations: int, seed: int) -> np.ndarray:
    trace = xrisk.Trace(ratio=1e6)  # the objective is asked for once
    return xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=iterations), rng=seed, trace=trace).w


def stated(rows: tuple[np.ndarray, np.ndarray], alpha: float) -> Any:
    """The problem (2.3), one batch of negatives for all sampled positives."""
    problem = partial_auc(*rows, min_tpr=alpha, loss="squared_hinge", l2=L2)
    return problem._replace(inner=problem.inner._replace(sampling=BatchForAll()))


def tuned(name: str, attempt: Callable[[Any], float]) -> tuple[float, ...]:
    """The best numbers of a grid, one after the other; those not chosen yet stand at the middle of theirs."""
    best = [values[len(values) // 2] for values in GRIDS[name]]
    for k, values in enumerate(GRIDS[name]):
        best[k] = max(values, key=lambda v, k=k: attempt(SOLVERS[name](*best[:k], v, *best[k + 1 :])))
    return tuple(best)


def judge(problem: Any, split: Split, alpha: float, iterations: int) -> Callable[[Any], float]:
    """The score on validation rows of what a solver finds."""
    return lambda solver: score(found_by(problem, solver, iterations, 0), split.valid, alpha)


def logistic(split: Split) -> dict[str, np.ndarray]:
    """Weights of models that know nothing of rates."""
    plain, balanced = LogisticRegression(max_iter=2000), LogisticRegression(class_weight="balanced", max_iter=2000)
    return {name: model.fit(*split.train).coef_[0] for name, model in zip(EXACT, (plain, balanced), strict=False)}


def exact(problem: Any, split: Split, alpha: float) -> dict[str, np.ndarray]:
    """Weights of the certified optimum, and of the default."""
    certified = xrisk.minimize(problem, Bundle(TOL), budget=xrisk.Budget(iterations=2000))
    if certified.certificate.relative > TOL:
        raise RuntimeError(f"the optimum is certified to {certified.certificate.relative:.2g} only")
    default = xrisk.PartialAUCClassifier(alpha, random_state=0).fit(*split.train)
    return dict(zip(EXACT[2:], (certified.w, default.coef_[0]), strict=True))


def row(table: dict[str, Any], name: str, w: np.ndarray, problem: Any, split: Split, alpha: float) -> None:
    """Append a score, and an objective."""
    known = table.setdefault(name, {"score": [], "objective": []})
    known["score"].append(round(score(w, split.test, alpha), 4))
    known["objective"].append(float(f"{problem.value(w):.5g}"))


def study(split: Split, iterations: int) -> dict[str, Any]:
    """Test scores and training objectives of every model: runs of every seed, or what has none."""
    found, plain = {}, logistic(split)
    for alpha in RATES:
        table: dict[str, Any] = found.setdefault(f"{alpha:g}", {})
        problem = stated(split.train, alpha)
        for name in GRIDS:
            best = tuned(name, judge(problem, split, alpha, iterations))
            for seed in range(SEEDS):
                row(table, name, found_by(problem, SOLVERS[name](*best), iterations, seed), problem, split, alpha)
            table[name]["settings"] = best
        for name, w in (plain | exact(problem, split, alpha)).items():
            row(table, name, w, problem, split, alpha)
        print(alpha, {name: cell(known["score"]) for name, known in table.items()}, flush=True)
    return found


def above(known: dict[str, Any], name: str) -> float:
    """Mean excess of the objective over that of the certified optimum, as a share of it."""
    return float(np.mean(known[name]["objective"]) / known["certified optimum"]["objective"][0] - 1.0)


def cell(values: list[float]) -> str:
    """Mean and standard deviation, where there are seeds."""
    return f"{np.mean(values):.3f} ({np.std(values):.3f})" if len(values) > 1 else f"{values[0]:.3f}"


def as_markdown(name: str, found: dict[str, Any]) -> str:
    """The table of README.md."""
    heads = [f"published, α = {alpha} | ours | objective above optimum" for alpha in found]
    lines = [f"| method | {' | '.join(heads)} |", "|---|---|---|---|---|---|---|"]
    for method in (*GRIDS, *EXACT):
        cells = []
        for k, known in enumerate(found.values()):
            theirs = "–"
            if name in PUBLISHED and method in GRIDS:
                theirs = f"{PUBLISHED[name][k][list(GRIDS).index(method)]:.3f}"
            told = f"{above(known, method):.1%}" if method not in ("CE", *EXACT) else "–"
            cells += [theirs, cell(known[method]["score"]), told]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: dict[str, dict[str, Any]]) -> None:
    """Test score of every model, a panel for each table."""
    fig, axes = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.4), sharey=True, layout="constrained")
    names = (*GRIDS, *EXACT)
    for ax, (table, by_rate) in zip(np.atleast_1d(axes), found.items(), strict=True):
        for (alpha, known), colour in zip(by_rate.items(), ("tab:blue", "tab:orange"), strict=True):
            scores = [known[name]["score"] for name in names]
            ax.errorbar(
                [np.mean(s) for s in scores],
                range(len(names)),
                xerr=[np.std(s) for s in scores],
                fmt="o",
                ms=4,
                color=colour,
                label=f"TPR ≥ {alpha}",
            )
        ax.set_title(table)
        ax.set_xlabel("test partial AUC")
        ax.grid(alpha=0.3)
    first = np.atleast_1d(axes)[0]
    first.set_yticks(range(len(names)), names)
    first.invert_yaxis()
    fig.legend(*first.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)
    fig.savefig(HERE / "picture.png", dpi=80)
    plt.close(fig)


def main(wanted: list[str]) -> None:
    target = HERE / "expected.json"
    for name, (file, iterations, divide) in TABLES.items():
        path = find_file(file)
        if path is None or (wanted and name not in wanted):
            continue
        with warnings.catch_warnings(), np.load(path) as z:
            warnings.simplefilter("ignore")
            split = divide(z)
            found = study(split, iterations)
        before = json.loads(target.read_text()) if target.exists() else {}
        known = {table: found if table == name else before[table] for table in TABLES if table in (name, *before)}
        target.write_text(json.dumps(known, indent=1) + "\n")
        print(name, as_markdown(name, found), sep="\n", flush=True)
        draw(known)


if __name__ == "__main__":
    main(sys.argv[1:])
