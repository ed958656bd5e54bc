"""SQL of what one row adds to an aggregate, or of the row's candidate: one function for each.

`WRITERS` is the only place where an aggregate becomes SQL; the file of an aggregate in
`query/aggregates` defines everything else. Each function returns a BIGINT expression that is NULL
where a row adds nothing, and that no value can make fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dprelease.query import quoting
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.count_distinct import CountDistinct
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.aggregates.replicate_difference import ReplicateDifference
from dprelease.query.aggregates.sum import Sum
from dprelease.query.aggregates.tree_of_counts import Tree

WIDEST = 2**62
"""The number below which the differences of values fit into 64 bits."""

NARROW = 2**61
"""The number below which products, and what is added to round them, fit into 64 bits."""


class Row(Protocol):
    """The typed row from which a value is read; its methods return SQL."""

    def null_if_missing_sql(self, column: str) -> str:
        """Return SQL that is NULL where a column is missing."""

    def has_null_value(self, column: str) -> bool:
        """Return whether the declaration replaces missing numbers of a column."""

    def steps(self, aggregate: Aggregate) -> str:
        """Return SQL of a value as a BIGINT number of steps within the bounds; NULL if missing."""

    def value_position_sql(self, column: str) -> str:
        """Return SQL of a value's position among the column's declared values, or NULL."""


Writer = Callable[[Row, Any], str]


def _count_sql(row: Row, count: Count) -> str:
    """Return the SQL of what a row adds to a count: 1, or NULL if its value is missing."""
    if count.column is None:
        return "1::BIGINT"
    return _where_present(row, (count.column, *count.beside), "1::BIGINT")


def _where_present(row: Row, columns: tuple[str, ...], value: str) -> str:
    """Return the SQL of a value that is NULL where one of the columns is missing."""
    if not columns:
        return value
    known = " AND ".join(f"{row.null_if_missing_sql(column)} IS NOT NULL" for column in columns)
    return f"CASE WHEN {known} THEN {value} END"


def _sum_sql(row: Row, total: Sum) -> str:
    """Return the SQL of what a row adds to a sum: its steps from the center, or NULL."""
    steps = row.steps(total)
    centered = f"({steps}) - {quoting.integer(total.center)}" if total.center else steps
    return _where_present(row, total.beside, centered)


def _product_sql(row: Row, product: ProductSum) -> str:
    """Return SQL of round(a b / coarse) - offset, rounded half up on integers."""
    left, right = product.left, product.right
    reach = [max(abs(one.least), abs(one.most)) for one in (left, right)]
    wide = "BIGINT" if reach[0] * reach[1] < NARROW else "HUGEINT"
    a, b = (
        f"(CAST({row.steps(one)} AS {wide}) - {quoting.integer(one.center)})"
        for one in (left, right)
    )
    lowest = product.least + product.offset
    value = _rounded_sql(f"{a} * {b}", product.coarse, lowest, product.offset)
    return _where_present(row, product.beside, value)


def _rounded_sql(value: str, coarse: int, lowest: int, less: int = 0) -> str:
    """Return SQL of round(value / coarse) - less as a BIGINT, rounded half up; at least `lowest`.

    The engine's division of integers rounds towards 0, so values are made positive before it.
    """
    if coarse > 1:
        shift = max(0, -lowest)
        less += shift
        # See above: positive before the division. A shift by whole multiples of `coarse` is taken
        # back after it.
        value = f"({value} + {shift * coarse + coarse // 2}) // {coarse}"
    return f"CAST({value} - {less} AS BIGINT)"


def _replicate_difference_sql(row: Row, total: ReplicateDifference) -> str:
    """Return SQL of round(d x / coarse), where d is the clamped difference of two weights."""
    ends, value = total.differences, total.value
    wide = "BIGINT" if total.largest_product < NARROW else "HUGEINT"
    one, other = (
        f"CAST({row.steps(weight)} AS {wide}) * {multiplier}"
        for weight, multiplier in zip(total.factors[:2], total.multipliers, strict=True)
    )
    difference = f"({one} - {other})"
    if ends != total.unclamped_differences:  # least and greatest would pass over a missing value
        low, high = ends
        difference = (
            f"CASE WHEN {difference} < {low} THEN {low} WHEN {difference} > {high} THEN {high} "
            f"ELSE {difference} END"
        )
    product = difference if value is None else f"({difference}) * {row.steps(value)}"
    return _rounded_sql(product, total.coarse, total.least)


def _candidate_number_sql(row: Row, aggregate: Quantile | Tree) -> str:
    """Return SQL of the number of the candidate to which a value is rounded down."""
    wide = "BIGINT" if aggregate.upper - aggregate.lower < WIDEST else "HUGEINT"
    moved = f"(CAST({row.steps(aggregate)} AS {wide}) - {quoting.integer(aggregate.lower)})"
    return f"CAST({moved} // {aggregate.stride} AS BIGINT)" if aggregate.stride > 1 else moved


def _distinct_value_sql(row: Row, count: CountDistinct) -> str:
    """Return the SQL of the value that a distinct count looks at; NULL if it counts units."""
    return "NULL::BIGINT" if count.values is None else row.value_position_sql(count.column)


def _value_index_sql(row: Row, aggregate: Frequent) -> str:
    """Return the SQL of the index of a row's value among the public values."""
    return row.value_position_sql(aggregate.column)


