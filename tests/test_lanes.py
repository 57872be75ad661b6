"""Sums in lanes: their bits are those of plain Python, and no bit depends on what was compiled before."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import xrisk
from xrisk import lanes as lane
from xrisk.compile import inlined, kernel
from xrisk.data.rows import dense_dot, dense_dots, four_dots, two_by_two_dots
from xrisk.functions import reweighting as rw
from xrisk.functions.special import logistic_terms

RNG = np.random.default_rng(3)
NUMBERS = [RNG.standard_normal((4, n)) for n in (0, 1, 2, 3, 7, 8, 9, 13, 16, 31, 40)]
every_size = pytest.mark.parametrize("X", NUMBERS, ids=lambda X: str(X.shape[1]))


@every_size
def test_a_sum_has_the_bits_of_plain_python(X):
    assert lane.array_sum(X[0]) == lane.array_sum.py_func(X[0])


@every_size
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_dot_product_has_the_bits_of_plain_python(X, kind):
    assert dense_dot(X[0].astype(kind), X[1]) == dense_dot.py_func(X[0].astype(kind), X[1])


@every_size
def test_rows_read_together_have_the_bits_of_rows_read_alone(X):
    a, b, w, v = X
    alone = [dense_dot(x, w) for x in X]
    assert list(four_dots(*X, w)) == alone
    assert dense_dots(a, w, v) == (alone[0], dense_dot(a, v))
    assert two_by_two_dots(a, b, w, v) == (alone[0], alone[1], dense_dot(a, v), dense_dot(b, v))


@every_size
def test_strides_do_not_matter(X):
    assert lane.array_sum(np.asfortranarray(X)[0]) == lane.array_sum(X[0])


@inlined
def doubled(x, out):
    for j in range(0, x.size, lane.LANES):
        lane.unpack(lane.pack(x, j) * 2.0, out, j)


@every_size
def test_lanes_go_back_to_where_they_came_from(X):
    out, plain = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    doubled(X[0], out)
    doubled.py_func(X[0], plain)
    assert (out == 2.0 * X[0]).all()
    assert (plain == 2.0 * X[0]).all()


@every_size
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["extent_sums", "excess_sums", "clipped_sums", "gentle_sums", "tilted_sums"])
def test_sums_over_values_have_the_bits_of_plain_python(X, weighted, name):
    v, p, n = 0.1 * X[0], (np.abs(X[1]) if weighted else np.empty(0)), X.shape[1]
    extra = {
        "extent_sums": (v, p, 0.2),
        "excess_sums": (v, p, 0.2, -0.3, -0.2, 0.1),
        "clipped_sums": (v, p, 0.2, -0.3, 0.1),
        "gentle_sums": (v, p, 0.01, 0.9, np.empty(n)),
        "tilted_sums": (v, np.abs(X[1]), 0.2, 0.3),
    }
    function, arguments = getattr(rw, name), extra[name]
    assert function(*arguments) == function.py_func(*arguments)


@kernel
def logistic_sum(z):
    total = 0.0
    for value in z:
        total += logistic_terms(value)[0]
    return total


def callee(x):
    return x / 3.0 - 1.0


def name_of_code(compiled):
    """The name of the one compiled function, which holds the options it was compiled with, less its number."""
    (found,) = compiled.overloads.values()
    return re.sub(r"B\d+v\d+", "", found.fndesc.mangled_name)


@pytest.mark.parametrize("options", [{"fastmath": True}, {"forceinline": True}, {"error_model": "python"}], ids=str)
@pytest.mark.parametrize("decorate", [kernel, inlined])
def test_a_function_is_compiled_as_it_says_whoever_calls_it_first(decorate, options):
    alone, called = decorate(callee), decorate(callee)
    alone(2.0)
    njit(**options)(lambda x: called(x) + 1.0)(2.0)
    assert name_of_code(called) == name_of_code(alone)


@pytest.mark.parametrize(
    ("function", "count"), [(inlined(dense_dot.py_func), 2), (logistic_sum, 1)], ids=["dot", "logistic"]
)
def test_no_instruction_may_be_reordered_or_fused(function, count):
    function(*[NUMBERS[-1][0]] * count)
    (code,) = function.inspect_llvm().values()
    assert re.search(r"\bfadd ", code)
    assert not re.search(r"\bf(add|sub|mul|div|neg|cmp) (reassoc|contract|nnan|ninf|nsz|arcp|afn|fast)\b", code)


PACKAGE = Path(xrisk.__file__).parent


def test_only_numbas_strict_options_are_used():
    calls = [call for path in PACKAGE.rglob("*.py") for call in re.findall(r"njit\(.*?\)|fastmath.*", path.read_text())]
    assert {call for call in calls if "STRICT" not in call and "INLINED" not in call} == {'fastmath": False}'}


MODULE = """
from typing import NamedTuple
from xrisk.compile import inlined, kernel
from xrisk.generic import generic
from xrisk.lanes import LANES, lanes, lanes_sum, pack

