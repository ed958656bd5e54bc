"""The table as each file of its source has it: other names of columns, and other formats.

The declared mapping is public. It decides about each row alone, by the file that the row is in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from dprelease.errors.suggestions import nearest
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    TextColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.schema.field_types import DROP, has_two_digit_years, refuse
from dprelease.schema.model import shorten
from dprelease.schema.number_bounds import is_integer_text_within
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    from dprelease.schema.table import Table

Problems = Iterator[tuple[str, str]]
"""Keys of a source, each with its problem."""

LARGEST = 10**18
"""The largest constant of a column of integers without bounds."""


def sources_of_parts(table: Table) -> tuple[Source, ...]:
    """Return the source of each part of a table; empty if its source is read as declared."""
    if table.source is None or table.source.parts:
        return () if table.source is None else table.source.parts
    return (table.source,) if any(map(marked_column, table.columns.values())) else ()


def parts_of(table: Table) -> tuple[Table, ...]:
    """Return the table as each file has it; empty if its source is read as declared."""
    return tuple(_part_of(table, source) for source in sources_of_parts(table))


def marked_column(column: Column) -> str | None:
    """Return the column whose marks are the values of this one; None for other columns."""
    return column.marks_of if isinstance(column, CategoryColumn) else None


def value_without_mark(column: CategoryColumn, marked: Column) -> str | None:
    """Return the value of rows without a mark; None if it does not follow from the values."""
    meanings = {*getattr(marked, "marks", {}).values()}
    others = [value for value in column.allocated_values if value not in meanings]
    is_complete = meanings and meanings <= {*column.allocated_values}
    return others[0] if is_complete and len(others) == 1 else None


def names_in_file(source: Source, columns: Mapping[str, Column]) -> dict[str, str]:
    """Return the name in a file of each declared column that the file has."""
    names = {name: source.columns.get(name, name) for name in columns if is_stored(columns[name])}
    return {
        name: found if isinstance(found, str) else name
        for name, found in names.items()
        if found is not None and name not in source.constants and not marked_column(columns[name])
    }


def with_formats(columns: Mapping[str, Column], source: Source) -> dict[str, Column]:
    """Return columns in which dates without a format, or without a pivot, have the source's."""
    found = dict(columns)
    for name, column in columns.items():
        if not isinstance(column, DateColumn | TimestampColumn) or not is_stored(column):
            continue
        days = isinstance(column, DateColumn)
        format_ = source.date_format if days else source.timestamp_format
        if format_ and "format" not in column.model_fields_set:
            column = column.model_copy(update={"format": format_})
        if has_two_digit_years(column.format) and column.pivot is None:
            column = column.model_copy(update={"pivot": source.pivot})
        found[name] = column
    return found


def _part_of(table: Table, source: Source) -> Table:
    """Return the table as one file has it, without the columns that it lacks."""
    names = names_in_file(source, table.columns)
    columns = {own: table.columns[name] for name, own in names.items()}
    unit = table.privacy_unit.model_copy(update={"id": names.get(table.privacy_unit.id or "")})
    plain = source.model_copy(update={"columns": source.places, "constants": {}, "codes": {}})
    changes = {"source": plain, "columns": with_formats(columns, source), "privacy_unit": unit}
    return table.model_copy(update=changes)


def check_part(
    source: Source, columns: Mapping[str, Column], ids: Collection[str], *spot: str | int
) -> None:
    """Refuse, at `spot`, columns, constants or codes of a file that contradict the table's."""
    stored = {name: column for name, column in columns.items() if is_stored(column)}
    checks = _problems_of_names, _problems_of_values, _problems_of_columns
    for check in checks:
        for key, problem in check(source, stored, ids):
            refuse("DP-DECL-003", problem=problem, spot=(*spot, key))


def _problems_of_names(
    source: Source, stored: Mapping[str, Column], _: Collection[str]
) -> Problems:
    """Yield names of columns that the table does not store, each with its key."""
    for key in ("columns", "constants", "codes"):
        for name in getattr(source, key):
            if name not in stored and name not in source.places:
                close = nearest(name, stored)
                yield key, f"'{shorten(name)}' is no declared column of the source{close}"


def _problems_of_values(
    source: Source, stored: Mapping[str, Column], ids: Collection[str]
) -> Problems:
    """Yield problems of constants, and of columns whose codes change."""
    for name, value in source.constants.items():
        problem = _problem_of_constant(value, stored[name])
        if name in ids or name in source.columns or name in source.codes:
            problem = f"'{shorten(name)}' is an id, or declared in another way, too"
        if problem:
            yield "constants", problem
    for name in source.codes:
        column = stored[name]
        if not isinstance(column, CategoryColumn | TextColumn) or name in ids:
            yield "codes", f"'{shorten(name)}' is an id, or neither a category nor a text"
        elif isinstance(column, CategoryColumn) and column.others == DROP:
            yield from _problems_of_new_codes(source.codes[name], column, name)


def _problems_of_new_codes(
    changes: Mapping[str, str], column: CategoryColumn, name: str
) -> Problems:
    """Yield the first new code that a category neither declares nor reads as missing."""
    known = {*(column.values or ()), *column.missing}
    for old, new in changes.items():
        if known and new not in known:
            close = nearest(new, column.allocated_values)
            yield (
                "codes",
                f"'{shorten(new)}', the new code of '{shorten(old)}', is no declared value of "
                f"'{shorten(name)}'{close}; rows that have no value here need a code in `missing`",
            )
            return


def _problems_of_columns(
    source: Source, stored: Mapping[str, Column], ids: Collection[str]
) -> Problems:
    """Yield columns of a file that would be several declared columns, and a missing id."""
    names = names_in_file(source, stored)
    for name in ids:
        if name not in names:
            yield "columns", f"each file must have the id, '{shorten(name)}'"
    folded = [own.casefold() for own in names.values()]
    for name, own in names.items():
        if folded.count(own.casefold()) > 1:
            yield "columns", f"'{shorten(own)}' of the file can't be '{shorten(name)}', too"


def _problem_of_constant(value: str, column: Column) -> str:
    """Return why a value can't be that of a column in all rows of a file; empty if it can."""
    if isinstance(column, TextColumn):
        return ""
    if isinstance(column, CategoryColumn):
        is_value = value in (column.values or ())
    elif isinstance(column, IntegerColumn):
        low = -LARGEST if column.lower is None else column.lower
        high = LARGEST if column.upper is None else column.upper
        is_value = is_integer_text_within(value, low, high)
    elif isinstance(column, BooleanColumn):
        is_value = value in ("true", "false")
    else:
        return "only categories, whole numbers, booleans and texts can be constants"
    return "" if is_value else f"'{shorten(value)}' is no declared value of its column"
