"""Quantiles: each is selected by itself, or many are read from one tree of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate, time_unit_of, unit_of
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.declared_columns import ORDERED, ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import QUANTILE, READ_FROM_TREE
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

MANY_QUANTILES = 9
"""The number of quantiles of one column without intervals from which on a tree has smaller errors.

k selections by the exponential mechanism err by about k ln(candidates) / epsilon rows, and a path
through a tree of d levels by about sqrt(2 d) d / epsilon rows. For 2^10 to 2^18 candidates these
errors are equal at 7 to 9 quantiles. The same holds for budgets with a delta or a rho, where both
errors grow by the square roots.
"""

MANY_INTERVALS = 4
"""The number of quantiles of one column with intervals from which on a tree is more accurate.

All intervals are read from the same tree, but selections divide the budget by three times the
number of quantiles. By simulation, intervals are equally long at two quantiles for 2^7 candidates,
and at four to five for 2^18, and the values are equally accurate at two to three, and at five.
"""

INTERVAL_SHARES = (Fraction(1, 3),) * 3
"""Shares of the column's weight for a quantile and for the ends of its interval.

By simulation, a value errs by about a thirtieth of the width of its interval; with half of the
weight, it would err two thirds as much, but its interval would be a third wider.
"""

MOST_CANDIDATES = 2**18
"""Maximum number of candidates for a quantile; with finer steps, only every n-th is a candidate."""


OPTIONS_OF_NUMBERS = frozenset(
    ("non_negative", "round_to", "bottom_code", "top_code", "labels", "suppress_above", "decimals")
)
"""The options of columns that quantiles of dates and timestamps don't have."""


@dataclass(frozen=True, slots=True)
class Quantile(Aggregate):
    """A value that holds the rank `at` = a/b: at most the fraction a/b of the values lies below it.

    Candidates are `lower` + i `stride` for i = 0..`last`, in steps of the column; values are
    rounded down to the nearest candidate. Of n values, L lie below a candidate and E are tied with
    the candidate, which then holds the ranks L to L + E. The score u of a candidate is minus the
    distance of the rank a n / b from these ranks, with b points per row: u = -max(0, f, g), where
    f = b L - a n - c and g = a n + d - b (L + E). The constants c and d are 0, and the score is 0
    exactly for true quantiles, however many values are tied.

    The ends of an interval around the quantile are candidates too, for a shifted rank with other
    constants c and d (`planning/quantile_target.py`). A lower end has one more candidate, below all
    values, with u = -max(0, g) and L = E = 0; an upper end has one above all values, with
    u = -max(0, f) and L = n. A minimum is the upper end of the quantile 0, and a maximum the lower
    end of the quantile 1.

    How far one row moves two scores apart, for any constants c and d, with m = max(a, b - a), also
    if f or g is left out:

    * A value v is added. Below v, f falls and g rises by a; above v, f rises and g falls by b - a:
      the largest of (0, f, g) moves by no more than its parts. At v, f falls by a and g by b - a: u
      rises by 0 to m. All moves lie in [-m, m], so two scores move apart by at most 2 m. Removing a
      value does the reverse.
    * A value moves from v to w > v, and n stays the same. Between v and w, f falls and g rises by
      b, so u moves by at most b. At v only g rises, by b; at w only f falls, by b; the scores of
      all other candidates stay. So two scores move apart by at most 2 b. A move from w to v does
      the reverse.
    * Several rows of a privacy unit change one after another, and their movements at most add up.
      If k rows are replaced by j other rows, min(k, j) rows move and the others are added or
      removed, where 2 m <= 2 b.
    """

    is_vector: ClassVar[bool] = False
    is_choice: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[str, ...]] = ("exponential",)
    error_unit: ClassVar[str] = ROWS

    column: str
    lower: int
    upper: int
    base: Fraction
    at: Fraction
    stride: int = 1
    side: int = 0
    """-1 for the lower end of an interval that contains the quantile, 1 for the upper end."""
    confidence: Fraction = DEFAULT_CONFIDENCE
    """The confidence of the interval; it is unused in a quantile without an interval."""
    time_unit: str = ""

    @property
    def miss(self) -> Fraction:
        """The largest probability that an end of the interval misses the quantile.

        The lower end of a minimum and the upper end of a maximum are the column's bounds, so the
        other end may miss with the whole probability.
        """
        return (1 - self.confidence) / (1 if self.at in (0, 1) else 2)

    @property
    def step(self) -> Fraction:
        """The step between candidates, in the column's unit."""
        return self.base

    @property
    def error_step(self) -> Fraction:
        """The size of one point of the score in ranks: b points are one row."""
        return Fraction(1, self.at.denominator)

    @property
    def candidates(self) -> int:
        """The number of selectable values."""
        return (self.upper - self.lower) // self.stride + 1

    @property
    def part(self) -> Fraction:
        """The fraction of values below the quantile."""
        return self.at

    @property
    def interval_end(self) -> tuple[int, Fraction] | None:
        """The side of an end of an interval and `miss`; None for the value itself."""
        return (self.side, self.miss) if self.side else None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far a unit can move two scores of a cell apart, and in how many cells."""
        a, b = self.at.numerator, self.at.denominator
        rows = unit.most_rows_per_group
        return Sensitivity.of(
            per_row=2 * max(a, b - a),
            is_choice=True,
            per_group=rows * 2 * max(a, b - a),
            within_group=rows * 2 * b,
            unit=unit,
            neighbours=neighbours,
            cells=cells,
        )

    @property
    def description(self) -> str:
        """Return the description of the selected value and of the candidates."""
        stride_text = plain_text(self.stride * self.base)
        among = (
            f", among values {stride_text} apart, rounded down to these" if self.stride > 1 else ""
        )
        percent = f"{plain_text(100 * self.confidence)} %"
        if self.at in (0, 1):
            end, side = ("largest", "above") if self.at else ("smallest", "below")
            return (
                f"a value near the {end} value of '{self.column}', with {percent} confidence not "
                f"{side} it{among}"
            )
        which = "median" if self.at == Fraction(1, 2) else f"{plain_text(self.at)} quantile"
        if self.side:
            end = "upper" if self.side > 0 else "lower"
            return f"the {end} end of a {percent} interval of the {which} of '{self.column}'{among}"
        return f"the {which} of '{self.column}', up to the error in ranks{among}"

    @property
    def lattice(self) -> Lattice:
        """The steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def contribution_text(self, rows: int) -> str:
        """Return a text on what one privacy unit contributes to a group."""
        return f"{rows} rows that move the difference of any two scores"


