"""NUMBA_DISABLE_JIT=1 runs the library as plain Python."""

import json
import os
import subprocess
import sys

import pytest

PROBLEM = """
import json
import numpy as np
import xrisk

rng = np.random.default_rng(0)
X, groups = rng.standard_normal((60, 3)), np.arange(60) % 3
y = np.where(X[:, 0] + 0.3 * groups > 0.3, 1, -1)
problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.5, l2=0.1)
"""
RUN = """
from xrisk.solvers.coupled.alexr import alexr_steps
result = xrisk.minimize(problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=200), rng=0)
certificate = xrisk.certify(problem, result)
facts = {"kernel": type(alexr_steps).__name__, "start": problem.value(np.zeros(3)), "found": problem.value(result.w)}
print(json.dumps(facts | {"primal": certificate.primal, "dual": certificate.dual}))
"""


def uncompiled(code):
    """What ``code`` prints, as JSON, in a process in which nothing is compiled; its warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBLEM + code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def run():
    return uncompiled(RUN)


def test_kernels_are_plain_functions(run):
    assert run["kernel"] == "function"


def test_a_solver_makes_progress(run):
    assert run["found"] < 0.8 * run["start"]


def test_a_certificate_encloses_the_optimum(run):
    assert 0.0 < run["dual"] < run["primal"] == pytest.approx(run["found"], rel=1e-12)


FIT = """
model = xrisk.GroupDROClassifier(divergence="{}", alpha=0.5, l2=0.1, loss="{}").fit(X, y, groups=groups)
print(json.dumps({{"relative": model.certificate_.relative}}))
"""


@pytest.mark.parametrize(("divergence", "loss"), [("cvar", "logistic"), ("max", "hinge"), ("kl", "logistic")])
def test_a_default_fit_ends_certified(divergence, loss):
    assert uncompiled(FIT.format(divergence, loss))["relative"] <= 1e-3


ROWS = """
model = xrisk.DROClassifier("{}", loss="hinge", **{}).fit(X, y)
print(json.dumps({{"relative": model.certificate_.relative}}))
"""


@pytest.mark.parametrize(("ambiguity", "size"), [("cvar", {"alpha": 0.3}), ("chi2", {"radius": 0.3})])
def test_a_worst_case_over_rows_of_a_loss_with_a_kink_ends_certified(ambiguity, size):
    assert uncompiled(ROWS.format(ambiguity, size))["relative"] <= 1e-3
