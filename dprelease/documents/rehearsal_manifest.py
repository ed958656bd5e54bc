"""The manifest of a rehearsal: that of the release which it rehearses, under a format of its own.

Nothing that reads releases takes the format for one, and the format is in the digest. Each Parquet
file says as well what it is, so that none can be taken out and passed on as a release's: who makes
a release of a rehearsal has to write every file anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.documents import manifest
from dprelease.documents.file_records import Written

FORMAT = "dprelease-rehearsal/1"

WORDS = (
    "A rehearsal, and no release: these tables are not about the people of the declared sources, "
    "none of which was opened. What stood in for them is told here, with the true answers."
)
NOTE = "rehearsal: not about the declared people, no release"
NOTED = "dprelease-rehearsal"
"""What every Parquet file says of itself, and by which name."""

TRUTH, ERRORS, PEOPLE = "truth", "truth/errors.json", "truth/people"
"""The folder of true answers, the file of their errors, the folder of invented rows."""


def rehearsed(
    record: Mapping[str, Any], stand_ins: list[dict[str, Any]], truth: Mapping[str, Written]
) -> dict[str, Any]:
    """Return the sealed manifest of a rehearsal, given that of the release; files by name."""
    told = {
        "words": WORDS,
        "stand_ins": stand_ins,
        "truth": [
            {"name": name, "rows": file.rows, "sha256": file.digest} for name, file in truth.items()
        ],
    }
    return manifest.sealed({**without_digest(record), "format": FORMAT, "rehearsal": told})


def released(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the release that a rehearsal's is made of."""
    plain = {**without_digest(record), "format": manifest.FORMAT}
    del plain["rehearsal"]
    return manifest.sealed(plain)


def without_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest without its digest."""
    return {name: value for name, value in record.items() if name != "digest"}


def truth_files(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of the true answers of a rehearsal; nothing for a release."""
    for file in record.get("rehearsal", {}).get("truth", ()):
        yield file["name"], file["sha256"]
