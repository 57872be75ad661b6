"""A race: methods on one problem under equal budgets, several seeds each, against the certified optimum."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from xrisk.annotations import Solver
from xrisk.certificate import certifiable, certify
from xrisk.inner.oracle import inner_count, inner_size
from xrisk.problem import Problem
from xrisk.race.grid import Setting, cells, neighbours, with_setting
from xrisk.run import Budget, Stop, minimize
from xrisk.run.observers import Trace, TracePoint
from xrisk.solvers import exact
from xrisk.solvers.catalogue import refusal

TUNING_SEED = 10**6  # seeds of the race stand below it
RATIO = 1.3  # of the iterations of neighbouring points of a trace
MARGIN = 0.01  # of the gap: what a neighbour must be better by, or a flat floor would be walked for ever
LAST_ONLY = 1e18  # ratio of a trace that records the first, the second and the last point

Watch = Callable[[str, float], None]


class Trial(NamedTuple):
    """One run of a method."""

    seed: int
    stop: str
    points: tuple[TracePoint, ...]


class Entry(NamedTuple):
    """A method in the race."""

    name: str
    solver: Solver  # as it ran
    setting: Setting  # the cell it was tuned to; empty if it was not
    tried: int  # cells
    trials: tuple[Trial, ...]


class Goal(NamedTuple):
    """The optimum: it lies between ``dual`` and ``value``."""

    value: float
    dual: float


class Race(NamedTuple):
    """What a race found; entries by their median gap at the end, the best first."""

    problem: str
    size: tuple[int, int]  # blocks, variables
    goal: Goal
    budget: Budget
    grid: dict[str, tuple[float, ...]]  # empty if nothing was tuned
    entries: tuple[Entry, ...]
    refused: dict[str, str]  # name → reason

    def gaps(self, entry: Entry) -> np.ndarray:
        """Suboptimality (objective − optimum) at the end of each trial; inf where the trial diverged."""
        return np.array([_final(trial) - self.goal.value for trial in entry.trials])


def race(
    problem: Problem,
    solvers: dict[str, Any],
    *,
    budget: Budget,
    seeds: Iterable[int] = range(5),
    grid: dict[str, tuple[float, ...]] | None = None,
    jobs: int = 1,
    title: str = "a problem",
    watch: Watch = lambda what, share: None,
) -> Race:
    """Race methods on a problem: each tuned over the grid, or as it is, then run once for every seed.

    Parameters
    ----------
    problem : Problem
        What to minimise; `xrisk.solvers.exact` must be able to, the gaps are to its optimum.
    solvers : dict of name → solver spec
        For example some of `xrisk.solvers.catalogue.CATALOGUE`. Those that do not apply are listed with the reason.
    budget : Budget
        Of every run, in iterations, oracle calls or seconds.
    seeds : iterable of int
        Seeds of the runs that are compared.
    grid : dict of field → values, optional
        A solver is run at every combination of the fields it has, once, with a seed of its own and the whole budget;
        the cell of least objective races. As long as a neighbour of that cell, inside the grid or beyond it, does
        better by a hundredth of the gap, the search moves on: no tuned value stands at an edge. `xrisk.race.PAPER` is
        the grid of the ALEXR paper.
    jobs : int
        Processes. Budgets of seconds are fair only with no more of them than cores.
    title : str
        What the problem is called.
    watch : function of what runs and the share done

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.race import race
    >>> from xrisk.datasets import make_groups
    >>> table = make_groups(5, n=500, random_state=0)
    >>> problem = xrisk.group_dro(table.X, table.y, table.groups, divergence="chi2", l2=0.1)
    >>> solvers = {"alexr": xrisk.solvers.ALEXR(), "sox": xrisk.solvers.SOX()}
    >>> found = race(problem, solvers, budget=xrisk.Budget(oracle_calls=2e5), seeds=[0])
    >>> sorted(entry.name for entry in found.entries)
    ['alexr', 'sox']
    >>> bool((found.gaps(found.entries[0]) < 0.05).all())
    True
    """
    seeds = _checked(seeds, solvers, budget)
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    problem.check()
    reasons = {name: refusal(problem, solver) for name, solver in solvers.items()}
    refused = {name: reason for name, reason in reasons.items() if reason is not None}
    running = {name: solver for name, solver in solvers.items() if name not in refused}
    if not running:
        raise ValueError(f"solvers must hold one that applies, got {'; '.join(refused.values())}")
    watch("the optimum", 0.0)
    goal = find_goal(problem)
    tried = {name: cells(solver, grid) if grid else [] for name, solver in running.items()}
    unknown = set(grid or ()) - {field for own in tried.values() for cell in own for field in cell}
    if unknown:
        raise ValueError(f"grid must name fields that a racing method has, got {', '.join(sorted(unknown))}")
    total = sum(map(len, tried.values())) + len(running) * len(seeds)
    course = _Course(problem, goal.value, budget, jobs, watch, total)
    settings = _tune(course, running, tried, grid or {})
    course = course._replace(total=sum(map(len, tried.values())) + len(running) * len(seeds))
    tuned = {name: with_setting(solver, settings[name]) for name, solver in running.items()}
    runs = [(name, tuned[name], seed, RATIO) for name in running for seed in seeds]
    trials = course.run("racing", runs, course.total - len(runs))
    entries = [
        Entry(name, tuned[name], settings[name], len(tried[name]), tuple(trials[k * len(seeds) : (k + 1) * len(seeds)]))
        for k, name in enumerate(running)
    ]
    size = (inner_count(problem.inner), inner_size(problem.inner))
    found = Race(title, size, goal, budget, dict(grid or {}), (), refused)
    return found._replace(entries=tuple(sorted(entries, key=lambda entry: float(np.median(found.gaps(entry))))))


def find_goal(problem: Problem) -> Goal:
    """The optimum by `exact`, certified from below where certificates exist, else by its own estimate."""
    best = exact(problem)
    if certifiable(problem):
        return Goal(best.value, certify(problem, best).dual)
    return Goal(best.value, best.value - best.gap)


def _checked(seeds: Iterable[int], solvers: dict[str, Any], budget: Budget) -> tuple[int, ...]:
    budget.check()
    seeds = tuple(seeds)
    if not seeds or len(set(seeds)) < len(seeds) or not all(0 <= seed < TUNING_SEED for seed in seeds):
        raise ValueError(f"seeds must be different whole numbers from 0 to {TUNING_SEED - 1}, got {seeds}")
    if not solvers:
        raise ValueError("solvers must name at least one method")
    return seeds


Run = tuple[str, Any, int, float]  # name, solver, seed, ratio of the trace


class _Course(NamedTuple):
    problem: Problem
    least: float  # the optimum
    budget: Budget
    jobs: int
    watch: Watch
    total: int  # runs

    def run(self, what: str, runs: list[Run], done: int) -> list[Trial]:
        """The trials of all runs, in order, after ``done`` others."""
        calls = (delayed(_trial)(self.problem, solver, self.budget, seed, ratio) for _, solver, seed, ratio in runs)
        trials: list[Trial] = []
        for trial in Parallel(n_jobs=self.jobs, return_as="generator")(calls):
            self.watch(f"{what} {runs[len(trials)][0]}", (done + len(trials)) / self.total)
            trials.append(trial)
        return trials


def _trial(problem: Problem, solver: Solver, budget: Budget, seed: int, ratio: float) -> Trial:
    result = minimize(problem, solver, budget=budget, rng=seed, trace=Trace(ratio))
    if result.stop is Stop.INTERRUPTED:  # a trial that ended early cannot be compared with the others
        raise KeyboardInterrupt
    return Trial(seed, result.stop.name.lower(), tuple(result.trace.points))


def _final(trial: Trial) -> float:
    return trial.points[-1].value if trial.stop != Stop.DIVERGED.name.lower() else math.inf


def _takes(solver: Solver, problem: Problem) -> bool:
    """Whether a method runs with values beyond the grid; some have limits."""
    try:
        solver.prepare(problem)
    except ValueError:
        return False
    return True


def _tune(
    course: _Course, solvers: dict[str, Any], tried: dict[str, list[Setting]], grid: dict[str, tuple[float, ...]]
) -> dict[str, Setting]:
    """The best cell of every method, better than all its neighbours, which ``tried`` then holds too."""
    waiting = [(name, cell) for name, own in tried.items() for cell in own]
    best: dict[str, tuple[float, Setting]] = {name: (math.inf, own[0] if own else {}) for name, own in tried.items()}
    done = 0
    while waiting:
        runs = [(name, with_setting(solvers[name], cell), TUNING_SEED, LAST_ONLY) for name, cell in waiting]
        course = course._replace(total=max(course.total, done + len(runs)))
        values = [_final(trial) for trial in course.run("tuning", runs, done)]
        for (name, cell), value in zip(waiting, values, strict=True):
            if value < best[name][0] - (MARGIN * (best[name][0] - course.least) if done else 0.0):
                best[name] = value, cell
        done += len(runs)
        waiting = [
            (name, cell)
            for name, (value, found) in best.items()
            for cell in (neighbours(found, grid) if value < math.inf else ())
            if cell not in tried[name] and _takes(with_setting(solvers[name], cell), course.problem)
        ]
        for name, cell in waiting:
            tried[name].append(cell)
    return {name: cell for name, (_, cell) in best.items()}
