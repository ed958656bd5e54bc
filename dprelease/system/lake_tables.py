"""Detect folders in which some files are stale: lakehouse tables, and output of unfinished jobs.

A change of a row in a Delta table writes a new file, and marks the old file as removed in a log. A
reader of all files would count people who were deleted, and would count other people twice. Other
table formats with versions work in the same way. An interrupted job leaves files that it would have
replaced or removed. The checks use only names, and open no file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

Problem = tuple[str, str]
"""The reason why files can't be read as a table, and an advice."""

EXPORT_ADVICE = (
    "write the rows that are live into a Parquet file outside of that table, and name this file: {}"
)
READ_FORMATS = ("Delta", "Iceberg")
TABLE_ADVICE = (
    "for a table in a local folder, declare the folder and its format: source: {{path: ..., "
    "format: {}}}; or "
)
DELTA_COMMAND = (
    "in DuckDB COPY (FROM delta_scan('table')) TO 'live.parquet', in Python pq.write_table("
)
SPARK_COMMAND = "in Spark spark.read.format('{}').load('table').write.parquet('live')"
EXPORT_COMMANDS = {
    "Delta": f"{DELTA_COMMAND}DeltaTable('table').to_pyarrow_table(), 'live.parquet')",
    "Iceberg": "in DuckDB COPY (FROM iceberg_scan('table')) TO 'live.parquet'",
    "Hudi": SPARK_COMMAND.format("hudi"),
    "Paimon": SPARK_COMMAND.format("paimon"),
    "DuckLake": "in DuckDB, attached, COPY lake.table TO 'live.parquet'",
}

MARKERS = {"Delta": "_delta_log", "Hudi": ".hoodie", "Iceberg": "metadata", "Paimon": "snapshot"}
"""The marker folder in the root of a lakehouse table, by format."""

ICEBERG_SUFFIXES = (".metadata.json", ".metadata.json.gz", "version-hint.text")
DUCKLAKE_NAME = re.compile(r"ducklake-[0-9a-f]{8}-[0-9a-f-]{27}(-delete)?\.parquet")

RUNNING_FOLDER, STREAM_FOLDER = "_temporary", "_spark_metadata"
STARTED_PREFIX, COMMITTED_PREFIX = "_started_", "_committed_"
"""Names of what jobs write: a folder while a job of Spark runs, a folder with the commits of a
stream, and files when a job of Databricks begins and ends."""

RERUN_ADVICE = (
    "wait until the job that writes there has ended, or run it again; if none is at work, write "
    "its files into another folder"
)
STREAM_PROBLEM = (
    f"a stream of Spark wrote it, and says in its notes ('{STREAM_FOLDER}') alone "
    "which files count",
    "write what Spark reads of that folder into another one, and name that",
)


class FolderTree(Protocol):
    """The names of files and folders, of this machine or of a store."""

    def places(self, file: Path) -> Iterable[Path]:
        """Return the paths of a file: as it was named, and the path that links resolve to."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Return whether a path is a folder."""
        ...

    def is_file(self, path: Path) -> bool:
        """Return whether a path is a file."""
        ...

    def names(self, folder: Path, start: str = "") -> Sequence[str]:
        """Return the names in a folder that begin with a text.

        There are none if the folder is missing, or may not be listed.
        """
        ...


class LocalTree:
    """The files and folders of this machine."""

    def places(self, file: Path) -> Iterable[Path]:
        """Return the absolute path of a file, and the path that links resolve to."""
        return Path(os.path.abspath(file)), Path(os.path.realpath(file))

    def is_folder(self, path: Path) -> bool:
        """Return whether a path is a folder."""
        return os.path.isdir(path)

    def is_file(self, path: Path) -> bool:
        """Return whether a path is a file."""
        return os.path.isfile(path)

    def names(self, folder: Path, start: str = "") -> Sequence[str]:
        """Return the names in a folder that begin with a text."""
        try:
            return [name for name in os.listdir(folder) if name.startswith(start)]
        except OSError:  # the folder is missing, or may not be listed
            return []


LOCAL_TREE = LocalTree()


