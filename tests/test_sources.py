"""Machine code on disk: what an edit can reach is compiled anew and nothing else is; a damaged file is no error."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import xrisk
from tests.conftest import first_quick
from xrisk import sources
from xrisk.compile import kernel
from xrisk.functions import CVaRHinge, Softplus
from xrisk.generic import REGISTRATIONS
from xrisk.solvers.coupled.alexr import alexr_steps

SOURCE = Path(xrisk.__file__).parent

# a package named xrisk with our machinery: its stamps are those of the files written here
SPECS = """
from typing import NamedTuple
from xrisk.generic import generic

@generic
def raised(spec, x):
    '''More.'''

class ByOne(NamedTuple):
    a: float = 1.0
"""
KERNEL = "from xrisk.compile import kernel\n{}\n\n@kernel\ndef f(*args):\n    return {}\n"
PACKAGE = {
    "__init__": "",
    "deeper": "from numba import njit\n\n@njit\ndef deeper(x):\n    return x + 1\n",
    "called": "import numba\nfrom xrisk.deeper import deeper\n\n@numba.njit\ndef called(x):\n    return deeper(x)\n",
    "constant": "STEP = 1\n",
    "unrelated": "NUMBER = 1\n",
    "specs": SPECS,
    "implementing": "from xrisk.specs import *\n\n@raised.of(ByOne)\ndef _(spec, x):\n    return x + 1\n",
    "direct": KERNEL.format("from xrisk.deeper import deeper", "deeper(args[0])"),
    "indirect": KERNEL.format("from xrisk.called import called", "called(args[0])"),
    "reads": KERNEL.format("from xrisk.constant import STEP", "args[0] + STEP"),
    "generically": KERNEL.format("from xrisk.specs import ByOne, raised", "raised(ByOne(1.0), args[0])"),
    "given": KERNEL.format("from xrisk.specs import raised", "raised(args[1], args[0])"),
    "alone": KERNEL.format("", "args[0] + 1"),
}
CODE = """
import xrisk.implementing
from xrisk import alone, direct, generically, given, indirect, reads, specs
for module in (alone, direct, generically, given, indirect, reads):
    specs_in_the_call = (specs.ByOne(),) if module is given else ()
    value = module.f(1, *specs_in_the_call)
    print(module.__name__[6:], int(value), sum(module.f.stats.cache_hits.values()))
"""


def _write(folder, files):
    root = folder / "xrisk"
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)


def _package(folder):
    _write(folder, PACKAGE | {name: (SOURCE / f"{name}.py").read_text() for name in ("compile", "generic", "sources")})


def _run(folder, code=CODE):
    """What ``code`` prints, line by line: here kernel, value, files of machine code that were used."""
    paths = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],  # -B: files of one second and one size would share their bytecode
        env={**os.environ, **paths},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.split()[0]: tuple(line.split()[1:]) for line in done.stdout.splitlines()}


EDITS = {
    name: PACKAGE[name].replace(old, new)
    for name, old, new in (
        ("deeper", "x + 1", "x + 5"),
        ("constant", "STEP = 1", "STEP = 5"),
        ("implementing", "x + 1", "x + 5"),
        ("unrelated", "NUMBER = 1", "NUMBER = 5"),
    )
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A package whose kernels were run once."""
    folder = tmp_path_factory.mktemp("package")
    _package(folder)
    assert set(_run(folder).values()) == {("2", "0")}
    return folder


@pytest.fixture(scope="module")
def after_edits(compiled):
    """What the kernels of that package return after the edits, and how much machine code was still there."""
    _write(compiled, EDITS)
    return _run(compiled)


def test_machine_code_outlives_an_edit_that_cannot_reach_it(after_edits):
    assert after_edits["alone"] == ("2", "1")


def test_an_edit_to_a_called_file_compiles_anew(after_edits):
    assert after_edits["direct"] == ("6", "0")


def test_an_edit_to_a_file_that_a_called_file_calls_compiles_anew(after_edits):
    assert after_edits["indirect"] == ("6", "0")


def test_an_edit_to_an_imported_constant_compiles_anew(after_edits):
    assert after_edits["reads"] == ("6", "0")


def test_an_edit_to_a_module_that_implements_a_verb_for_a_spec_in_the_call_compiles_anew(after_edits):
    assert after_edits["given"] == ("6", "0")


def test_an_edit_to_a_module_that_implements_a_verb_for_a_spec_made_in_the_kernel_compiles_anew(after_edits):
    assert after_edits["generically"] == ("6", "0")


