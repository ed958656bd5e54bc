"""Read Iceberg tables: the Parquet files of one snapshot, which its manifests list.

A metadata file (JSON) names the snapshots of the table, a manifest list (Avro) the manifests of a
snapshot, and each manifest (Avro) files. Files name their columns by the ids of fields. Nothing is
read outside of the folder of the table.

Source: Apache Iceberg Table Spec, https://iceberg.apache.org/spec/, versions 1 and 2, "Manifests",
"Snapshots", "Table Metadata", "Column Projection" and "File System Tables".
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.exact.lakes.avro import read_records
from dprelease.exact.lakes.lake_version import (
    MOST_BYTES,
    UNUSABLE,
    LakeColumn,
    LakeFile,
    LakeProblem,
    LakeVersion,
    find_data_files,
)
from dprelease.exact.sources.lake_reader import LakeReader
from dprelease.exact.sources.source_reader import Description
from dprelease.schema.source_types.iceberg_type import SOURCE_TYPE
from dprelease.system.files import read_file

FOLDER, HINT = "metadata", "version-hint.text"
METADATA = re.compile(r"v?(\d+)(?:-.*)?(?:\.gz)?\.metadata\.json(?:\.gz)?", re.ASCII | re.DOTALL)
KNOWN_FORMATS = (1, 2)
DELETED, DATA = 2, 0

EXPIRED_ADVICE = "name a snapshot that has not expired, with all its files"
REWRITE_ADVICE = (
    "write these files again without the deleted rows, with CALL system.rewrite_data_files(table "
    "=> ..., options => map('delete-file-threshold', '1')) in Spark, and read the new snapshot"
)
COPY_ADVICE = "write the live rows into a table of format version 2, or into a Parquet file"
FOLDER_ADVICE = "copy the table with all its files into one folder"
NAME_ADVICE = "declare `snapshot`, or the path of the metadata file that the catalogue names"

TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "string": "VARCHAR",
    "uuid": "UUID",
}
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def read_version(path: Path, snapshot: int | None, *, can_guess: bool = False) -> LakeVersion:
    """Return a snapshot of the table with this folder or metadata file; by default the current one.

    `can_guess`: whether the metadata file with the highest number is current, if no file says so.

    Raises LakeProblem if the snapshot does not exist, or can't be read exactly. Raises OSError,
    ValueError, LookupError, TypeError, AttributeError or RecursionError if the metadata can't be
    read.
    """
    root = Path(os.path.realpath(path.parent / os.pardir if path.is_file() else path))
    metadata = _metadata_of(path, snapshot, can_guess=can_guess)
    if int(metadata["format-version"]) not in KNOWN_FORMATS:
        reason = f"it has the format version {int(metadata['format-version'])}"
        raise LakeProblem(reason, COPY_ADVICE)
    current = metadata.get("current-snapshot-id")
    held = _snapshots_of(metadata).get(current if snapshot is None else snapshot)
    if held is None and snapshot is None:
        raise LakeProblem("it has no snapshot", "write its rows first")
    if held is None:
        raise LakeProblem(f"it has no snapshot {snapshot}", EXPIRED_ADVICE)
    fields = _fields_of(metadata, held)
    columns = {one["name"]: LakeColumn(_type_of(one), None, int(one["id"])) for one in fields}
    names = {int(one["id"]): one["name"] for one in fields}
    listed = list(_listed_files(root, metadata, held, names))
    files = find_data_files(root, listed, EXPIRED_ADVICE)
    return LakeVersion(int(held["snapshot-id"]), columns, files)


def _metadata_of(path: Path, snapshot: int | None, *, can_guess: bool) -> Mapping[str, Any]:
    """Return the current metadata of a table, or metadata that have a snapshot."""
    if path.is_file():
        return _read_metadata(path)
    folder = path / FOLDER
    hinted = _hinted_file(folder)
    if hinted is not None:
        return _read_metadata(hinted)
    numbers = {name: int(m[1]) for name in os.listdir(folder) if (m := METADATA.fullmatch(name))}
    last = max(numbers.values(), default=0)
    latest = sorted(name for name, number in numbers.items() if number == last)
    if not latest:
        raise LakeProblem("its folder has no metadata file", "check the path")
    if snapshot is None and (not can_guess or len(latest) > 1):
        reason = f"only its catalogue knows the current snapshot (there is no '{HINT}')"
        raise LakeProblem(reason, NAME_ADVICE)
    read = [_read_metadata(folder / name) for name in latest]
    # If no file has the snapshot, any of them shows the caller that it lacks it.
    return next((one for one in read if snapshot in _snapshots_of(one)), read[0])


def _hinted_file(folder: Path) -> Path | None:
    """Return the metadata file that the hint in a folder names; None without a hint."""
    try:
        hint = read_file(folder / HINT, MOST_BYTES).decode("ascii").strip()
    except FileNotFoundError:
        return None
    plain = f"{hint}.metadata.json"
    for name in (f"v{plain}", f"v{hint}.gz.metadata.json", f"v{plain}.gz", plain, hint):
        if METADATA.fullmatch(name) and (folder / name).is_file():
            return folder / name
    raise ValueError("a hint at no metadata file")


def _read_metadata(file: Path) -> Mapping[str, Any]:
    """Return the content of a metadata file, which may be compressed."""
    content = read_file(file, MOST_BYTES)
    if content.startswith(b"\x1f\x8b"):  # gzip
        try:
            content = gzip.decompress(content)
        except EOFError:
            raise ValueError("the file ends too early") from None
    metadata: Mapping[str, Any] = json.loads(content)
    return metadata


def _snapshots_of(metadata: Mapping[str, Any]) -> dict[int | None, Mapping[str, Any]]:
    """Return the snapshots that metadata name, by their ids."""
    return {one["snapshot-id"]: one for one in metadata.get("snapshots") or ()}


def _fields_of(metadata: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Sequence[Any]:
    """Return the fields of the schema with which a snapshot was written."""
    schemas = metadata.get("schemas") or [metadata["schema"]]
    wanted = snapshot.get("schema-id")
    if wanted is None and len(schemas) > 1:
        reason = "its metadata do not state with which columns the snapshot was written"
        raise LakeProblem(reason, "write to the table with a version of Iceberg since 0.13")
    by_id = {one.get("schema-id"): one for one in schemas}
    fields: Sequence[Any] = (schemas[0] if wanted is None else by_id[wanted])["fields"]
    return fields


def _type_of(field: Mapping[str, Any]) -> str:
    """Return the engine's type of a field."""
    words = field["type"] if isinstance(field["type"], str) else ""
    sizes = DECIMAL.fullmatch(words)
    return TYPES.get(words, UNUSABLE) if sizes is None else f"DECIMAL({sizes[1]},{sizes[2]})"


