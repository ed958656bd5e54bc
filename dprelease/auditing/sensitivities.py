"""Check in exact integers whether a privacy unit changes a measurement by more than claimed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest

from dprelease.auditing.changes import Changes, changes_of
from dprelease.auditing.claims import (
    LargestChange,
    MeasurementName,
    record_changes,
    share_of_claim,
)
from dprelease.auditing.exact_pairs import (
    KeysByQuery,
    MeasuredCells,
    error_codes_of_sides,
    measure_pair,
)
from dprelease.auditing.failures import (
    MOST_FAILING,
    Failure,
    GroupReport,
    answer_without_failures,
    data_independent_code,
    smallest_failure,
)
from dprelease.auditing.neighbours.counting_rows import QueryGroup, find_counted_rows
from dprelease.auditing.neighbours.join_tables import public_tables
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import situation_pair
from dprelease.auditing.neighbours.stored_values import (
    AS_DECLARED,
    EQUAL_STORAGES,
    FLOAT_IDS,
    REVERSED,
    STORAGES,
)
from dprelease.auditing.neighbours.worst_units import (
    jointly_counted_rows,
    random_situations,
    worst_situations,
)
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.errors.printable import count_text
from dprelease.query.resolve import Query
from dprelease.rehearsal.column_values import Draws
from dprelease.rehearsal.people import literals_in
from dprelease.schema.columns import Column, IntegerColumn
from dprelease.schema.release_parts.extension_names import DEFAULT_ENGINE
from dprelease.schema.table import Table

MOST_SITUATIONS = 600
"""The maximum number of situations for one group of queries."""

RANDOM_SITUATIONS = 200
"""The number of random situations."""

SEPARATE_PAIRS = 12
"""The number of worst situations, and of other situations, that are tried as separate tables."""

SEPARATE_PAIRS_ON_CLUSTERS = 3
"""The same number for an engine that needs seconds to plan and distribute each query."""

SEARCH_SHARE, STACKS_SHARE = 0.4, 0.75
"""The shares of the time after which the search for counted rows, and the stacks, must end."""


@dataclass
class LargestJointChange:
    """The situation with the largest joint change of all measurements.

    `total` is the sum of the squared shares of the claims, and `parts` has these shares.
    """

    total: float = 0.0
    situation: Situation | None = None
    parts: Mapping[MeasurementName, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupResult:
    """The results of comparing pairs for one group of queries."""

    group: QueryGroup
    worst: Mapping[MeasurementName, LargestChange]
    situations: Sequence[Situation]
    report: GroupReport
    most: LargestJointChange

    @property
    def complete(self) -> bool:
        """Return whether all pairs were compared."""
        return not self.report.left_out

    @property
    def joint_pairs(self) -> list[Pair]:
        """Return the pairs with the largest joint change: one with, and one without other units."""
        most = self.most.situation
        both = [] if most is None else [most, replace(most, other_units=())]
        return [situation_pair(self.group.tables, one, self.group.public) for one in both]

    def pair(self, name: MeasurementName) -> Pair | None:
        """Return the pair with the largest change of a measurement; None if no pair changes it."""
        worst = self.worst[name]
        if worst.situation is None:
            return None
        return situation_pair(self.group.tables, worst.situation, self.group.public, worst.storages)

    def pairs_alone(self, name: MeasurementName) -> list[Pair]:
        """Return pairs without other units: one with the largest, and one with the smallest change.

        Without other units, true values are 0 on one side, and a wrong noise stage might draw noise
        differently there.
        """
        worst = self.worst[name]
        most = None if worst.situation is None else replace(worst.situation, other_units=())
        each = [one for one in (most, worst.least) if one is not None]
        return [situation_pair(self.group.tables, one, self.group.public) for one in each]


def query_groups(
    audited: AuditedRelease, queries: Sequence[Query], bits: ReplayedBits
) -> list[QueryGroup]:
    """Return the queries in groups, each of which reads the same tables about people."""
    literals, draws = literals_in(audited.declaration), Draws(bits)
    by_tables: dict[tuple[str, ...], list[Query]] = {}
    for query in queries:
        names = tuple(table.name for table in query.charged_tables)
        by_tables.setdefault(names, []).append(query)
    groups = []
    for names, grouped_queries in by_tables.items():
        tables = {name: audited.declaration.tables[name].table for name in names}
        group = QueryGroup(audited, tuple(grouped_queries), tables, {}, literals, draws)
        groups.append(public_tables(group))
    return groups


def compare_pairs(group: QueryGroup, until: float) -> GroupResult:
    """Compare all pairs of a group of queries with the claims of every measurement.

    `until` is the deadline, by `time.monotonic()`, after which no further pairs are compared.
    """
    mechanisms = {
        (c.query.name, c.measurement.name): c.mechanism for c in group.audited.plan.columns
    }
    worst = {
        (query.name, measurement.name): LargestChange(
            query, measurement, mechanisms[query.name, measurement.name]
        )
        for query in group.queries
        for measurement in query.measurements
    }
    begun = time.monotonic()
    situations = list(_situations_to_try(group, begun + SEARCH_SHARE * (until - begun)))
    result = GroupResult(group, worst, situations, GroupReport(), LargestJointChange())
    _compare_stacks(result, begun + STACKS_SHARE * (until - begun))
    _compare_separately(result, until)
    return result


def _situations_to_try(group: QueryGroup, until: float) -> Iterator[Situation]:
    """Yield the situations to try.

    The first are failing units. The worst situations of all measurements follow in turn, and then
    random situations.
    """
    counted = find_counted_rows(group, until)
    yield from group.failing_units[:MOST_FAILING]
    each = [
        worst_situations(group, query, counted.get((query.name, measurement.name), ()))
        for query in group.queries
        for measurement in query.measurements
    ]
    each += [
        worst_situations(group, query, jointly_counted_rows(counted, query))
        for query in group.queries
        if len(query.measurements) > 1
    ]
    by_turns = (one for several in zip_longest(*each) for one in several if one is not None)
    room = max(SEPARATE_PAIRS, min(MOST_SITUATIONS, 8 * group.max_pairs))
    for _, one in zip(range(room), by_turns, strict=False):
        yield one
    yield from random_situations(group, group.queries, min(RANDOM_SITUATIONS, room))


def _compare_stacks(result: GroupResult, until: float) -> None:
    """Compare all pairs in stacks that are stored as declared, and then in every other way."""
    group, report, room = result.group, result.report, result.group.max_pairs
    parts = [result.situations[i : i + room] for i in range(0, len(result.situations), room)]
    number, tables = len(result.situations), ", ".join(group.tables)
    keys = [group.keys_on_both_sides(part, STORAGES) for part in parts]
    declared: list[SideAnswers] = []
    has_ids = any(isinstance(_id_column(table), IntegerColumn) for table in group.tables.values())
    orders = (REVERSED, FLOAT_IDS) if has_ids else (REVERSED,)
    storages = (*STORAGES, *orders)
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
                other = _measure_side(result, part, keys[i], storage, first=False)
            if storage == AS_DECLARED and other is not None:
                declared.append(other)
            one = _measure_side(result, part, keys[i], storage, first=True)
            if one.refused:
                report.tried.append(f"a table stored {storage}: refused by {one.refused}")
                break
            if other is not None:
                _compare_sides(result, part, (one, other), (storage, storage))
            if storage in (*EQUAL_STORAGES, *orders) and i < len(declared):
                _compare_sides(result, part, (one, declared[i]), (storage, AS_DECLARED))
        else:
            report.tried.append(f"{number:,} pairs about {tables}, stored {storage}")


def _id_column(table: Table) -> Column | None:
    """Return the column of a table that has the ids of units; None if a unit is a row."""
    return None if table.unit.id is None else table.columns[table.unit.id]


@dataclass(frozen=True)
class SideAnswers:
    """The values on one side of a stack, by query and measurement.

    `found` is None if the engine did not answer. `failing` has the numbers of the pairs on which
    the engine fails. `refused` is the code of an error with which the engine refuses tables of
    these types, whatever their rows are.
    """

    found: Mapping[MeasurementName, MeasuredCells] | None
    failing: Sequence[int]
    refused: str = ""


def _measure_side(
    result: GroupResult, part: Sequence[Situation], keys: KeysByQuery, storage: str, *, first: bool
) -> SideAnswers:
    """Return the values on one side of some situations, and report failures of the engine."""
    group, report = result.group, result.report
    sides = [
        partial(group.measure_situations, first=side, storage=storage, keys=keys)
        for side in (True, False)
    ]
    refused = data_independent_code(sides[0], part) if storage == FLOAT_IDS else ""
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


def _compare_sides(
    result: GroupResult,
    part: Sequence[Situation],
    sides: tuple[SideAnswers, SideAnswers],
    storages: tuple[str, str],
) -> None:
    """Compute the changes between two sides, and keep the largest change of each measurement."""
    one, other = sides
    if one.found is None or other.found is None:
        return
    changes = {
        name: changes_of(
            largest.measurement.aggregate, largest.mechanism, one.found[name], other.found[name]
        )
        for name, largest in result.worst.items()
    }
    record_changes(result.worst, changes, part, storages, {*one.failing, *other.failing})
    if storages == (AS_DECLARED, AS_DECLARED):
        _note_joint_change(result, changes, part)


def _note_joint_change(
    result: GroupResult, changes: Mapping[MeasurementName, Changes], part: Sequence[Situation]
) -> None:
    """Update the situation with the largest joint change of all measurements."""
    worst = result.worst
    exact = {pair for name in worst if worst[name].measurement.exact for pair in changes[name]}
    totals: dict[int, dict[MeasurementName, float]] = {}
    for name, by_pair in changes.items():
        for pair, change in by_pair.items():
            if pair not in exact:
                ratio = share_of_claim(worst[name], change).ratio
                totals.setdefault(pair, {})[name] = ratio
    for pair, parts in totals.items():
        total = sum(ratio * ratio for ratio in parts.values())
        if total > result.most.total:
            result.most.total, result.most.situation, result.most.parts = total, part[pair], parts


def _compare_separately(result: GroupResult, until: float) -> None:
    """Compare pairs as separate tables: first those with the largest changes, then some others."""
    group, report = result.group, result.report
    most = (
        SEPARATE_PAIRS
        if group.audited.declaration.spec.engine == DEFAULT_ENGINE
        else min(SEPARATE_PAIRS, SEPARATE_PAIRS_ON_CLUSTERS)
    )
    picked: dict[int, tuple[Situation, tuple[str, str]]] = {}
    for largest in sorted(result.worst.values(), key=lambda largest: -largest.share.ratio):
        if largest.situation is not None:
            picked.setdefault(id(largest.situation), (largest.situation, largest.storages))
    pairs_to_compare = [*picked.values()][:most]
    stride = max(1, len(result.situations) // most)
    for i, situation in enumerate(result.situations[::stride]):
        storage = AS_DECLARED if i % 2 else EQUAL_STORAGES[i // 2 % len(EQUAL_STORAGES)]
        pairs_to_compare.append((situation, (storage, AS_DECLARED)))
    pairs_to_compare = pairs_to_compare[: 2 * most]
    text = f"of {{}} pairs about {', '.join(group.tables)} by themselves, as whole tables"
    for i, (situation, storages) in enumerate(pairs_to_compare):
        if i and time.monotonic() > until:
            report.left_out.append(
                f"{len(pairs_to_compare) - i} {text.format(len(pairs_to_compare))}"
            )
            pairs_to_compare = pairs_to_compare[:i]
            break
        _compare_one_pair(result, situation, storages)
    report.tried.append(f"{len(pairs_to_compare)} {text.format(f'{len(result.situations):,}')}")


def _compare_one_pair(result: GroupResult, situation: Situation, storages: tuple[str, str]) -> None:
    """Compare the two sides of one situation as separate tables."""
    group = result.group
    pair = situation_pair(group.tables, situation, group.public, storages)
    try:
        one, other = measure_pair(group.audited, pair, group.queries)
    except EngineFailure:
        stored = storages[0] if storages[0] == storages[1] else f"{storages[0]} on one side alone"
        codes = error_codes_of_sides(group.audited, pair, group.queries)
        result.report.add_failure(
            Failure(f"{situation.description}, by itself", stored, codes, pair)
        )
        return
    changes = {
        name: changes_of(largest.measurement.aggregate, largest.mechanism, one[name], other[name])
        for name, largest in result.worst.items()
    }
    record_changes(result.worst, changes, [situation], storages)


Progress = Callable[[str], None]


def select_queries(
    queries: Iterable[Query], names: Sequence[str], query_of_table: Mapping[str, str]
) -> tuple[Query, ...]:
    """Return the queries with these names, or with tables of these names; all if none is named."""
    wanted = {*names}
    return tuple(
        query for query in queries
        if not wanted or query.name in wanted or query_of_table.get(query.name) in wanted
    )  # fmt: skip
