"""How much a release writes at most, and whether its disk has that much: asked before anything.

The bound follows from what is declared, and from laws of noise: `encoded_sizes` says how many bytes
values of a column take.

Whole tables of very many cells list those that are not 0, and persons are rows: of both there are
as many as people, about. Where the table's schema declares its `size`, twice that many units are
counted, with all rows that count of each; else a row for every cell, and no persons.

How many bytes a column of a Parquet file has at most: values, indices, dictionaries.

Of each value a file has at most the value itself and what a dictionary that was begun and given up
leaves beside it; compression never adds more than a page's header. Much less is certain where

- values come in runs, as keys of cells in their order do: a run costs two begun groups of eight
  indices, and itself, however long it is;
- integers are near to counts of people. With noise within w steps of 0 and counts that sum to t in
  a row group, the integers there lie between -w and w or farther out than w by no more than their
  count: k different such ones need k^2 / 4 people on both sides together. So a group has at most
  2 w + 1 + 2 sqrt(t) different integers, and an index of the logarithm of that many bits. Square
  roots and logarithms are concave, so that groups of like shares are the worst (Jensen's
  inequality). A noise beyond w, one in 10^9, adds one entry to a dictionary.
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
"""Bytes of a value; decimals have 16."""

BESIDE = 2.25
"""Bytes of a value's place in a dictionary, which holds no more than 2^18 of them."""

FLAG = 0.25
"""Bytes of true or false, and whether it is there: a bit of each."""

BEGUN = 1.25
"""Bits of an index beside its own, of runs and groups of eight that come in turn."""

RARE = 10**9
"""Of so many noises one is larger than is counted with."""

DICTIONARY = 1 << 20
"""Bytes from which on a dictionary is given up, and values are written one after the other."""

PAGE, GROUP = 64, 1 << 17
"""Bytes of a page's header with room to spare, and the least rows of a group but the last."""


@dataclass(frozen=True, slots=True)
class Near:
    """Integers near to counts: within `steps`, but for what people add, `people` in all."""

    steps: int
    people: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The rows of a table at most, and the files that these are in."""

    number: int
    files: int = 1

    @property
    def groups(self) -> int:
        """Return the row groups at most: the first and the last one of a file may be short."""
        return self.number // GROUP + 2 * self.files


def value_bytes(kind: str, rows: TableSize, near: Near | None = None) -> int:
    """Return the bytes of a column of values, of an Arrow type."""
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
    given_up = min(rows.groups, 16 * near.people // largest**2)  # groups of so many people
    together = (
        rows.number * bits / 8
        + rows.groups * entries * width
        + rows.number // RARE * width
        + min(given_up * ROW_GROUP, rows.number) * width
    )
    return min(plain, math.ceil(together) + pages)


def key_bytes(each: int, several: int, changes: int, rows: TableSize) -> int:
    """Return the bytes of a key column in rows of rising cells.

    Parameters
    ----------
    each
        Bytes of a value at most.
    several
        Different values in a row group at most.
    changes
        Runs of one value in the order of the cells, in the whole table.
    rows
        Of the table.
    """
    bits = max(1, (several - 1).bit_length())
    runs = min(rows.number, changes) + rows.groups
    indices = min(rows.number * (bits + BEGUN) / 8, runs * (2 * bits + 16))
    pages = rows.groups * PAGE
    listed = min(rows.groups * several, runs) * each  # each run begins one entry at most
    if several * each <= DICTIONARY:
        return math.ceil(indices) + listed + pages
    # A group gives its dictionary up after so many values, and there are only so many runs of them.
    given_up = min(rows.groups, runs * each // DICTIONARY + 1)
    plain = min(rows.number, given_up * ROW_GROUP)
    return math.ceil(indices) + listed + math.ceil(plain * (each + BESIDE)) + pages


COLUMN, FILE = 2048, 1 << 12
"""Bytes of a column's page headers and metadata in one group, and of what a file has once."""

ROOM = 1 << 20
"""Bytes for what the draft of a manifest lacks: digests, numbers of rows, a ledger's entry."""


@dataclass(frozen=True, slots=True)
class _File:
    """A table that will be written: its keys, its columns, its rows at most.

    `near`: of columns that are known to lie near to counts of people. `parts`: files, if several.
    """

    keys: Sequence[Key]
    schema: Schema
    rows: int
    dense: bool
    near: Mapping[str, Near] = field(default_factory=dict)
    parts: int = 1


def most_bytes(families: Iterable[Family]) -> int:
    """Return how many bytes the tables of a release have at most; those of unknown keys left out.

    A function of the declaration: it is told by plans, and opens nothing. It does not hold where
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
    """Yield the noised integers of a table that lie near to counts or sums over people."""
    for measurement in table.vectors:
        people = _people(table.query, measurement)
        law = table.laws[measurement.name]
        if people is not None and isinstance(law, Mechanism):
            yield measurement.name, Near(reach_of(law), people)


def _people(query: Query, measurement: Measurement) -> int | None:
    """Return the sizes of all true integers together at most; None if nobody declares it."""
    rows = _units(query)
    added = measurement.aggregate.most_added(measurement.sensitivity)
    return None if rows is None else rows * added


def _units(query: Query) -> int | None:
    """Return the rows about people that count at most; None if nobody declares it."""
    units, unit = query.table.most_units, query.unit
    return None if units is None else units * unit.max_groups * unit.max_rows_per_group


def _output(output: Output, query: Query, parts: int) -> _File:
    people, cells = _units(query), output.keys.size
    rows = cells
    if output.rows == "people":
        rows = 0 if people is None else people
    near: dict[str, Near] = {}
    listed: dict[str, int] = {}  # a row is there if one of its counts is not 0
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
    """Return the bytes of the longest of some values as a text."""
    return max((len(str(value).encode()) for value in values), default=0)


def temporary_bytes(queries: Iterable[Query]) -> int:
    """Return what families of very many cells take of the temporary folder at most.

    A row is a cell and a number for each vector. The rows stand in runs, beside which the finest
    cells are made of them; then these do, beside which those of a level are made; then these, for
    each of its tables. Families for which nobody declares how many people there are count as
    nothing: what they take is not known.
    """
    needed = 0
    for query in queries:
        rows, finest = _units(query), query.finest
        if rows is None or finest is None:
            continue
        from dprelease.exact.sorted_families import by_ranges  # loads what other plans don't need

        if not by_ranges(query):
            continue
        level = level_above(finest, query.keys)
        held, most = min(rows, finest.size), rows
        above = held if level is None else min(rows, level.size)
        if level is not None:
            most = max(most, held + above)
        if query.keys != finest:  # runs of what it is made of, and the level if there is one
            runs = above if level is None else 2 * above
            most = max(most, runs + min(rows, query.keys.size))
        most += held
        needed = max(needed, 8 * (1 + len(query.measurements)) * most)
    return needed


def temporary(declaration: Declaration, queries: Iterable[Query]) -> tuple[Path, int] | None:
    """Return the temporary folder, and the bytes that a release takes of it at most.

    None where it takes none, or nobody knows how many. Whether the folder can be used at all is
    told where it is opened.
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
    """Raise OutputError DP-OUTPUT-015 if a disk has less room than a release may take.

    Parameters
    ----------
    folder
        Where it will be written, so that the disk is that of the output, wherever it is mounted.
    name
        What the output is called.
    needed
        Its bytes at most.
    beside
        The temporary folder, and its bytes at most; it may be on the same disk.
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
    """Return the bytes that a disk has for whoever is no superuser."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def in_words(number: int) -> str:
    """Return a number of bytes for people."""
    size, units = float(number), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
