"""Plain Python says what compiled code says, at any size of the numbers: no error of ``math``, no division by zero."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import xrisk
from tests.functions.cases import ours
from tests.functions.test_compiled import (
    loss_numbers,
    outer_numbers,
    penalty_numbers,
    risk_numbers,
    scores_numbers,
    threshold_numbers,
)
from xrisk import functions as xf
from xrisk.functions.smoothing import smooth_loss, smooth_outer, smoothable_loss, smoothable_outer

SIZES = (0.0, 1e-300, -1e-300, 1.0, -1.0, 1e150, -1e150, 1e300, -1e300)
VECTORS = [
    np.array(entries)
    for entries in (
        (0.0, 0.0, 0.0, 0.0),
        (1e300, -1e300, 1.0, 0.0),
        (1e-300, 5e-324, 0.0, -1e-300),
        (1e150, 1e150, -1e150, 3.0),
        (-1e300, -1e300, -1e300, -1e300),
        (1.0, 2.0, 3.0, -800.0),
    )
]


@njit(error_model="numpy")
def smooth_loss_numbers(loss, z, y, mu):
    return smooth_loss(loss, z, y, mu)


@njit(error_model="numpy")
def smooth_outer_numbers(f, u, mu):
    return smooth_outer(f, u, mu)


SMOOTH = (0.0, 1e-300, 1e-12, 1.0, 1e300)
CALLS = {
    "loss": (loss_numbers, ours(xf.loss_value.table), SIZES, (1.0, -1.0)),
    "outer": (outer_numbers, ours(xf.outer_value.table), SIZES),
    "scores": (scores_numbers, [xf.Multinomial()], VECTORS),
    "risk": (risk_numbers, [rho for rho in ours(xf.risk_value.table) if type(rho) is not xf.WithMasses], VECTORS),
    "masses": (risk_numbers, [xf.WithMasses()], [u[:2] for u in VECTORS]),
    "threshold": (threshold_numbers, ours(xf.risk_outer.table), VECTORS),
    "penalty": (penalty_numbers, ours(xf.penalty_value.table), VECTORS),
    "smooth loss": (
        smooth_loss_numbers,
        [smoothable_loss(xf.HingeLoss()), smoothable_loss(xf.Huber())],
        SIZES,
        (1.0,),
        SMOOTH,
    ),
    "smooth outer": (smooth_outer_numbers, [smoothable_outer(xf.CVaRHinge()), xf.Power(1.5)], SIZES, SMOOTH),
}


def outcomes(name):
    """What the numbers of one kind are for every spec and argument."""
    function, *choices = CALLS[name]
    with np.errstate(all="ignore"):
        return [np.hstack(function(*arguments)).tolist() for arguments in itertools.product(*choices)]


@pytest.fixture(scope="module")
def uncompiled():
    """The outcomes of a process in which nothing is compiled."""
    code = "import json; from tests.functions.test_plain import *; print(json.dumps({n: outcomes(n) for n in CALLS}))"
    paths = [str(Path(__file__).parents[2]), str(Path(xrisk.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# each spec of the others takes a second to compile
QUICK = ("scores", "smooth loss", "smooth outer")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in CALLS]
)
def test_plain_python_equals_compiled_code_at_any_size(name, uncompiled):
    arguments = itertools.product(*CALLS[name][1:])
    for given, found, wanted in zip(arguments, uncompiled[name], outcomes(name), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-300, err_msg=repr(given))
