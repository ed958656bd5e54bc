"""Bound the disk space of a release, and check that the disk has it, before anything else.

The bound follows from the declaration and the noise distributions. `encoded_sizes` gives the bytes
that the values of a column take.

Integer tables of very many cells list only the cells that are not 0, and synthetic persons are one
per row; both have about as many rows as there are people. If the table's schema declares its
`size`, the bound counts twice that many people, with all the rows that count of each. Otherwise it
counts a row for every cell, and no persons.

The maximum number of bytes of a column in a Parquet file: values, indices, dictionaries.

For each value, a file has at most the value itself, and the part of an abandoned dictionary that
was written before it; compression never adds more than a page's header. The bound is much lower
where

- values come in runs, as the keys of cells in order do: a run costs two started groups of eight
  indices, and itself, however long it is;
- integers are close to counts of people. With noise within w steps of 0 and counts that sum to t in
  a row group, the integers lie between -w and w, or exceed w by no more than their count: k
  different such integers need k^2 / 4 people on both sides together. So a group has at most 2 w + 1
  + 2 sqrt(t) different integers, and an index of the logarithm of that many bits. Square roots and
  logarithms are concave, so groups of equal shares are the worst case (Jensen's inequality). Noise
  above w, once in 10^9, adds one entry to a dictionary.
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
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.engine_names import DEFAULT_ENGINE
from dprelease.statements.coarser import level_above
from dprelease.tables.family_tables import Schema, schema_of_measured, schema_of_output
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_tables import schema_of

WIDTHS = {"bool": 1, "date32[day]": 4, "double": 8, "int64": 8, "int32": 4}
"""Bytes per value; decimals have 16."""

BESIDE = 2.25
"""Bytes of an index into a dictionary, which holds no more than 2^18 values."""

FLAG = 0.25
"""Bytes of a boolean and of its validity: one bit each."""

BEGUN = 1.25
"""Extra bits per index, when runs and groups of eight alternate."""

RARE = 10**9
"""One in this many noise values exceeds the bound that is used here."""

DICTIONARY = 1 << 20
"""Bytes after which a dictionary is abandoned, and values are written one after the other."""

PAGE, GROUP = 64, 1 << 17
"""Bytes of a page's header with room to spare, and the minimum rows of a group but the last."""


