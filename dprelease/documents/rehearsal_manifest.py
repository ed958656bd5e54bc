"""The manifest of a rehearsal: that of the release which it rehearses, under a format of its own.

Nothing that reads releases takes the format for one, and the format is in the digest. Each Parquet
file says as well what it is, so that none can be taken out and passed on as a release's: who makes
a release of a rehearsal has to write every file anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""What every Parquet file says of itself, and by which name."""

TRUTH, ERRORS, PEOPLE = "truth", "truth/errors.json", "truth/people"
"""The folder of true answers, the file of their errors, the folder of invented rows."""

PARTIES = "parties"
"""The folder of what each party sends, by its number."""


class StandInRecord(Part):
    """What stood in for the source of a table: invented rows, or a public file."""

    table: str
    by: Literal["invention", "public"]
    rows: int | None = None
    file: str | None = None
    sha256: str | None = None


class TruthRecord(Part):
    """One file of true answers, of their errors, or of invented rows."""

    name: str
    rows: int
    sha256: str


class RehearsalRecord(Part):
    """What makes a rehearsal of it: who stood in for the people, and what is true of them."""

    words: str
    stand_ins: list[StandInRecord]
    truth: list[TruthRecord]


class PartiesRecord(RehearsalRecord):
    """What makes a rehearsal of all parties' releases, and what each of them sends."""

    messages: list[TruthRecord]


def rehearsal_record(
    stand_ins: Sequence[StandInRecord], truth: Mapping[str, FileDigest]
) -> RehearsalRecord:
    """Return what makes a rehearsal of a release; the files with true values by name."""
    return RehearsalRecord(words=WORDS, stand_ins=list(stand_ins), truth=truth_records(truth))


def truth_records(written: Mapping[str, FileDigest]) -> list[TruthRecord]:
    """Return the records of files next to the published ones, by name."""
    return [
        TruthRecord(name=name, rows=file.rows, sha256=file.digest) for name, file in written.items()
    ]
