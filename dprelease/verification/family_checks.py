"""Run the step of each family again on the published measurements, and compare every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.documents.file_records import files_of_parts
from dprelease.documents.metadata import TableMetadata
from dprelease.documents.release_metadata import ReleaseMetadata
from dprelease.numerics.lattice import LIMIT
from dprelease.postprocess.families import Family, FamilyStep, FamilyTable, Output
from dprelease.postprocess.partition import Parts
from dprelease.schema.load import Declaration
from dprelease.tables import formats
from dprelease.tables.family_tables import Piece, published_table, step_tables
from dprelease.verification.published_keys import has_keys, has_nulls
from dprelease.verification.report import Report, Rows, is_published_table

if TYPE_CHECKING:
    import pyarrow as pa


def check_families(
    report: Report, declaration: Declaration, families: Sequence[Family]
) -> dict[str, Rows]:
    """Add findings on families with a post-processing step to a report.

    Returns the required rows of their tables, by name. Families with invalid measurements, for
    which the step is not run, are left out.
    """
    described = ReleaseMetadata(declaration.spec)
    rows: dict[str, Rows] = {}
    for family in families:
        if family.step is None:
            continue
        parts = family.parts
        wanted = {
            t.measurements_name: _rows_of_all_cells(t, parts.get(t.measurements_name))
            for t in family.tables
        }
        whole = [
            _check_measured(report, described, t, wanted[t.measurements_name])
            for t in family.tables
        ]
        rows |= wanted
        if all(whole):
            rows |= _check_outputs(report, described, family, family.step)
    return rows


def _rows_of_all_cells(table: FamilyTable, parts: Parts | None) -> Rows:
    """Return the number of rows of a table with one row per cell, for each part if it has parts."""
    if parts is None:
        return table.query.keys.size
    return dict(zip(files_of_parts(parts), np.diff(parts.edges).tolist(), strict=True))


def _check_measured(
    report: Report, table_metadata: ReleaseMetadata, table: FamilyTable, rows: Rows
) -> bool:
    """Return whether measurements have the declared keys, and integers that noise can produce."""
    path = report.path / formats.table_file_name(table.measurements_name)
    whole = (
        is_published_table(
            report.path, table_metadata.measured_table(table), rows, rehearsal=report.rehearsal
        )
        and has_keys(path, table.query)
        and not has_nulls(path, [measurement.name for measurement in table.vectors])
        and _is_within_limit(table, report.path)
    )
    if not whole:
        report.add_finding("DP-VERIFY-006", name=formats.table_file_name(table.measurements_name))
    return whole


def _is_within_limit(table: FamilyTable, folder: Path) -> bool:
    """Return whether all noised integers lie within 2^62, where noise saturates."""
    noised = published_table(table, folder)
    return all(
        bool(np.all((piece >= -LIMIT) & (piece <= LIMIT)))
        for measurement in table.vectors
        for piece in noised.pieces(measurement.name)
    )


def _check_outputs(
    report: Report, described: ReleaseMetadata, family: Family, step: FamilyStep
) -> dict[str, Rows]:
    """Compare every output with the step's result on the measurements; return the rows of each."""
    noised = [published_table(table, report.path) for table in family.tables]
    parts = family.parts
    compared = {
        output.name: _TableComparison(
            report, output, described.output(family, output), parts.get(output.name)
        )
        for output in family.outputs
    }
    for piece in step_tables(family.outputs, step.values(noised), parts):
        compared[piece.name].add(piece)
    rows = {name: one.rows for name, one in compared.items()}
    differ = [one.file for one in compared.values() if not one.is_same()]
    for file in differ:
        report.add_finding("DP-VERIFY-012", name=file)
    report.checked.append(f"the tables of '{family.name}' follow from its measurements")
    if not differ:  # tables that differ get no further check
        published = {output.name: _batch_reader(report.path, output) for output in family.outputs}
        for problem in step.problems(noised, published):
            report.add_finding("DP-VERIFY-013", family=family.name, step=step.name, problem=problem)
        report.checked.append(f"they pass the second check of '{step.name}'")
    return rows


class _TableComparison:
    """Compares a published table with the result of the step, some rows at a time."""

    def __init__(
        self, report: Report, output: Output, table_metadata: TableMetadata, parts: Parts | None
    ) -> None:
        self._report, self._output, self._table_metadata = report, output, table_metadata
        folder = report.path
        self._held = _RowReader(_batch_reader(folder, output)())
        self._same = True
        self._other: int | None = None
        self._names = None if parts is None else files_of_parts(parts)
        self._counted = [0] * (1 if parts is None else len(parts))

    @property
    def rows(self) -> Rows:
        """Return the required number of rows, for each part if the table has parts."""
        if self._names is None:
            return self._counted[0]
        return dict(zip(self._names, self._counted, strict=True))

    @property
    def file(self) -> str:
        """Return the name of the file; for a table in parts, of the first part that differs."""
        name = formats.table_file_name(self._output.name)
        if self._names is None or self._other is None:
            return name
        return f"{name}/{self._names[self._other]}"

    def add(self, piece: Piece) -> None:
        """Compare the next rows of the table with a piece of the step's result."""
        import pyarrow as pa

        table = piece.rows
        self._counted[piece.part or 0] += len(table)
        if self._same:
            try:
                # The file was not written by this process, and may be damaged anywhere.
                self._same = self._held.next(len(table), table.schema).equals(table)
            except (OSError, pa.ArrowException):
                self._same = False
            if not self._same:
                self._other = piece.part

    def is_same(self) -> bool:
        """Return whether the file has exactly the rows that were compared, and all were equal."""
        held, table_metadata, note = self._report, self._table_metadata, self._output.note
        return self._same and is_published_table(
            held.path, table_metadata, self.rows, note, rehearsal=held.rehearsal
        )


def _batch_reader(folder: Path, output: Output) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Return a function that returns the record batches of a published table."""
    path = folder / formats.table_file_name(output.name)
    return lambda: formats.PUBLISHED_FORMAT.batches(path, None)


class _RowReader:
    """Reads the rows of a file in chunks of a requested size; the last chunk may be smaller."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: list[pa.RecordBatch] = []

    def next(self, size: int, schema: pa.Schema) -> pa.Table:
        """Return the next rows, even if the table has another schema."""
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
