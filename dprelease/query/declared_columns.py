"""What columns of one query ask for, and what a table says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar, cast

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.grouping.group_keys import Key, key_of
from dprelease.query.measurement import Form
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.field_types import DROP
from dprelease.schema.number_bounds import Lattice
from dprelease.schema.table import Table

Part = tuple[str, Aggregate]
"""What a measurement is called after its column, if not as that, and what it measures."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """One declared column: the word that it asks by, and the columns of the table that it names."""

    name: str
    kind: str
    columns: tuple[str, ...]
    spec: ColumnSpec

    @classmethod
    def of(cls, name: str, spec: ColumnSpec) -> DeclaredColumn:
        """Return a declared column taken apart."""
        kind, column = spec.aggregate_and_column
        return cls(name, kind, column if isinstance(column, tuple) else (column,), spec)

    @property
    def column(self) -> str:
        """Return the first column that is named."""
        return self.columns[0]

    @property
    def has_own_noise(self) -> bool:
        """Return whether a mechanism or a price is declared for it alone."""
        own = (self.spec.mechanism, self.spec.epsilon, self.spec.rho)
        return any(x is not None for x in own)


@dataclass(frozen=True, slots=True)
class ColumnParts:
    """What a declared column becomes: its form, and the aggregates that it is computed from.

    `at`: the part of the values that lie below, of a quantile that is read from a tree.
    """

    form: Form
    parts: list[Part]
    at: Fraction | None = None


@dataclass
class DeclaredColumns:
    """The columns that one query asks of one table; what has no meaning is refused."""

    table: Table
    refuse: Callable[..., None]
    specs: Mapping[str, ColumnSpec]
    _known: dict[object, object] = field(default_factory=dict, init=False)

    @property
    def all_declared(self) -> list[DeclaredColumn]:
        """Return all declared columns of the query."""
        return [DeclaredColumn.of(name, spec) for name, spec in self.specs.items()]

    def once(self, find: Callable[[DeclaredColumns], Found]) -> Found:
        """Return what is found in all columns of the query together, which is looked for once."""
        if find not in self._known:
            self._known[find] = find(self)
        return cast("Found", self._known[find])

    def refuse_column(
        self, code: str, declared: DeclaredColumn, column: str = "", **fields: Any
    ) -> None:
        """Add a finding at the word by which a column asks."""
        named = {"column": column or declared.column, **fields}
        self.refuse(code, "columns", declared.name, declared.kind, **named)

    def lattice(self, declared: DeclaredColumn, column: str = "") -> Lattice | None:
        """Return the steps of a number with bounds; None for a finding."""
        name = column or declared.column
        values = self.table.columns[name]
        if not isinstance(values, IntegerColumn | NumberColumn):
            kind = getattr(values, "type", "cut")
            self.refuse_column("DP-QUERY-004", declared, name, kind=kind)
            return None
        if values.lattice is None:
            self.refuse_column("DP-QUERY-003", declared, name)
        return values.lattice

    def values(self, declared: DeclaredColumn) -> int | None:
        """Return how many declared values a column has; None for a finding."""
        column = declared.column
        key = key_of(column, self.table.columns[column])
        if not isinstance(key, Key) or column == self.table.unit.id:
            self.refuse_column("DP-QUERY-006", declared)
            return None
        return len(key.values)

    def drops(self, column: str) -> bool:
        """Return whether rows with a missing value are left out, nothing standing in for it."""
        return bool(getattr(self.table.columns[column], "nulls", DROP) == DROP)
