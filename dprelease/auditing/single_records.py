"""Releases of single records: each moves its own place alone, and no farther than claimed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dprelease.auditing.claims import Nearness
from dprelease.auditing.failures import NOWHERE, Failure, Told, answered, code_of
from dprelease.auditing.neighbours.counting_rows import Group
from dprelease.auditing.neighbours.situations import Rows, Situation
from dprelease.auditing.neighbours.stacks import lone
from dprelease.auditing.neighbours.stored_values import ALIKE, AS_DECLARED, WAYS
from dprelease.auditing.pairs import Pair
from dprelease.auditing.replayed_words import Replayed
from dprelease.auditing.sensitivities import Named, Worst, record
from dprelease.auditing.stage import Stage
from dprelease.errors.printable import amount
from dprelease.numerics.lattice import Integers
from dprelease.query.local_records import RecordColumn, Records
from dprelease.rehearsal.draws import Draws
from dprelease.rehearsal.meeting import literals_of
from dprelease.system.late_dataclasses import dataclass

RECORDS = 2000
"""Records of a table, each of which gives way to another one."""


@dataclass(frozen=True)
class TriedRecords:
    """What became of the records of one table."""

    group: Group
    part: Records
    worst: dict[Named, Worst]
    told: Told

    @property
    def complete(self) -> bool:
        """Return whether nothing was left out."""
        return not self.told.left_out

    def pair(self, name: Named) -> Pair | None:
        """Return the one record that moved a column most, and the one in its place."""
        held = self.worst[name]
        if held.situation is None:
            return None
        return lone(self.group.tables, held.situation, {}, held.ways)


def tried_records(stage: Stage, part: Records, bits: Replayed) -> TriedRecords:
    """Compare records, each of which gives way to another one, with the claims of every column."""
    table = part.declared.table
    literals, draws = literals_of(stage.declaration), Draws(bits)
    group = Group(stage, (), {table.name: table}, {}, literals, draws)
    units = group.invented(RECORDS)
    laws = {c.measurement.name: c.mechanism for c in stage.plan.of_query(part.name)}
    worst = {
        (part.name, column.name): Worst(part.query, column.measurement, laws[column.name])
        for column in part.columns
    }
    situations = [
        Situation("a record replaced by another one", one, other)
        for one, other in zip(units, units[::-1], strict=True)
    ]
    told = Told()
    sides = _sides(stage, part, group, situations, told)
    turned = {way: _read(stage, part, group, units[::-1], way) for way in ALIKE if way in sides}
    for column in part.columns:
        held = worst[part.name, column.name]
        for way, read in sides.items():
            here = read[column.name]
            _compare(column, held, here, here[::-1], situations, (way, way))
        for way, other in turned.items():
            there, here = other[column.name], sides[way][column.name]
            _compare(column, held, there[::-1], here, situations, (way, way), same=True)
            if AS_DECLARED in sides:
                declared = sides[AS_DECLARED][column.name]
                _compare(column, held, there, declared, situations, (way, AS_DECLARED))
    return TriedRecords(group, part, worst, told)


def _sides(
    stage: Stage, part: Records, group: Group, situations: Sequence[Situation], told: Told
) -> dict[str, dict[str, Integers]]:
    """Return what all records say, in each way of storing them in which the engine answers."""
    name, sides = part.declared.table.name, {}

    def read(some: Sequence[Situation], way: str) -> dict[str, Integers]:
        return _read(stage, part, group, [one.one for one in some if one is not NOWHERE], way)

    for way in WAYS:
        ask = partial(read, way=way)
        found, failing = answered(ask, situations)
        if found is not None and not failing:
            sides[way] = found
            told.tried.append(
                f"{amount(len(situations), 'record', 'records')} of {name}, stored {way}"
            )
            continue
        told.left_out.append(f"records of {name} stored {way}: the engine fails on some of them")
        for i in failing:
            codes = code_of(ask, [situations[i]]), code_of(ask, [])
            told.fails(Failure("a record", way, codes, None))
    return sides


def _read(
    stage: Stage, part: Records, group: Group, units: list[Rows], way: str
) -> dict[str, Integers]:
    name = part.declared.table.name
    rows = {name: [row for unit in units for row in unit[name]]}
    tables = lone(group.tables, Situation("", rows), {}, (way, way)).one
    exact = stage.exact_records(part, tables)
    if exact.size != len(units):  # whether a record is there would tell what it says
        return {column.name: np.full(len(units), 2**62) for column in part.columns}
    return {column.name: exact.vector(column.name) for column in part.columns}


def _compare(
    column: RecordColumn,
    held: Worst,
    one: Integers,
    other: Integers,
    situations: list[Situation],
    ways: tuple[str, str],
    *,
    same: bool = False,
) -> None:
    """Compare two readings record by record; `same`: of the same records in another order."""
    changes: dict[int, list[int]] = {}
    for at, (left, right) in enumerate(zip(one.tolist(), other.tolist(), strict=True)):
        inside = all(column.low <= value <= column.high for value in (left, right))
        if not inside or (same and left != right):
            held.near = Nearness(float("inf"), "the values that a record may have")
            held.situation, held.words, held.ways = situations[at], situations[at].words, ways
        elif left != right:
            changes[at] = [1 if column.is_response else left - right]
    record(
        {(held.query.name, column.name): held},
        {(held.query.name, column.name): changes},
        situations,
        ways,
    )
