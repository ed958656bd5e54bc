"""Compute the exact answers about stand-ins, with which published tables are compared.

Like the package `noise`, this module reads the exact answers of an engine. This is allowed because
the rows are not confidential: the engines come from `StandIns`, which has no declared source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.results.true_records import ExactRecords
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.numerics.lattice import Flags, Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.local_records import Records
from dprelease.query.measurement import Measurement, quantile_vector_name
from dprelease.query.resolve import Query
from dprelease.rehearsal.stand_ins import StandIns
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release import PRIVATE_KEYS

ROWS = "rows of the cell"
"""The name of the row count in every `Truth`; a declared name contains no space."""

MANY_GROUPS, MANY_ROWS = 10**6, 10**9
"""The highest contribution limits that can be declared, which leave out no synthetic row."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact integers in the cells of one table, to which the mechanisms add noise.

    `query` is the query of the table; if its keys are non-public, it has all keys that occur.
    `vectors` has the exact integers of each measurement. For a choice (of a quantile or of a
    frequent value) these are the chosen candidates, and `MISSING` in cells without a value.
    `unbounded` has the same integers without contribution limits, and is None if there are no
    limits. `rows` has the number of rows of each cell without contribution limits. `profiles` has
    the counts of the candidates of each choice, within the contribution limits.
    """

    query: Query
    vectors: dict[str, Integers]
    unbounded: dict[str, Integers] | None
    rows: Integers
    profiles: dict[str, Profile]


def truths(stand_ins: StandIns, queries: Sequence[Query]) -> Iterator[Truth]:
    """Yield the exact answers to queries of the declaration of stand-ins.

    Raises DataError if a stand-in does not match the declaration of its table. Raises TypeError if
    a query reads a declared source, as in `StandIns.engines`.
    """
    unlimited_queries = [_without_limits(query) for query in queries]
    has_limits = any(query.unit.id is not None for query in queries)
    with stand_ins.engines(unlimited_queries) as engines_without_limits:
        unlimited_answers = [
            _read_with_all_keys(engines_without_limits[query.name], query)
            for query in unlimited_queries
        ]
    limited_answers = unlimited_answers
    if has_limits:
        # Keys that occur only above the limits belong to both answers, so that their cells
        # correspond.
        queries_with_keys = [
            _with_keys_of(query, answer.query)
            for query, answer in zip(queries, unlimited_answers, strict=True)
        ]
        with stand_ins.engines(queries) as engines:
            limited_answers = [
                _read_answers(engines[query.name], query) for query in queries_with_keys
            ]
    for query, unlimited, bounded in zip(queries, unlimited_answers, limited_answers, strict=True):
        unbounded = unlimited.vectors if query.unit.id is not None else None
        rekeyed = _with_keys_of(query, unlimited.query)
        yield Truth(rekeyed, bounded.vectors, unbounded, unlimited.vectors[ROWS], bounded.profiles)


def true_records(part: Records, exact: ExactRecords) -> dict[str, Integers]:
    """Return the exact integers of records by column, clamped to the bounds of the column."""
    return {
        column.name: np.clip(exact.vector(column.name), column.low, column.high)
        for column in part.columns
    }


@dataclass(frozen=True, slots=True)
class _ExactAnswers:
    """The exact answers to a query by measurement: vectors of integers, and profiles of choices."""

    query: Query
    vectors: dict[str, Integers]
    profiles: dict[str, Profile]


def _without_limits(query: Query) -> Query:
    """Return the query with contribution limits that leave out no row, and with a count of rows."""
    unit = query.unit
    if unit.id is not None:
        unit = PrivacyUnit(unit.id, MANY_GROUPS, MANY_ROWS)
    rows = _row_count_measurement(query, unit)
    measurements = tuple(
        _with_sensitivity(measurement, query, unit) for measurement in query.measurements
    )
    return replace(query, unit=unit, measurements=(*measurements, rows))


def _row_count_measurement(query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement that counts the rows of each cell."""
    count = Count()
    return Measurement(
        name=ROWS,
        aggregate=count,
        sensitivity=count.sensitivity(unit, query.neighbours, max(1, query.keys.size)),
        unit="rows",
        mechanism=MechanismSpec(name=AUTO),
        weight=Fraction(1),
        charged_column=ROWS,
    )


def _with_sensitivity(measurement: Measurement, query: Query, unit: PrivacyUnit) -> Measurement:
    """Return the measurement with the sensitivity that belongs to the limits of `unit`."""
    if not measurement.is_vector:
        return measurement
    cells = max(1, query.keys.size)
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _read_with_all_keys(engine: QueryEngine, query: Query) -> _ExactAnswers:
    """Return the exact answer to a query; with non-public keys, for all keys that occur."""
    if query.private is not None:
        names = engine.partitions(query).names
        query = replace(query, keys=query.private.key_space_of(names))
    return _read_answers(engine, query)


