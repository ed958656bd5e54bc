"""What the package is built on: a new major version is tried here before anybody gets it."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.oldest import DECLARED, constraints, lower_bound

ROOT = Path(__file__).parents[1]
PARTS = {
    "pydantic-core": "pydantic",
    "adbc-driver-manager": "adbc-driver-postgresql",
    "py4j": "pyspark",
    "markupsafe": "jinja2",
}
"""Packages that come with another one, of which they are a part in all but name."""


def bounds(text: str) -> tuple[list[Version], list[Version]]:
    """Return the lower and the upper bounds of a requirement."""
    asked = [(one.operator, Version(one.version)) for one in Requirement(text).specifier]
    assert {operator for operator, _ in asked} <= {">=", "<"}, text
    return tuple([v for operator, v in asked if operator == sign] for sign in (">=", "<"))  # type: ignore[return-value]


@pytest.mark.parametrize("text", DECLARED)
def test_requirements_have_two_bounds(text: str) -> None:
    """One of each; the upper one is a whole version: the next major one, or a minor one of 0."""
    lower, upper = bounds(text)
    assert len(lower) == len(upper) == 1, text
    assert lower[0] < upper[0]
    assert upper[0].micro == 0
    assert upper[0].minor == 0 or upper[0].major == 0
    assert not upper[0].is_prerelease


@pytest.mark.parametrize("text", DECLARED)
def test_installed_versions_are_within_bounds(text: str) -> None:
    """It is within the bounds: what nobody has tried is not allowed."""
    name = Requirement(text).name
    try:
        found = Version(version(name))
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed: an extra that was left out")
    assert found in Requirement(text).specifier


def test_bounds_agree_between_extras() -> None:
    found: dict[str, set[str]] = {}
    for text in DECLARED:
        found.setdefault(Requirement(text).name, set()).add(str(Requirement(text).specifier))
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}


def test_constraints_are_the_oldest_versions() -> None:
    """One for every package that is declared, each the oldest that its bounds allow."""
    oldest = {Requirement(line).name: line for line in constraints()}
    assert oldest.keys() == {canonicalize_name(Requirement(text).name) for text in DECLARED}
    for text in DECLARED:
        line = oldest[canonicalize_name(Requirement(text).name)]
        assert Requirement(line).specifier.contains(lower_bound(text))
        assert lower_bound(text) in Requirement(text).specifier


def imported(path: Path) -> set[str]:
    """Return the names of the packages that a file imports, wherever in it, one in each line."""
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^ *(?:import|from(?= \S+ import )) ([A-Za-z_]\w*)", text, re.MULTILINE))


def test_imported_packages_are_declared() -> None:
    """By the project itself, or it is a part of what is: chance brings nothing along."""
    declared = {canonicalize_name(Requirement(text).name) for text in DECLARED}
    assert set(PARTS.values()) <= declared
    files = (ROOT / "dprelease").rglob("*.py")
    names = set().union(*map(imported, files)) - {"dprelease", *sys.stdlib_module_names}
    assert names > {"numpy", "duckdb", "pydantic"}
    homes = packages_distributions()
    for name in sorted(names & homes.keys()):  # without an extra, its packages have no home
        assert {canonicalize_name(home) for home in homes[name]} & (declared | PARTS.keys()), name
