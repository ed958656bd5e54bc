"""Release files: budget, queries, mechanisms and output."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from dprelease.privacy.unit import Neighbours
from dprelease.schema.amounts import Share, ShareSpec, refuse_several_keys
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.columns import Column, check_computed
from dprelease.schema.field_types import (
    NAME,
    TEXT_SCHEMA,
    Amount,
    Expression,
    LocalPath,
    Name,
    ShortForm,
    Text,
    Whole,
    as_list,
    refuse,
)
from dprelease.schema.localized_text import Documented
from dprelease.schema.mechanism import AUTO, Mechanism, MechanismSpec
from dprelease.schema.model import Model, refuse_similar_names
from dprelease.schema.release_parts.about import AboutSpec
from dprelease.schema.release_parts.consistent import Consistent, grouping_table_name
from dprelease.schema.release_parts.defaults import SHARED
from dprelease.schema.release_parts.engines_and_formats import (
    DuckDBSpec,
    EngineName,
    FormatName,
    SparkSpec,
)
from dprelease.schema.release_parts.extension_names import (
    DEFAULT_ENGINE,
    OF_RECORDS,
    in_order,
    refuse_formats,
)
from dprelease.schema.release_parts.limit_choice import Limit
from dprelease.schema.release_parts.limits import Limits as Limits
from dprelease.schema.release_parts.limits import Quality, QualitySpec
from dprelease.schema.release_parts.local_and_federated import FederatedSpec, RecordsSpec
from dprelease.schema.release_parts.query_parts import HistogramSpec, JoinSpec, PrivateKeys
from dprelease.schema.release_parts.summaries import Summaries
from dprelease.schema.release_parts.variables import NAME as VARIABLE
from dprelease.schema.release_parts.variables import Kind

MOST_MARGINALS = 64
Marginals = Annotated[tuple[tuple[Text, ...], ...], Field(max_length=MOST_MARGINALS)]
PRIVATE_KEYS = "private_keys"
NO_COLUMNS = "it has no columns, which only a query of private keys may lack"


class BudgetSpec(Model):
    """The budget of the whole release: an epsilon, with or without a delta, or a rho.

    delta 0 requires a pure guarantee. With a rho, delta is the one at which epsilon is reported.
    Without epsilon and rho, every column declares its own share or its accuracy. `spend: least`:
    spend no more of epsilon or rho than the `targets` of consistent tables need.
    """

    epsilon: Amount | None = None
    rho: Amount | None = None
    delta: Amount = Fraction(0)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    spend: Literal["all", "least"] = "all"
    tables: dict[Name, Share] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_several_keys(self) -> Self:
        refuse_several_keys(self, "epsilon", "rho")
        return self


class QuerySpec(Documented):
    """One table to publish: rows of one source by keys; without `columns`, only its private keys.

    `tables`: texts for readers about each table, by name, if the query declares several. With
    `consistent`, all its tables are consistent: each level of a `hierarchy` with every marginal, or
    with the marginals that `marginals_at` names for this level. `family`: its tables are also
    consistent with the tables of other queries of the family. `summaries`: numbers of groups of
    cells, such as standardised rates, each of which is published as a table of its own.
    """

    source: Text = Field(alias="from")
    join: JoinSpec | None = None
    derive: dict[Text, Column] = Field(default_factory=dict)
    where: Expression | None = None
    group_by: Annotated[tuple[Text, ...], BeforeValidator(as_list), ShortForm(TEXT_SCHEMA)] = ()
    marginals: Marginals = ()
    cube: Annotated[tuple[Text, ...], Field(max_length=8)] = ()
    rollup: Annotated[tuple[Text, ...], Field(max_length=MOST_MARGINALS)] = ()
    hierarchy: Annotated[tuple[Text, ...], Field(max_length=MOST_MARGINALS)] = ()
    marginals_at: dict[Text, Annotated[Marginals, Field(min_length=1)]] = {}  # noqa: RUF012
    columns: dict[Name, ColumnSpec] = Field(default_factory=dict)
    share: Share = ShareSpec()
    histogram: HistogramSpec | None = None
    consistent: Consistent = None
    family: Name | None = None
    summaries: Summaries = Field(default_factory=dict)
    max_groups: Limit = None
    max_rows_per_group: Limit = None
    max_rows: Annotated[Whole, Field(ge=1, le=10**9)] | None = None
    private_keys: PrivateKeys = None
    documented_tables: dict[Name, Documented] = Field(default_factory=dict, alias="tables")

    def spec_of(self, column: str) -> ColumnSpec:
        """Return the declaration of a column, or of the query's keys."""
        keys = self.private_keys
        if keys is None or column != PRIVATE_KEYS:
            return self.columns[column]
        options = {"count": "*", "weight": keys.weight, "epsilon": keys.epsilon}
        return ColumnSpec.model_validate(options)

    @property
    def table_keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys of every table that the query declares, the coarsest table first.

        `cube` declares all subsets of its keys, and `rollup` all prefixes of its keys. `hierarchy`
        declares a table of each key alone; the values of such keys name the higher levels (as a
        county code names the state). With `consistent`, `hierarchy` is a tree of areas: the whole
        and each level, with every marginal, or with those of `marginals_at`. Groupings have only
        the tables of `marginals_at`.
        """
        return tuple(
            (*key, *keys)
            for level in self.measured_levels
            for key in [() if level is None else (level,)]
            for keys in self.attributes_at(level)
        )

    @property
    def measured_levels(self) -> tuple[str | None, ...]:
        """The whole area (None), each level, and each grouping with measured tables."""
        return (None, *self.hierarchy, *(n for n in self.groupings if n in self.marginals_at))

    @property
    def keys_of_tables(self) -> tuple[tuple[str, ...], ...]:
        """The keys of every table that the query declares, with the intervals of a histogram."""
        bands = () if self.histogram is None else (self.histogram.key,)
        return tuple((*keys, *bands) for keys in self.table_keys)

    @property
    def attribute_sets(self) -> tuple[tuple[str, ...], ...]:
        """The different sets of keys, without areas, of the tables of all levels."""
        key_sets = [keys for level in (None, *self.hierarchy) for keys in self.attributes_at(level)]
        return tuple(dict.fromkeys(key_sets))

    def attributes_at(self, level: str | None) -> tuple[tuple[str, ...], ...]:
        """Return the keys, without areas, of the tables at a level; None is the whole area."""
        if level is not None and level in self.marginals_at:
            return self.marginals_at[level]
        if self.cube:
            sizes = range(len(self.cube) + 1)
            return tuple(keys for size in sizes for keys in combinations(self.cube, size))
        if self.rollup:
            return tuple(self.rollup[:size] for size in range(len(self.rollup) + 1))
        return self.marginals or (self.group_by,)

    def key_path_of(self, column: str) -> tuple[str | int, ...]:
        """Return the key path, below the query, at which a table's key is declared."""
        for keyword in ("group_by", "cube", "rollup", "hierarchy"):
            if column in getattr(self, keyword):
                return keyword, getattr(self, keyword).index(column)
        for i, keys in enumerate(self.marginals):
            if column in keys:
                return "marginals", i, keys.index(column)
        for level, tables in self.marginals_at.items():
            for i, keys in enumerate(tables):
                if column in keys:
                    return "marginals_at", level, i, keys.index(column)
        return ("histogram",)

    @property
    def has_several_tables(self) -> bool:
        """Whether the query declares several tables, which are named by their keys."""
        return bool(self.marginals or self.cube or self.rollup or self.hierarchy)

    def tables(self, name: str) -> dict[str, QuerySpec]:
        """Return one query for each published table, by name."""
        if not self.has_several_tables:
            return {name: self._with_bands(self.group_by)}
        no_keywords = dict.fromkeys(("marginals", "cube", "rollup", "hierarchy"), ())
        single: dict[str, Any] = {**no_keywords, "marginals_at": {}}
        by_name = {}
        for i, keys in enumerate(self.table_keys):
            label = f"{name}_{'_'.join(keys) or 'total'}"
            # Names are file names: a number replaces a long or invalid name.
            fits = re.fullmatch(NAME, label) and label not in by_name
            label = label if fits else f"{name}_{i}"
            table = self._with_bands(keys)
            # The only cell of the table without keys is public: no keys need to be selected.
            found = {"private_keys": self.private_keys if table.group_by else None}
            by_name[label] = table.model_copy(update={**single, **found})
        return by_name

    @property
    def groupings(self) -> tuple[str, ...]:
        """The columns within whose areas the last level of consistent tables lies as well."""
        return () if self.consistent is None else self.consistent.groupings

    def computed_table_names(self, name: str) -> list[str]:
        """Return the names of the tables of synthetic persons and of groupings, if there are any.

        No measurement has these names; tables of groupings that are measured are not listed.
        """
        publishes_records = self.consistent is not None and self.consistent.publish.records
        found = [f"{name}_invented"] if publishes_records else []
        last, tables = self.hierarchy[-1:], self.tables(name) if self.groupings else {}
        keys = {key for table in tables.values() for key in table.group_by}  # refused as groupings
        named = [
            grouping_table_name(table, spec.group_by, grouping, i)
            for i, grouping in enumerate(self.groupings)
            for table, spec in tables.items()
            if last and spec.group_by[:1] == last and grouping not in keys - {*self.marginals_at}
        ]
        return found + [one for one in dict.fromkeys(named) if one not in tables]

    def _with_bands(self, keys: tuple[str, ...]) -> QuerySpec:
        """Return the query with these keys, and with the intervals of a histogram."""
        bands = self.histogram
        if bands is None:
            return self.model_copy(update={"group_by": keys})
        derive = {**self.derive, bands.key: bands.cut}
        changed = {"derive": derive, "group_by": (*keys, bands.key), "histogram": None}
        return self.model_copy(update=changed)

    def _refuse_repeated_marginal(self) -> None:
        """Refuse a marginal that is declared twice, in any order of its keys: both would cost."""
        seen: set[frozenset[str]] = set()
        for keys in self.table_keys:
            if frozenset(keys) in seen:
                which = f"of {', '.join(keys)}" if keys else "without keys"
                problem = f"the marginal {which} is listed twice, in any order of its keys"
                refuse("DP-DECL-003", problem=problem)
            seen.add(frozenset(keys))

    def _refuse_unknown_levels(self, areas: tuple[str, ...]) -> None:
        """Refuse tables at an unknown level of consistent tables, or of an unknown grouping."""
        levels = (*areas, *self.groupings) if areas else ()
        for level in self.marginals_at:
            if level not in levels:
                known = f"levels are {', '.join(levels)}" if areas else "there are none"
                problem = f"'{level}' is not a level of a `hierarchy` with `consistent`: {known}"
                refuse("DP-DECL-003", problem=problem, key="marginals_at")

    @model_validator(mode="after")
    def _refuse_conflicting_names(self) -> Self:
        grouping_keywords = ["group_by", "marginals", "cube", "rollup", "hierarchy"]
        used = [name for name in grouping_keywords if getattr(self, name)]
        areas = self.hierarchy if self.consistent is not None else ()
        if areas:
            used.remove("hierarchy")
        if len(used) > 1:
            found = " and ".join(used)
            if "hierarchy" in used:
                found += ", which can be used together only with `consistent: true`"
            refuse("DP-RELEASE-008", found=found, key=used[-1])
        self._refuse_unknown_levels(areas)
        for key in {*areas} & {key for keys in self.attribute_sets for key in keys}:
            problem = f"'{key}' is already a level of the hierarchy"
            everywhere = any(key in keys for keys in self.attributes_at(None))
            refuse("DP-DECL-003", problem=problem, key=used[-1] if everywhere else "marginals_at")
        if not self.columns and (self.private_keys is None or () in self.table_keys):
            refuse("DP-DECL-003", problem=NO_COLUMNS, key="columns")
        self._refuse_repeated_marginal()
        keys = dict.fromkeys(key for keys in self.table_keys for key in keys)
        if self.histogram is not None:
            if self.histogram.key in (*keys, *self.derive):
                refuse("DP-RELEASE-007", name=self.histogram.key)
            keys[self.histogram.key] = None
        taken = {*keys, PRIVATE_KEYS} if self.private_keys else set(keys)
        names = [
            name for column, spec in self.columns.items() for name in spec.published_names(column)
        ]
        for name in names:
            if name in taken:
                refuse("DP-RELEASE-007", name=name)
            taken.add(name)
        refuse_similar_names([*keys, *names])
        check_computed(self.derive)
        return self


