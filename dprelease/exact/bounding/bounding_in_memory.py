"""Contribution bounding in memory: the rows that `statements.bounding` says, several times faster.

The engine would sort all rows by id and hash, with everything that they hold. Here ids become small
numbers, and `kept` chooses rows as they come. Of a table that fits into memory, ids are numbered
once its rows are read; of a larger one before, so that its rows need not be held.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import numbers_of
from dprelease.exact.bounding.numbers_of_ids import hashes_between, is_text, number_ids
from dprelease.exact.bounding.row_selection_numpy import (
    Bounds,
    IdRows,
    NoRoomError,
    extend_hash,
    keep,
)
from dprelease.exact.engine_memory import memory_limit, threads_of
from dprelease.exact.results.true_table import Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.statements.bounding import number
from dprelease.statements.compiler import KEPT
from dprelease.system.signal_propagation import reraise_handler_errors

BATCH = 2**18
"""Rows that come from the engine at a time: what is known of ids drops rows of later ones."""

MOST_HELD = 3 * 2**22
"""Rows, or ids, that are held in memory at a time, about 1 GB; more are taken in parts of ids."""

ROW_BYTES = 100
"""About what a row takes while it is bounded, within the memory limit of the engine."""

MOST_BYTES = 2**31
"""Bytes of rows that several tables hold together."""

SHORT = 20
"""Bytes of a text for an id, and of its place, that `ROW_BYTES` counts on."""

MOST_TEXT = 2**30
"""Bytes of longer texts that are held: Arrow numbers no more than 2^31 bytes of them."""

MOST_PARTS = 64
"""Still more rows are left to the engine, which can use the disk."""

NUMBERED, PART, UNBOUNDED = "dp_numbered", "dp_part", "dp_unbounded"
"""Temporary tables: a number for each id; kept rows of a part of the ids; all rows."""


def limit_contributions(
    link: duckdb.DuckDBPyConnection, sql: str, unit: PrivacyUnit, cells: int
) -> bool:
    """Make a table `KEPT` of the kept rows of a SELECT of `id`, `cell` and values.

    Each id is in at most `max_groups` cells, with at most `max_rows_per_group` rows in each, of
    `cells` that there can be. The ids of the table are numbers of its own. Where
    there is no value, it has one row for each id and cell, and `n`, how many rows count.
    Returns False, with no table, if that can't be done here.

    Raises
    ------
    duckdb.Error
        If the engine fails.
    """
    room = most_held(link)
    narrow = narrow_ids(link, sql)
    if narrow is None or room < 1:
        return False
    sql, kind = narrow
    bounds = Bounds(unit, cells, room, threads_of(link))
    parts = 1
    try:
        while parts <= MOST_PARTS:
            before = 0  # ids are numbers of their own in each part
            try:
                for part in range(parts):
                    mine = f"SELECT * FROM ({sql}) WHERE hash(id) % {parts} = {part}"
                    kept, ids = _select_rows(link, mine if parts > 1 else sql, kind, bounds)
                    _append(link, kept, before, alone=parts == 1)
                    before += ids
            except NoRoomError as error:
                if parts == 1:
                    sql = _materialize(link, sql)
                parts *= error.parts
            else:
                return True
        return False
    finally:
        link.execute(f"DROP TABLE IF EXISTS {UNBOUNDED}")


def _materialize(link: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return SQL of the same rows in a table of the engine: a source is read once for all parts."""
    try:
        with reraise_handler_errors():
            link.execute(f"CREATE OR REPLACE TEMP TABLE {UNBOUNDED} AS {sql}")
    except duckdb.Error:  # there may be no room for it; whatever else is wrong shows again
        return sql
    return f"SELECT * FROM {UNBOUNDED}"


def narrow_ids(link: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, pa.DataType] | None:
    """Return SQL whose ids are texts or have at most 64 bits, and their type; None if they don't.

    Unsigned integers, and integers that are read from texts, come as numbers of 128 bits.
    """
    kind = link.sql(f"SELECT id FROM ({sql}) LIMIT 0").to_arrow_table().schema[0].type
    if pa.types.is_integer(kind) or is_text(kind):
        return sql, kind
    low, high = link.sql(f"SELECT min(id), max(id) FROM ({sql})").fetchall()[0]
    for name, narrow in (("BIGINT", pa.int64()), ("UBIGINT", pa.uint64())):
        ends = np.iinfo(narrow.to_pandas_dtype())
        if low is None or ends.min <= low <= high <= ends.max:
            return f"SELECT CAST(id AS {name}) AS id, * EXCLUDE (id) FROM ({sql})", narrow
    return None


def _append(link: duckdb.DuckDBPyConnection, kept: pa.Table, before: int, *, alone: bool) -> None:
    """Add rows to `KEPT`; what comes in parts is held by the engine, within its memory limit."""
    if alone:
        link.register(KEPT, kept)
        return
    link.register(PART, kept)
    select = f"SELECT id + {before} AS id, * EXCLUDE (id) FROM {PART}"
    insert = f"INSERT INTO {KEPT}" if before else f"CREATE OR REPLACE TEMP TABLE {KEPT} AS"
    link.execute(f"{insert} {select}")
    link.unregister(PART)


