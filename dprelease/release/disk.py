"""Compute an upper bound of a release's disk space, and check that the disk has it.

The check precedes all other steps of a run. The bound follows from the declaration and the noise
distributions. `value_bytes` and `key_bytes` give the bytes of one column.

Integer tables of very many cells list only cells that are not 0, and synthetic persons have one row
each; both have about as many rows as there are people. If the table's schema declares its `size`,
the bound assumes twice that many people, each with the maximum number of rows that count. Otherwise
it assumes a row for every cell, and no synthetic persons.

The largest size of a column in a Parquet file consists of values, indices and dictionaries. For
each value, a file has at most the value itself, and the part of an abandoned dictionary that was
written before it; compression never adds more than a page's header. The bound is much lower where

- values come in runs, as the keys of ordered cells do: a run costs two started groups of eight
  indices and the run itself, however long it is;
- integers are close to counts of people. With noise within w steps of 0 and counts that sum to t in
  a row group, the integers lie between -w and w, or exceed w by at most their count: k different
  such integers need k^2 / 4 people on both sides together. So a group has at most 2 w + 1 + 2
  sqrt(t) different integers, and an index has the logarithm of this number in bits. Square roots
  and logarithms are concave, so groups of equal shares are the worst case (Jensen's inequality).
  Noise above w, which occurs once in 10^9 values, adds one entry to a dictionary.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from dprelease.errors import OutputError, Place
from dprelease.errors.printable import one_line
from dprelease.mechanisms.base import Mechanism
from dprelease.postprocess.families import Family, FamilyTable, Output, reach_of
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement, Role
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.statements.coarser import level_above
from dprelease.tables.family_tables import Schema, schema_of_measured, schema_of_output
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_tables import schema_of

WIDTHS = {"bool": 1, "date32[day]": 4, "timestamp[us]": 8, "double": 8, "int64": 8, "int32": 4}
"""Bytes per value by Arrow type; decimals have 16."""

INDEX_BYTES = 2.25
"""Bytes per value that an index into a dictionary of at most 2^18 values takes."""

BOOLEAN_BYTES = 0.25
"""Bytes per value of a boolean column: one bit for the value and one for its validity."""

QUALITY = "quality"
"""The kind of a column of quality codes: of each value, 4 bits, its position among few codes."""

ALTERNATION_BITS = 1.25
"""Additional bits per index, if runs and groups of eight indices alternate."""

NOISE_TAIL_ODDS = 10**9
"""One of this many noise draws exceeds the bound on noise that this module uses."""

DICTIONARY = 1 << 20
"""Bytes after which a dictionary is abandoned, and values are written without one."""

PAGE, GROUP = 64, 1 << 17
"""Upper bound of a page header's bytes, and the minimum rows of a row group except the last one."""


