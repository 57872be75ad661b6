"""The list of methods, collected from the files of the package, and the table made of it."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

from xrisk.annotations import Solver
from xrisk.problem import Problem
from xrisk.solvers.base import CHOICES
from xrisk.solvers.card import Need
from xrisk.solvers.method import CATALOGUE

FAMILIES = ("coupled", "groups", "finite_sum", "auc", "dro", "newton", "")  # folders, in the order of the table


def _find() -> None:
    """Import every file of the families, which registers its methods, and put these in order."""
    for family in FAMILIES:
        prefix = ".".join(filter(None, (__package__, family)))
        for found in pkgutil.iter_modules([str(Path(__file__).parent / family)], f"{prefix}."):
            if not found.ispkg and found.name != __name__:
                importlib.import_module(found.name)
    named = sorted(CATALOGUE.items(), key=lambda item: _place(type(item[1])))
    CATALOGUE.clear()
    CATALOGUE.update(named)


def _place(cls: type) -> tuple[int, str]:
    parts = cls.__module__.split(".")
    return FAMILIES.index(parts[2] if len(parts) > 3 else ""), cls.__module__


_find()
METHODS = tuple(dict.fromkeys(type(solver) for solver in CATALOGUE.values()))  # the tests' contract runs over them


def shown() -> list[type]:
    """What users see: the methods, and the specs that their fields may hold."""
    specs = {cls for verb in CHOICES for cls in verb.table if issubclass(cls, tuple)}
    return sorted({*METHODS, *specs}, key=lambda cls: cls.__name__)


def stub() -> str:
    """The file ``__init__.pyi``, which names them for type checkers and editors."""
    lines = [f"from {cls.__module__} import {cls.__name__} as {cls.__name__}" for cls in shown()]
    return STUB + "\n".join(sorted(lines)) + "\n"


def refusal(problem: Problem, solver: Solver) -> str | None:
    """Why the solver does not apply to the problem, in one sentence; None if it does.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.solvers.catalogue import CATALOGUE, refusal
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 5, 300)
    >>> y = np.where(X[:, 0] + groups * X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max")
    >>> refusal(problem, CATALOGUE["alexr"]) is None
    True
    >>> refusal(problem, CATALOGUE["alexr-conjugate"])
    'mirror must be Quadratic() for an outer function with a kink, got Conjugate() for CVaRHinge(alpha=0.2)'
    """
    try:
        solver.prepare(problem)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


STUB = """# written by xrisk.solvers.catalogue.stub
# ruff: noqa: I001
from xrisk.auto import Auto as Auto
from xrisk.auto.exact import exact as exact
from xrisk.problem import ThresholdBounds as ThresholdBounds
from xrisk.solvers import theory as theory
from xrisk.solvers.card import MethodCard as MethodCard
from xrisk.solvers.card import Need as Need
from xrisk.solvers.catalogue import METHODS as METHODS
"""

INTRODUCTION = """# Methods

Generated from the code by `xrisk methods --markdown`. Names are those of `xrisk compare --methods`.

Every iteration samples S of n blocks and B samples of each, unless said otherwise. *Needs* is what a problem must have:
otherwise the method refuses it and says why. *Theory asks for* is what the rate is proved under; the method runs
without. *Source* says where the update is from: *as published*, checked against the paper, its book or the authors'
code; *recalled* from memory of the literature; *reconstructed* from descriptions by others; or *ours*. Rates are in
iterations, constants and logarithms left out: σ₀² and σ₁² are the variances of a sampled inner value and gradient, δ²
is that between the blocks, μ the strong convexity of the penalty; where a rate has no variances, they are among the
constants."""

COLUMNS = ("name", "solver", "needs", "values", "gradients", "rate", "theory asks for", "paper", "source")


def rows(catalogue: dict[str, Any] = CATALOGUE) -> list[tuple[str, ...]]:
    """The table of methods, a row for each, in the order of COLUMNS."""
    return [_row(name, solver) for name, solver in catalogue.items()]


def _row(name: str, solver: Solver) -> tuple[str, ...]:
    card = solver.card()
    needs, theory = _joined(card.needs), _joined(card.theory)
    return (name, _as_code(solver), needs, card.values, card.gradients, card.rate, theory, card.paper, card.confidence)


def describe(solver: Solver) -> str:
    """The description of a method: its formulas and notes, what it needs, its cost and its rate."""
    card = solver.card()
    facts = {
        "needs": _joined(card.needs),
        "per iteration": f"{card.values} values, {card.gradients} gradients",
        "rate": card.rate,
        "theory asks for": _joined(card.theory),
        "paper": card.paper,
        "source": card.confidence,
        "in Python": f"xrisk.solvers.{_as_code(solver)}; {solver}",
    }
    return "\n".join([_about(solver), "", *(f"{name}: {fact}" for name, fact in facts.items())])


def _joined(needs: tuple[Need, ...]) -> str:
    return ", ".join(need.words for need in needs) or "–"


def _about(solver: Solver) -> str:
    """The docstring without its parameters and examples."""
    text = inspect.getdoc(type(solver)) or ""
    titles = re.split(r"\n(\w+)\n-{3,}\n", text)
    sections = {"": titles[0], **dict(zip(titles[1::2], titles[2::2], strict=True))}
    parts = [sections.get(title, "").strip() for title in ("", "Notes", "References")]
    return re.sub(r"(?:\.\. )?\[(\d+)\]_?", r"[\1]", "\n\n".join(part for part in parts if part))


def _as_code(solver: Solver) -> str:
    """The solver with the fields that are not at their defaults."""
    defaults = type(solver)._field_defaults
    # compared as text: two specs without fields are equal as tuples, whatever their names
    given = [f"{name}={field!r}" for name, field in solver._asdict().items() if repr(field) != repr(defaults[name])]
    return f"{type(solver).__name__}({', '.join(given)})"


def as_markdown() -> str:
    """The page docs/methods.md."""
    lines = [" | ".join(COLUMNS), " | ".join(["---"] * len(COLUMNS)), *(" | ".join(row) for row in rows())]
    table = "\n".join(f"| {line} |" for line in lines)
    first = {type(solver): solver for solver in reversed(CATALOGUE.values())}
    kinds = dict.fromkeys(type(solver) for solver in CATALOGUE.values())
    parts = [f"## {first[kind].card().name}\n\n{_fenced(_about(first[kind]))}" for kind in kinds]
    return "\n\n".join([INTRODUCTION, table, *parts]) + "\n"


def _fenced(text: str) -> str:
    """Literal blocks and literals of a docstring as those of Markdown."""

    def fence(block: re.Match) -> str:
        return f":\n\n```text\n{inspect.cleandoc(block[1])}\n```\n"

    return re.sub(r"::\n\n((?:[ ]+.*\n?|\n)+)", fence, text.replace("``", "`")).strip()
