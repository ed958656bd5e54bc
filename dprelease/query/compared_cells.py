"""Which conditions compare a key with a cell that stands for other codes, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlglot
from sqlglot import exp

from dprelease.query.resolve import Query
from dprelease.schema.columns import CategoryColumn, Column, CutColumn
from dprelease.schema.field_types import DROP

COMPARISONS = (exp.EQ, exp.NEQ, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ)
COMPARED_CELLS = (
    "Compared in `where`: {}. A condition sees what is stored: rows whose code is another, or "
    "missing, are in that cell and not met."
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
            tree = sqlglot.parse_one(query.predicate.sql, dialect="duckdb")
            columns = (query.view or query.declared.table).columns
            found |= dict.fromkeys(_compared(tree, columns))
    return list(found)


def _compared(tree: exp.Expr, columns: Mapping[str, Column]) -> Iterator[str]:
    for node in tree.find_all(*COMPARISONS):
        texts = {item.name for item in node.find_all(exp.Literal) if item.is_string}
        for name in dict.fromkeys(item.name for item in node.find_all(exp.Column)):
            column = columns.get(name)
            if isinstance(column, CategoryColumn | CutColumn):
                cells = sorted({column.others, column.nulls} - {DROP})
                yield from (f"{name} with '{cell}'" for cell in cells if cell in texts)
