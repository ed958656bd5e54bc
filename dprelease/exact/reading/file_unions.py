"""Join the files of a source, each of which is read by its own reader, to one relation.

Each file's columns get their declared names. Its codes are changed, and its dates read in its own
format, so that a value means the same in all files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dprelease.errors import DataError
from dprelease.exact.reading.sources import file_label, stored_columns, unreadable_error
from dprelease.exact.reading.stored_types import Types, union_sql
from dprelease.query import quoting
from dprelease.schema.columns import CategoryColumn, Column
from dprelease.schema.load import Declared
from dprelease.schema.source_types.file_parts import names_in_file
from dprelease.schema.source_types.source import Source
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.physical import DECLARED_AS

if TYPE_CHECKING:
    from dprelease.exact.inputs import Input

TEXT = "VARCHAR"

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
    declared, source = given.declared, given.declared.table.source
    sources = () if source is None else source.parts
    values = []
    for part, own in zip(given.parts, sources, strict=True):
        names = names_in_file(own, declared.table.columns)
        found = {
            name: part.collations[one] for name, one in names.items() if one in part.collations
        }
        given.collations = {**given.collations, **found}
        values.append(_values_of_part(part, own, declared, names))
    types: dict[str, str] = {}
    for one in values:
        types |= {name: kind for name, (sql, kind) in one.items() if sql and name not in types}
    relations = []
    for part, one in zip(given.parts, values, strict=True):
        _refuse_missing_columns(part, one, types, declared)
        known = {
            name: (one[name][0] or f"CAST(NULL AS {kind})", one[name][1] if one[name][0] else kind)
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
        if name in source.constants:
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
    zone = declared.table.time_zone
    if name in source.codes:
        changes = source.codes[name]
        stored = typed_value_sql(name, _with_codes(column, changes), physical, zone, source=own)
        new = ", ".join(f"{quoting.text(old)}: {quoting.text(one)}" for old, one in changes.items())
        return f"coalesce(MAP {{{new}}}[{stored}], {stored})", TEXT
    if column == declared.table.columns[name]:
        return quoting.identifier(own), physical
    kind = DECLARED_AS[getattr(column, "type", "")]  # a date in the format of this file
    typed = typed_value_sql(name, column, physical, zone, source=own)
    return f"CAST({typed} AS {kind})", kind


def _with_codes(column: Column, changes: Mapping[str, str]) -> Column:
    """Return a column in which the old codes are found as declared values are."""
    return column.with_codes([*changes]) if isinstance(column, CategoryColumn) else column


def _refuse_missing_columns(
    part: Input, values: Mapping[str, Value], types: Types, declared: Declared
) -> None:
    """Raise DP-DATA-024 for a column that a file lacks, and others have."""
    missing = next((name for name in types if name not in values), None)
    if missing is not None:
        reason = f"{_label(part)} lacks the column '{missing}', which other files have"
        way = (
            "declare its name in this file, `columns: {column: name}`, or that the file lacks it, "
            "`columns: {column: null}`"
        )
        raise unreadable_error(declared, reason, way)


def _label(part: Input) -> str:
    """Return the name of the first file of a part."""
    return file_label(part.files[0], part.files)
