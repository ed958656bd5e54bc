"""Summaries of a table: numbers of each group of its cells, computed from the noisy counts."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dprelease.schema.amounts import require_above_zero
from dprelease.schema.field_types import (
    Exact,
    Name,
    Text,
    refuse,
    to_exact,
    to_local_path,
    to_text,
)
from dprelease.schema.localized_text import Decimals, Documented
from dprelease.schema.model import Files, Model, shorten, unreadable_text
from dprelease.schema.yaml_text.reader import not_utf8_text

ONE_OF_THEM = "it must have exactly one of `gini` and `standardised_rate`"
NO_NUMBERS = (
    "it must be numbers by value, such as {0-39: 4200, 40+: 5800}, or the name of a CSV file"
)


class PublicNumbers(Model):
    """Public numbers by the values of keys, as read from a file or from the declaration.

    `keys`: the names of the keys in a file, in the order of its columns; empty if they have none.
    """

    keys: tuple[Text, ...] = ()
    rows: tuple[tuple[tuple[Text, ...], Exact], ...] = ()

    @property
    def by_values(self) -> dict[tuple[str, ...], Fraction]:
        """The numbers by the values of the keys."""
        return dict(self.rows)


def _read_numbers(value: object, info: ValidationInfo) -> object:
    """Return numbers of a mapping, or of a CSV file whose last column has the numbers."""
    if isinstance(value, PublicNumbers):
        return value
    if isinstance(value, dict):
        rows: list[Any] = [((to_text(key),), number) for key, number in value.items()]
        return {"rows": rows}
    if not isinstance(value, str) or not isinstance(info.context, Files):
        refuse("DP-DECL-003", problem=NO_NUMBERS)
    name = to_local_path(value)
    try:
        lines = list(csv.reader(io.StringIO(info.context.text(name)), strict=True))
    except UnicodeDecodeError as problem:
        refuse("DP-DECL-003", problem=f"'{shorten(name)}' is {not_utf8_text(problem)}")
    except (OSError, KeyError) as problem:
        refuse("DP-DECL-003", problem=unreadable_text(name, problem))
    except csv.Error:
        refuse("DP-DECL-003", problem=f"'{shorten(name)}' is not a CSV file")
    return _numbers_of_lines(shorten(name), [line for line in lines if line])


def _numbers_of_lines(name: str, lines: list[list[str]]) -> object:
    """Return the numbers of the lines of a CSV file, the first of which has the names."""
    if len(lines) < 2 or len(lines[0]) < 2 or any(len(line) != len(lines[0]) for line in lines):
        problem = f"'{name}' must have a line of names, and lines with a number in the last column"
        refuse("DP-DECL-003", problem=problem)
    rows, seen = [], set()
    for number, line in enumerate(lines[1:], 2):
        values = tuple(line[:-1])
        try:
            amount = to_exact(line[-1])
        except PydanticCustomError:
            refuse("DP-DECL-003", problem=f"line {number} of '{name}' has no number at its end")
        if values in seen:
            refuse(
                "DP-DECL-003", problem=f"line {number} of '{name}' repeats the values of another"
            )
        seen.add(values)
        rows.append((values, amount))
    return {"keys": tuple(lines[0][:-1]), "rows": tuple(rows)}


def _require_numbers(numbers: PublicNumbers) -> PublicNumbers:
    """Refuse negative numbers, and numbers that are all 0."""
    if any(number < 0 for _, number in numbers.rows) or not any(n for _, n in numbers.rows):
        refuse("DP-DECL-003", problem="its numbers must be 0 or more, and not all 0")
    return numbers


NUMBERS_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
    ]
}
Numbers = Annotated[
    PublicNumbers,
    BeforeValidator(_read_numbers),
    AfterValidator(_require_numbers),
    WithJsonSchema(NUMBERS_SCHEMA),
]
"""Public numbers, declared as a mapping or as the name of a CSV file."""


class GiniSpec(Model):
    """The Gini coefficient of a number whose bands are a key of the table.

    `count`: the column with the counts. `over`: the key, a cut column or the bands of a histogram.
    """

    count: Text
    over: Text


class RateSpec(Model):
    """A directly standardised rate.

    `events` and `population`: columns of the table. `population_from`: a CSV file with the public
    population by the keys of the table, instead of `population`. `over`: the key of the strata,
    such as ages. `standard`: the standard population of each stratum. `per`: the number of people
    that the rate refers to.
    """

    events: Text
    population: Text | None = None
    population_from: Numbers | None = None
    over: Text
    standard: Numbers
    per: Annotated[Exact, AfterValidator(require_above_zero)] = Fraction(100_000)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse a rate without exactly one population."""
        if (self.population is None) == (self.population_from is None):
            problem = "it must have exactly one of `population` and `population_from`"
            refuse("DP-DECL-003", problem=problem)
        return self


class SummarySpec(Documented):
    """One number of each group of cells, with its interval."""

    gini: GiniSpec | None = None
    standardised_rate: RateSpec | None = None
    decimals: Decimals | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse a summary that is not exactly one number."""
        if (self.gini is None) == (self.standardised_rate is None):
            refuse("DP-DECL-003", problem=ONE_OF_THEM)
        return self

    @property
    def over(self) -> str:
        """The key whose cells are combined."""
        spec = self.gini or self.standardised_rate
        return "" if spec is None else spec.over


Summaries = Annotated[dict[Name, SummarySpec], Field(max_length=64)]
