"""Check, in exact integers, whether a unit changes a measurement by more than claimed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest

from dprelease.auditing.changes import Changes, changes_of
from dprelease.auditing.claims import NOTHING, Nearness, nearness
from dprelease.auditing.exact_pairs import FoundCells, Keys, failing_sides, found_of_pair
from dprelease.auditing.failures import (
    MOST_FAILING,
    Failure,
    GroupReport,
    answer_without_failures,
    smallest_failure,
    type_error_code,
)
from dprelease.auditing.neighbours.counting_rows import Group, hits_of
from dprelease.auditing.neighbours.join_tables import public_tables
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import situation_pair
from dprelease.auditing.neighbours.stored_values import ALIKE, AS_DECLARED, FLOAT_IDS, TURNED, WAYS
from dprelease.auditing.neighbours.worst_units import joint_hits, random_units, worst_units
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedWords
from dprelease.auditing.stage import EngineFailure, Stage
from dprelease.errors.printable import count_text
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.rehearsal.draws import Draws
from dprelease.rehearsal.meeting import literals_of
from dprelease.schema.columns import Column, IntegerColumn
from dprelease.schema.release_parts.engine_names import DEFAULT_ENGINE
from dprelease.schema.table import Table

Named = tuple[str, str]
"""The names of a query and of one of its measurements."""

MOST_SITUATIONS = 600
"""The maximum number of situations for one group of queries."""

RANDOM = 200
"""The number of random situations."""

LONE = 12
"""The number of worst situations, and of others, that are also tried as separate tables."""

FAR_LONE = 3
"""The same number for an engine that needs seconds to plan and distribute the work for each."""

FINDING, STACKED = 0.4, 0.75
"""The shares of the time by which the search for counting rows, and the stacks, must end."""


@dataclass
class Worst:
    """The pair with the largest change of a measurement, and the number of pairs tried.

    `least` is a situation without other units that has the smallest change, of `step` in total: if
    possible, it changes a true value of 0 to 1.
    """

    query: Query
    measurement: Measurement
    mechanism: Randomizer
    pairs: int = 0
    near: Nearness = NOTHING
    description: str = ""
    situation: Situation | None = None
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED)
    change: list[int] = field(default_factory=list)
    least: Situation | None = None
    step: int = 0

    def note_least(self, situation: Situation, step: int) -> None:
        """Record a situation as `least` if it has no other units and a smaller change."""
        if not situation.crowd and (self.least is None or step < self.step):
            self.least, self.step = situation, step


@dataclass
class LargestJointChange:
    """The situation with the largest joint change: the sum of squared shares of all claims."""

    total: float = 0.0
    situation: Situation | None = None
    parts: Mapping[Named, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TriedGroup:
    """The results of one group of queries."""

    group: Group
    worst: Mapping[Named, Worst]
    situations: Sequence[Situation]
    report: GroupReport
    most: LargestJointChange

    @property
    def complete(self) -> bool:
        """Return whether all pairs were compared."""
        return not self.report.left_out

    @property
    def joint_pairs(self) -> list[Pair]:
        """Return two pairs for the largest joint change: with and without other units."""
        most = self.most.situation
        both = [] if most is None else [most, replace(most, crowd=())]
        return [situation_pair(self.group.tables, one, self.group.public) for one in both]

    def pair(self, name: Named) -> Pair | None:
        """Return the pair with the largest change of a measurement; None if none changed it."""
        worst = self.worst[name]
        if worst.situation is None:
            return None
        return situation_pair(self.group.tables, worst.situation, self.group.public, worst.storages)

    def pairs_alone(self, name: Named) -> list[Pair]:
        """Return pairs without other units: with the largest and the smallest change.

        Without other units, true values are 0 on one side, where noise may be drawn differently.
        """
        worst = self.worst[name]
        most = None if worst.situation is None else replace(worst.situation, crowd=())
        each = [one for one in (most, worst.least) if one is not None]
        return [situation_pair(self.group.tables, one, self.group.public) for one in each]


def groups_of(stage: Stage, queries: Sequence[Query], bits: ReplayedWords) -> list[Group]:
    """Return the queries grouped by the tables about people that they read."""
    literals, draws = literals_of(stage.declaration), Draws(bits)
    by_tables: dict[tuple[str, ...], list[Query]] = {}
    for query in queries:
        names = tuple(table.name for table in query.charged_tables)
        by_tables.setdefault(names, []).append(query)
    groups = []
    for names, grouped_queries in by_tables.items():
        tables = {name: stage.declaration.tables[name].table for name in names}
        group = Group(stage, tuple(grouped_queries), tables, {}, literals, draws)
        groups.append(public_tables(group))
    return groups


def compare_pairs(group: Group, until: float) -> TriedGroup:
    """Compare all pairs of a group of queries with the claims of every measurement.

    `until` is the deadline, by `time.monotonic()`, after which no further pairs are compared.
    """
    mechanisms = {(c.query.name, c.measurement.name): c.mechanism for c in group.stage.plan.columns}
    worst = {
        (query.name, measurement.name): Worst(
            query, measurement, mechanisms[query.name, measurement.name]
        )
        for query in group.queries
        for measurement in query.measurements
    }
    begun = time.monotonic()
    situations = list(_situations(group, begun + FINDING * (until - begun)))
    done = TriedGroup(group, worst, situations, GroupReport(), LargestJointChange())
    _compare_stacks(done, begun + STACKED * (until - begun))
    _compare_separately(done, until)
    return done


def _situations(group: Group, until: float) -> Iterator[Situation]:
    """Yield situations: first failing units, then worst units of all measurements in turn.

    Random situations follow.
    """
    hits = hits_of(group, until)
    yield from group.failing[:MOST_FAILING]
    each = [
        worst_units(group, query, hits.get((query.name, measurement.name), ()))
        for query in group.queries
        for measurement in query.measurements
    ]
    each += [
        worst_units(group, query, joint_hits(hits, query))
        for query in group.queries
        if len(query.measurements) > 1
    ]
    by_turns = (one for several in zip_longest(*each) for one in several if one is not None)
    room = max(LONE, min(MOST_SITUATIONS, 8 * group.pairs))
    for _, one in zip(range(room), by_turns, strict=False):
        yield one
    yield from random_units(group, group.queries, min(RANDOM, room))


def _compare_stacks(done: TriedGroup, until: float) -> None:
    """Compare all pairs in stacks, stored as declared, and then in each other way."""
    group, report, room = done.group, done.report, done.group.pairs
    parts = [done.situations[i : i + room] for i in range(0, len(done.situations), room)]
    number, tables = len(done.situations), ", ".join(group.tables)
    keys = [group.keys_of(part, WAYS) for part in parts]
    declared: list[SideAnswers] = []
    has_ids = any(isinstance(_id_of(table), IntegerColumn) for table in group.tables.values())
    orders = (TURNED, FLOAT_IDS) if has_ids else (TURNED,)
    storages = (*WAYS, *orders)
    for at, storage in enumerate(storages):
        for i, part in enumerate(parts):
            if (at or i) and time.monotonic() > until:
                missed = number - i * room
                report.left_out.append(
                    f"{missed:,} of {number:,} pairs about {tables}, stored {storage}"
                )
                break
            other = None
            if storage not in orders:
                other = _measure_side(done, part, keys[i], storage, first=False)
            if storage == AS_DECLARED and other is not None:
                declared.append(other)
            one = _measure_side(done, part, keys[i], storage, first=True)
            if one.refused:
                report.tried.append(f"a table stored {storage}: refused by {one.refused}")
                break
            if other is not None:
                _compare(done, part, (one, other), (storage, storage))
            if storage in (*ALIKE, *orders) and i < len(declared):
                _compare(done, part, (one, declared[i]), (storage, AS_DECLARED))
        else:
            report.tried.append(f"{number:,} pairs about {tables}, stored {storage}")


def _id_of(table: Table) -> Column | None:
    return None if table.unit.id is None else table.columns[table.unit.id]


@dataclass(frozen=True)
class SideAnswers:
    """The values of one side of a stack; None if the engine did not answer.

    `refused` is the code of the error, if the engine refuses a table whatever its rows are.
    """

    found: Mapping[Named, FoundCells] | None
    failing: Sequence[int]
    refused: str = ""


def _measure_side(
    done: TriedGroup, part: Sequence[Situation], keys: Keys, storage: str, *, first: bool
) -> SideAnswers:
    group, report = done.group, done.report
    sides = [
        partial(group.measure_situations, first=side, storage=storage, keys=keys)
        for side in (True, False)
    ]
    refused = type_error_code(sides[0], part) if storage == FLOAT_IDS else ""
    if refused:
        return SideAnswers(None, (), refused)
    found, failing = answer_without_failures(sides[0 if first else 1], part)
    for situation, codes in (smallest_failure(sides, part[i]) for i in failing):
        pair = situation_pair(group.tables, situation, group.public, (storage, storage))
        report.add_failure(Failure(situation.description, storage, codes, pair))
    if found is None:
        pairs = count_text(len(part), "pair", "pairs")
        report.left_out.append(f"{pairs} stored {storage}: the engine fails on many of them")
    return SideAnswers(found, failing)


def _compare(
    done: TriedGroup,
    part: Sequence[Situation],
    sides: tuple[SideAnswers, SideAnswers],
    storages: tuple[str, str],
) -> None:
    one, other = sides
    if one.found is None or other.found is None:
        return
    changes = {
        name: changes_of(
            case.measurement.aggregate, case.mechanism, one.found[name], other.found[name]
        )
        for name, case in done.worst.items()
    }
    record(done.worst, changes, part, storages, {*one.failing, *other.failing})
    if storages == (AS_DECLARED, AS_DECLARED):
        _note_joint_change(done, changes, part)


def _note_joint_change(
    done: TriedGroup, changes: Mapping[Named, Changes], part: Sequence[Situation]
) -> None:
    """Update the neighbouring pair with the largest joint change of all measurements."""
    worst = done.worst
    exact = {pair for name in worst if worst[name].measurement.exact for pair in changes[name]}
    totals: dict[int, dict[Named, float]] = {}
    for name, by_pair in changes.items():
        for pair, change in by_pair.items():
            if pair not in exact:
                ratio = _share_of_case(worst[name], change).ratio
                totals.setdefault(pair, {})[name] = ratio
    for pair, parts in totals.items():
        total = sum(ratio * ratio for ratio in parts.values())
        if total > done.most.total:
            done.most.total, done.most.situation, done.most.parts = total, part[pair], parts


def record(
    worst: Mapping[Named, Worst],
    changes: Mapping[Named, Changes],
    situations: Sequence[Situation],
    storages: tuple[str, str],
    without: Collection[int] = (),
) -> None:
    """Compare changes with their claims; pairs that differ in an invariant are no neighbours.

    `without` has the numbers of pairs on which the engine fails, which are not compared.
    """
    strangers = {*without} | {
        pair
        for name, case in worst.items()
        if case.measurement.exact == "declared"
        for pair in changes[name]
    }
    for name, case in worst.items():
        if case.measurement.exact == "declared":
            continue
        case.pairs += len(situations) - len(strangers)
        for pair, change in changes[name].items():
            if pair in strangers:
                continue
            if storages == (AS_DECLARED, AS_DECLARED):
                case.note_least(situations[pair], sum(map(abs, change)))
            near = _share_of_case(case, change)
            if near.ratio > case.near.ratio:
                case.near, case.situation, case.storages = near, situations[pair], storages
                case.description, case.change = situations[pair].description, change
                if storages[0] != AS_DECLARED:
                    case.description += f", stored {storages[0]}"
                if storages[0] != storages[1]:
                    case.description += " on one side alone"


def _share_of_case(case: Worst, change: Sequence[int]) -> Nearness:
    """Return the share of a claim that a change uses; a value fixed by invariants can't change."""
    if case.measurement.exact:
        return Nearness(float("inf"), "what follows from invariants") if any(change) else NOTHING
    return nearness(change, case.measurement.sensitivity)


