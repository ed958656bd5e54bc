"""What one row adds to a sum, or which candidate it stands for, from its lattice steps."""

from __future__ import annotations

from dprelease.query import quoting
from dprelease.query.aggregate import Quantile, SquareSum, Sum, Tree

WIDEST = 2**62
"""Differences below it fit 64 bits."""

NARROW = 2**31
"""Differences below it have squares that fit 64 bits."""


def lattice_of(aggregate: Sum | SquareSum | Quantile | Tree) -> Sum:
    """Return the lattice of the column's values."""
    if isinstance(aggregate, Sum):
        return aggregate
    return Sum(aggregate.column, aggregate.lower, aggregate.upper, aggregate.base)


def row_value(aggregate: Sum | SquareSum | Quantile | Tree, steps: str) -> str:
    """Return a BIGINT from a BIGINT of lattice steps within the bounds; NULL stays NULL."""
    if isinstance(aggregate, Sum):
        return f"({steps}) - {quoting.integer(aggregate.center)}" if aggregate.center else steps
    if isinstance(aggregate, Quantile | Tree):
        wide = "BIGINT" if aggregate.upper - aggregate.lower < WIDEST else "HUGEINT"
        moved = f"(CAST({steps} AS {wide}) - {quoting.integer(aggregate.lower)})"
        return f"CAST({moved} // {aggregate.stride} AS BIGINT)" if aggregate.stride > 1 else moved
    return _square(aggregate, steps)


def _square(aggregate: SquareSum, steps: str) -> str:
    """Return round((x - center)^2 / coarse) - offset, half up, in whole numbers that can't wrap."""
    reach = max(abs(aggregate.lower - aggregate.center), abs(aggregate.upper - aggregate.center))
    wide = "BIGINT" if reach < NARROW else "HUGEINT"
    x = f"(CAST({steps} AS {wide}) - {quoting.integer(aggregate.center)})"
    square = f"{x} * {x}"
    if aggregate.coarse > 1:
        square = f"({square} + {aggregate.coarse // 2}) // {aggregate.coarse}"
    return f"CAST({square} - {aggregate.offset} AS BIGINT)"