def _with_keys_of(query: Query, other: Query) -> Query:
    """Return a query with the non-public keys of another query, if its keys are non-public."""
    return query if query.private is None else replace(query, keys=other.keys)


def _read_answers(engine: QueryEngine, query: Query) -> _ExactAnswers:
    """Return the exact answers to the measurements of a query."""
    exact = engine.run(query)
    vectors: dict[str, Integers] = {}
    profiles: dict[str, Profile] = {}
    for measurement in query.measurements:
        if measurement.finds_keys:
            vectors[PRIVATE_KEYS] = _unit_counts(engine, query)
        elif measurement.is_vector:
            vectors[measurement.name] = exact.vector(measurement.name)
        elif measurement.is_choice:
            profile = profiles[measurement.name] = _sparse_profile(exact, measurement)
            vectors |= _exact_choices(query, measurement, profile)
    return _ExactAnswers(query, vectors, profiles)


def _unit_counts(engine: QueryEngine, query: Query) -> Integers:
    """Return the numbers of privacy units that have each non-public key."""
    partitions = engine.partitions(query)
    units = dict(zip(partitions.names, partitions.units.tolist(), strict=True))
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)


def _sparse_profile(exact: ExactTable, measurement: Measurement) -> Profile:
    """Return the profile of a choice with only the candidates that occur."""
    profile = exact.profile(measurement.name)
    return profile.pairs() if isinstance(profile, DenseProfile) else profile


def _exact_choices(query: Query, measurement: Measurement, profile: Profile) -> dict[str, Integers]:
    """Return the exactly chosen candidate of each cell, as steps or as indices of values."""
    aggregate, name = measurement.aggregate, measurement.name
    if aggregate.by_rank:
        return {name: _values_of_rank(profile, narrow_aggregate(aggregate, Frequent))}
    if aggregate.part is not None:
        return {name: _to_steps(quantile(profile, aggregate.part), aggregate)}
    parts = [column.at for column in query.columns if column.parts[0] == measurement]
    return {
        quantile_vector_name(name, at): _to_steps(quantile(profile, at), aggregate)
        for at in parts
        if at is not None
    }


def _to_steps(indices: Integers, aggregate: Aggregate) -> Integers:
    """Convert indices of the candidates of a numeric column to steps; MISSING stays unchanged."""
    stride, lattice = getattr(aggregate, "stride", 1), aggregate.lattice
    lower = 0 if lattice is None else lattice.lower
    return np.where(indices < 0, MISSING, indices * stride + lower)


MISSING = -(2**63)
"""The choice in a cell without any value, which is lower than every candidate."""


def cumulative_counts(profile: Profile) -> tuple[Integers, Integers, Integers]:
    """Return the cell of each profile entry, and the cell's counts below and up to its value."""
    sizes = np.diff(profile.starts)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.cumsum(profile.counts)
    base = np.concatenate(([0], sums))[profile.starts[:-1]]
    upto = sums - base[cell]
    return cell, upto - profile.counts, upto


def value_totals(profile: Profile) -> Integers:
    """Return the number of values of each cell."""
    sums = np.concatenate(([0], np.cumsum(profile.counts)))
    sums_of_cells: Integers = sums[profile.starts[1:]] - sums[profile.starts[:-1]]
    return sums_of_cells


def quantile(profile: Profile, at: Fraction) -> Integers:
    """Return the candidate that is the quantile of each cell, and MISSING without values."""
    cell, _, upto = cumulative_counts(profile)
    total = value_totals(profile)
    # A ceiling in whole numbers; the minimum is the first value, not the value number 0.
    rank = np.maximum(-(-(total * at.numerator) // at.denominator), 1)
    holds = np.flatnonzero(upto >= rank[cell])
    quantiles: Integers = np.full(len(total), MISSING, dtype=np.int64)
    # Among several entries of one cell, the first entry is written last, so that it stays.
    quantiles[cell[holds][::-1]] = profile.values[holds][::-1]
    return quantiles


def _values_of_rank(profile: Profile, aggregate: Frequent) -> Integers:
    """Return the value of each cell that has the aggregate's rank by its number of rows.

    Values with equal numbers of rows are ranked in declared order.
    """
    cell, _, _ = cumulative_counts(profile)
    # The last key sorts first: cells, then counts in falling order, then values.
    order = np.lexsort((profile.values, -profile.counts, cell))
    positions = profile.starts[:-1] + aggregate.rank - 1
    present: Flags = positions < profile.starts[1:]
    values: Integers = np.full(len(positions), MISSING, dtype=np.int64)
    values[present] = profile.values[order][positions[present]]
    return values
