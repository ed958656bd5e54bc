"""What one row adds to each aggregate, or which candidate it is: one function for each.

`WRITERS` is the only place where an aggregate becomes SQL; everything else follows from its file in
`query/aggregates`. A function returns a BIGINT expression that is NULL where a row adds nothing,
and that no value can make fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dprelease.query import quoting
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.count_distinct import CountDistinct
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.square_sum import SquareSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.aggregates.tree_of_counts import Tree

WIDEST = 2**62
"""Differences below it fit 64 bits."""

NARROW = 2**31
"""Differences below it have squares that fit 64 bits."""


class Row(Protocol):
    """The typed row from which a value is read."""

    def null_if_missing(self, column: str) -> str:
        """Return an expression that is NULL where a column is missing."""

    def has_null_value(self, column: str) -> bool:
        """Return whether a missing number is replaced."""

    def steps(self, aggregate: Aggregate) -> str:
        """Return a BIGINT number of steps within the bounds; NULL where the value is missing."""

    def place(self, column: str) -> str:
        """Return the position among the declared values of a column; NULL for other values."""


Writer = Callable[[Row, Any], str]


def _count(row: Row, count: Count) -> str:
    if count.column is None:
        return "1::BIGINT"
    return f"CASE WHEN {row.null_if_missing(count.column)} IS NOT NULL THEN 1::BIGINT END"


def _sum(row: Row, total: Sum) -> str:
    steps = row.steps(total)
    centered = f"({steps}) - {quoting.integer(total.center)}" if total.center else steps
    if total.beside is None:
        return centered
    return f"CASE WHEN {row.null_if_missing(total.beside)} IS NOT NULL THEN {centered} END"


def _square(row: Row, squares: SquareSum) -> str:
    """Return round((x - center)^2 / coarse) - offset, half up, in integers that can't wrap."""
    reach = max(abs(squares.lower - squares.center), abs(squares.upper - squares.center))
    wide = "BIGINT" if reach < NARROW else "HUGEINT"
    x = f"(CAST({row.steps(squares)} AS {wide}) - {quoting.integer(squares.center)})"
    square = f"{x} * {x}"
    if squares.coarse > 1:
        square = f"({square} + {squares.coarse // 2}) // {squares.coarse}"
    return f"CAST({square} - {squares.offset} AS BIGINT)"


def _on_lattice(row: Row, aggregate: Quantile | Tree) -> str:
    """Return the number of the candidate to which a value is rounded down."""
    wide = "BIGINT" if aggregate.upper - aggregate.lower < WIDEST else "HUGEINT"
    moved = f"(CAST({row.steps(aggregate)} AS {wide}) - {quoting.integer(aggregate.lower)})"
    return f"CAST({moved} // {aggregate.stride} AS BIGINT)" if aggregate.stride > 1 else moved


def _distinct(row: Row, count: CountDistinct) -> str:
    return "NULL::BIGINT" if count.values is None else row.place(count.column)


def _value_index(row: Row, aggregate: Frequent) -> str:
    return row.place(aggregate.column)


WRITERS: dict[type[Aggregate], Writer] = {
    Count: _count,
    Sum: _sum,
    SquareSum: _square,
    CountDistinct: _distinct,
    Quantile: _on_lattice,
    Tree: _on_lattice,
    Frequent: _value_index,
}
"""By aggregate; two with one function and one column have the same values."""


def row_value(row: Row, aggregate: Aggregate) -> str:
    """Return what one row adds to an aggregate; NULL where it adds nothing."""
    return WRITERS[type(aggregate)](row, aggregate)


Totals = list[tuple[str, int]]
"""SQL aggregates, each with the factor by which it is multiplied before they are summed."""


def _count_in(row: Row, count: Count) -> Totals:
    return [(f"count({row.null_if_missing(count.column)})" if count.column else "count(*)", 1)]


def _sum_in(row: Row, total: Sum) -> Totals:
    if not total.center or total.beside is not None or row.has_null_value(total.column):
        return [(f"sum({_sum(row, total)})", 1)]
    # Sums around several centers share one sum; the number of values is usually needed anyway.
    return [
        (f"sum({row.steps(total)})", 1),
        (f"count({row.null_if_missing(total.column)})", -total.center),
    ]


GROUPED: dict[type[Aggregate], Callable[[Row, Any], Totals]] = {Count: _count_in, Sum: _sum_in}
"""By aggregate, where summing a group is faster than summing each row's contribution."""


def group_total(row: Row, aggregate: Aggregate) -> Totals:
    """Return what sums to the total of an aggregate over a group of rows; NULL adds nothing."""
    write = GROUPED.get(type(aggregate))
    return [(f"sum({row_value(row, aggregate)})", 1)] if write is None else write(row, aggregate)


def same_values(aggregate: Aggregate) -> object:
    """Return a value that is equal for two aggregates that select among the same row values."""
    return WRITERS[type(aggregate)], aggregate.column
