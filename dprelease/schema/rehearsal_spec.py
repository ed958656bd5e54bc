"""Properties of the rows that a rehearsal generates, declared from public knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from dprelease.schema.field_types import Exact, Text, Whole, refuse
from dprelease.schema.model import Model, shorten

if TYPE_CHECKING:
    from dprelease.schema.columns import Column

MOST_ROWS = 10**9


def _checked_fraction(value: Fraction) -> Fraction:
    """Return a fraction; refuse a number outside 0 to 1."""
    if not 0 <= value <= 1:
        refuse("DP-DECL-003", problem="a part from 0 to 1 is needed")
    return value


def _checked_exponent(value: Fraction) -> Fraction:
    """Return an exponent; refuse a number outside 0 to 4."""
    if not 0 <= value <= 4:
        refuse("DP-DECL-003", problem="a number from 0 to 4 is needed")
    return value


Part = Annotated[Exact, AfterValidator(_checked_fraction)]


class RehearsalSpec(Model):
    """Properties of the generated rows of a table, where they differ from the defaults.

    `rows`: the number of rows; without it, the table's `size` sets the number of people. `zipf`:
    the k-th value of a category is 1 / k^zipf times as frequent as the first value. `frequencies`:
    the frequencies of the values of categories and booleans, in any unit; a value without a
    frequency is not generated. `missing`: the fraction of missing values. `undeclared`: the
    fraction of undeclared values, in categories with `others`. `beyond`: the fraction of people who
    have more than `max_groups` groups, and the fraction of their groups that have more than
    `max_rows_per_group` rows.
    """

    rows: Annotated[Whole, Field(ge=1, le=MOST_ROWS)] | None = None
    zipf: Annotated[Exact, AfterValidator(_checked_exponent)] = Fraction(1)
    missing: Part = Fraction(2, 100)
    undeclared: Part = Fraction(1, 100)
    beyond: Part = Fraction(3, 100)
    frequencies: dict[Text, dict[Text, Exact]] = Field(default_factory=dict)


def refuse_unknown_values(spec: RehearsalSpec, columns: Mapping[str, Column]) -> None:
    """Raise DP-DECL-003 for frequencies of columns or values that the table does not have."""
    for name, weights in spec.frequencies.items():
        values = _listed_values(columns[name]) if name in columns else ()
        unknown = [value for value in weights if value not in values]
        problem = ""
        if not values:
            problem = f"'{shorten(name)}' is no category or boolean that the source stores"
        elif unknown:
            problem = f"'{shorten(unknown[0])}' is no value of '{shorten(name)}'"
        elif min(weights.values(), default=Fraction(0)) < 0 or not sum(weights.values()):
            problem = f"the frequencies of '{shorten(name)}' are none: some has to be above 0"
        if problem:
            refuse("DP-DECL-003", problem=problem, key="rehearsal")


def _listed_values(column: Column) -> tuple[str, ...]:
    """Return the values of a stored category or boolean; empty for other columns."""
    kind = getattr(column, "type", "cut")
    if getattr(column, "expression", None) is not None:
        return ()
    if kind == "boolean":
        return ("false", "true")
    return tuple(getattr(column, "values", None) or ()) if kind == "category" else ()
