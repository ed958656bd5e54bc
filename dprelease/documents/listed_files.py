"""The files that a manifest lists: of tables, formats, declared lists, truths, an audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.documents.rehearsal_manifest import truth_files
from dprelease.schema.public_values.large_files import KeptFile


def listed_files(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every file of a release, by name; that of a table comes before others.

    Raises
    ------
    KeyError, TypeError, AttributeError
        For what is no manifest.
    """
    exported = [file for export in record.get("exports", ()) for file in export["files"]]
    listed = {str(file["name"]): file["sha256"] for file in [*exported, *record["files"]]}
    lists = [
        KeptFile(str(kept["sha256"]), 0, str(kept["form"]))
        for kept in record["declaration"].get("files", {}).values()
    ]
    audit = record["declaration"].get("audit")
    named = {} if audit is None else {str(audit["file"]): audit["sha256"]}
    copies = {kept.copy: kept.sha256 for kept in lists}
    return {**dict(truth_files(record)), **copies, **named, **listed}
