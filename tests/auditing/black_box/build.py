"""Small queries for the black box: plans, draws, and claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.auditing.black_box.drawn_answers import BitFactory, NoisedCells, Source
from dprelease.auditing.black_box.noise_questions import NUMBERS, Claim, make_question
from dprelease.auditing.black_box.proven_bounds import QuestionGroup, QuestionResult, prove_bounds
from dprelease.numerics.entropy import BitSource
from dprelease.planning.plan import PlannedColumn, make_plan
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare
from tests.replay import Keyed

COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a", "b", "c", "d"]},
    "c": {"type": "category", "values": ["x", "y", "z"]},
    "id": {"type": "integer"},
    "n": {"type": "integer", "lower": 0, "upper": 8},
}
SHAPES = {"asymmetric_laplace": {"k": "1.5"}}
"""What has to be declared."""

FAR = float("inf")


def streams(key: str) -> BitFactory:
    """Return what gives streams that are the same in every run, each another one."""
    numbers: Iterator[int] = iter(range(10**9))

    def fresh() -> BitSource:
        return Keyed(f"{key} {next(numbers)}")

    return fresh


def plan_query(
    columns: dict[str, Any],
    *,
    epsilon: str = "1",
    delta: str = "0",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    by: Sequence[str] = ("k",),
    rows: int = 1,
    **more: Any,
) -> tuple[Query, tuple[PlannedColumn, ...]]:
    """Return one query and its planned columns."""
    unit = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": rows}}
    table = declare(COLUMNS, **(unit if rows > 1 else {}))
    query = ask(table, columns, list(by), neighbours=neighbours, **more)
    budget = BudgetSpec(epsilon=Fraction(epsilon), delta=Fraction(delta), neighbours=neighbours)
    return query, make_plan([query], budget).columns


def count_with_noise(name: str, **more: Any) -> PlannedColumn:
    """Return a count with the noise of one mechanism."""
    mechanism = {"name": name, **SHAPES.get(name, {})}
    return plan_query({"n": {"count": "*", "mechanism": mechanism}}, **more)[1][0]


def bounds_of(
    source: Source,
    columns: Sequence[PlannedColumn],
    delta: str,
    draws: int,
    key: str,
    style: str = NUMBERS,
    epsilon: float | None = None,
) -> list[QuestionResult]:
    """Return the bounds from all numbers of a source, with the claims of these columns."""
    claim = Claim.of([column.accounting_input for column in columns], Fraction(delta), epsilon)
    question = make_question(source.features, None, claim, ("q", "n", "law"), style)
    assert question is not None
    return list(prove_bounds([QuestionGroup(source, (question,), draws)], FAR, streams(key)))


def cells(
    columns: Sequence[PlannedColumn], one: dict[str, list[int]], other: dict[str, list[int]]
) -> NoisedCells:
    """Return what draws some cells of vectors, given the true integers of both tables."""
    sides = [{n: np.array(v, dtype=np.int64) for n, v in side.items()} for side in (one, other)]
    places = tuple(range(len(next(iter(one.values())))))
    return NoisedCells(tuple(columns), places, (sides[0], sides[1]))


def worst(column: PlannedColumn) -> NoisedCells:
    """Return the cells that a person changes as much as claimed, and one more."""
    sensitivity = column.measurement.sensitivity
    move = max(sensitivity.moves, key=lambda one: one.shift * one.cells)
    signs = [1 - 2 * (i % 2) for i in range(move.cells)]
    name = column.measurement.name
    one = [sign * move.shift for sign in signs]
    return cells([column], {name: [*one, 0]}, {name: [0] * (len(one) + 1)})


def with_scale(column: PlannedColumn, factor: float) -> PlannedColumn:
    """Return a column whose noise has another scale than its declared privacy loss."""
    return replace(
        column, mechanism=replace(column.mechanism, scale=column.mechanism.scale * factor)
    )


def is_refuted(found: list[QuestionResult]) -> bool:
    """Return whether a claim is refuted."""
    return any(one.epsilon > one.claimed for one in found)
