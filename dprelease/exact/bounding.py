"""Contribution bounding in memory: the rows that `statements.bounding` says, several times faster.

The engine would sort all rows by id and hash, with everything that they hold. Here ids become small
numbers, and one 64-bit integer a row, id and hash of the cell, is all that is sorted. What is kept
goes back to the engine as a table. NumPy's long loops let go of the interpreter's lock, so blocks
of rows are worked on by as many threads as the engine has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dprelease.exact.table import Integers
from dprelease.exact.vectors import BATCH
from dprelease.privacy.unit import PrivacyUnit
from dprelease.statements.bounding import MODULUS, ROUNDS

MOST_HELD = 3 * 2**22
"""Rows that are bounded in memory at a time, about 1 GB; more are taken in parts, by their ids."""

ROW_BYTES = 100
"""About what a row takes while it is bounded, within the memory limit of the engine."""

MOST_PARTS = 64
"""Still more rows are left to the engine, which can use the disk."""

HASH_BITS = 31
BLOCK = 2**16
"""Rows whose hashes are computed together, and stay in the cache."""

SPARSEST = 2
"""Numbers for each row up to which ids that are integers are their own numbers."""

SORTED = 2**21
"""Rows that are sorted together."""


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of a query: a number for each id, a hash of each id, cells, and values."""

    codes: NDArray[np.int32]
    hashes: Integers
    cells: Integers
    values: pa.Table


def bounded(
    link: duckdb.DuckDBPyConnection, sql: str, unit: PrivacyUnit, cells: int
) -> pa.Table | None:
    """Return the kept rows of a SELECT of `id`, `cell` and values; None if it can't be done here.

    Each id is in at most `max_groups` cells, with at most `max_rows_per_group` rows in each, of
    `cells` that there can be. The ids of the result are numbers of its own. Where
    there is no value, it has one row for each id and cell, and `n`, how many rows count.

    Raises
    ------
    duckdb.Error
        If the engine fails.
    """
    kind = link.sql(f"SELECT id FROM ({sql}) LIMIT 0").to_arrow_table().schema[0].type
    most = _most_held(link)
    if not (pa.types.is_integer(kind) or _is_text(kind)) or most < 1:
        return None  # a 128-bit id
    (threads,) = link.sql("SELECT current_setting('threads')").fetchall()[0]
    rows = _read(link, sql, most)
    if rows is not None:
        return _kept(rows, unit, cells, threads)
    (total,) = link.sql(f"SELECT count(*) FROM ({sql})").fetchall()[0]
    parts = -(-5 * total // (4 * most))  # with room: some parts have more rows than others
    number = "CAST('0x' || left(md5(id), 7) AS BIGINT)" if _is_text(kind) else "id"
    found: list[pa.Table] = []
    before = 0
    for part in range(parts if parts <= MOST_PARTS else 0):
        mine = f"abs({number} % {parts}) = {part}"  # % keeps the sign of an id
        rows = _read(link, f"SELECT * FROM ({sql}) WHERE {mine}", most)
        if rows is None:
            return None
        kept = _kept(rows, unit, cells, threads)
        # Ids are numbers of their own in each part.
        ids = pa.array(kept.column("id").to_numpy() + before)
        found.append(kept.set_column(0, "id", ids))
        before += len(rows.hashes)
    return pa.concat_tables(found) if found else None


def _most_held(link: duckdb.DuckDBPyConnection) -> int:
    """Return how many rows are bounded at a time under the engine's memory limit."""
    (limit,) = link.sql("SELECT current_setting('memory_limit')").fetchall()[0]
    told = re.fullmatch(r"([0-9.]+) (bytes|[KMGTP]iB)", limit)
    if told is None:
        return MOST_HELD
    size = float(told[1]) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB").index(told[2])
    return min(MOST_HELD, int(size / ROW_BYTES))


def _read(link: duckdb.DuckDBPyConnection, sql: str, most: int) -> _Rows | None:
    """Return all rows of a SELECT; None if there are more than `most`."""
    reader = link.sql(sql).to_arrow_reader(BATCH)
    batches, ids, seen, failed = [], [], 0, False
    try:
        for batch in reader:
            seen += len(batch)
            if seen > most:
                return None
            ids.append(batch.column(0))
            batches.append(batch.select(range(1, batch.num_columns)))
    except (pa.ArrowException, OSError):
        failed = True  # raised below, so that its words, which may quote a cell, are not kept
    if failed:
        raise duckdb.Error
    table = pa.Table.from_batches(batches, pa.schema(list(reader.schema)[1:]))
    codes, hashes = _numbered(pa.chunked_array(ids, type=reader.schema[0].type))
    return _Rows(
        codes,
        hashes,
        table.column(0).to_numpy().astype(np.int64, copy=False),
        table.select(range(1, table.num_columns)),
    )


def _numbered(ids: pa.ChunkedArray) -> tuple[NDArray[np.int32], Integers]:
    """Return a small number for the id of each row, and the hash of the id of each number."""
    own = None if _is_text(ids.type) else _own_numbers(ids.to_numpy())
    if own is not None:
        return own
    encoded = ids.dictionary_encode().unify_dictionaries()
    codes = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    if not codes:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    return np.concatenate(codes), hashed(None, _numbers(encoded.chunk(0).dictionary))


def _own_numbers(ids: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int32], Integers] | None:
    """Return what `_numbered` says of integers that lie close together; None if they don't."""
    if not len(ids):
        return None
    if ids.dtype != np.uint64:
        ids = ids.astype(np.int64, copy=False)
    low = ids.min()
    span = int(ids.max()) - int(low) + 1
    if span > SPARSEST * len(ids):
        return None
    hashes = hashed(None, _residues(np.arange(span).astype(ids.dtype) + low))
    return (ids - low).astype(np.int32), hashes


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbers(ids: pa.Array) -> Integers:
    """Return the part of a hash that stands for each id."""
    if not _is_text(ids.type):
        return _residues(ids.to_numpy())
    digests = (
        hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for text in ids.to_pylist()
    )
    return np.fromiter((int(digest[:7], 16) for digest in digests), np.int64, len(ids))


