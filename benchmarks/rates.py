"""The exponents of ALEXR in ε, S and B, measured on the hard instances and on regressions over noisy views.

Run ``python benchmarks/rates.py --out docs/rates.png``; ``docs/rates.md`` says what is measured and how. At every point
the theorem's parameters for the target κε are used, κ one constant per problem, and the first iteration is sought at
which the mean error over the seeds is at most ε.
"""

import argparse
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from xrisk import Problem
from xrisk.applications import hard_nonsmooth, hard_smooth
from xrisk.functions import L2, AffineLoss, Ball, CVaRHinge, Softplus
from xrisk.inner import Equal, Groups, InOrder, LinearModel, as_rows
from xrisk.inner.oracle import inner_size
from xrisk.solvers import exact
from xrisk.solvers.theory import Constants, Setting, theorem_5_7, theorem_5_9

N = 32  # inner functions of every problem
VIEWS, COLUMNS, NOISE = 64, 4, 2.0  # views of an example, columns, standard deviation of a view in each column
MU, RADIUS = 0.1, 2.0  # of the logistic regression, of the support vector machine
SIZES = (1, 2, 4, 8, 16)  # S and B
TRACE, RESAMPLES, TOLERANCE = 150, 300, 0.15
STAGE_SEEDS = 5  # times the seeds of the other measurements
STAGE = 3.0  # length of a stage in units of 1/(1 − θ); the first, which starts from afar, is twice as long

# n, f and g 1-Lipschitz, f with a kink, g affine, noise of variance 1 in the values only, duals in [0, 1]
PLAIN = Constants(N, 1.0, math.inf, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, N / 2.0)


class Instance(NamedTuple):
    """A problem and what is known of it."""

    problem: Problem
    constants: Constants
    error: Callable[[np.ndarray], float]
    bound: float  # iterations of theorem 10 for methods of its scheme at S = B = 1, 0 where no bound is known


class Study(NamedTuple):
    """What is measured on one family of problems."""

    name: str
    instance: Callable[[float], Instance]  # for a target ε
    theorem: Callable[..., Setting]
    kappa: float
    horizon: float  # recorded iterations, in units of the theorem's
    power: float  # theory: error ∝ iterations^power
    targets: np.ndarray  # ε
    target: float  # ε while S and B vary
    blocks: int  # S while ε and B vary


class Point(NamedTuple):
    """All seeds at one ε, S and B."""

    times: np.ndarray  # (trace,) iterations
    errors: np.ndarray  # (seeds, trace)
    eps: float
    logarithm: float  # the theorem's factor beside 1/(1 − θ)


class Row(NamedTuple):
    """One line of the table, one curve of the picture."""

    name: str
    axis: str  # ε, S or B
    note: str
    x: np.ndarray
    y: np.ndarray
    slope: float
    deviation: float  # standard error of the slope over seeds
    theory: float
    final: np.ndarray  # mean error at the last iteration over ε
    bound: np.ndarray  # lower bounds of y, or of x when the axis is ε

    def within(self) -> bool:
        return abs(self.slope - self.theory) <= TOLERANCE * abs(self.theory)


def smooth_instance(eps: float) -> Instance:
    hard = hard_smooth(N, eps=eps)
    nu = hard.problem.inner.nu
    constants = PLAIN._replace(
        lipschitz_f=1.0 + nu,
        smoothness_f=1.0,
        noise_value=1.0 - nu**2,
        spread=nu**2,  # between the start and the optimum the slopes of f are at most ν
        mu=0.5 / N,
        distance=float(np.linalg.norm(hard.w)),
        omega=N * (nu / 3.0) ** 2 / 2.0,
    )
    return Instance(hard.problem, constants, lambda w: float(np.mean((w - hard.w) ** 2)) / 4.0, N / (72.0 * eps))


def kink_instance(eps: float) -> Instance:
    hard = hard_nonsmooth(N, eps=eps)
    nu = hard.problem.inner.nu
    constants = PLAIN._replace(noise_value=1.0 - nu**2, distance=float(np.linalg.norm(hard.w)))
    return Instance(
        hard.problem, constants, lambda w: float(np.maximum(w, -nu).mean()) - hard.value, N / (64.0 * eps**2)
    )