def _require_unless_defaults(schema: dict[str, Any]) -> None:
    """Make the JSON Schema require keys only if there is no `defaults` that may provide them."""
    schema["required"] = [name for name in schema["required"] if name not in SHARED]
    schema["if"] = {"not": {"required": ["defaults"]}}
    schema["then"] = {"required": ["budget", "tables"]}


VariableName = Annotated[str, Field(pattern=f"^{VARIABLE}$", max_length=60)]


class ReleaseSpec(Model):
    """One release: everything that is published together, under one budget.

    Mode `central` publishes aggregates (`queries`), mode `local` noised records (`records`).
    """

    model_config = ConfigDict(json_schema_extra=_require_unless_defaults)

    title: Text
    about: AboutSpec | None = None
    mode: Literal["central", "local"] = "central"
    tables: Annotated[tuple[LocalPath, ...], Field(min_length=1)]
    budget: BudgetSpec
    mechanism: Mechanism = MechanismSpec(name=AUTO)
    queries: Annotated[dict[Name, QuerySpec], Field(min_length=1)] = Field(default_factory=dict)
    records: Annotated[dict[Name, RecordsSpec], Field(min_length=1)] = Field(default_factory=dict)
    federated: FederatedSpec | None = None
    output: LocalPath
    ledger: LocalPath | None = None
    limits: Limits = Limits()
    quality: Quality = QualitySpec()
    duckdb: DuckDBSpec = DuckDBSpec()
    engine: EngineName = DEFAULT_ENGINE
    spark: SparkSpec = SparkSpec()
    formats: Annotated[tuple[FormatName, ...], BeforeValidator(as_list)] = ()
    wide: Annotated[tuple[Text, ...], BeforeValidator(as_list), ShortForm(TEXT_SCHEMA)] = ()
    variables: dict[VariableName, Kind] = Field(default_factory=dict)
    defaults: LocalPath | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        local = self.mode == "local"
        if bool(self.records) is not local or bool(self.queries) is local:
            requirement = "`records` and no `queries`" if local else "`queries` and no `records`"
            wrong = "queries" if local else "records"
            problem = f"a release with mode {self.mode} must have {requirement}"
            refuse("DP-DECL-003", problem=problem, key=wrong)
        if local and self.engine != DEFAULT_ENGINE:
            problem = "single records need the engine duckdb"
            refuse("DP-DECL-003", problem=problem)
        if self.federated and (local or self.ledger or self.budget.epsilon is None):
            problem = "a federated release needs queries, a budget with an epsilon, and no ledger"
            refuse("DP-DECL-003", problem=problem)
        refuse_similar_names(self.records)
        if local or self.federated:
            refuse_formats(self.extra_formats, self.wide, OF_RECORDS if local else ())
        names = [name for name, query in self.queries.items() for name in query.tables(name)]
        of_groups = [
            f"{name}_{one}" for name, query in self.queries.items() for one in query.summaries
        ]
        of_groups += [
            label for name, query in self.queries.items()
            for label in query.computed_table_names(name)
        ]  # fmt: skip
        refuse_similar_names([*names, *of_groups])
        return self

    @property
    def extra_formats(self) -> tuple[str, ...]:
        """The formats that are written in addition to the Parquet tables, in a fixed order."""
        return in_order(self.formats)

    @property
    def published_tables(self) -> dict[str, QuerySpec]:
        """Every published table by name; each marginal is a separate table."""
        return {
            name: table
            for query, spec in self.queries.items()
            for name, table in spec.tables(query).items()
        }

    @property
    def families(self) -> dict[str, list[str]]:
        """The queries of each family by its name; a query without `family` is its own family."""
        found: dict[str, list[str]] = {}
        for name, query in self.queries.items():
            found.setdefault(query.family or name, []).append(name)
        return found

    @property
    def query_of_table(self) -> dict[str, str]:
        """The name of the query that declares each published table, by the table's name."""
        queries = self.queries.items()
        return {table: query for query, spec in queries for table in spec.tables(query)}

    @field_validator("output")
    @classmethod
    def _refuse_outside_path(cls, output: str) -> str:
        parts = output.split("/")
        strange = ":" in output or "\\" in output  # drive letters, other separators
        if ".." in parts or parts[0] in ("", "~") or strange or parts in (["."], [""]):
            refuse("DP-RELEASE-003")
        return output
