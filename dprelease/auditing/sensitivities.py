"""Whether any unit moves a measurement farther than its price is of, in exact integers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from dprelease.auditing.changes import Changes, changes_of
from dprelease.auditing.claims import NOTHING, Nearness, nearness
from dprelease.auditing.exact_pairs import Found, found_in_stack
from dprelease.auditing.neighbours.counting_rows import Group, hits_of
from dprelease.auditing.neighbours.met_tables import public_tables
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import lone, stack, stacked_queries
from dprelease.auditing.neighbours.stored_values import ALIKE, AS_DECLARED, WAYS
from dprelease.auditing.neighbours.worst_units import random_units, worst_units
from dprelease.auditing.pairs import Pair, Tables
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.stage import Stage
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.rehearsal.draws import Draws
from dprelease.rehearsal.meeting import literals_of

Named = tuple[str, str]
"""Names of a query, and of a measurement of it."""

MOST_SITUATIONS = 600
"""Of one group of queries."""

RANDOM = 200
"""Situations at random."""

LONE = 12
"""Situations of a group that are also tried as whole tables by themselves."""


@dataclass
class Worst:
    """The pair that moved a measurement most, and how many were tried."""

    query: Query
    measurement: Measurement
    law: Randomizer
    pairs: int = 0
    near: Nearness = NOTHING
    words: str = ""
    situation: Situation | None = None
    ways: tuple[str, str] = (AS_DECLARED, AS_DECLARED)
    change: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Tried:
    """What became of one group of queries."""

    group: Group
    worst: Mapping[Named, Worst]
    situations: Sequence[Situation]
    complete: bool

    def pair(self, name: Named) -> Pair | None:
        """Return the pair that moved a measurement most, by itself; None if none moved it."""
        worst = self.worst[name]
        if worst.situation is None:
            return None
        return lone(self.group.tables, worst.situation, self.group.public, worst.ways)


def groups_of(stage: Stage, queries: Sequence[Query], bits: Replayed) -> list[Group]:
    """Return the queries by the tables about people that they read."""
    literals, draws = literals_of(stage.declaration), Draws(bits)
    by_tables: dict[tuple[str, ...], list[Query]] = {}
    for query in queries:
        names = tuple(table.name for table in query.charged)
        by_tables.setdefault(names, []).append(query)
    groups = []
    for names, asked in by_tables.items():
        tables = {name: stage.declaration.tables[name].table for name in names}
        group = Group(stage, tuple(asked), tables, {}, literals, draws)
        groups.append(public_tables(group))
    return groups


def tried(group: Group, until: float) -> Tried:
    """Compare all pairs of a group of queries with the claims of every measurement.

    `until`: the time, as `time.monotonic` tells it, after which no further ones are begun.
    """
    laws = {(c.query.name, c.measurement.name): c.mechanism for c in group.stage.plan.columns}
    worst = {
        (query.name, measurement.name): Worst(
            query, measurement, laws[query.name, measurement.name]
        )
        for query in group.queries
        for measurement in query.measurements
    }
    situations = list(_situations(group))
    complete, room = True, group.pairs
    for first in range(0, len(situations), room):
        if first and time.monotonic() > until:
            complete = False
            break
        _compare_stack(group, situations[first : first + room], worst)
    done = Tried(group, worst, situations, complete)
    return Tried(group, worst, situations, _compare_lone(done, until) and complete)


def _situations(group: Group) -> Iterator[Situation]:
    """Yield the worst units of all measurements by turns, and then those at random."""
    hits = hits_of(group)
    each = [
        worst_units(group, query, hits.get((query.name, measurement.name), ()))
        for query in group.queries
        for measurement in query.measurements
    ]
    by_turns = (one for several in zip_longest(*each) for one in several if one is not None)
    room = max(LONE, min(MOST_SITUATIONS, 8 * group.pairs))
    for _, one in zip(range(room), by_turns, strict=False):
        yield one
    yield from random_units(group, group.queries, min(RANDOM, room))


def _compare_stack(
    group: Group, situations: Sequence[Situation], worst: Mapping[Named, Worst]
) -> None:
    queries = stacked_queries(group.queries, len(situations))
    sides: dict[tuple[str, bool], dict[Named, Found]] = {}
    for way in WAYS:
        for first in (True, False):
            made = stack(group.tables, situations, first=first, way=way)
            tables: Tables = {**group.public, **made}
            sides[way, first] = found_in_stack(group.stage, queries, tables, group.codes)
    pairs = [(way, way) for way in WAYS] + [(way, AS_DECLARED) for way in ALIKE]
    for ways in pairs:
        one, other = sides[ways[0], True], sides[ways[1], False]
        changes = {
            name: changes_of(held.measurement.aggregate, held.law, one[name], other[name])
            for name, held in worst.items()
        }
        record(worst, changes, situations, ways)


def record(
    worst: Mapping[Named, Worst],
    changes: Mapping[Named, Changes],
    situations: Sequence[Situation],
    ways: tuple[str, str],
) -> None:
    """Compare changes with their claims; pairs that differ in an invariant are no neighbours."""
    strangers = {
        pair
        for name, held in worst.items()
        if held.measurement.exact == "declared"
        for pair in changes[name]
    }
    for name, held in worst.items():
        if held.measurement.exact == "declared":
            continue
        held.pairs += len(situations) - len(strangers)
        for pair, change in changes[name].items():
            if pair in strangers:
                continue
            near = nearness_of(held, change)
            if near.ratio > held.near.ratio:
                held.near, held.situation, held.ways = near, situations[pair], ways
                held.words, held.change = situations[pair].words, change
                if ways[0] != AS_DECLARED:
                    held.words += f", stored {ways[0]}"
                if ways[0] != ways[1]:
                    held.words += " on one side alone"


def nearness_of(held: Worst, change: Sequence[int]) -> Nearness:
    """Return how near a change comes; what follows from invariants may not change at all."""
    if held.measurement.exact:
        return Nearness(float("inf"), "what follows from invariants") if any(change) else NOTHING
    return nearness(change, held.measurement.sensitivity)


def _compare_lone(done: Tried, until: float) -> bool:
    """Try pairs as whole tables by themselves; return whether there was time for all."""
    from dprelease.auditing.exact_pairs import found_of_pair

    ordered = [held for held in done.worst.values() if held.situation is not None]
    picked: dict[int, tuple[Situation, tuple[str, str]]] = {}
    for held in ordered:
        if held.situation is not None:
            picked.setdefault(id(held.situation), (held.situation, held.ways))
    tried_ = [*picked.values()][:LONE]
    stride = max(1, len(done.situations) // LONE)
    for i, situation in enumerate(done.situations[::stride]):
        ways = (AS_DECLARED, AS_DECLARED) if i % 2 else (ALIKE[i // 2 % len(ALIKE)], AS_DECLARED)
        tried_.append((situation, ways))
    group = done.group
    for i, (situation, ways) in enumerate(tried_[: 2 * LONE]):
        if i and time.monotonic() > until:
            return False
        pair = lone(group.tables, situation, group.public, ways)
        one, other = found_of_pair(group.stage, pair, group.queries)
        changes = {
            name: changes_of(held.measurement.aggregate, held.law, one[name], other[name])
            for name, held in done.worst.items()
        }
        record(done.worst, changes, [situation], ways)
    return True


Progress = Callable[[str], None]


def asked_queries(
    queries: Iterable[Query], names: Sequence[str], asked_by: Mapping[str, str]
) -> tuple[Query, ...]:
    """Return the queries of these names, of tables or of what asks for several; all without any."""
    wanted = {*names}
    return tuple(
        query for query in queries
        if not wanted or query.name in wanted or asked_by.get(query.name) in wanted
    )  # fmt: skip
