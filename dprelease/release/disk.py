"""How much a release writes at most, and whether its disk has that much: asked before anything.

The bound follows from what is declared. Of each column and row a Parquet file has at most the value
itself, and what a dictionary that was begun and given up leaves beside it; compression never adds
more than a page's header. Keys are dictionaries of the few values that a group of rows can have,
and indices into these, or texts where they are many.

Whole tables of very many cells list those that are not 0, and persons are rows: of both there are
as many as people, about. Where the table's schema declares its `size`, twice that many rows are
counted; else a row for every cell, and no persons.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dprelease.errors import OutputError, Place
from dprelease.postprocess.families import Family, Output
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.tables.family_tables import Schema, schema_of_measured, schema_of_output
from dprelease.tables.formats import ROW_GROUP
from dprelease.tables.published_tables import schema_of

WIDTHS = {"bool": 1, "date32[day]": 4, "double": 8, "int64": 8, "int32": 4}
"""Bytes of a value; decimals have 16."""

BESIDE = 2.25
"""Bytes of a value's place in a dictionary, which holds no more than 2^18 of them."""

DICTIONARY = 1 << 20
"""Bytes from which on a dictionary is given up, and texts are written one after the other."""

PAGE, GROUP = 64, 1 << 17
"""Bytes of a page's header with room to spare, and the least rows of a group but the last."""

COLUMN, FILE = 2048, 1 << 12
"""Bytes of a column's page headers and metadata in one group, and of what a file has once."""


@dataclass(frozen=True, slots=True)
class _File:
    """A table that will be written: its keys, its columns, its rows at most."""

    keys: Sequence[Key]
    schema: Schema
    rows: int
    dense: bool


def most_bytes(families: Iterable[Family]) -> int:
    """Return how many bytes the tables of a release have at most; those of unknown keys left out.

    A function of the declaration: it is told by plans, and opens nothing.
    """
    return sum(_bytes(file) for family in families for file in _files(family))


def _files(family: Family) -> Iterator[_File]:
    for table in family.tables:
        query = table.query
        if query.cells is None:
            continue
        schema = schema_of(query) if family.step is None else schema_of_measured(table)
        yield _File(query.key_columns, schema, query.keys.size, dense=True)
    for output in family.outputs:
        yield _output(output, family.tables[0].query)


def _output(output: Output, query: Query) -> _File:
    size, cells = query.table.size, output.keys.size
    rows = cells
    if output.rows == "people":
        rows = 0 if size is None else 2 * size
    elif output.rows == "some cells" and size is not None:
        rows = min(cells, 2 * size)
    schema = schema_of_output(output)
    return _File(output.keys.keys, schema, rows, dense=output.rows == "cells")


def _bytes(file: _File) -> int:
    groups = -(-file.rows // GROUP) or 1
    space = KeySpace(tuple(file.keys))
    total = FILE + groups * COLUMN * len(file.schema)
    kinds = dict(file.schema)
    for key, stride in zip(space.keys, space.strides, strict=True):
        total += _key_bytes(key, stride, file, kinds.pop(key.column, "string"))
    for kind in kinds.values():
        width = WIDTHS.get(kind, 16)
        total += int(file.rows * (width + BESIDE)) + file.rows // GROUP * PAGE
    return total


def _key_bytes(key: Key, stride: int, file: _File, kind: str) -> int:
    """Return the bytes of a key column: texts, or their dictionaries with indices."""
    groups = -(-file.rows // GROUP) or 1
    if isinstance(key.values, range) or kind in WIDTHS:
        each = WIDTHS.get(kind, 8)
    else:
        each = 4 + _longest(key.values)
    in_group = min(ROW_GROUP, max(file.rows, 1))
    several = min(key.size, in_group // stride + 2) if file.dense else key.size
    if several * each > DICTIONARY:
        return int(file.rows * (each + BESIDE)) + groups * DICTIONARY
    indices = file.rows * max(1, (several - 1).bit_length()) // 8
    return indices + groups * (several * each + PAGE)


@lru_cache(maxsize=64)
def _longest(values: Sequence[object]) -> int:
    """Return the bytes of the longest of some values as a text."""
    return max((len(str(value).encode()) for value in values), default=0)


def refuse_full(folder: Path, name: str, needed: int, place: Place) -> None:
    """Raise OutputError DP-OUTPUT-015 if a disk has less room than a release may take.

    Parameters
    ----------
    folder
        Where it will be written, so that the disk is that of the output, wherever it is mounted.
    name
        What the output is called.
    needed
        Its bytes at most.
    """
    free = free_bytes(folder)
    if needed > free:
        raise OutputError(
            "DP-OUTPUT-015", place=place, name=name, needed=in_words(needed), free=in_words(free)
        )


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