ALONE = "from xrisk.alone import f; print('alone', f(1), sum(f.stats.cache_hits.values()))"


@pytest.fixture
def alone(tmp_path):
    """A package with one kernel, run once, and its file of machine code."""
    _package(tmp_path)
    assert _run(tmp_path, ALONE) == {"alone": ("2", "0")}
    (file,) = (tmp_path / "cache").rglob("*.nbc")
    return tmp_path, file


DAMAGES = {"truncated": lambda code: code[:-100], "empty": lambda code: b"", "garbage": lambda code: b"?" * len(code)}


@pytest.mark.parametrize("damage", first_quick(DAMAGES))
def test_a_damaged_file_is_compiled_anew_and_mended(alone, damage):
    folder, file = alone
    size = file.stat().st_size
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert _run(folder, ALONE) == {"alone": ("2", "0")}
    assert file.stat().st_size == size


@pytest.mark.slow
def test_one_file_is_kept_per_kernel_and_signature(alone):
    folder, file = alone
    _write(folder, {"alone": PACKAGE["alone"].replace("+ 1", "+ 3")})
    assert _run(folder, ALONE) == {"alone": ("4", "0")}
    assert len(list((folder / "cache").rglob("*.nbc"))) == 1
    assert not file.exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_means_no_cache(tmp_path):
    _package(tmp_path)
    spoiled = (
        "import pathlib, shutil, xrisk.alone\n"
        "folder = pathlib.Path(xrisk.alone.f.stats.cache_path)\n"
        "shutil.rmtree(folder); folder.write_text('')\n"  # a file in its place: nobody can write there, root neither
    )
    assert _run(tmp_path, spoiled + ALONE) == {"alone": ("2", "0")}


def test_an_edit_under_a_running_process_is_not_taken_for_what_it_runs(tmp_path):
    _package(tmp_path)
    edit = "import pathlib, xrisk.alone; p = pathlib.Path(xrisk.alone.__file__); p.write_text(p.read_text() + '# ')\n"
    assert _run(tmp_path, edit + ALONE) == {"alone": ("2", "0")}
    assert list((tmp_path / "cache").rglob("*.nbc")) == []


def _needed(module, *classes):
    return sources.needed(f"xrisk.{module}", frozenset(classes), len(REGISTRATIONS))


def test_a_kernel_needs_what_its_module_imports_and_the_modules_of_its_specs():
    found = _needed("solvers.coupled.alexr", CVaRHinge)
    assert {f"xrisk.{name}" for name in ("solvers.schedules", "inner.oracle", "functions.outer.polyhedral")} <= found


@pytest.mark.parametrize("name", ["cli.app", "report.page", "race.run", "metrics", "auto", "solvers.coupled.sox", ""])
def test_a_kernel_of_a_method_does_not_need_what_it_cannot_call(name):
    assert f"xrisk.{name}".rstrip(".") not in _needed("solvers.coupled.alexr", CVaRHinge)


def test_implementations_from_elsewhere_are_needed_for_the_specs_that_have_them():
    (home,) = {
        home
        for entry in REGISTRATIONS
        if entry.verb == "xrisk.functions.outer.generics"
        for home in entry.homes
        if entry.cls is Softplus
    }
    assert home == "xrisk.functions.outer.curved"
    assert home in _needed("solvers.coupled.alexr", Softplus)


def test_whoever_registers_an_implementation_is_its_home_too():
    from xrisk.generic import generic

    @generic
    def verb(spec):
        """Nothing."""

    class Spec(NamedTuple):
        a: float = 1.0

    verb.of(Spec)(sources.closure)
    assert {"xrisk.sources", __name__} <= REGISTRATIONS[-1].homes


def test_nothing_from_outside_the_package_is_kept():
    class Spec(NamedTuple):
        a: float = 1.0

    assert sources.digest_of("xrisk.solvers.coupled.alexr", {Spec}) is None


def test_kernels_from_outside_the_package_are_not_kept():
    assert kernel(_run).stats.cache_path is None
    assert alexr_steps.stats.cache_path is not None


def _imports_by_parser(name):
    """The modules of the package that a module imports, as Python's parser sees it."""
    source = sources.snapshot()[name]
    package = name if source.path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found & sources.snapshot().keys()


@pytest.mark.parametrize("name", sorted(sources.snapshot()))
def test_no_import_is_overlooked(name):
    assert _imports_by_parser(name) <= sources.imports(name)
