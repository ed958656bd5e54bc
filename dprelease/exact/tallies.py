"""Count the rows that a query leaves out and the values that it clamps, exactly.

The counts are for people who may see the data. They have no noise and are never published, so only
`profile` imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import Input
from dprelease.exact.reading.plain import Packing
from dprelease.exact.reading.plain import open_file as open_raw
from dprelease.exact.settings import Settings
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader
from dprelease.query.resolve import Query
from dprelease.schema.source_texts import UTF_8
from dprelease.statements.lost_rows import compile_lost_rows

Tally = dict[tuple[str, str], int]
"""Exact counts, by the kind of count and the column; the column is empty for counts of rows."""


@dataclass(frozen=True, slots=True)
class Tallies:
    """The exact counts of a query.

    `stored`: counts over all stored rows. `asked`: counts over the rows that the query asks for.
    `lines`: the number of lines with records of a text file; None if they can't be counted.
    """

    stored: Tally
    asked: Tally
    lines: int | None

    def __repr__(self) -> str:
        return "<Tallies>"


class TallyingEngine(Engine):
    """An engine that also counts the rows that queries leave out."""

    def tallies(self, query: Query) -> Tallies:
        """Return how many rows a query loses, and how many values it clamps.

        Raises
        ------
        DataError
            DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        self.compile(query)
        lost = compile_lost_rows(query, self.physical, self.joined_types)
        self._register(lost.key_tables)

        def count_rows(link: duckdb.DuckDBPyConnection) -> tuple[list[Any], list[Any]]:
            (stored,), (asked,) = (
                link.execute(sql).fetchall() for sql in (lost.stored, lost.asked)
            )
            return list(stored), list(asked)

        stored, asked = self._read_rows(count_rows)
        lines = self._read_rows(lambda _link: _lines_of_source(self._inputs[0]))
        self.refuse_change()
        return Tallies(
            dict(zip(lost.of_stored, stored, strict=True)),
            dict(zip(lost.of_asked, asked, strict=True)),
            lines,
        )


@contextmanager
def tallying(
    query: Query, frame: object | None, joined: object | None, settings: Settings
) -> Iterator[TallyingEngine]:
    """Yield an engine over the sources of a query, or over frames in their place."""
    other = None if query.join is None else query.join.declared
    with TallyingEngine.open(query.declared, frame, other, joined, settings) as engine:
        yield engine


def _lines_of_source(given: Input) -> int | None:
    """Return how many lines the files of a text source have below their headers; None for others.

    A line break inside quotes also counts: this function counts lines, and the engine counts rows.
    """
    source = given.declared.table.source
    if given.opened is None or source is None or source.encoding.startswith("utf-16"):
        return None
    reader = reader_of(source.type)
    if not isinstance(reader, TextFilesReader):
        return None
    packing = replace(reader.packing(source), encoding=UTF_8)
    return sum(_count_lines(file, packing) - reader.header_lines for file in given.files)


def _count_lines(file: Any, packing: Packing) -> int:
    lines, ends = 0, True
    with open_raw(file) as raw:
        for chunk in packing.chunks(raw):
            lines += chunk.count(b"\n")
            ends = chunk.endswith(b"\n") if chunk else ends
    return lines + (not ends)
