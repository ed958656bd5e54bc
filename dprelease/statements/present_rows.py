"""Rows that add nothing to any sum of a query: the engine leaves them out before it types them.

A query whose sums are all over one stored number asks nothing of rows in which it is missing. Where
a source says so itself, as Parquet does, to leave them out costs less than to type and add them up:
of 10 million rows, a fifth of them without a float, a sixth of the time. NaN is left to the types:
to look for it takes longer than it gains. Where no number is missing it costs a fiftieth.

It is right only where rows are not bounded, for there each of them could take the place of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query import quoting
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.statements.layers import needed_columns


def is_present(query: Query, vectors: Sequence[Measurement]) -> str:
    """Return a condition on stored columns that every row meets which adds to any of some vectors.

    Empty if there is none.
    """
    read = {name for measurement in vectors for name in measurement.aggregate.reads}
    if len(read) != 1 or not all(m.aggregate.reads_values for m in vectors):
        return ""
    (name,) = read
    column = query.table.columns[name]
    is_number = isinstance(column, IntegerColumn | NumberColumn) and column.null_value is None
    known = is_number and name in needed_columns(query)
    return f"{quoting.identifier(name)} IS NOT NULL" if known else ""