def lake_problem(files: Iterable[Path], tree: FolderTree = LOCAL_TREE) -> Problem | None:
    """Return why some Parquet files may be stale: because they belong to a lakehouse table.

    The result is None if no folder above the files is a lakehouse table.
    """
    found = None
    seen: set[Path] = set()
    for file in files:
        # DuckLake has no marker in its folders: its catalog is a database elsewhere.
        if DUCKLAKE_NAME.fullmatch(file.name):
            found = "DuckLake", f"its files are named as in '{_safe_name(file)}'"
        for folder in _unseen_folders(_folders_above(file, tree), seen):
            kind = _kind_of(folder, tree)
            if kind is not None:
                found = kind, f"'{_safe_name(folder)}' holds '{MARKERS[kind]}'"
        if found is not None:
            export = EXPORT_ADVICE.format(EXPORT_COMMANDS[found[0]])
            own = TABLE_ADVICE.format(found[0].lower()) if found[0] in READ_FORMATS else ""
            return lake_reason(*found), f"{own}{export}"
    return None


def table_format(path: Path) -> str | None:
    """Return the name in `source` for the format of the lakehouse table in a folder, or None."""
    kind = _kind_of(path, LOCAL_TREE)
    return None if kind is None else kind.lower()


def lake_reason(kind: str, where: str) -> str:
    """Return why files of a lakehouse table are refused.

    `where` is a text with the evidence that they belong to such a table.
    """
    return (
        f"it belongs to a table of the format {kind} ({where}), whose files also hold rows that "
        "were deleted or replaced"
    )


def job_problem(
    files: Iterable[Path], folder: Path | None, tree: FolderTree = LOCAL_TREE
) -> Problem | None:
    """Return why files in the folders of jobs can't be read; None if all jobs have finished.

    `folder` is the declared folder of all files, and None if no folder is declared.
    """
    folders = dict.fromkeys(parent for file in files for parent in _job_folders(file, tree))
    if any(RUNNING_FOLDER in one.parts for one in folders):
        return f"it is in the folder '{RUNNING_FOLDER}' of a job, which has not ended", RERUN_ADVICE
    for one in folders if folder is None else {**folders, folder: None}:
        names = tree.names(one, "_")
        started = {
            name.removeprefix(STARTED_PREFIX) for name in names if name.startswith(STARTED_PREFIX)
        }
        ended = {
            name.removeprefix(COMMITTED_PREFIX)
            for name in names
            if name.startswith(COMMITTED_PREFIX)
        }
        open_marker = RUNNING_FOLDER if RUNNING_FOLDER in names else None
        if started - ended:
            open_marker = STARTED_PREFIX
        if open_marker is not None:
            reason = f"a job has not ended there ('{_safe_name(one)}' holds '{open_marker}')"
            return reason, RERUN_ADVICE
        if STREAM_FOLDER in names:
            return STREAM_PROBLEM
    return None


def _folders_above(file: Path, tree: FolderTree) -> Iterator[Path]:
    """Yield the folders above a file, by its path and by the path that links resolve to."""
    for path in tree.places(file):
        yield from path.parents


def _unseen_folders(folders: Iterable[Path], seen: set[Path]) -> Iterator[Path]:
    """Yield the folders that were not seen before, and add them to `seen`."""
    for folder in folders:
        if folder not in seen:
            seen.add(folder)
            yield folder


def _kind_of(folder: Path, tree: FolderTree) -> str | None:
    """Return the format of the table whose root is this folder; None if it is not a table."""
    for kind in ("Delta", "Hudi"):
        if tree.is_folder(folder / MARKERS[kind]):
            return kind
    if any(name.endswith(ICEBERG_SUFFIXES) for name in tree.names(folder / MARKERS["Iceberg"])):
        return "Iceberg"
    is_paimon = tree.is_file(folder / "schema" / "schema-0")
    if is_paimon and tree.is_folder(folder / MARKERS["Paimon"]):
        return "Paimon"
    return None


def _job_folders(file: Path, tree: FolderTree) -> Iterator[Path]:
    """Yield the folder of a file and, for a file of a partitioned output, all folders above it.

    The last of these is the folder of the whole output.
    """
    for path in tree.places(file):
        for folder in path.parents:
            yield folder
            # Folders such as state=36 are parts of one output, whose markers are in the folder
            # above all of them.
            if "=" not in folder.name:
                break


def _safe_name(path: Path) -> str:
    """Return the name of a file or folder; "..." if it contains a key's value, as in state=NY."""
    return "..." if "=" in path.name else path.name
