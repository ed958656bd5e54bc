"""Planted faults as data: what is changed in which file, and who has to find it.

A file of `faults/` holds one class of faults. A module is named by its file alone, for a file name
stands once in the package: so no fault is lost when files move.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PACKAGE = "dprelease"
HERE = Path(__file__).parent
RELEASES = HERE / "releases"
"""Small releases that `dprelease audit` is run on, a folder each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one file.

    `old` stands in the file exactly once, and `new` in its place is the fault. `tests` have to find
    it, each by itself; `raised`: by which errors besides a failed assertion. `audit`: the small
    releases in each of which `dprelease audit` has to find it, `drawn` if by many drawn answers
    alone; where there is none, `unseen` says why it can't.
    """

    name: str
    kind: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    raised: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    drawn: bool = False
    unseen: str = ""

    @property
    def path(self) -> Path:
        """Return where its file is, from the root of the repository."""
        found = _files().get(self.file, [])
        if len(found) != 1:
            raise LookupError(f"{self.name}: {len(found)} files of the package are '{self.file}'")
        return found[0]

    def planted(self, text: str) -> str:
        """Return the text of its file with the fault."""
        times = text.count(self.old)
        if times != 1:
            raise LookupError(f"{self.name}: what is replaced is {times} times in '{self.file}'")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of faults: its name, and what they have in common, in a sentence."""

    name: str
    title: str
    about: str
    faults: tuple[Fault, ...]


@cache
def kinds() -> tuple[Kind, ...]:
    """Return all faults, by their class."""
    return tuple(_kind(path) for path in sorted((HERE / "faults").glob("*.yaml")))


def faults() -> tuple[Fault, ...]:
    """Return all faults."""
    return tuple(fault for kind in kinds() for fault in kind.faults)


def _kind(path: Path) -> Kind:
    held: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = tuple(_fault(path.stem, one) for one in held["faults"])
    return Kind(path.stem, held["title"], " ".join(held["about"].split()), found)


def _fault(kind: str, held: dict[str, Any]) -> Fault:
    lists = {name: tuple(held.get(name, ())) for name in ("tests", "raised", "audit")}
    return Fault(kind=kind, **{**held, **lists})


@cache
def _files() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        found.setdefault(path.name, []).append(path.relative_to(ROOT))
    return found


def is_there(test: str) -> bool:
    """Return whether a test, named by its file and its function, is there."""
    file, _, function = test.partition("::")
    path = ROOT / file
    return path.is_file() and function.partition("[")[0] in _functions(path)


@cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
