"""The exact integers of both tables of a pair: what noise would be added to, or choose by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.stage import Stage
from dprelease.exact.answering import Answering
from dprelease.exact.true_table import DenseProfile, ExactTable, Profile
from dprelease.numerics.lattice import Integers
from dprelease.query.resolve import Query
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, slots=True)
class Side:
    """What the engine found of one set of tables, by the name of the query.

    `queries`: over all keys that occur on either side, where they are not public. `tables`: as
    noise gets them. `units`: of queries with such keys, how many units each has.
    """

    queries: Mapping[str, Query]
    tables: Mapping[str, ExactTable]
    units: Mapping[str, Integers]

    def vector(self, query: str, measurement: str) -> Integers:
        """Return the (cells,) integers of a measurement that is a vector, lattice steps."""
        if measurement == PRIVATE_KEYS:
            return self.units[query]
        return self.tables[query].vector(measurement)

    def profile(self, query: str, measurement: str) -> Profile:
        """Return how often each candidate of a choice occurs in each cell."""
        profile = self.tables[query].profile(measurement)
        return profile.pairs() if isinstance(profile, DenseProfile) else profile


def exact_sides(
    stage: Stage, pair: Pair, queries: Sequence[Query] | None = None
) -> tuple[Side, Side]:
    """Return the exact integers of both tables, over the same cells.

    `queries`: some of the stage's; all by default. Raises as `Stage.engines`.
    """
    asked = stage.queries if queries is None else tuple(queries)
    found = [_partitions(stage, asked, tables) for tables in pair.sides]
    keys = {name: sorted({*found[0][name], *found[1][name]}) for name in found[0]}
    spaced = [_over(query, keys) for query in asked]
    sides = []
    for tables, units in zip(pair.sides, found, strict=True):
        with stage.engines(asked, tables) as engines:
            held = {query.name: engines[query.name].run(query) for query in spaced}
        numbers = {q.name: _units(q, units[q.name]) for q in spaced if q.private is not None}
        sides.append(Side({query.name: query for query in spaced}, held, numbers))
    return sides[0], sides[1]


def _partitions(
    stage: Stage, queries: Sequence[Query], tables: Tables
) -> dict[str, dict[str, int]]:
    """Return the keys that occur and are not public, with their units, by query."""
    asked = [query for query in queries if query.private is not None]
    if not asked:
        return {}
    with stage.engines(asked, tables) as engines:
        return {query.name: _of(engines[query.name], query) for query in asked}


def _of(engine: Answering, query: Query) -> dict[str, int]:
    found = engine.partitions(query)
    return dict(zip(found.names, found.units.tolist(), strict=True))


def _over(query: Query, keys: Mapping[str, Sequence[str]]) -> Query:
    if query.private is None:
        return query
    return replace(query, keys=query.private.among(keys[query.name]))


def _units(query: Query, units: Mapping[str, int]) -> Integers:
    (key,) = query.keys.keys
    return np.array([units.get(str(name), 0) for name in key.values], dtype=np.int64)