@dataclass(frozen=True, slots=True)
class Near:
    """Integers close to counts: within `steps`, plus the contributions of `people` people."""

    steps: int
    people: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The maximum rows of a table, and the number of files that hold them."""

    number: int
    files: int = 1

    @property
    def groups(self) -> int:
        """Return the maximum number of row groups: the first and last of a file may be short."""
        return self.number // GROUP + 2 * self.files


def value_bytes(kind: str, rows: TableSize, near: Near | None = None) -> int:
    """Return the bytes of a column of values of an Arrow type."""
    width, pages = WIDTHS.get(kind, 16), rows.groups * PAGE
    if kind == "bool":
        return math.ceil(rows.number * FLAG) + pages
    plain = math.ceil(rows.number * (width + BESIDE)) + pages
    if near is None or not rows.number:
        return plain
    largest = DICTIONARY // width
    spread = 2 * near.steps + 2
    if 2 * spread > largest:
        return plain
    in_group = min(1.0, ROW_GROUP / rows.number) * near.people
    bits = math.log2(spread + 2 * math.sqrt(in_group)) + 1 + BEGUN
    entries = spread + 2 * math.sqrt(near.people / rows.groups)
    # each such group needs this many people
    given_up = min(rows.groups, 16 * near.people // largest**2)
    together = (
        rows.number * bits / 8
        + rows.groups * entries * width
        + rows.number // RARE * width
        + min(given_up * ROW_GROUP, rows.number) * width
    )
    return min(plain, math.ceil(together) + pages)


def key_bytes(each: int, several: int, changes: int, rows: TableSize) -> int:
    """Return the bytes of a key column whose rows are in order of cells.

    Parameters
    ----------
    each
        Maximum bytes of a value.
    several
        Maximum number of different values in a row group.
    changes
        Runs of equal values in the order of the cells, in the whole table.
    rows
        The size of the table.
    """
    bits = max(1, (several - 1).bit_length())
    runs = min(rows.number, changes) + rows.groups
    indices = min(rows.number * (bits + BEGUN) / 8, runs * (2 * bits + 16))
    pages = rows.groups * PAGE
    listed = min(rows.groups * several, runs) * each  # each run starts at most one entry
    if several * each <= DICTIONARY:
        return math.ceil(indices) + listed + pages
    # A group abandons its dictionary after so many values, and there are only so many runs of them.
    given_up = min(rows.groups, runs * each // DICTIONARY + 1)
    plain = min(rows.number, given_up * ROW_GROUP)
    return math.ceil(indices) + listed + math.ceil(plain * (each + BESIDE)) + pages


COLUMN, FILE = 2048, 1 << 12
"""Bytes of a column's page headers and metadata in one group, and of a file's own metadata."""

ROOM = 1 << 20
"""Bytes for what the draft of a manifest lacks: digests, numbers of rows, a ledger entry."""


@dataclass(frozen=True, slots=True)
class _File:
    """A table to be written: its keys, its columns, its maximum rows.

    `near`: columns that are known to be close to counts of people. `parts`: number of files, if
    several.
    """

    keys: Sequence[Key]
    schema: Schema
    rows: int
    dense: bool
    near: Mapping[str, Near] = field(default_factory=dict)
    parts: int = 1


def most_bytes(families: Iterable[Family]) -> int:
    """Return the maximum bytes of a release's tables, without those with private keys.

    Computed from the declaration alone: plans show it, and no data is opened. It does not hold if
    there are more than twice as many people as declared.
    """
    return sum(_bytes(file) for family in families for file in _files(family))


def _files(family: Family) -> Iterator[_File]:
    parts = {name: len(one) for name, one in family.parts.items()}
    for table in family.tables:
        query = table.query
        if query.cells is None:
            continue
        near = dict(_near(table))
        size, several = query.keys.size, parts.get(table.measurements_name, 1)
        if family.step is None:
            shown = {one.name: one.parts[0].name for one in query.columns if one.form == MEASURED}
            near = {name: near[part] for name, part in shown.items() if part in near}
            yield _File(query.key_columns, schema_of(query), size, dense=True, near=near)
        else:
            schema = schema_of_measured(table)
            yield _File(query.key_columns, schema, size, dense=True, near=near, parts=several)
    for output in family.outputs:
        yield _output(output, family.tables[0].query, parts.get(output.name, 1))


def _near(table: FamilyTable) -> Iterator[tuple[str, Near]]:
    """Yield the noised integer columns of a table that are close to counts or sums over people."""
    for measurement in table.vectors:
        people = _people(table.query, measurement)
        law = table.laws[measurement.name]
        if people is not None and isinstance(law, Mechanism):
            yield measurement.name, Near(reach_of(law), people)


def _people(query: Query, measurement: Measurement) -> int | None:
    """Return the maximum sum of the absolute true integers; None if no size is declared."""
    rows = _units(query)
    added = measurement.aggregate.most_added(measurement.sensitivity)
    return None if rows is None else rows * added


def _units(query: Query) -> int | None:
    """Return the maximum number of rows about people that count; None if no size is declared."""
    units, unit = query.table.most_units, query.unit
    return None if units is None else units * unit.max_groups * unit.max_rows_per_group


def _output(output: Output, query: Query, parts: int) -> _File:
    people, cells = _units(query), output.keys.size
    rows = cells
    if output.rows == "people":
        rows = 0 if people is None else people
    near: dict[str, Near] = {}
    listed: dict[str, int] = {}  # a row is written if one of its counts is not 0
    for name, one in output.near.items():
        counted = _people(query, one.measurement)
        if counted is not None:
            near[name] = Near(one.steps, counted + one.more)
            listed[one.measurement.name] = counted + one.more
    if output.rows == "some cells" and listed:
        rows = min(cells, sum(listed.values()))
    schema, dense = schema_of_output(output), output.rows == "cells"
    return _File(output.keys.keys, schema, rows, dense, near, parts)


def _bytes(file: _File) -> int:
    rows, space = TableSize(file.rows, file.parts), KeySpace(tuple(file.keys))
    total = FILE * file.parts + rows.groups * COLUMN * len(file.schema)
    kinds = dict(file.schema)
    for key, stride in zip(space.keys, space.strides, strict=True):
        kind = kinds.pop(key.column, "string")
        if isinstance(key.values, range) or kind in WIDTHS:
            each = WIDTHS.get(kind, 8)
        else:
            each = 4 + _longest(key.values)
        in_group = min(ROW_GROUP, max(file.rows, 1))
        several = min(key.size, in_group // stride + 2) if file.dense else key.size
        total += key_bytes(each, several, -(-space.size // stride), rows)
    return total + sum(value_bytes(kind, rows, file.near.get(name)) for name, kind in kinds.items())


@lru_cache(maxsize=64)
def _longest(values: Sequence[object]) -> int:
    """Return the bytes of the longest of some values as text."""
    return max((len(str(value).encode()) for value in values), default=0)


def temporary_bytes(queries: Iterable[Query]) -> int:
    """Return the maximum bytes that families of very many cells take in the temporary folder.

    A row is a cell and one number for each vector. The rows are stored in runs while the finest
    cells are made from them. Then the finest cells are stored while the cells of a level are made
    from them, and these while each of their tables is made. Families without a declared number of
    people count as nothing, because their size is unknown.
    """
    needed = 0
    for query in queries:
        rows, finest = _units(query), query.finest
        if rows is None or finest is None:
            continue
        # loads modules that other plans don't need
        from dprelease.exact.sorted_families import by_ranges

        if not by_ranges(query):
            continue
        level = level_above(finest, query.keys)
        held, most = min(rows, finest.size), rows
        above = held if level is None else min(rows, level.size)
        if level is not None:
            most = max(most, held + above)
        if query.keys != finest:  # the runs that it is made from, and the level if there is one
            runs = above if level is None else 2 * above
            most = max(most, runs + min(rows, query.keys.size))
        most += held
        needed = max(needed, 8 * (1 + len(query.measurements)) * most)
    return needed


def temporary(declaration: Declaration, queries: Iterable[Query]) -> tuple[Path, int] | None:
    """Return the temporary folder, and the maximum bytes that a release takes in it.

    None if it takes none, or the number is unknown. Whether the folder is usable is checked when it
    is opened.
    """
    needed = temporary_bytes(queries) if declaration.spec.engine == DEFAULT_ENGINE else 0
    if not needed:
        return None
    from dprelease.exact.settings import Settings

    folder = Settings.of(declaration).temp_directory or Path(tempfile.gettempdir())
    return (folder, needed) if folder.is_dir() else None


def refuse_full(
    folder: Path, name: str, needed: int, place: Place, beside: tuple[Path, int] | None = None
) -> None:
    """Raise OutputError DP-OUTPUT-015 if a disk has less space than a release may take.

    Parameters
    ----------
    folder
        The folder that will be written; its disk is the one that is checked, wherever it is
        mounted.
    name
        The name of the output.
    needed
        Its maximum bytes.
    beside
        The temporary folder, and its maximum bytes; it may be on the same disk.
    """
    asked = [(folder, name, needed)]
    if beside is not None:
        other, more = beside
        if _device(other) == _device(folder):
            asked = [(folder, name, needed + more)]
        else:
            asked.append((other, one_line(other.name), more))
    for where, called, most in asked:
        free = free_bytes(where)
        if most > free:
            words = in_words(most), in_words(free)
            raise OutputError(
                "DP-OUTPUT-015", place=place, name=called, needed=words[0], free=words[1]
            )


def _device(folder: Path) -> int:
    return os.stat(folder).st_dev


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a disk for ordinary users."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def in_words(number: int) -> str:
    """Return a number of bytes in words."""
    size, units = float(number), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
