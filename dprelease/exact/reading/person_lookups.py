"""Give rows the persons that a correspondence table names for their ids.

Each row counts for the smallest person whom the lines of its id name. So without one person, that
is without her lines and the rows that count for her, all other rows count for the same persons as
before. Rows are neither doubled nor dropped, and a row whose id has no person has no id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.errors import DataError, Place
from dprelease.exact.reading.sources import place_of, stored_columns, unreadable_error
from dprelease.query import quoting
from dprelease.schema.model import unused_name
from dprelease.schema.table import Correspondence
from dprelease.statements.meanings import typed_value_sql
from dprelease.statements.values.physical import DECLARED_AS, SMALL_INTEGERS, base_type
from dprelease.statements.values.source_equality import (
    comparison_of,
    inexact_comparison_error,
    is_no_id,
)

if TYPE_CHECKING:
    from dprelease.exact.inputs import Input


def rows_of_persons(given: Input) -> str:
    """Return SQL of a relation with the rows of an input, and a column with their persons.

    No row is read. The types and the collations of the rows become those of the input.

    Raises
    ------
    DataError
        DP-DATA-002 for rows without the column of ids, 024 for lines without one of their columns;
        004, 005 or 026 for a column that can't hold ids.
    """
    rows, lines = given.parts
    (on,), (key_there, person_there) = rows.declared.table.ids, stored_columns(lines.declared)
    _refuse_missing_columns(rows, lines, on)
    own, other = _id_sql(rows, on), _id_sql(lines, key_there)
    person, kind = _id_sql(lines, person_there), _stored_type(lines, person_there)
    unit = given.declared.table.privacy_unit.id or ""
    given.collations = rows.collations
    given.physical = {**rows.physical, unit: kind}
    taken = {name.casefold() for name in given.physical}
    key, found = unused_name("dp_key", taken), unused_name("dp_person", taken)
    names = ", ".join(map(quoting.identifier, rows.physical))
    persons = (
        f"SELECT {key}, min({found}) AS {found} FROM (SELECT {other} AS {key}, "
        f"CAST({person} AS {kind}) AS {found} FROM {lines.relation}) "
        f"WHERE {key} IS NOT NULL AND {found} IS NOT NULL GROUP BY {key}"
    )
    keyed = f"SELECT {names}, {own} AS {key} FROM {rows.relation}"
    columns = f"{names}, {found} AS {quoting.identifier(unit)}"
    return f"(SELECT {columns} FROM ({keyed}) LEFT JOIN ({persons}) USING ({key}))"


def _refuse_missing_columns(rows: Input, lines: Input, on: str) -> None:
    """Raise an error for a column with ids that the rows or the lines lack."""
    if on not in rows.physical:
        place, table = place_of(rows.declared, on), rows.declared.table.name
        raise DataError("DP-DATA-002", place=place, table=table, column=on)
    for name in stored_columns(lines.declared):
        if name not in lines.physical:
            reason = f"it is the correspondence table of the ids, and has no column '{name}'"
            way = (
                "declare the names that its columns have (case matters): `lookup: {source: ..., "
                "on: {column of the table: column there}, id: column with the persons}`; for a "
                "text file, check also the `delimiter` and `header` of this source"
            )
            raise unreadable_error(lines.declared, reason, way)


def _id_sql(part: Input, name: str) -> str:
    """Return SQL of a column of ids in the declared type; raise an error if it can't hold ids."""
    physical, place = part.physical[name], _place_of_id(part, name)
    if is_no_id(physical):
        raise DataError("DP-DATA-005", place=place, column=name)
    kind = part.source_type.name
    comparison = comparison_of(kind, part.collations, name)
    if comparison:
        raise inexact_comparison_error(kind, comparison, name, "id", place)
    table = part.declared.table
    try:
        return typed_value_sql(name, table.columns[name], physical, table.time_zone)
    except DataError as error:
        error.set_place(place)
        raise


def _place_of_id(part: Input, name: str) -> Place:
    """Return the position of a column of ids in the schema; for the lines, that of their source."""
    declared = part.declared
    is_line = isinstance(declared.table, Correspondence)
    return declared.source_place if is_line else place_of(declared, name)


def _stored_type(part: Input, name: str) -> str:
    """Return the engine's type of the values of a column of ids."""
    declared = getattr(part.declared.table.columns[name], "type", "")
    is_wide = declared == "integer" and base_type(part.physical[name]) not in SMALL_INTEGERS
    return "HUGEINT" if is_wide else DECLARED_AS[declared]
