"""KL-constrained DRO in the convex setting of the SCDRO paper: sampled methods against the certified optimum.

``python experiments/scdro/study.py [set …]`` writes expected.json and a picture for each set: the excess of the
training objective over oracle calls, and test accuracy against the radius.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import xrisk
from xrisk.applications import sample_dro
from xrisk.datasets import find_file
from xrisk.functions import KLRisk
from xrisk.inner.oracle import exact_values
from xrisk.solvers import (
    ASCDRO,
    PGSMD2,
    RECOVER,
    SCDRO,
    SCENT,
    SPD,
    AccMDA,
    Auto,
    DualSGM,
    FastDRO,
    FastDROMLMC,
    Lengthening,
    MomentumSGD,
    Restarted,
    Stagewise,
)

HERE = Path(__file__).parent
RADII = (0.1, 0.5, 1.0)  # of the curves
SENSITIVE, RADII_TABLE = ("SCDRO", "FastDRO", "PG-SMD2"), (0.01, 0.05, 0.1, 0.5, 1.0)
FLOOR = 1e-3  # λ₀
L2, TOL = 1e-3, 1e-6
BATCH, ITERATIONS, SEEDS = 128, 600, 3
TRIALS = (100, 101)  # seeds that settings are chosen by, the worse of them counts
CALLS = 2 * BATCH * ITERATIONS  # values and gradients
STAGE = ITERATIONS // 8  # first stage of the methods that have stages
STEPS = (0.002, 0.01, 0.05, 0.2, 1.0, 5.0)
TRACKS = (0.1, 0.5, 0.9)
SMALLER = (0.001, 0.01, 0.1, 1.0)
FAR = 1000  # percent; beyond it a run is said to be far off
LARGER = (1.0, 10.0, 100.0)
EXACT, AVERAGE = "certified optimum", "certified optimum of the average"
PUBLISHED_ON = "CIFAR10-ST"
PUBLISHED = {  # Table 4, of a ResNet
    "SCDRO": (67.73, 67.58, 67.71, 67.57, 67.96),
    "FastDRO": (65.41, 66.15, 66.24, 65.98, 65.68),
    "PG-SMD2": (67.09, 66.96, 67.12, 67.36, 67.10),
}


class Method(NamedTuple):
    """A solver of numbers, and the values that are tried of each, one number after the other."""

    solver: Callable[..., Any]
    grid: tuple[tuple[float, ...], ...]
    fixed: bool = False  # whether it takes λ as given


def cut(step: float, cost: float = 1.0) -> Stagewise:
    """A step that is divided by ten after two thirds of the iterations, where one looks at ``cost`` batches."""
    return Stagewise(step, 0.1, int(ITERATIONS / 1.5 / cost), 10.0)


METHODS = {
    "SCDRO": Method(lambda s, a, b: SCDRO(cut(s), cut(a), b, BATCH), (STEPS, SMALLER, TRACKS)),
    "ASCDRO": Method(lambda s, a, b: ASCDRO(cut(s, 2), cut(a, 2), b, BATCH), (STEPS, SMALLER, TRACKS)),
    "RSCDRO": Method(
        lambda s, a, b: Restarted(SCDRO(s, a, b, BATCH, strength=1e-4), STAGE),
        (STEPS, SMALLER, TRACKS),
    ),
    "RASCDRO": Method(
        lambda s, a, b: Restarted(ASCDRO(s, a, b, BATCH, strength=1e-4), STAGE, step_factor=0.5**0.5),
        (STEPS, SMALLER, TRACKS),
    ),
    "FastDRO": Method(lambda s: FastDRO(cut(s), BATCH), (STEPS,)),
    "FastDRO, MLMC": Method(lambda s: FastDROMLMC(cut(s), BATCH // 4, 6), (STEPS,)),
    "Dual SGM": Method(lambda s, a, b: DualSGM(cut(s), cut(a), cut(b), BATCH), (STEPS, SMALLER, SMALLER)),
    "SPD": Method(lambda s, a: SPD(cut(s), cut(a), batch=BATCH), (STEPS, LARGER)),
    "PG-SMD2": Method(lambda s, a: PGSMD2(s, a, epoch=Lengthening(20), batch=BATCH), (STEPS, LARGER)),
    "AccMDA": Method(lambda s, a: AccMDA(s, a, batch=BATCH), (STEPS[-1:], SMALLER[2:])),  # the slowest
    "RECOVER": Method(
        lambda s, b: RECOVER(Stagewise(s, 0.5, STAGE, 2.0), Stagewise(b, 0.5, STAGE, 2.0), BATCH),
        (STEPS, TRACKS),
        fixed=True,
    ),
    "SCENT": Method(lambda s, a: SCENT(cut(s), cut(a), BATCH), (STEPS, SMALLER), fixed=True),
    "SGD, momentum": Method(lambda s: MomentumSGD(cut(s, 0.5), BATCH), (STEPS,)),
}


class Data(NamedTuple):
    """Rows and classes, for training and for the score."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def convolved(images: np.ndarray, filters: np.ndarray, part: int = 250) -> np.ndarray:
    """Means over the quadrants of an image of what is above zero after a convolution, in strides of two."""
    size, found = filters.shape[0], []
    for k in range(0, len(images), part):
        seen = np.lib.stride_tricks.sliding_window_view(images[k : k + part], (size, size), axis=(1, 2))[:, ::2, ::2]
        seen = seen.transpose(0, 1, 2, 4, 5, 3).reshape(*seen.shape[:3], -1)
        seen = seen - seen.mean(axis=-1, keepdims=True)
        seen = seen / np.sqrt((seen**2).mean(axis=-1, keepdims=True) + 1e-2)
        out = np.maximum(seen @ filters.reshape(-1, filters.shape[-1]), 0.0)
        half = out.shape[1] // 2
        halves = slice(None, half), slice(half, None)
        found.append(np.hstack([out[:, a, b].mean(axis=(1, 2)) for a in halves for b in halves]))
    return np.vstack(found)


