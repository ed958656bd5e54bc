"""The declared columns of one query, together with the declarations of the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar, cast

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import Key, KeySpace, key_of
from dprelease.query.measurement import Form, GroupKey
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.columns import (
    BooleanColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
)
from dprelease.schema.field_types import DROP
from dprelease.schema.number_bounds import Lattice
from dprelease.schema.table import Table

Part = tuple[str, Aggregate]
"""The suffix of a measurement's name, which may be empty, and the measurement's aggregate."""

Found = TypeVar("Found")

ORDERED = (IntegerColumn, NumberColumn, DateColumn, TimestampColumn)
"""The columns that have quantiles."""

SUMMABLE = (IntegerColumn, NumberColumn, BooleanColumn)
"""The columns that have sums and means."""


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """One declared column: its aggregate keyword, and the columns of the table that it names."""

    name: str
    kind: str
    columns: tuple[str, ...]
    spec: ColumnSpec

    @classmethod
    def of(cls, name: str, spec: ColumnSpec) -> DeclaredColumn:
        """Return a declared column split into its parts."""
        kind, column = spec.aggregate_and_column
        return cls(name, kind, column if isinstance(column, tuple) else (column,), spec)

    @property
    def column(self) -> str:
        """The first column of the table that the declared column names."""
        return self.columns[0]

    @property
    def has_own_noise(self) -> bool:
        """Whether the column declares its own mechanism or its own share of the budget."""
        own = (self.spec.mechanism, self.spec.epsilon, self.spec.rho)
        return any(x is not None for x in own)


@dataclass(frozen=True, slots=True)
class ColumnParts:
    """The form of a declared column, and the aggregates from which the column is computed.

    `at` is the fraction of values below the quantile, for a quantile that is read from a tree.
    `shares` are the parts' shares of the column's weight; without them, each part has all of it.
    `groups` are the keys in whose cells a total is computed.
    `unit` is the unit of the published values, if it does not follow from the units of the parts.
    `scale` is the factor of a sum of squares in a design variance.
    """

    form: Form
    parts: list[Part]
    at: Fraction | None = None
    shares: tuple[Fraction, ...] = ()
    groups: tuple[GroupKey, ...] = ()
    unit: str | None = None
    scale: Fraction = Fraction(1)


@dataclass
class DeclaredColumns:
    """The columns of one query over one table; columns without bounds or values are refused."""

    table: Table
    refuse: Callable[..., None]
    specs: Mapping[str, ColumnSpec]
    keys: KeySpace | None = None
    """The public keys of the table; None if its keys are private."""
    _known: dict[object, object] = field(default_factory=dict, init=False)

    @property
    def all_declared(self) -> list[DeclaredColumn]:
        """Return all declared columns of the query, in declared order."""
        return [DeclaredColumn.of(name, spec) for name, spec in self.specs.items()]

    def once(self, find: Callable[[DeclaredColumns], Found]) -> Found:
        """Return the result of a function of all columns, which is computed only once."""
        if find not in self._known:
            self._known[find] = find(self)
        return cast("Found", self._known[find])

    def refuse_column(
        self, code: str, declared: DeclaredColumn, column: str = "", **fields: Any
    ) -> None:
        """Add an error at the aggregate keyword of a column."""
        named = {"column": column or declared.column, **fields}
        self.refuse(code, "columns", declared.name, declared.kind, **named)

    def refuse_option(self, code: str, declared: DeclaredColumn, option: str) -> None:
        """Add an error at an option of a column."""
        named = {"column": declared.column, "option": option}
        self.refuse(code, "columns", declared.name, option, **named)

    def lattice(
        self, declared: DeclaredColumn, column: str = "", *, kinds: tuple[type, ...] = SUMMABLE
    ) -> Lattice | None:
        """Return the steps of a column with bounds; None if the column is refused.

        `kinds`: the kinds of columns that the aggregate reads. Steps of dates are days, those of
        timestamps are seconds, and those of booleans are 0 and 1.
        """
        name = column or declared.column
        values = self.table.columns[name]
        if not isinstance(values, (*ORDERED, BooleanColumn)) or not isinstance(values, kinds):
            kind = getattr(values, "type", "cut")
            self.refuse_column("DP-QUERY-004", declared, name, kind=kind)
            return None
        if values.lattice is None:
            self.refuse_column("DP-QUERY-003", declared, name)
        return values.lattice

    def value_count(self, declared: DeclaredColumn) -> int | None:
        """Return the number of declared values of a column; None if the column is refused."""
        column = declared.column
        key = key_of(column, self.table.columns[column])
        if not isinstance(key, Key) or column == self.table.unit.id:
            self.refuse_column("DP-QUERY-006", declared)
            return None
        return len(key.values)

    def droppable(self, columns: Iterable[str], *others: str) -> tuple[str, ...]:
        """Return which columns, in order of names and without `others`, may be missing in a row."""
        names = sorted(set(columns) - set(others))
        return tuple(name for name in names if self.drops_missing(name))

    def drops_missing(self, column: str) -> bool:
        """Return whether rows with a missing value are left out, because nothing replaces it."""
        return bool(getattr(self.table.columns[column], "fill", DROP) == DROP)
