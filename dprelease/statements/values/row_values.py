"""What one row adds to each aggregate, or which candidate it stands for: one writer for each.

`WRITERS` is the one place where an aggregate becomes SQL: what its file in `query/aggregates` says
of it decides all else. A writer returns a BIGINT that is NULL where a row adds nothing, by
expressions that no value can make fail.
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
    """The typed row that a value is read from."""

    def null_if_missing(self, column: str) -> str:
        """Return what is NULL where a column is missing."""

    def has_null_value(self, column: str) -> bool:
        """Return whether something stands in for a missing number."""

    def steps(self, aggregate: Aggregate) -> str:
        """Return a BIGINT of lattice steps within the bounds; NULL where the value is missing."""

    def place(self, column: str) -> str:
        """Return the position among the declared values of a column; NULL for none of them."""


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
    """Return round((x - center)^2 / coarse) - offset, half up, in whole numbers that can't wrap."""
    reach = max(abs(squares.lower - squares.center), abs(squares.upper - squares.center))
    wide = "BIGINT" if reach < NARROW else "HUGEINT"
    x = f"(CAST({row.steps(squares)} AS {wide}) - {quoting.integer(squares.center)})"
    square = f"{x} * {x}"
    if squares.coarse > 1:
        square = f"({square} + {squares.coarse // 2}) // {squares.coarse}"
    return f"CAST({square} - {squares.offset} AS BIGINT)"


def _on_lattice(row: Row, chosen: Quantile | Tree) -> str:
    """Return the number of the candidate that a value is rounded down to."""
    wide = "BIGINT" if chosen.upper - chosen.lower < WIDEST else "HUGEINT"
    moved = f"(CAST({row.steps(chosen)} AS {wide}) - {quoting.integer(chosen.lower)})"
    return f"CAST({moved} // {chosen.stride} AS BIGINT)" if chosen.stride > 1 else moved


def _distinct(row: Row, count: CountDistinct) -> str:
    return "NULL::BIGINT" if count.values is None else row.place(count.column)


def _value_index(row: Row, chosen: Frequent) -> str:
    return row.place(chosen.column)


WRITERS: dict[type[Aggregate], Writer] = {
    Count: _count,
    Sum: _sum,
    SquareSum: _square,
    CountDistinct: _distinct,
    Quantile: _on_lattice,
    Tree: _on_lattice,
    Frequent: _value_index,
}
"""By aggregate; two with one writer and one column have the same values."""


def row_value(row: Row, aggregate: Aggregate) -> str:
    """Return what one row adds to an aggregate; NULL where it adds nothing."""
    return WRITERS[type(aggregate)](row, aggregate)


Totals = list[tuple[str, int]]
"""SQL aggregates, each with what it is multiplied by before they are added up."""


def _count_in(row: Row, count: Count) -> Totals:
    return [(f"count({row.null_if_missing(count.column)})" if count.column else "count(*)", 1)]


def _sum_in(row: Row, total: Sum) -> Totals:
    if not total.center or total.beside is not None or row.has_null_value(total.column):
        return [(f"sum({_sum(row, total)})", 1)]
    # Sums around several centers are one sum; the number of values is mostly asked for anyway.
    return [
        (f"sum({row.steps(total)})", 1),
        (f"count({row.null_if_missing(total.column)})", -total.center),
    ]


GROUPED: dict[type[Aggregate], Callable[[Row, Any], Totals]] = {Count: _count_in, Sum: _sum_in}
"""By aggregate, where a group of rows is added up faster than by what each row adds."""


def group_total(row: Row, aggregate: Aggregate) -> Totals:
    """Return what adds up to the total of an aggregate over a group of rows; NULL adds nothing."""
    write = GROUPED.get(type(aggregate))
    return [(f"sum({row_value(row, aggregate)})", 1)] if write is None else write(row, aggregate)


def same_values(aggregate: Aggregate) -> object:
    """Return what is equal for two aggregates that choose among the same values of a row."""
    return WRITERS[type(aggregate)], aggregate.column
