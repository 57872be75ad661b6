"""A function, a method and an estimator in one new file each: the package finds them, no list is edited."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xrisk

SOURCE = Path(xrisk.__file__).parent

HEAD = "from typing import NamedTuple\n\nimport numpy as np\n\n"
OUTER = """
from xrisk.functions.outer.generics import outer_is_monotone, outer_slope, outer_value


class Cubed(NamedTuple):
    scale: float = 1.0


outer_value.of(Cubed)(lambda f, u: f.scale * max(u, 0.0) ** 3)
outer_slope.of(Cubed)(lambda f, u: 3.0 * f.scale * max(u, 0.0) ** 2)
outer_is_monotone.of(Cubed)(lambda f: True)
"""
LOSS = """
from xrisk.functions.loss.generics import loss_curvature, loss_is_classification, loss_slope, loss_value


class Steep(NamedTuple):
    scale: float = 2.0


loss_value.of(Steep)(lambda loss, z, y: np.log1p(np.exp(-loss.scale * y * z)))
loss_slope.of(Steep)(lambda loss, z, y: -loss.scale * y / (1.0 + np.exp(loss.scale * y * z)))
loss_is_classification.of(Steep)(lambda loss: True)


@loss_curvature.of(Steep)
def _(loss, z, y):
    share = 1.0 / (1.0 + np.exp(loss.scale * y * z))
    return loss.scale**2 * share * (1.0 - share)
"""
PENALTY = """
from xrisk.functions.penalty import penalty_conjugate, penalty_convexity, penalty_value, prox


class Doubled(NamedTuple):
    l2: float = 1.0


@prox.of(Doubled)
def _(r, w, s):
    w /= 1.0 + 2.0 * s * r.l2


penalty_value.of(Doubled)(lambda r, w: r.l2 * (w * w).sum())
penalty_conjugate.of(Doubled)(lambda r, v: 0.25 * (v * v).sum() / r.l2)
penalty_convexity.of(Doubled)(lambda r: 2.0 * r.l2)
"""
SOLVER = """
from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import batch_value, batch_vjp, draw, inner_count, inner_dim, new_batch, uniform_index
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method


class LatestState(NamedTuple):
    w: np.ndarray
    y: np.ndarray
    t: int


class Latest(NamedTuple):
    step: float = 0.05
    batch: int = 8

    def card(self):
        return MethodCard("Latest", "a test", "ours", values="B", gradients="B", rate="none: it is biased")

    def init(self, problem, x, rng):
        return LatestState(x.copy(), np.zeros((inner_count(problem.inner), inner_dim(problem.inner))), 0)


@method(COUPLED, {"latest": Latest()})
def latest_steps(problem, state, solver, n_steps, rng):
    w, y, t = state
    g, f, r = problem
    u, grad, batch = np.empty(y.shape[1]), np.empty(w.size), new_batch(g, solver.batch)
    for _ in range(n_steps):
        grad[:] = 0.0
        i = uniform_index(rng, 0, y.shape[0])
        draw(g, i, rng, batch)
        batch_value(g, i, w, batch, u)
        block_slope(f, u, y[i])
        batch_vjp(g, i, w, batch, y[i], 1.0, grad)
        w -= solver.step * grad
        prox(r, w, solver.step)
    return LatestState(w, y, t + n_steps)
"""
ESTIMATOR = """
from dataclasses import dataclass

from xrisk.applications import group_dro
from xrisk.estimators.base import LinearRobustClassifier
from xrisk.estimators.groups import GroupRobust
from xrisk.functions import Identity


@dataclass(eq=False, repr=False, kw_only=True)
class BalancedClassifier(GroupRobust, LinearRobustClassifier):
    loss: str = "logistic"

    def _problem(self, training):
        problem = group_dro(
            training.X, training.target, training.metadata.labels, loss=self._row_loss(), l2=self.l2, fit_intercept=True
        )
        return problem._replace(outer=Identity())
"""
FILES = {
    "functions/outer/cubed.py": HEAD + OUTER,
    "functions/loss/steep.py": HEAD + LOSS,
    "functions/doubled.py": HEAD + PENALTY,
    "solvers/latest.py": HEAD + SOLVER,
    "estimators/balanced.py": ESTIMATOR,
}
CODE = """
import numpy as np
import xrisk
from xrisk.functions import Cubed, Doubled, Steep
from xrisk.solvers import Latest, catalogue

assert "latest" in catalogue.CATALOGUE
rng = np.random.default_rng(0)
X, groups = rng.standard_normal((60, 3)), rng.integers(0, 3, 60)
y = np.where(X[:, 0] > 0, 1, -1)
stated = xrisk.group_dro(X, y, groups, loss=Steep(), l2=0.1)
problem = stated._replace(outer=Cubed(), penalty=Doubled(0.1))
result = xrisk.minimize(problem, Latest(), budget=xrisk.Budget(iterations=200), rng=0)
assert result.value < problem.value(np.zeros(3))
model = xrisk.BalancedClassifier().fit(X, y, groups=groups)
assert model.score(X, y) > 0.8
xrisk.save(model, "model.xrisk")
assert (xrisk.load("model.xrisk").predict(X) == model.predict(X)).all()
"""


@pytest.mark.slow
def test_one_new_file_each_is_found(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "xrisk", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (tmp_path / "xrisk" / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
