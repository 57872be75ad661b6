"""The glossary is right about the code, and the words that it rules out do not occur."""

import ast
import functools
import importlib
import inspect
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import xrisk

ROOT = Path(__file__).parents[2]
SOURCE = Path(xrisk.__file__).parent
GLOSSARY = ROOT / "docs" / "glossary.md"
GENERATED = ("methods.md", "inventory.md")  # their words are those of docstrings
PAGES = [
    page
    for folder in (".", "docs", "docs/decisions", "experiments/*")
    for page in sorted(ROOT.glob(f"{folder}/*.md"))
    if page != GLOSSARY and page.name not in GENERATED
]


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a heading of the glossary."""
    section = GLOSSARY.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


TERMS = rows("Terms")
NAMES = sorted({name for row in TERMS for cell in row for name in quoted(cell)})


class Ban(NamedTuple):
    """A word that is not to be used."""

    word: str
    where: str
    instead: str


BANS = [Ban(word, where, instead) for words, where, instead in rows("Words we do not use") for word in quoted(words)]


class Found(NamedTuple):
    """A name or a piece of prose, and the place where it stands."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place} {self.text}"


def test_every_term_stands_once_in_alphabetical_order():
    terms = [row[0].casefold() for row in TERMS]
    assert terms == sorted(set(terms))


def test_every_term_has_a_meaning():
    assert [row[0] for row in TERMS if len(row) != 4 or not row[3].endswith(".")] == []


def test_every_ban_says_where_and_what_instead():
    known = {"in a name", "in prose", "a whole name", "at the end of a name", "at the start of a name"}
    assert [ban for ban in BANS if not set(ban.where.split(", ")) <= known or not ban.instead] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_the_glossary_exists(name):
    assert exists(name)


def exists(name: str) -> bool:
    """Whether there is a file, a command, a parameter or a definition of this name in the package."""
    if "/" in name or name.endswith(".py"):
        return is_file(name)
    if name.startswith("xrisk "):
        from xrisk.cli.app import app

        return name.split()[1] in app.commands
    thing, _, member = name.partition(".")
    found = [getattr(importlib.import_module(module), thing) for module in definitions().get(thing, ())]
    if not found:
        return name in parameters()
    return not member or any(has_member(each, member) for each in found if isinstance(each, type))


def is_file(name: str) -> bool:
    """Whether there is a file or folder of this name, from the root, the package or its solvers on."""
    return any((folder / name).exists() for folder in (ROOT, SOURCE, SOURCE / "solvers"))


def has_member(cls: type, member: str) -> bool:
    """Whether a class has a field, a method, an annotation or a parameter of this name."""
    return hasattr(cls, member) or member in {*vars(cls).get("__annotations__", {}), *inspect.signature(cls).parameters}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache
def definitions() -> dict[str, set[str]]:
    """The modules that define each name, at their top."""
    found: dict[str, set[str]] = {}
    for path, tree in trees().items():
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            for name in (getattr(target, "id", getattr(target, "name", "")) for target in targets):
                found.setdefault(name, set()).add(module)
    return found


@functools.cache
def parameters() -> set[str]:
    """Names of parameters of functions."""
    return {node.arg for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.arg)}


@functools.cache
def identifiers() -> list[Found]:
    """Every name that the package gives or uses."""
    found = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            for field in ("id", "attr", "arg", "name", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    found.add((str(path.relative_to(ROOT)), getattr(node, "lineno", 0), name))
    return [Found(f"{path}:{line}", name) for path, line, name in sorted(found)]


@functools.cache
def prose() -> list[Found]:
    """Lines of docstrings, comments, messages and templates of the package, and of pages outside of code."""
    found = [Found(place, text) for path in trees() for place, text in prose_of(path)]
    for path in (*PAGES, *sorted(SOURCE.rglob("*.html"))):
        for line, text in enumerate(without_code(path.read_text(encoding="utf-8")).splitlines(), start=1):
            found.append(Found(f"{path.relative_to(ROOT)}:{line}", text.strip()))
    return found


def prose_of(path: Path) -> Iterator[tuple[str, str]]:
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in kinds:
                for line, text in enumerate(token.string.splitlines(), start=token.start[0]):
                    yield f"{path.relative_to(ROOT)}:{line}", text.strip()


def without_code(page: str) -> str:
    """A page of Markdown with its code blanked, so that lines keep their numbers."""
    page = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", page)


@functools.cache
def words_of_code() -> set[str]:
    """Every word of the package, the tests, the scripts and the examples of pages."""
    folders = (SOURCE, ROOT / "tests", ROOT / "benchmarks", ROOT / "experiments", ROOT / "examples")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.py"))]
    texts += [block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    return {word for text in texts for word in re.findall(r"\w+", text)}


def stale(name: str) -> bool:
    """Whether a piece of code in a sentence is a path without a file, or a name that occurs nowhere in the code."""
    if "/" in name and " " not in name:
        return not is_file(name)
    head = re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", name)
    return bool(head) and not (is_file(name) or set(head[1].split(".")) <= words_of_code())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_name_on_a_page_occurs_in_the_code(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sorted({name for name in quoted(text) if stale(name)}) == []


def words_of(name: str) -> list[str]:
    """The words of a name: split at underscores and capitals."""
    return [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def is_in_name(name: str, ban: Ban) -> bool:
    """Whether a name has the words of the ban where the ban says."""
    words, banned = words_of(name), words_of(ban.word)
    size, where = len(banned), ban.where.split(", ")
    places = [k for k in range(len(words) - size + 1) if words[k : k + size] == banned]
    return (
        ("in a name" in where and bool(places))
        or ("a whole name" in where and words == banned)
        or ("at the end of a name" in where and len(words) - size in places)
        or ("at the start of a name" in where and 0 in places)
    )


@pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.word)
def test_a_private_word_is_in_no_name(ban):
    found = [str(each) for each in identifiers() if is_in_name(each.text, ban)]
    assert not found, "\n".join([f"{ban.word}: say {ban.instead}", *found])


@pytest.mark.parametrize("ban", [ban for ban in BANS if "in prose" in ban.where], ids=lambda ban: ban.word)
def test_a_private_word_is_in_no_sentence(ban):
    pattern = re.compile(rf"\b{ban.word}\b", re.IGNORECASE)
    found = [str(each) for each in prose() if pattern.search(each.text)]
    assert not found, "\n".join([f"{ban.word}: say {ban.instead}", *found])


@pytest.mark.parametrize(
    ("name", "word", "where"),
    [
        ("conjugate_above", "above", "at the end of a name"),
        ("IN_VAIN", "in vain", "in a name"),
        ("_Telling", "telling", "in a name"),
        ("RowWalls", "walls", "in a name"),
        ("_held", "held", "a whole name"),
        ("worth_a_sample", "worth", "at the start of a name"),
    ],
)
def test_a_private_word_is_found(name, word, where):
    assert is_in_name(name, Ban(word, where, ""))


@pytest.mark.parametrize(
    ("name", "word", "where"),
    [
        ("above_zero", "above", "at the end of a name"),
        ("held_out", "held", "a whole name"),
        ("offset", "off", "in a name"),
        ("against", "gain", "in a name"),
        ("is_worth", "worth", "at the start of a name"),
    ],
)
def test_other_words_are_not_taken_for_it(name, word, where):
    assert not is_in_name(name, Ban(word, where, ""))
