"""Prints constraints by which pip installs the oldest of all that `pyproject.toml` allows.

`make oldest` has the tests run on these. There is no second list: what is declared there is what
is tried. What is declared in several extras is one line.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
DECLARED: tuple[str, ...] = (
    *PROJECT["project"]["dependencies"],
    *(one for extra in EXTRAS.values() for one in extra),
)


def lower_bound(text: str) -> Version:
    """Return the oldest version that a requirement allows; it has one lower bound."""
    (bound,) = (one.version for one in Requirement(text).specifier if one.operator == ">=")
    return Version(bound)


def constraints() -> list[str]:
    """Return one line for every package, sorted: its name, and its oldest version that is allowed."""
    # Extras can't stand in constraints: what an extra needs is in the metadata of that version.
    oldest = {canonicalize_name(Requirement(one).name): lower_bound(one) for one in DECLARED}
    return [f"{name}=={version}" for name, version in sorted(oldest.items())]


if __name__ == "__main__":
    print("\n".join(constraints()))