def _residues(values: Integers) -> Integers:
    found: Integers = values.astype(np.int64) % MODULUS
    return found


def hashed(start: Integers | None, part: Integers) -> Integers:
    """Return the hash of `statements.bounding`, continued by one part."""
    found = part.copy() if start is None else start + part
    for constant, factor in ROUNDS:
        found ^= constant
        found *= factor
        found %= MODULUS
    return found


def _kept(rows: _Rows, unit: PrivacyUnit, cells: int, threads: int) -> pa.Table:
    keys = _keys(rows, cells, threads)
    if unit.max_groups < cells:
        limits = _limits(keys, len(rows.hashes), unit.max_groups, threads)
        inside = np.empty(len(keys), dtype=np.bool_)

        def compare(block: slice) -> None:
            np.less_equal(keys[block], limits[rows.codes[block]], out=inside[block])

        _in_blocks(compare, len(keys), BLOCK, threads)
        chosen = np.flatnonzero(inside)
    else:
        chosen = np.arange(len(keys))
    chosen = chosen[_order(keys[chosen], rows.cells[chosen])]
    keys, at = keys[chosen], rows.cells[chosen]
    group = np.cumsum(_changes(keys, at)) - 1
    if unit.max_groups < cells:
        inside = _ranks(keys >> HASH_BITS, group) < unit.max_groups
        chosen, keys, at, group = chosen[inside], keys[inside], at[inside], group[inside]
    if not rows.values.num_columns:
        counts = np.minimum(np.bincount(group), unit.max_rows_per_group)
        first = np.flatnonzero(_changes(group))
        columns = [keys[first] >> HASH_BITS, at[first], counts[group[first]]]
        return pa.table([pa.array(column) for column in columns], names=["id", "cell", "n"])
    keep = _rows_in_groups(rows.values, chosen, keys, group, unit.max_rows_per_group)
    values = rows.values.take(pa.array(chosen[keep]))
    table = values.add_column(0, "cell", pa.array(at[keep]))
    return table.add_column(0, "id", pa.array(keys[keep] >> HASH_BITS))


