"""Which aggregates a declared column asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregate import (
    Aggregate,
    Count,
    CountDistinct,
    Frequent,
    Quantile,
    SquareSum,
    Sum,
    Tree,
)
from dprelease.query.keys import Key, key_of
from dprelease.query.measurement import Form
from dprelease.query.used_columns import unknown_column
from dprelease.schema.asked import ColumnSpec
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.field_types import DROP
from dprelease.schema.table import Table

MANY_QUANTILES = 9
"""Quantiles of one column from which on a tree has the smaller errors in ranks.

k choices by the exponential mechanism err by about k ln(candidates) rows over epsilon, a path
through a tree of d levels by about sqrt(2 d) d: for 2^10 to 2^18 candidates these meet at 7 to 9
quantiles, for pure budgets as for others, where both grow by the square roots.
"""

MOST_CANDIDATES = 2**18
"""Values among which a quantile is chosen; finer lattices are thinned out."""

Part = tuple[str, Aggregate]
"""What a measurement is called after its column, and what it measures."""

Parts = tuple[Form, list[Part]]


@dataclass
class Asking:
    """Turns declared columns of one table into aggregates; what has no meaning is refused."""

    table: Table
    refuse: Callable[..., None]
    centred_anyway: frozenset[str] = frozenset()
    """Columns whose centred sums and counts are measured in any case."""
    trees: frozenset[str] = frozenset()
    """Columns of which so many quantiles are asked that a tree of counts answers them better."""

    def parts(self, name: str, spec: ColumnSpec) -> Parts | None:
        """Return how a column is computed, and from which aggregates; None for a finding."""
        kind, column = spec.asked
        if kind == "count" and column == "*":
            return Form.MEASURED, [("", Count())]
        names = column if isinstance(column, tuple) else (column,)
        for one in names:
            if one not in self.table.columns:
                unknown = unknown_column(self.table, one)
                self.refuse("DP-QUERY-001", "columns", name, kind, **unknown)
                return None
        (first, *others) = names
        ways: dict[str, Callable[[], Parts | None]] = {
            "count": lambda: (Form.MEASURED, [("", Count(first))]),
            "count_distinct": lambda: self._count_distinct(name, first),
            "sum": lambda: self._sum(name, spec, first),
            "ratio": lambda: self._ratio(name, first, *others),
            **dict.fromkeys(("mode", "top_k"), lambda: self._frequent(name, kind, first, spec)),
            **dict.fromkeys(
                ("mean", "variance", "stddev"), lambda: self._moments(name, kind, first)
            ),
        }
        return ways.get(kind, lambda: self._quantile(name, kind, first, spec))()

    def _moments(self, name: str, kind: str, column: str) -> Parts | None:
        total = self._total(name, kind, column)
        if total is None:
            return None
        centred = _centred(total)
        parts: list[Part] = [("sum", centred), ("count", self._entering(total.column))]
        if kind == "mean":
            return Form.MEAN, parts
        return Form(kind), [("squares", SquareSum.of(centred)), *parts]

    def _sum(self, name: str, spec: ColumnSpec, column: str) -> Parts | None:
        """Return the sum itself, or the centred sum and the count that other columns need anyway.

        Both have half the noise each that the sum would have had beside them.
        """
        total = self._total(name, "sum", column)
        if total is None:
            return None
        own = (spec.mechanism, spec.epsilon, spec.rho, spec.margin_wanted)
        shared = total.column in self.centred_anyway and all(x is None for x in own)
        centred = _centred(total)
        if not shared or centred.least == total.least:
            return Form.MEASURED, [("", total)]
        return Form.SUM, [("sum", centred), ("count", self._entering(total.column))]

    def _ratio(self, name: str, over: str, under: str) -> Parts | None:
        """Return both sums over the rows in which both columns are present, as for one pair each.

        A row with one of them missing would count in the other: a ratio of two populations.
        """
        first, second = (self._total(name, "ratio", column) for column in (over, under))
        if first is None or second is None:
            return None
        pairs = (("over", first, under), ("under", second, over))
        return Form.RATIO, [(label, self._beside(total, other)) for label, total, other in pairs]

    def _beside(self, total: Sum, other: str) -> Sum:
        """Return a sum over rows with `other`; unchanged where that can't be missing."""
        dropped = getattr(self.table.columns[other], "nulls", DROP) == DROP
        return replace(total, beside=other) if dropped and other != total.column else total

    def _entering(self, column: str) -> Count:
        """Return the count of rows that enter a sum: all, if something stands in for missing."""
        declared = self.table.columns[column]
        return Count(column) if getattr(declared, "nulls", DROP) == DROP else Count()

    def _total(self, name: str, kind: str, column: str) -> Sum | None:
        declared = self.table.columns[column]
        keys = ("columns", name, kind)
        if not isinstance(declared, IntegerColumn | NumberColumn):
            found = getattr(declared, "type", "cut")
            self.refuse("DP-QUERY-004", *keys, column=column, kind=found)
            return None
        lattice = declared.lattice
        if lattice is None:
            self.refuse("DP-QUERY-003", *keys, column=column)
            return None
        return Sum(column, lattice.lower, lattice.upper, lattice.step)

    def _count_distinct(self, name: str, column: str) -> Parts | None:
        if column == self.table.unit.id:
            return Form.MEASURED, [("", CountDistinct(column, None))]
        key = key_of(column, self.table.columns[column])
        if not isinstance(key, Key):
            self.refuse("DP-QUERY-006", "columns", name, "count_distinct", column=column)
            return None
        return Form.MEASURED, [("", CountDistinct(column, len(key.values)))]

    def _quantile(self, name: str, kind: str, column: str, spec: ColumnSpec) -> Parts | None:
        total = self._total(name, kind, column)
        if total is None:
            return None
        stride = -(-(total.upper - total.lower + 1) // MOST_CANDIDATES)
        if column in self.trees and 0 < spec.at < 1 and not _own(spec):
            tree = Tree(column, total.lower, total.upper, total.step, stride)
            return Form.QUANTILE, [("tree", tree)]
        found = Quantile(column, total.lower, total.upper, total.step, spec.at, stride)
        return Form.MEASURED, [("", found)]

    def _frequent(self, name: str, kind: str, column: str, spec: ColumnSpec) -> Parts | None:
        key = key_of(column, self.table.columns[column])
        if not isinstance(key, Key) or column == self.table.unit.id:
            self.refuse("DP-QUERY-006", "columns", name, kind, column=column)
            return None
        if spec.ranks > len(key.values):
            self.refuse(
                "DP-QUERY-012", "columns", name, kind,
                column=column, asked=spec.ranks, values=len(key.values),
            )  # fmt: skip
            return None
        parts: list[Part] = [
            (str(rank), Frequent(column, len(key.values), rank))
            for rank in range(1, spec.ranks + 1)
        ]
        return Form.CANDIDATE, parts


def _centred(total: Sum) -> Sum:
    """Return the sum around the middle of the bounds, which has the least sensitivity."""
    middle = (total.lower + total.upper) // 2
    return Sum(total.column, total.lower, total.upper, total.step, middle)


def columns_with_moments(columns: dict[str, ColumnSpec]) -> frozenset[str]:
    """Return the columns whose centred sums and counts are measured for a mean or a variance."""
    found = set()
    for spec in columns.values():
        kind, column = spec.asked
        own = (spec.mechanism, spec.epsilon, spec.rho)
        if kind in ("mean", "variance", "stddev") and all(x is None for x in own):
            found.add(str(column))
    return frozenset(found)


def columns_with_trees(columns: Mapping[str, ColumnSpec], unit: PrivacyUnit) -> frozenset[str]:
    """Return the columns whose quantiles are read from a tree of counts."""
    asked: dict[str, set[Fraction]] = {}
    for spec in columns.values():
        kind, column = spec.asked
        if kind in ("quantile", "median") and 0 < spec.at < 1 and not _own(spec):
            asked.setdefault(str(column), set()).add(spec.at)
    many = {column for column, parts in asked.items() if len(parts) >= MANY_QUANTILES}
    return frozenset(many) if unit.max_rows_per_group == 1 else frozenset()


def _own(spec: ColumnSpec) -> bool:
    """Return whether a column asks for noise of its own."""
    return any(x is not None for x in (spec.mechanism, spec.epsilon, spec.rho))
