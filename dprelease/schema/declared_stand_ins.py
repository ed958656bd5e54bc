"""Substitutes for missing and undeclared values: a declared value, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import NoReturn

from dprelease.numerics.rounding import exact, plain_text
from dprelease.schema.field_types import DROP, refuse


def null_inside(nulls: str, low: Fraction | None, high: Fraction | None) -> None:
    """Raise DP-SCHEMA-005 for a substitute that is not a number within the bounds."""
    if nulls == DROP:
        return
    if low is None or high is None:
        refuse_stand_in("nulls", nulls, "allowed without `lower` and `upper`")
    try:
        inside = low <= exact(nulls) <= high
    except ValueError:
        inside = False
    if not inside:
        bounds = f"{plain_text(low)} to {plain_text(high)}"
        refuse_stand_in("nulls", nulls, f"a number within the bounds, {bounds}")


def refuse_stand_in(key: str, written: str, allowed: str, known: Iterable[str] = ()) -> NoReturn:
    """Raise DP-SCHEMA-005."""
    close = get_close_matches(written, [DROP, *known], n=1)
    nearest = f"; did you mean '{close[0]}'" if close else ""
    fields = {"found": written, "allowed": allowed, "nearest": nearest}
    refuse("DP-SCHEMA-005", key=key, column="this column", **fields)


def stand_ins(nulls: str, others: str, values: Sequence[str]) -> None:
    """Refuse substitutes for missing or undeclared values that are not declared values."""
    for key, cell in (("nulls", nulls), ("others", others)):
        if cell != DROP and cell not in values:
            shown = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
            refuse_stand_in(key, cell, f"a declared value ({shown})", values)
