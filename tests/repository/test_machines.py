"""The mathematics passes its tests on other processors and in another order: a short form of running all of them so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

ROOT = Path(__file__).parents[2]
SOLVERS = [f"tests/solvers/test_{name}.py" for name in ("exact", "rows", "lbfgs", "bundle", "faces")]
FILES = [
    "tests/certificate/test_exact_proofs.py",
    "tests/auto/test_auto.py",
    "tests/functions/test_smoothed_worst.py",
    *SOLVERS,
]
NUMPY = " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])  # what NumPy has beyond the oldest


def blas(core):
    """The setting for BLAS kernels of another processor, where this one has the instructions."""
    needed = {"Haswell": "AVX2", "Zen": "AVX2", "SkylakeX": "AVX512_SKX"}.get(core, "SSE3")
    missing = pytest.mark.skipif(not __cpu_features__.get(needed, False), reason=f"this processor has no {needed}")
    return pytest.param({"OPENBLAS_CORETYPE": core}, id=core, marks=[missing])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        *[blas(core) for core in ("Prescott", "Haswell", "SkylakeX", "Zen")],
        pytest.param({"NPY_DISABLE_CPU_FEATURES": NUMPY}, id="plain NumPy"),
        pytest.param({"NUMBA_CPU_NAME": "generic"}, id="generic Numba"),
        pytest.param({"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, id="one thread"),
    ],
)
def test_the_mathematics_passes_on_another_processor_in_another_order(settings):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--shuffle", "1", "-m", "not slow", *FILES],
        env={**os.environ, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
