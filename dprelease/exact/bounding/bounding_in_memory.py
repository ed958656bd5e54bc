"""Contribution bounding in memory, by the rule of `statements.bounding`, several times faster.

The engine would sort all rows by id and hash, with all their columns. Here ids become small
numbers, and `row_selection_numpy` selects rows as they arrive. If a table fits into memory, its ids
are numbered after its rows are read; otherwise before, so that its rows need not be held.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.arrow_numbers import to_numpy
from dprelease.exact.bounding.row_samples import extend_hash, hash_residues
from dprelease.exact.bounding.row_selection_numpy import (
    IdRows,
    NoRoomError,
    SelectionLimits,
    select_kept_rows,
)
from dprelease.exact.connection import memory_limit, thread_count
from dprelease.exact.results.true_table import Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.statements.bounding import hash_part_sql
from dprelease.statements.compiler import KEPT_RELATION
from dprelease.system.deferred_signals import reraise_handler_errors

# Give ids small numbers, so that data about ids can be stored in arrays.

MOST_RANGE_PER_ROW = 2
"""Maximum range of integer ids, per row, for which ids are not replaced by other numbers."""

DISTINCT_IDS = "dp_distinct"
"""Name of a temporary table of ids."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NumberedIds:
    """The numbered ids of rows in batches, and the hash of the id of each number."""

    ids: list[NDArray[np.integer[Any]]]
    """For each batch, an integer for the id of each row: the id's number plus `low`."""
    low: int
    hashes: Integers

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.ids))


def number_ids(link: duckdb.DuckDBPyConnection, ids: pa.ChunkedArray) -> NumberedIds:
    """Return numbers for the ids of rows, which arrive in chunks."""
    if not len(ids):
        none = np.zeros(0, dtype=np.int64)
        return NumberedIds([none] * ids.num_chunks, 0, none)
    if not is_text_type(ids.type):
        own = _use_integer_ids([to_numpy(chunk) for chunk in ids.chunks])
        if own is not None:
            return own
    chunks = ids.dictionary_encode().chunks
    # All chunks share one dictionary, which only grows, so the longest has all ids.
    last = max((chunk.dictionary for chunk in chunks), key=len)
    joined = np.concatenate([to_numpy(chunk.indices) for chunk in chunks])
    codes = np.split(joined, np.cumsum([len(chunk) for chunk in ids.chunks])[:-1])
    if not is_text_type(ids.type):
        return NumberedIds(codes, 0, extend_hash(None, hash_residues(to_numpy(last))))
    link.register(DISTINCT_IDS, pa.table({"id": last}))
    asked = f"SELECT {hash_part_sql('id', text=True)} AS part FROM {DISTINCT_IDS}"
    part = link.sql(asked).fetchnumpy()["part"]  # in order, like everything without ORDER BY here
    link.unregister(DISTINCT_IDS)
    return NumberedIds(codes, 0, extend_hash(None, np.asarray(part)))


def _use_integer_ids(chunks: list[NDArray[np.integer[Any]]]) -> NumberedIds | None:
    """Return the result of `number_ids` for integer ids that are close together; None otherwise.

    The integers are not copied: copying many of them would take longer than all other steps.
    """
    some = [chunk for chunk in chunks if len(chunk)]
    low, high = min(int(chunk.min()) for chunk in some), max(int(chunk.max()) for chunk in some)
    if high - low + 1 > MOST_RANGE_PER_ROW * sum(map(len, some)):
        return None
    return NumberedIds(chunks, low, hashes_between(low, high, some[0].dtype))


def hashes_between(low: int, high: int, kind: Any) -> Integers:
    """Return the hashes of all ids from the least to the largest one."""
    wide = np.dtype(np.uint64 if kind == np.uint64 else np.int64)
    return extend_hash(None, hash_residues(np.arange(high - low + 1).astype(wide) + wide.type(low)))


def is_text_type(kind: pa.DataType) -> bool:
    """Return whether ids of an Arrow type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


BATCH_ROWS = 2**18
"""Rows fetched from the engine at a time: earlier batches determine which later rows can be
dropped."""

MOST_HELD_ROWS = 3 * 2**22
"""Maximum rows, or ids, held in memory at a time, about 1 GB; larger tables are split by id."""

ROW_BYTES = 100
"""Approximate bytes of a row while its id is bounded; they count towards the engine's memory limit.
"""

MOST_SHARED_BYTES = 2**31
"""Maximum bytes of rows that several tables hold together."""

SHORT_ID_BYTES = 20
"""Bytes of an id's text, and of its position, that `ROW_BYTES` includes."""

MOST_LONG_ID_BYTES = 2**30
"""Maximum bytes of longer ids held: Arrow addresses at most 2^31 bytes of texts in an array."""

MOST_PARTS = 64
"""Maximum number of parts of ids; larger tables are left to the engine, which can use the disk."""

NUMBERED, PART, UNBOUNDED = "dp_numbered", "dp_part", "dp_unbounded"
"""Names of temporary tables: a number for each id; kept rows of one part of the ids; all rows."""


