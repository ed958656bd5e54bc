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
    tables = [one for file in record["files"] for one in digests_of(file).items()]
    listed = {str(file["name"]): file["sha256"] for file in exported} | dict(tables)
    lists = [
        KeptFile(str(kept["sha256"]), 0, str(kept["form"]))
        for kept in record["declaration"].get("files", {}).values()
    ]
    audit = record["declaration"].get("audit")
    named = {} if audit is None else {str(audit["file"]): audit["sha256"]}
    copies = {kept.copy: kept.sha256 for kept in lists}
    return {**dict(truth_files(record)), **copies, **named, **listed}


def digests_of(file: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each file of a published table, by name: its own, or its parts'."""
    parts = file.get("parts") or ()
    if not parts:
        return {str(file["name"]): file["sha256"]}
    return {f"{file['name']}/{part['name']}": part["sha256"] for part in parts}


def files_of_tables(record: Mapping[str, Any]) -> list[str]:
    """Return the names of all files of published tables, in the order of the manifest."""
    return [name for file in record["files"] for name in digests_of(file)]
