"""Modules import in one direction, and tests stand where what they test does."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import xrisk

SOURCE = Path(xrisk.__file__).parent

# a line may import those above it and itself; the modules of one line are peers and do not know each other. A module
# belongs to the longest name it begins with, so `solvers` is the package's own file and stands below all in it.
ORDER = """
annotations
generic
sources
compile
lanes
registry  files
functions  data
torch
inner
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


PACKAGES = [name for name, path in MODULES.items() if name and path.name == "__init__.py"]

# inside a package: its main files, of which none imports one to its right
INSIDE = {
    "applications": "arguments groups samples",
    "auto": "costs choice staging solver exact",
    "certificate": "rounding penalties passes bounds",
    "cli": "options screen app",
    "data": "threads rows products",
    "estimators": "parameters callbacks proving base groups tasks",
    "functions": "parameters simplex loss outer penalty smoothing risk ambiguity row_risks smoothed_worst",
    "inner": "oracle layout models visitors passes groups group_passes samples",
    "metrics": "arguments report groups partial_auc resampling",
    "objectives": "options rankings tails worst_groups",
    "race": "grid run picture",
    "report": "numbers figures findings page",
    "run": "budget observers result driver runs",
    "solvers": "card base shared method newton auc",
    "solvers.newton": "algebra barrier coupling smoothed hessian solver composite",
    "solvers.shared": "tracking epochs temperature single_rows thresholds",
    "solvers.theory": "constants alexr",
    "study": "scores verdict study objective comparison",
    "tables": "columns encoding prepare",
}


def part(package, module):
    """The file or folder of a package that a module belongs to; None of the package itself and of others."""
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else None


def imports_inside(package):
    """What each file or folder of a package imports of the others."""
    graph = {}
    for module, path in MODULES.items():
        importer = part(package, module)
        if importer:
            imported = {part(package, name) for name in imports(path)} - {None, importer}
            graph[importer] = graph.get(importer, set()) | imported
    return graph


def circle(graph):
    """Parts that import each other in a circle; none if they have an order."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_a_module_imports_only_what_stands_above_it(module):
    assert [name for name in sorted(imports(MODULES[module])) if not may_import(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_parts_of_a_package_do_not_import_each_other_in_a_circle(package):
    assert circle(imports_inside(package)) == []


def test_no_two_files_import_each_other_in_a_circle():
    assert circle({module: imports(path) - {module} for module, path in MODULES.items()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_part_of_a_package_imports_the_package(package):
    inside = [name for name in MODULES if part(package, name) not in (None, "__main__")]
    assert [name for name in inside if package in imports(MODULES[name])] == []


@pytest.mark.parametrize("package", INSIDE)
def test_the_main_files_of_a_package_import_from_left_to_right(package):
    order, graph = INSIDE[package].split(), imports_inside(package)
    assert [name for name in order if name not in graph] == []
    assert [(name, later) for k, name in enumerate(order) for later in order[k:] if later in graph[name]] == []


def test_every_line_names_modules_that_exist():
    assert [name for name in PLACE if name not in MODULES] == []


@pytest.mark.parametrize(
    ("graph", "parts"),
    [({"a": {"b"}, "b": {"c"}, "c": {"a"}}, {"a", "b", "c"}), ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, set())],
)
def test_a_circle_is_found(graph, parts):
    assert set(circle(graph)) == parts


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
NOT_OF_A_PACKAGE = {"reference", "repository"}  # naive twins; what is true of the repository as a whole
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("*.py")} - {Path()})


@pytest.mark.parametrize("folder", [each for each in FOLDERS if each.parts[0] not in NOT_OF_A_PACKAGE], ids=str)
def test_a_folder_of_tests_is_named_after_a_package(folder):
    assert ".".join(folder.parts) in PACKAGES


@pytest.mark.parametrize("package", [name for name in PACKAGES if "." not in name])
def test_a_package_has_a_folder_of_tests(package):
    assert list((TESTS / package).glob("test_*.py")) != []


@pytest.mark.parametrize("tested", [path.stem.removeprefix("test_") for path in sorted(TESTS.glob("test_*.py"))])
def test_a_test_outside_of_folders_is_named_after_a_module(tested):
    assert tested in MODULES
