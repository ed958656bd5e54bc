"""All formats of a release, written one after the other and told by their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.documents.manifest import sha256_of
from dprelease.exports.base import PublishedRelease
from dprelease.exports.known import export_of, versions_of

BLANK = "0" * 64
LONGER = 40
"""Characters by which the name of an exported file is longer than that of its table, at most."""

FILES = 3
"""Files that a format writes for a table, at most, and for the whole release."""


def write_formats(
    names: Iterable[str],
    release: PublishedRelease,
    folder: Path,
    progress: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """Write a release in some formats into a folder; return what the manifest says of them.

    Each is told of the files of those before it.

    Raises
    ------
    OSError
        If the folder does not take them.
    """
    records = []
    beside = dict(release.beside)
    for name in names:
        progress(name)
        export = export_of(name)
        files = export.write(replace(release, beside=beside), folder)
        beside[name] = files
        records.append(_record(name, [(file, sha256_of(folder / file)) for file in files]))
        records[-1]["packages"] = versions_of(export)
    return records


def blank_record(names: Iterable[str], tables: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the manifest may say at most of formats that are not written yet.

    `tables`: the names of the tables that are published.
    """
    return [
        _record(
            name,
            [
                (f"{name}/{table}{i:0>{LONGER}}", BLANK)
                for table in ("", *tables)
                for i in range(FILES)
            ],
        )
        for name in names
    ]


def _record(name: str, files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    told = [{"name": file, "sha256": digest} for file, digest in files]
    return {"format": name, "files": told, "packages": {}}
