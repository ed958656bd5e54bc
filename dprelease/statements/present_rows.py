"""A condition that drops rows which add nothing to any sum, before the engine converts them.

A query whose sums are all over one stored number needs no rows in which the number is missing. If
the source marks missing values itself, as Parquet does, dropping these rows costs less than
converting and adding them. For 10 million rows, of which a fifth lack the number, the condition
saves a sixth of the time. If no number is missing, the condition costs a fiftieth of the time. The
condition does not test for NaN, because that test costs more than it saves.

Dropping rows is correct only without contribution limits, because with limits a row without the
number may be kept instead of a row with the number.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query import quoting
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.statements.layers import needed_columns


def presence_condition_sql(query: Query, vectors: Sequence[Measurement]) -> str:
    """Return an SQL condition on stored columns that holds for every row that adds to a vector.

    The condition is empty if no rows can be dropped.
    """
    read = {name for measurement in vectors for name in measurement.aggregate.reads}
    if len(read) != 1 or not all(m.aggregate.reads_values for m in vectors):
        return ""
    (name,) = read
    column = query.table.columns[name]
    is_number = isinstance(column, IntegerColumn | NumberColumn) and column.fill_value is None
    known = is_number and name in needed_columns(query)
    return f"{quoting.identifier(name)} IS NOT NULL" if known else ""
