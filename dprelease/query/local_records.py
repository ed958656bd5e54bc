"""Records that are published one by one (`mode: local`): columns, values and sensitivities.

In the local model, neighbouring tables differ in the content of one record. The number of records
is public, and their order is random. So nothing in a record may decide whether the record is
published: there is no predicate, and a declared value replaces a missing or undeclared value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.errors import DpReleaseError, QueryError, raise_all
from dprelease.privacy.unit import Move, Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.sum import Sum
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.grouping.group_keys import Key, KeySpace, key_of
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    expression_of,
)
from dprelease.schema.field_types import DROP
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.mechanism import MechanismSpec
from dprelease.schema.release_parts.local_and_federated import RecordColumnSpec, RecordsSpec

RANDOMIZED_RESPONSE = "randomized_response"
MOST_VALUES = 2**20


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """One published column of records: numbers in steps, or public values.

    `key` has the public values, or is None for numbers. The published integers are the numbers
    `low`..`high` in steps, or the positions 0..n-1 of the public values. `measurement` says how far
    one record can change them.
    """

    measurement: Measurement
    low: int
    high: int
    key: Key | None = None

    @property
    def name(self) -> str:
        """The name of the column, in the source and in the published file."""
        return self.measurement.name

    @property
    def value_count(self) -> int:
        """The number of values that a record can have in this column."""
        return self.high - self.low + 1

    @property
    def is_response(self) -> bool:
        """Whether a randomized response is published, instead of a number with noise."""
        return self.measurement.mechanism.name == RANDOMIZED_RESPONSE


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one table; `query` has their columns as measurements, for plan and ledger."""

    query: Query
    columns: tuple[RecordColumn, ...]

    @property
    def name(self) -> str:
        """The name of the published records."""
        return self.query.name

    @property
    def declared(self) -> Declared:
        """The declared table that holds the records."""
        return self.query.declared


def resolve_records(declaration: Declaration) -> tuple[Records, ...]:
    """Return the records of a release of mode `local`, in declared order.

    Raises QueryError or Findings: DP-LOCAL-001 to 006 and DP-QUERY-001; all errors are raised
    together.
    """
    errors: list[DpReleaseError] = []
    if declaration.spec.budget.neighbours is not Neighbours.REPLACE:
        errors.append(QueryError("DP-LOCAL-001", place=declaration.place("budget")))
    records = []
    for name, spec in declaration.spec.records.items():
        resolver = _Resolver(declaration, name, declaration.tables[spec.source], errors)
        records.append(resolver.records(spec))
    raise_all(errors)
    return tuple(records)


