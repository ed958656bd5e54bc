"""From a declared release to queries with exact sensitivities; opens no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dprelease.errors import DpReleaseError, Place, QueryError, raise_all
from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregate import Aggregate, Count, CountDistinct, Sum
from dprelease.query.columns import Formulas, Predicate, unknown_column
from dprelease.query.join import Join
from dprelease.query.keys import Key, KeySpace, key_of
from dprelease.query.post import NOTHING, PostProcessing
from dprelease.query.view import View, Views
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.release import ColumnSpec, Limits, MechanismSpec, QuerySpec
from dprelease.schema.table import Table

Placer = Callable[..., Place]

LARGEST_BASE = 2**61
"""Steps: noised values saturate at twice as many."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One column to publish: an exact vector of integers, one for each cell."""

    name: str
    aggregate: Aggregate
    sensitivity: Sensitivity
    unit: str
    mechanism: MechanismSpec
    weight: Fraction
    margin: Fraction | None
    wanted: Fraction | None = None
    """Declared margin of error, in the column's unit."""
    post: PostProcessing = NOTHING

    @property
    def step(self) -> Fraction:
        """Return the lattice step, in the column's unit."""
        return self.aggregate.step


@dataclass(frozen=True, slots=True)
class Query:
    """One table to publish; `declared` is the table of the source, `view` what the query sees."""

    name: str
    declared: Declared
    predicate: Predicate | None
    keys: KeySpace
    unit: PrivacyUnit
    neighbours: Neighbours
    measures: tuple[Measure, ...]
    view: Table | None = None
    formulas: Formulas = field(default_factory=dict)
    join: Join | None = None

    @property
    def table(self) -> Table:
        """Return the table that is asked, with computed and joined columns."""
        return self.view or self.declared.table

    @property
    def charged(self) -> tuple[Table, ...]:
        """Return the tables about people that the query reads."""
        if self.join is None or not self.join.by_unit:
            return (self.declared.table,)
        return (self.declared.table, self.join.declared.table)


def resolve(declaration: Declaration) -> tuple[Query, ...]:
    """Return the queries of a release, in declared order.

    Raises
    ------
    QueryError, Findings
        Every finding of every query, together.
    """
    spec = declaration.spec
    errors: list[DpReleaseError] = []
    queries = []
    views = Views(declaration.tables, errors)
    for name, asked in spec.tables_asked.items():

        def place(*keys: str | int, name: str = name) -> Place:
            return declaration.place("queries", name, *keys)

        view = views.of(declaration.tables[asked.source], asked, place)
        if view is None:
            continue
        resolver = _Resolver(view, place, errors)
        queries.append(
            resolver.query(name, asked, spec.mechanism, spec.budget.neighbours, spec.limits)
        )
    columns = sum(len(query.measures) for query in queries)
    if columns > spec.limits.max_columns:
        errors.append(
            QueryError(
                "DP-QUERY-009",
                place=declaration.place("queries"),
                columns=columns,
                limit=spec.limits.max_columns,
            )
        )
    raise_all(errors)
    return tuple(queries)


def resolve_one(
    declared: Declared,
    name: str,
    asked: QuerySpec,
    neighbours: Neighbours,
    limits: Limits,
    tables: Mapping[str, Declared] | None = None,
) -> Query:
    """Return one query that was not read from a file; raise its findings together.

    `tables`: those that it may join, by name.
    """
    errors: list[DpReleaseError] = []

    def place(*keys: str | int) -> Place:
        return Place(key=".".join(map(str, keys)))

    known = tables or {declared.table.name: declared}
    view = Views(known, errors).of(declared, asked, place)
    if view is None:
        raise_all(errors)
        raise AssertionError("a refused view has findings")
    query = _Resolver(view, place, errors).query(
        name, asked, MechanismSpec(name="auto"), neighbours, limits
    )
    raise_all(errors)
    return query


