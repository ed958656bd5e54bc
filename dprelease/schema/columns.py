"""Declared columns: type, unit, bounds, public values, and substitutes for missing values.

Some columns are computed from other columns of the same row.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    ValidationInfo,
    model_validator,
)

from dprelease.numerics.rounding import plain_text
from dprelease.schema.amounts import refuse_edges
from dprelease.schema.field_types import (
    DROP,
    TEXT_SCHEMA,
    Day,
    Exact,
    Instant,
    Pivot,
    ShortForm,
    Text,
    TimeFormat,
    Whole,
    refuse,
    refuse_substitute,
    refuse_substitute_outside_bounds,
    refuse_two_digit_years,
    refuse_undeclared_substitutes,
    to_fraction,
)
from dprelease.schema.localized_text import Decimals, ValueLabels
from dprelease.schema.model import A_TYPE, check_column_names
from dprelease.schema.number_bounds import (
    STEPS_LIMIT,
    Lattice,
    check_bounds,
    check_digits,
    check_step,
    default_step,
    is_day_text_within,
    is_integer_text_within,
    lattice_of,
    number_of_day,
    number_of_second,
    whole_lattice,
)
from dprelease.schema.public_values.listed_values import PublicCategories, listed_values
from dprelease.schema.public_values.missing_codes import (
    Filled,
    WithMissing,
    check_category_codes,
    check_number_codes,
    check_truth_codes,
)
from dprelease.schema.public_values.nesting import OF_ONE_QUERY, higher_columns, refuse_nesting
from dprelease.schema.public_values.text_signs import (
    Computable,
    WithNegativeForms,
    check_stripped_values,
)
from dprelease.schema.public_values.unallocated import UNALLOCATED, Allocatable
from dprelease.schema.public_values.value_labels import (
    Listed,
    refuse_duplicates,
    refuse_unknown_labels,
    to_listed,
)


class WithFillValue(WithNegativeForms, WithMissing, Filled):
    """A column of numbers."""

    @property
    def fill_value(self) -> Fraction | None:
        """The number that replaces missing values; None drops the rows."""
        return None if self.fill == DROP else to_fraction(self.fill)


class IntegerColumn(WithFillValue):
    """Integers; with bounds they can be summed and used as keys."""

    type: Literal["integer"]
    lower: Whole | None = None
    upper: Whole | None = None
    step: Annotated[Whole, Field(ge=1)] = 1
    unit: Text | None = None
    decimals: Decimals | None = None
    labels: ValueLabels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse bounds, steps, substitutes and labels that contradict each other."""
        low, high = self.lower, self.upper
        check_bounds(_to_fraction(low), _to_fraction(high))
        if low is not None and high is not None and max(abs(low), abs(high)) > STEPS_LIMIT:
            refuse("DP-SCHEMA-010", column="this column")
        if self.lattice is not None:
            check_digits(self.lattice)
        check_step(_to_fraction(low), _to_fraction(high), Fraction(self.step))
        refuse_substitute_outside_bounds(self.fill, _to_fraction(low), _to_fraction(high))
        check_number_codes(self.missing, self.fill)
        known = "no bounds are declared" if low is None else f"whole numbers from {low} to {high}"
        refuse_unknown_labels(
            self.labels, lambda text: is_integer_text_within(text, low, high), known
        )
        return self

    @property
    def lattice(self) -> Lattice | None:
        """Return the integer steps that are summed; None without bounds."""
        if self.lower is None or self.upper is None:
            return None
        return lattice_of(Fraction(self.lower), Fraction(self.upper), Fraction(self.step))


