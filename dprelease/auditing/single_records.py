"""Audit releases of single records: whether a record changes its own output by more than claimed.

Each record has a number, which is read together with the record, because an engine may return
records in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from dprelease.auditing.claims import (
    LargestChange,
    MeasurementName,
    ShareOfClaim,
    record_changes,
)
from dprelease.auditing.failures import (
    EMPTY_SITUATION,
    Failure,
    GroupReport,
    answer_without_failures,
    error_code_of,
)
from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import Rows, Situation
from dprelease.auditing.neighbours.stacks import (
    PAIR,
    pair_number_array,
    situation_pair,
    with_pair_number,
)
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, EQUAL_STORAGES, STORAGES
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.stage import AuditedRelease
from dprelease.errors.printable import count_text
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregates.sum import Sum
from dprelease.query.local_records import RecordColumn, Records
from dprelease.rehearsal.column_values import Draws
from dprelease.rehearsal.people import literals_in
from dprelease.schema.columns import IntegerColumn

RECORDS = 2000
"""The number of synthetic records of a table, each of which is compared with its replacement."""

MOST_ANSWERS = 8
"""The maximum number of compared values of a response column, evenly spread over all its values."""

NOT_READ_ONCE = 2**62
"""The value of records that are not read exactly once, which no column can have."""


@dataclass(frozen=True)
class RecordsResult:
    """The results of comparing the records of one table."""

    group: QueryGroup
    part: Records
    worst: dict[MeasurementName, LargestChange]
    report: GroupReport
    neighbouring: dict[MeasurementName, list[Situation]]
    """Situations in which a record is replaced by one with a neighbouring value, by column."""

    @property
    def complete(self) -> bool:
        """Return whether all records were compared."""
        return not self.report.left_out

    def pair(self, name: MeasurementName) -> Pair | None:
        """Return the record with the largest change of a column, and its replacement, as a pair."""
        largest = self.worst[name]
        if largest.situation is None:
            return None
        return situation_pair(self.group.tables, largest.situation, {}, largest.storages)

    def pairs_alone(self, name: MeasurementName) -> list[Pair]:
        """Return pairs of one record each, with values across the range of the column."""
        return [
            situation_pair(self.group.tables, one, {}) for one in self.neighbouring.get(name, ())
        ]


def compare_record_pairs(
    audited: AuditedRelease, part: Records, bits: ReplayedBits
) -> RecordsResult:
    """Replace each record by another one, and compare the changes with the columns' claims."""
    table = part.declared.table
    literals, draws = literals_in(audited.declaration), Draws(bits)
    group = QueryGroup(audited, (), {table.name: table}, {}, literals, draws)
    units = group.invent_units(RECORDS)
    mechanisms = {c.measurement.name: c.mechanism for c in audited.plan.of_query(part.name)}
    worst = {
        (part.name, column.name): LargestChange(
            part.query, column.measurement, mechanisms[column.name]
        )
        for column in part.columns
    }
    situations = [
        Situation("a record replaced by another one", one, other)
        for one, other in zip(units, units[::-1], strict=True)
    ]
    report = GroupReport()
    sides = _values_by_storage(audited, part, group, situations, report)
    neighbouring = {
        (part.name, column.name): list(
            _neighbouring_situations(column, sides[AS_DECLARED][column.name], units)
        )
        for column in part.columns
        if AS_DECLARED in sides
    }
    reversed_values = {
        storage: _read_records(audited, part, group, units[::-1], storage)
        for storage in EQUAL_STORAGES
        if storage in sides
    }
    for column in part.columns:
        largest = worst[part.name, column.name]
        _compare_column(column, largest, sides, reversed_values, situations)
    return RecordsResult(group, part, worst, report, neighbouring)


def _compare_column(
    column: RecordColumn,
    largest: LargestChange,
    sides: Mapping[str, Mapping[str, Integers]],
    reversed_values: Mapping[str, Mapping[str, Integers]],
    situations: list[Situation],
) -> None:
    """Compare the values of one column in every storage, also with those of reversed records."""
    for storage, read in sides.items():
        values = read[column.name]
        _compare_readings(column, largest, values, values[::-1], situations, (storage, storage))
    for storage, other in reversed_values.items():
        other_values, values = other[column.name], sides[storage][column.name]
        same = (storage, storage)
        _compare_readings(column, largest, other_values[::-1], values, situations, same, same=True)
        if AS_DECLARED in sides:
            declared = sides[AS_DECLARED][column.name]
            both = (storage, AS_DECLARED)
            _compare_readings(column, largest, other_values, declared, situations, both)