@dataclass(frozen=True, slots=True)
class NearCounts:
    """Integers that differ from counts by at most `steps`; the counts sum to at most `people`."""

    steps: int
    people: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The maximum number of rows of a table, and the number of files that hold them."""

    number: int
    files: int = 1

    @property
    def max_row_groups(self) -> int:
        """Return the maximum number of row groups; the first and last of a file may be short."""
        return self.number // GROUP + 2 * self.files


def value_bytes(kind: str, rows: TableSize, near: NearCounts | None = None) -> int:
    """Return the maximum bytes of a column of values of an Arrow type."""
    width, pages = WIDTHS.get(kind, 16), rows.max_row_groups * PAGE
    if kind in ("bool", QUALITY):
        rows = TableSize(rows.number * (4 if kind == QUALITY else 1), rows.files)
        return math.ceil(rows.number * BOOLEAN_BYTES) + pages
    plain = math.ceil(rows.number * (width + INDEX_BYTES)) + pages
    if near is None or not rows.number:
        return plain
    largest = DICTIONARY // width
    # Cells with the same count have at most this many different values.
    spread = 2 * near.steps + 2
    if 2 * spread > largest:
        return plain
    # k different counts need k (k - 1) / 2 people, so n people make at most 2 sqrt(n) of them.
    in_group = min(1.0, ROW_GROUP / rows.number) * near.people
    bits = math.log2(spread + 2 * math.sqrt(in_group)) + 1 + ALTERNATION_BITS
    entries = spread + 2 * math.sqrt(near.people / rows.max_row_groups)
    # Each such group needs this many people.
    given_up = min(rows.max_row_groups, 16 * near.people // largest**2)
    together = (
        rows.number * bits / 8
        + rows.max_row_groups * entries * width
        + rows.number // NOISE_TAIL_ODDS * width
        + min(given_up * ROW_GROUP, rows.number) * width
    )
    # Both are upper bounds; a writer that abandons its dictionary writes plain values.
    return min(plain, math.ceil(together) + pages)


def key_bytes(longest: int, distinct: int, changes: int, rows: TableSize) -> int:
    """Return the maximum bytes of a key column whose rows are in the order of cells.

    - `longest`: maximum bytes of a value.
    - `distinct`: maximum number of different values in a row group.
    - `changes`: number of runs of equal values in the order of the cells, in the whole table.
    - `rows`: the size of the table.
    """
    bits = max(1, (distinct - 1).bit_length())
    runs = min(rows.number, changes) + rows.max_row_groups
    indices = min(rows.number * (bits + ALTERNATION_BITS) / 8, runs * (2 * bits + 16))
    pages = rows.max_row_groups * PAGE
    # Each run starts at most one entry.
    listed = min(rows.max_row_groups * distinct, runs) * longest
    if distinct * longest <= DICTIONARY:
        return math.ceil(indices) + listed + pages
    # A group abandons its dictionary after so many values, and there are only so many runs.
    given_up = min(rows.max_row_groups, runs * longest // DICTIONARY + 1)
    plain = min(rows.number, given_up * ROW_GROUP)
    return math.ceil(indices) + listed + math.ceil(plain * (longest + INDEX_BYTES)) + pages


COLUMN, FILE = 2048, 1 << 12
"""Bytes of a column's page headers and metadata in one row group, and of a file's own metadata."""

ROOM = 1 << 20
"""Bytes for the parts that a draft manifest lacks: digests, numbers of rows, a ledger entry."""


@dataclass(frozen=True, slots=True)
class _PlannedFile:
    """A table that will be written: its keys, its columns, and its maximum number of rows.

    `near`: the columns that are close to counts of people. `parts`: the number of its files.
    """

    keys: Sequence[Key]
    schema: Schema
    rows: int
    dense: bool
    near: Mapping[str, NearCounts] = field(default_factory=dict)
    parts: int = 1


def max_bytes(families: Iterable[Family]) -> int:
    """Return the maximum bytes of a release's tables, except tables with private keys.

    The bound is computed from the declaration alone, without reading data, so plans can show it. It
    does not hold if there are more than twice as many people as declared.
    """
    return sum(_file_bytes(file) for family in families for file in _planned_files(family))


def _planned_files(family: Family) -> Iterator[_PlannedFile]:
    """Yield the files of all tables of a family, except tables with private keys."""
    parts = {name: len(one) for name, one in family.parts.items()}
    for table in family.tables:
        query = table.query
        if query.cells is None:
            continue
        near = dict(_columns_near_counts(table))
        size, several = query.keys.size, parts.get(table.measurements_name, 1)
        if family.step is None:
            shown = {one.name: one.parts[0].name for one in query.columns if one.form == MEASURED}
            near = {name: near[part] for name, part in shown.items() if part in near}
            yield _PlannedFile(query.key_columns, schema_of(query), size, dense=True, near=near)
        else:
            schema = schema_of_measured(table)
            yield _PlannedFile(
                query.key_columns, schema, size, dense=True, near=near, parts=several
            )
    for output in family.outputs:
        yield _planned_output_file(output, family.tables[0].query, parts.get(output.name, 1))


def _columns_near_counts(table: FamilyTable) -> Iterator[tuple[str, NearCounts]]:
    """Yield the noised integer columns of a table that are close to counts or sums over people."""
    for measurement in table.vectors:
        people = _max_absolute_sum(table.query, measurement)
        mechanism = table.mechanisms[measurement.name]
        if people is not None and isinstance(mechanism, Mechanism):
            yield measurement.name, NearCounts(reach_of(mechanism), people)


def _max_absolute_sum(query: Query, measurement: Measurement) -> int | None:
    """Return the maximum sum of absolute true integers; None without a declared size."""
    rows = _max_counted_rows(query)
    added = measurement.aggregate.most_added(measurement.sensitivity)
    return None if rows is None else rows * added


def _max_counted_rows(query: Query) -> int | None:
    """Return the maximum number of people's rows that count; None without a declared size."""
    units, unit = query.table.max_units, query.unit
    return None if units is None else units * unit.most_rows


def _planned_output_file(output: Output, query: Query, parts: int) -> _PlannedFile:
    """Return the file of a table that a family's step computes."""
    people, cells = _max_counted_rows(query), output.keys.size
    rows = cells
    if output.rows == "people":
        # Without a declared size the number of persons is unknown, and the check covers the rest.
        rows = 0 if people is None else people
    near: dict[str, NearCounts] = {}
    listed: dict[str, int] = {}  # a row is written if one of its counts is not 0
    for name, one in output.near.items():
        counted = _max_absolute_sum(query, one.measurement)
        if counted is not None:
            near[name] = NearCounts(one.steps, counted + one.more)
            listed[one.measurement.name] = counted + one.more
    if output.rows == "some cells" and listed:
        rows = min(cells, sum(listed.values()))
    roles = {name: role for name, (role, _) in output.roles.items()}
    schema = [
        (name, QUALITY if roles.get(name) is Role.QUALITY else kind)
        for name, kind in schema_of_output(output)
    ]
    dense = output.rows == "cells"
    return _PlannedFile(output.keys.keys, schema, rows, dense, near, parts)