class NumberColumn(WithFillValue):
    """Real numbers, rounded to steps before they are summed."""

    type: Literal["number"]
    lower: Exact | None = None
    upper: Exact | None = None
    step: Exact | None = None
    unit: Text | None = None
    decimals: Decimals | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse bounds, steps and substitutes that contradict each other."""
        low, high = self.lower, self.upper
        check_bounds(low, high)
        if self.step is not None and self.step <= 0:
            refuse("DP-SCHEMA-010", column="this column")
        if self.step is not None:
            check_step(low, high, self.step)
        lattice = self.lattice
        if lattice is not None:
            check_digits(lattice)
        refuse_substitute_outside_bounds(self.fill, low, high)
        check_number_codes(self.missing, self.fill)
        return self

    @property
    def lattice(self) -> Lattice | None:
        """Return the integer steps that are summed; None without bounds.

        The default step is the largest power of ten up to (upper - lower) / 2^20: small compared to
        any noise, large enough for exact sums, and independent of the data.
        """
        if self.lower is None or self.upper is None:
            return None
        return lattice_of(self.lower, self.upper, self.step or default_step(self.lower, self.upper))


def _to_fraction(value: int | None) -> Fraction | None:
    """Return an integer as a fraction; None for None."""
    return None if value is None else Fraction(value)


class BooleanColumn(Computable, WithMissing, Filled):
    """True or false; as a key it has the cells false, true. Sums and means count true as 1."""

    type: Literal["boolean"]
    labels: ValueLabels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_other_values(self) -> Self:
        """Refuse a substitute and labels of values other than true and false."""
        if self.fill not in (DROP, "true", "false"):
            refuse_substitute("fill", self.fill, "true or false", ("true", "false"))
        check_truth_codes(self.missing)
        refuse_unknown_labels(self.labels, ("true", "false").__contains__, "true and false")
        return self

    @property
    def lattice(self) -> Lattice:
        """Return the numbers 0 for false and 1 for true, whose mean is a share."""
        return Lattice(lower=0, upper=1, step=Fraction(1))

    @property
    def fill_value(self) -> Fraction | None:
        """The number that replaces missing values; None drops the rows."""
        return None if self.fill == DROP else Fraction(self.fill == "true")


class DateColumn(Computable, WithMissing, Filled):
    """Dates; with bounds they have quantiles, and can be used as keys, one cell per day."""

    type: Literal["date"]
    lower: Day | None = None
    upper: Day | None = None
    format: TimeFormat = "%Y-%m-%d"
    pivot: Pivot | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse bounds and substitutes that contradict each other."""
        check_bounds(self.lower, self.upper)
        if self.fill != DROP:
            first, last = self.lower or date.min, self.upper or date.max
            if not is_day_text_within(self.fill, first, last):
                refuse_substitute("fill", self.fill, f"a date from {first} to {last}")
        return self

    @property
    def lattice(self) -> Lattice | None:
        """Return the days that can be selected, numbered from 1970-01-01; None without bounds."""
        if self.lower is None or self.upper is None:
            return None
        return whole_lattice(number_of_day(self.lower), number_of_day(self.upper))

    @property
    def fill_day(self) -> date | None:
        """The day that replaces missing values; None drops the rows."""
        return None if self.fill == DROP else date.fromisoformat(self.fill)


class TimestampColumn(Computable, WithMissing):
    """Timestamps without a time zone, or in UTC; with bounds they have quantiles, in seconds."""

    type: Literal["timestamp"]
    lower: Instant | None = None
    upper: Instant | None = None
    format: TimeFormat = "%Y-%m-%d %H:%M:%S"
    pivot: Pivot | None = None

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        check_bounds(self.lower, self.upper)
        return self

    @property
    def lattice(self) -> Lattice | None:
        """Return the seconds that can be selected, from 1970-01-01; None without bounds."""
        if self.lower is None or self.upper is None:
            return None
        return whole_lattice(number_of_second(self.lower), number_of_second(self.upper))


class TextColumn(Computable, WithMissing):
    """Any text, compared as stored: for ids, joins, `where` and private keys."""

    type: Literal["text"]