def most_held(link: duckdb.DuckDBPyConnection, row: int = ROW_BYTES, taken: int = 0) -> int:
    """Return how many rows of so many bytes are held under the engine's memory limit.

    `taken`: bytes of others that are held beside them.
    """
    limit = memory_limit(link)
    most = min(MOST_HELD, MOST_BYTES // row)
    most = max(0, most - taken // row)
    return most if limit is None else min(most, max(0, (limit - taken) // row))


def _select_rows(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, bounds: Bounds
) -> tuple[pa.Table, int]:
    """Return the kept rows and how many numbers of ids there are; raise NoRoomError."""
    batches = read_all(link, sql, bounds.room, bounds.threads)
    if batches is not None:
        ids = pa.chunked_array([batch.column(0) for batch in batches], type=kind)
        known = number_ids(link, ids)
        blocks = (_rows(*block, known.low) for block in zip(batches, known.ids, strict=True))
        return keep(blocks, len(ids), known.hashes, bounds), len(known.hashes)
    try:
        with reraise_handler_errors():
            return _as_they_come(link, sql, kind, bounds)
    except duckdb.Error:
        # To number ids may take more memory than the engine has; parts that are read whole need
        # none. Whatever else is wrong shows again there.
        (total,) = link.sql(f"SELECT count(*) FROM ({sql})").fetchall()[0]
    raise NoRoomError(bounds.room / max(total, 1))


def _as_they_come(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, bounds: Bounds
) -> tuple[pa.Table, int]:
    """Return what `_select_rows` does, of rows that are not held together."""
    try:
        asked, total, low, hashes = _numbered_before(link, sql, kind, bounds.room)
        # Closed before anything else is asked: a connection has one open result at a time.
        with closing(_batches(link, asked, bounds.room, bounds.threads)) as stream:
            return keep(_numbered_rows(stream, low, len(hashes)), total, hashes, bounds), len(
                hashes
            )
    finally:
        link.execute(f"DROP TABLE IF EXISTS {NUMBERED}")


def _numbered_rows(batches: Iterator[pa.RecordBatch], low: int, count: int) -> Iterator[IdRows]:
    """Give rows whose ids less `low` are numbers below `count`; raise duckdb.Error if one is not.

    A source may change between two reads. The index error that would follow quotes an id.
    """
    for batch in batches:
        ids = numbers_of(batch.column(0))
        if len(ids) and not low <= int(ids.min()) <= int(ids.max()) < low + count:
            raise duckdb.Error
        yield _rows(batch, ids, low)


def _batches(
    link: duckdb.DuckDBPyConnection, sql: str, room: int, threads: int
) -> Generator[pa.RecordBatch, None, None]:
    """Give the rows of a SELECT in batches; one for each thread takes a quarter of the room."""
    size = min(BATCH, room // (4 * threads) + 1)
    reader = link.sql(sql).to_arrow_reader(size)
    yield _empty(reader.schema)  # says what columns there are
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError):
            break  # raised below, so that its words, which may quote a cell, are not kept
        yield batch
    raise duckdb.Error


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, c.type) for c in schema], schema=schema)


def read_all(
    link: duckdb.DuckDBPyConnection, sql: str, room: int, threads: int, row: int = ROW_BYTES
) -> list[pa.RecordBatch] | None:
    """Return all rows of a SELECT; None if there are more than there is room for.

    `room`: in rows of `row` bytes, with ids that are numbers or short texts.
    """
    batches, seen, texts = [], 0, 0
    with closing(_batches(link, sql, room, threads)) as stream:
        for batch in stream:
            seen += len(batch)
            texts += _longer(batch.column(0))
            if seen + texts // row > room or texts > MOST_TEXT:
                return None
            batches.append(batch)
    return batches


def _longer(ids: pa.Array) -> int:
    """Return the bytes of ids beyond those of short ones."""
    return max(0, ids.nbytes - SHORT * len(ids)) if is_text(ids.type) else 0


def _rows(batch: pa.RecordBatch, ids: NDArray[np.integer[Any]], low: int) -> IdRows:
    values = batch.select(range(2, batch.num_columns)) if batch.num_columns > 2 else None
    return IdRows(ids, low, numbers_of(batch.column(1)), values)


def _numbered_before(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, most: int
) -> tuple[str, int, int, Integers]:
    """Return SQL of the same rows, how many they are, and the hash of the id of each number.

    Ids of that SQL less an integer, which comes third, are numbers. Reads the rows once to three
    times more. Raises NoRoomError if there are more than `most` ids.
    """
    if not is_text(kind):
        ends = f"SELECT count(*), min(id), max(id) FROM ({sql})"
        ((total, low, high),) = link.sql(ends).fetchall()
        if total and high - low < most:
            return sql, total, low, hashes_between(low, high, kind.to_pandas_dtype())
    about = f"SELECT count(*), approx_count_distinct(id) FROM ({sql})"
    ((total, different),) = link.sql(about).fetchall()
    if different > most:
        raise NoRoomError(most / different)
    distinct = (
        f"SELECT id, row_number() OVER () - 1 AS number FROM (SELECT DISTINCT id FROM ({sql}))"
    )
    link.execute(f"CREATE OR REPLACE TEMP TABLE {NUMBERED} AS {distinct}")
    part = number("id", text=is_text(kind))
    parts = link.sql(f"SELECT {part} AS part FROM {NUMBERED} ORDER BY number").fetchnumpy()["part"]
    asked = f"SELECT number AS id, * EXCLUDE (id, number) FROM ({sql}) JOIN {NUMBERED} USING (id)"
    return asked, total, 0, extend_hash(None, np.asarray(parts))
