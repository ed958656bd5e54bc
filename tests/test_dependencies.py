"""What the package is built on: a new major version is tried here before anybody gets it."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *(one for extra in EXTRAS.values() for one in extra),
]


def bounds(text: str) -> tuple[list[Version], list[Version]]:
    """Return the lower and the upper bounds of a requirement."""
    asked = [(one.operator, Version(one.version)) for one in Requirement(text).specifier]
    assert {operator for operator, _ in asked} <= {">=", "<"}, text
    return tuple([v for operator, v in asked if operator == sign] for sign in (">=", "<"))  # type: ignore[return-value]


@pytest.mark.parametrize("text", DECLARED)
def test_both_bounds(text: str) -> None:
    """One of each; the upper one is a whole version: the next major one, or a minor one of 0."""
    lower, upper = bounds(text)
    assert len(lower) == len(upper) == 1, text
    assert lower[0] < upper[0]
    assert upper[0].micro == 0
    assert upper[0].minor == 0 or upper[0].major == 0
    assert not upper[0].is_prerelease


@pytest.mark.parametrize("text", DECLARED)
def test_what_is_installed_is_tried(text: str) -> None:
    """It is within the bounds: what nobody has tried is not allowed."""
    name = Requirement(text).name
    try:
        found = Version(version(name))
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed: an extra that was left out")
    assert found in Requirement(text).specifier


def test_no_bound_differs_between_extras() -> None:
    found: dict[str, set[str]] = {}
    for text in DECLARED:
        found.setdefault(Requirement(text).name, set()).add(str(Requirement(text).specifier))
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