def cifar() -> Data | None:
    """CIFAR10-ST: of the first five classes the last 2 % of the images; fixed convolutions by random patches."""
    path = find_file("cifar10_subset.npz")
    if path is None:
        return None
    with np.load(path) as z:
        X, y, X_test, y_test = (z[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    last = [np.flatnonzero(y == c)[-10 if c < 5 else 0 :] for c in range(10)]
    kept = np.sort(np.concatenate(last))
    rng = np.random.default_rng(0)
    X, X_test = X[kept] / 255.0, X_test / 255.0
    at = [(rng.integers(len(X)), *rng.integers(0, 27, 2)) for _ in range(100)]
    filters = np.stack([X[i, a : a + 6, b : b + 6] for i, a, b in at], axis=-1)
    filters = filters - filters.mean(axis=(0, 1, 2))
    filters = filters / np.sqrt((filters**2).sum(axis=(0, 1, 2)))
    return reduced(Data(convolved(X, filters), y[kept], convolved(X_test, filters), y_test), 100)


def digits() -> Data:
    """Digits, class c thinned out by 20^(−c/9), half of the rows to judge."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    kept = np.sort(
        np.concatenate([(rows := np.flatnonzero(y == c))[: int(rows.size * 20 ** (-c / 9))] for c in range(10)])
    )
    return reduced(Data(X[kept], y[kept], X_test, y_test), 40)


def reduced(data: Data, columns: int) -> Data:
    """Principal components, of variance one."""
    scale = StandardScaler().fit(data.X)
    axes = PCA(columns, whiten=True, random_state=0).fit(scale.transform(data.X))
    X, X_test = (axes.transform(scale.transform(rows)) for rows in (data.X, data.X_test))
    return Data(X, data.y.astype(np.int64), X_test, data.y_test.astype(np.int64))


SETS: dict[str, Callable[[], Data | None]] = {"CIFAR10-ST": cifar, "long-tailed digits": digits}


def stated(data: Data, radius: float) -> Any:
    """(1) of the paper: the KL ball, and λ₀ times the divergence as a price."""
    known = {"loss": "multinomial", "l2": L2, "fit_intercept": True}
    return sample_dro(data.X, data.y, ambiguity="kl", radius=radius, strength=FLOOR, **known)


def accuracy(data: Data, w: np.ndarray) -> tuple[float, float]:
    """Of all test rows, and of those in the rarer half of the classes."""
    scores = np.column_stack([data.X_test, np.ones(len(data.X_test))]) @ w.reshape(10, -1).T
    right = scores.argmax(axis=1) == data.y_test
    count = np.bincount(data.y, minlength=10)
    rare = np.isin(data.y_test, np.argsort(count, kind="stable")[:5])
    return float(right.mean()), float(right[rare].mean())


def optimum(problem: Any) -> Any:
    """The optimum, with its proof."""
    found = xrisk.minimize(problem, Auto(TOL), budget=xrisk.Budget(elapsed=120.0))
    if found.certificate is None or found.certificate.relative > 1e-4:
        raise RuntimeError(f"the optimum is not certified: {found.certificate}")
    return found


def temperature(problem: Any, found: Any) -> float:
    """λ of the worst case at the optimum: log q is ℓ/λ up to a constant."""
    losses = np.empty((len(found.dual), 1))
    exact_values(problem.inner, found.w, losses)
    heavy = found.dual[:, 0] > 1e-8 * found.dual.max()
    return float(1.0 / np.polyfit(losses[heavy, 0], np.log(found.dual[heavy, 0]), 1)[0])


def run(problem: Any, solver: Any, seed: int) -> Any:
    budget = xrisk.Budget(oracle_calls=CALLS)
    return xrisk.minimize(problem, solver, budget=budget, rng=seed, trace=xrisk.Trace(ratio=1.6))


def excess(values: Any, best: float) -> Any:
    """Above the optimum; what is not finite counts as far above it."""
    return np.nan_to_num(np.asarray(values, dtype=float) - best, nan=1e6, posinf=1e6)


def tuned(method: Method, attempt: Callable[[Any], float]) -> tuple[float, ...]:
    """The best numbers of the grid, one after the other, the step again at the end; at first the middle of each."""
    best = [values[len(values) // 2] for values in method.grid]
    again = [0] if len(best) > 1 else []
    for k in (k for k in (*range(len(best)), *again) if len(method.grid[k]) > 1):
        values = method.grid[k]
        best[k] = min(values, key=lambda v, k=k: attempt(method.solver(*best[:k], v, *best[k + 1 :])))
    return tuple(best)


def curve(method: Method, problem: Any, best: float, data: Data) -> dict[str, Any]:
    """Settings, the mean curve of the seeds, and what each seed ends with."""
    settings = tuned(method, lambda solver: max(excess(run(problem, solver, seed).value, best) for seed in TRIALS))
    runs = [run(problem, method.solver(*settings), seed) for seed in range(SEEDS)]
    points = min(len(r.trace) for r in runs)
    return {
        "settings": settings,
        "calls": [float(f"{v:.4g}") for v in np.mean([r.trace.oracle_calls[:points] for r in runs], axis=0)],
        "gap": [float(f"{v:.3g}") for v in np.mean([excess(r.trace.value[:points], best) for r in runs], axis=0)],
        "final": [float(f"{excess(r.value, best):.3g}") for r in runs],
        "accuracy": [[round(v, 4) for v in accuracy(data, r.w)] for r in runs],
    }


def exact(data: Data, radius: float) -> tuple[Any, dict[str, Any]]:
    """The problem of one radius and its optimum, as it is kept."""
    problem = stated(data, radius)
    best = optimum(problem)
    return problem, {
        "value": best.value,
        "relative": float(f"{best.certificate.relative:.2g}"),
        "temperature": temperature(problem, best),
        "calls": int(best.trace.oracle_calls[-1]),
        "accuracy": [[round(v, 4) for v in accuracy(data, best.w)]],
    }


def study(data: Data, radius: float, names: Any) -> dict[str, Any]:
    """Of one radius: the optimum, and every method."""
    problem, known = exact(data, radius)
    found: dict[str, Any] = {EXACT: known}
    best, lam = known["value"], known["temperature"]
    for name in names:
        begun, method = time.process_time(), METHODS[name]
        if method.fixed:  # the price at which the ball has its optimum: the same minimiser, a value lower by (λ − λ₀)ρ
            priced = problem._replace(outer=KLRisk(lam))
            found[name] = curve(method, priced, best - (lam - FLOOR) * radius, data)
        else:
            found[name] = curve(method, problem, best, data)
        told = found[name]
        print(radius, name, told["settings"], told["final"], f"{time.process_time() - begun:.0f} s", flush=True)
    return found


def average_only(data: Data) -> dict[str, Any]:
    """The optimum of the average."""
    problem = sample_dro(data.X, data.y, ambiguity="cvar", alpha=1.0, loss="multinomial", l2=L2, fit_intercept=True)
    return {"accuracy": [[round(v, 4) for v in accuracy(data, optimum(problem).w)]]}


def as_markdown(found: dict[str, Any]) -> str:
    """Final excess over the optimum, in percent of it."""
    heads = [f"ρ = {radius:g}" for radius in RADII]
    lines = [f"| method | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in METHODS:
        cells = []
        for radius in RADII:
            known = found[f"{radius:g}"]
            share = 100 * np.array(known[name]["final"]) / known[EXACT]["value"]
            mean, spread = (f"{v:.2f}" if v < 10.0 else f"{v:.0f}" for v in (np.mean(share), np.std(share)))
            cells.append(f"{mean} ({spread})" if np.mean(share) < FAR else f"> {FAR}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(known: dict[str, Any], part: int = 0) -> str:
    """Accuracy in percent, mean and standard deviation where there are seeds."""
    values = 100 * np.array(known["accuracy"])[:, part]
    return f"{values.mean():.1f} ({values.std():.1f})" if values.size > 1 else f"{values[0]:.1f}"


def as_sensitivity(name: str, found: dict[str, Any]) -> str:
    """Test accuracy against the radius, ours beside the published."""
    heads = [f"{radius:g}" for radius in RADII_TABLE]
    lines = [f"| ρ | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for method in SENSITIVE:
        if name == PUBLISHED_ON:
            lines.append(f"| {method}, published | {' | '.join(f'{v:.1f}' for v in PUBLISHED[method])} |")
        lines.append(f"| {method} | {' | '.join(cell(found[radius][method]) for radius in heads)} |")
    for part, words in enumerate((EXACT, f"{EXACT}, rarer half of the classes")):
        lines.append(f"| {words} | {' | '.join(cell(found[radius][EXACT], part) for radius in heads)} |")
    told = f"The optimum of the average has {cell(found[AVERAGE])}, and {cell(found[AVERAGE], 1)} in the rarer half."
    return "\n".join(lines) + f"\n\n{told}"


def picture(name: str) -> str:
    """The file of a picture."""
    return f"{name.lower().replace(' ', '-')}.png"


def draw(name: str, found: dict[str, Any]) -> None:
    """Excess over the optimum against oracle calls, a panel for each radius."""
    fig, axes = plt.subplots(1, len(RADII), figsize=(4.2 * len(RADII), 4.2), sharey=True, layout="constrained")
    colours = plt.get_cmap("tab20").colors
    for ax, radius in zip(axes, RADII, strict=True):
        known = found[f"{radius:g}"]
        for (method, colour), style in zip(zip(METHODS, colours, strict=False), ("-", "--") * 7, strict=False):
            ax.plot(known[method]["calls"][1:], known[method]["gap"][1:], style, color=colour, lw=1.5, label=method)
        ax.axhline(0.0, color="black", lw=1)
        ax.plot(known[EXACT]["calls"], 0.0, "k*", ms=9, label=EXACT, clip_on=False)
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=1e-4)
        ax.set_ylim(0.0, 10.0)
        ax.set_title(f"{name}, ρ = {radius:g}")
        ax.set_xlabel("oracle calls")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("objective above the optimum")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=8)
    fig.savefig(HERE / picture(name), dpi=80)
    plt.close(fig)


def main(wanted: list[str]) -> None:
    target = HERE / "expected.json"
    warnings.simplefilter("ignore")
    for name in wanted or SETS:
        data = SETS[name]()
        if data is None:
            continue
        found: dict[str, Any] = {AVERAGE: average_only(data)}
        for radius in dict.fromkeys((*RADII, *RADII_TABLE)):
            found[f"{radius:g}"] = study(data, radius, METHODS if radius in RADII else SENSITIVE)
            before = json.loads(target.read_text()) if target.exists() else {}
            known = {key: found if key == name else before[key] for key in SETS if key in (name, *before)}
            target.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        draw(name, found)
        print(as_markdown(found), as_sensitivity(name, found), sep="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