def views(target: float) -> tuple[Groups, np.ndarray]:
    """gᵢ(w) = −bᵢ⟨xᵢ, w⟩ − target for examples of unit length, each known by views whose mean it is; and −bᵢxᵢ."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, COLUMNS))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    b = np.where(x @ np.array([1.5, -1.0, 0.5, 0.0]) + 0.7 * rng.standard_normal(N) > 0, 1, -1)
    means = -b[:, None] * x
    noise = rng.standard_normal((N, VIEWS, COLUMNS))
    noise -= noise.mean(axis=1, keepdims=True)
    noise *= NOISE / np.sqrt(np.mean(noise**2, axis=1, keepdims=True))
    rows = (means[:, None] + noise).reshape(-1, COLUMNS)
    model = LinearModel(as_rows(rows), np.full(rows.shape[0], target), AffineLoss())
    return Groups(model, np.arange(N + 1) * VIEWS, InOrder(), Equal()), means


def logistic_views() -> Instance:
    inner, means = views(0.0)
    problem = Problem(inner, Softplus(), L2(MU))
    w = exact(problem, tol=1e-12).w
    dual = 1.0 / (1.0 + np.exp(-means @ w))
    constants = PLAIN._replace(
        smoothness_f=0.25,
        noise_value=NOISE**2 * float(w @ w),
        noise_gradient=NOISE**2 * COLUMNS,
        spread=0.25,  # slopes of f are ½ at w = 0, and less on average at the optimum
        mu=MU,
        distance=float(np.linalg.norm(w)),
        omega=float(dual @ dual) / 2.0,
    )
    return Instance(problem, constants, lambda v: MU / 2.0 * float(np.sum((v - w) ** 2)), 0.0)


def hinge_views() -> Instance:
    inner, means = views(-1.0)
    problem = Problem(inner, CVaRHinge(1.0), Ball(RADIUS))
    best = exact(problem, tol=1e-10)
    constants = PLAIN._replace(
        noise_value=(NOISE * RADIUS) ** 2,
        noise_gradient=NOISE**2 * COLUMNS,
        distance=float(np.linalg.norm(best.w)),
    )
    return Instance(problem, constants, lambda w: float(np.maximum(means @ w + 1.0, 0.0).mean()) - best.value, 0.0)


def studies() -> list[Study]:
    logistic, hinge = logistic_views(), hinge_views()
    halves = 0.5 ** np.arange(6)
    return [
        Study("hard, smooth f", smooth_instance, theorem_5_7, 100.0, 3.0, -1.0, 2e-3 * halves, 1e-4, 8),
        Study("logistic views", lambda eps: logistic, theorem_5_7, 50.0, 0.8, -1.0, 8e-3 * halves, 1e-3, 8),
        Study("hard, f with a kink", kink_instance, theorem_5_9, 64.0, 3.0, -0.5, 0.04 * halves, 0.005, 8),
        Study("hinge views", lambda eps: hinge, theorem_5_9, 16.0, 0.3, -0.5, 0.08 * halves**0.6, 0.02, 8),
    ]


def setting_at(study: Study, eps: float, S: int, B: int) -> Setting:
    instance = study.instance(eps)
    return study.theorem(instance.problem, study.kappa * eps, blocks=S, batch=B, constants=instance.constants)


def measure(study: Study, eps: float, S: int, B: int, seeds: int) -> Point:
    setting, error = setting_at(study, eps, S, B), study.instance(eps).error
    problem, solver = setting.solver.prepare(setting.problem)
    last = study.horizon * setting.iterations
    times = np.unique(np.ceil(np.geomspace(last / 500.0, last, TRACE)).astype(np.int64))
    errors = np.empty((seeds, times.size))
    for seed in range(seeds):
        rng = np.random.default_rng([seed, S, B, round(1e9 * eps)])
        state = solver.init(problem, np.zeros(inner_size(problem.inner)), rng)
        for k, t in enumerate(times):
            state = solver.advance(problem, state, int(t) - state.t, rng)
            errors[seed, k] = error(solver.solution(state))
    return Point(times, errors, eps, (1.0 - solver.theta) * setting.iterations)


def measure_stages(study: Study, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Iterations (stages) and errors (seeds, stages) when the target is halved from stage to stage of one run."""
    settings = [setting_at(study, eps, study.blocks, 1) for eps in study.targets]
    error = study.instance(study.targets[0]).error
    lengths = [math.ceil(STAGE / (1.0 - setting.solver.theta)) for setting in settings]
    lengths[0] *= 2
    errors = np.empty((seeds, len(settings)))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        problem, first = settings[0].solver.prepare(settings[0].problem)
        state = first.init(problem, np.zeros(inner_size(problem.inner)), rng)
        for k, setting in enumerate(settings):
            _, solver = setting.solver.prepare(setting.problem)
            state = solver.advance(problem, state, lengths[k], rng)
            errors[seed, k] = error(solver.solution(state))
    return np.cumsum(lengths), errors


