"""Convert noisy tables to published tables; keys and types come from the plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from dprelease.planning.plan import PlannedColumn
from dprelease.query.resolve import Query
from dprelease.tables.key_columns import KeyArrays, PublicKeys, key_types
from dprelease.tables.published_columns import published_arrays, published_types

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.noise.noised_answers import Answer
    from dprelease.noise.noised_vectors import NoisyTable

MOST_TRIAL_CELLS = 1 << 16


class PublishedTables:
    """Converts noisy tables of one query to published tables: all cells at once, or in batches."""

    def __init__(self, columns: Sequence[PlannedColumn]) -> None:
        self._query = columns[0].query
        self._laws = {column.measurement.name: column.mechanism for column in columns}
        self._keys = KeyArrays(self._query)
        self._done = 0

    def of(self, noisy: NoisyTable) -> pa.Table:
        """Return a table of keys, published columns and companion columns for the next cells."""
        import pyarrow as pa

        arrays = self._keys.of(self._done, self._done + noisy.size)
        self._done += noisy.size
        for published in self._query.columns:
            arrays |= published_arrays(self._query, published, noisy.columns, self._laws)
        return pa.Table.from_arrays(list(arrays.values()), names=list(arrays))


def to_arrow(answer: Answer) -> pa.Table:
    """Return a table of keys, published and companion columns, one row per cell in key order."""
    return PublishedTables(answer.columns).of(answer.noisy)


def trial_table(query: Query) -> pa.Table:
    """Return a table with the columns of a query: public keys, otherwise zeros and empty texts.

    If the query has no public keys, the table has one row, because an engine computes constants
    only if there are rows. If there are very many cells, the table has only the first cells.
    """
    import pyarrow as pa

    is_public = query.private is None
    size = min(query.keys.size, MOST_TRIAL_CELLS) if is_public else 1
    keys = PublicKeys(query.keys).of(0, size) if is_public and size else {}
    columns = {
        name: keys[name] if name in keys else _zero_array(size, kind)
        for name, kind in schema_of(query)
    }
    return pa.table(columns)


def _zero_array(size: int, kind: str) -> pa.Array:
    """Return an array of zeros, of empty texts or of the day 1970-01-01."""
    import pyarrow as pa

    if kind.startswith("decimal128"):
        digits, places = kind.partition("(")[2].rstrip(")").split(",")
        return pa.nulls(size, pa.decimal128(int(digits), int(places))).fill_null(0)
    if kind.startswith("timestamp"):
        return pa.nulls(size, pa.timestamp("us")).fill_null(datetime(1970, 1, 1))
    cells = pa.nulls(size, pa.type_for_alias(kind.partition("[")[0]))
    zero = _ZEROS.get(kind.partition("[")[0])
    return cells if zero is None else cells.fill_null(zero)


_ZEROS: dict[str, object] = {
    "int64": 0, "double": 0, "string": "", "bool": False, "date32": date(1970, 1, 1),
}  # fmt: skip
"""The value of a trial by the type of its column; other types have NULL."""


def schema_of(query: Query) -> list[tuple[str, str]]:
    """Return the name and the Arrow type of every column that a query publishes."""
    columns = key_types(query.key_columns)
    for published in query.columns:
        columns += published_types(query, published)
    return columns
