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


def _part(value: Fraction) -> Fraction:
    if not 0 <= value <= 1:
        refuse("DP-DECL-003", problem="a part from 0 to 1 is needed")
    return value


def _power(value: Fraction) -> Fraction:
    if not 0 <= value <= 4:
        refuse("DP-DECL-003", problem="a number from 0 to 4 is needed")
    return value


Part = Annotated[Exact, AfterValidator(_part)]


class RehearsalSpec(Model):
    """Properties of generated rows of a table, where they differ from the defaults.

    `rows`: their number; without it, the table's `size` sets the number of people. `zipf`: the k-th
    value of a category has 1 / k^zipf of the frequency of the first. `frequencies`: of the values
    of categories and booleans, in any unit; values without one are not generated. `missing`: the
    fraction of missing values; `undeclared`: of the values of categories with `others`; `beyond`:
    of the people who have more than `max_groups` groups, and of their groups that have more than
    `max_rows_per_group` rows.
    """

    rows: Annotated[Whole, Field(ge=1, le=MOST_ROWS)] | None = None
    zipf: Annotated[Exact, AfterValidator(_power)] = Fraction(1)
    missing: Part = Fraction(2, 100)
    undeclared: Part = Fraction(1, 100)
    beyond: Part = Fraction(3, 100)
    frequencies: dict[Text, dict[Text, Exact]] = Field(default_factory=dict)


def refuse_unknown_values(spec: RehearsalSpec, columns: Mapping[str, Column]) -> None:
    """Raise DP-DECL-003 for frequencies of columns or values that the table does not have."""
    for name, weights in spec.frequencies.items():
        values = _values_of(columns[name]) if name in columns else ()
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


def _values_of(column: Column) -> tuple[str, ...]:
    kind = getattr(column, "type", "cut")
    if getattr(column, "expression", None) is not None:
        return ()
    if kind == "boolean":
        return ("false", "true")
    return tuple(getattr(column, "values", None) or ()) if kind == "category" else ()