def crossing(point: Point, chosen: np.ndarray) -> float:
    """Iterations after which the mean error of the chosen seeds is first at most ε, between the points of the trace."""
    mean = point.errors[chosen].mean(axis=0)
    k = int(np.argmax(mean <= point.eps))
    if mean[k] > point.eps:
        return math.nan
    if k == 0:
        return float(point.times[0])
    part = np.log(mean[k - 1] / point.eps) / np.log(mean[k - 1] / max(mean[k], 1e-300))
    return float(point.times[k - 1] * (point.times[k] / point.times[k - 1]) ** part)


def fitted(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y over log x; NaN if any of them is."""
    u, v = np.log(x) - np.log(x).mean(), np.log(y) - np.log(y).mean()
    return float(u @ v / (u @ u))


def resampled(slope_of: Callable[[list[np.ndarray]], float], seeds: int, points: int) -> tuple[float, float]:
    """A slope from all seeds, and its standard error by drawing the seeds of every point anew."""
    rng = np.random.default_rng(0)
    slope = slope_of([np.arange(seeds)] * points)
    if math.isnan(slope):
        raise RuntimeError("the error did not reach ε within the recorded iterations: raise the study's horizon")
    drawn = [slope_of(list(rng.integers(0, seeds, (points, seeds)))) for _ in range(RESAMPLES)]
    if np.isnan(drawn).any():
        print(f"{np.isnan(drawn).sum()} of {RESAMPLES} resamples did not reach ε and are left out of a standard error")
    return slope, float(np.nanstd(drawn))


def size_row(study: Study, axis: str, sizes: tuple[int, ...], seeds: int) -> Row:
    at = [(size, 1) if axis == "S" else (study.blocks, size) for size in sizes]
    points = [measure(study, study.target, S, B, seeds) for S, B in at]
    x = np.array(sizes, dtype=float)
    slope, deviation = resampled(
        lambda draws: fitted(x, np.array([crossing(p, d) for p, d in zip(points, draws, strict=True)])),
        seeds,
        len(points),
    )
    y = np.array([crossing(p, np.arange(seeds)) for p in points])
    bound = study.instance(study.target).bound / x if axis == "S" else np.zeros(x.size)
    return Row(study.name, axis, f"ε = {study.target:g}", x, y, slope, deviation, -1.0, finals(points), bound)


def target_rows(study: Study, seeds: int) -> list[Row]:
    """Error against iterations; with a logarithm in the theorem, also against iterations over that logarithm."""
    points = [measure(study, eps, study.blocks, 1, seeds) for eps in study.targets]
    eps = study.targets
    logs = np.array([p.logarithm for p in points]) if study.power == -1.0 else np.ones(eps.size)
    bound = np.array([study.instance(e).bound for e in eps]) / study.blocks
    rows = []
    for note, over in (("", np.ones(eps.size)), ("over the theorem's logarithm", logs)):
        x = np.array([crossing(p, np.arange(seeds)) for p in points]) / over
        slope, deviation = resampled(
            lambda draws, over=over: fitted(
                np.array([crossing(p, d) for p, d in zip(points, draws, strict=True)]) / over, eps
            ),
            seeds,
            len(points),
        )
        rows.append(Row(study.name, "ε", note, x, eps, slope, deviation, study.power, finals(points), bound))
    return rows if np.ptp(logs) > 1e-2 else rows[:1]


def stage_row(study: Study, seeds: int) -> Row:
    """Error at the ends of the stages; an error at one time varies more than a crossing does, hence more seeds."""
    seeds *= STAGE_SEEDS
    times, errors = measure_stages(study, seeds)
    slope, deviation = resampled(lambda draws: fitted(times, errors[draws[0]].mean(axis=0)), seeds, 1)
    mean = errors.mean(axis=0)
    none = np.zeros(times.size)
    return Row(study.name, "ε", "in stages", times, mean, slope, deviation, study.power, mean / study.targets, none)


def finals(points: list[Point]) -> np.ndarray:
    return np.array([p.errors[:, -1].mean() / p.eps for p in points])


def all_rows(seeds: int, sizes: tuple[int, ...], count: int) -> list[Row]:
    rows = []
    for study in studies():
        study = study._replace(targets=study.targets[:count])
        started = time.perf_counter()
        rows += target_rows(study, seeds)
        if study.name == "logistic views":
            rows.append(stage_row(study, seeds))
        rows += [size_row(study, axis, sizes, seeds) for axis in ("S", "B")]
        print(f"{study.name}: {time.perf_counter() - started:.0f} s", flush=True)
    return rows


def print_table(rows: list[Row]) -> None:
    print("\n| problem | exponent in | measured | theory | within 15 % | error at the end / ε |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        what = f"{row.axis}, {row.note}" if row.note else row.axis
        verdict = "yes" if row.within() else "**no**"
        final = f"{row.final.min():.2f} – {row.final.max():.2f}"
        print(f"| {row.name} | {what} | {row.slope:.3f} ± {row.deviation:.3f} | {row.theory:g} | {verdict} | {final} |")


def draw(rows: list[Row], path: str) -> None:
    names = list(dict.fromkeys(row.name for row in rows))
    figure, axes = plt.subplots(2, 3, figsize=(13.5, 8.0), constrained_layout=True)
    for row in rows:
        place = names.index(row.name)
        ax = axes[place // 2, "εSB".index(row.axis)]
        staged = "stages" in row.note or "logarithm" in row.note
        colour = f"C{place}" if not staged else ("C4" if "stages" in row.note else "C5")
        label = row.name if row.axis != "ε" or not row.note else f"{row.name}, {row.note}"
        ax.loglog(row.x, row.y, "o", color=colour, label=f"{label}: {row.slope:.2f} ± {row.deviation:.2f}")
        line = np.exp(np.log(row.y).mean()) * (row.x / np.exp(np.log(row.x).mean())) ** row.theory
        ax.loglog(row.x, line, "--", color=colour, linewidth=1.0)
        if row.bound.any():
            at = (row.bound, row.y) if row.axis == "ε" else (row.x, row.bound)
            ax.loglog(*at, ":", color=colour, linewidth=1.0, label="theorem 10: no block-coordinate method is faster")
    for place, kind in enumerate(("strongly convex, f smooth", "convex, f with a kink")):
        for ax, x, y in zip(
            axes[place],
            ("iterations T", "blocks per iteration S", "samples per block B"),
            ("error", "iterations to ε", "iterations to ε"),
            strict=True,
        ):
            theory = {"iterations T": "T⁻¹" if place == 0 else "$T^{-1/2}$"}.get(x, x[-1] + "⁻¹")
            ax.set(xlabel=x, ylabel=y, title=f"{kind}; dashed: {theory}")
            ax.grid(True, which="major", alpha=0.3)
            low, high = ax.get_ylim()
            entries = len(ax.get_legend_handles_labels()[0])
            ax.set_ylim(low, high * (high / low) ** (0.07 * entries))  # room for the legend above the points
            ax.legend(fontsize=8, loc="upper right")
    for ax in axes[:, 1:].flat:
        ax.set_xticks(SIZES, [str(size) for size in SIZES])
        ax.minorticks_off()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="docs/rates.png", help="where the picture is written")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="3 seeds and 3 points: whether it runs, no more")
    options = parser.parse_args()
    started = time.perf_counter()
    rows = all_rows(3, SIZES[2:], 3) if options.quick else all_rows(options.seeds, SIZES, 6)
    print_table(rows)
    draw(rows, options.out)
    print(f"\n{options.out} written; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
