"""The manifest of a rehearsal, with the errors of its published values.

No program that reads releases accepts this format, and the digest covers its name. Each Parquet
file also states that it belongs to a rehearsal, so no single file can pass as one of a release:
to make a rehearsal look like a release, somebody would have to rewrite every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dprelease.documents.file_records import FileDigest
from dprelease.schema.document_part import Part

FORMAT = "dprelease-rehearsal/1"
OF_RECORDS = "dprelease-local-rehearsal/1"
OF_PARTIES = "dprelease-federated-rehearsal/1"

FORMATS = frozenset({FORMAT, OF_RECORDS, OF_PARTIES})

WORDS = (
    "A rehearsal, not a release: these tables are not about the people of the declared sources, "
    "none of which was opened. This record states what replaced them, and the true results."
)
NOTE = "rehearsal: not about the declared people, not a release"
NOTED = "dprelease-rehearsal"
"""The key in the metadata of every Parquet file that marks it as part of a rehearsal."""

TRUTH, ERRORS, PEOPLE = "truth", "truth/errors.json", "truth/people"
"""The folder of true answers, the file of their errors, the folder of invented rows."""

PARTIES = "parties"
"""The folder of the messages of each party, by the party's number."""


class StandInRecord(Part):
    """The rows that replaced the source of a table: invented rows, or a public file."""

    table: str
    by: Literal["invention", "public"]
    rows: int | None = None
    file: str | None = None
    sha256: str | None = None


class TruthRecord(Part):
    """One file of true answers, of errors, or of invented rows."""

    name: str
    rows: int
    sha256: str


class RehearsalRecord(Part):
    """The additional part of a rehearsal's manifest: the replaced sources, and the true values."""

    words: str
    stand_ins: list[StandInRecord]
    truth: list[TruthRecord]


class PartiesRecord(RehearsalRecord):
    """The additional part of the manifest of a rehearsal of all parties, with their messages."""

    messages: list[TruthRecord]


def rehearsal_record(
    stand_ins: Sequence[StandInRecord], truth: Mapping[str, FileDigest]
) -> RehearsalRecord:
    """Return the additional part of a rehearsal's manifest; `truth`: files of true values."""
    return RehearsalRecord(words=WORDS, stand_ins=list(stand_ins), truth=truth_records(truth))


def truth_records(written: Mapping[str, FileDigest]) -> list[TruthRecord]:
    """Return the records of the files with true values, by name."""
    return [
        TruthRecord(name=name, rows=file.rows, sha256=file.digest) for name, file in written.items()
    ]


class Figures(Part):
    """Statistics of the differences between published and true values of some cells.

    A statistic is null if no cell has the values from which it is computed.

    `error` is the published value minus the exact value under the contribution limits. `covered`:
    the share of cells whose margin contains the true value. `cut`: the amount by which contribution
    limits lower the exact value.
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
    """A class of cells, defined by a range of true numbers of rows, which is given in words."""

    rows: str


class ClassErrors(Figures, CellClass):
    """The errors of the cells in one size class."""


class ErrorColumn(Part):
    """A published column, its expected error, and its errors by size class."""

    table: str
    column: str
    unit: str
    confidence: float | None
    expected: float | None
    classes: list[ClassErrors]


class ColumnErrors(Figures, ErrorColumn):
    """The errors of a column over all its cells, and by size class."""


def encode_errors(errors: Sequence[ColumnErrors]) -> bytes:
    """Return the bytes of the file of all errors."""
    values = [one.to_json() for one in errors]
    return (json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def decode_errors(raw: bytes) -> list[ColumnErrors]:
    """Return all errors from the bytes of a file.

    Raises ValueError, TypeError or RecursionError if the file has other content.
    """
    return [ColumnErrors.model_validate(one) for one in json.loads(raw)]


def errors_in(folder: Path) -> list[ColumnErrors]:
    """Return the errors of a verified rehearsal."""
    return decode_errors((folder / ERRORS).read_bytes())


TRUE, UNBOUNDED, OFF, ROWS, PUBLISHED = "true_", "unbounded_", "off_", "true_rows", "is_published"
"""Names or prefixes of columns with true values: the exact value within the contribution limits
and without them, the number of rows by which a selected value is off, the number of rows of the
cell, and whether the cell is published."""


@dataclass(frozen=True, slots=True)
class TruthColumns:
    """Unique names of the columns with true values, by published column if each has its own."""

    true: Mapping[str, str]
    unbounded: Mapping[str, str]
    off: Mapping[str, str]
    rows: str
    is_published: str


def truth_columns(keys: Iterable[str], published: Iterable[str]) -> TruthColumns:
    """Return the names of the columns with true values for a table's keys and published columns.

    The order of the columns does not matter. A name that is already used, in upper or lower case,
    gets an underscore.
    """
    columns = sorted(published)
    # Readers of Parquet, such as DuckDB, find columns without regard to case.
    taken = {name.casefold() for name in (*keys, *columns)}

    def unused_name(name: str) -> str:
        """Return an unused name, and mark it as used."""
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        return name

    true, unbounded, off = (
        {name: unused_name(prefix + name) for name in columns} for prefix in (TRUE, UNBOUNDED, OFF)
    )
    return TruthColumns(true, unbounded, off, unused_name(ROWS), unused_name(PUBLISHED))
