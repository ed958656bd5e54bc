"""The words by which a column asks for an aggregate: the keys of a column in a release file.

One entry of `WORDS` is all that a new one takes here: `ColumnSpec`, its checks, the JSON Schema and
the functions of SQL are made of these. What a word becomes is declared where the aggregate is, in
`query/aggregates` or `query/forms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, field_validator

from dprelease.schema.field_types import Exact, Text, refuse
from dprelease.schema.model import Model

MOST_PARTS = 10_000
"""Largest denominator of a quantile."""


class OfColumn(Model):
    """What is asked of a column, where more than its name has to be declared."""

    of: Text


class QuantileSpec(OfColumn):
    """A quantile: of a column, at a part of its values."""

    at: Exact

    @field_validator("at")
    @classmethod
    def _part(cls, at: Fraction) -> Fraction:
        if not 0 <= at <= 1 or at.denominator > MOST_PARTS:
            refuse("DP-RELEASE-014")
        return at


class Origin(Enum):
    """How what is published comes about, which decides what else can be declared of it."""

    NOISED = auto()
    """Noise is added to it: an accuracy can be declared."""
    COMPUTED = auto()
    """It is computed from noised values: it has a margin of error, but no price for one."""
    CHOSEN = auto()
    """A number chosen among candidates: without a margin in its own unit."""
    LABEL = auto()
    """A declared value chosen among all: with no margin, and nothing that is done to numbers."""


@dataclass(frozen=True, slots=True)
class Word:
    """What is declared by a word, and what comes of it.

    `kind`: what stands behind it: a column, columns, or an `OfColumn`. `of_rows`: whether `*` asks
    for whole rows. `with_k`: whether the key `k` stands beside it, and nowhere else. `at`: the part
    of the values that lie below, of a quantile with a name of its own. `sql`: the functions of SQL
    that ask for the same, by their names in sqlglot.
    """

    origin: Origin
    kind: Any = Text
    of_rows: bool = False
    with_k: bool = False
    at: Fraction | None = None
    sql: tuple[str, ...] = ()


def _two(columns: object) -> object:
    """Refuse a list that is no pair: pydantic would miss a key that is called 1."""
    if isinstance(columns, list | tuple) and len(columns) != 2:
        refuse("DP-DECL-003", problem="two columns are needed, as in [distance, hours]")
    return columns


WORDS: dict[str, Word] = {
    "count": Word(Origin.NOISED, of_rows=True),
    "sum": Word(Origin.NOISED, sql=("Sum",)),
    "count_distinct": Word(Origin.NOISED),
    "mean": Word(Origin.COMPUTED, sql=("Avg",)),
    "variance": Word(Origin.COMPUTED, sql=("Variance",)),
    "stddev": Word(Origin.COMPUTED, sql=("Stddev", "StddevSamp")),
    "ratio": Word(Origin.COMPUTED, Annotated[tuple[Text, Text], BeforeValidator(_two)]),
    "quantile": Word(Origin.CHOSEN, QuantileSpec),
    "median": Word(Origin.CHOSEN, at=Fraction(1, 2), sql=("Median",)),
    "min": Word(Origin.CHOSEN, at=Fraction(0), sql=("Min",)),
    "max": Word(Origin.CHOSEN, at=Fraction(1), sql=("Max",)),
    "mode": Word(Origin.LABEL, sql=("Mode",)),
    "top_k": Word(Origin.LABEL, with_k=True),
}
"""All words, in the order in which schemas show them."""
