"""Columns that publish one measurement each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.numerics.rounding import plain_text
from dprelease.query.measurement import Form, OutputColumn


@dataclass(frozen=True, slots=True)
class Measured(Form):
    """A column that publishes its measurement unchanged."""

    def formula(self, column: OutputColumn) -> str:
        """Return the name of the measurement."""
        return column.part_names[0]


@dataclass(frozen=True, slots=True)
class SelectedQuantile(Form):
    """A selected quantile, with the ends of its interval unless the column has no interval."""

    def formula(self, column: OutputColumn) -> str:
        """Return the name of the selected value, and those of the ends of its interval."""
        value, *ends = column.part_names
        return f"{value}, in the interval from {ends[0]} to {ends[1]}" if ends else value


@dataclass(frozen=True, slots=True)
class ReadFromTree(Form):
    """A quantile read from a tree of counts."""

    def formula(self, column: OutputColumn) -> str:
        """Return a text on the quantile that is read, and on the tree."""
        return f"{plain_text(column.at or Fraction(0))} quantile read from {column.part_names[0]}"


@dataclass(frozen=True, slots=True)
class Label(Form):
    """The label of a selected candidate; several candidates give several columns."""

    on_lattice: ClassVar[bool] = False
    separates_parts: ClassVar[bool] = True

    def formula(self, column: OutputColumn) -> str:
        """Return a text on the candidate whose label is published."""
        return f"label of {column.part_names[0]}"


MEASURED = Measured()
QUANTILE = SelectedQuantile()
READ_FROM_TREE = ReadFromTree()
LABEL = Label()