@dataclass(frozen=True)
class _Resolver:
    """The declared records of one name, which are checked column by column."""

    declaration: Declaration
    name: str
    declared: Declared
    errors: list[DpReleaseError]

    def records(self, records_spec: RecordsSpec) -> Records:
        """Return the checked records; errors are collected in `errors`."""
        table = self.declared.table
        if table.unit.id is not None:
            self._refuse("DP-LOCAL-002", "from", table=table.name, id=table.unit.id)
        columns = []
        for name, spec in records_spec.columns.items():
            if name not in table.columns:
                self._refuse("DP-QUERY-001", "columns", name, **unknown_column(table, name))
                continue
            column = self._record_column(name, table.columns[name], spec)
            if column is not None:
                columns.append(column)
        query = Query(
            name=self.name,
            declared=self.declared,
            predicate=None,
            keys=KeySpace(()),
            unit=PrivacyUnit(),
            neighbours=Neighbours.REPLACE,
            measurements=tuple(column.measurement for column in columns),
            columns=(),
        )
        return Records(query, tuple(columns))

    def _refuse(self, code: str, *keys: str | int, **fields: Any) -> None:
        """Add an error about a key of the declared records."""
        place = self.declaration.place("records", self.name, *keys)
        self.errors.append(QueryError(code, place=place, **fields))

    def _record_column(
        self, name: str, column: Column, spec: RecordColumnSpec
    ) -> RecordColumn | None:
        """Return the checked column; None if it is refused."""
        keys = ("columns", name)
        open_keys = _dropping_options(column)
        noise = spec.mechanism or _default_mechanism(column, self.declaration.spec.mechanism)
        resolved: RecordColumn | str
        read = self.declared.table.columns[column.cut] if isinstance(column, CutColumn) else column
        if expression_of(read) is not None:
            self._refuse("DP-LOCAL-004", *keys, column=name, reason="it is computed from others")
            return None
        if isinstance(column, IntegerColumn | NumberColumn):
            resolved = _number_column(name, column, noise, spec)
        else:
            resolved = _value_column(name, column, noise, spec)
        if isinstance(resolved, str):
            self._refuse("DP-LOCAL-004", *keys, column=name, reason=resolved)
            return None
        if open_keys:
            self._refuse("DP-LOCAL-003", *keys, column=name, keys=" and ".join(open_keys))
        if resolved.key is not None and not resolved.is_response:
            kind, known = "public values, not numbers", RANDOMIZED_RESPONSE
            self._refuse(
                "DP-LOCAL-005", *keys, column=name, kind=kind, mechanism=noise.name, known=known
            )
            return None
        if resolved.value_count < 2 or (
            resolved.is_response and resolved.value_count > MOST_VALUES
        ):
            count = f"{resolved.value_count:,}"
            self._refuse("DP-LOCAL-006", *keys, column=name, found=count, limit=f"{MOST_VALUES:,}")
            return None
        return resolved


def _default_mechanism(column: Column, default: MechanismSpec) -> MechanismSpec:
    """Return a column's default mechanism: the release's for numbers, else randomized response."""
    numbers = isinstance(column, IntegerColumn | NumberColumn)
    return default if numbers else MechanismSpec(name=RANDOMIZED_RESPONSE)


def _dropping_options(column: Column) -> list[str]:
    """Return the YAML keys of a column whose settings would drop records."""
    names = ["`fill`", "`others`"] if isinstance(column, CategoryColumn | CutColumn) else ["`fill`"]
    return [name for name in names if getattr(column, name.strip("`"), DROP) == DROP]


def _number_column(
    name: str, column: IntegerColumn | NumberColumn, noise: MechanismSpec, spec: RecordColumnSpec
) -> RecordColumn | str:
    """Return the record column of numbers, or a text that says why it is refused."""
    lattice = column.lattice
    if lattice is None:
        return "it has no bounds"
    aggregate = Sum.of(name, lattice)
    # Randomized response may replace a value by any other, so distances do not matter.
    shift = 1 if noise.name == RANDOMIZED_RESPONSE else max(1, lattice.upper - lattice.lower)
    measurement = _measurement(name, aggregate, shift, column.unit or "", noise, spec)
    return RecordColumn(measurement, lattice.lower, lattice.upper)


def _value_column(
    name: str, column: Column, noise: MechanismSpec, spec: RecordColumnSpec
) -> RecordColumn | str:
    """Return the record column of public values, or a text that says why it is refused."""
    if not isinstance(column, BooleanColumn | CategoryColumn | CutColumn | DateColumn):
        return f"a column of type {getattr(column, 'type', 'cut')} has no public values"
    key = key_of(name, column)
    if isinstance(key, str):
        return key
    count = len(key.values)
    measurement = _measurement(name, Sum(name, 0, count - 1, Fraction(1)), 1, "", noise, spec)
    return RecordColumn(measurement, 0, count - 1, key)


def _measurement(
    name: str, aggregate: Sum, shift: int, unit: str, noise: MechanismSpec, spec: RecordColumnSpec
) -> Measurement:
    """Return the measurement of one value of a record, which moves by at most `shift`."""
    return Measurement(
        name=name,
        aggregate=aggregate,
        sensitivity=Sensitivity(1, (Move(shift, 1),)),
        unit=unit,
        mechanism=noise,
        weight=spec.weight,
        charged_column=name,
    )