def _neighbouring_situations(
    column: RecordColumn, values: Integers, units: Sequence[Rows]
) -> Iterator[Situation]:
    """Yield situations in which a record is replaced by one with a neighbouring value.

    For numbers, these are values next to 0, and the largest and the smallest value. For responses,
    each of some values is replaced by the next one, and the last value by the first.
    """
    found, first = np.unique(values, return_index=True)
    if len(found) < 2:
        return
    if column.is_response:
        places = np.unique(np.linspace(0, len(found) - 1, MOST_ANSWERS).astype(np.int64)).tolist()
        pairs = [*pairwise(places), (places[-1], places[0])]
    else:
        zero = int(np.argmin(np.abs(found)))
        pairs = [(zero, zero - 1 if zero else 1), (len(found) - 1, 0)]
    for one, other in pairs:
        description = "a record replaced by one with a value beside its own"
        yield Situation(description, units[int(first[one])], units[int(first[other])])


def _values_by_storage(
    audited: AuditedRelease,
    part: Records,
    group: QueryGroup,
    situations: Sequence[Situation],
    report: GroupReport,
) -> dict[str, dict[str, Integers]]:
    """Return the values of all records by column, for each way of storing without a failure."""
    name, sides = part.declared.table.name, {}

    def read(some: Sequence[Situation], storage: str) -> dict[str, Integers]:
        """Return the values of the records of some situations in one storage, by column."""
        return _read_records(
            audited, part, group, [one.one for one in some if one is not EMPTY_SITUATION], storage
        )

    for storage in STORAGES:
        ask = partial(read, storage=storage)
        found, failing = answer_without_failures(ask, situations)
        if found is not None and not failing:
            sides[storage] = found
            report.tried.append(
                f"{count_text(len(situations), 'record', 'records')} of {name}, stored {storage}"
            )
            continue
        report.left_out.append(
            f"records of {name} stored {storage}: the engine fails on some of them"
        )
        for i in failing:
            codes = error_code_of(ask, [situations[i]]), error_code_of(ask, [])
            report.add_failure(Failure("a record", storage, codes, None))
    return sides


def _read_records(
    audited: AuditedRelease, part: Records, group: QueryGroup, units: list[Rows], storage: str
) -> dict[str, Integers]:
    """Return the values of the records of units by column, in the order of the units."""
    name = part.declared.table.name
    rows = {name: [row for unit in units for row in unit[name]]}
    table = situation_pair(group.tables, Situation("", rows), {}, (storage, storage)).one[name]
    table = table.add_column(0, PAIR, [pair_number_array(range(len(units)))])
    exact = audited.exact_records(_with_record_number(part, len(units)), {name: table})
    numbers = exact.vector(PAIR)
    if sorted(numbers.tolist()) != [*range(len(units))]:
        # A record that is missing or repeated because of its value would reveal the value.
        return {column.name: np.full(len(units), NOT_READ_ONCE) for column in part.columns}
    order = np.argsort(numbers)
    return {column.name: exact.vector(column.name)[order] for column in part.columns}


def _with_record_number(part: Records, records: int) -> Records:
    """Return the records with their number as an additional column."""
    last = max(records - 1, 1)
    number = IntegerColumn(type="integer", lower=0, upper=last, fill="0")
    first = part.columns[0]
    measurement = replace(first.measurement, name=PAIR, aggregate=Sum(PAIR, 0, last, Fraction(1)))
    declared = replace(part.declared, table=with_pair_number(part.declared.table, number))
    return replace(
        part,
        query=replace(part.query, declared=declared),
        columns=(RecordColumn(measurement, 0, last), *part.columns),
    )


def _compare_readings(
    column: RecordColumn,
    largest: LargestChange,
    one: Integers,
    other: Integers,
    situations: list[Situation],
    storages: tuple[str, str],
    *,
    same: bool = False,
) -> None:
    """Compare two readings of one column, record by record.

    `same` says that both readings are those of the same records, read in different orders.
    """
    changes: dict[int, list[int]] = {}
    for at, (left, right) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        inside = all(column.low <= value <= column.high for value in (left, right))
        if not inside or (same and left != right):
            largest.share = ShareOfClaim(float("inf"), "the values that a record may have")
            largest.situation = situations[at]
            largest.description = situations[at].description
            largest.storages = storages
        elif left != right:
            changes[at] = [1 if column.is_response else left - right]
    record_changes(
        {(largest.query.name, column.name): largest},
        {(largest.query.name, column.name): changes},
        situations,
        storages,
    )
