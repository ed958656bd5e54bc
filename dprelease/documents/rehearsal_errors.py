"""The errors of a rehearsal: how far its published values are from the true ones, by column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dprelease.documents.rehearsal_manifest import ERRORS
from dprelease.schema.document_part import Part


class Figures(Part):
    """How far some cells are from the truth; null where there is no cell to compute it from.

    `error` is published minus exact, both within the contribution bounds. `covered`: the share of
    cells whose margin contains the truth. `cut`: by how much the bounds lower the exact value.
    """

    cells: int
    empty: int
    mean_absolute_error: float | None
    bias: float | None
    root_mean_square_error: float | None
    largest_error: float | None
    covered: float | None
    cut: float | None


class CellClass(Part):
    """The true numbers of rows of some cells, in words."""

    rows: str


class ClassErrors(Figures, CellClass):
    """The errors of the cells of one size."""


class ErrorColumn(Part):
    """A published column, the error expected of it, and its errors by size of the cell."""

    table: str
    column: str
    unit: str
    confidence: float | None
    expected: float | None
    classes: list[ClassErrors]


class ColumnErrors(Figures, ErrorColumn):
    """The errors of a column, over all its cells."""


def encode_errors(errors: Sequence[ColumnErrors]) -> bytes:
    """Return the file of all errors."""
    values = [one.to_json() for one in errors]
    return (json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def decode_errors(raw: bytes) -> list[ColumnErrors]:
    """Return all errors of a file.

    Raises
    ------
    ValueError, TypeError, RecursionError
        For a file with other content.
    """
    return [ColumnErrors.model_validate(one) for one in json.loads(raw)]


def errors_in(folder: Path) -> list[ColumnErrors]:
    """Return the errors of a verified rehearsal."""
    return decode_errors((folder / ERRORS).read_bytes())
