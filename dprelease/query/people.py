"""Which noisy vector of a query counts people, so that cells with few people can be left empty."""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.measurement import OutputColumn


def people_vector(
    column: OutputColumn, others: Sequence[OutputColumn], unit: PrivacyUnit
) -> str | None:
    """Return the name of the noisy vector that counts the people of a column's cells.

    This is a vector of the column itself, or else of another column that counts all people of a
    cell; None if there is none.
    """
    own = next((part for part in column.parts if part.aggregate.counts_people(unit)), None)
    if own is not None:
        return own.name
    for other in others:
        (*several, part) = other.parts
        counts_all = part.aggregate.column in (None, unit.id)
        if not several and counts_all and part.aggregate.counts_people(unit):
            return part.name
    return None


def people_column_text(unit: PrivacyUnit) -> str:
    """Return the declaration of a column that counts people, as in a release file."""
    return 'count: "*"' if unit.id is None else f"count_distinct: {unit.id}"