class Mean(NamedTuple):
    centre: float = 0.3

@generic
def value(spec, v):
    pass

@inlined
def moments(v, centre):
    first, second = lanes(0.0), lanes(0.0)
    for j in range(0, v.size, LANES):
        first += 0.1 * (pack(v, j) - centre)
        second += 0.1 * (pack(v, j) - centre) * (pack(v, j) - centre)
    return lanes_sum(first), lanes_sum(second)

@kernel
def mean(spec, v):
    return moments(v, spec.centre)[0]

@kernel
def variance(spec, v):
    first, second = moments(v, spec.centre)
    return second - first * mean(spec, v)

value.of(Mean)(lambda spec, v: mean(spec, v) + variance(spec, v))

@kernel
def through(spec, v):
    return value(spec, v)
"""
SMALL = """
import json, sys
import numpy as np
from xrisk import sums
v = np.random.default_rng(0).standard_normal(123)
found = {name: getattr(sums, name)(sums.Mean(), v) for name in sys.argv[1:]}
print(json.dumps({name: float(found[name]).hex() for name in sorted(found)}))
"""
WHOLE = """
import json, sys
import numpy as np
import xrisk
import xrisk.functions as fn
from numba import njit
from xrisk.functions import risk_weights, worst

rng = np.random.default_rng(5)
v, _ = rng.standard_normal(7), rng.standard_normal(7)
p = [rng.dirichlet(np.ones(7)) for _ in range(4)][3]
X, y, many = rng.standard_normal((90, 3)), np.arange(90) % 2, rng.standard_normal(301)

@njit(error_model="numpy")
def weights(rho, u):
    q = np.empty_like(u)
    risk_weights(rho, u, q)
    return q

def ball():
    return weights(fn.ChiSquareBallRisk(), v)

def price():
    return [worst(fn.WithMasses(fn.ChiSquareRiskA(1e-3), p), 1e150 * v, 0.0).value]

def tilted():
    return worst(fn.KLBallRisk(0.3), many, 0.1).weights

def tail():
    return worst(fn.CVaRRisk(0.3), many, 0.1).weights

def groups():
    return xrisk.GroupDROClassifier().fit(X, y, groups=np.arange(90) % 3).coef_.ravel()

def rows():
    return xrisk.DROClassifier("chi2", radius=0.3).fit(X, y).coef_.ravel()

def sampled():
    problem = xrisk.group_dro(X, 2 * y - 1, np.arange(90) % 3, l2=0.1)
    return xrisk.minimize(problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=50), rng=0).w

found = {name: globals()[name]() for name in sys.argv[1:]}
print(json.dumps({name: np.asarray(found[name]).tobytes().hex() for name in sorted(found)}))
"""


def bits(code, order, cache, source=PACKAGE.parent):
    """The bits of results that a process computes in this order, with this folder of machine code."""
    done = subprocess.run(
        [sys.executable, "-c", code, *order],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def small_package(tmp_path):
    """The package's way to compile and three kernels, without the rest of it."""
    folder = tmp_path / "xrisk"
    folder.mkdir()
    for name in ("compile", "generic", "sources", "lanes"):
        (folder / f"{name}.py").write_text((PACKAGE / f"{name}.py").read_text())
    (folder / "__init__.py").write_text("")
    (folder / "sums.py").write_text(MODULE)
    return tmp_path


def test_the_order_of_compilation_changes_no_bit(small_package):
    names, a, b = ["mean", "variance", "through"], small_package / "a", small_package / "b"
    first = bits(SMALL, names, a, small_package)
    assert bits(SMALL, names[::-1], b, small_package) == first
    assert bits(SMALL, names[::-1], a, small_package) == first


@pytest.mark.slow
def test_no_order_of_compilation_changes_a_bit_of_a_fit(tmp_path):
    names = ["ball", "price", "tilted", "tail", "groups", "rows", "sampled"]
    first = bits(WHOLE, names, tmp_path / "first")
    assert bits(WHOLE, names[::-1], tmp_path / "second") == first
    assert bits(WHOLE, names[3:] + names[:3], tmp_path / "third") == first
    assert bits(WHOLE, names[::-1], tmp_path / "first") == first
