"""The manifest of a rehearsal: that of the release which it rehearses, under a format of its own.

Nothing that reads releases takes the format for one, and the format is in the digest. Each Parquet
file says as well what it is, so that none can be taken out and passed on as a release's: who makes
a release of a rehearsal has to write every file anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.file_records import FileDigest

FORMAT = "dprelease-rehearsal/1"
OF_RECORDS = "dprelease-local-rehearsal/1"
OF_PARTIES = "dprelease-federated-rehearsal/1"

FORMATS = {
    FORMAT: manifest.FORMAT,
    OF_RECORDS: "dprelease-local-manifest/1",
    OF_PARTIES: "dprelease-federated-manifest/1",
}
"""The formats of rehearsals, and that of the release which each rehearses: as texts, for a run of
tables loads the manifest of no other release."""

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


def manifest_of_rehearsal(
    record: Mapping[str, Any], stand_ins: list[dict[str, Any]], truth: Mapping[str, FileDigest]
) -> dict[str, Any]:
    """Return the sealed manifest of a rehearsal, given that of the release; files by name."""
    of = {release: rehearsal for rehearsal, release in FORMATS.items()}
    told = {"words": WORDS, "stand_ins": stand_ins, "truth": _files(truth)}
    format_ = of[str(record["format"])]
    return manifest.with_digest({**without_digest(record), "format": format_, "rehearsal": told})


def rehearsed_sums(
    record: Mapping[str, Any],
    files: list[dict[str, Any]],
    stand_ins: list[dict[str, Any]],
    truth: Mapping[str, FileDigest],
    messages: Mapping[str, FileDigest],
) -> dict[str, Any]:
    """Return the sealed manifest of a rehearsal of all parties, given that of one of them.

    `files`: the records of the sums, which stand in for those of one party's messages.
    """
    whole = manifest_of_rehearsal({**record, "files": files}, stand_ins, truth)
    whole["rehearsal"]["messages"] = _files(messages)
    del whole["party"]
    return manifest.with_digest(whole)


def _files(written: Mapping[str, FileDigest]) -> list[dict[str, Any]]:
    return [
        {"name": name, "rows": file.rows, "sha256": file.digest} for name, file in written.items()
    ]


def manifest_of_release(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the release that a rehearsal's is made of."""
    plain = {**without_digest(record), "format": FORMATS[record["format"]]}
    del plain["rehearsal"]
    return manifest.with_digest(plain)


def without_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest without its digest."""
    return {name: value for name, value in record.items() if name != "digest"}


def truth_files(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of what a rehearsal has beside its tables; nothing for a release."""
    told = record.get("rehearsal", {})
    for file in (*told.get("truth", ()), *told.get("messages", ())):
        yield file["name"], file["sha256"]
