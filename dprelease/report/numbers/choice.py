"""Choose the tables that a report shows: one picture for each declared table, never all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dprelease.documents.metadata import ColumnMetadata, Metadata, TableMetadata
from dprelease.report.accuracy.quality import is_number
from dprelease.report.facts import Facts

MOST_TABLES = 16
"""Maximum number of tables with pictures."""

MOST_OF_QUERY = 5
"""Maximum number of tables of one query with pictures, if it publishes several tables."""

FEW_ROWS = 400
"""Number of rows up to which a table of two keys and more is easily read."""

STAGES = ("tables", "", "estimates")
"""Folders of the tables of a family, in the order in which readers prefer them."""


@dataclass(frozen=True)
class ShownTables:
    """The tables of a release for a report.

    `totals`: tables without keys, for key figures. `pictured`: tables with pictures, by query.
    `others`: all further tables for readers.
    """

    totals: list[TableMetadata]
    pictured: list[tuple[str, list[TableMetadata]]]
    others: list[TableMetadata]


def shown_tables(metadata: Metadata, facts: Facts) -> ShownTables:
    """Return which tables of a release are shown, and how."""
    by_query = list(_tables_by_query(metadata, facts))
    totals = [one for _, tables in by_query for one in tables if not one.keys]
    keyed = [(name, [one for one in tables if one.keys]) for name, tables in by_query]
    keyed = [(name, tables) for name, tables in keyed if tables]
    most = max(1, min(MOST_OF_QUERY, MOST_TABLES // max(1, len(keyed))))
    pictured = [(name, _readable(tables, most)) for name, tables in keyed[:MOST_TABLES]]
    shown = {one.name for _, tables in pictured for one in tables} | {one.name for one in totals}
    others = [one for one in metadata.tables_for_readers if one.name not in shown]
    return ShownTables(totals, pictured, others)


def _tables_by_query(metadata: Metadata, facts: Facts) -> Iterator[tuple[str, list[TableMetadata]]]:
    """Yield the tables of each query: of a family, those of the stage that readers prefer."""
    found: dict[str, list[TableMetadata]] = {}
    for table in metadata.tables_for_readers:
        if facts.query_of(table) is not None and any(map(is_number, table.values)):
            found.setdefault(table.query, []).append(table)
    for query, tables in found.items():
        stages = {_stage(table) for table in tables}
        stage = next((one for one in STAGES if one in stages), min(stages))
        yield query, [table for table in tables if _stage(table) == stage]


def _stage(table: TableMetadata) -> str:
    """Return the folder of a table, which is that of a step's output."""
    return table.name.rpartition("/")[0]


def _readable(tables: Sequence[TableMetadata], most: int) -> list[TableMetadata]:
    """Return the tables of a query that are read most easily, in their order.

    Tables with few keys and few rows come first. Of tables with many areas, only one is shown, with
    the distribution of its values.
    """

    def effort(table: TableMetadata) -> tuple[bool, int, int]:
        """Return how hard a table is to read."""
        rows = table.rows or 0
        return rows > FEW_ROWS, len(table.keys), rows

    ranked = sorted(tables, key=effort)
    areas = [one for one in ranked if (one.rows or 0) > FEW_ROWS and len(one.keys) == 1][:1]
    small = [one for one in ranked if (one.rows or 0) <= FEW_ROWS]
    chosen = [*small[: most - len(areas)], *areas] or ranked[:1]
    names = {one.name for one in chosen}
    return [one for one in tables if one.name in names]


def first_numeric(table: TableMetadata) -> ColumnMetadata | None:
    """Return the first numeric value column of a table; None if it has none."""
    return next(filter(is_number, table.values), None)
