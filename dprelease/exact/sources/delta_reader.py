"""Read Delta Lake tables: the Parquet files of one version, which their log lists.

The log is a folder of commits (JSON) and checkpoints (Parquet). A checkpoint has all files of one
version, and a commit says which files its version adds and removes. Tables with features that
this module does not know are refused, because their rows could be read wrongly.

Source: Delta Transaction Log Protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md,
"Action Reconciliation", "Column Mapping", "Deletion Vectors" and "Partition Value Serialization".
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dprelease.exact.lakes.lake_version import (
    MOST_BYTES,
    UNUSABLE,
    LakeColumn,
    LakeFile,
    LakeProblem,
    LakeVersion,
    constant_sql,
    find_data_files,
)
from dprelease.exact.sources.lake_reader import LakeReader
from dprelease.schema.source_types.delta_type import SOURCE_TYPE
from dprelease.statements.values.source_equality import spark_collation
from dprelease.system.files import read_file, require_regular_file

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet", re.ASCII)
ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

MOST_READER_VERSION = 3
KNOWN_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",  # only files without deleted rows
        "timestampNtz",
        "typeWidening",  # each file is read by its own types
        "v2Checkpoint",  # only from commits and checkpoints of the first form
        "vacuumProtocolCheck",
    }
)
"""The features of tables that change nothing in how files are read, or that are followed here."""

MAPPING_KEY = "delta.columnMapping.{}"
COPY_ADVICE = "write the live rows into a new table without this feature, and read that table"
PURGE_ADVICE = (
    "write these files again without the deleted rows, with REORG TABLE ... APPLY (PURGE) in "
    "Spark, and read the version that this makes"
)
VACUUM_ADVICE = "name a version that VACUUM has left, or leave `version` out to read the latest"

TYPES = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")

CHECKPOINT_COLUMNS = (
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.deletionVector",
    "protocol",
    "metaData",
    "sidecar",
)

FileKey = tuple[str, str]
"""The path of a file, and the name of its deletion vector, which is empty without one."""


@dataclass
class _State:
    """What the log has said so far: the files, the protocol and the metadata of the table."""

    files: dict[FileKey, Mapping[str, Any]] = field(default_factory=dict)
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None

    def apply(self, actions: list[Mapping[str, Any]]) -> None:
        """Apply the actions of a commit or a checkpoint."""
        for action in actions:
            if (removed := action.get("remove")) is not None:
                self.files.pop(_key_of(removed), None)
        for action in actions:
            if (added := action.get("add")) is not None:
                self.files[_key_of(added)] = added
            self.protocol = action.get("protocol") or self.protocol
            self.metadata = action.get("metaData") or self.metadata


def latest_version(folder: Path) -> int:
    """Return the number of the latest version; raise OSError or LakeProblem if there is none."""
    commits, checkpoints = _listed(folder)
    if not commits and not checkpoints:
        way = f"check the path, which must be that of the folder with '{LOG}'"
        raise LakeProblem(f"'{LOG}' has no version", way)
    return max([*commits, *checkpoints])


def read_version(folder: Path, version: int | None) -> LakeVersion:
    """Return a version of the table in a folder; the latest one if `version` is None.

    Raises LakeProblem if the version does not exist, or can't be read exactly. Raises OSError,
    ValueError, LookupError, TypeError, AttributeError or RecursionError if the log can't be read.
    """
    latest = latest_version(folder)
    if version is not None and version > latest:
        raise LakeProblem(f"it has no version {version}", f"name a version up to {latest}")
    version = latest if version is None else version
    state = _state_at(folder, version)
    if state.protocol is None or state.metadata is None:
        raise ValueError("no protocol or no metadata")
    _refuse_unknown_features(state.protocol)
    if any(vector for _, vector in state.files):
        reason = "some rows of its files are deleted by deletion vectors, which are not read"
        raise LakeProblem(reason, PURGE_ADVICE)
    return _version_of(folder, version, state.metadata, list(state.files.values()))


def _listed(folder: Path) -> tuple[dict[int, str], dict[int, list[tuple[str, int]]]]:
    """Return the names of commits by version, and those of checkpoints with their parts."""
    commits: dict[int, str] = {}
    checkpoints: dict[int, list[tuple[str, int]]] = {}
    for name in sorted(os.listdir(folder / LOG)):
        if (match := COMMIT.fullmatch(name)) is not None:
            commits[int(match[1])] = name
        elif (match := CHECKPOINT.fullmatch(name)) is not None:
            checkpoints.setdefault(int(match[1]), []).append((name, int(match[3] or 1)))
    return commits, checkpoints


def _state_at(folder: Path, version: int) -> _State:
    """Return the state of a table at a version: of a checkpoint, and of all commits after it."""
    commits, checkpoints = _listed(folder)
    for begin in sorted((one for one in checkpoints if one <= version), reverse=True):
        # An older checkpoint would need the same commits, and more.
        if not commits.keys() >= {*range(begin + 1, version + 1)}:
            break
        actions = _read_checkpoint(folder, checkpoints[begin])
        if actions is not None:
            return _replayed(folder, actions, [commits[i] for i in range(begin + 1, version + 1)])
    if commits.keys() >= {*range(version + 1)}:
        return _replayed(folder, [], [commits[i] for i in range(version + 1)])
    reason = f"its log does not have all commits that version {version} needs"
    raise LakeProblem(reason, VACUUM_ADVICE)


def _replayed(folder: Path, actions: list[Mapping[str, Any]], commits: list[str]) -> _State:
    """Return the state after the actions of a checkpoint and the commits in files."""
    state = _State()
    state.apply(actions)
    for name in commits:
        lines = read_file(folder / LOG / name, MOST_BYTES).split(b"\n")
        state.apply([json.loads(line) for line in lines if line.strip()])
    return state


def _read_checkpoint(folder: Path, parts: list[tuple[str, int]]) -> list[Mapping[str, Any]] | None:
    """Return the actions of a checkpoint; None if it lacks a part, or is of the second form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = Counter(total for _, total in parts)
    whole = next((total for total, found in counts.items() if total == found), None)
    names = [name for name, total in parts if total == whole]
    if not names:
        return None
    found: list[Mapping[str, Any]] = []
    try:
        for name in names:
            require_regular_file((folder / LOG / name).stat())
            with pq.ParquetFile(folder / LOG / name) as file:
                for batch in file.iter_batches(columns=CHECKPOINT_COLUMNS):
                    found += batch.to_pylist()
    except pa.ArrowException:
        raise ValueError("a damaged checkpoint") from None
    return None if any(row.get("sidecar") for row in found) else found