def _listed_files(
    root: Path, metadata: Mapping[str, Any], snapshot: Mapping[str, Any], names: Mapping[int, str]
) -> Iterator[LakeFile]:
    """Yield the files with the rows of a snapshot. `names`: the names of columns by their ids."""
    location = str(metadata["location"])
    # Tables of format version 1 may have a single specification, without an id.
    specs = metadata.get("partition-specs") or [
        {"spec-id": 0, "fields": metadata["partition-spec"]}
    ]
    partitions = {int(one["spec-id"]): _identities(one["fields"], names) for one in specs}
    for manifest in read_records(_path_of(root, location, snapshot["manifest-list"])):
        written = partitions[int(manifest.get("partition_spec_id") or 0)]
        for entry in read_records(_path_of(root, location, manifest["manifest_path"])):
            # A manifest goes on to list files that its own commit has removed.
            if entry["status"] == DELETED:
                continue
            file = entry["data_file"]
            if (manifest.get("content") or DATA) != DATA or (file.get("content") or DATA) != DATA:
                reason = "it has delete files, which mark single rows as deleted, and are not read"
                raise LakeProblem(reason, REWRITE_ADVICE)
            if file["file_format"].upper() != "PARQUET":
                raise LakeProblem("some of its files are not Parquet files", COPY_ADVICE)
            found = _path_of(root, location, file["file_path"])
            yield LakeFile(found, int(file["file_size_in_bytes"]), written)


def _identities(fields: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> dict[str, None]:
    """Return the columns whose values partitions have, which files that were added may lack.

    Their values are None: a column that only the manifest has is not read.
    """
    sources = [int(one["source-id"]) for one in fields if one["transform"] == "identity"]
    return {names[one]: None for one in sources if one in names}


def _path_of(root: Path, location: str, written: str) -> Path:
    """Return a path in the folder of a table for a path that its metadata name.

    The table may have been moved or copied since: paths are relative to its `location`.
    """
    base, path = _plain(location).rstrip("/"), _plain(written)
    if path.startswith(f"{base}/"):
        path = path[len(base) + 1 :]
    found = Path(os.path.realpath(root / path))
    # The scheme of a store, as in s3://bucket, would be the name of a folder here.
    if ":/" in path or not found.is_relative_to(root):
        raise LakeProblem("some of its files are outside of its folder", FOLDER_ADVICE)
    if not found.is_file():
        raise LakeProblem("some files of this snapshot do not exist any more", EXPIRED_ADVICE)
    return found


def _plain(path: str) -> str:
    """Return a path without the scheme of local files."""
    for scheme in ("file://", "file:"):
        if path.startswith(scheme):
            return path.removeprefix(scheme)
    return path


CATALOGUE_NOTE = (
    "The snapshot is the current one of the newest metadata file. If the table has a catalogue, "
    "check that the catalogue names the same snapshot."
)


class IcebergReader(LakeReader):
    """Reads Iceberg tables."""

    source_type = SOURCE_TYPE

    def version_of(
        self, path: Path, version: int | None, *, can_guess: bool = False
    ) -> LakeVersion:
        """Return a snapshot of the table at a path; the current one if `version` is None."""
        return read_version(path, version, can_guess=can_guess)

    def describe(self, file: Path, table: str | None) -> Description:
        """Return the columns of the current snapshot, and its id."""
        return replace(super().describe(file, table), note=CATALOGUE_NOTE)


READER = IcebergReader()
