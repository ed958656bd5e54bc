"""Which values a source treats as equal, and therefore which columns can be ids or join keys.

In this toolkit two ids are equal if they are the same text, character by character, or the same
integer. A source may treat more texts as equal, by the collation of a column. Such a column can't
be an id, because one person, spelled in two ways, would be two privacy units and count twice. Nor
can it be a join key, because other rows would match than in the source. Both checks read the
column's collation before any row. Merging two people into one privacy unit is safe, because the
limits then hold for both people together; splitting one person into two units is not safe. So the
SQL that the error message suggests merges all texts that the source treats as equal.

In groups and conditions, texts are compared by their characters, whatever the source is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from dprelease.errors import DataError, Place
from dprelease.errors.catalogue.data_errors import ALIKE_SELECTED, ALIKE_STORED, UNDECLARED_EQUALITY
from dprelease.query import quoting
from dprelease.schema.source_types.duckdb_type import DuckDB
from dprelease.schema.source_types.parquet_type import Parquet
from dprelease.schema.source_types.registry import source_type
from dprelease.schema.source_types.source_type import ANY, OTHER, EqualityRule
from dprelease.statements.values.physical import FLOATS, base_type

SPARK_NOTE = "org.apache.spark.sql.parquet.row.metadata"
"""The metadata key of a Parquet file under which Spark stores its column types, as JSON."""

EXACT = ('"binary"', "C", "POSIX")
"""The collations by which the engine compares texts character by character."""


def is_no_id(physical: str) -> bool:
    """Return whether a type can't hold ids, because several ids may be the same float."""
    return base_type(physical) in FLOATS


RELATION = "relation"
"""The name of the source type of a caller's DuckDB relation."""


def comparison_of(kind: str, collations: Mapping[str, str], column: str) -> str:
    """Return the name of the comparison of a column; empty for character by character.

    If a source type declares no comparisons, its columns could be compared in any way. `kind` is
    the name of the source type, and `collations` are the collations that its reader found, by
    column.
    """
    if source_type(kind).comparisons is None:
        return OTHER
    return collations.get(column, "")


def inexact_comparison_error(
    kind: str, comparison: str, column: str, use: str, place: Place | None = None
) -> DataError:
    """Return DP-DATA-026 for a column that its source does not compare character by character.

    `kind` is the name of the source type, and `use` the column's use: "id" or "join key".
    """
    declared = source_type(kind)
    if declared.comparisons is None:
        rule, way = EqualityRule(ANY), UNDECLARED_EQUALITY
    else:
        other = declared.comparisons.get(OTHER, EqualityRule(ANY))
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
    """Return, for each column that Spark compares by a collation, its name in `comparisons`.

    `note` is the metadata that Spark wrote into a Parquet file. Spark notes no collation for texts
    that it compares character by character. Notes of another form are ignored.
    """
    try:
        fields = json.loads(note)["fields"]
        noted = {str(f["name"]): f["metadata"].get("__COLLATIONS") for f in fields}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {}
    return {
        name: spark_collation(name, collations) for name, collations in noted.items() if collations
    }


def spark_collation(name: str, collations: object) -> str:
    """Return the name in `comparisons` of the collation that Spark noted for a column."""
    noted = collations.get(name) if isinstance(collations, dict) else None
    words = f"COLLATE {str(noted).removeprefix('spark.')}"
    return words if words in Parquet.comparisons else OTHER


Binds = Callable[[str], bool]
"""A function that returns whether the engine accepts an expression; it reads no row."""


CONTROL = "(SELECT a = ('' COLLATE C) FROM (SELECT '' COLLATE NOCASE AS a))"
"""An expression that the engine accepts only if it compares texts of two collations.

The engine's documentation says that it refuses such comparisons."""


def engine_collations(names: Iterable[str], binds: Binds) -> dict[str, str]:
    """Return, for each column of a DuckDB relation with a collation, its name in `comparisons`.

    The engine refuses to compare texts of two collations, so the comparisons that it refuses reveal
    the collation of a column. Columns whose collation changes no comparison are left out.
    """
    names = list(names)
    if binds(CONTROL):  # the engine does not refuse such comparisons, so they reveal nothing
        return dict.fromkeys(names, OTHER)
    if all(binds(_collation_check(names, collation)) for collation in EXACT[:2]):
        return {}
    collated = [n for n in names if not all(binds(_collation_check([n], c)) for c in EXACT[:2])]
    return {name: _engine_collation(name, binds) for name in collated}


def _engine_collation(name: str, binds: Binds) -> str:
    """Return the name in `comparisons` of a column's collation; empty if it changes none."""
    if any(binds(_collation_check([name], collation)) for collation in EXACT):
        return ""
    for words in DuckDB.comparisons:
        collation = words.removeprefix("COLLATE ")
        spellings = () if words is OTHER else (collation, collation.lower())
        if any(binds(_collation_check([name], spelling)) for spelling in spellings):
            return words
    return OTHER


def _collation_check(names: Iterable[str], collation: str) -> str:
    """Return an expression that the engine accepts unless a column has another collation."""
    texts = (f"CAST({quoting.identifier(name)} AS VARCHAR)" for name in names)
    return " AND ".join(f"{text} = ('' COLLATE {collation})" for text in texts) or "true"