class CategoryColumn(Computable, WithMissing, PublicCategories):
    """Texts with a public, ordered list of values; the source's values are compared as text.

    `within`: another category, each of whose values is an area that contains values of this one.
    The area of each value is in a second column of the file, named like that category, or in
    `values`, as lists by area. With several categories, the file has a column for each. Labels of
    values: `values` as a mapping, or further columns of the file. `marks_of`: the column whose
    marks are the values, by their meanings; the one other value is that of rows without a mark.
    """

    type: Literal["category"]
    others: Text = DROP
    marks_of: Text | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _load_values(
        cls, raw: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Return the column with its values, areas and labels, from its schema or a file."""
        if not isinstance(raw, Mapping):
            return handler(raw)
        if "values" in raw and "values_from" in raw:
            keys = "values and values_from"
            refuse("DP-RELEASE-008", found=keys, key="values_from")
        within = higher_columns(raw)
        found = listed_values(raw, within, info.context)
        if found is None:
            return handler(raw)  # pydantic then reports the error at its position
        listed, labels = found
        column = handler({**raw, "values": listed[0]} if listed[0] else raw)
        column._parent_areas = tuple(map(tuple, listed[1 : 1 + len(within)]))
        column._labels = labels
        if column.has_unallocated and not within:
            return column.with_unallocated([UNALLOCATED], {})
        return column

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse duplicates in the values, and substitutes that are not declared values."""
        if self.values is None:
            refuse("DP-SCHEMA-002", column="this column")
        refuse_duplicates(self.values)
        known = (*self.values, UNALLOCATED) if self.has_unallocated else self.values
        refuse_undeclared_substitutes(self.fill, self.others, known)
        check_category_codes(self.missing, self.values)
        check_stripped_values((*self.values, *self.missing), self.signs)
        return self


_LISTED = {"type": "array", "items": TEXT_SCHEMA}
CutLabels = Annotated[Listed | None, BeforeValidator(to_listed), ShortForm(_LISTED)]
"""The names of the intervals in order; a mapping also has a label for each name."""


class CutColumn(Allocatable):
    """A category computed from a number: the interval [edge i, edge i + 1) that contains it.

    `closed: right` makes the intervals (edge i, edge i + 1].
    """

    cut: Text
    edges: tuple[Exact, ...]
    closed: Literal["left", "right"] = "left"
    labels: CutLabels = None
    others: Text = DROP

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        """Refuse edges and names that do not form intervals, and unknown substitutes."""
        refuse_edges(self.edges, None if self.labels is None else len(self.labels))
        refuse_duplicates(self.values)
        refuse_undeclared_substitutes(self.fill, self.others, self.values)
        return self

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the intervals, and the unallocated value if the column has one."""
        return (*self.intervals, UNALLOCATED) if self.has_unallocated else self.intervals

    @property
    def intervals(self) -> tuple[str, ...]:
        """The names of the intervals: declared, or such as "0-17" and "[0.5, 1)"."""
        if self.labels is not None:
            return tuple(self.labels)
        pairs = list(zip(self.edges, self.edges[1:], strict=False))
        left = self.closed == "left"
        if all(edge.denominator == 1 for edge in self.edges):
            ends = [(a, b - 1) if left else (a + 1, b) for a, b in pairs]
            return tuple(f"{a}-{b}" if a < b else f"{a}" for a, b in ends)
        marks = ("[", ")") if left else ("(", "]")
        return tuple(f"{marks[0]}{plain_text(a)}, {plain_text(b)}{marks[1]}" for a, b in pairs)


def _type_of_column(value: object) -> str | None:
    """Return the type of a column that selects its model; "cut" for a cut column."""
    if isinstance(value, Mapping):
        return "cut" if "cut" in value else value.get("type")
    return "cut" if isinstance(value, CutColumn) else getattr(value, "type", None)


Column = Annotated[
    Annotated[CategoryColumn, Tag("category")]
    | Annotated[IntegerColumn, Tag("integer")]
    | Annotated[NumberColumn, Tag("number")]
    | Annotated[BooleanColumn, Tag("boolean")]
    | Annotated[DateColumn, Tag("date")]
    | Annotated[TimestampColumn, Tag("timestamp")]
    | Annotated[TextColumn, Tag("text")]
    | Annotated[CutColumn, Tag("cut")],
    Discriminator(
        _type_of_column,
        custom_error_type="DP-DECL-003",
        custom_error_message="finding",
        custom_error_context={"problem": A_TYPE},
    ),
]


def expression_of(column: Column) -> str | None:
    """Return the expression of a computed column; None for a stored column or a cut."""
    return getattr(column, "expression", None)


def is_stored(column: Column) -> bool:
    """Return whether the source stores the column, which is neither a cut nor an expression."""
    return not isinstance(column, CutColumn) and expression_of(column) is None


def check_computed(columns: Mapping[str, Column]) -> None:
    """Check columns that a query derives.

    Raises DP-DERIVE-001 for a stored column, DP-DECL-006 for names that differ only in case, and
    DP-SCHEMA-016 for a column that lies within another column.
    """
    check_column_names(columns)
    for name, column in columns.items():
        if isinstance(column, CategoryColumn) and column.within:
            refuse_nesting(name, column.within[0], OF_ONE_QUERY)
        if is_stored(column):
            refuse("DP-DERIVE-001", column=name)
        if isinstance(column, DateColumn):
            refuse_two_digit_years(column.format, column.pivot, name, "derive", name, "format")
