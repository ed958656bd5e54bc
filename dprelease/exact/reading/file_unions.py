"""Join the files of a source, each of which is read by its own reader, to one relation.

Each file's columns get their declared names. Its codes are changed, and its dates and times read in
its own format and time zone, so that a value means the same in all files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.sources import (
    file_label,
    stored_columns,
    stored_name,
    unreadable_error,
)
from dprelease.exact.reading.stored_types import Types, union_sql
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader
from dprelease.query import quoting
from dprelease.schema.columns import (
    CategoryColumn,
    Column,
    DateColumn,
    TextColumn,
    TimestampColumn,
)
from dprelease.schema.load import Declared
from dprelease.schema.source_types.file_parts import (
    marked_column,
    names_in_file,
    sources_of_parts,
    value_without_mark,
)
from dprelease.schema.source_types.source import Source
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.physical import (
    DECLARED_AS,
    FAMILY_OF,
    INT96,
    ZONED,
    ZONED_MS,
    base_type,
)
from dprelease.statements.values.spelling import text_sql
from dprelease.statements.values.written_texts import marks_sql

if TYPE_CHECKING:
    from dprelease.exact.inputs import Input

TEXT = "VARCHAR"

ENGINE_TYPES = {ZONED_MS: "TIMESTAMP WITH TIME ZONE", INT96: "TIMESTAMP"}
"""The engine's types of columns whose types in Parquet files have other names."""

Value = tuple[str, str]
"""SQL of a column's values, and the engine's type of them; without SQL, the file lacks it."""


def union_of_parts(given: Input) -> str:
    """Return SQL of a relation with the rows of all parts of an input, in declared columns.

    No row is read. The collations of the parts are added to those of the input.

    Raises
    ------
    DataError
        DP-DATA-024 for a column that only some files have; 004, 005 or 015 for an unusable type.
    """
    declared, sources = given.declared, sources_of_parts(given.declared.table)
    values, names_of_parts = [], []
    for part, own in zip(given.parts, sources, strict=True):
        names = names_in_file(own, declared.table.columns)
        names_of_parts.append(names)
        found = {
            name: part.collations[one] for name, one in names.items() if one in part.collations
        }
        given.collations = {**given.collations, **found}
        values.append(_values_of_part(part, own, declared, names))
    types: dict[str, str] = {}
    for one in values:
        # A file that lacks a column has NULL in the type of the first file that has the column.
        types |= {name: kind for name, (sql, kind) in one.items() if sql and name not in types}
    relations = []
    for part, one, names in zip(given.parts, values, names_of_parts, strict=True):
        _refuse_missing_columns(part, one, names, types, declared)
        known = {
            name: (
                one[name][0] or f"CAST(NULL AS {ENGINE_TYPES.get(kind, kind)})",
                one[name][1] if one[name][0] else kind,
            )
            for name, kind in types.items()
        }
        columns = [f"{sql} AS {quoting.identifier(name)}" for name, (sql, _) in known.items()]
        relation = f"(SELECT {', '.join(columns) or '1 AS one'} FROM {part.relation})"
        kinds = {name: kind for name, (_, kind) in known.items()}
        relations.append((relation, kinds, _label(part)))
    return union_sql(relations, declared)


def _values_of_part(
    part: Input, source: Source, declared: Declared, names: Mapping[str, str]
) -> dict[str, Value]:
    """Return SQL of each stored column that a file has, or that its declaration says it lacks."""
    values: dict[str, Value] = {}
    for name in stored_columns(declared):
        marked = marked_column(declared.table.columns[name])
        if marked is not None:
            own = names.get(marked, "")
            values[name] = _marks_value_sql(part, source, declared, name, own), TEXT
        elif name in source.constants:
            values[name] = quoting.text(source.constants[name]), TEXT
        elif name not in names:
            values[name] = "", TEXT
        elif names[name] in part.physical:
            try:
                values[name] = _value_sql(part, source, declared, name, names[name])
            except DataError as error:
                error.add_file_to_cause(_label(part))
                raise
    return values


