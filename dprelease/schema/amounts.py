"""Validators that several declarations share."""

from __future__ import annotations

from fractions import Fraction

from dprelease.schema.field_types import refuse
from dprelease.schema.model import Model


def above_zero(value: Fraction | None) -> Fraction | None:
    """Return a number; refuse one that is not above zero."""
    if value is not None and value <= 0:
        refuse("DP-RELEASE-004")
    return value


def at_most_one(spec: Model, *names: str) -> None:
    """Refuse a declaration that gives more than one of these."""
    given = [name for name in names if getattr(spec, name) is not None]
    if len(given) > 1:
        refuse("DP-RELEASE-008", found=" and ".join(given), key=given[-1])
