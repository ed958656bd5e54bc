"""Invariants in a plan: exactly published tables have no privacy cost, and are listed by name.

A release with invariants promises less, but no number says how much less: its guarantee is the
guarantee of the noised columns, between tables with equal invariants
(`dprelease.query.declared_invariants`). So every cost leaves out invariants, and the guarantee
lists them by name.

A name must stand for one function of the rows: if a release published two functions under one
name, their difference would also be published, but the name would not show it. So the ledger
records which function each name stands for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dprelease.mechanisms.common.invariant import Invariant
from dprelease.query.expressions.computed_order import with_input_columns
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import DECLARED, Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import CutColumn
from dprelease.statements.allocated_areas import allocating_columns

if TYPE_CHECKING:
    from dprelease.planning.plan import PlannedColumn

INVARIANT_MECHANISM = Invariant()

INVARIANT_ORIGIN = "declared: an invariant, published exactly"


def without_invariants(columns: Iterable[PlannedColumn]) -> tuple[PlannedColumn, ...]:
    """Return the columns that are not invariants: noise protects them, and they have a cost."""
    return tuple(column for column in columns if not column.measurement.exact)


ROW_PROPERTIES = (
    "type",
    "lower",
    "upper",
    "step",
    "format",
    "fill",
    "others",
    "within",
    "cut",
    "edges",
    "closed",
)
"""Declared properties of a column that determine the rows of a cell; the other properties are
descriptions."""

LATER_PROPERTIES = ("missing", "pivot")
"""Further such properties, which a digest contains only if they are declared."""


def invariant_name(query: Query, measurement: Measurement) -> str:
    """Return the name of an invariant in reports, and in the ledger that allows it.

    The name includes the definitions of computed columns, because a declaration can change them.
    """
    names = [key.column for key in query.key_columns]
    rows = "" if query.predicate is None else f" where {query.predicate.sql}"
    by = f" by {', '.join(names)}" if names else ", in all"
    used_columns = (*names, *(query.predicate.columns if query.predicate is not None else ()))
    computed = "".join(
        f"; {formula_text}" for formula_text in _column_formula_texts(query, used_columns)
    )
    return f"{measurement.aggregate.description}{rows}{by}, of {query.table.name}{computed}"


def _column_formula_texts(query: Query, names: Sequence[str]) -> Iterator[str]:
    """Yield a text on how each computed column, and each computed column in it, is defined."""
    columns = query.table.columns
    for name in with_input_columns(columns, query.formulas, names):
        column = columns[name]
        if name in query.formulas:
            yield f"{name} is {query.formulas[name].sql}"
        elif isinstance(column, CutColumn):
            edges = ", ".join(column.model_dump(mode="json")["edges"])
            yield f"{name} is {column.cut} cut at {edges}, {column.closed} ends closed"


def definitions_of(columns: Iterable[PlannedColumn]) -> tuple[tuple[str, str], ...]:
    """Return the names of all declared invariants, each with a digest of its function.

    A name occurs twice if two functions have it.
    """
    found = (
        (invariant_name(column.query, column.measurement), _function_digest(column.query))
        for column in columns
        if column.measurement.exact == DECLARED
    )
    return tuple(dict.fromkeys(found))


def _function_digest(query: Query) -> str:
    """Return a digest of everything that decides which rows count in which cell of one table.

    A row counts if it has a finest cell of the family. So the digest includes all attributes of the
    family's tables that can leave a row without a cell. With contribution limits, it includes all
    attributes, because the limits apply to finest cells.
    """
    key_sources = {key.read_from for key in query.key_columns}
    finest = [
        key
        for key in (query.finest or query.keys).keys
        if query.unit.id is not None
        or key.read_from in key_sources
        or None in (key.nulls, key.others)
    ]
    predicate = () if query.predicate is None else query.predicate.columns
    read = [key.read_from for key in (*finest, *query.key_columns)]
    columns = query.table.columns
    outer = [name for key in read for name in allocating_columns(columns, key)]
    read += outer
    unit = query.unit
    unit_total = [] if unit.max_rows is None else [unit.max_rows]
    digest_input: dict[str, Any] = {
        "where": None if query.predicate is None else query.predicate.sql,
        "finest": [[key.column, [*map(str, key.values)], key.nulls, key.others] for key in finest],
        "areas": [[key.column, [*key.ancestors]] for key in query.key_columns],
        "columns": _column_definitions(query, [*read, *predicate]),
        "unit": [unit.id, unit.max_groups, unit.max_rows_per_group, *unit_total],
        "join": None if query.join is None else [query.join.declared.table.name, query.join.on],
        **({"matched_only": True} if query.join is not None and query.join.matched_only else {}),
    }
    if outer:  # their values decide in which cells rows with unknown areas count
        values = {name: key_of(name, columns[name]) for name in outer}
        digest_input["outer"] = {n: [*k.texts] for n, k in values.items() if isinstance(k, Key)}
    # With sorted keys, because ledgers compare digests that other versions computed.
    return hashlib.sha256(json.dumps(digest_input, sort_keys=True).encode()).hexdigest()


def _column_definitions(query: Query, names: Sequence[str]) -> dict[str, Any]:
    """Return how the columns that an invariant reads are declared or computed, by name."""
    found: dict[str, Any] = {}
    for name in with_input_columns(query.table.columns, query.formulas, names):
        if name in query.formulas:
            found[name] = query.formulas[name].sql
            continue
        column = query.table.columns[name]
        definition = column.model_dump(mode="json", include={*ROW_PROPERTIES})
        if "fill" in definition:  # ledgers have digests with the key's earlier name
            definition["nulls"] = definition.pop("fill")
        # Left out where undeclared, so that digests in existing ledgers stay the same.
        later = {key: getattr(column, key, None) for key in LATER_PROPERTIES}
        found[name] = definition | {key: value for key, value in later.items() if value}
    return found


def invariants_of(columns: Iterable[PlannedColumn]) -> tuple[str, ...]:
    """Return the names of all declared invariants of a plan, without repetitions."""
    names = (
        invariant_name(column.query, column.measurement)
        for column in columns
        if column.measurement.exact == DECLARED
    )
    return tuple(dict.fromkeys(names))


def invariant_warnings(names: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each invariant of a plan, with its name."""
    for name in names:
        yield (
            f"outside the guarantee: {name}. These true values and all their sums are published; "
            "the guarantee holds only between tables in which they are equal."
        )
