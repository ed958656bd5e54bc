"""Turn a declared release into queries with exact sensitivities, without opening the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dprelease.errors import DpReleaseError, Place, QueryError, raise_all
from dprelease.privacy.unit import Neighbours, PrivacyUnit
from dprelease.query.answers import AnswerCollector
from dprelease.query.declared_columns import DeclaredColumns
from dprelease.query.declared_invariants import exact_columns, refuse_invariants
from dprelease.query.expressions.used_columns import Formulas, Predicate, unknown_column
from dprelease.query.family_members import FamilyQueries
from dprelease.query.grouping import group_keys
from dprelease.query.grouping.family_keys import FamilyKeys, family_keys
from dprelease.query.grouping.group_keys import Key, KeySpace, key_of
from dprelease.query.grouping.private_keys import COMPOSITE, UNKNOWN, PrivateKeys, private_kind
from dprelease.query.measurement import Measurement, OutputColumn
from dprelease.query.view import Join, View, Views
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.mechanism import MechanismSpec
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.release_parts.limit_choice import chosen_limits_of
from dprelease.schema.release_parts.limits import QUALITY_LIMITS, limits_of
from dprelease.schema.table import Table

Placer = Callable[..., Place]


@dataclass(frozen=True, slots=True)
class Contributions:
    """What a query about persons reads: how much each of them contributes to another query.

    The value of a person is the number of groups with rows of the person (`max_groups`), or the
    largest number of these rows in one group (`max_rows_per_group`), before contribution limits.
    """

    query: Query
    limit: str

    @property
    def value_text(self) -> str:
        """Return what the value of a person is."""
        if self.limit == "max_groups":
            return "the number of groups in which it has rows"
        return "the largest number of rows that it has in one group"


@dataclass(frozen=True, slots=True)
class Query:
    """One table to publish.

    `declared` is the table of the source, and `view` the table with all columns that the query can
    name, if it has computed or joined columns.
    """

    name: str
    declared: Declared
    predicate: Predicate | None
    keys: KeySpace
    unit: PrivacyUnit
    neighbours: Neighbours
    measurements: tuple[Measurement, ...]
    columns: tuple[OutputColumn, ...]
    view: Table | None = None
    formulas: Formulas = field(default_factory=dict)
    join: Join | None = None
    private: PrivateKeys | None = None
    """The private keys, if any; `keys` is empty until private keys have been selected."""
    finest: KeySpace | None = None
    """The keys of the finest cells of a family of consistent tables; None for a single table.

    The keys are the last level of areas, and every attribute of any table of the family. Rows
    without a finest cell count in none of the tables, contribution limits apply to the finest
    cells, and each cell of a table is a sum of finest cells."""
    groupings: tuple[Key, ...] = ()
    """Further keys of a family of consistent tables, whose values contain areas of the last level.

    Their tables are sums of the estimates of the last level, and some of them are also measured."""
    family: str = ""
    """The name of the family of consistent tables; empty for a single table."""
    declared_family: QuerySpec | None = field(default=None, compare=False, repr=False)
    """The first declared query of the family, whose step all queries of the family share."""
    chosen_limits: tuple[str, ...] = ()
    """The names of the contribution limits that the release chooses privately."""
    open_choices: tuple[str, ...] = ()
    """The names of the choices of limits that have not been made; limits are the highest ones."""
    contributions_of: Contributions | None = None
    """What the rows of the query are, if they are persons; None if they are the table's rows."""

    @property
    def cells(self) -> int | None:
        """The number of cells; None if private keys have not been selected yet."""
        return None if self.private is not None and not self.keys.keys else self.keys.size

    @property
    def key_columns(self) -> list[Key]:
        """The published key columns; selected private keys have one value for each cell."""
        if self.private is None:
            return list(self.keys.keys)
        selected = self.keys.keys or (Key(COMPOSITE, "text", ()),)
        return self.private.keys(KeySpace(selected))

    @property
    def table(self) -> Table:
        """The queried table, with computed and joined columns."""
        return self.view or self.declared.table

    @property
    def charged_tables(self) -> tuple[Table, ...]:
        """The tables about people that the query reads, which are charged for it."""
        if self.join is None or not self.join.by_unit:
            return (self.declared.table,)
        return (self.declared.table, self.join.declared.table)


def resolve(declaration: Declaration) -> tuple[Query, ...]:
    """Return the queries of a release, in declared order.

    Raises QueryError or Findings: all errors of all queries are raised together.
    """
    queries, errors = resolve_with_findings(declaration)
    raise_all(errors)
    return queries