def _file_bytes(file: _PlannedFile) -> int:
    rows, space = TableSize(file.rows, file.parts), KeySpace(tuple(file.keys))
    total = FILE * file.parts + rows.max_row_groups * COLUMN * len(file.schema)
    kinds = dict(file.schema)
    for key, stride in zip(space.keys, space.strides, strict=True):
        kind = kinds.pop(key.column, "string")
        if isinstance(key.values, range) or kind in WIDTHS:
            each = WIDTHS.get(kind, 8)
        else:
            each = 4 + _longest_bytes(key.values)
        in_group = min(ROW_GROUP, max(file.rows, 1))
        several = min(key.size, in_group // stride + 2) if file.dense else key.size
        total += key_bytes(each, several, -(-space.size // stride), rows)
    return total + sum(value_bytes(kind, rows, file.near.get(name)) for name, kind in kinds.items())


@lru_cache(maxsize=64)
def _longest_bytes(values: Sequence[object]) -> int:
    """Return the bytes of the longest value in UTF-8 text."""
    return max((len(str(value).encode()) for value in values), default=0)


def temporary_bytes(queries: Iterable[Query]) -> int:
    """Return the maximum bytes of temporary files, which only families of very many cells need.

    A row of a temporary file is a cell and one number for each vector. The rows are stored in
    sorted runs while the finest cells are computed from them. Then the finest cells are stored
    while the cells of a level are computed from them, and the cells of the level are stored while
    each table is computed from them. Families without a declared number of people count as nothing,
    because their size is unknown.
    """
    needed = 0
    for query in queries:
        rows, finest = _max_counted_rows(query), query.finest
        if rows is None or finest is None:
            continue
        # This import loads modules that other plans don't need.
        from dprelease.exact.families import is_summed_by_ranges

        if not is_summed_by_ranges(query):
            continue
        level = level_above(finest, query.keys)
        held, most = min(rows, finest.size), rows
        above = held if level is None else min(rows, level.size)
        if level is not None:
            most = max(most, held + above)
        if (
            query.keys != finest
        ):  # the sorted runs of the table, and the cells of its level if it has one
            runs = above if level is None else 2 * above
            most = max(most, runs + min(rows, query.keys.size))
        most += held
        needed = max(needed, 8 * (1 + len(query.measurements)) * most)
    return needed


def temporary_space(declaration: Declaration, queries: Iterable[Query]) -> tuple[Path, int] | None:
    """Return the temporary folder, and the maximum bytes that a release writes into it.

    Returns None if the release writes no temporary files, or their size is unknown. Whether the
    folder is usable is checked when it is opened.
    """
    needed = temporary_bytes(queries) if declaration.spec.engine == DEFAULT_ENGINE else 0
    if not needed:
        return None
    from dprelease.exact.settings import Settings

    folder = Settings.of(declaration).temp_directory or Path(tempfile.gettempdir())
    return (folder, needed) if folder.is_dir() else None


def refuse_full_disk(
    folder: Path, name: str, needed: int, place: Place, temporary: tuple[Path, int] | None = None
) -> None:
    """Raise OutputError DP-OUTPUT-015 if a disk has less space than a release may take.

    - `folder`: the folder that will be written. Its own disk is checked, wherever the folder is
      mounted.
    - `name`: the name of the output in the error message.
    - `needed`: the maximum bytes of the output.
    - `temporary`: the temporary folder, and its maximum bytes; the folder may be on the same disk.
    """
    demands = [(folder, name, needed)]
    if temporary is not None:
        other, more = temporary
        # On one disk, the temporary files and the output exist at the same time.
        if _disk_number(other) == _disk_number(folder):
            demands = [(folder, name, needed + more)]
        else:
            demands.append((other, one_line(other.name), more))
    for where, called, most in demands:
        free = free_bytes(where)
        if most > free:
            words = size_text(most), size_text(free)
            raise OutputError(
                "DP-OUTPUT-015", place=place, name=called, needed=words[0], free=words[1]
            )


def _disk_number(folder: Path) -> int:
    return os.stat(folder).st_dev


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a disk that ordinary users can use."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def size_text(number: int) -> str:
    """Return a number of bytes as text with a unit."""
    size, units = float(number), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
