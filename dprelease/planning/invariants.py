"""Invariants in a plan: what is published exactly has no price, and is told by name.

A release with invariants promises less, and not in numbers: its guarantee is that of the noised
columns, between tables that agree in the invariants (`dprelease.query.invariants`). So they are
left out of every price and stand in the guarantee by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dprelease.mechanisms.invariant import Invariant
from dprelease.query.measurement import DECLARED, Measurement
from dprelease.query.resolve import Query

if TYPE_CHECKING:
    from dprelease.planning.plan import PlannedColumn

AS_IT_IS = Invariant()

CHOSEN_BY = "declared: an invariant, published exactly"


def noised(columns: Iterable[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns that noise protects: all that a price is of."""
    return tuple(column for column in columns if not column.measurement.exact)


def invariant_name(query: Query, measurement: Measurement) -> str:
    """Return what an invariant is called where it is told, and where a ledger allows it."""
    keys = ", ".join(key.column for key in query.key_columns)
    rows = "" if query.predicate is None else f" where {query.predicate.sql}"
    by = f" by {keys}" if keys else ", in all"
    return f"{measurement.aggregate.words}{rows}{by}, of {query.table.name}"


def invariants_of(columns: Iterable[PlannedColumn]) -> tuple[str, ...]:
    """Return the names of all declared invariants of a plan, each once."""
    names = (
        invariant_name(column.query, column.measurement)
        for column in columns
        if column.measurement.exact == DECLARED
    )
    return tuple(dict.fromkeys(names))


def told_invariants(names: Sequence[str]) -> Iterator[str]:
    """Yield what a plan warns of: each invariant by its name."""
    for name in names:
        yield (
            f"outside the guarantee: {name}. True values are published, with all sums of them; "
            "the guarantee holds between tables that agree in them."
        )