def resolve_with_findings(
    declaration: Declaration,
) -> tuple[tuple[Query, ...], list[DpReleaseError]]:
    """Return the queries without errors, and the errors of all other queries."""
    spec = declaration.spec
    errors: list[DpReleaseError] = []
    queries = []
    views = Views(declaration.tables, errors)
    query_of = spec.query_of_table
    families: dict[str, FamilyKeys] = {}
    together = {name: FamilyQueries(spec, name, queries) for name, queries in spec.families.items()}
    for one in together.values():
        errors += one.family_errors(declaration.place)
    family_of = {query: name for name, one in together.items() for query in one.queries}
    for name, query_spec in spec.published_tables.items():
        place = _table_error_locator(declaration, query_of[name], query_spec)
        family = family_of[query_of[name]]
        before = len(errors)
        view = views.of(declaration.tables[query_spec.source], query_spec, place)
        if view is None or (
            query_spec.consistent is not None and query_spec.private_keys is not None
        ):
            continue  # an error has been reported already
        concentrated = spec.budget.rho is not None
        resolver = _Resolver(
            view, place, errors, limits_of(spec.quality), concentrated=concentrated
        )
        if query_spec.consistent is not None:
            if family not in families:
                neighbours, all_of_it = spec.budget.neighbours, together[family]
                refuse = _Resolver(view, all_of_it.error_locator(declaration.place), errors).refuse
                families[family] = family_keys(
                    all_of_it.combined_query, view.declared.table, refuse
                )
                refuse_invariants(all_of_it.combined_query, neighbours, refuse)
            exact = exact_columns(together[family].combined_query, query_spec.keys_of_tables[0])
            resolver = replace(resolver, family=families[family], exact=exact)
        query = resolver.query(
            name, query_spec, spec.mechanism, spec.budget.neighbours, spec.limits
        )
        if len(errors) == before:
            first = spec.queries[together[family].queries[0]]
            queries.append(replace(query, family=family, declared_family=first))
    errors += _column_limit_errors(declaration, queries)
    queries = _with_choices(declaration, queries)
    # Each table of a query, such as a marginal, repeats the errors of the query.
    return tuple(queries), list({str(error): error for error in errors}.values())


def _column_limit_errors(declaration: Declaration, queries: Iterable[Query]) -> list[QueryError]:
    """Return the error of a release with too many columns, in a list."""
    columns = sum(len(query.measurements) for query in queries)
    limit, place = declaration.spec.limits.max_columns, declaration.place("queries")
    too_many = columns > limit
    return [QueryError("DP-QUERY-009", place=place, columns=columns, limit=limit)] * too_many


def _with_choices(declaration: Declaration, queries: list[Query]) -> list[Query]:
    """Return the queries with what they need to know of private choices of limits.

    A query whose limits have not been chosen gets the names of the choices. A query that chooses a
    limit gets the contributions to the limited query.
    """
    limited, choices = declaration.chooses_for, declaration.choices
    if limited is not None:
        return _with_contributions(limited, queries)
    if choices is None or declaration.chosen is not None:
        return queries
    query_of = declaration.spec.query_of_table
    return [
        replace(query, open_choices=choices.names_of(query_of[query.name])) for query in queries
    ]


def _with_contributions(limited: Declaration, queries: list[Query]) -> list[Query]:
    limits = () if limited.choices is None else limited.choices.limits
    choices = {choice.name: choice for choice in limits}
    table_of = {query: table for table, query in limited.spec.query_of_table.items()}
    limited_queries = {query.name: query for query in resolve(limited)}
    found = []
    for query in queries:
        choice = choices[query.name]
        of = limited_queries[table_of[choice.queries[0]]]
        found.append(replace(query, contributions_of=Contributions(of, choice.limit)))
    return found


def _table_error_locator(declaration: Declaration, query: str, spec: QuerySpec) -> Placer:
    """Return a function that locates errors of one table in the query that declares it."""
    written = declaration.spec.queries[query]

    def place(*keys: str | int) -> Place:
        """Return the position of these keys in the query as it was written."""
        bands = written.histogram
        if bands is not None and keys == ("derive", bands.key):
            keys = ("histogram", "column")
        elif keys[0] == "group_by" and len(keys) == 2 and isinstance(keys[1], int):
            known = written.group_by == spec.group_by  # several tables may share a key
            keys = keys if known else written.key_path_of(spec.group_by[keys[1]])
        return declaration.place("queries", query, *keys)

    return place


def resolve_one(
    declared: Declared,
    name: str,
    spec: QuerySpec,
    neighbours: Neighbours,
    limits: Limits,
    tables: Mapping[str, Declared] | None = None,
) -> Query:
    """Return one query that was not read from a file, or raise all its errors together.

    `tables` are the tables that the query may join, by name.
    """
    errors: list[DpReleaseError] = []

    def place(*keys: str | int) -> Place:
        """Return a position without a file, from keys that are joined by points."""
        return Place(key=".".join(map(str, keys)))

    known = tables or {declared.table.name: declared}
    view = Views(known, errors).of(declared, spec, place)
    if view is None:
        raise_all(errors)
        raise AssertionError("a refused view has findings")
    resolver = _Resolver(view, place, errors)
    if spec.consistent is not None:
        family = family_keys(spec, view.declared.table, resolver.refuse)
        refuse_invariants(spec, neighbours, resolver.refuse)
        resolver = replace(resolver, family=family)
    query = resolver.query(name, spec, MechanismSpec(name="auto"), neighbours, limits)
    raise_all(errors)
    return query


