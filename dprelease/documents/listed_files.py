"""The files that a manifest lists: of tables, of other formats, of a rehearsal's true answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.documents.rehearsal_manifest import truth_files


def listed_files(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every file of a release, by name; that of a table comes before others.

    Raises
    ------
    KeyError, TypeError
        For what is no manifest.
    """
    exported = [file for export in record.get("exports", ()) for file in export["files"]]
    listed = {str(file["name"]): file["sha256"] for file in [*exported, *record["files"]]}
    return {**dict(truth_files(record)), **listed}
