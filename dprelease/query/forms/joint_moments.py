"""Covariances, correlations and linear regressions, from moments of several columns.

All moments are around the middle of the bounds, over the rows in which no column is missing. With
z = (1, x1 - c1, ..., y - c), they are the entries of the matrix G, the sum of z z' over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dprelease.query.aggregates.aggregate import unit_of
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.product_sum import ProductSum
from dprelease.query.aggregates.sum import Sum
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns, Part
from dprelease.query.measurement import Form, OutputColumn

Entry = tuple[int, int]
"""Row and column of an entry of G; 0 stands for the constant 1."""


def _text(what: str, column: OutputColumn) -> str:
    return f"{what} from the moments {', '.join(column.part_names)}"


@dataclass(frozen=True, slots=True)
class Covariance(Form):
    """A sample covariance (ddof 1) of two columns."""

    on_lattice: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return what is computed, and from which moments."""
        return _text("sample covariance", column)


@dataclass(frozen=True, slots=True)
class PopulationCovariance(Form):
    """A covariance of the rows themselves (ddof 0)."""

    on_lattice: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return what is computed, and from which moments."""
        return _text("population covariance", column)


@dataclass(frozen=True, slots=True)
class Correlation(Form):
    """A correlation of two columns, within -1 and 1."""

    on_lattice: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return what is computed, and from which moments."""
        return _text("correlation", column)


@dataclass(frozen=True, slots=True)
class Slope(Form):
    """The coefficient of the first predictor in a linear regression by least squares."""

    on_lattice: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True
    has_open_ends: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return what is computed, and from which moments."""
        return _text("slope of a linear regression", column) + NO_SAMPLING_ERROR


@dataclass(frozen=True, slots=True)
class Intercept(Form):
    """The constant of a linear regression by least squares: the value where predictors are 0."""

    on_lattice: ClassVar[bool] = False
    is_signed: ClassVar[bool] = True
    has_open_ends: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return what is computed, and from which moments."""
        return _text("intercept of a linear regression", column) + NO_SAMPLING_ERROR


NO_SAMPLING_ERROR = "; its interval covers the noise alone, and no sampling error"

COVARIANCE, COVARIANCE_POP, CORRELATION = Covariance(), PopulationCovariance(), Correlation()
SLOPE, INTERCEPT = Slope(), Intercept()
MOST_PREDICTORS = 5


def entries(form: Form, size: int) -> list[Entry]:
    """Return the entries that the parts of a column are, in their order; G has `size` rows.

    A covariance needs no sums of squares, and a regression none of y, which is the last.
    """
    unneeded: set[Entry] = set()
    if form in (COVARIANCE, COVARIANCE_POP):
        unneeded = {(i, i) for i in range(1, size)}
    elif form in (SLOPE, INTERCEPT):
        unneeded = {(size - 1, size - 1)}
    every = [(i, j) for i in range(size) for j in range(i, size)]
    return [entry for entry in every if entry not in unneeded]


def entries_of(column: OutputColumn) -> list[Entry]:
    """Return the entries of G that the parts of a column are, in their order."""
    found = (entries(column.form, size) for size in range(3, MOST_PREDICTORS + 3))
    return next(one for one in found if len(one) == len(column.parts))


def _joint_parts(
    columns: DeclaredColumns, declared: DeclaredColumn, form: Form, names: Sequence[str]
) -> list[Part] | None:
    """Return the moments of columns, of which y is the last; None if a column is refused."""
    lattices = [columns.lattice(declared, name) for name in names]
    sums = [
        Sum.of(name, lattice).centered_sum
        for name, lattice in zip(names, lattices, strict=True)
        if lattice is not None
    ]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        columns.refuse_column("DP-QUERY-024", declared, twice)
    if twice is not None or len(sums) < len(names):
        return None
    parts: list[Part] = []
    for i, j in entries(form, len(names) + 1):
        beside = columns.droppable(names, *(names[one - 1] for one in {i, j} - {0}))
        if j == 0:
            count = Count(beside[0], beside[1:]) if beside else Count()
            parts.append(("count", count))
        elif i == 0:
            parts.append((f"sum_{j}", replace(sums[j - 1], beside=beside)))
        elif i == j:
            squares = ProductSum.squares(sums[j - 1], beside)
            parts.append((f"squares_{j}", squares))
        else:
            product = ProductSum.of(sums[i - 1], sums[j - 1], beside)
            parts.append((f"products_{i}_{j}", product))
    return parts


Units = Callable[[str, str], str]
Parser = Callable[[DeclaredColumns, DeclaredColumn], ColumnParts | None]


def _parser(form: Form, unit: Units) -> Parser:
    """Return the function that returns the measurements of a form.

    `unit`: the unit of the result, from that of y and that of the first predictor.
    """

    def parts_of(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
        """Return the measurements of a column of this form; None if it is refused."""
        outcome, *predictors = declared.columns
        parts = _joint_parts(columns, declared, form, [*predictors, outcome])
        if parts is None:
            return None
        units = (unit_of(name, columns.table.columns) for name in (outcome, predictors[0]))
        return ColumnParts(form, parts, unit=unit(*units))

    return parts_of


def _product(y: str, x: str) -> str:
    """Return the unit of a product."""
    return " x ".join(unit for unit in (y, x) if unit)


def _quotient(y: str, x: str) -> str:
    """Return the unit of a quotient."""
    return f"{y or 1} / {x}" if x else y


BY_WORD: dict[str, Parser] = {
    "covariance": _parser(COVARIANCE, _product),
    "covariance_pop": _parser(COVARIANCE_POP, _product),
    "correlation": _parser(CORRELATION, lambda _y, _x: ""),
    "slope": _parser(SLOPE, _quotient),
    "intercept": _parser(INTERCEPT, lambda y, _x: y),
}