def _keys(rows: _Rows, cells: int, threads: int) -> Integers:
    """Return the number of each row's id, and behind it the hash of its cell."""
    keys = np.empty(len(rows.codes), dtype=np.int64)

    def fill(block: slice) -> None:
        # Cell numbers are not negative; most tables have fewer of them than the modulus.
        part = rows.cells[block] if cells <= MODULUS else _residues(rows.cells[block])
        codes = rows.codes[block].astype(np.int64)
        keys[block] = hashed(rows.hashes[codes], part) | codes << HASH_BITS

    _in_blocks(fill, len(keys), BLOCK, threads)
    return keys


def _in_blocks(
    work: Callable[[slice], Result], size: int, length: int, threads: int
) -> list[Result]:
    """Return what the work on each block of a range comes to, in order."""
    starts = range(0, size, length) or [0]
    blocks = [slice(start, min(start + length, size)) for start in starts]
    if len(blocks) < 2:
        return [work(block) for block in blocks]
    with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
        return list(pool.map(work, blocks))


def _limits(keys: Integers, ids: int, most: int, threads: int) -> Integers:
    """Return for the number of each id the key up to which there are `most` different ones."""
    parts = _in_blocks(lambda block: _least(keys[block], most), len(keys), SORTED, threads)
    least = parts[0] if len(parts) == 1 else _least(np.concatenate(parts), most)
    last = least[_changes(least[::-1] >> HASH_BITS)[::-1]]
    found = np.zeros(ids, dtype=np.int64)  # numbers that no row has stay zero
    found[last >> HASH_BITS] = last
    return found


def _least(keys: Integers, most: int) -> Integers:
    """Return the least `most` different keys of each id, in order."""
    ordered = np.sort(keys)
    ordered = ordered[_changes(ordered)]
    ids = ordered >> HASH_BITS
    few = np.ones(len(ids), dtype=np.bool_)
    np.not_equal(ids[most:], ids[:-most], out=few[most:])
    found: Integers = ordered[few]
    return found


def _order(keys: Integers, cells: Integers) -> Integers:
    """Return the order of rows by key and cell."""
    order: Integers = np.argsort(keys)
    ordered, at = keys[order], cells[order]
    if np.any((ordered[1:] == ordered[:-1]) & (at[1:] != at[:-1])):
        # Two cells of one id have the same hash, once in about a billion pairs.
        order = np.lexsort((cells, keys))
    return order


def _changes(*columns: Integers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return where the first row is, and every one that differs from the row before."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    if len(found):
        np.not_equal(columns[0][1:], columns[0][:-1], out=found[1:])
        for column in columns[1:]:
            found[1:] |= column[1:] != column[:-1]
    return found


def _ranks(outer: Integers, inner: Integers) -> Integers:
    """Return `inner` less its first one in the run of equal `outer`."""
    first = _changes(outer)
    found: Integers = inner - inner[np.flatnonzero(first)][np.cumsum(first) - 1]
    return found


def _rows_in_groups(
    values: pa.Table, chosen: Integers, keys: Integers, group: Integers, most: int
) -> Integers:
    """Return the places of at most `most` rows of each group, by the hash of rows."""
    full = np.bincount(group)[group] > most if len(group) else np.zeros(0, dtype=np.bool_)
    places = np.flatnonzero(full)
    if not len(places):
        return np.arange(len(group))
    held = values.take(pa.array(chosen[places]))
    row, ties = keys[places] & (2**HASH_BITS - 1), list[Integers]()
    for column in held.columns:
        known = column.is_valid().to_numpy().astype(np.int64)
        filled = column.fill_null(0).to_numpy().astype(np.int64)
        row = hashed(row, np.where(known == 1, _residues(filled), MODULUS))
        ties += [known, filled]
    order = np.lexsort(_least_first([group[places], row, *ties]))
    within = _ranks(group[places][order], np.arange(len(places)))
    kept = places[order][within < most]
    return np.sort(np.concatenate([np.flatnonzero(~full), kept]))


def _least_first(columns: Sequence[Integers]) -> tuple[Integers, ...]:
    """Return columns as NumPy wants them: the one that decides first stands last."""
    return tuple(reversed(columns))
