"""Which source files the machine code of a kernel is made of, and a digest of them.

A kernel calls what its module imports, what that imports, and so on; and through generic functions it calls what was
registered for the specs it meets, in modules that nobody above need import. Nothing else can reach it.
"""

import functools
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from xrisk.generic import REGISTRATIONS, Registration

ROOT = Path(__file__).parent
ALWAYS = frozenset({f"{__package__}.{name}" for name in ("sources", "generic", "compile")})

# imports of ours, at any depth of indentation; names in brackets go up to a line that begins with the closing one
FROM = re.compile(rf"^[ \t]*from[ \t]+({__package__}[\w.]*)[ \t]+import[ \t]+(\(.*?^[ \t]*\)|[^\n]*)", re.M | re.S)
IMPORT = re.compile(rf"^[ \t]*import[ \t]+({__package__}\b[^\n]*)", re.M)


class Source(NamedTuple):
    """A file as it was when the package was imported: what runs in this process."""

    path: Path
    stamp: tuple[int, int]  # time of the last change, size
    text: bytes


def digest_of(module: str, classes: Iterable[type]) -> str | None:
    """Digest of all that a kernel of ``module`` can call when it is given specs of ``classes``.

    None where that cannot be told: something of it stands outside the package, or a file was edited since it was
    imported.
    """
    names = needed(module, frozenset(classes), len(REGISTRATIONS))
    if not all(name in snapshot() and _is_current(snapshot()[name]) for name in names):
        return None
    return _digest(names)


@functools.cache
def needed(module: str, classes: frozenset[type], registrations: int) -> frozenset[str]:
    """The names of the modules, given how many registrations there are.

    An implementation can be called if its generic function is within reach, and its class is in the call or could be
    made by code within reach: either way the module of the class is among those found.
    """
    found = closure(ALWAYS | {module} | {cls.__module__ for cls in classes})
    while True:
        more = {home for entry in REGISTRATIONS if _within_reach(entry, found) for home in entry.homes}
        if more <= found:
            return found
        found = closure(found | more)


def _within_reach(entry: Registration, found: frozenset[str]) -> bool:
    return entry.verb in found and (entry.cls is None or entry.cls.__module__ in found | {"builtins"})


def closure(names: Iterable[str]) -> frozenset[str]:
    """The modules of those names and all that they import, directly or not."""
    found: set[str] = set()
    open_names = set(names)
    while open_names:
        found |= open_names
        open_names = {name for known in open_names for name in imports(known)} - found
    return frozenset(found)


@functools.cache
def imports(name: str) -> frozenset[str]:
    """The modules of the package that the module ``name`` imports, in functions too."""
    if name not in snapshot():
        return frozenset()
    text = snapshot()[name].text.decode()
    named = {package for package, _ in FROM.findall(text)}
    inside = {f"{package}.{word}" for package, words in FROM.findall(text) for word in re.findall(r"\w+", words)}
    # `import xrisk.a` binds xrisk, through which the code may reach everything
    whole = {word for words in IMPORT.findall(text) for word in (*re.findall(r"[\w.]+", words), __package__)}
    return frozenset((named | inside | whole) & snapshot().keys())


@functools.cache
def snapshot() -> dict[str, Source]:
    """Every module of the package; `compile` asks for it when it is imported, before any kernel is."""
    return {_name(path): Source(path, _stamp(path), path.read_bytes()) for path in ROOT.rglob("*.py")}


@functools.cache
def _digest(names: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(names):
        text = snapshot()[name].text
        digest.update(f"{name} {len(text)} ".encode())
        digest.update(text)
    return digest.hexdigest()


def _is_current(source: Source) -> bool:
    try:
        return _stamp(source.path) == source.stamp
    except OSError:
        return False


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((__package__, *parts)).removesuffix(".__init__")
