"""What a manifest says of computed columns and joined tables."""

from __future__ import annotations

from typing import Any

from dprelease.query.expressions.computed_order import closure
from dprelease.query.resolve import Query
from dprelease.schema.columns import expression_of


def computed_and_joined(query: Query, columns: dict[str, str]) -> dict[str, Any]:
    """Return the record of a query's columns with what is computed or joined written in."""
    table, join = query.table, query.join
    wanted = [name for name in columns if name in table.columns]
    wanted += query.predicate.columns if query.predicate else ()
    wanted += [m.aggregate.column for m in query.measurements if m.aggregate.column is not None]
    wanted += [] if join is None else [left for left, _ in join.on]
    described = dict(columns)
    for name in closure(table.columns, query.formulas, wanted):
        words = [described[name]] if name in described else []
        if join is not None and name in join.columns:
            words.append(f"from '{join.declared.table.name}'")
        expression = expression_of(table.columns[name])
        if expression is not None:
            words.append(f"computed in each row: {expression}")
        if words:
            described[name] = "; ".join(words)
    record: dict[str, Any] = {"query": query.name, "columns": described}
    if join is not None:
        record["join"] = join.words(table.name)
    return record
