"""Find totals that may be too large for their integers, from declarations alone.

Totals are clamped to 2^62 steps. No total may reach this limit, because a clamped total would be
wrong, and published unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dprelease.errors import Place, QueryError
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import plain_text
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query

MOST_ROWS = 2**33
"""Maximum rows in a cell of a table without a declared size: more than there are people on
Earth."""


def too_large_total_errors(
    query: Query,
    place: Callable[[str], Place],
    limit: Callable[[OutputColumn], int] = lambda _: LIMIT,
) -> Iterator[QueryError]:
    """Yield DP-QUERY-014 for each column whose total may exceed a limit, in steps.

    A total is the sum of the contributions of all people to a cell. `place` returns the position of
    a column.
    """
    units, units_text = _most_units(query)
    for column in query.columns:
        most = limit(column) // column.form.largest_shift(column)
        aggregate = column.parts[0].aggregate.factors[0]
        step = aggregate.step if aggregate.lattice is None else aggregate.lattice.step
        if units > most:
            yield QueryError(
                "DP-QUERY-014",
                place=place(column.parts[0].charged_column),
                column=column.name,
                table=query.table.name,
                units=units_text,
                most=f"{most:,}",
                step=plain_text(step),
                coarser=plain_text(step * 10 ** len(str(2 * units // (most + 1)))),
            )


def _most_units(query: Query) -> tuple[int, str]:
    """Return the maximum number of privacy units in a cell, and a text with the reason."""
    declared, unit = query.table.max_units, query.unit
    if declared is not None:
        return declared, f"{declared:,} privacy units, twice its declared `size`"
    # In a family, all groups of a privacy unit may lie in one cell.
    rows = unit.most_rows_per_group if query.finest is None else unit.most_rows
    units = max(1, MOST_ROWS // rows)
    return units, f"{units:,} privacy units with all their rows, as it declares no `size`"
