"""Finds the mechanisms: every file of this folder that declares `MECHANISM`."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache

from dprelease import mechanisms as folder
from dprelease.errors import BudgetError, Place
from dprelease.mechanisms.base import Mechanism

NOT_MECHANISMS = frozenset({"base", "registry", "shape"})


@cache
def names() -> tuple[str, ...]:
    """Return the names of all mechanisms, sorted; imports none of them."""
    found = (module.name for module in pkgutil.iter_modules(folder.__path__))
    return tuple(sorted(name for name in found if name not in NOT_MECHANISMS))


@cache
def _load(name: str) -> type[Mechanism]:
    found: type[Mechanism] = importlib.import_module(f"{folder.__name__}.{name}").MECHANISM
    return found


def get(name: str, place: Place | None = None) -> type[Mechanism]:
    """Return the class of a mechanism by name.

    Raises
    ------
    BudgetError
        DP-MECH-004 if there is none; the message gives the nearest name.
    """
    if name not in names():
        close = get_close_matches(name, names(), n=1)
        nearest = f"; did you mean '{close[0]}'" if close else ""
        raise BudgetError(
            "DP-MECH-004", place=place, name=name, nearest=nearest, known=", ".join(names())
        )
    return _load(name)


def pure_names() -> tuple[str, ...]:
    """Return the names of the mechanisms that can give a pure guarantee."""
    return tuple(name for name in names() if _load(name).pure)