def limit_contributions(
    link: duckdb.DuckDBPyConnection, sql: str, unit: PrivacyUnit, cells: int
) -> bool:
    """Create a table `KEPT_RELATION` of the kept rows of a SELECT of `id`, `cell` and values.

    Of the `cells` cells, each id is kept in at most `max_groups` cells, with at most
    `max_rows_per_group` rows in each of them. In the table, ids are replaced by new numbers. If the
    SELECT has no values, the table has one row for each id and cell, with `n`, the number of kept
    rows. If this can't be done in memory, the function returns False and creates no table.

    Raises duckdb.Error if the engine fails.
    """
    most_rows = most_rows_in_memory(link)
    narrow = narrow_ids(link, sql)
    if narrow is None or most_rows < 1:
        return False
    sql, kind = narrow
    bounds = SelectionLimits(unit, cells, most_rows, thread_count(link))
    parts = 1
    try:
        # A part holds all rows of its ids, so limits apply to it as they do to the whole table.
        while parts <= MOST_PARTS:
            before = 0  # ids are numbered separately in each part
            try:
                for part in range(parts):
                    # The engine's own hash may change with its version. That is harmless here: it
                    # only assigns whole ids to parts, and selects no row.
                    mine = f"SELECT * FROM ({sql}) WHERE hash(id) % {parts} = {part}"
                    kept, ids = _select_rows(link, mine if parts > 1 else sql, kind, bounds)
                    _append_kept_rows(link, kept, before, alone=parts == 1)
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
    """Return SQL of the same rows from a temporary table, so that the source is read only once."""
    try:
        with reraise_handler_errors():
            link.execute(f"CREATE OR REPLACE TEMP TABLE {UNBOUNDED} AS {sql}")
    except duckdb.Error:  # there may be no space for it; any other error occurs again
        return sql
    return f"SELECT * FROM {UNBOUNDED}"


def narrow_ids(link: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, pa.DataType] | None:
    """Return SQL of the same rows whose ids are texts or integers of 64 bits, and the ids' type.

    The result is None if some id needs more than 64 bits. Unsigned integers, and integers parsed
    from texts, arrive as 128-bit integers.
    """
    kind = link.sql(f"SELECT id FROM ({sql}) LIMIT 0").to_arrow_table().schema[0].type
    if pa.types.is_integer(kind) or is_text_type(kind):
        return sql, kind
    low, high = link.sql(f"SELECT min(id), max(id) FROM ({sql})").fetchall()[0]
    for name, narrow in (("BIGINT", pa.int64()), ("UBIGINT", pa.uint64())):
        ends = np.iinfo(narrow.to_pandas_dtype())
        # Without an id there is no end, and any type will do.
        if low is None or ends.min <= low <= high <= ends.max:
            return f"SELECT CAST(id AS {name}) AS id, * EXCLUDE (id) FROM ({sql})", narrow
    return None


def _append_kept_rows(
    link: duckdb.DuckDBPyConnection, kept: pa.Table, before: int, *, alone: bool
) -> None:
    """Add kept rows to `KEPT_RELATION`; `before`: the number of ids in earlier parts.

    `alone`: whether there is only one part. Rows of several parts are copied into a table of the
    engine, within its memory limit.
    """
    if alone:
        link.register(KEPT_RELATION, kept)
        return
    link.register(PART, kept)
    select = f"SELECT id + {before} AS id, * EXCLUDE (id) FROM {PART}"
    insert = (
        f"INSERT INTO {KEPT_RELATION}"
        if before
        else f"CREATE OR REPLACE TEMP TABLE {KEPT_RELATION} AS"
    )
    link.execute(f"{insert} {select}")
    link.unregister(PART)


