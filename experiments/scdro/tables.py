"""What robustness over rows buys on real tables: held-out losses of the average, KL, CVaR, χ² and outliers set aside.

``python experiments/scdro/tables.py [table …]`` writes tables.json. Every table is split five times and fitted twice,
as it is and with one training label in twenty wrong; rows that are judged are never changed.
"""

import csv
import gzip
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

import xrisk
from xrisk.datasets import find_file, load_french

HERE = Path(__file__).parent
SPLITS, TEST = 5, 0.4
MOST = 15_000  # rows of a table
LEAST = 30  # held-out rows of a group that is judged
WRONG = 0.05  # of the training labels, where some are wrong; also the fraction that is set aside
FAR = 5.0  # standard deviations that a wrong number is off
TAIL = 0.1
SECONDS = 20.0  # for one fit

MODELS: dict[str, dict[str, Any]] = {
    "average": {"ambiguity": "cvar", "alpha": 1.0},
    "KL, radius 0.1": {"ambiguity": "kl", "radius": 0.1},
    "KL, strength 1": {"ambiguity": "kl", "strength": 1.0},
    "χ², radius 0.1": {"ambiguity": "chi2", "radius": 0.1},
    "CVaR, α = 0.5": {"ambiguity": "cvar", "alpha": 0.5},
    "CVaR, α = 0.1": {"ambiguity": "cvar", "alpha": 0.1},
    "average, 5 % aside": {"ambiguity": "cvar", "alpha": 1.0, "outlier_fraction": WRONG},
    "KL, radius 0.1, 5 % aside": {"ambiguity": "kl", "radius": 0.1, "outlier_fraction": WRONG},
    "CVaR, α = 0.1, 5 % aside": {"ambiguity": "cvar", "alpha": 0.1, "outlier_fraction": WRONG},
}

PLAIN = [name for name in MODELS if "outlier_fraction" not in MODELS[name]]
ROBUST = PLAIN[1:]  # all but the average
ASIDE = [name for name in MODELS if name not in PLAIN]
HURT = ("average", "KL, radius 0.1", "CVaR, α = 0.1", *ASIDE)  # shown with wrong labels
NOISY = ("Adult, income", "Covertype, class 2", "ijcnn1", "chest X-rays, Cardiomegaly")
SHORT = ("χ², radius 0.1", "KL, radius 0.1", "CVaR, α = 0.5", "CVaR, α = 0.1")
BALLS = ("KL, radius 0.1", "χ², radius 0.1")
FEW, PENALTIES = ("breast cancer", "digits"), (1e-3, 1e-2, 1e-1)  # tables of few rows, strengths of the penalty


