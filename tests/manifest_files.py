"""Manifests as JSON values, for tests that change what a folder says."""

from __future__ import annotations

from typing import Any

from dprelease.documents.encoding import digest_of


def with_digest(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the SHA-256 of its encoding without that digest."""
    return {**record, "digest": digest_of(record)}


def as_release(record: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a rehearsal as that of the release, without a valid digest."""
    format_ = record["format"].replace("rehearsal", "manifest")
    return {name: value for name, value in record.items() if name != "rehearsal"} | {
        "format": format_
    }
