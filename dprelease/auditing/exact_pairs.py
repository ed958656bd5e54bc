"""Compute the exact integers of both tables of a pair, before noise or a random choice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.numerics.lattice import Integers
from dprelease.query.resolve import Query
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, slots=True)
class Side:
    """The exact answers of an engine about one side of a pair, by the name of the query.

    `queries` have the non-public keys that occur on either side of the pair. `tables` are the exact
    tables, to which the noise is added. `units` has the number of privacy units of each non-public
    key.
    """

    queries: Mapping[str, Query]
    tables: Mapping[str, ExactTable]
    units: Mapping[str, Integers]

    def vector(self, query: str, measurement: str) -> Integers:
        """Return the (cells,) integers of a vector measurement, in the steps of its noise."""
        if measurement == PRIVATE_KEYS and query in self.units:
            return self.units[query]
        return self.tables[query].vector(measurement)

    def profile(self, query: str, measurement: str) -> Profile:
        """Return the counts of the candidates of a choice in each cell."""
        profile = self.tables[query].profile(measurement)
        return profile.pairs() if isinstance(profile, DenseProfile) else profile


def exact_sides(
    audited: AuditedRelease, pair: Pair, queries: Sequence[Query] | None = None
) -> tuple[Side, Side]:
    """Return the exact integers of both sides of a pair, over the same cells.

    `queries` are the queries to answer, by default all queries of the release. The errors are those
    of `AuditedRelease.engines`.
    """
    requested = audited.queries if queries is None else tuple(queries)
    found = [_units_by_query(audited, requested, tables) for tables in pair.sides]
    keys = {name: sorted({*found[0][name], *found[1][name]}) for name in found[0]}
    queries_with_keys = [_with_found_keys(query, keys) for query in requested]
    sides = []
    for tables, units in zip(pair.sides, found, strict=True):
        with audited.engines(requested, tables) as engines:
            answers = {query.name: engines[query.name].run(query) for query in queries_with_keys}
        numbers = {
            q.name: _units_in_key_order(q, units[q.name])
            for q in queries_with_keys
            if q.private is not None
        }
        sides.append(Side({query.name: query for query in queries_with_keys}, answers, numbers))
    return sides[0], sides[1]


def _units_by_query(
    audited: AuditedRelease, queries: Sequence[Query], tables: Tables
) -> dict[str, dict[str, int]]:
    """Return the non-public keys that occur, with their numbers of units, by query."""
    with_private_keys = [query for query in queries if query.private is not None]
    if not with_private_keys:
        return {}
    with audited.engines(with_private_keys, tables) as engines:
        return {
            query.name: _units_by_key(engines[query.name], query) for query in with_private_keys
        }


def _units_by_key(engine: QueryEngine, query: Query) -> dict[str, int]:
    """Return the number of units of each non-public key that occurs."""
    found = engine.partitions(query)
    return dict(zip(found.names, found.units.tolist(), strict=True))


def _with_found_keys(query: Query, keys: Mapping[str, Sequence[str]]) -> Query:
    """Return a query over the keys that were found for it, if its keys are non-public."""
    if query.private is None:
        return query
    return replace(query, keys=query.private.key_space_of(keys[query.name]))


def _units_in_key_order(query: Query, units: Mapping[str, int]) -> Integers:
    """Return the number of units of each key, in the order of the keys of the query."""
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class MeasuredCells:
    """The values of one measurement in a stack of pairs, with one entry for each non-zero value.

    Each entry has the number of a pair, a cell, a candidate and a value. The candidate of a vector
    is 0. For choices, the value is the count of the candidate in the cell.
    """

    pair: Integers
    cell: Integers
    candidate: Integers
    value: Integers


KeyNumbers = dict[tuple[str, tuple[str, ...]], int]
"""The numbers of non-public keys, by query and key, which both sides of a stack share."""


KeysByQuery = Mapping[str, Collection[str]]
"""The non-public keys of each query."""


def keys_in_stack(
    audited: AuditedRelease, queries: Sequence[Query], tables: Tables
) -> dict[str, Collection[str]]:
    """Return the non-public keys that occur in a stack, by query.

    The errors are those of `AuditedRelease.engines`.
    """
    return {name: [*units] for name, units in _units_by_query(audited, queries, tables).items()}


def measure_stack(
    audited: AuditedRelease,
    queries: Sequence[Query],
    tables: Tables,
    codes: KeyNumbers,
    keys: KeysByQuery,
) -> dict[tuple[str, str], MeasuredCells]:
    """Return the values of all measurements of stacked queries, by query and measurement.

    `keys` are the non-public keys that occur on either side. All of them are needed, because
    contribution limits select the groups of a unit among all keys that a query has, as they do
    among the selected keys in a release. `codes` has the numbers of keys, to which new keys are
    added. The errors are those of `AuditedRelease.engines`.
    """
    found: dict[tuple[str, str], MeasuredCells] = {}
    with audited.engines(queries, tables) as engines:
        for query in queries:
            engine = engines[query.name]
            if query.private is None:
                exact, lookup = engine.run(query), _lookup_with_public_keys(query)
            else:
                units = _units_by_key(engine, query)
                known = {*units, *keys.get(query.name, ())}
                query = replace(query, keys=query.private.key_space_of(known))
                exact, lookup = engine.run(query), _lookup_with_private_keys(query, codes)
                found[query.name, PRIVATE_KEYS] = _nonzero_cells(
                    _units_in_key_order(query, units), lookup
                )
            for measurement in query.measurements:
                name = (query.name, measurement.name)
                if measurement.is_choice:
                    found[name] = _profile_entries(exact.profile(measurement.name), lookup)
                elif measurement.is_vector and not measurement.finds_keys:
                    found[name] = _nonzero_cells(exact.vector(measurement.name), lookup)
    return found


CellLookup = Callable[[Integers], tuple[Integers, Integers]]
"""A function that returns the number of the pair and of the cell for each index of a vector."""


def _lookup_with_public_keys(query: Query) -> CellLookup:
    """Return the function that finds pairs and cells if the first key is the pair."""
    cells = query.keys.size // query.keys.keys[0].size
    return lambda at: (at // cells, at % cells)


def _lookup_with_private_keys(query: Query, codes: KeyNumbers) -> CellLookup:
    """Return the function that finds pairs and cells from the texts of non-public keys."""
    pairs, cells = list[int](), list[int]()
    assert query.private is not None
    for name in query.keys.keys[0].values:
        pair, *rest = query.private.values(str(name))
        pairs.append(int(pair))
        cells.append(codes.setdefault((query.name, tuple(rest)), len(codes)))
    numbers = np.array([pairs, cells], dtype=np.int64).reshape(2, len(pairs))
    return lambda at: (numbers[0][at], numbers[1][at])


def _nonzero_cells(vector: Integers, lookup: CellLookup) -> MeasuredCells:
    """Return the values of a vector that are not 0, with their pairs and cells."""
    at = np.flatnonzero(vector)
    pair, cell = lookup(at)
    return MeasuredCells(pair, cell, np.zeros_like(at), vector[at])


def _profile_entries(profile: Profile | DenseProfile, lookup: CellLookup) -> MeasuredCells:
    """Return the counts of all candidates of all cells, with their pairs and cells."""
    profile = profile.pairs() if isinstance(profile, DenseProfile) else profile
    at = np.repeat(np.arange(len(profile.starts) - 1), np.diff(profile.starts))
    pair, cell = lookup(at)
    return MeasuredCells(pair, cell, profile.values, profile.counts)


def measure_pair(
    audited: AuditedRelease, pair: Pair, queries: Sequence[Query]
) -> tuple[dict[tuple[str, str], MeasuredCells], dict[tuple[str, str], MeasuredCells]]:
    """Return the values of all measurements on the first and on the second side of a pair."""
    one, other = exact_sides(audited, pair, queries)
    return _measure_side(one), _measure_side(other)


def error_codes_of_sides(
    audited: AuditedRelease, pair: Pair, queries: Sequence[Query]
) -> tuple[str, str]:
    """Return the code of the error with which the engine fails on each side; empty for none."""
    codes = []
    for tables in pair.sides:
        try:
            exact_sides(audited, replace(pair, one=tables, other=tables), queries)
            codes.append("")
        except EngineFailure as failure:
            codes.append(failure.code)
    return codes[0], codes[1]


def _measure_side(side: Side) -> dict[tuple[str, str], MeasuredCells]:
    """Return the values of all measurements on one side of a pair."""
    found: dict[tuple[str, str], MeasuredCells] = {}

    def lookup(at: Integers) -> tuple[Integers, Integers]:
        """Return pair 0 for all cells, because each side has one pair only."""
        return np.zeros_like(at), at

    for query in side.queries.values():
        for measurement in query.measurements:
            name = (query.name, measurement.name)
            if measurement.is_choice:
                found[name] = _profile_entries(side.profile(*name), lookup)
            else:
                found[name] = _nonzero_cells(side.vector(*name), lookup)
    return found
