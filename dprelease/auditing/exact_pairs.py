"""Compute the exact integers of both tables of a pair, before noise or a random choice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import EngineFailure, Stage
from dprelease.exact.engine_api import Answering
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.numerics.lattice import Integers
from dprelease.query.resolve import Query
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, slots=True)
class Side:
    """The exact answers of an engine about one set of tables, by the name of the query.

    `queries` have all non-public keys that occur on either side of the pair. `tables` are the exact
    tables, which are the input of noise. `units` has the number of units of each non-public key.
    """

    queries: Mapping[str, Query]
    tables: Mapping[str, ExactTable]
    units: Mapping[str, Integers]

    def vector(self, query: str, measurement: str) -> Integers:
        """Return the (cells,) integers of a measurement that is a vector, in noise steps."""
        if measurement == PRIVATE_KEYS and query in self.units:
            return self.units[query]
        return self.tables[query].vector(measurement)

    def profile(self, query: str, measurement: str) -> Profile:
        """Return the counts of each candidate of a choice in each cell."""
        profile = self.tables[query].profile(measurement)
        return profile.pairs() if isinstance(profile, DenseProfile) else profile


def exact_sides(
    stage: Stage, pair: Pair, queries: Sequence[Query] | None = None
) -> tuple[Side, Side]:
    """Return the exact integers of both tables, over the same cells.

    `queries` are the queries to answer; all queries of the stage by default. Raises the errors of
    `Stage.engines`.
    """
    requested = stage.queries if queries is None else tuple(queries)
    found = [_partitions(stage, requested, tables) for tables in pair.sides]
    keys = {name: sorted({*found[0][name], *found[1][name]}) for name in found[0]}
    spaced = [_over_found_keys(query, keys) for query in requested]
    sides = []
    for tables, units in zip(pair.sides, found, strict=True):
        with stage.engines(requested, tables) as engines:
            answers = {query.name: engines[query.name].run(query) for query in spaced}
        numbers = {
            q.name: _units_in_order(q, units[q.name]) for q in spaced if q.private is not None
        }
        sides.append(Side({query.name: query for query in spaced}, answers, numbers))
    return sides[0], sides[1]


def _partitions(
    stage: Stage, queries: Sequence[Query], tables: Tables
) -> dict[str, dict[str, int]]:
    """Return, by query, the non-public keys that occur, each with its number of units."""
    with_private_keys = [query for query in queries if query.private is not None]
    if not with_private_keys:
        return {}
    with stage.engines(with_private_keys, tables) as engines:
        return {
            query.name: _units_by_key(engines[query.name], query) for query in with_private_keys
        }


def _units_by_key(engine: Answering, query: Query) -> dict[str, int]:
    found = engine.partitions(query)
    return dict(zip(found.names, found.units.tolist(), strict=True))


def _over_found_keys(query: Query, keys: Mapping[str, Sequence[str]]) -> Query:
    if query.private is None:
        return query
    return replace(query, keys=query.private.among(keys[query.name]))


def _units_in_order(query: Query, units: Mapping[str, int]) -> Integers:
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FoundCells:
    """The values of one measurement in a stack of pairs, as entries for non-empty cells.

    Each entry has a pair, a cell, a candidate and a value. For vectors, `candidate` is 0. For
    choices, `value` is the count of the candidate in the cell.
    """

    pair: Integers
    cell: Integers
    candidate: Integers
    value: Integers


Codes = dict[tuple[str, tuple[str, ...]], int]
"""The numbers of non-public keys, by query and key; they are the same for both sides of a stack."""


Keys = Mapping[str, Collection[str]]
"""Non-public keys, by query."""


def keys_in_stack(
    stage: Stage, queries: Sequence[Query], tables: Tables
) -> dict[str, Collection[str]]:
    """Return the non-public keys of stacked queries; raise the errors of `Stage.engines`."""
    return {name: [*units] for name, units in _partitions(stage, queries, tables).items()}


def found_in_stack(
    stage: Stage, queries: Sequence[Query], tables: Tables, codes: Codes, keys: Keys
) -> dict[tuple[str, str], FoundCells]:
    """Return the values of every measurement of stacked queries, by names of query and measurement.

    `keys` are the non-public keys that occur on either side. All of them are needed, because
    contribution limits select the groups of a unit among all keys, as among all selected keys in a
    release. Raises the errors of `Stage.engines`.
    """
    found: dict[tuple[str, str], FoundCells] = {}
    with stage.engines(queries, tables) as engines:
        for query in queries:
            engine = engines[query.name]
            if query.private is None:
                exact, place = engine.run(query), _public_places(query)
            else:
                units = _units_by_key(engine, query)
                known = {*units, *keys.get(query.name, ())}
                query = replace(query, keys=query.private.among(known))
                exact, place = engine.run(query), _private_places(query, codes)
                found[query.name, PRIVATE_KEYS] = _nonzero_cells(
                    _units_in_order(query, units), place
                )
            for measurement in query.measurements:
                name = (query.name, measurement.name)
                if measurement.is_choice:
                    found[name] = _profile_placed(exact.profile(measurement.name), place)
                elif measurement.is_vector and not measurement.finds_keys:
                    found[name] = _nonzero_cells(exact.vector(measurement.name), place)
    return found


Place = Callable[[Integers], tuple[Integers, Integers]]
"""Maps indices in a vector to numbers of pairs and of cells."""


def _public_places(query: Query) -> Place:
    cells = query.keys.size // query.keys.keys[0].size
    return lambda at: (at // cells, at % cells)


def _private_places(query: Query, codes: Codes) -> Place:
    pairs, cells = list[int](), list[int]()
    assert query.private is not None
    for name in query.keys.keys[0].values:
        pair, *rest = query.private.values(str(name))
        pairs.append(int(pair))
        cells.append(codes.setdefault((query.name, tuple(rest)), len(codes)))
    numbers = np.array([pairs, cells], dtype=np.int64).reshape(2, len(pairs))
    return lambda at: (numbers[0][at], numbers[1][at])


def _nonzero_cells(vector: Integers, place: Place) -> FoundCells:
    at = np.flatnonzero(vector)
    pair, cell = place(at)
    return FoundCells(pair, cell, np.zeros_like(at), vector[at])


def _profile_placed(profile: Profile | DenseProfile, place: Place) -> FoundCells:
    profile = profile.pairs() if isinstance(profile, DenseProfile) else profile
    at = np.repeat(np.arange(len(profile.starts) - 1), np.diff(profile.starts))
    pair, cell = place(at)
    return FoundCells(pair, cell, profile.values, profile.counts)


def found_of_pair(
    stage: Stage, pair: Pair, queries: Sequence[Query]
) -> tuple[dict[tuple[str, str], FoundCells], dict[tuple[str, str], FoundCells]]:
    """Return the values of all measurements on both sides of a pair."""
    one, other = exact_sides(stage, pair, queries)
    return _found_of_side(one), _found_of_side(other)


def failing_sides(stage: Stage, pair: Pair, queries: Sequence[Query]) -> tuple[str, str]:
    """Return the codes of the errors with which the engine fails on each side of a pair."""
    codes = []
    for tables in pair.sides:
        try:
            exact_sides(stage, replace(pair, one=tables, other=tables), queries)
            codes.append("")
        except EngineFailure as failure:
            codes.append(failure.code)
    return codes[0], codes[1]


def _found_of_side(side: Side) -> dict[tuple[str, str], FoundCells]:
    found: dict[tuple[str, str], FoundCells] = {}

    def place(at: Integers) -> tuple[Integers, Integers]:
        return np.zeros_like(at), at

    for query in side.queries.values():
        for measurement in query.measurements:
            name = (query.name, measurement.name)
            if measurement.is_choice:
                found[name] = _profile_placed(side.profile(*name), place)
            else:
                found[name] = _nonzero_cells(side.vector(*name), place)
    return found
