"""Planted faults as data: a change of one function, and the tests that have to find it.

Each file of `faults/` has the faults of one promise. CONTRIBUTING, "Planting a fault", explains the
format.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.planted.changes import ROOT, Change

HERE = Path(__file__).parent
RELEASES = HERE / "releases"
"""Small releases for `dprelease audit`, a folder each."""

CHANGE = frozenset(field.name for field in fields(Change))


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one function.

    `tests` have to find it, each of them alone; `errors`: what they may fail with besides a failed
    assertion. `audit`: the small releases in each of which `dprelease audit` has to find it, by
    `draws` if only many drawn answers show it; without any, `no_audit` says why.
    """

    name: str
    change: Change
    tests: tuple[str, ...]
    errors: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    draws: bool = False
    no_audit: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """The faults of one promise."""

    title: str
    about: str
    faults: tuple[Fault, ...]


@cache
def promises() -> tuple[Promise, ...]:
    """Return all faults, by the promise that they break."""
    return tuple(_promise(path) for path in sorted((HERE / "faults").glob("*.yaml")))


def faults() -> tuple[Fault, ...]:
    """Return all faults."""
    return tuple(fault for promise in promises() for fault in promise.faults)


def _promise(path: Path) -> Promise:
    spec: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    no_audit = spec.get("no_audit", "")
    found = tuple(_fault(one, no_audit) for one in spec["faults"])
    return Promise(spec["title"], " ".join(spec["about"].split()), found)


def _fault(spec: dict[str, Any], no_audit: str) -> Fault:
    if "audit" not in spec and no_audit:
        spec = {"no_audit": no_audit, **spec}
    change = Change(**{name: value for name, value in spec.items() if name in CHANGE})
    lists = {name: tuple(spec.get(name, ())) for name in ("tests", "errors", "audit")}
    rest = {name: spec[name] for name in ("name", "draws", "no_audit") if name in spec}
    return Fault(change=change, **lists, **rest)


def is_test(test: str) -> bool:
    """Return whether a test exists, named by its file and its function."""
    file, _, function = test.partition("::")
    path = ROOT / file
    return path.is_file() and function.partition("[")[0] in _functions(path)


@cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
