"""What the package shows is there in a fresh process, and is imported when it is first asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import xrisk


def told(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "name", [pytest.param("race", marks=pytest.mark.slow), pytest.param("datasets", marks=pytest.mark.slow), "metrics"]
)
def test_a_package_is_reached_from_xrisk_in_a_fresh_process(name):
    assert told(f"import xrisk; print(xrisk.{name}.__name__)") == f"xrisk.{name}"


def test_all_names_are_there():
    assert [name for name in xrisk.__all__ if not hasattr(xrisk, name)] == []


def test_type_checkers_see_the_annotations():
    assert (Path(xrisk.__file__).parent / "py.typed").is_file()


def test_scikit_learn_is_imported_when_it_is_needed():
    assert told("import sys, xrisk; print('sklearn' in sys.modules)") == "False"