def _compare_separately(done: TriedGroup, until: float) -> None:
    """Compare pairs as separate tables: the largest changes first, then some of all pairs."""
    group, report = done.group, done.report
    most = LONE if group.stage.declaration.spec.engine == DEFAULT_ENGINE else min(LONE, FAR_LONE)
    picked: dict[int, tuple[Situation, tuple[str, str]]] = {}
    for case in sorted(done.worst.values(), key=lambda case: -case.near.ratio):
        if case.situation is not None:
            picked.setdefault(id(case.situation), (case.situation, case.storages))
    tried_ = [*picked.values()][:most]
    stride = max(1, len(done.situations) // most)
    for i, situation in enumerate(done.situations[::stride]):
        storage = AS_DECLARED if i % 2 else ALIKE[i // 2 % len(ALIKE)]
        tried_.append((situation, (storage, AS_DECLARED)))
    tried_ = tried_[: 2 * most]
    text = f"of {{}} pairs about {', '.join(group.tables)} by themselves, as whole tables"
    for i, (situation, storages) in enumerate(tried_):
        if i and time.monotonic() > until:
            report.left_out.append(f"{len(tried_) - i} {text.format(len(tried_))}")
            tried_ = tried_[:i]
            break
        _compare_one_pair(done, situation, storages)
    report.tried.append(f"{len(tried_)} {text.format(f'{len(done.situations):,}')}")


def _compare_one_pair(done: TriedGroup, situation: Situation, storages: tuple[str, str]) -> None:
    group = done.group
    pair = situation_pair(group.tables, situation, group.public, storages)
    try:
        one, other = found_of_pair(group.stage, pair, group.queries)
    except EngineFailure:
        stored = storages[0] if storages[0] == storages[1] else f"{storages[0]} on one side alone"
        codes = failing_sides(group.stage, pair, group.queries)
        done.report.add_failure(Failure(f"{situation.description}, by itself", stored, codes, pair))
        return
    changes = {
        name: changes_of(case.measurement.aggregate, case.mechanism, one[name], other[name])
        for name, case in done.worst.items()
    }
    record(done.worst, changes, [situation], storages)


Progress = Callable[[str], None]


def queries_by_name(
    queries: Iterable[Query], names: Sequence[str], asked_by: Mapping[str, str]
) -> tuple[Query, ...]:
    """Return the queries with these names (or names of their tables); all without names."""
    wanted = {*names}
    return tuple(
        query for query in queries
        if not wanted or query.name in wanted or asked_by.get(query.name) in wanted
    )  # fmt: skip
