"""Audit releases of single records: a record changes only its own output, as far as claimed.

Each record has a number that is read together with it, because records may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from dprelease.auditing.claims import Nearness
from dprelease.auditing.failures import (
    NOWHERE,
    Failure,
    GroupReport,
    answer_without_failures,
    error_code_of,
)
from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import Rows, Situation
from dprelease.auditing.neighbours.stacks import (
    PAIR,
    pair_number_array,
    situation_pair,
    with_pair_number,
)
from dprelease.auditing.neighbours.stored_values import ALIKE, AS_DECLARED, WAYS
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import ReplayedWords
from dprelease.auditing.sensitivities import Named, Worst, record
from dprelease.auditing.stage import Stage
from dprelease.errors.printable import count_text
from dprelease.numerics.lattice import Integers
from dprelease.query.aggregates.sum import Sum
from dprelease.query.local_records import RecordColumn, Records
from dprelease.rehearsal.draws import Draws
from dprelease.rehearsal.meeting import literals_of
from dprelease.schema.columns import IntegerColumn

RECORDS = 2000
"""The number of synthetic records of a table; each is compared with its replacement."""

MOST_ANSWERS = 8
"""The maximum number of values of a response that are compared, evenly spread over all."""

FORGED = 2**62
"""The mark for the value of a record that is not read exactly once; it is no column's value."""


@dataclass(frozen=True)
class TriedRecords:
    """The results for the records of one table."""

    group: Group
    part: Records
    worst: dict[Named, Worst]
    report: GroupReport
    nearby: dict[Named, list[Situation]]
    """By column, situations in which a record is replaced by one with a neighbouring value."""

    @property
    def complete(self) -> bool:
        """Return whether all records were compared."""
        return not self.report.left_out

    def pair(self, name: Named) -> Pair | None:
        """Return the record with the largest change of a column, and its replacement."""
        case = self.worst[name]
        if case.situation is None:
            return None
        return situation_pair(self.group.tables, case.situation, {}, case.storages)

    def pairs_alone(self, name: Named) -> list[Pair]:
        """Return pairs of one record each, with values across the range of the column."""
        return [situation_pair(self.group.tables, one, {}) for one in self.nearby.get(name, ())]


def tried_records(stage: Stage, part: Records, bits: ReplayedWords) -> TriedRecords:
    """Compare records, each replaced by another one, with the claims of every column."""
    table = part.declared.table
    literals, draws = literals_of(stage.declaration), Draws(bits)
    group = Group(stage, (), {table.name: table}, {}, literals, draws)
    units = group.invent_units(RECORDS)
    mechanisms = {c.measurement.name: c.mechanism for c in stage.plan.of_query(part.name)}
    worst = {
        (part.name, column.name): Worst(part.query, column.measurement, mechanisms[column.name])
        for column in part.columns
    }
    situations = [
        Situation("a record replaced by another one", one, other)
        for one, other in zip(units, units[::-1], strict=True)
    ]
    report = GroupReport()
    sides = _values_by_storage(stage, part, group, situations, report)
    nearby = {
        (part.name, column.name): list(
            _neighbouring_values(column, sides[AS_DECLARED][column.name], units)
        )
        for column in part.columns
        if AS_DECLARED in sides
    }
    turned = {
        storage: _read_units(stage, part, group, units[::-1], storage)
        for storage in ALIKE
        if storage in sides
    }
    for column in part.columns:
        case = worst[part.name, column.name]
        for storage, read in sides.items():
            values = read[column.name]
            _compare(column, case, values, values[::-1], situations, (storage, storage))
        for storage, other in turned.items():
            other_values, values = other[column.name], sides[storage][column.name]
            _compare(
                column, case, other_values[::-1], values, situations, (storage, storage), same=True
            )
            if AS_DECLARED in sides:
                declared = sides[AS_DECLARED][column.name]
                _compare(column, case, other_values, declared, situations, (storage, AS_DECLARED))
    return TriedRecords(group, part, worst, report, nearby)


def _neighbouring_values(
    column: RecordColumn, values: Integers, units: Sequence[Rows]
) -> Iterator[Situation]:
    """Yield pairs of records with values next to 0 and at the ends; for others, in a ring."""
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
    stage: Stage, part: Records, group: Group, situations: Sequence[Situation], report: GroupReport
) -> dict[str, dict[str, Integers]]:
    """Return the values of all records, for each way of storing that the engine accepts."""
    name, sides = part.declared.table.name, {}

    def read(some: Sequence[Situation], storage: str) -> dict[str, Integers]:
        return _read_units(
            stage, part, group, [one.one for one in some if one is not NOWHERE], storage
        )

    for storage in WAYS:
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


def _read_units(
    stage: Stage, part: Records, group: Group, units: list[Rows], storage: str
) -> dict[str, Integers]:
    """Return the values of each unit's record, in the order of the units."""
    name = part.declared.table.name
    rows = {name: [row for unit in units for row in unit[name]]}
    table = situation_pair(group.tables, Situation("", rows), {}, (storage, storage)).one[name]
    table = table.add_column(0, PAIR, [pair_number_array(range(len(units)))])
    exact = stage.exact_records(_with_record_number(part, len(units)), {name: table})
    numbers = exact.vector(PAIR)
    if sorted(numbers.tolist()) != [*range(len(units))]:
        # The presence of a record would reveal its value.
        return {column.name: np.full(len(units), FORGED) for column in part.columns}
    order = np.argsort(numbers)
    return {column.name: exact.vector(column.name)[order] for column in part.columns}


def _with_record_number(part: Records, records: int) -> Records:
    """Return the records with their number as an additional column."""
    last = max(records - 1, 1)
    number = IntegerColumn(type="integer", lower=0, upper=last, nulls="0")
    first = part.columns[0]
    measurement = replace(first.measurement, name=PAIR, aggregate=Sum(PAIR, 0, last, Fraction(1)))
    declared = replace(part.declared, table=with_pair_number(part.declared.table, number))
    return replace(
        part,
        query=replace(part.query, declared=declared),
        columns=(RecordColumn(measurement, 0, last), *part.columns),
    )


def _compare(
    column: RecordColumn,
    case: Worst,
    one: Integers,
    other: Integers,
    situations: list[Situation],
    storages: tuple[str, str],
    *,
    same: bool = False,
) -> None:
    """Compare two readings record by record; `same` if these are the same records, reordered."""
    changes: dict[int, list[int]] = {}
    for at, (left, right) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        inside = all(column.low <= value <= column.high for value in (left, right))
        if not inside or (same and left != right):
            case.near = Nearness(float("inf"), "the values that a record may have")
            case.situation, case.description, case.storages = (
                situations[at],
                situations[at].description,
                storages,
            )
        elif left != right:
            changes[at] = [1 if column.is_response else left - right]
    record(
        {(case.query.name, column.name): case},
        {(case.query.name, column.name): changes},
        situations,
        storages,
    )
