"""The step that makes the tables of a family consistent.

It also reports, from the declaration only, why the tables of a family can't be made consistent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dprelease.consistency.fixed_point import value_bits
from dprelease.errors import DpReleaseError, QueryError
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import (
    DERIVED,
    FamilyColumn,
    consistent_columns,
)
from dprelease.postprocess.consistent.family_shape import (
    Shape,
    wrong_targets,
    wrong_zeros,
    zeros_of,
)
from dprelease.postprocess.consistent.invariants import crossing_invariants, wrong_invariants
from dprelease.postprocess.consistent.outputs import (
    all_outputs,
    estimate_columns,
    integer_table_columns,
)
from dprelease.postprocess.consistent.second_check import second_check
from dprelease.postprocess.consistent.values import (
    MOST_CLIQUE_CELLS,
    cliques_of,
    family_values,
    is_dense,
    published_tables,
)
from dprelease.postprocess.families import (
    Batch,
    FamilyStep,
    FamilyTable,
    NoisedTable,
    Output,
    Placer,
)
from dprelease.postprocess.partition import wrong_folders
from dprelease.query.aggregates.count import Count
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.consistent import ConsistentSpec
from dprelease.system.prefetch import Spread, in_threads

if TYPE_CHECKING:
    from dprelease.postprocess.consistent.consistency_record import ConsistencyRecord

LEAST_LARGEST = 1 << 29
"""Least value that totals may have, with FINE bits after the point."""

FINE = 4

NOT_ADDITIVE = (
    "rounded, coded or suppressed values do not add up; remove this key: the quality class marks "
    "unreliable values"
)


def all_findings(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    """Yield findings on the declaration; findings that follow from others are not reported."""
    found = [
        *_column_findings(columns, spec, place),
        *_request_findings(shape, columns, spec, place),
    ]
    if shape.sizes and value_bits(shape.sizes, LEAST_LARGEST) < FINE:
        combinations = math.prod(shape.sizes)
        found.append(QueryError("DP-CONSIST-014", place=place("consistent"), cells=combinations))
    found += _name_collisions(shape, columns, spec, place) if not found else ()
    found += _table_findings(shape, columns, spec, place) if not found else ()
    yield from found


def _column_findings(
    columns: Sequence[FamilyColumn], spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    for column in columns[0].shape.placed[0].table.query.columns:
        if column.form in DERIVED and column.post != NO_POST_PROCESSING:
            where = place("columns", column.name)
            yield QueryError("DP-CONSIST-011", place=where, column=column.name, reason=NOT_ADDITIVE)
    for agreed in columns:
        reason = _inconsistency_reason(agreed, spec)
        if reason is not None:
            yield QueryError(
                "DP-CONSIST-011",
                place=place("columns", agreed.measurement.charged_column),
                column=agreed.name,
                reason=reason,
            )
            continue
        uncertified = {
            noise.name: one.name
            for one in (*agreed.shape.placed, *agreed.shape.grouping_tables)
            if (noise := agreed.mechanism_of(one.table)).variance_bound_and_mean is None
        }
        for mechanism, table in uncertified.items():
            yield QueryError(
                "DP-CONSIST-012",
                place=place("columns", agreed.measurement.charged_column),
                column=agreed.name,
                table=table,
                mechanism=mechanism,
            )


def _inconsistency_reason(agreed: FamilyColumn, spec: ConsistentSpec) -> str | None:
    column, aggregate = agreed.column, agreed.measurement.aggregate
    sums_rows = aggregate.is_vector and aggregate.adds_up and not aggregate.is_distinct
    if column.form != MEASURED or not sums_rows:
        return "it is not a count or sum, or a mean or ratio of these"
    if column.post != NO_POST_PROCESSING:
        return NOT_ADDITIVE
    if spec.non_negative and agreed.is_shown and aggregate.least < 0:
        return "values below 0 have sums below 0, but `non_negative` is declared"
    return None


def _request_findings(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    for keys, reason in _request_reasons(shape, columns, spec):
        yield _useless_key_error(keys, reason, place)


def _useless_key_error(keys: tuple[str | int, ...], reason: str, place: Placer) -> QueryError:
    name = ".".join(key for key in keys if isinstance(key, str))
    return QueryError("DP-CONSIST-013", place=place("consistent", *keys), key=name, reason=reason)


def _request_reasons(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    down_to, areas = spec.publish.down_to, shape.levels[1:]
    if down_to is not None and down_to not in areas:
        known = f"levels are {', '.join(areas)}" if areas else "there is no hierarchy"
        yield ("publish", "down_to"), f"'{down_to}' is not a level of areas; {known}"
    if spec.groupings and down_to in areas[:-1]:
        yield (
            ("groupings",),
            f"their tables are sums of '{areas[-1]}', which has no estimates with `down_to`",
        )
    yield from _partition_reasons(shape, spec)
    yield from _target_reasons(shape, columns, spec)
    wrong = list(wrong_zeros(shape, spec.zeros))
    for i, name, reason in wrong:
        yield ("zeros", i, name), reason
    yield from _method_reasons(spec)
    if spec.zeros and not spec.non_negative:
        yield ("zeros",), "estimates stay unbiased; only integer tables (`non_negative`) have zeros"
    # If every cell is a structural zero, the totals could not be distributed.
    elif spec.zeros and not wrong and zeros_of(shape, spec.zeros).all():
        yield ("zeros",), "nothing is left that could be"
    if spec.non_negative and not any(one.is_shown for one in columns):
        yield ("non_negative",), "integer tables need counts or sums, and there are none"
    elif spec.non_negative and not wrong:
        yield from _size_reasons(shape, spec)
    if not wrong:
        yield from wrong_invariants(shape, columns, spec, zeros_of(shape, spec.zeros))
    if spec.publish.records:
        yield from _record_reasons(shape, columns, spec)


def _size_reasons(
    shape: Shape, spec: ConsistentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield tables that are not declared, but too large for integer tables of all others."""
    declared = {one.attributes for one in shape.placed}
    for clique in cliques_of(shape, spec):
        cells = math.prod(shape.sizes[i] for i in clique.table)
        if clique.table not in declared and cells > MOST_CLIQUE_CELLS:
            names = ", ".join(shape.attributes[i].column for i in clique.table)
            yield (
                ("non_negative",),
                f"integer tables that add up need one table by [{names}], whose {cells:,} cells "
                f"are more than {MOST_CLIQUE_CELLS:,}; declare fewer tables that link these keys",
            )


