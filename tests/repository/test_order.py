"""A module imports only what stands above it."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

import xrisk

SOURCE = Path(xrisk.__file__).parent

# a line may import those above it and itself; the modules of one line are peers and do not know each other. A module
# belongs to the longest name it begins with, so `solvers` is the package's own file and stands below all in it.
ORDER = """
generic
sources
compile
lanes
registry  files  phrases  grouping
functions  data
inner  worst
problem
certificate
solvers.card  solvers.schedules
solvers.base
solvers.shared
solvers.method
solvers.full_batch
solvers.coupled  solvers.groups  solvers.finite_sum  solvers.auc  solvers.newton  run
solvers.lbfgs  solvers.faces  solvers.bundle  solvers.dro
solvers.restarted
solvers.catalogue  solvers.theory
auto
solvers
applications
metrics  datasets  tables
persistence
estimators
study
report
objectives  race
cli
"""
PLACE = {name: (line, name) for line, names in enumerate(ORDER.split("\n")) for name in names.split()}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
    for path in sorted(SOURCE.rglob("*.py"))
}


def place(module):
    """The line of a module and the name it stands there under."""
    parts = module.split(".")
    return next(PLACE[name] for name in (".".join(parts[:k]) for k in range(len(parts), 0, -1)) if name in PLACE)


def may_import(importer, imported):
    """Whether one module stands above the other."""
    (line, name), (line_above, name_above) = place(importer), place(imported)
    return line_above < line or name_above == name


def home(name):
    """The module from which ``xrisk.name`` comes."""
    thing = getattr(xrisk, name)
    full = thing.__name__ if isinstance(thing, ModuleType) else thing.__module__
    return full.removeprefix("xrisk.")


def imported_from(node):
    """The modules of ours that ``from … import …`` reaches."""
    if node.module == "xrisk":
        return {home(alias.name) for alias in node.names}
    base = node.module.removeprefix("xrisk.")
    return {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}


def imports(path):
    """The modules of ours that a file imports, in functions and through ``import xrisk`` too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "xrisk":
            found |= imported_from(node)
        elif isinstance(node, ast.Import):
            found |= {alias.name[6:] for alias in node.names if alias.name.startswith("xrisk.")}
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "xrisk":
            found |= {home(node.attr)} if node.attr != "__version__" else set()
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_a_module_imports_only_what_stands_above_it(module):
    assert [name for name in sorted(imports(MODULES[module])) if not may_import(module, name)] == []


def test_every_line_names_modules_that_exist():
    assert [name for name in PLACE if name not in MODULES] == []


WRONG = {
    "from xrisk import minimize": "run.driver",
    "from xrisk import solvers": "solvers",
    "import xrisk.cli": "cli",
    "import xrisk\n\n\ndef f():\n    return xrisk.GroupDROClassifier": "estimators.groups",
    "from xrisk.solvers import ALEXR": "solvers",
    "from xrisk.solvers import catalogue": "solvers.catalogue",
    "def f():\n    from xrisk.solvers.theory import theorem_3": "solvers.theory",
    "from xrisk.solvers.groups.ooa import OOA": "solvers.groups.ooa",
}


@pytest.mark.parametrize("text", WRONG)
def test_no_way_to_import_is_overlooked(text, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(text)
    (found,) = imports(path)
    assert found == WRONG[text]
    assert not may_import("solvers.coupled.sox", found)


TESTS = Path(__file__).parents[1]
NO_ROOM = {"reference", "repository"}  # naive twins; what is true of the repository as a whole


@pytest.mark.parametrize(
    "tested",
    sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.parent.name not in NO_ROOM),
    ids=str,
)
def test_tests_stand_where_what_they_test_does(tested):
    room = SOURCE / tested.parent
    subject = tested.stem.removeprefix("test_")
    assert room.is_dir()
    assert tested.parent.name or (SOURCE / f"{subject}.py").exists()
