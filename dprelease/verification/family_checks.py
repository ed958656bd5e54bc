"""Runs the step of each family again on the published measurements, and compares every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.described import Described
from dprelease.documents.metadata import TableMetadata
from dprelease.numerics.lattice import LIMIT
from dprelease.postprocess.families import Family, FamilyStep, FamilyTable, Output
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.tables.family_tables import published_table, step_tables
from dprelease.verification.published_keys import has_keys, has_nulls
from dprelease.verification.report import Report, is_written

if TYPE_CHECKING:
    import pyarrow as pa


def check_families(
    report: Report, declaration: Declaration, families: Sequence[Family]
) -> dict[str, int]:
    """Add to a report what is found about families with a step.

    What comes back are the rows that their tables have to have, by name, as far as these can be
    made: what a step makes of measurements that are none is not looked at.
    """
    told = Described(declaration.spec)
    rows: dict[str, int] = {}
    for family in families:
        if family.step is None:
            continue
        rows |= {table.measured: table.query.keys.size for table in family.tables}
        whole = [_check_measured(report, told, table) for table in family.tables]
        if all(whole):
            rows |= _check_outputs(report, told, family, family.step)
    return rows


def _check_measured(report: Report, told: Described, table: FamilyTable) -> bool:
    """Return whether measurements are whole: declared keys, integers that noise can give."""
    path, size = report.path / formats.file_of(table.measured), table.query.keys.size
    whole = (
        is_written(report.path, told.measured(table), size, rehearsal=report.rehearsal)
        and has_keys(path, table.query)
        and not has_nulls(path)
        and _is_within(table, report.path)
    )
    if not whole:
        report.found("DP-VERIFY-006", name=formats.file_of(table.measured))
    return whole


def _is_within(table: FamilyTable, folder: Path) -> bool:
    """Return whether all noised integers lie within 2^62, where noise saturates."""
    noised = published_table(table, folder)
    return all(
        bool(np.all((piece >= -LIMIT) & (piece <= LIMIT)))
        for measurement in table.vectors
        for piece in noised.pieces(measurement.name)
    )


def _check_outputs(
    report: Report, described: Described, family: Family, step: FamilyStep
) -> dict[str, int]:
    """Compare every output with what the step makes of the measurements; return their rows."""
    noised = [published_table(table, report.path) for table in family.tables]
    compared = {
        output.name: _Compared(report, output, described.output(family, output))
        for output in family.outputs
    }
    for name, table in step_tables(family.outputs, step.values(noised)):
        compared[name].add(table)
    rows = {name: one.rows for name, one in compared.items()}
    differ = [name for name, one in compared.items() if not one.is_same()]
    for name in differ:
        report.found("DP-VERIFY-012", name=formats.file_of(name))
    report.checked.append(f"the tables of '{family.name}' follow from its measurements")
    if not differ:  # what is another table needs no second check
        published = {output.name: _reader(report.path, output) for output in family.outputs}
        for problem in step.problems(noised, published):
            report.found("DP-VERIFY-013", family=family.name, step=step.name, problem=problem)
        report.checked.append(f"they pass the second check of '{step.name}'")
    return rows


class _Compared:
    """One published table beside what follows from the measurements, some rows at a time."""

    def __init__(self, report: Report, output: Output, told: TableMetadata) -> None:
        self._report, self._output, self._told = report, output, told
        folder = report.path
        self._held = _Rows(_reader(folder, output)())
        self._same = True
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Compare the rows that follow."""
        import pyarrow as pa

        self.rows += len(table)
        if self._same:
            try:
                self._same = self._held.next(len(table), table.schema).equals(table)
            except (OSError, pa.ArrowException):
                self._same = False

    def is_same(self) -> bool:
        """Return whether the file has the rows that were compared, and no others."""
        held, told, note = self._report, self._told, self._output.note
        return self._same and is_written(held.path, told, self.rows, note, rehearsal=held.rehearsal)


def _reader(folder: Path, output: Output) -> Callable[[], Iterator[pa.RecordBatch]]:
    path = folder / formats.file_of(output.name)
    return lambda: formats.PUBLISHED.batches(path, None)


class _Rows:
    """Rows of a file, as many at a time as are asked for; fewer at its end."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: list[pa.RecordBatch] = []

    def next(self, size: int, schema: pa.Schema) -> pa.Table:
        """Return the next rows; of a table of another form, what it has."""
        import pyarrow as pa

        taken: list[pa.RecordBatch] = []
        while size > 0:
            batch = self._left.pop() if self._left else next(self._batches, None)
            if batch is None:
                break
            taken.append(batch.slice(0, size))
            if batch.num_rows > size:
                self._left.append(batch.slice(size))
            size -= taken[-1].num_rows
        return pa.Table.from_batches(taken, None if taken else schema)