def _value_sql(part: Input, source: Source, declared: Declared, name: str, own: str) -> Value:
    """Return SQL of a column that a file has, named `own` there, and its type."""
    column, physical = part.declared.table.columns[own], part.physical[own]
    zone = source.time_zone
    if name in source.codes:
        changes = source.codes[name]
        stored = typed_value_sql(name, _with_codes(column, changes), physical, zone, source=own)
        new = ", ".join(f"{quoting.text(old)}: {quoting.text(one)}" for old, one in changes.items())
        # A MAP has NULL for a code without a change, which stays as it is.
        return f"coalesce(MAP {{{new}}}[{stored}], {stored})", TEXT
    has_times = isinstance(column, DateColumn | TimestampColumn) or base_type(physical) in ZONED
    is_local = has_times and zone != declared.table.time_zone
    if column == declared.table.columns[name] and not is_local:
        return quoting.identifier(own), physical
    # a date in the format of this file, or a time in its zone
    kind = DECLARED_AS[getattr(column, "type", "")]
    typed = typed_value_sql(name, column, physical, zone, source=own)
    return f"CAST({typed} AS {kind})", kind


def _marks_value_sql(
    part: Input, source: Source, declared: Declared, name: str, marked: str
) -> str:
    """Return SQL of the meaning of a mark; `marked` is the name in the file of the marked column.

    As signs are removed only from texts that have no value as they are, only these have marks. A
    row without a mark has the value for such rows, or NULL if the marked column has no value in it.
    """
    own, flag = part.declared.table.columns.get(marked), declared.table.columns[name]
    if own is None or not isinstance(flag, CategoryColumn) or marked not in part.physical:
        return ""
    physical, zone = base_type(part.physical[marked]), source.time_zone
    value = typed_value_sql(marked, own, physical, zone)
    unmarked = quoting.text(value_without_mark(flag, own) or "")
    without_mark = f"CASE WHEN {value} IS NOT NULL THEN {unmarked} END"
    if FAMILY_OF.get(physical) != "texts":
        return without_mark
    is_copied = isinstance(reader_of(part.source_type), TextFilesReader)
    stored = stored_name(marked) if is_copied else marked
    meaning = marks_sql(text_sql(quoting.identifier(stored), physical), own)
    if not isinstance(own, CategoryColumn | TextColumn):
        plain = own.model_copy(update={"strip": (), "marks": {}, "negative": ()})
        written = typed_value_sql(marked, plain, physical, zone, source=stored)
        meaning = f"CASE WHEN {written} IS NULL THEN {meaning} END"
    return f"coalesce({meaning}, {without_mark})"


def _with_codes(column: Column, changes: Mapping[str, str]) -> Column:
    """Return a column in which the old codes are found as declared values are.

    `missing` has new codes, so it is applied after the change.
    """
    column = column.with_codes([*changes]) if isinstance(column, CategoryColumn) else column
    return column.model_copy(update={"missing": ()})


def _refuse_missing_columns(
    part: Input,
    values: Mapping[str, Value],
    names: Mapping[str, str],
    types: Types,
    declared: Declared,
) -> None:
    """Raise DP-DATA-024 for a column that a file lacks, and others have."""
    missing = next((name for name in types if name not in values), None)
    if missing is not None:
        own = names.get(missing, missing)
        use = "which other files have" if own == missing else f"which `columns` names '{missing}'"
        reason = f"{_label(part)} lacks the column '{own}', {use}"
        way = (
            "declare its exact name in this file, `columns: {column: name}`, or that the file "
            "lacks it, `columns: {column: null}`"
        )
        raise unreadable_error(declared, reason, way)


def _label(part: Input) -> str:
    """Return the name of the first file of a part."""
    return file_label(part.files[0], part.files)
