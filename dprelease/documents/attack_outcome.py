"""The outcome of an attack on a rehearsal: how many people it finds, compared with guessing."""

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
"""The forms of the same tables that are attacked."""


class SizeClass(Part):
    """All records whose combination of attributes has a certain number of people.

    The class also has the number of these records that the attacker names correctly.
    `guessed`: the expected number for an attacker who draws from the true one-way marginals.
    """

    people: str
    records: int
    right: int
    guessed: float


class Baseline(Part):
    """The number of records that a guess from the exact one-way marginals alone names correctly.

    `drawn`: the expected number if every record is drawn from the product of its area's exact
    one-way marginals, as many records as there are; `deviation`: an upper bound of the standard
    deviation. `apportioned`: the number if nothing is drawn, and each combination is taken as often
    as that product expects.
    """

    drawn: float
    deviation: float
    apportioned: int
    alone: float


class FormOutcome(Part):
    """What an attacker finds in one form of the tables.

    `error`: the mean absolute error of the published counts; `withheld`: the share of counts that
    are not published. `records`: the number of records that the attacker names; `right`: how many
    of them are right. A record is right if all its attributes are, each combination as often as it
    is in the data. `beyond`: right records minus those of the better guess; `interval`: right
    records minus the drawn ones, within 2.576 deviations (99 %). `alone_named`, `alone_right`: the
    combinations that the attacker says one person has, and those of them that one person has;
    `alone_found`: the unique people whose combination is named. `certain`: the records in every
    table of people that the published tables admit; `certain_right`: how many of them are in the
    data; `certain_alone`: how many of the unique people are among them. `decided`: whether all of
    that was decided in time. `blocks`: the number of solved areas. `likeliest`: the number of areas
    whose solution was proved to be the likeliest (within 1 %). `admitted`: the number of areas
    whose solution satisfies all that is certain (otherwise time ran out before there was one).
    `only`: the number of areas that have exactly one solution.
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
    """An attribute of the records, and the number of values that its tables distinguish."""

    column: str
    values: int


class AttackOutcome(Part):
    """What an attacker finds about the people of a rehearsal, in several forms of the same tables.

    `rehearsal`: the digest of the manifest of the rehearsal. `table`: the table of the people.
    `tables`: the tables that are solved together; `left_out`: the reasons why other tables are not
    solved. `records`: the number of records with a value of every attribute; `partial`: the number
    of records without a value of some attribute, which are counted in tables, but never as right
    records. `alone`: the number of people whose combination of attributes nobody else in the table
    has. `swapped`: the share of records that moved to other areas.
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