def most_rows_in_memory(
    link: duckdb.DuckDBPyConnection, row: int = ROW_BYTES, taken: int = 0
) -> int:
    """Return how many rows fit into the engine's memory limit.

    `row`: the bytes of a row. `taken`: the bytes of other data that is held at the same time.
    """
    # NumPy's memory is outside of the engine's limit, but the user who sets that limit means both.
    limit = memory_limit(link)
    most = min(MOST_HELD_ROWS, MOST_SHARED_BYTES // row)
    most = max(0, most - taken // row)
    return most if limit is None else min(most, max(0, (limit - taken) // row))


def _select_rows(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, bounds: SelectionLimits
) -> tuple[pa.Table, int]:
    """Return the kept rows and the number of ids; raise NoRoomError if the rows do not fit."""
    batches = read_all_batches(link, sql, bounds.most_rows, bounds.threads)
    if batches is not None:
        ids = pa.chunked_array([batch.column(0) for batch in batches], type=kind)
        known = number_ids(link, ids)
        blocks = (_id_rows(*block, known.low) for block in zip(batches, known.ids, strict=True))
        return select_kept_rows(blocks, len(ids), known.hashes, bounds), len(known.hashes)
    try:
        with reraise_handler_errors():
            return _select_while_reading(link, sql, kind, bounds)
    except duckdb.Error:
        # Numbering ids may take more memory than the engine has. A part of the ids whose rows all
        # fit in memory needs no numbering by the engine. Any other error occurs again there.
        (total,) = link.sql(f"SELECT count(*) FROM ({sql})").fetchall()[0]
    raise NoRoomError(bounds.most_rows / max(total, 1))


def _select_while_reading(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, bounds: SelectionLimits
) -> tuple[pa.Table, int]:
    """Return the kept rows and the number of ids, for rows that do not all fit in memory."""
    try:
        asked, total, low, hashes = _number_ids_first(link, sql, kind, bounds.most_rows)
        # Closed before the next statement: a connection has one open result at a time.
        with closing(_fetch_batches(link, asked, bounds.most_rows, bounds.threads)) as stream:
            return select_kept_rows(
                _numbered_rows(stream, low, len(hashes)), total, hashes, bounds
            ), len(hashes)
    finally:
        link.execute(f"DROP TABLE IF EXISTS {NUMBERED}")


def _numbered_rows(batches: Iterator[pa.RecordBatch], low: int, count: int) -> Iterator[IdRows]:
    """Yield rows; raise duckdb.Error for an id outside of `low` to `low + count - 1`.

    Such an id exists if the source has changed between two reads. Without this check an index error
    would follow, whose message quotes an id.
    """
    for batch in batches:
        ids = to_numpy(batch.column(0))
        if len(ids) and not low <= int(ids.min()) <= int(ids.max()) < low + count:
            raise duckdb.Error
        yield _id_rows(batch, ids, low)


def _fetch_batches(
    link: duckdb.DuckDBPyConnection, sql: str, most_rows: int, threads: int
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a SELECT in batches; at first an empty batch, which has the columns.

    The batches that all threads hold at a time have about a quarter of `most_rows` rows.
    """
    size = min(BATCH_ROWS, most_rows // (4 * threads) + 1)
    reader = link.sql(sql).to_arrow_reader(size)
    yield _empty_batch(reader.schema)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError):
            break  # raised below, so that its message, which may quote a cell, is dropped
        yield batch
    raise duckdb.Error


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of this schema without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, c.type) for c in schema], schema=schema)


def read_all_batches(
    link: duckdb.DuckDBPyConnection, sql: str, most_rows: int, threads: int, row: int = ROW_BYTES
) -> list[pa.RecordBatch] | None:
    """Return all rows of a SELECT; None if they do not fit in memory.

    `most_rows`: how many rows fit if their ids are numbers or short texts. `row`: the bytes of such
    a row.
    """
    batches, seen, texts = [], 0, 0
    with closing(_fetch_batches(link, sql, most_rows, threads)) as stream:
        for batch in stream:
            seen += len(batch)
            texts += _excess_bytes(batch.column(0))
            if seen + texts // row > most_rows or texts > MOST_LONG_ID_BYTES:
                return None
            batches.append(batch)
    return batches


def _excess_bytes(ids: pa.Array) -> int:
    """Return the bytes by which ids exceed ids of `SHORT_ID_BYTES` bytes."""
    return max(0, ids.nbytes - SHORT_ID_BYTES * len(ids)) if is_text_type(ids.type) else 0


def _id_rows(batch: pa.RecordBatch, ids: NDArray[np.integer[Any]], low: int) -> IdRows:
    """Return the ids, cells and values of a batch (its columns from the third on are values)."""
    values = batch.select(range(2, batch.num_columns)) if batch.num_columns > 2 else None
    return IdRows(ids, low, to_numpy(batch.column(1)), values)


def _number_ids_first(
    link: duckdb.DuckDBPyConnection, sql: str, kind: pa.DataType, most: int
) -> tuple[str, int, int, Integers]:
    """Return SQL of the same rows with small ids, their number, their least id, and hashes of ids.

    An id of that SQL minus the least id is the id's number, and the hashes are in the order of
    these numbers. The function reads the rows one to three times. It raises NoRoomError if there
    are more than `most` ids.
    """
    if not is_text_type(kind):
        ends = f"SELECT count(*), min(id), max(id) FROM ({sql})"
        ((total, low, high),) = link.sql(ends).fetchall()
        if total and high - low < most:
            return sql, total, low, hashes_between(low, high, kind.to_pandas_dtype())
    # An exact number would take the memory that this check is there to save.
    about = f"SELECT count(*), approx_count_distinct(id) FROM ({sql})"
    ((total, different),) = link.sql(about).fetchall()
    if different > most:
        raise NoRoomError(most / different)
    distinct = (
        # The numbers are arbitrary: rows are selected by hashes of the ids themselves.
        f"SELECT id, row_number() OVER () - 1 AS number FROM (SELECT DISTINCT id FROM ({sql}))"
    )
    link.execute(f"CREATE OR REPLACE TEMP TABLE {NUMBERED} AS {distinct}")
    part = hash_part_sql("id", text=is_text_type(kind))
    parts = link.sql(f"SELECT {part} AS part FROM {NUMBERED} ORDER BY number").fetchnumpy()["part"]
    asked = f"SELECT number AS id, * EXCLUDE (id, number) FROM ({sql}) JOIN {NUMBERED} USING (id)"
    return asked, total, 0, extend_hash(None, np.asarray(parts))