class Table(NamedTuple):
    """Rows, classes or numbers (of variance one), an attribute of every row, and whose row it is."""

    X: np.ndarray
    y: np.ndarray
    attribute: np.ndarray | None = None
    owner: np.ndarray | None = None

    def classes(self) -> bool:
        return self.y.dtype.kind in "bi"

    def splits(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Training rows and held-out rows; no owner has both."""
        kind = (
            GroupShuffleSplit if self.owner is not None else StratifiedShuffleSplit if self.classes() else ShuffleSplit
        )
        return kind(SPLITS, test_size=TEST, random_state=0).split(self.X, self.y, self.owner)

    def groups(self) -> np.ndarray:
        """Label × attribute of classes; of numbers the attribute, or the fifth that the number is in."""
        attribute = np.zeros(self.y.size, dtype=np.int64) if self.attribute is None else self.attribute
        if self.classes():
            return np.unique(np.stack([self.y, attribute]), axis=1, return_inverse=True)[1].ravel()
        if self.attribute is None:
            return np.searchsorted(np.quantile(self.y, [0.2, 0.4, 0.6, 0.8]), self.y)
        return attribute


def some(X: np.ndarray, y: np.ndarray, attribute: Any = None, owner: Any = None) -> Table:
    """At most so many rows, drawn at random; numbers in standard deviations from their mean."""
    chosen = np.arange(y.size)
    if y.size > MOST:
        chosen = np.sort(np.random.default_rng(0).choice(y.size, MOST, replace=False))
    y = y[chosen].astype(np.int64) if y.dtype.kind in "bi" else (y[chosen] - y[chosen].mean()) / y[chosen].std()
    attribute, owner = (None if column is None else column[chosen] for column in (attribute, owner))
    return Table(X[chosen].astype(np.float64), y, attribute, owner)


def adult(z: Any) -> Table:
    """Income over 50,000, by race and sex."""
    return some(z["X_train"], z["y_train"] > 0, 2 * z["race_train"].astype(np.int64) + z["sex_train"])


def adult_hours(z: Any) -> Table:
    """Hours of work per week from all columns but those made of them, by race and sex."""
    with gzip.open(find_file("adult_train.csv.gz"), "rt", newline="") as file:
        hours = np.array([float(row["hours-per-week"]) for row in csv.DictReader(file)])
    X = z["X_train"].astype(np.float64)
    level = np.searchsorted([34, 39, 40, 47], hours)  # as in LibSVM's columns
    made = [j for j in range(X.shape[1]) if any(np.array_equal(X[:, j] > 0, level == k) for k in range(5))]
    return some(np.delete(X, made, axis=1), hours, 2 * z["race_train"].astype(np.int64) + z["sex_train"])


def covertype(z: Any) -> Table:
    """Class 2 against the rest, by wilderness area."""
    X = np.hstack([z["num"], np.eye(4)[z["wilderness"]], np.eye(40)[z["soil"]]])
    return some(X, z["y"] == 2, z["wilderness"].astype(np.int64))


def elevation(z: Any) -> Table:
    """Elevation from the other columns, by wilderness area."""
    X = np.hstack([z["num"][:, 1:], np.eye(4)[z["wilderness"]], np.eye(40)[z["soil"]]])
    return some(X, z["num"][:, 0].astype(np.float64), z["wilderness"].astype(np.int64))


def xrays(z: Any) -> Table:
    """Cardiomegaly from the logits of eight networks, split by patient."""
    label = [str(name) for name in z["label_names"]].index("Cardiomegaly")
    return some(z["logits"].reshape(len(z["logits"]), -1), z["labels"][:, label] > 0, owner=z["patient"])


def ijcnn1(z: Any) -> Table:
    return some(z["X_train"], z["y_train"] > 0)


def industry(z: Any) -> Table:
    """Daily returns of utilities from those of nine other industries, by decade."""
    daily = load_french("industry10-daily")
    j = daily.names.index("Utils")
    return some(np.delete(daily.returns, j, axis=1), daily.returns[:, j], daily.dates.astype(np.int64) // 100_000)


def factors(z: Any) -> Table:
    """Monthly excess returns of small stocks of high book-to-market from three factors, by decade."""
    monthly, known = load_french("25-monthly"), load_french("factors-monthly")
    excess = monthly.returns[:, monthly.names.index("SMALL HiBM")] - known.returns[:, known.names.index("RF")]
    return some(known.returns[:, :3], excess, monthly.dates.astype(np.int64) // 1000)


TABLES: dict[str, tuple[str | None, Callable[[Any], Table]]] = {  # file in the data folder, and the table made of it
    "Adult, income": ("a9a.npz", adult),
    "Covertype, class 2": ("covtype.npz", covertype),
    "ijcnn1": ("ijcnn1.npz", ijcnn1),
    "chest X-rays, Cardiomegaly": ("nih_cxr14_logits.npz", xrays),
    "breast cancer": (None, lambda z: some(*load_breast_cancer(return_X_y=True))),
    "digits": (None, lambda z: some(*load_digits(return_X_y=True))),
    "Adult, hours per week": ("a9a.npz", adult_hours),
    "Covertype, elevation": ("covtype.npz", elevation),
    "returns of utilities, daily": ("ff_industry10_daily_vw.csv.gz", industry),
    "returns of small value stocks, monthly": ("ff3_factors_monthly.csv.gz", factors),
    "diabetes": (None, lambda z: some(*load_diabetes(return_X_y=True))),
}


def opened(name: str) -> Table | None:
    """The table, if its file is there."""
    file, make = TABLES[name]
    path = None if file is None else find_file(file)
    if file is not None and path is None:
        return None
    return make(np.load(path) if path is not None and path.suffix == ".npz" else None)


def spoilt(y: np.ndarray, classes: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels of which some are wrong, and which: another class, or a number far off to either side."""
    wrong = np.sort(rng.choice(y.size, int(WRONG * y.size), replace=False))
    y = y.copy()
    if classes:
        y[wrong] = (y[wrong] + rng.integers(1, y.max() + 1, wrong.size)) % (y.max() + 1)
    else:
        y[wrong] += FAR * rng.choice([-1.0, 1.0], wrong.size)
    return y, wrong


def row_losses(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log losses of classes, half of the squared errors of numbers."""
    if y.dtype.kind == "i":
        return -np.log(np.maximum(model.predict_proba(X)[np.arange(y.size), y], 1e-300))
    return 0.5 * (model.predict(X) - y) ** 2


def judged(model: Any, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """What held-out rows say of a model."""
    losses, classes = row_losses(model, X, y), y.dtype.kind == "i"
    right = model.predict(X) == y
    large = [groups == g for g in np.unique(groups) if (groups == g).sum() >= LEAST]
    mean, tail = mean_and_tail(losses)
    found = {
        "mean": mean,
        "tail": tail,
        "score": right.mean() if classes else r2_score(y, model.predict(X)),
        "group": max(losses[g].mean() for g in large),
    }
    if classes:
        found["group score"] = min(right[g].mean() for g in large)
    if classes and y.max() == 1:
        found["auc"] = roc_auc_score(y, model.decision_function(X))
    return found


def caught(name: str, model: Any, X: np.ndarray, y: np.ndarray, wrong: np.ndarray) -> float:
    """Share of wrong labels among as many rows: the heaviest, those set aside, or those of largest loss."""
    if model.outlier_fraction:
        rows = model.outliers_
    elif name == "average":
        rows = np.argsort(-row_losses(model, X, y), kind="stable")[: wrong.size]
    else:
        rows = model.heaviest_rows(wrong.size).rows
    return np.isin(rows, wrong).mean()


def fitted(form: dict[str, Any], X: np.ndarray, y: np.ndarray) -> Any:
    kind = xrisk.DROClassifier if y.dtype.kind == "i" else xrisk.DRORegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**form, max_seconds=SECONDS).fit(X, y)


def study(table: Table) -> dict[str, Any]:
    """Of every model, fitted to right labels and to some wrong ones, what every split says."""
    found: dict[str, Any] = {"clean": {}, "wrong": {}}
    groups = table.groups()
    for number, (train, test) in enumerate(table.splits()):
        scale = StandardScaler().fit(table.X[train])
        X, X_test = scale.transform(table.X[train]), scale.transform(table.X[test])
        labels, wrong = spoilt(table.y[train], table.classes(), np.random.default_rng(number))
        for kind, y in (("clean", table.y[train]), ("wrong", labels)):
            for name, form in MODELS.items():
                model = fitted(form, X, y)
                told = judged(model, X_test, table.y[test], groups[test]) | {"gap": model.certificate_.relative}
                if kind == "wrong":
                    told["caught"] = caught(name, model, X, y, wrong)
                for what, value in told.items():
                    found[kind].setdefault(name, {}).setdefault(what, []).append(float(f"{value:.4g}"))
    return found


def penalised(table: Table, l2: float) -> dict[str, Any]:
    """Of every model without outliers set aside, what every split says at another strength of the penalty."""
    found: dict[str, Any] = {}
    for train, test in table.splits():
        scale = StandardScaler().fit(table.X[train])
        X, X_test = scale.transform(table.X[train]), scale.transform(table.X[test])
        for name in PLAIN:
            model = fitted(MODELS[name] | {"l2": l2}, X, table.y[train])
            told = mean_and_tail(row_losses(model, X_test, table.y[test]))
            for what, value in zip(("mean", "tail"), told, strict=True):
                found.setdefault(name, {}).setdefault(what, []).append(float(f"{value:.4g}"))
    return found


def mean_and_tail(losses: np.ndarray) -> tuple[float, float]:
    return float(losses.mean()), float(np.sort(losses)[-int(TAIL * losses.size) :].mean())


def shrunk(table: Table) -> dict[str, Any]:
    """The scores of the average times a factor at which they have the mean loss of a ball: the factor, both tails."""
    found: dict[str, Any] = {name: [] for name in BALLS}
    for train, test in table.splits():
        scale = StandardScaler().fit(table.X[train])
        X, X_test = scale.transform(table.X[train]), scale.transform(table.X[test])
        plus = 2.0 * table.y[test] - 1.0
        plain = plus * fitted(MODELS["average"], X, table.y[train]).decision_function(X_test)
        for name in BALLS:
            robust = plus * fitted(MODELS[name], X, table.y[train]).decision_function(X_test)
            mean, tail = mean_and_tail(np.logaddexp(0.0, -robust))
            factor = brentq(lambda c, z=plain, m=mean: np.logaddexp(0.0, -c * z).mean() - m, 0.0, 0.95)
            other = mean_and_tail(np.logaddexp(0.0, -factor * plain))[1]
            found[name].append([float(f"{value:.4g}") for value in (factor, tail, other)])
    return found


def as_shrunk(known: dict[str, Any]) -> str:
    """Tail of a ball / tail of the shrunken average of the same mean loss, and the factor."""
    rows = []
    for title in NOISY:
        found = {name: np.mean(known[title]["shrunk"][name], axis=0) for name in BALLS}
        rows.append([title, *(f"{tail:.2f} / {other:.2f} ({factor:.2f})" for factor, tail, other in found.values())])
    return lines(["table", *BALLS], rows)


def lines(heads: list[str], rows: list[list[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def share(value: float) -> str:
    """A change in percent, or that it is out of all proportion."""
    return f"{value:+.0%}" if value < 10.0 else "> +1000%"


def change(known: dict[str, Any], name: str, what: str, kind: str = "clean") -> float:
    """Of a mean over splits, relative to the average with right labels."""
    return float(np.mean(known[kind][name][what]) / np.mean(known["clean"]["average"][what]) - 1.0)


def sign(known: dict[str, Any], name: str, what: str) -> int:
    """−1 where a model is below the average in every split, 1 where it is above in every split, else 0."""
    differences = np.array(known["clean"][name][what]) - np.array(known["clean"]["average"][what])
    return int(np.all(differences > 0)) - int(np.all(differences < 0))


def as_losses(known: dict[str, Any]) -> str:
    """Mean loss and loss of the tail, of the average; of the others how much they are changed."""
    rows = []
    for title, table in known.items():
        first = table["clean"]["average"]
        size = f"{title} ({table['rows']:,} × {table['columns']})"
        row = [size, f"{np.mean(first['mean']):.3f} / {np.mean(first['tail']):.2f}"]
        for name in (*ROBUST, *ASIDE[1:]):
            tail = share(change(table, name, "tail"))
            told = f"**{tail}**" if sign(table, name, "tail") < 0 else tail
            row.append(f"{share(change(table, name, 'mean'))} / {told}")
        rows.append(row)
    return lines(["table (rows × columns)", "average", *ROBUST, *ASIDE[1:]], rows)


def as_scores(known: dict[str, Any]) -> str:
    """Accuracy and, of two classes, area under the ROC curve; R² of numbers; then the worst group."""
    rows = []
    for title, table in known.items():
        row = [title]
        for name in PLAIN:
            found = {what: np.mean(values) for what, values in table["clean"][name].items()}
            area = f", {found['auc']:.3f}" if "auc" in found else ""
            worst = f" / {found['group score']:.2f}" if "group score" in found else ""
            row.append(f"{found['score']:.3f}{area}; {found['group']:.2f}{worst}")
        rows.append(row)
    return lines(["table", *PLAIN], rows)


def as_wrong(known: dict[str, Any]) -> str:
    """Wrong labels among the suspects, and what wrong labels do to the losses of held-out rows."""
    rows = []
    for title, table in known.items():
        found = table["wrong"]
        among = [f"{np.mean(found[name]['caught']):.0%}" for name in ("average", "KL, radius 0.1", ASIDE[1])]
        told = [" / ".join(share(change(table, name, what, "wrong")) for what in ("mean", "tail")) for name in HURT]
        rows.append([title, *among, *told])
    heads = ["table", "largest losses of the average", "heaviest rows, KL", "set aside, KL", *HURT]
    return lines(heads, rows)


def as_verdict(known: dict[str, Any]) -> str:
    """In how many tables the tail is below that of the average in every split, and in how many above."""
    classes, numbers = ([t for t in known.values() if ("group score" in t["clean"]["average"]) == k] for k in (1, 0))
    rows = []
    for name in (*ROBUST, *ASIDE):
        signs = ([sign(table, name, "tail") for table in chosen] for chosen in (classes, numbers))
        rows.append([name, *(f"{s.count(-1)} lower, {s.count(1)} higher" for s in signs)])
    return lines(["model", f"{len(classes)} tables of classes", f"{len(numbers)} tables of numbers"], rows)


def as_penalties(known: dict[str, Any]) -> str:
    """Mean loss and loss of the tail under stronger penalties."""
    rows = []
    for title in FEW:
        for l2, found in known[title]["l2"].items():
            cells = [f"{np.mean(found[name]['mean']):.3f} / {np.mean(found[name]['tail']):.2f}" for name in PLAIN]
            rows.append([title, l2, *cells])
    return lines(["table", "l2", *PLAIN], rows)


def as_short(known: dict[str, Any]) -> str:
    """For three kinds of tables the ranges of the changes of mean and tail."""
    numbers = [title for title in known if title not in (*NOISY, *FEW)]
    kinds = {"noisy classes": NOISY, "few rows that can be separated": FEW, "regression": numbers}
    rows = []
    for kind, titles in kinds.items():
        row = [f"{kind}: {len(titles)} tables"]
        for name in SHORT:
            ranges = (sorted(change(known[title], name, what) for title in titles) for what in ("mean", "tail"))
            row.append("; ".join(f"{r[0]:+.0%} to {r[-1]:+.0%}" for r in ranges))
        rows.append(row)
    return lines(["mean; worst tenth", *SHORT], rows)


def main(wanted: list[str]) -> None:
    target = HERE / "tables.json"
    for name in wanted or TABLES:
        table = opened(name)
        if table is None:
            continue
        begun = time.process_time()
        found: dict[str, Any] = {"rows": table.y.size, "columns": table.X.shape[1]} | study(table)
        if name in NOISY:
            found["shrunk"] = shrunk(table)
        if name in FEW:
            found["l2"] = {f"{l2:g}": penalised(table, l2) for l2 in PENALTIES}
        before = json.loads(target.read_text()) if target.exists() else {}
        known = {key: found if key == name else before[key] for key in TABLES if key in (name, *before)}
        target.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {time.process_time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
