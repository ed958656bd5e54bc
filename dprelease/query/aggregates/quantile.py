"""Quantiles: each selected by itself, or many read from a tree of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import ROWS, Aggregate, unit_of
from dprelease.query.aggregates.tree_of_counts import Tree
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.forms.single_part import MEASURED, READ_FROM_TREE
from dprelease.schema.columns import Column
from dprelease.schema.number_bounds import Lattice

MANY_QUANTILES = 9
"""Quantiles of one column from which on a tree has the smaller errors in ranks.

k selections by the exponential mechanism err by about k ln(candidates) rows over epsilon, a path
through a tree of d levels by about sqrt(2 d) d. For 2^10 to 2^18 candidates these are equal at 7 to
9 quantiles, for pure budgets and for others, where both grow by the square roots.
"""

MOST_CANDIDATES = 2**18
"""Maximum number of candidates for a quantile; finer steps are thinned out."""


@dataclass(frozen=True, slots=True)
class Quantile(Aggregate):
    """A value that holds the rank `at` = a/b: at most that fraction of the values lies below it.

    Candidates are `lower` + i `stride` for i = 0..`last`, in steps of the column; values are
    rounded down to the nearest candidate. Of n values, L lie below a candidate and E are tied with
    it, so that it holds the ranks L to L + E. Its score is minus the distance of the rank a n / b
    from these, b points per row: u = -max(0, f, g), f = b L - a n - c, g = a n + d - b (L + E),
    with constants c = d = 0 except at the ends (`planning/quantile_target.py`). It is 0 exactly for
    true quantiles, however many values tie.

    How far one row moves two scores apart, for any constants c and d, with m = max(a, b - a):

    * A value v is added. Below v, f falls and g rises by a; above v, f rises and g falls by b - a:
      the largest of (0, f, g) moves by no more than its parts. At v, f falls by a and g by b - a: u
      rises by 0 to m. All moves lie in [-m, m], so two scores move apart by at most 2 m. Removing a
      value does the reverse.
    * A value moves from v to w > v, n being the same. Between them f falls and g rises by b: u
      moves by b at most. At v only g rises, by b; at w only f falls, by b; all others stay. So two
      scores move apart by at most 2 b. From w to v is the reverse.
    * Several rows of a privacy unit do so one after another, and the movements add up at most. Of k
      rows that are replaced by j others, the smaller number moves and the rest is added or removed:
      2 m <= 2 b.
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

    @property
    def step(self) -> Fraction:
        """Return the step between candidates, in the column's unit."""
        return self.base

    @property
    def error_step(self) -> Fraction:
        """Return one point of score in ranks: b points are one row."""
        return Fraction(1, self.at.denominator)

    @property
    def candidates(self) -> int:
        """Return the number of selectable values."""
        return (self.upper - self.lower) // self.stride + 1

    @property
    def part(self) -> Fraction:
        """Return the fraction of values below."""
        return self.at

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return how far one privacy unit can move two scores of a cell apart, and in how many."""
        a, b = self.at.numerator, self.at.denominator
        rows = unit.max_rows_per_group
        return Sensitivity.of(
            per_group=rows * 2 * max(a, b - a),
            within_group=rows * 2 * b,
            unit=unit,
            neighbours=neighbours,
            cells=cells,
        )

    @property
    def words(self) -> str:
        """Return which value is selected, and among which."""
        stride_text = plain_text(self.stride * self.base)
        among = (
            f", among values {stride_text} apart, rounded down to these" if self.stride > 1 else ""
        )
        if self.at in (0, 1):
            end = "largest" if self.at else "smallest"
            return f"about the {end} value of '{self.column}', rather inside than outside{among}"
        which = "median" if self.at == Fraction(1, 2) else f"{plain_text(self.at)} quantile"
        return f"the {which} of '{self.column}', up to the error in ranks{among}"

    @property
    def lattice(self) -> Lattice:
        """Return the steps of the values."""
        return Lattice(lower=self.lower, upper=self.upper, step=self.base)

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the column's unit."""
        return unit_of(self.column, columns)

    def each(self, rows: int) -> str:
        """Return, in words, the contribution of one privacy unit to a group."""
        return f"{rows} rows that move the difference of any two scores"


def _quantile(columns: DeclaredColumns, declared: DeclaredColumn) -> ColumnParts | None:
    lattice = columns.lattice(declared)
    if lattice is None:
        return None
    column, at = declared.column, declared.spec.at
    stride = -(-(lattice.upper - lattice.lower + 1) // MOST_CANDIDATES)
    ends = column, lattice.lower, lattice.upper, lattice.step
    if _from_tree(declared) and column in columns.once(columns_with_trees):
        return ColumnParts(READ_FROM_TREE, [("tree", Tree(*ends, stride))], at)
    return ColumnParts(MEASURED, [("", Quantile(*ends, at, stride))])


def columns_with_trees(columns: DeclaredColumns) -> frozenset[str]:
    """Return the columns with so many quantiles that a tree answers them better."""
    parts: dict[str, set[Fraction]] = {}
    for declared in columns.all_declared:
        if declared.kind in ("quantile", "median") and _from_tree(declared):
            parts.setdefault(declared.column, set()).add(declared.spec.at)
    many = {column for column, quantiles in parts.items() if len(quantiles) >= MANY_QUANTILES}
    return frozenset(many) if columns.table.unit.max_rows_per_group == 1 else frozenset()


def _from_tree(declared: DeclaredColumn) -> bool:
    """Return whether a tree can answer it: neither minimum nor maximum, and no noise of its own."""
    return 0 < declared.spec.at < 1 and not declared.has_own_noise


BY_WORD = dict.fromkeys(("quantile", "median", "min", "max"), _quantile)
