"""Worst groups on a generated table: the average hides two of four groups, CVaR over the groups does not.

Run ``python examples/quickstart.py``. The first run compiles the kernels, which are kept on disk.
"""

import time

import numpy as np

import xrisk
from xrisk.datasets import make_spurious
from xrisk.problem import inner_values

ALPHA, L2 = 0.5, 1e-2  # the worst half of the groups; strength of the penalty


def main() -> None:
    started = time.perf_counter()
    table = make_spurious(4000, random_state=0)
    order = np.argsort(
        table.groups, kind="stable"
    )  # any order works; sorted rows let both problems share their kernels
    X, y, groups = table.X[order], table.y[order], table.groups[order]
    print(f"{table.description}\n")

    # one group that holds every row: its mean loss is the average loss
    average = xrisk.group_dro(X, y, np.zeros(y.size), divergence="max", l2=L2)
    erm = xrisk.solvers.exact(average)

    # the mean loss of the worst half of the groups
    problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=ALPHA, l2=L2)
    best = xrisk.solvers.exact(problem)
    solver = xrisk.solvers.ALEXR(step=0.05, dual_step=0.1, theta=1.0)
    result = xrisk.minimize(problem, solver, budget=xrisk.Budget(oracle_calls=2e6), rng=0)

    print("ALEXR samples 8 rows of a group at a time; the optimum is from the exact solver.\n")
    print(f"{'iterations':>12}{'oracle calls':>14}{'seconds':>9}{'objective':>11}{'above the optimum':>19}")
    for point in result.trace.points[::-6][::-1]:
        excess = point.value - best.value
        print(f"{point.iterations:12,}{point.oracle_calls:14,}{point.seconds:9.3f}{point.value:11.5f}{excess:19.5f}")
    print(f"\n{str(result.stop).capitalize()}.")

    for name, found in (("ALEXR", result), ("exact", best)):
        proof = xrisk.certify(problem, found)
        print(f"{name}: {proof.dual:.7f} ≤ optimum ≤ {proof.primal:.7f}, relative gap {proof.relative:.1e}")

    losses = {name: inner_values(problem, w)[:, 0] for name, w in (("average", erm.w), ("worst half", result.w))}
    wrong = {name: np.where(y * (X @ w) <= 0, 1.0, 0.0) for name, w in (("average", erm.w), ("worst half", result.w))}
    print("\nMean loss and error rate in each group, for each minimised objective:\n")
    print(f"{'group':<14}{'rows':>6}" + "".join(f"{name + ': loss':>18}{'errors':>8}" for name in losses))
    for i, name in enumerate(table.group_names):
        rows = groups == i
        cells = (f"{losses[key][i]:18.3f}{wrong[key][rows].mean():8.1%}" for key in losses)
        print(f"{name:<14}{rows.sum():6}" + "".join(cells))
    cells = (f"{wrong[key].mean():26.1%}" for key in losses)
    print(f"{'all rows':<14}{y.size:6}" + "".join(cells))
    print(f"\n{time.perf_counter() - started:.1f} s, including compilation")


if __name__ == "__main__":
    main()
