"""Problems to race on, by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

from xrisk.applications import group_dro
from xrisk.applications.hard import hard_nonsmooth, hard_smooth
from xrisk.datasets import Table, load_adult, make_groups
from xrisk.problem import Problem


class NamedProblem(NamedTuple):
    """A problem with what is to be said about it."""

    description: str
    build: Callable[[], Problem]


def _groups(**options: Any) -> Callable[[], Problem]:
    return lambda: _dro(make_groups(20, n=4000, random_state=0), l2=1e-2, **options)


def _adult(**options: Any) -> Callable[[], Problem]:
    return lambda: _dro(load_adult("train", random_state=0), l2=0.05, **options)


def _dro(table: Table, **options: Any) -> Problem:
    return group_dro(table.X, table.y, table.groups, **options)


PROBLEMS: dict[str, NamedProblem] = {
    "groups-cvar": NamedProblem("generated, 20 groups, worst 20 %", _groups(divergence="cvar", alpha=0.2)),
    "groups-max": NamedProblem("generated, 20 groups, the worst one", _groups(divergence="max")),
    "groups-chi2": NamedProblem("generated, 20 groups, χ² of strength 1", _groups(divergence="chi2", lam=1.0)),
    "groups-kl": NamedProblem("generated, 20 groups, KL of strength 1", _groups(divergence="kl", lam=1.0)),
    "adult-cvar": NamedProblem("Adult, 83 groups, worst 10 %", _adult(divergence="cvar", alpha=0.1)),
    "adult-max": NamedProblem("Adult, 83 groups, the worst one", _adult(divergence="max")),
    "adult-chi2": NamedProblem("Adult, 83 groups, χ² of strength 1", _adult(divergence="chi2", lam=1.0)),
    "hard-smooth": NamedProblem("lower bound, smooth f", lambda: hard_smooth(8).problem),
    "hard-nonsmooth": NamedProblem("lower bound, f with a kink", lambda: hard_nonsmooth(8).problem),
}
