"""Dispatch: specs pick implementations, in Python and in kernels; caches and namesakes do no harm."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import xrisk
from xrisk.compile import canonical, kernel, specialise, walk
from xrisk.functions import L2, Softplus, outer_slope, outer_value
from xrisk.generic import generic

SOURCE = Path(xrisk.__file__).parent


@generic
def doubled(spec, x):
    """Twice, in the spec's own way."""


class Twice(NamedTuple):
    by: float = 2.0


@doubled.of(Twice)
def _(spec, x):
    return spec.by * x


@numba.njit
def use_doubled(spec, x):
    return doubled(spec, x)


def test_a_generic_runs_in_python_and_in_kernels_alike():
    assert doubled(Twice(), 3.0) == use_doubled(Twice(), 3.0) == 6.0


def test_a_second_implementation_for_a_type_is_refused():
    with pytest.raises(TypeError, match="already implemented for Twice"):
        doubled.of(Twice)(lambda spec, x: x)


def test_an_implementation_that_comes_after_a_kernel_took_the_default_is_refused():
    @generic
    def halved(spec, x):
        """Half, in the spec's own way."""

    halved.otherwise(lambda spec, x: 0.5 * x)
    assert numba.njit(lambda spec, x: halved(spec, x))(Twice(), 3.0) == 1.5
    with pytest.raises(TypeError, match="must be implemented for Twice before a kernel is compiled"):
        halved.of(Twice)(lambda spec, x: x)


def test_a_missing_implementation_is_named():
    with pytest.raises(TypeError, match="doubled is not implemented for L2"):
        doubled(L2(), 1.0)


def test_a_plain_number_is_a_spec_inside_kernels():
    from xrisk.solvers.schedules import rate

    assert numba.njit(lambda s, t: rate(s, t))(0.25, 7) == rate(0.25, 7) == 0.25


def _slope(f, u):
    return outer_slope(f, u)


def _foreign(scale):
    class Bent(NamedTuple):
        a: float = 1.0

    @outer_value.of(Bent)
    def _(f, u):
        return scale * u

    @outer_slope.of(Bent)
    def _(f, u):
        return scale

    return Bent


def test_namesakes_from_elsewhere_run_their_own_code():
    first, second = _foreign(1.0), _foreign(2.0)
    compiled = kernel(_slope)
    assert specialise(compiled, first())(first(), 0.0) == 1.0
    assert specialise(compiled, second())(second(), 0.0) == 2.0


def test_private_kernels_are_compiled_once():
    spec = _foreign(3.0)()
    compiled = kernel(_slope)
    assert specialise(compiled, spec) is specialise(compiled, spec)


def test_built_in_specs_use_the_cached_kernel():
    compiled = kernel(_slope)
    assert specialise(compiled, Softplus()) is compiled


def test_names_of_specs_are_unique_across_the_package():
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "NamedTuple" for base in node.bases)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_canonical_specs_hold_floats_where_fields_say_so():
    spec = canonical(xrisk.solvers.ALEXR(step=1, dual_step=np.float32(0.5), theta=np.float64(0), blocks=2))
    assert [type(field) for field in spec[:4]] == [float, float, float, int]


def test_numbers_of_numpy_become_plain_ones():
    spec = canonical(xrisk.solvers.ALEXR(step=np.float64(0.1), dual_step=np.float32(0.5)))
    assert [type(spec.step), type(spec.dual_step)] == [float, float]


def test_walk_meets_every_spec():
    problem = xrisk.Problem(xrisk.inner.NoisyCoordinates(), Softplus(), L2())
    assert [type(spec).__name__ for spec in walk(problem)] == ["Problem", "NoisyCoordinates", "Softplus", "L2"]


def test_importing_xrisk_imports_no_extra():
    code = (
        "import sys, xrisk; print([m for m in ('torch', 'pandas', 'matplotlib', 'tqdm', 'cvxpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_researchers_own_outer_function_runs_in_a_compiled_solver():
    class Quartic(NamedTuple):
        a: float = 1.0

    from xrisk.functions import outer_conjugate, outer_domain, outer_dual_step, outer_is_monotone, outer_is_smooth

    outer_value.of(Quartic)(lambda f, u: f.a * max(u, 0.0) ** 2)
    outer_slope.of(Quartic)(lambda f, u: 2.0 * f.a * max(u, 0.0))
    outer_dual_step.of(Quartic)(lambda f, u, y, tau: max((u + tau * y) / (0.5 / f.a + tau), 0.0))
    outer_conjugate.of(Quartic)(lambda f, y: y * y / (4.0 * f.a))
    outer_domain.of(Quartic)(lambda f: (0.0, np.inf))
    outer_is_monotone.of(Quartic)(lambda f: True)
    outer_is_smooth.of(Quartic)(lambda f: True)
    from xrisk.functions import Power

    runs = [
        xrisk.minimize(
            xrisk.Problem(xrisk.inner.NoisyCoordinates(n=4), outer, L2(0.5)),
            xrisk.solvers.ALEXR(blocks=2),
            np.ones(4),
            budget=xrisk.Budget(iterations=200),
            rng=0,
        )
        for outer in (Quartic(), Power(2.0))
    ]
    np.testing.assert_allclose(runs[0].w, runs[1].w, rtol=1e-10)
