"""Count the rows that a query leaves out and the values that it clamps, exactly.

The counts are for people who may see the data. They have no noise and are never published, so only
`profile` imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from dprelease.exact.bounding.contribution_engine import EngineOfIds
from dprelease.exact.inputs import Input
from dprelease.exact.reading.plain import TextDecoding
from dprelease.exact.reading.plain import open_file as open_raw
from dprelease.exact.settings import Settings
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.resolve import Query
from dprelease.schema.source_texts import UTF_8
from dprelease.statements.bounding import contributions_sql
from dprelease.statements.lost_rows import compile_left_out_rows

Tally = dict[tuple[str, str], int]
"""Exact counts, by the kind of count and the column; the column is empty for counts of rows."""


@dataclass(frozen=True, slots=True)
class Tallies:
    """Exact counts of the rows that a query leaves out, and of the values that it clamps.

    `stored`: counts over all stored rows. `selected`: counts over the rows that the query selects.
    `lines`: the number of lines of a text file that hold records; None if lines can't be counted.
    `other_lines`: the number of lines that are declared as no records, such as the header or notes;
    None if the source declares no such lines.
    """

    stored: Tally
    selected: Tally
    lines: int | None
    other_lines: int | None

    def __repr__(self) -> str:
        return "<Tallies>"


@dataclass(frozen=True, slots=True)
class Contributions:
    """How many privacy units have so many groups, and so many rows in one group and in all.

    `numbers`: the number of privacy units, by their number of groups, their largest number of rows
    in one group and their number of rows in all groups.
    """

    numbers: Mapping[tuple[int, int, int], int]

    def __repr__(self) -> str:
        return "<Contributions>"

    def share_above(self, unit: PrivacyUnit) -> float:
        """Return the share of privacy units that lose rows under the limits of `unit`."""
        above = sum(
            number
            for (groups, rows, total), number in self.numbers.items()
            if groups > unit.max_groups
            or rows > unit.max_rows_per_group
            or total > (unit.max_rows or total)
        )
        return above / max(1, sum(self.numbers.values()))


class TallyingEngine(EngineOfIds):
    """An engine that also counts the rows that queries leave out."""

    def tallies(self, query: Query) -> Tallies:
        """Return how many rows a query loses, and how many values it clamps.

        Raises DataError: DP-DATA-006 if the engine fails, DP-DATA-007 if a file changed meanwhile.
        """
        self.compile(query)
        lost = compile_left_out_rows(query, self.physical, self.joined_types)
        self._add_key_tables(lost.key_tables)

        def count_rows(link: duckdb.DuckDBPyConnection) -> tuple[list[Any], list[Any]]:
            """Return the counts of the stored rows, and the counts of the selected rows."""
            (stored,), (asked,) = (
                link.execute(sql).fetchall() for sql in (lost.stored_sql, lost.selected_sql)
            )
            return list(stored), list(asked)

        stored, asked = self._read_rows(count_rows)
        lines = self._read_rows(lambda _link: _count_record_lines(self._inputs[0]))
        others = self._read_rows(lambda _link: _count_other_lines(self._inputs[0]))
        self.refuse_change()
        return Tallies(
            dict(zip(lost.stored_counts, stored, strict=True)),
            dict(zip(lost.selected_counts, asked, strict=True)),
            lines,
            others,
        )

    def contributions(self, query: Query) -> Contributions:
        """Return how many groups and rows privacy units have, before contribution limits.

        Raises DataError: the errors of `tallies`.
        """
        sql = contributions_sql(self._rows_of_ids_sql(query))
        found = self._read_rows(lambda link: link.execute(sql).fetchall())
        self.refuse_change()
        return Contributions({(groups, most, total): n for groups, most, total, n in found})


@contextmanager
def open_tallying_engine(
    query: Query, frame: object | None, joined: object | None, settings: Settings
) -> Iterator[TallyingEngine]:
    """Yield an engine that reads the sources of a query, or frames instead of the sources."""
    joined_table = None if query.join is None else query.join.declared
    with TallyingEngine.open(query.declared, frame, joined_table, joined, settings) as engine:
        yield engine


def _count_record_lines(given: Input) -> int | None:
    """Return how many lines the files of a text source have below their headers.

    A line break inside quotes also counts, because this function counts lines, and the engine
    counts rows. The function returns None for sources that are not text files.
    """
    if given.has_lookup:
        return _count_record_lines(given.parts[0])
    if given.parts:
        lines = [_count_record_lines(part) for part in given.parts]
        known = [number for number in lines if number is not None]
        return sum(known) if len(known) == len(lines) else None
    source = given.declared.table.source
    # In UTF-16, the byte of a line feed is also a part of other characters.
    if given.opened is None or source is None or source.encoding.startswith("utf-16"):
        return None
    reader = reader_of(source.type)
    if not isinstance(reader, TextFilesReader):
        return None
    packing = reader.packing(source)
    if packing.lines is None:  # decoding takes time, and changes no line end
        packing = replace(packing, encoding=UTF_8)
    return sum(_count_lines(file, packing) - reader.header_lines(source) for file in given.files)


def _count_other_lines(given: Input) -> int | None:
    """Return how many lines of text files a source declares as no records; None for none."""
    if given.has_lookup:
        return _count_other_lines(given.parts[0])
    if given.parts:
        known = [n for n in map(_count_other_lines, given.parts) if n is not None]
        return sum(known) if known else None
    source = given.declared.table.source
    reader = None if source is None else reader_of(source.type)
    if given.opened is None or source is None or not isinstance(reader, TextFilesReader):
        return None
    packing = reader.packing(source)
    if packing.lines is None:
        return None
    whole = replace(packing, lines=None)
    return sum(_count_lines(file, whole) - _count_lines(file, packing) for file in given.files)


def _count_lines(file: Any, packing: TextDecoding) -> int:
    """Return the number of lines of a file; its last line may lack a line end."""
    lines, has_line_end = 0, True
    with open_raw(file) as raw:
        for chunk in packing.chunks(raw):
            lines += chunk.count(b"\n")
            has_line_end = chunk.endswith(b"\n") if chunk else has_line_end
    return lines + (not has_line_end)
