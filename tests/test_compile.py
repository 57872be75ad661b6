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


FITS = {
    "groups, cvar": 'GroupDROClassifier(divergence="cvar", alpha=0.5, l2=0.1).fit(X, y, groups=groups)',
    "groups, max, hinge": 'GroupDROClassifier(divergence="max", l2=0.1, loss="hinge").fit(X, y, groups=groups)',
    "groups, kl": 'GroupDROClassifier(divergence="kl", l2=0.1).fit(X, y, groups=groups)',
    "rows, cvar, hinge": 'DROClassifier("cvar", alpha=0.3, loss="hinge").fit(X, y)',
    "rows, kl, huber": 'DRORegressor("kl", radius=0.3, loss="huber").fit(X, X[:, 0] + groups)',
    "rows, cvar, absolute": 'DRORegressor("cvar", alpha=0.5, loss="absolute").fit(X, X[:, 0] + groups)',
    "rows, chi2, hinge": 'DROClassifier("chi2", radius=0.3, loss="hinge").fit(X, y)',
}


@pytest.fixture(scope="module")
def gaps():
    """The certified relative gap of every fit, all from one process."""
    fits = ", ".join(f"{name!r}: xrisk.{fit}.certificate_.relative" for name, fit in FITS.items())
    return uncompiled(f"print(json.dumps({{{fits}}}))")


@pytest.mark.parametrize("name", FITS)
def test_a_fit_ends_certified(name, gaps):
    assert gaps[name] <= 1e-3