def _quantile_parts(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    """Return the measurement of a quantile or its tree; None if the column has no bounds."""
    lattice = columns.lattice(declared, kinds=ORDERED)
    if lattice is None:
        return None
    column, at = declared.column, declared.spec.at
    time_unit = time_unit_of(columns.table.columns[column])
    if time_unit:
        _refuse_options_of_numbers(columns, declared)
    confidence = declared.spec.interval or DEFAULT_CONFIDENCE
    stride = -(-(lattice.upper - lattice.lower + 1) // MOST_CANDIDATES)
    bounds = column, lattice.lower, lattice.upper, lattice.step
    if at in (0, 1):
        end = Quantile(*bounds, at, stride, -1 if at else 1, confidence, time_unit)
        return ColumnParts(QUANTILE, [("", end)])
    if _can_use_tree(declared) and column in columns.once(columns_with_trees):
        return ColumnParts(READ_FROM_TREE, [("tree", Tree(*bounds, stride, time_unit))], at)
    value = Quantile(*bounds, at, stride, time_unit=time_unit)
    if declared.spec.interval is None:
        return ColumnParts(QUANTILE, [("", value)])
    ends = [
        (name, replace(value, side=side, confidence=confidence))
        for name, side in (("lower", -1), ("upper", 1))
    ]
    return ColumnParts(QUANTILE, [("", value), *ends], shares=INTERVAL_SHARES)


def _refuse_options_of_numbers(columns: DeclaredColumns, declared: DeclaredColumn) -> None:
    """Refuse the options of a column of dates or timestamps that compare or change numbers.

    A time has no zero, so that a part of it, a rounded time and a negative time mean nothing.
    """
    for option in OPTIONS_OF_NUMBERS & declared.spec.model_fields_set:
        columns.refuse_option("DP-QUERY-019", declared, option)


def columns_with_trees(columns: DeclaredColumns) -> frozenset[str]:
    """Return the columns with so many quantiles that a tree of counts gives smaller errors."""
    quantiles: dict[str, set[Fraction]] = {}
    intervals: dict[str, set[Fraction]] = {}
    for declared in columns.all_declared:
        if declared.kind in ("quantile", "median") and _can_use_tree(declared):
            quantiles.setdefault(declared.column, set()).add(declared.spec.at)
            if declared.spec.interval is not None:
                intervals.setdefault(declared.column, set()).add(declared.spec.at)
    many = {column for column, parts in quantiles.items() if len(parts) >= MANY_QUANTILES}
    many |= {column for column, parts in intervals.items() if len(parts) >= MANY_INTERVALS}
    return frozenset(many) if columns.table.unit.most_rows_per_group == 1 else frozenset()


def _can_use_tree(declared: DeclaredColumn) -> bool:
    """Return whether a column can be read from a tree: no minimum or maximum, no separate noise."""
    return 0 < declared.spec.at < 1 and not declared.has_own_noise


BY_WORD = dict.fromkeys(("quantile", "median", "min", "max"), _quantile_parts)