@dataclass(frozen=True)
class _Resolver:
    view: View
    place: Placer
    errors: list[DpReleaseError]

    @property
    def declared(self) -> Declared:
        return self.view.declared

    def query(
        self,
        name: str,
        asked: QuerySpec,
        default: MechanismSpec,
        neighbours: Neighbours,
        limits: Limits,
    ) -> Query:
        table = self.declared.table
        keys = KeySpace(tuple(self._keys(asked)))
        if keys.size > limits.max_cells:
            self._refuse("DP-QUERY-007", "group_by", cells=keys.size, limit=limits.max_cells)
        measures = []
        for column, spec in asked.columns.items():
            aggregate = self._aggregate(column, spec)
            if aggregate is None:
                continue
            sensitivity = aggregate.sensitivity(table.unit, neighbours, keys.size)
            if sensitivity.largest_shift == 0:
                self._refuse("DP-QUERY-005", "columns", column, column=column)
                continue
            measures.append(
                Measure(
                    name=column,
                    aggregate=aggregate,
                    sensitivity=sensitivity,
                    unit=self._unit(aggregate),
                    mechanism=spec.mechanism or default,
                    weight=spec.weight,
                    margin=spec.margin,
                    wanted=spec.margin_wanted,
                    post=self._post(column, spec, aggregate),
                )
            )
        return Query(
            name=name,
            declared=self.view.base,
            predicate=self._predicate(asked.where),
            keys=keys,
            unit=table.unit,
            neighbours=neighbours,
            measures=tuple(measures),
            view=table,
            formulas=self.view.formulas,
            join=self.view.join,
        )

    def _refuse(self, code: str, *keys: str | int, **fields: Any) -> None:
        self.errors.append(QueryError(code, place=self.place(*keys), **fields))

    def _keys(self, asked: QuerySpec) -> list[Key]:
        table, found = self.declared.table, []
        for i, column in enumerate(asked.group_by):
            if column in asked.group_by[:i]:
                self._refuse("DP-QUERY-008", "group_by", i, column=column)
            elif column not in table.columns:
                self._unknown(column, "group_by", i)
            elif column == table.unit.id:
                reason = "it names the privacy unit"
                self._refuse("DP-QUERY-002", "group_by", i, column=column, reason=reason)
            else:
                key = key_of(column, table.columns[column])
                if isinstance(key, Key):
                    found.append(key)
                else:
                    self._refuse("DP-QUERY-002", "group_by", i, column=column, reason=key)
        return found

    def _unknown(self, column: str, *keys: str | int) -> None:
        table = self.declared.table
        self._refuse("DP-QUERY-001", *keys, **unknown_column(table, column))

    def _aggregate(self, name: str, spec: ColumnSpec) -> Aggregate | None:
        table = self.declared.table
        kind, column = next(
            (kind, column)
            for kind in ("count", "sum", "count_distinct")
            if (column := getattr(spec, kind)) is not None
        )
        if kind == "count" and column == "*":
            return Count()
        if column not in table.columns:
            self._unknown(column, "columns", name, kind)
            return None
        if kind == "count":
            return Count(column)
        if kind == "sum":
            return self._sum(name, column)
        return self._count_distinct(name, column)

    def _post(self, name: str, spec: ColumnSpec, aggregate: Aggregate) -> PostProcessing:
        """Return the declared post-processing in lattice steps."""
        base = Fraction(1) if spec.round_to is None else spec.round_to / aggregate.step
        if base.denominator != 1 or base > LARGEST_BASE:
            step = plain_text(aggregate.step)
            self._refuse("DP-QUERY-010", "columns", name, "round_to", column=name, step=step)
            base = Fraction(1)
        threshold = spec.suppress_below
        below = None if threshold is None else math.ceil(threshold / aggregate.step)
        if below is not None and abs(below) > LARGEST_BASE:
            below = int(math.copysign(LARGEST_BASE, below))
        return PostProcessing(below, spec.non_negative, base.numerator)

    def _sum(self, name: str, column: str) -> Sum | None:
        declared = self.declared.table.columns[column]
        keys = ("columns", name, "sum")
        if not isinstance(declared, IntegerColumn | NumberColumn):
            kind = getattr(declared, "type", "cut")
            self._refuse("DP-QUERY-004", *keys, column=column, kind=kind)
            return None
        lattice = declared.lattice
        if lattice is None:
            self._refuse("DP-QUERY-003", *keys, column=column)
            return None
        return Sum(column, lattice.lower, lattice.upper, lattice.step)

    def _count_distinct(self, name: str, column: str) -> CountDistinct | None:
        table = self.declared.table
        if column == table.unit.id:
            return CountDistinct(column, None)
        key = key_of(column, table.columns[column])
        if not isinstance(key, Key):
            self._refuse("DP-QUERY-006", "columns", name, "count_distinct", column=column)
            return None
        return CountDistinct(column, len(key.values))

    def _unit(self, aggregate: Aggregate) -> str:
        if isinstance(aggregate, Sum):
            return getattr(self.declared.table.columns[aggregate.column], "unit", None) or ""
        if isinstance(aggregate, CountDistinct):
            return aggregate.column
        return "rows"

    def _predicate(self, where: str | None) -> Predicate | None:
        if where is None:
            return None
        from dprelease.query.predicate import parse_predicate  # the SQL parser loads slowly

        try:
            return parse_predicate(where, self.declared.table, self.place("where"))
        except QueryError as error:
            self.errors.append(error)
            return None