def _key_of(action: Mapping[str, Any]) -> FileKey:
    """Return the path and the deletion vector by which a file is added and removed."""
    vector = action.get("deletionVector")
    name = "" if vector is None else json.dumps([vector["storageType"], vector["pathOrInlineDv"]])
    return unquote(action["path"]), name


def _refuse_unknown_features(protocol: Mapping[str, Any]) -> None:
    """Raise LakeProblem for a table that a reader of this module could read wrongly."""
    least = int(protocol["minReaderVersion"])
    features = {str(one) for one in protocol.get("readerFeatures") or ()} - KNOWN_FEATURES
    if least > MOST_READER_VERSION:
        raise LakeProblem(f"it needs a reader of version {least}", COPY_ADVICE)
    if features:
        named = ", ".join(f"'{one}'" for one in sorted(features))
        raise LakeProblem(f"it needs a reader that knows {named}", COPY_ADVICE)


def _version_of(
    folder: Path, version: int, metadata: Mapping[str, Any], added: list[Mapping[str, Any]]
) -> LakeVersion:
    """Return a version from its metadata, and from the actions that added its files."""
    if metadata["format"]["provider"] != "parquet":
        raise LakeProblem("its files are not Parquet files", COPY_ADVICE)
    settings = dict(metadata.get("configuration") or ())
    mode = settings.get(MAPPING_KEY.format("mode"), "none")
    if mode not in ("none", "name", "id"):
        raise LakeProblem("it maps the names of columns in an unknown way", COPY_ADVICE)
    partitions = set(metadata["partitionColumns"])
    fields = json.loads(metadata["schemaString"])["fields"]
    columns = {one["name"]: _column_of(one, mode, one["name"] in partitions) for one in fields}
    names = {  # the log writes a partition under the name that its column has in files
        name: one["metadata"][MAPPING_KEY.format("physicalName")] if mode != "none" else name
        for one in fields
        if (name := one["name"]) in partitions
    }
    listed = [
        LakeFile(Path(_relative_path(one)), int(one["size"]), dict(_constants(one, names, columns)))
        for one in added
    ]
    noted = {one["name"]: (one.get("metadata") or {}).get("__COLLATIONS") for one in fields}
    collations = {name: spark_collation(name, one) for name, one in noted.items() if one}
    files = find_data_files(folder, listed, VACUUM_ADVICE)
    return LakeVersion(version, columns, files, collations)


def _column_of(declared: Mapping[str, Any], mode: str, is_partition: bool) -> LakeColumn:
    """Return a column of a table's schema. `mode`: how names of columns are mapped to files."""
    kind = declared["type"]
    words = kind if isinstance(kind, str) else ""
    sizes = DECIMAL.fullmatch(words)
    engine_type = TYPES.get(words, UNUSABLE) if sizes is None else f"DECIMAL({sizes[1]},{sizes[2]})"
    if is_partition:
        return LakeColumn(engine_type, None)
    if mode == "none":
        return LakeColumn(engine_type, declared["name"])
    own = declared["metadata"]
    stored = str(own[MAPPING_KEY.format("physicalName")])
    number = int(own[MAPPING_KEY.format("id")]) if mode == "id" else None
    return LakeColumn(engine_type, stored, number)


def _constants(
    added: Mapping[str, Any], names: Mapping[str, str], columns: Mapping[str, LakeColumn]
) -> Iterator[tuple[str, str | None]]:
    """Yield each partition column of a file with SQL of its value; None if it can't be read."""
    values = dict(added["partitionValues"])
    for column, name in names.items():
        yield column, constant_sql(values[name] or None, columns[column].type)  # "" is missing


def _relative_path(added: Mapping[str, Any]) -> str:
    """Return the path of a file, relative to the folder; raise LakeProblem for any other path."""
    if ABSOLUTE.match(added["path"]):
        way = "copy the table with all its files into one folder"
        raise LakeProblem("some of its files are outside of its folder, as in a shallow clone", way)
    return unquote(added["path"])


class DeltaReader(LakeReader):
    """Reads Delta Lake tables."""

    source_type = SOURCE_TYPE

    def version_of(
        self, path: Path, version: int | None, *, can_guess: bool = False
    ) -> LakeVersion:
        """Return a version of the table in a folder; the latest one if `version` is None."""
        return read_version(path, version)


READER = DeltaReader()
