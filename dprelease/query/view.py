"""The view of a query: its table, with computed columns and the columns of the joined table.

Why the privacy guarantee still holds after a join: a public table is joined by a left join on a key
that is unique in the public table, so every row of the queried table stays exactly one row of the
same privacy unit. If rows without a match are left out, it is one row or none, which depends on
this row and on the public table alone. A table about the same people is joined only on the privacy
unit: every joined row belongs to one privacy unit, whose contributions are limited after the join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dprelease.errors import DeclarationError, DpReleaseError, Place, QueryError, raise_all
from dprelease.query.expressions.computed_order import (
    Placer,
    check_order,
    formulas_of,
    with_input_columns,
)
from dprelease.query.expressions.used_columns import Formulas, unknown_column
from dprelease.schema.columns import Column, CutColumn, IntegerColumn, NumberColumn
from dprelease.schema.load import Declared
from dprelease.schema.model import normalized_name
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.limit_choice import LIMITS, TOTAL, highest_limit
from dprelease.schema.release_parts.query_parts import JoinSpec
from dprelease.schema.source_types.row_places import RowPlace, have_common_rows, places_of
from dprelease.schema.table import Table, UnitSpec

COMPARABLE_TYPES = {
    "integer": "whole numbers",
    "text": "texts",
    "category": "texts",
    "cut": "texts",
    "boolean": "truth values",
    "date": "dates",
}
"""The column types that can be join keys, and the type as which their values are compared."""


@dataclass(frozen=True, slots=True)
class Join:
    """A resolved join.

    `on` has pairs of columns that must be equal: a column of the queried table, and a column of the
    joined table. `columns` are the columns of the joined table that the query can name. `by_unit`
    says that the joined table is about the same people. `matched_only` says that rows without a
    match in a public table are left out.
    """

    declared: Declared
    formulas: Formulas
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    by_unit: bool
    matched_only: bool = False

    def description(self, table: str) -> str:
        """Return the description of the join, for the manifest."""
        name = self.declared.table.name
        if self.by_unit:
            return (
                f"All rows of '{table}' with all rows of '{name}' of the same privacy unit; the "
                "contribution limits apply to the joined rows."
            )
        pairs = " and ".join(f"{left} = {right}" for left, right in self.on)
        others = "its columns are missing if there is no such row"
        if self.matched_only:
            others = "rows without such a row are left out"
        return (
            f"Each row of '{table}' with the one row of the public table '{name}' that has "
            f"{pairs}; {others}."
        )


def visible_columns(
    right: Mapping[str, Column],
    on: tuple[tuple[str, str], ...],
    without: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the columns of a joined table that a query can name.

    These are all columns, except join keys that have the same name in both tables, columns that the
    query leaves out, and cuts of them.
    """
    hidden = {*without, *(name for left, name in on if left == name)}
    cuts = {name for name, one in right.items() if getattr(one, "cut", None) in without}
    return tuple(name for name in right if name not in hidden | cuts)


def comparison_type(column: Column) -> str | None:
    """Return the type to which values of a join key are converted for comparison, or None.

    The result is None if the values can't be join keys.

    Floats are not compared: two different integers may be the same float.
    """
    return COMPARABLE_TYPES.get(getattr(column, "type", "cut"))


PRIVATE_SOURCE = "its source is that of a table about people"


@dataclass(frozen=True, slots=True)
class View:
    """A table with every column that the query may name.

    `declared`: the table with computed and joined columns. `base`: the table of the source.
    """

    declared: Declared
    base: Declared
    formulas: Formulas = field(default_factory=dict)
    join: Join | None = None


