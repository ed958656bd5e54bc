"""Look up mechanism classes by name, in the files of this folder that declare `MECHANISM`."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

from dprelease import mechanisms as folder
from dprelease.errors import BudgetError, Place
from dprelease.errors.suggestions import nearest
from dprelease.mechanisms import selection as selections
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.gaussian_threshold import GaussianThreshold
from dprelease.mechanisms.partition_selection import PartitionSelection
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.mechanisms.selection.selection import Selection
from dprelease.privacy.guarantee import Event

RECORD_NAMES = ("randomized_response",)
"""Names of the mechanisms for single records.

These mechanisms add no noise to an aggregate, so `names` excludes them. Their files declare
`RECORD_MECHANISM` instead of `MECHANISM`.
"""


KEY_SELECTIONS: dict[str, type[Randomizer]] = {
    kind.name: kind for kind in (PartitionSelection, GaussianThreshold)
}
"""The mechanisms that only select private keys, by name; they answer no column."""


@cache
def names() -> tuple[str, ...]:
    """Return the sorted names of all mechanisms that add noise, without importing them."""
    return _modules_with(folder, "MECHANISM")


def _modules_with(package: ModuleType, variable: str) -> tuple[str, ...]:
    """Return the sorted names of the modules of a package that declare a variable.

    No module is imported.
    """
    files = (file for path in package.__path__ for file in Path(path).glob("*.py"))
    declaration = f"\n{variable} = "
    return tuple(
        sorted(file.stem for file in files if declaration in file.read_text(encoding="utf-8"))
    )


@cache
def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of the mechanism that the module with this name declares."""
    kind = "RECORD_MECHANISM" if name in RECORD_NAMES else "MECHANISM"
    mechanism: type[Mechanism] = getattr(importlib.import_module(f"{folder.__name__}.{name}"), kind)
    return mechanism


def require_known_name(name: str, place: Place | None = None) -> None:
    """Raise BudgetError DP-MECH-004 if no noise mechanism has this name; import no mechanism."""
    _require_known(name, names(), place)


def get(name: str, place: Place | None = None) -> type[Mechanism]:
    """Return the class of the noise mechanism with this name.

    Raises BudgetError: DP-MECH-004 if no noise mechanism has this name; the message suggests the
    nearest name.
    """
    _require_known(name, names(), place)
    return mechanism_class(name)


def randomizer_class(name: str, place: Place | None = None) -> type[Randomizer]:
    """Return the class of the noise or selection mechanism with this name.

    Raises BudgetError: DP-MECH-004 if no mechanism has this name.
    """
    if name in KEY_SELECTIONS:
        return KEY_SELECTIONS[name]
    return selection_class(name) if name in selection_names() else get(name, place)


def mechanism_of_event(event: Event) -> Randomizer:
    """Return the mechanism that an event records: noise, a selection, or randomized response.

    Releases and ledgers call the same function, so a ledger can compute the cost of every release.

    Raises BudgetError: DP-MECH-001 to 005 for an unknown mechanism or invalid parameters.
    """
    name = event.mechanism
    kind = mechanism_class(name) if name in RECORD_NAMES else randomizer_class(name)
    return kind.of(**dict(event.parameters))


def record_mechanism_of_event(event: Event) -> Mechanism:
    """Return the mechanism of an event about single records, for which no selection is allowed.

    Raises BudgetError: DP-MECH-001 to 005 for an unknown mechanism, invalid parameters, or a
    selection.
    """
    _require_known(event.mechanism, (*names(), *RECORD_NAMES), None)
    return cast("Mechanism", mechanism_of_event(event))


def _require_known(name: str, known: tuple[str, ...], place: Place | None = None) -> None:
    """Refuse an unknown name of a mechanism, and suggest the nearest known name."""
    if name not in known:
        close = nearest(name, known)
        raise BudgetError(
            "DP-MECH-004", place=place, name=name, nearest=close, known=", ".join(known)
        )


def pure_names() -> tuple[str, ...]:
    """Return the names of the mechanisms that can have a pure guarantee."""
    return tuple(name for name in names() if mechanism_class(name).pure)


@cache
def selection_names() -> tuple[str, ...]:
    """Return the sorted names of all selection mechanisms, without importing them."""
    return _modules_with(selections, "SELECTION")


def selection_class(name: str) -> type[Selection]:
    """Return the class of the selection mechanism with this name.

    Raises BudgetError: DP-MECH-004 if no selection mechanism has this name.
    """
    _require_known(name, selection_names())
    selection: type[Selection] = importlib.import_module(f"{selections.__name__}.{name}").SELECTION
    return selection
