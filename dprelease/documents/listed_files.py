"""The files that a manifest lists: tables, formats, declaration files, true values, an audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.schema.public_values.large_files import KeptFile


def listed_files(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every file of a release by name; the files of tables come first.

    `record`: a manifest as JSON values, possibly of an older version.

    Raises KeyError, TypeError or AttributeError if `record` is not a manifest.
    """
    # Manifests of older versions lack the keys that are read with a default.
    exported = [file for export in record.get("exports", ()) for file in export["files"]]
    tables = [one for file in record["files"] for one in _digests_of(file).items()]
    listed = {str(file["name"]): file["sha256"] for file in exported} | dict(tables)
    lists = [
        KeptFile(str(kept["sha256"]), 0, str(kept["form"]))
        for kept in record["declaration"].get("files", {}).values()
    ]
    audit = record["declaration"].get("audit")
    named = {} if audit is None else {str(audit["file"]): audit["sha256"]}
    copies = {kept.copy: kept.sha256 for kept in lists}
    rehearsal = record.get("rehearsal", {})
    limits = record.get("limits") or {"folder": "", "files": {}}
    chosen = {f"{limits['folder']}/{name}": digest for name, digest in limits["files"].items()}
    truth = [*rehearsal.get("truth", ()), *rehearsal.get("messages", ())]
    true_values = {one["name"]: one["sha256"] for one in truth}
    # The last one wins: a name in two lists has the digest of the published file.
    return {**true_values, **copies, **named, **chosen, **listed}


def _digests_of(file: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of a table's files by name: of its only file, or of its parts."""
    parts = file.get("parts") or ()
    if not parts:
        return {str(file["name"]): file["sha256"]}
    return {f"{file['name']}/{part['name']}": part["sha256"] for part in parts}