class Views:
    """Creates views of the tables of one release, and reports the errors of each table once."""

    def __init__(self, tables: Mapping[str, Declared], errors: list[DpReleaseError]) -> None:
        self.tables, self.errors = tables, errors
        self._formulas: dict[str, Formulas | None] = {}

    def of(self, base: Declared, spec: QuerySpec, place: Placer) -> View | None:
        """Return the view of a query; None if errors were added to `errors`."""
        before = len(self.errors)
        own = self.schema_formulas(base)
        if base.table.public:
            name = base.table.name
            self.errors.append(QueryError("DP-JOIN-005", place=place("from"), table=name))
        columns = dict(base.table.columns)
        self._add_columns(columns, spec.derive, f"'{base.table.name}'", place, "derive")
        join = None
        if spec.join is not None:
            join = self._resolve_join(base, columns, spec.join, place)
        if own is None or len(self.errors) > before or (join is None and spec.join is not None):
            return None
        if join is not None:
            right = join.declared.table.columns
            added = {name: right[name] for name in join.columns}
            self._add_columns(
                columns, added, f"'{base.table.name}', or `derive`,", place, "join", "table"
            )
        self._check_cuts(columns, spec.derive, place)
        if len(self.errors) > before:
            return None
        table = base.table.model_copy(
            update={
                "columns": columns,
                "privacy_unit": _unit_with_query_limits(base.table, spec),
            }
        )
        view = View(replace(base, table=table), base, own, join)
        view = self._with_formulas(view, spec.derive, place)
        return view if len(self.errors) == before else None

    def schema_formulas(self, declared: Declared) -> Formulas | None:
        """Return the expressions of a table's schema, checked at the first use of the table."""
        table, before = declared.table, len(self.errors)
        if table.name not in self._formulas:

            def place(*keys: str) -> Place:
                """Return the position of these keys below the columns of the schema."""
                return declared.document.place("columns", *keys)

            formulas = formulas_of(table, table.columns, place, self.errors)
            if len(self.errors) == before:
                check_order(table.columns, formulas, place, self.errors)
            self._formulas[table.name] = formulas if len(self.errors) == before else None
        return self._formulas[table.name]

    def _add_columns(
        self,
        columns: dict[str, Column],
        added: Mapping[str, Column],
        where: str,
        place: Placer,
        *keys: str,
    ) -> None:
        """Add the columns `added` to `columns`, or an error for each name that is taken."""
        taken = {normalized_name(name) for name in columns}
        for name, column in added.items():
            if normalized_name(name) in taken:
                spot = place(*keys, name) if keys == ("derive",) else place(*keys)
                error = QueryError("DP-DERIVE-004", place=spot, column=name, where=where)
                self.errors.append(error)
            else:
                columns[name] = column

    def _check_cuts(
        self, columns: Mapping[str, Column], derived: Mapping[str, Column], place: Placer
    ) -> None:
        """Add an error for each cut of a column that is not a column of numbers."""
        for name, column in derived.items():
            if not isinstance(column, CutColumn):
                continue
            if not isinstance(columns.get(column.cut), IntegerColumn | NumberColumn):
                spot = place("derive", name)
                error = DeclarationError(
                    "DP-SCHEMA-007", place=spot, column=name, source=column.cut
                )
                self.errors.append(error)

    def _with_formulas(self, view: View, names: Iterable[str], place: Placer) -> View:
        """Return the view with the query's own expressions, after all columns are known."""

        def spot(*keys: str) -> Place:
            """Return the position of these keys below `derive`."""
            return place("derive", *keys)

        table, before = view.declared.table, len(self.errors)
        own = formulas_of(table, names, spot, self.errors)
        formulas = {**view.formulas, **own}
        if names and len(self.errors) == before:
            check_order(table.columns, formulas, spot, self.errors)
        if view.join is not None and len(self.errors) == before:
            for left, right in view.join.on:
                read = with_input_columns(table.columns, formulas, [left])
                late = [name for name in read if name in view.join.columns]
                if late:
                    problem = f"{left} is computed from {late[0]}, which only the join would add"
                    self._add_comparison_error(left, right, problem, place)
        return replace(view, formulas=formulas)

    def _resolve_join(
        self, base: Declared, columns: Mapping[str, Column], spec: JoinSpec, place: Placer
    ) -> Join | None:
        """Return the resolved join; None if errors were added to `errors`."""
        right = self.tables.get(spec.table)
        reason = _join_problem(base.table, None if right is None else right.table, spec)
        # Public rows are read without noise and without limits, so declaring the rows of people
        # public under another name would publish them.
        if right is not None and right.table.public and self._is_about_people(right):
            reason = PRIVATE_SOURCE
        if reason is not None or right is None:
            spot = place("join", "table")
            error = QueryError("DP-JOIN-003", place=spot, table=spec.table, reason=reason)
            self.errors.append(error)
            return None
        formulas = self.schema_formulas(right)
        on = tuple(spec.on.items()) or ((base.table.unit.id or "", right.table.unit.id or ""),)
        for left, other in on:
            self._check_pair(columns, base.table, right.table, (left, other), place)
        if formulas is None:
            return None
        for name in (one for one in spec.without if one not in right.table.columns):
            fields = unknown_column(right.table, name)
            self.errors.append(QueryError("DP-QUERY-001", place=place("join", "without"), **fields))
        seen = visible_columns(right.table.columns, on, spec.without)
        matched_only = spec.unmatched == "drop"
        return Join(right, formulas, on, seen, spec.on_unit, matched_only)

    def _is_about_people(self, public: Declared) -> bool:
        """Return whether a public table has the source of a table about people."""
        return have_common_rows(places_of(public), self._places)

    @cached_property
    def _places(self) -> set[RowPlace]:
        """The places of all rows about people."""
        private = (table for table in self.tables.values() if not table.table.public)
        return set().union(*map(places_of, private))

    def formulas_after_noise(self, public: Declared) -> Formulas:
        """Return the computed columns of a public table that is read after the noise."""
        place, name = Place(key="sql"), public.table.name
        # As for a join: the rows of this table go into the answer as they are.
        if self._is_about_people(public):
            error = QueryError("DP-JOIN-003", place=place, table=name, reason=PRIVATE_SOURCE)
            self.errors.append(error)
        found = self.schema_formulas(public)
        raise_all(self.errors)
        return found or {}

    def _check_pair(
        self,
        columns: Mapping[str, Column],
        base: Table,
        right: Table,
        pair: tuple[str, str],
        place: Placer,
    ) -> None:
        """Add an error for each reason why two columns can't be compared."""
        left, other = pair
        spot = place("join", "on", left)
        kinds = []
        for name, known, table in ((left, columns, base), (other, right.columns, right)):
            if name not in known:
                fields = unknown_column(table, name)
                self.errors.append(QueryError("DP-QUERY-001", place=spot, **fields))
                return
            kinds.append(comparison_type(known[name]))
        if None in kinds:
            name = left if kinds[0] is None else other
            self._add_comparison_error(
                left, other, f"{name} has a type that can't be a join key", place
            )
        elif kinds[0] != kinds[1]:
            self._add_comparison_error(
                left, other, f"one side is {kinds[0]}, one {kinds[1]}", place
            )

    def _add_comparison_error(self, left: str, right: str, problem: str, place: Placer) -> None:
        """Add the error of two columns of a join that can't be compared."""
        spot = place("join", "on", left)
        error = QueryError("DP-JOIN-004", place=spot, left=left, right=right, problem=problem)
        self.errors.append(error)


