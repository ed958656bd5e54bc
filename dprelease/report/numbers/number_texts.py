"""Write published numbers with their margins or intervals, and with the mark of their quality."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.query.quality import SIGNS
from dprelease.report.accuracy.quality import ColumnQuality
from dprelease.report.localization import round_up_to_three_digits
from dprelease.report.numbers.cells import Number
from dprelease.report.section_context import Context

UNITS_OF_COUNTS = frozenset(("rows", ""))
"""Units that a label says better."""


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number in words: the value or the sign of an empty cell, its margin, and its quality.

    `badge`: the letter of the quality class, or the sign of a value at a bound. `label`: what the
    badge or the sign means.
    """

    value: str | Markup
    margin: str = ""
    badge: str = ""
    label: str = ""
    interval: str = ""

    @classmethod
    def plain_number(cls, value: str) -> NumberText:
        """Return a number without a margin, such as a number of cells."""
        return cls(value)


@dataclass(frozen=True, slots=True)
class NumberTexts:
    """Writes the numbers of one column."""

    context: Context
    one: ColumnQuality

    @property
    def title(self) -> Markup:
        """Return the label of the column, and its unit if the label does not say it."""
        label, unit = self.context.names.column(self.one.column), self.unit
        return Markup("{}, {}").format(label, unit) if unit else label

    @property
    def unit(self) -> Markup:
        """Return the unit of the column, unless it counts rows or values of an id."""
        unit, table = self.one.column.unit, self.one.table
        query = self.context.facts.query_of(table)
        is_column = query is not None and unit in query.table.columns
        if unit in UNITS_OF_COUNTS or is_column or unit == self.one.column.name:
            return Markup("")
        return self.context.names.name(unit)

    def of(self, number: Number) -> NumberText:
        """Return a number as text."""
        quality = self.one.quality_column
        label = ""
        if quality is not None and number.quality:
            label = self.context.names.plain_value(quality, number.quality)
        sign = SIGNS.get(number.quality, "")
        interval = self._interval(number)
        if number.value is None:
            return NumberText(sign or "–", interval, "", label, interval)
        badge = sign or (number.quality if len(number.quality) == 1 else "")
        return NumberText(self.value(number), self._margin(number), badge, label, interval)

    def value(self, number: Number) -> str | Markup:
        """Return a value with the decimals of its column, or the label of a value."""
        column = self.one.column
        if number.number is None or not column.is_number:
            return self.context.names.value(column, number.value)
        return self._text(number.number)

    def _text(self, value: float) -> str:
        return self.context.words.number(value, self.one.column.decimals)

    def _margin(self, number: Number) -> str:
        """Return the margin of error, or the interval of a column that publishes its ends."""
        if self.one.end_columns is not None or number.margin is None:
            return self._interval(number)
        decimals = self.one.column.decimals
        margin = number.margin
        if decimals is not None:
            # Rounded up, so that the margin does not become narrower than it is; the tolerance is
            # for margins that have these decimals already, but not as floats.
            margin = math.ceil(margin * 10**decimals - 1e-9) / 10**decimals
        elif margin != int(margin):
            margin = round_up_to_three_digits(margin)
        return f"± {self.context.words.number(margin, decimals)}"

    def _interval(self, number: Number) -> str:
        """Return an interval as text; empty without one."""
        if number.low is None or number.high is None:
            return ""
        low, high = self._text(number.low), self._text(number.high)
        return self.context.words.plain("numbers.interval", low=low, high=high)

    def plain(self, number: Number) -> str:
        """Return a number with its interval and its quality as plain text."""
        text = self.of(number)
        parts = [str(text.value) if number.value is not None else text.label or "–"]
        parts += [text.interval, text.badge]
        return ", ".join(part for part in parts if part)
