"""When a source treats two values as equal, and which columns can therefore be ids or join keys.

Here two ids are equal if they are the same text, character by character, or the same integer. A
source may treat more texts as equal, by the collation of a column. Such a column is refused as an
id: one person, spelled in two ways, would be two privacy units, and count twice. It is also refused
as a join key, because other rows would match than in the source. Both checks use the declared
collation, before rows are read. Merging two people into one unit is safe (limits hold for both of
them together), splitting one is not: so the SQL that a message suggests merges all that the source
does.

Elsewhere, in groups and conditions, every text is what it is in any other source: its characters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from dprelease.errors import DataError, Place
from dprelease.errors.words.data_words import ALIKE_SELECTED, ALIKE_STORED, UNDECLARED_EQUALITY
from dprelease.query import quoting
from dprelease.schema.source_types.duckdb_type import DuckDB
from dprelease.schema.source_types.equality import ANY, OTHER, Rule
from dprelease.schema.source_types.parquet_type import Parquet
from dprelease.schema.source_types.registry import source_type
from dprelease.statements.values.physical import FLOATS, base_type

SPARK_NOTE = "org.apache.spark.sql.parquet.row.metadata"
"""The key under which Spark stores in a Parquet file its types of the columns, as JSON."""

EXACT = ('"binary"', "C", "POSIX")
"""Collations by which the engine compares texts as they are."""


def is_no_id(physical: str) -> bool:
    """Return whether the engine's type can hold no ids: several people may be one float."""
    return base_type(physical) in FLOATS


RELATION = "relation"
"""The name of the source type of a caller's DuckDB relation."""


def comparison_of(kind: str, collations: Mapping[str, str], column: str) -> str:
    """Return how a source compares a column; empty if character by character.

    A source type that declares no comparisons could compare any column in another way.

    `kind`: the name of the source type. `collations`: what its reader found, by column.
    """
    if source_type(kind).comparisons is None:
        return OTHER
    return collations.get(column, "")


def inexact(
    kind: str, comparison: str, column: str, use: str, place: Place | None = None
) -> DataError:
    """Return DP-DATA-026 for a column that its source does not compare character by character.

    `kind`: the name of the source type. `use`: the column's intended use, "id" or "join key".
    """
    declared = source_type(kind)
    if declared.comparisons is None:
        rule, way = Rule(ANY), UNDECLARED_EQUALITY
    else:
        other = declared.comparisons.get(OTHER, Rule(ANY))
        rule = declared.comparisons.get(comparison, other)
        way = ALIKE_SELECTED if kind == RELATION else ALIKE_STORED
    spelled = rule.spelled.format(column=quoting.identifier(column))
    return DataError(
        "DP-DATA-026",
        place=place,
        column=column,
        use=use,
        comparison=comparison,
        equal=rule.equal,
        way=way.format(spelled=spelled, use=use, type=declared.label),
    )


def spark_collations(note: bytes) -> dict[str, str]:
    """Return the columns that Spark compares by a collation, by its name among `comparisons`.

    Spark notes no collation for texts that it compares as they are. Other notes are ignored.
    """
    try:
        fields = json.loads(note)["fields"]
        noted = {str(f["name"]): f["metadata"].get("__COLLATIONS") for f in fields}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {}
    return {name: _sparks(name, collations) for name, collations in noted.items() if collations}


def _sparks(name: str, collations: object) -> str:
    noted = collations.get(name) if isinstance(collations, dict) else None
    words = f"COLLATE {str(noted).removeprefix('spark.')}"
    return words if words in Parquet.comparisons else OTHER


Binds = Callable[[str], bool]
"""Returns whether the engine accepts an expression over a relation; it reads no row."""


CONTROL = "(SELECT a = ('' COLLATE C) FROM (SELECT '' COLLATE NOCASE AS a))"
"""Binds only if the engine compares texts of two collations, contrary to its documentation."""


def engine_collations(names: Iterable[str], binds: Binds) -> dict[str, str]:
    """Return the columns of a DuckDB relation with a collation, by its name among `comparisons`.

    The engine compares no texts of two collations, so the comparisons that it refuses reveal the
    collation of a column. Empty for collations that change nothing.
    """
    names = list(names)
    if binds(CONTROL):  # an engine whose answers are not reliable
        return dict.fromkeys(names, OTHER)
    if all(binds(_collation_check(names, collation)) for collation in EXACT[:2]):
        return {}
    collated = [n for n in names if not all(binds(_collation_check([n], c)) for c in EXACT[:2])]
    return {name: _collation(name, binds) for name in collated}


def _collation(name: str, binds: Binds) -> str:
    if any(binds(_collation_check([name], collation)) for collation in EXACT):
        return ""
    for words in DuckDB.comparisons:
        collation = words.removeprefix("COLLATE ")
        spellings = () if words is OTHER else (collation, collation.lower())
        if any(binds(_collation_check([name], spelling)) for spelling in spellings):
            return words
    return OTHER


def _collation_check(names: Iterable[str], collation: str) -> str:
    """Return an expression that binds if no column has another collation than this one."""
    texts = (f"CAST({quoting.identifier(name)} AS VARCHAR)" for name in names)
    return " AND ".join(f"{text} = ('' COLLATE {collation})" for text in texts) or "true"
