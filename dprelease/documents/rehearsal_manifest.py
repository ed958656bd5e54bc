"""The manifest of a rehearsal: the manifest of the rehearsed release, in its own format.

No program that reads releases accepts this format, and the digest covers its name. Each Parquet
file also states that it belongs to a rehearsal, so no single file can pass as one of a release:
whoever wanted to make a rehearsal look like a release would have to rewrite every file.
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
