"""Compute exact answers about stand-ins, with which published tables are compared.

This module reads exact answers of an engine, as `noise` does. This is allowed because the rows are
not confidential: the engines come from a `Cast`, which has no declared source.
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
"""The name of the row count in every truth; declared names contain no space."""

MANY_GROUPS, MANY_ROWS = 10**6, 10**9
"""The highest contribution limits that can be declared, which leave out no synthetic rows."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact integers of one table's cells, which are the input of the noise mechanism.

    `query` has all non-public keys that occur. `vectors` has the exact integers by measurement. For
    a choice it has the exact choice, which is below 0 in a cell without a value. `unbounded` has
    the same integers without contribution limits; None if there are no limits. `rows` is the number
    of rows of each cell before contribution limits. `profiles` has the counts of each candidate of
    a choice, within the limits.
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
        The error of `Cast.engines`.
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
    """Return the exact integers of records by column, clamped to the bounds of the column."""
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
    """Return the query with limits that leave out no rows, and with a count of rows."""
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
    """Return the measurement with a sensitivity that is large enough without limits."""
    if not measurement.is_vector:
        return measurement
    cells = max(1, query.keys.size)
    sensitivity = measurement.aggregate.sensitivity(unit, query.neighbours, cells)
    return replace(measurement, sensitivity=sensitivity)


def _read_answer(engine: Answering, query: Query) -> _Read:
    """Return the answer to a query, over all non-public keys that occur."""
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
    """Return the number of units that have each non-public key."""
    partitions = engine.partitions(query)
    units = dict(zip(partitions.names, partitions.units.tolist(), strict=True))
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)


def _pairs(exact: ExactTable, measurement: Measurement) -> Profile:
    profile = exact.profile(measurement.name)
    return profile.pairs() if isinstance(profile, DenseProfile) else profile


def _exact_choices(query: Query, measurement: Measurement, profile: Profile) -> dict[str, Integers]:
    """Return the candidates that an exact choice selects: noise steps, or indices of values."""
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
    """Return indices of candidates on a grid as steps; MISSING stays unchanged."""
    stride, lattice = getattr(aggregate, "stride", 1), aggregate.lattice
    lower = 0 if lattice is None else lattice.lower
    return np.where(places < 0, MISSING, places * stride + lower)


MISSING = -(2**63)
"""The choice in a cell without any value; it is lower than every candidate."""


def below_and_upto(profile: Profile) -> tuple[Integers, Integers, Integers]:
    """Return, for each entry of a profile, its cell, and the counts below and up to its value."""
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
    """Return the quantile of each cell: a candidate, or MISSING for a cell without values."""
    cell, _, upto = below_and_upto(profile)
    total = totals(profile)
    rank = np.maximum(-(-(total * at.numerator) // at.denominator), 1)
    holds = np.flatnonzero(upto >= rank[cell])
    found: Integers = np.full(len(total), MISSING, dtype=np.int64)
    found[cell[holds][::-1]] = profile.values[holds][::-1]  # the first entry is written last
    return found


def _frequent(profile: Profile, aggregate: Frequent) -> Integers:
    """Return the value with a given rank by number of rows in each cell; ties in declared order."""
    cell, _, _ = below_and_upto(profile)
    order = np.lexsort((profile.values, -profile.counts, cell))
    positions = profile.starts[:-1] + aggregate.rank - 1
    present: Flags = positions < profile.starts[1:]
    found: Integers = np.full(len(positions), MISSING, dtype=np.int64)
    found[present] = profile.values[order][positions[present]]
    return found
