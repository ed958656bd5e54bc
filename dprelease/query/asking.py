"""What columns of one query ask for, and what a table says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar, cast

from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.keys import Key, key_of
from dprelease.query.measurement import Form
from dprelease.schema.asked import ColumnSpec
from dprelease.schema.columns import IntegerColumn, Lattice, NumberColumn
from dprelease.schema.field_types import DROP
from dprelease.schema.table import Table

Part = tuple[str, Aggregate]
"""What a measurement is called after its column, if not as that, and what it measures."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One declared column: the word that it asks by, and the columns of the table that it names."""

    name: str
    kind: str
    columns: tuple[str, ...]
    spec: ColumnSpec

    @classmethod
    def of(cls, name: str, spec: ColumnSpec) -> Wanted:
        """Return a declared column taken apart."""
        kind, column = spec.asked
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
class Asked:
    """How a column is computed, and from which aggregates; `at`: of a quantile read from many."""

    form: Form
    parts: list[Part]
    at: Fraction | None = None


@dataclass
class Asking:
    """The columns that one query asks of one table; what has no meaning is refused."""

    table: Table
    refuse: Callable[..., None]
    columns: Mapping[str, ColumnSpec]
    _known: dict[object, object] = field(default_factory=dict, init=False)

    @property
    def all_wanted(self) -> list[Wanted]:
        """Return all declared columns of the query."""
        return [Wanted.of(name, spec) for name, spec in self.columns.items()]

    def once(self, find: Callable[[Asking], Found]) -> Found:
        """Return what is found in all columns of the query together, which is looked for once."""
        if find not in self._known:
            self._known[find] = find(self)
        return cast("Found", self._known[find])

    def refused(self, code: str, wanted: Wanted, column: str = "", **fields: Any) -> None:
        """Add a finding at the word by which a column asks."""
        named = {"column": column or wanted.column, **fields}
        self.refuse(code, "columns", wanted.name, wanted.kind, **named)

    def lattice(self, wanted: Wanted, column: str = "") -> Lattice | None:
        """Return the steps of a number with bounds; None for a finding."""
        name = column or wanted.column
        declared = self.table.columns[name]
        if not isinstance(declared, IntegerColumn | NumberColumn):
            kind = getattr(declared, "type", "cut")
            self.refused("DP-QUERY-004", wanted, name, kind=kind)
            return None
        if declared.lattice is None:
            self.refused("DP-QUERY-003", wanted, name)
        return declared.lattice

    def values(self, wanted: Wanted) -> int | None:
        """Return how many declared values a column has; None for a finding."""
        column = wanted.column
        key = key_of(column, self.table.columns[column])
        if not isinstance(key, Key) or column == self.table.unit.id:
            self.refused("DP-QUERY-006", wanted)
            return None
        return len(key.values)

    def drops(self, column: str) -> bool:
        """Return whether rows with a missing value are left out, nothing standing in for it."""
        return bool(getattr(self.table.columns[column], "nulls", DROP) == DROP)