def public_table_formulas(public: Declared, tables: Mapping[str, Declared]) -> Formulas:
    """Return the computed columns of a public table that is read after the noise.

    Raises QueryError: DP-JOIN-003 if its source is that of a table about people; errors of its
    expressions.
    """
    return Views(tables, []).formulas_after_noise(public)


def schema_errors(declared: Declared) -> list[DpReleaseError]:
    """Return the errors in the expressions of a table's schema."""
    errors: list[DpReleaseError] = []
    Views({declared.table.name: declared}, errors).schema_formulas(declared)
    return errors


def _join_problem(left: Table, right: Table | None, spec: JoinSpec) -> str | None:
    """Return the reason why two tables can't be joined as declared; None if they can be."""
    if right is None:
        return "it is not declared here"
    if right.name == left.name:
        return "it is the table itself"
    if spec.on:
        return None if right.public else "it is not public, so a row may match any number of rows"
    if right.public:
        return "it is public and has no privacy units; name its key with `on`"
    if left.unit.id is None or left.unit.id != right.unit.id:
        return "both tables must have the same id column of the privacy unit"
    kinds = {comparison_type(table.columns[left.unit.id]) for table in (left, right)}
    return None if len(kinds) == 1 else "the ids are of different types"


def _unit_with_query_limits(table: Table, spec: QuerySpec) -> UnitSpec:
    """Return the declared privacy unit, with the contribution limits of the join or the query."""
    unit, join = table.privacy_unit, spec.join
    limits = {limit: getattr(unit, limit) for limit in (*LIMITS, TOTAL)}
    if join is not None and join.on_unit:
        limits = {limit: getattr(join, limit) or own for limit, own in limits.items()}
    for limit in limits if unit.id is not None else ():
        limits[limit] = highest_limit(spec, limit, limits[limit])
    return unit.model_copy(update=limits)
