"""Compute and show the errors of a rehearsal, from its true values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from dprelease.documents.metadata import Role, TableMetadata
from dprelease.documents.rehearsal_manifest import TRUTH, ColumnErrors, truth_columns
from dprelease.numerics.lattice import Floats
from dprelease.report.accuracy.quality import (
    ColumnQuality,
    size_class_of,
    sum_by_class,
    to_floats,
    zeros_by_class,
)
from dprelease.report.facts import ReleaseFiles, Truth
from dprelease.report.pictures import PageTable
from dprelease.report.section_context import Context
from dprelease.report.words import to_three_digits
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TruthFiles:
    """The true values in the folder of a rehearsal."""

    folder: Path

    def batches(
        self, table: TableMetadata, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch] | None:
        """Yield batches with the true values of columns of a table.

        The result is None for tables with private keys too, because their files have other rows.
        """
        path = self.folder / TRUTH / table.file
        others = (column.name for column in table.columns if column.role != Role.KEY)
        true = truth_columns((key.name for key in table.keys), others).true
        names = [true[name] for name in columns]
        if not path.is_file():
            return None
        schema, rows = formats.PUBLISHED_FORMAT.shape(path)
        # The published rows and the true ones are compared one by one.
        if rows != table.rows or not set(names) <= set(schema.names):
            return None
        batches = formats.PUBLISHED_FORMAT.batches(path, names)
        return (batch.select(names).rename_columns(list(columns)) for batch in batches)


@dataclass
class SimulatedColumn:
    """The errors of one column, summed by size class of the true value.

    `off`: signed sums of errors, which measure the bias. `covered`: the number of cells whose
    margin contains the true value.
    """

    cells: Floats = field(default_factory=zeros_by_class)
    off: Floats = field(default_factory=zeros_by_class)
    sizes: Floats = field(default_factory=zeros_by_class)
    squares: Floats = field(default_factory=zeros_by_class)
    covered: int = 0
    cells_with_margin_count: int = 0

    def add(self, values: Floats, margins: Floats, true: Floats) -> None:
        """Add cells; cells without a value are skipped."""
        there = ~(np.isnan(values) | np.isnan(true))
        error, classes = (values - true)[there], size_class_of(true[there])
        self.cells += sum_by_class(classes, np.ones_like(error))
        self.off += sum_by_class(classes, error)
        self.sizes += sum_by_class(classes, np.abs(error))
        self.squares += sum_by_class(classes, error**2)
        known = there & np.isfinite(margins)
        self.cells_with_margin_count += int(known.sum())
        self.covered += int((np.abs(values - true)[known] <= margins[known]).sum())

    @property
    def classes(self) -> list[int]:
        """Return the size classes of the true value that have cells."""
        return [int(size) for size in np.flatnonzero(self.cells)]

    @property
    def error(self) -> float | None:
        """Return the mean absolute error of all cells."""
        cells = float(self.cells.sum())
        return float(self.sizes.sum()) / cells if cells else None

    @property
    def coverage(self) -> float | None:
        """Return the share of margins that contain the true value."""
        return self.covered / self.cells_with_margin_count if self.cells_with_margin_count else None

    def bias_in(self, size: int) -> float:
        """Return the signed mean error in a size class."""
        return float(self.off[size] / self.cells[size])


def simulated_errors(
    release: ReleaseFiles, truth: Truth, columns: Sequence[ColumnQuality]
) -> Mapping[tuple[str, str], SimulatedColumn]:
    """Return the errors of every column with true values, by table and name."""
    found: dict[tuple[str, str], SimulatedColumn] = {}
    for table in {one.table.name: one.table for one in columns}.values():
        of_table = [one for one in columns if one.table.name == table.name]
        true = truth.batches(table, [one.column.name for one in of_table])
        if true is None:
            continue
        needed = list(dict.fromkeys(name for one in of_table for name in one.source_columns))
        sums = {one.column.name: SimulatedColumn() for one in of_table}
        for noised, known in _aligned_batches(release.batches(table, needed), true):
            for one in of_table:
                values = to_floats(noised.column(one.column.name))
                right = to_floats(known.column(one.column.name))
                sums[one.column.name].add(values, one.margins_of(noised), right)
        found |= {(table.name, name): of_column for name, of_column in sums.items()}
    return found


def _aligned_batches(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield batches of equal length from two tables with the same rows in the same order."""
    left, right = next(one, None), next(other, None)
    while left is not None and right is not None:
        size = min(len(left), len(right))
        if size:
            yield left.slice(0, size), right.slice(0, size)
        left = left.slice(size) if size < len(left) else next(one, None)
        right = right.slice(size) if size < len(right) else next(other, None)
    if left is not None or right is not None:
        raise ValueError("true tables have the rows of the published ones")


Errors = Sequence[ColumnErrors]

NAME = "simulated"
"""The name of the section."""


@dataclass(frozen=True)
class SimulatedPart:
    """The content of the section on simulated errors, ready for the page."""

    lead: Markup
    errors: PageTable


def with_error_section(
    parts: Sequence[str], context: Context, errors: Errors | None, lead: str
) -> dict[str, Any]:
    """Return the parts of a page by name; for a rehearsal, with a section on its errors.

    `lead`: the name of the sentence that introduces the errors.
    """
    if errors is None:
        return {"parts": parts}
    part = SimulatedPart(context.words.say(lead), _error_table(context, errors))
    return {"parts": (*parts[:-1], NAME, parts[-1]), NAME: part, "rehearsed": True}


def _error_table(context: Context, errors: Errors) -> PageTable:
    """Return the table of expected and true errors of each column, over all its cells."""
    words, names, rows = context.words, context.names, []
    for one in errors[: context.most]:
        rows.append(
            context.cells(
                names.name(f"{one.table}.{one.column}"),
                words.number(one.cells),
                _number_text(context, one.expected),
                _number_text(context, one.mean_absolute_error),
                words.percent(one.covered),
                _number_text(context, one.bias),
                context.unit_name(one.unit),
            )
        )
    heads = ["column", "cells", "expected", "found", "covered", "bias", "unit"]
    caption = words.say("quality.simulated")
    return PageTable(caption, [words.say(f"simulated.head.{head}") for head in heads], rows)


def _number_text(context: Context, value: float | None) -> str:
    """Return a number with three significant digits; a dash if there is none."""
    return context.words.number(None if value is None else to_three_digits(value))