@dataclass(frozen=True)
class _Resolver:
    """One declared query, which is checked against the schema of its table."""

    view: View
    place: Placer
    errors: list[DpReleaseError]
    quality: tuple[Fraction, ...] = QUALITY_LIMITS
    family: FamilyKeys | None = None
    exact: Mapping[str, str] = field(default_factory=dict)
    concentrated: bool = False
    """Whether the budget is a rho, which decides how private keys are selected."""

    @property
    def declared(self) -> Declared:
        """Return the declared table that the query reads."""
        return self.view.declared

    def query(
        self,
        name: str,
        query_spec: QuerySpec,
        default: MechanismSpec,
        neighbours: Neighbours,
        limits: Limits,
    ) -> Query:
        """Return the checked query; errors are collected in `errors`."""
        table = self.declared.table
        private = query_spec.private_keys
        keys = KeySpace(() if private else tuple(self._keys(query_spec)))
        if keys.size > limits.max_cells:
            self.refuse("DP-QUERY-007", "group_by", cells=keys.size, limit=limits.max_cells)
        declared = DeclaredColumns(
            table, self.refuse, query_spec.columns, None if private else keys
        )
        finest = None if self.family is None else self.family.finest_cell_counts(keys)
        cells = UNKNOWN if private else keys.size
        answers = AnswerCollector(
            default, neighbours, cells, declared, finest, self.quality, self.exact
        )
        if private is not None:
            automatic = "gaussian_threshold" if self.concentrated else "partition_selection"
            answers.add_keys(private, automatic)
        for column, spec in query_spec.columns.items():
            answers.add(column, spec)
        answers.finish(has_summaries=bool(query_spec.summaries))
        return Query(
            name=name,
            declared=self.view.base,
            predicate=self._predicate(query_spec.where),
            keys=keys,
            unit=table.unit,
            neighbours=neighbours,
            measurements=tuple(answers.measurements),
            columns=tuple(answers.columns),
            view=table,
            formulas=self.view.formulas,
            join=self.view.join,
            private=None if private is None else self._private_keys(query_spec),
            finest=None if self.family is None else self.family.finest,
            groupings=() if self.family is None else self.family.groupings,
            chosen_limits=chosen_limits_of(query_spec),
        )

    def refuse(self, code: str, *keys: str | int, **fields: Any) -> None:
        """Add an error at a key path of the query."""
        self.errors.append(QueryError(code, place=self.place(*keys), **fields))

    def _keys(self, spec: QuerySpec) -> list[Key]:
        """Return the public keys of the query's cells; refuse columns that can't be keys."""
        table, keys = self.declared.table, []
        for i, column in enumerate(spec.group_by):
            if column in spec.group_by[:i]:
                self.refuse("DP-QUERY-008", "group_by", i, column=column)
            elif column not in table.columns:
                self._add_unknown_column(column, "group_by", i)
            elif column == table.unit.id:
                self._refuse_key(column, i, *group_keys.ID_AS_KEY)
            else:
                areas = {} if self.family is None else self.family.areas
                key = areas.get(column) or key_of(column, table.columns[column])
                if isinstance(key, Key):
                    keys.append(key)
                else:
                    is_rare = private_kind(table.columns[column]) is None
                    how = group_keys.COARSEN if is_rare else group_keys.DECLARE
                    self._refuse_key(column, i, key, how)
        return keys

    def _refuse_key(self, column: str, place: int, reason: str, how: str) -> None:
        """Add the error of a column that can't be a key."""
        self.refuse("DP-QUERY-002", "group_by", place, column=column, reason=reason, how=how)

    def _private_keys(self, spec: QuerySpec) -> PrivateKeys:
        """Return the private keys of the query; refuse columns that can't be private keys."""
        table, columns = self.declared.table, []
        if not spec.group_by:
            fields = {"reason": "it names no private key", "how": "name a column (`by` in df.dp)"}
            self.refuse("DP-QUERY-002", "private_keys", column="group_by", **fields)
        for i, column in enumerate(spec.group_by):
            kind = private_kind(table.columns[column]) if column in table.columns else None
            if column in spec.group_by[:i]:
                self.refuse("DP-QUERY-008", "group_by", i, column=column)
            elif column not in table.columns:
                self._add_unknown_column(column, "group_by", i)
            elif column == table.unit.id:
                self._refuse_key(column, i, *group_keys.ID_AS_KEY)
            elif kind is None:
                type_name = getattr(table.columns[column], "type", "cut")
                reason = f"most values of a column of type {type_name} occur only once"
                self._refuse_key(column, i, reason, group_keys.COARSEN)
            else:
                columns.append((column, kind))
        return PrivateKeys(tuple(columns))

    def _add_unknown_column(self, column: str, *keys: str | int) -> None:
        """Add the error of a column that the table does not declare."""
        table = self.declared.table
        self.refuse("DP-QUERY-001", *keys, **unknown_column(table, column))

    def _predicate(self, where: str | None) -> Predicate | None:
        """Return the checked condition on rows; None without one, or if it is refused."""
        if where is None:
            return None
        from dprelease.query.expressions.predicate import (
            parse_predicate,  # the SQL parser is slow to import
        )

        try:
            return parse_predicate(where, self.declared.table, self.place("where"))
        except QueryError as error:
            self.errors.append(error)
            return None
