"""Compute the exact answers about stand-ins, to compare published tables with.

Apart from `noise`, only this module reads exact answers of an engine. It may, because the data
are no real people's: engines come from a `Cast`, which has no declared source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.exact.engine_api import Answering
from dprelease.exact.results.true_records import ExactRecords
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.numerics.lattice import Flags, Integers
from dprelease.privacy.unit import PrivacyUnit
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.count import Count
from dprelease.query.aggregates.frequent import Frequent
from dprelease.query.local_records import Records
from dprelease.query.measurement import Measurement, read_at
from dprelease.query.resolve import Query
from dprelease.rehearsal.stand_ins import Cast
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release import PRIVATE_KEYS

ROWS = "rows of the cell"
"""The name of a count in every truth; its space separates it from declared names."""

MANY_GROUPS, MANY_ROWS = 10**6, 10**9
"""The highest limits that can be declared: they remove nothing from synthetic people."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Exact integers of one table's cells, as the noise mechanism receives them.

    `query`: with all keys that occur, if they are not public. `vectors`: by measurement; of a
    choice the exact one, below 0 where a cell has no value. `unbounded`: the same without
    contribution bounds; None if there are none. `rows`: of each cell, before contribution bounds.
    `profiles`: how often each candidate of a choice occurs, within the bounds.
    """

    query: Query
    vectors: dict[str, Integers]
    unbounded: dict[str, Integers] | None
    rows: Integers
    profiles: dict[str, Profile]


def truths(cast: Cast, queries: Sequence[Query]) -> Iterator[Truth]:
    """Yield the truth of each query of the cast's declaration.

    Raises
    ------
    DataError
        If a stand-in does not match the declaration of its source.
    TypeError
        As `Cast.engines`.
    """
    loose = [_loose(query) for query in queries]
    bounds = any(query.unit.id is not None for query in queries)
    with cast.engines(loose) as without:
        found = [_read_answer(without[query.name], query) for query in loose]
    limited = found
    if bounds:
        spaced = [
            _over_keys(query, answer.query) for query, answer in zip(queries, found, strict=True)
        ]
        with cast.engines(queries) as engines:
            limited = [_read_answers(engines[query.name], query) for query in spaced]
    for query, unlimited, bounded in zip(queries, found, limited, strict=True):
        unbounded = unlimited.vectors if query.unit.id is not None else None
        rekeyed = _over_keys(query, unlimited.query)
        yield Truth(rekeyed, bounded.vectors, unbounded, unlimited.vectors[ROWS], bounded.profiles)


def true_records(part: Records, exact: ExactRecords) -> dict[str, Integers]:
    """Return the exact integers of records, by column, within their bounds."""
    return {
        column.name: np.clip(exact.vector(column.name), column.low, column.high)
        for column in part.columns
    }


@dataclass(frozen=True, slots=True)
class _Read:
    query: Query
    vectors: dict[str, Integers]
    profiles: dict[str, Profile]


def _loose(query: Query) -> Query:
    """Return the query with bounds that remove nothing, and a count of rows."""
    unit = query.unit
    if unit.id is not None:
        unit = PrivacyUnit(unit.id, MANY_GROUPS, MANY_ROWS)
    rows = _row_count(query, unit)
    wide = tuple(_with_sensitivity(measurement, query, unit) for measurement in query.measurements)
    return replace(query, unit=unit, measurements=(*wide, rows))


def _row_count(query: Query, unit: PrivacyUnit) -> Measurement:
    count = Count()
    return Measurement(
        name=ROWS,
        aggregate=count,
        sensitivity=count.sensitivity(unit, query.neighbours, max(1, query.keys.size)),
        unit="rows",
        mechanism=MechanismSpec(name=AUTO),
        weight=Fraction(1),
        asked_by=ROWS,
    )


def _with_sensitivity(measurement: Measurement, query: Query, unit: PrivacyUnit) -> Measurement:
    """Return a vector whose sums have room for values without bounds."""
    if not measurement.is_vector:
        return measurement
    cells = max(1, query.keys.size)
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _read_answer(engine: Answering, query: Query) -> _Read:
    """Return the answer of a query; over all keys that occur, if they are not public."""
    if query.private is not None:
        names = engine.partitions(query).names
        query = replace(query, keys=query.private.among(names))
    return _read_answers(engine, query)


def _over_keys(query: Query, found: Query) -> Query:
    return query if query.private is None else replace(query, keys=found.keys)


def _read_answers(engine: Answering, query: Query) -> _Read:
    exact = engine.run(query)
    vectors: dict[str, Integers] = {}
    profiles: dict[str, Profile] = {}
    for measurement in query.measurements:
        if measurement.finds_keys:
            vectors[PRIVATE_KEYS] = _units(engine, query)
        elif measurement.is_vector:
            vectors[measurement.name] = exact.vector(measurement.name)
        elif measurement.is_choice:
            profile = profiles[measurement.name] = _pairs(exact, measurement)
            vectors |= _exact_choices(query, measurement, profile)
    return _Read(query, vectors, profiles)


def _units(engine: Answering, query: Query) -> Integers:
    """Return the number of units of each key that is not public."""
    partitions = engine.partitions(query)
    units = dict(zip(partitions.names, partitions.units.tolist(), strict=True))
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)


def _pairs(exact: ExactTable, measurement: Measurement) -> Profile:
    profile = exact.profile(measurement.name)
    return profile.pairs() if isinstance(profile, DenseProfile) else profile


def _exact_choices(query: Query, measurement: Measurement, profile: Profile) -> dict[str, Integers]:
    """Return the candidates of an exact choice: noise steps, or indices of values."""
    aggregate, name = measurement.aggregate, measurement.name
    if aggregate.by_rank:
        return {name: _frequent(profile, narrow_aggregate(aggregate, Frequent))}
    if aggregate.part is not None:
        return {name: _steps(quantile(profile, aggregate.part), aggregate)}
    parts = [column.at for column in query.columns if column.parts[0] == measurement]
    return {
        read_at(name, at): _steps(quantile(profile, at), aggregate)
        for at in parts
        if at is not None
    }


def _steps(places: Integers, aggregate: Aggregate) -> Integers:
    """Return candidates of a grid as steps; MISSING stays."""
    stride, lattice = getattr(aggregate, "stride", 1), aggregate.lattice
    lower = 0 if lattice is None else lattice.lower
    return np.where(places < 0, MISSING, places * stride + lower)


MISSING = -(2**63)
"""A choice in a cell without any value; lower than any candidate."""


def below_and_upto(profile: Profile) -> tuple[Integers, Integers, Integers]:
    """Return for each pair of a profile its cell, and the number of values below, and up to it."""
    sizes = np.diff(profile.starts)
    cell = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.cumsum(profile.counts)
    base = np.concatenate(([0], sums))[profile.starts[:-1]]
    upto = sums - base[cell]
    return cell, upto - profile.counts, upto


def totals(profile: Profile) -> Integers:
    """Return the number of values of each cell."""
    sums = np.concatenate(([0], np.cumsum(profile.counts)))
    sums_of_cells: Integers = sums[profile.starts[1:]] - sums[profile.starts[:-1]]
    return sums_of_cells


def quantile(profile: Profile, at: Fraction) -> Integers:
    """Return the smallest candidate of each cell that holds a rank; MISSING without a value."""
    cell, _, upto = below_and_upto(profile)
    total = totals(profile)
    rank = np.maximum(-(-(total * at.numerator) // at.denominator), 1)
    holds = np.flatnonzero(upto >= rank[cell])
    found: Integers = np.full(len(total), MISSING, dtype=np.int64)
    found[cell[holds][::-1]] = profile.values[holds][::-1]  # the first of a cell is written last
    return found


def _frequent(profile: Profile, aggregate: Frequent) -> Integers:
    """Return the value of each cell with some rank by number of rows; ties in declared order."""
    cell, _, _ = below_and_upto(profile)
    order = np.lexsort((profile.values, -profile.counts, cell))
    positions = profile.starts[:-1] + aggregate.rank - 1
    present: Flags = positions < profile.starts[1:]
    found: Integers = np.full(len(positions), MISSING, dtype=np.int64)
    found[present] = profile.values[order][positions[present]]
    return found
