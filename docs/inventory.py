"""Write docs/inventory.md, the list of everything that the package has; `make docs` runs this.

Nothing is listed here by hand. Specs come from the tables of the generic functions, methods from the catalogue, words
from the tables of arguments, and every sentence is the first one of a docstring.
"""

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import xrisk
from xrisk import applications, datasets, functions, inner, metrics
from xrisk.certificate import cut_at
from xrisk.cli.app import app
from xrisk.inner.passes import as_linear_groups, walk
from xrisk.objectives import COMMANDS
from xrisk.race import PROBLEMS
from xrisk.solvers import theory
from xrisk.solvers.catalogue import CATALOGUE, METHODS

PAGE = Path(__file__).with_name("inventory.md")
INTRODUCTION = """# Inventory

Everything in the package, generated from the code by `make docs`. To change a sentence, change the docstring.
[glossary.md](glossary.md) explains the words, [guide.md](guide.md) shows how to use what is listed here."""

Rows = Iterable[tuple[str, ...]]


def first_sentence(thing: Any) -> str:
    """The first paragraph of a docstring on one line, as Markdown."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split()).rstrip(":")
    return re.sub(r" ?(?:\.\. )?\[\d+\]_", "", text).replace("``", "`")


def table(columns: tuple[str, ...], rows: Rows) -> str:
    """A table of Markdown; a vertical bar in a formula does not end a cell."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def public(verb: Any, package: Any) -> list[type]:
    """The specs that implement a verb and that users see."""
    return [cls for cls in verb.table if hasattr(package, cls.__name__)]


def code(name: str) -> str:
    return f"`{name}`"


def named(things: Iterable[Any]) -> Rows:
    return [(code(thing.__name__), first_sentence(thing)) for thing in things]


def yes(answer: Any) -> str:
    return "yes" if answer else "no"


def estimators() -> str:
    shown = (getattr(xrisk, name) for name in xrisk.__all__)
    return table(("estimator", "objective"), named(cls for cls in shown if hasattr(cls, "fit")))


def commands() -> str:
    return table(
        ("command", "what it does"),
        [(code(f"xrisk {name}"), command.get_short_help_str(200)) for name, command in app.commands.items()],
    )


def objectives() -> str:
    return table(
        ("`--objective`", "models", "options"),
        [
            (
                code(word),
                ", ".join(command.keys),
                ", ".join(code("--" + option.name.replace("_", "-")) for option in command.options),
            )
            for word, command in COMMANDS.items()
        ],
    )


def problems() -> str:
    built = functions_of(applications)
    return table(("function", "problem"), named(each for each in built if each is not applications.group_index))


def races() -> str:
    return table(("name", "problem"), [(code(name), each.description) for name, each in PROBLEMS.items()])


def losses() -> str:
    words = {type(loss): word for word, loss in applications.LOSSES.items()}
    specs = public(functions.loss_value, functions) + public(functions.scores_value, functions)
    return table(
        ("spec", "word", "formula"),
        [(code(cls.__name__), code(words[cls]) if cls in words else "–", first_sentence(cls)) for cls in specs],
    )


def outer_functions() -> str:
    verbs = functions.outer_is_smooth, functions.outer_is_monotone
    return table(
        ("spec", "formula", "smooth", "non-decreasing"),
        [
            (code(cls.__name__), first_sentence(cls), *(yes(verb(cls())) for verb in verbs))
            for cls in public(functions.outer_value, functions)
        ],
    )


def inner_functions() -> str:
    columns = {
        "sampled": (inner.batch_value,),
        "exact values": (inner.exact_values,),
        "certified": (walk, as_linear_groups, cut_at),
    }
    return table(
        ("spec", "function", *columns),
        [
            (
                code(cls.__name__),
                first_sentence(cls),
                *(yes(any(cls in verb.table for verb in verbs)) for verbs in columns.values()),
            )
            for cls in public(inner.inner_count, inner)
        ],
    )


def divergences() -> str:
    return table(
        ("`divergence`", "parameters", "worst case over"),
        [
            (code(word), ", ".join(map(code, each.takes)) or "–", each.meaning)
            for word, each in applications.DIVERGENCES.items()
        ],
    )


def ambiguities() -> str:
    return table(
        ("`ambiguity`", "worst case over"),
        [(code(word), each.meaning) for word, each in applications.AMBIGUITIES.items()],
    )


def methods() -> str:
    names = {cls: [name for name, solver in CATALOGUE.items() if type(solver) is cls] for cls in METHODS}
    papers = {cls: dict.fromkeys(CATALOGUE[name].card().paper for name in names[cls]) for cls in METHODS}
    return table(
        ("solver", "names in races", "paper"),
        [(code(cls.__name__), ", ".join(map(code, names[cls])), "; ".join(papers[cls])) for cls in METHODS],
    )


def settings() -> str:
    return table(("function", "what it gives"), named(functions_of(theory)))


def functions_of(package: Any) -> list[Callable]:
    """The functions that a package shows, by name."""
    return [each for _, each in sorted(vars(package).items()) if inspect.isfunction(each)]


SECTIONS: dict[str, Callable[[], str]] = {
    "## Estimators": estimators,
    "## Commands": commands,
    "## Objectives of `xrisk fit`": objectives,
    "## Divergences: the worst case over groups": divergences,
    "## Ambiguity sets: the worst case over rows": ambiguities,
    "## Problems from arrays, in `xrisk.applications`": problems,
    "## Problems of `xrisk compare`": races,
    "## Losses": losses,
    "## Outer functions": outer_functions,
    "## Outer functions of a block of values": lambda: table(
        ("spec", "formula"), named(public(functions.block_value, functions))
    ),
    "## Risks": lambda: table(("spec", "formula"), named(public(functions.risk_value, functions))),
    "## Penalties": lambda: table(
        ("spec", "formula"),
        named(cls for cls in public(functions.prox, functions) if cls not in functions.support_point.table),
    ),
    "## Domains: penalties that are 0 inside and ∞ outside": lambda: table(
        ("spec", "domain"), named(public(functions.support_point, functions))
    ),
    "## Inner functions": inner_functions,
    "## Solvers": methods,
    "## Settings of theorems, in `xrisk.solvers.theory`": settings,
    "## Metrics": lambda: table(("function", "score"), named(functions_of(metrics))),
    "## Data sets": lambda: table(("function", "data"), named(functions_of(datasets))),
}
AFTER = {
    "## Solvers": "`Auto` chooses among the full-batch methods, `exact` is the ground truth of the tests. "
    "[methods.md](methods.md) has what each method needs, costs and promises.\n\n"
}


def page() -> str:
    """The page as it should be."""
    parts = [f"{title}\n\n{AFTER.get(title, '')}{section()}" for title, section in SECTIONS.items()]
    return "\n\n".join([INTRODUCTION, *parts]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
