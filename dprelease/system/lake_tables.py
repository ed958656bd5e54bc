"""Detect folders in which some files are stale: lakehouse tables, and output of unfinished jobs.

A Delta table changes a row by writing a new file and marking the old one as removed in its log. A
reader of all files would count deleted people, and count others twice. Other formats with versions
work in the same way. An interrupted job leaves files that it would have replaced or removed. Only
names are checked; no file is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Problem = tuple[str, str]
"""Why files can't be read as a table, and what to do."""

EXPORT = (
    "write the rows that are live into a Parquet file outside of that table, and name this file: {}"
)
BY_DELTA = "in DuckDB COPY (FROM delta_scan('table')) TO 'live.parquet', in Python pq.write_table("
BY_SPARK = "in Spark spark.read.format('{}').load('table').write.parquet('live')"
WAYS = {
    "Delta": f"{BY_DELTA}DeltaTable('table').to_pyarrow_table(), 'live.parquet')",
    "Iceberg": "in DuckDB COPY (FROM iceberg_scan('table')) TO 'live.parquet'",
    "Hudi": BY_SPARK.format("hudi"),
    "Paimon": BY_SPARK.format("paimon"),
    "DuckLake": "in DuckDB, attached, COPY lake.table TO 'live.parquet'",
}

MARKERS = {"Delta": "_delta_log", "Hudi": ".hoodie", "Iceberg": "metadata", "Paimon": "snapshot"}
"""The marker folder in the root of a lakehouse table, by format."""

ICEBERG = (".metadata.json", ".metadata.json.gz", "version-hint.text")
DUCKLAKE = re.compile(r"ducklake-[0-9a-f]{8}-[0-9a-f-]{27}(-delete)?\.parquet")

RUNNING, STREAM = "_temporary", "_spark_metadata"
STARTED, COMMITTED = "_started_", "_committed_"
"""Names of files that jobs write: while they run (Spark); for the commits of a stream; when a job
begins and ends (Databricks)."""

AGAIN = (
    "wait until the job that writes there has ended, or run it again; if none is at work, write "
    "its files into another folder"
)
OF_STREAM = (
    f"a stream of Spark wrote it, and says in its notes ('{STREAM}') alone which files count",
    "write what Spark reads of that folder into another one, and name that",
)


def lake_problem(files: Iterable[Path]) -> Problem | None:
    """Return why some Parquet files may be stale: a folder above them is a lakehouse table."""
    found = None
    seen: set[Path] = set()
    for file in files:
        if DUCKLAKE.fullmatch(file.name):
            found = "DuckLake", f"its files are named as in '{_safe_name(file)}'"
        for folder in _unseen(_folders_above(file), seen):
            kind = _kind_of(folder)
            if kind is not None:
                found = kind, f"'{_safe_name(folder)}' holds '{MARKERS[kind]}'"
        if found is not None:
            return lake_reason(*found), EXPORT.format(WAYS[found[0]])
    return None


def lake_reason(kind: str, where: str) -> str:
    """Return why files of a lakehouse table are refused; `where`: the evidence for the table."""
    return (
        f"it is of a {kind} table ({where}), whose files also hold rows that were deleted or "
        "replaced"
    )


def job_problem(files: Iterable[Path], folder: Path | None) -> Problem | None:
    """Return why files in the folders of jobs can't be read; None if all jobs have finished.

    `folder`: the declared folder of all files; None if no folder is declared.
    """
    folders = dict.fromkeys(parent for file in files for parent in _job_folders(file))
    if any(RUNNING in one.parts for one in folders):
        return f"it is in the folder '{RUNNING}' of a job, which has not ended", AGAIN
    for one in folders if folder is None else {**folders, folder: None}:
        names = _names(one)
        started = {name.removeprefix(STARTED) for name in names if name.startswith(STARTED)}
        ended = {name.removeprefix(COMMITTED) for name in names if name.startswith(COMMITTED)}
        open_marker = RUNNING if RUNNING in names else None
        if started - ended:
            open_marker = STARTED
        if open_marker is not None:
            reason = f"a job has not ended there ('{_safe_name(one)}' holds '{open_marker}')"
            return reason, AGAIN
        if STREAM in names:
            return OF_STREAM
    return None


def _folders_above(file: Path) -> Iterator[Path]:
    """Yield the folders above a file, by its path and by the path that links resolve to."""
    for path in (os.path.abspath(file), os.path.realpath(file)):
        yield from Path(path).parents


def _unseen(folders: Iterable[Path], seen: set[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder not in seen:
            seen.add(folder)
            yield folder


def _kind_of(folder: Path) -> str | None:
    """Return the format of the table whose root is this folder; None if it is not a table."""
    for kind in ("Delta", "Hudi"):
        if os.path.isdir(folder / MARKERS[kind]):
            return kind
    if any(name.endswith(ICEBERG) for name in _names(folder / MARKERS["Iceberg"])):
        return "Iceberg"
    if os.path.isfile(folder / "schema" / "schema-0") and os.path.isdir(folder / MARKERS["Paimon"]):
        return "Paimon"
    return None


def _job_folders(file: Path) -> Iterator[Path]:
    """Yield the folder of a file, and those above it that a job would have partitioned by keys."""
    for path in (os.path.abspath(file), os.path.realpath(file)):
        for folder in Path(path).parents:
            yield folder
            if "=" not in folder.name:
                break


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # missing, or without permission to look into it
        return []


def _safe_name(path: Path) -> str:
    """Return the name of a file or folder, unless it holds the value of a key, as state=NY does."""
    return "..." if "=" in path.name else path.name
