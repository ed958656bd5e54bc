"""The outcome of an attack on a rehearsal: how many of its people are found, beside guessing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dprelease.schema.document_part import Part

FORMAT = "dprelease-attack/1"

Form = Literal[
    "exact",
    "rounded",
    "rounded at random",
    "suppressed",
    "suppressed twice",
    "swapped",
    "noised",
]
FORMS: tuple[Form, ...] = (
    "exact",
    "rounded",
    "rounded at random",
    "suppressed",
    "suppressed twice",
    "swapped",
    "noised",
)
WORDS: dict[Form, str] = {
    "exact": "as they are counted",
    "rounded": "each count rounded to the nearest multiple of 5",
    "rounded at random": "each count rounded up or down to a multiple of 5, unbiased",
    "suppressed": "counts from 1 to 9 withheld",
    "suppressed twice": "counts from 1 to 9 withheld, and in every line with only one of "
    "these the smallest other count",
    "swapped": "counted after records that stand out have changed areas with others",
    "noised": "the rehearsed release's own tables, with its noise",
}
"""The forms in which the same tables are attacked."""


class SizeClass(Part):
    """Records whose combination of attributes so many people have; how many are right.

    `guessed`: expected of somebody who draws from the true one-way marginals.
    """

    people: str
    records: int
    right: int
    guessed: float


class Baseline(Part):
    """What is right without any table of several attributes: guessed from true one-way marginals.

    `drawn`: expected, if every record is drawn from the product of its area's exact one-way
    marginals, as many as there are; `deviation`: the standard deviation, from above. `apportioned`:
    if nothing is drawn, and each combination is taken as often as that product expects.
    """

    drawn: float
    deviation: float
    apportioned: int
    alone: float


class FormOutcome(Part):
    """What an attacker finds in one form of the tables.

    `error`: mean absolute error of the counts that are shown; `withheld`: the part that is not.
    `records`: how many the attacker names, `right`: of which so many are, a record being right with
    all of its attributes, each as often as it is there. `beyond`: right ones less those of the
    better guess; `interval`: less those that are drawn, within 2.576 deviations (99 %).
    `alone_named`, `alone_right`: combinations that the attacker says one person has, and that one
    person has; `alone_found`: people alone with theirs whose combination is named. `certain`:
    records that every table of people has that the published ones admit, `certain_right`: of which
    so many are there; `certain_alone`: people alone with theirs among these. `decided`: whether
    all of that could be decided in time. `blocks`: areas that were solved, `likeliest`: of which so
    many were shown to have no likelier solution (within 1 %), `admitted`: whose solution is within
    all that is sure (else time ran out before there was one), `only`: which have one solution and
    no other.
    """

    form: Form
    words: str
    error: float | None
    withheld: float
    records: int
    right: int
    beyond: float
    interval: tuple[float, float]
    alone_named: int
    alone_right: int
    alone_found: int
    certain: int
    certain_right: int
    certain_alone: int
    decided: bool
    blocks: int
    likeliest: int
    admitted: int
    only: int
    classes: list[SizeClass]


class AttributeRecord(Part):
    """An attribute of the records: how many values its tables tell apart."""

    column: str
    values: int


class AttackOutcome(Part):
    """What an attacker finds of the people of a rehearsal, in several forms of the same tables.

    `rehearsal`: the digest of its manifest. `table`: that the people are of. `tables`: solved
    together; `left_out`: why others are not. `records`: with a value of every attribute; `partial`:
    those without, who are in tables and can't be right. `alone`: people whose combination of
    attributes nobody else in the table has. `swapped`: the part of records that changed areas.
    """

    format: Literal["dprelease-attack/1"]
    rehearsal: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    table: str
    area: str | None
    attributes: list[AttributeRecord]
    tables: list[str]
    left_out: dict[str, str]
    records: int
    partial: int
    alone: int
    swapped: float
    seconds: float
    baseline: Baseline
    forms: list[FormOutcome]
