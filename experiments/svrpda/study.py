"""The comparisons of the SVRPDA supplement: objective gap against oracle calls, on decision processes and portfolios.

``python experiments/svrpda/study.py`` runs all of study.toml, writes expected.json and the pictures; names of studies
as arguments run those and leave the others as they are.
"""

import itertools
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xrisk
from xrisk.applications import bellman, mean_variance
from xrisk.datasets import load_french, make_mdp, make_returns
from xrisk.inner import inner_count
from xrisk.run.observers import Trace
from xrisk.solvers import ASCVRG, CSAGA, SVRPDAI, SVRPDAII, BatchGradient, CompositionalSVRG1, CompositionalSVRG2
from xrisk.solvers.shared.epochs import epochs_begun

HERE = Path(__file__).parent
GOALS = (1e-3, 1e-6, 1e-9)
TUNED_TO = 1e-6
PORTFOLIO = "portfolio-methods"
COLOURS = ("#0b6e99", "#2e8b57", "#c0392b", "#8e44ad", "#d68910", "#7f8c8d", "#1c2833")

Count = Callable[[Any, int], float]  # oracle calls, as published, of a solver after t iterations


class Case(NamedTuple):
    """A problem with its optimum and its way to count."""

    problem: Any
    optimum: float
    start: np.ndarray
    count: Count


class Line(NamedTuple):
    """One run: calls and gaps."""

    calls: np.ndarray
    gaps: np.ndarray


def mdp_case(study: dict[str, Any], seed: int) -> Case:
    """A random decision process, another one for every seed; the optimum is that of least squares."""
    mdp = make_mdp(study["states"], study["features"], random_state=seed)
    problem = bellman(mdp.transitions, mdp.rewards, mdp.features, discount=study["discount"], sampling="uniform")
    best = np.linalg.lstsq(problem.inner.mean_rows, problem.inner.mean_reward)[0]
    S = study["states"]

    def count(solver: Any, t: int) -> float:
        if isinstance(solver, CSAGA):  # every value or Jacobian of a map to R^{2S} is 2S calls
            return 2.0 * S * (2.0 * S + 2.0 * solver.batch * t)
        passes = epochs_begun(solver.epoch, t)
        return 2.0 * S * S * passes + PER_ITERATION[type(solver)](solver) * t

    return Case(problem, problem.value(best), np.zeros(study["features"]), count)


PER_ITERATION: dict[type, Callable[[Any], int]] = {
    SVRPDAI: lambda solver: 4 * solver.batch,
    SVRPDAII: lambda solver: 5 * solver.batch,
    CompositionalSVRG1: lambda solver: 2 * solver.batch + 2,
    CompositionalSVRG2: lambda solver: 2 * solver.batch + 2 * solver.jacobian_batch,
    ASCVRG: lambda solver: 2 * solver.batch + 2 * solver.jacobian_batch,
}


def portfolio_case(study: dict[str, Any], seed: int) -> Case:
    """Returns in percent, complete periods; the optimum is in closed form."""
    generated = study["data"] == "generated"
    table = make_returns(5000, 50, n_factors=5, random_state=0) if generated else load_french(study["data"])
    returns = (100.0 if generated else 1.0) * table.returns[np.isfinite(table.returns).all(axis=1)]
    returns = returns[-study.get("last", len(returns)) :]
    problem = mean_variance(returns)
    best = np.linalg.solve(2.0 * np.cov(returns.T, bias=True), returns.mean(axis=0))
    n = len(returns)

    def count(solver: Any, t: int) -> float:  # a pass is n returns ⟨rⱼ, x⟩ and n gradients rⱼ
        if isinstance(solver, BatchGradient):
            return 2.0 * n * t
        return 2.0 * n * epochs_begun(solver.epoch, t) + PER_ITERATION[type(solver)](solver) * t

    return Case(problem, problem.value(best), np.random.default_rng(seed).random(returns.shape[1]), count)


CASES = {"mdp": mdp_case, "portfolio": portfolio_case}


