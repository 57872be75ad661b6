"""Problems to race on, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xrisk.applications import (
    bellman,
    group_dro,
    hard_nonsmooth,
    hard_smooth,
    multi_task,
    p_norm_push,
    partial_auc,
    robust_logistic,
)
from xrisk.datasets import Table, load_adult, make_groups
from xrisk.problem import Problem


class NamedProblem(NamedTuple):
    """A problem and its description."""

    description: str
    build: Callable[[], Problem]


LARGE = partial(make_groups, 20, n=4000, random_state=0)
SMALL = partial(make_groups, 20, n=1000, random_state=0)


def _groups(load: Callable[[], Table], **options: Any) -> Callable[[], Problem]:
    def build() -> Problem:
        table = load()
        return group_dro(table.X, table.y, table.groups, **options)

    return build


_generated = partial(_groups, LARGE, l2=1e-2)
_adult = partial(_groups, partial(load_adult, "train", random_state=0), l2=0.05)


def _tasks(**options: Any) -> Callable[[], Problem]:
    def build() -> Problem:
        table = LARGE()
        return multi_task(table.X, table.y, table.groups // 4, table.groups % 4, l2=1e-2, **options)

    return build


def _rows(application: Callable[..., Problem], **options: Any) -> Callable[[], Problem]:
    def build() -> Problem:
        table = SMALL()
        return application(table.X, table.y, l2=1e-2, **options)

    return build


def _bellman() -> Problem:
    """As in the experiments of the SVRPDA paper: uniform random P, rewards and features."""
    rng = np.random.default_rng(0)
    P, reward, features = rng.random((100, 100)), rng.random((100, 100)), rng.random((100, 10))
    return bellman(P / P.sum(axis=1, keepdims=True), reward, features, discount=0.9, l2=1e-3)


PROBLEMS: dict[str, NamedProblem] = {
    "groups-cvar": NamedProblem("generated, 20 groups, worst 20 %", _generated(divergence="cvar", alpha=0.2)),
    "groups-max": NamedProblem("generated, 20 groups, the worst one", _generated(divergence="max")),
    "groups-chi2": NamedProblem("generated, 20 groups, χ² of strength 1", _generated(divergence="chi2", lam=1.0)),
    "groups-kl": NamedProblem("generated, 20 groups, KL of strength 1", _generated(divergence="kl", lam=1.0)),
    "adult-cvar": NamedProblem("Adult, 83 groups, worst 10 %", _adult(divergence="cvar", alpha=0.1)),
    "adult-max": NamedProblem("Adult, 83 groups, the worst one", _adult(divergence="max")),
    "adult-chi2": NamedProblem("Adult, 83 groups, χ² of strength 1", _adult(divergence="chi2", lam=1.0)),
    "tasks-max": NamedProblem("generated, 5 tasks of 4 groups, the worst of each", _tasks(outer="max")),
    "tasks-lse": NamedProblem("generated, 5 tasks of 4 groups, log-sum-exp of each", _tasks(outer="log-sum-exp")),
    "robust": NamedProblem("generated, 1,000 rows under Gaussian noise", _rows(robust_logistic)),
    "partial-auc": NamedProblem("generated, 1,000 rows, partial AUC with TPR ≥ ½", _rows(partial_auc, min_tpr=0.5)),
    "p-norm-push": NamedProblem("generated, 1,000 rows, p-norm push, p = 4", _rows(p_norm_push, loss="logistic")),
    "bellman": NamedProblem("Bellman residual, 100 states, 10 features", _bellman),
    "hard-smooth": NamedProblem("lower bound, smooth f", lambda: hard_smooth(8).problem),
    "hard-nonsmooth": NamedProblem("lower bound, f with a kink", lambda: hard_nonsmooth(8).problem),
}
