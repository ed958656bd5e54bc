"""The nodes of a SELECT that belong to it, and not to its windows and nested queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from dprelease.query.sql_rewrites.aggregate_forms import is_aggregate


def own_aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates of rows in an expression, without those of windows and sub-queries."""
    if isinstance(node, exp.Query):
        return
    if is_aggregate(node):
        yield node
        return
    for part in node.iter_expressions():
        if isinstance(node, exp.Window) and part is node.this:
            for inner in part.iter_expressions():
                yield from own_aggregates(inner)
        else:
            yield from own_aggregates(part)


def replace_own(
    node: exp.Expr,
    replacement: Callable[[exp.Expr], exp.Expr | None],
    *,
    is_key: bool = False,
) -> None:
    """Replace the outermost nodes of an expression for which there is a replacement.

    Nested queries stay, and so do the functions of windows, whose arguments are replaced. Keys
    inside of aggregates are values of rows, and stay as well.
    """
    if isinstance(node, exp.Query) or (is_key and is_aggregate(node)):
        return
    function = node.parent.this if isinstance(node.parent, exp.Window) else None
    found = None if node is function else replacement(node)
    if found is None:
        for part in list(node.iter_expressions()):
            replace_own(part, replacement, is_key=is_key)
    elif found is not node:
        node.replace(found)
