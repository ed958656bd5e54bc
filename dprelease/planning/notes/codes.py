"""What conditions and expressions see of keys: what is stored, and the codes that are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from dprelease.query.expressions.nodes import declared_codes
from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column, CutColumn
from dprelease.schema.field_types import DROP

COMPARISONS = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
COMPARED_CELLS = (
    "Compared in `where`: {}. A condition sees what is stored: rows whose code is another, or "
    "missing, are in that cell and not met."
)
CODES_READ = (
    "Codes read: {}. An expression sees the codes that a category declares; all others are one "
    "text there, such as '?'. Declare those that it tells apart, or the column as `text`."
)
"""What `check` says of them."""


def compared_cells(queries: Sequence[Query]) -> list[str]:
    """Return the comparisons of `where` with a value that `others` or `nulls` names, each once.

    A condition sees what is stored, before other codes and missing ones become a declared value:
    of the cell it keeps the rows that store its very text, which may be none.
    """
    found: dict[str, None] = {}
    for query in queries:
        if query.predicate is not None:
            tree = _parse_sql(query.predicate.sql)
            for case, _ in _codes_read(tree, query.table.columns):
                case.replace(exp.Null())
            found |= dict.fromkeys(_codes_in_comparisons(tree, query.table.columns))
    return list(found)


def codes_read(queries: Sequence[Query]) -> list[str]:
    """Return where codes of categories are looked into, rather than compared, each once."""
    found: dict[str, None] = {}
    for query in queries:
        places = {name: formula.sql for name, formula in query.formulas.items()}
        if query.predicate is not None:
            places["`where`"] = query.predicate.sql
        for place, sql in places.items():
            names = [name for _, name in _codes_read(_parse_sql(sql), query.table.columns)]
            found |= dict.fromkeys(f"{name} in {place}" for name in names)
    return list(found)


def _parse_sql(sql: str) -> exp.Expr:
    # In a SELECT, so that the whole of it can be replaced, too.
    return sqlglot.parse_one(f"SELECT {sql}", dialect="duckdb")


def _codes_read(tree: exp.Expr, columns: Mapping[str, Column]) -> list[tuple[exp.Expr, str]]:
    """Return what reads the codes of a category, as expressions write it, with its column."""
    found: list[tuple[exp.Expr, str]] = []
    for case in tree.find_all(exp.Case):
        read = case.find(exp.Column)
        column = None if read is None else columns.get(read.name)
        if read is None or not isinstance(column, CategoryColumn):
            continue
        if case == sqlglot.parse_one(declared_codes(read.name, column), dialect="duckdb"):
            found.append((case, read.name))
    return found


def _codes_in_comparisons(tree: exp.Expr, columns: Mapping[str, Column]) -> Iterator[str]:
    for node in tree.find_all(*COMPARISONS):
        texts = {item.name for item in node.find_all(exp.Literal) if item.is_string}
        for name in dict.fromkeys(item.name for item in node.find_all(exp.Column)):
            column = columns.get(name)
            if isinstance(column, CategoryColumn | CutColumn):
                cells = sorted({column.others, column.nulls} - {DROP})
                yield from (f"{name} with '{cell}'" for cell in cells if cell in texts)