def _method_reasons(spec: ConsistentSpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    reason = "estimates stay unbiased; it applies only to integer tables (`non_negative`)"
    if spec.composition is not None and not spec.non_negative:
        yield ("composition",), reason
    if spec.method is not None and not spec.non_negative:
        yield ("method",), reason
    if spec.method == "least_squares" and spec.composition is not None:
        yield (
            ("composition",),
            "it needs `method: fast`, because least squares uses all measured tables",
        )


def _partition_reasons(
    shape: Shape, spec: ConsistentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    name, where = spec.publish.partition, ("publish", "partition")
    above = [key.column for key in shape.areas[:-1]]
    if name is None:
        return
    if name not in above:
        known = f"levels above the last are {', '.join(above)}" if above else "no level is above it"
        yield where, f"'{name}' is not a level with another one below it; {known}"
        return
    for reason in wrong_folders(shape.areas[above.index(name)]):
        yield where, reason


def _target_reasons(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for i, reason in wrong_targets(shape, spec.targets, [one.name for one in columns]):
        yield ("targets", i), reason
    reason = "columns declare their own epsilon or rho, and share nothing"
    for i, target in enumerate(spec.targets):
        meant = [one for one in columns if target.column in (None, one.name)]
        if target.weight is not None and all(one.measurement.own for one in meant):
            yield ("targets", i, "weight"), reason


def _record_reasons(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    aggregates = [one.measurement.aggregate for one in columns]
    where = ("publish", "records")
    if not spec.non_negative:
        yield where, "`persons` needs integer tables: declare `non_negative: true`"
    if aggregates != [Count()]:
        yield where, "`persons` needs exactly one column, the count of rows"
    if not shape.leaves.keys:
        yield where, "`persons` needs at least one key"


def _name_collisions(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    """Yield published names that collide; names that differ only in case collide."""
    every = (*shape.areas, *shape.groupings, *shape.attributes)
    keys = {key.column.casefold() for key in every}
    for columns_of in (
        (estimate_columns, integer_table_columns) if spec.non_negative else (estimate_columns,)
    ):
        taken = set(keys)
        published = {one.name: list(columns_of(one)) for one in columns if one.is_shown}
        if columns_of is estimate_columns:
            published |= {one.name: list(one.descriptions) for one in derived_columns(shape)}
        for column, names in published.items():
            for name in names:
                if name.casefold() in taken:
                    reason = (
                        f"'{name}' would be published with it, but another column has this name"
                    )
                    where = place("columns", column)
                    fields: dict[str, Any] = {"column": column, "reason": reason}
                    yield QueryError("DP-CONSIST-011", place=where, **fields)
                taken.add(name.casefold())


def _table_findings(
    shape: Shape, columns: Sequence[FamilyColumn], spec: ConsistentSpec, place: Placer
) -> Iterator[DpReleaseError]:
    """Yield tables that the measurements don't determine at a level, and invariants that cross."""
    for where, reason in crossing_invariants(columns, spec, cliques_of(shape, spec)):
        yield _useless_key_error(where, reason, place)
    wanted = published_tables(shape, spec)
    for agreed in columns:
        every = sorted({table for tables in wanted for table in tables})
        publishable = agreed.variances.publishable(every)
        for level, name in enumerate(shape.levels):
            for table in wanted[level]:
                if table not in publishable[level]:
                    keys = ", ".join(shape.attributes[i].column for i in table)
                    yield QueryError(
                        "DP-CONSIST-015",
                        place=place("consistent"),
                        column=agreed.name,
                        table=f"[{keys}]",
                        level=name,
                    )


@dataclass(frozen=True)
class Consistent:
    """Estimates and integer tables of one query; see `FamilyStep`."""

    query: str
    spec: ConsistentSpec

    @property
    def name(self) -> str:
        """Return the name of the step in the release file."""
        return "consistent"

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        """See `FamilyStep.findings`."""
        shape = Shape.of(tables)
        yield from all_findings(shape, consistent_columns(shape), self.spec, place)

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        """See `FamilyStep.outputs`."""
        shape = Shape.of(tables)
        return tuple(all_outputs(self.query, shape, consistent_columns(shape), self.spec, is_dense))

    def record(self, tables: Sequence[FamilyTable]) -> ConsistencyRecord:
        """See `FamilyStep.record`."""
        from dprelease.postprocess.consistent.record import family_record

        shape = Shape.of(tables)
        return family_record(self.query, shape, consistent_columns(shape), self.spec)

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        """See `FamilyStep.values`."""
        shape = Shape.of([held.table for held in noised])
        yield from family_values(self.query, consistent_columns(shape), self.spec, noised, spread)

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        """See `FamilyStep.problems`."""
        shape = Shape.of([held.table for held in noised])
        yield from second_check(self.query, consistent_columns(shape), self.spec, noised, published)


def make_step(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for a query with consistent tables."""
    return None if spec.consistent is None else Consistent(name, spec.consistent)
