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
from dataclasses import dataclass

from dprelease.errors import DataError, Place
from dprelease.errors.words.data_words import ALIKE_SELECTED, ALIKE_STORED
from dprelease.query import quoting
from dprelease.statements.values.physical import FLOATS, base_type

OTHER = "another collation"
"""A collation that no table below lists: any texts may be equal by it."""

RELATION = "a relation"
"""The kind of a caller's DuckDB relation, whatever source is behind it."""

ALIKE = "min({column}) OVER (PARTITION BY {column})"
"""SQL of one spelling for all texts of a table that its source treats as equal."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Texts that a source treats as equal, and SQL of the source that gives them one spelling."""

    equal: str
    spelled: str = ALIKE


CASE = "'X1' and 'x1' are equal"
BLANKS = "'X1' and 'X1 ' are equal"
ACCENTS = "'é' and 'e' are equal"
FORMS = "the two Unicode forms of 'é' are equal"
ANY = "texts that differ may be equal"

OF_DUCKDB = {
    "COLLATE NOCASE": Rule(CASE, "lower({column})"),
    "COLLATE NOACCENT": Rule(ACCENTS, "strip_accents({column})"),
    "COLLATE NOCASE.NOACCENT": Rule(CASE, "lower(strip_accents({column}))"),
    "COLLATE NOACCENT.NOCASE": Rule(CASE, "lower(strip_accents({column}))"),
    "COLLATE NFC": Rule(FORMS, "nfc_normalize({column})"),
    OTHER: Rule(ANY),
}
RULES: Mapping[str, Mapping[str, Rule]] = {
    "sqlite": {
        "COLLATE NOCASE": Rule(CASE, "lower({column})"),
        "COLLATE RTRIM": Rule(BLANKS, "rtrim({column})"),
        OTHER: Rule(ANY),
    },
    "duckdb": OF_DUCKDB,
    RELATION: {
        words: Rule(rule.equal, f"{rule.spelled} COLLATE C") for words, rule in OF_DUCKDB.items()
    },
    "parquet": {
        "COLLATE UTF8_LCASE": Rule(CASE, "lower({column})"),
        "COLLATE UTF8_BINARY_RTRIM": Rule(BLANKS, "rtrim({column})"),
        OTHER: Rule(ANY),
    },
    "postgres": {
        "citext": Rule(CASE, "lower({column}::text)"),
        OTHER: Rule(ANY),
    },
}
"""All comparisons that differ from those here, by the kind of source and its name for them.

What is not listed compares as here. CSV, JSON lines, workbooks and frames have no collations, and
Parquet only those that Spark notes in its files. Collations of PostgreSQL are exact unless they are
declared nondeterministic, and blanks at the end of its char(n) are not read. UUIDs are texts in
lower case, whatever was written. Columns of Spark's catalogue with collations, or padded with
blanks, are not read at all (DP-SPARK-002).
"""

SPARK_NOTE = "org.apache.spark.sql.parquet.row.metadata"
"""The key under which Spark stores in a Parquet file its types of the columns, as JSON."""

EXACT = ('"binary"', "C", "POSIX")
"""Collations by which the engine compares texts as they are."""


def is_no_id(physical: str) -> bool:
    """Return whether the engine's type can hold no ids: several people may be one float."""
    return base_type(physical) in FLOATS


def inexact(
    kind: str, comparison: str, column: str, use: str, place: Place | None = None
) -> DataError:
    """Return DP-DATA-026 for a column that its source does not compare character by character.

    `use`: its intended use, "id" or "join key".
    """
    rules = RULES[kind]
    rule = rules.get(comparison, rules[OTHER])
    spelled = rule.spelled.format(column=quoting.identifier(column))
    way = ALIKE_SELECTED if kind == RELATION else ALIKE_STORED
    return DataError(
        "DP-DATA-026",
        place=place,
        column=column,
        use=use,
        comparison=comparison,
        equal=rule.equal,
        way=way.format(spelled=spelled, use=use),
    )


def spark_collations(note: bytes) -> dict[str, str]:
    """Return the columns that Spark compares by a collation, and the collation as in `RULES`.

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
    return words if words in RULES["parquet"] else OTHER


Binds = Callable[[str], bool]
"""Returns whether the engine accepts an expression over a relation; it reads no row."""


CONTROL = "(SELECT a = ('' COLLATE C) FROM (SELECT '' COLLATE NOCASE AS a))"
"""Binds only if the engine compares texts of two collations, contrary to its documentation."""


def engine_collations(names: Iterable[str], binds: Binds) -> dict[str, str]:
    """Return the columns of a DuckDB relation with a collation, and the collation as in `RULES`.

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
    for words in RULES["duckdb"]:
        collation = words.removeprefix("COLLATE ")
        spellings = () if words is OTHER else (collation, collation.lower())
        if any(binds(_collation_check([name], spelling)) for spelling in spellings):
            return words
    return OTHER


def _collation_check(names: Iterable[str], collation: str) -> str:
    """Return an expression that binds if no column has another collation than this one."""
    texts = (f"CAST({quoting.identifier(name)} AS VARCHAR)" for name in names)
    return " AND ".join(f"{text} = ('' COLLATE {collation})" for text in texts) or "true"
