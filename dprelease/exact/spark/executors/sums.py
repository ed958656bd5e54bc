"""Pack the sums of tasks for transport, and add them up.

Spark moves packed sums: to the driver if there are few of them. Otherwise it moves all sums of a
block of cells to one task, which adds them up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from dprelease.exact.arrow_numbers import to_arrow_array, to_numpy
from dprelease.exact.spark.executors.task_rows import Link, from_ipc_bytes, to_ipc_bytes
from dprelease.numerics.lattice import LIMIT

SUMS_COLUMNS = "number int, place int, content binary"
"""The columns of packed sums in Spark: the number of a table, the place, and the packed sums. Sums
of the same block of cells have the same place, so one task gets all sums of the block. The blocks
of a table have consecutive places, which start at the number of the table."""

BLOCK_CELLS = 2**16
"""Number of cells of a block."""

MOST_HELD_SUMS = 2**20
"""Maximum rows of sums that a task holds before it adds them up."""

ADDED_RELATION = "dp_added"


def add_up(link: Link, tables: Iterable[pa.Table], *, final: bool = False) -> pa.Table:
    """Return the sums of the columns `m0`, `m1`, ..., grouped by all other columns of the tables.

    Sums are 128 bits wide. `final`: whether sums are over all rows; these are clamped to 2^62, and
    64 bits wide.
    """
    table = pa.concat_tables(tables)
    places = [name for name in table.column_names if not name.startswith("m")]
    sums = []
    for name in table.column_names[len(places) :]:
        total = f"CAST(sum({name}) AS HUGEINT)"
        if final:
            total = f"CAST(least(greatest({total}, -{LIMIT}::HUGEINT), {LIMIT}::HUGEINT) AS BIGINT)"
        else:
            # The type of the sums of a task (`statements.partial`), with which this sum is added up
            # again.
            total = f"CAST({total} AS DECIMAL(38, 0))"
        sums.append(f"{total} AS {name}")
    link.register(ADDED_RELATION, table)
    try:
        sql = f"SELECT {', '.join([*places, *sums])} FROM {ADDED_RELATION} GROUP BY ALL"
        return link.sql(sql).to_arrow_table()
    finally:
        link.unregister(ADDED_RELATION)


class SumCollector:
    """Sums that arrive in parts, added up whenever many have accumulated."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held: list[pa.Table] = []
        self._rows = self._least = 0

    def add(self, table: pa.Table) -> None:
        """Add the sums of one part."""
        self._held.append(table)
        self._rows += len(table)
        # The limit grows with the number of different cells. A fixed one would add up everything
        # again at each part, once there are more cells than that.
        if self._rows > MOST_HELD_SUMS + 2 * self._least:
            self._held = [self.table()]
            self._rows = self._least = len(self._held[0])

    def table(self) -> pa.Table:
        """Return the sums of all parts; there must be at least one part."""
        return self._held[0] if len(self._held) == 1 else add_up(self._link, self._held)

    def result_rows(self, number: int, block: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the sums of a table as rows of `SUMS_COLUMNS`; none if there was no part.

        `block`: the number of cells of a block, for one row for each block; None for a single row.
        """
        if self._held:
            yield from rows_of_sums(number, self.table(), block)


def rows_of_sums(number: int, table: pa.Table, block: int | None) -> Iterator[pa.RecordBatch]:
    """Yield rows of `SUMS_COLUMNS` with the packed sums of a table.

    `block`: the number of cells of a block, for one row for each block; None for one row for all
    cells.
    """
    if block is None:
        yield sums_row(number, number, table)
        return
    blocks = np.asarray(table["cell"], dtype=np.int64) // block
    order = np.argsort(blocks, kind="stable")
    ordered = table.take(to_arrow_array(order))
    starts = np.flatnonzero(np.diff(blocks[order], prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(order)]):
        yield sums_row(
            number, number + int(blocks[order[start]]), ordered.slice(start, end - start)
        )


def sums_row(number: int, place: int, table: pa.Table) -> pa.RecordBatch:
    """Return one row of `SUMS_COLUMNS`."""
    columns = [
        pa.array([number], pa.int32()),
        pa.array([place], pa.int32()),
        pa.array([to_ipc_bytes(table)], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["number", "place", "content"])


def group_by_table(sums: Iterable[pa.RecordBatch]) -> dict[int, list[pa.Table]]:
    """Return the sums of each table, in order of arrival."""
    found: dict[int, list[pa.Table]] = {}
    for batch in sums:
        numbers = to_numpy(batch.column("number")).tolist()
        for number, content in zip(numbers, batch.column("content"), strict=True):
            if len(content.as_buffer()):
                found.setdefault(number, []).append(from_ipc_bytes(content.as_buffer()))
    return found