def settings(method: dict[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values of a method's fields."""
    fields = {name: value if isinstance(value, list) else [value] for name, value in method.items()}
    return [dict(zip(fields, cell, strict=True)) for cell in itertools.product(*fields.values())]


def built(setting: dict[str, Any], case: Case, steps: float = 1.0) -> Any:
    """The solver of a setting, ready for the problem, its step times ``steps``."""
    fields = dict(setting)
    kind = getattr(xrisk.solvers, fields.pop("solver"))
    if fields.get("epoch") == "n":
        fields["epoch"] = inner_count(case.problem.inner)
    if fields["step"] == "0.4/λmax(RᵀR)":
        rows = case.problem.inner.rows - case.problem.penalty.slope  # the mean is in the penalty
        fields["step"] = 0.4 / np.linalg.eigvalsh(rows.T @ rows)[-1]
    else:
        fields["step"] *= steps
    return kind(**fields).prepare(case.problem)[1]


def iterations_for(solver: Any, count: Count, calls: float) -> int:
    """The iterations that a budget of calls allows, at least one."""
    low, high = 1, 2
    while count(solver, high) <= calls:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(solver, middle) <= calls else (low, middle)
    return low


def run(case: Case, solver: Any, calls: float, seed: int, until: float = 0.0) -> Line:
    """A run of so many calls; it may end where the gap is below ``until``."""
    budget = xrisk.Budget(iterations=iterations_for(solver, case.count, calls))
    trace = Trace(1.05)
    stop = (lambda seen: seen.value - case.optimum <= until) if until else None
    with np.errstate(all="ignore"):
        xrisk.minimize(case.problem, solver, case.start, budget=budget, rng=seed, trace=trace, until=stop)
    points = [point for point in trace.points if point.iterations > 0]
    gaps = np.array([point.value - case.optimum for point in points])
    return Line(np.array([case.count(solver, point.iterations) for point in points]), np.maximum(gaps, 1e-16))


def calls_to(line: Line, goal: float) -> float:
    """Calls after which the gap stays below the goal; inf if it does not. Noise may be below it for a moment."""
    above = np.flatnonzero(line.gaps > goal)
    after = above[-1] + 1 if above.size else 0
    return float(line.calls[after]) if after < line.calls.size else np.inf


def tuned(method: dict[str, Any], cases: list[Case], calls: float) -> dict[str, Any]:
    """The setting of fewest calls to stay below the goal, by the median over the cases; runs end at a tenth of it."""

    def median(setting: dict[str, Any]) -> tuple[float, float]:
        lines = [run(case, built(setting, case), calls, 10**6 + k, 0.1 * TUNED_TO) for k, case in enumerate(cases)]
        return float(np.median([calls_to(line, TUNED_TO) for line in lines])), float(
            np.median([x.gaps[-1] for x in lines])
        )

    choices = settings(method)
    return choices[0] if len(choices) == 1 else min(choices, key=median)


def compare(study: dict[str, Any], methods: dict[str, Any], seeds: int) -> dict[str, tuple[dict[str, Any], list[Line]]]:
    """The runs of every method of a study, with the setting they had."""
    cases = [CASES[study["kind"]](study, seed) for seed in range(seeds)]
    found = {}
    for name, method in methods.items():
        setting = tuned(method, cases, study["calls"])
        solvers = [built(setting, case, study.get("steps", 1.0)) for case in cases]
        runs = enumerate(zip(cases, solvers, strict=True))
        found[name] = setting, [run(case, solver, study["calls"], k) for k, (case, solver) in runs]
    return found


def summary(found: dict[str, tuple[dict[str, Any], list[Line]]]) -> dict[str, Any]:
    """Medians over the seeds, for expected.json; null where a goal is not reached."""
    numbers = {}
    for name, (setting, lines) in found.items():
        reached = {f"{goal:g}": float(np.median([calls_to(line, goal) for line in lines])) for goal in GOALS}
        numbers[name] = {
            "setting": setting,
            "calls_to": {goal: (calls if np.isfinite(calls) else None) for goal, calls in reached.items()},
            "final_gap": float(np.median([line.gaps[-1] for line in lines])),
        }
    return numbers


def as_markdown(numbers: dict[str, Any]) -> str:
    """The table of a study, from what expected.json has of it."""
    lines = [
        f"| method | {' | '.join(f'calls to {goal:g}' for goal in GOALS)} | gap at the end |",
        "|---|---|---|---|---|",
    ]
    for name, known in numbers.items():
        calls = ("–" if reached is None else f"{reached:.2e}" for reached in known["calls_to"].values())
        gap = "< 1e-15" if known["final_gap"] < 1e-15 else f"{known['final_gap']:.1e}"
        lines.append(f"| {name} | {' | '.join(calls)} | {gap} |")
    return "\n".join(lines)


def draw(title: str, found: dict[str, tuple[dict[str, Any], list[Line]]], path: Path) -> None:
    """Medians of the gap against calls, from the lowest to the highest in pale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 4.6), layout="constrained")
    axes = figure.subplots()
    for colour, (name, (_, lines)) in zip(COLOURS, found.items(), strict=False):
        shared = min(len(line.calls) for line in lines)
        calls, gaps = lines[0].calls[:shared], np.array([line.gaps[:shared] for line in lines])
        axes.plot(calls, np.median(gaps, axis=0), color=colour, linewidth=1.9, label=name)
        axes.fill_between(calls, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", yscale="log", xlabel="oracle calls", ylabel="objective less optimum", ylim=(3e-17, None))
    axes.grid(True, which="major", color="#d9dee3", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def methods_of(studies: dict[str, Any], name: str) -> dict[str, Any]:
    """The methods of a study: its own, or those of all portfolios."""
    return studies[name].get("methods", studies[PORTFOLIO])


def main(names: list[str]) -> None:
    studies = tomllib.loads((HERE / "study.toml").read_text())
    target = HERE / "expected.json"
    expected = json.loads(target.read_text()) if target.exists() else {}
    for name in names or [name for name in studies if name != PORTFOLIO]:
        found = compare(studies[name], methods_of(studies, name), studies[name]["seeds"])
        expected[name] = summary(found)
        draw(studies[name]["title"], found, HERE / f"{name}.png")
        target.write_text(json.dumps(expected, indent=1) + "\n")
        print(name, json.dumps(expected[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