WRITERS: dict[type[Aggregate], Writer] = {
    Count: _count_sql,
    Sum: _sum_sql,
    ProductSum: _product_sql,
    ReplicateDifference: _replicate_difference_sql,
    CountDistinct: _distinct_value_sql,
    Quantile: _candidate_number_sql,
    Tree: _candidate_number_sql,
    Frequent: _value_index_sql,
}
"""The function for each aggregate class. Same function and same column mean the same values."""


def row_value_sql(row: Row, aggregate: Aggregate) -> str:
    """Return SQL of what one row adds to an aggregate, which is NULL where it adds nothing."""
    return WRITERS[type(aggregate)](row, aggregate)


Totals = list[tuple[str, int]]
"""SQL aggregates, each with the factor by which it is multiplied before they are summed."""


def _count_terms(row: Row, count: Count) -> Totals:
    """Return the SQL of a count over many rows, with the factor 1."""
    if count.column is None:
        return [("count(*)", 1)]
    if count.beside:
        return [(f"count({_count_sql(row, count)})", 1)]
    return [(f"count({row.null_if_missing_sql(count.column)})", 1)]


def _sum_terms(row: Row, total: Sum) -> Totals:
    """Return the SQL of totals over many rows, each with the factor by which it adds to a sum."""
    if not total.center or total.beside or row.has_null_value(total.column):
        return [(f"sum({_sum_sql(row, total)})", 1)]
    # Sums around different centers share the sum of the values and the number of values.
    return [
        (f"sum({row.steps(total)})", 1),
        (f"count({row.null_if_missing_sql(total.column)})", -total.center),
    ]


GROUPED: dict[type[Aggregate], Callable[[Row, Any], Totals]] = {
    Count: _count_terms,
    Sum: _sum_terms,
}
"""The function for each aggregate class whose total is faster to compute for a whole group."""


def group_total_terms(row: Row, aggregate: Aggregate) -> Totals:
    """Return the SQL terms whose sum is the total of an aggregate over a group of rows.

    A term that is NULL adds nothing.
    """
    write = GROUPED.get(type(aggregate))
    return (
        [(f"sum({row_value_sql(row, aggregate)})", 1)] if write is None else write(row, aggregate)
    )


def values_key(aggregate: Aggregate) -> object:
    """Return a key that is equal for two aggregates that select among the same values of rows."""
    return WRITERS[type(aggregate)], aggregate.column
