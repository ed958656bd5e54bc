"""Executors that can't work are reported before any row is read; pieces of any size."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dprelease.errors import DataError
from dprelease.exact.spark import pieces
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.sessions import spark_session, workers
from dprelease.exact.spark.sessions.spark_session import SparkSettings
from dprelease.exact.spark.spark_engine import SparkEngine
from tests.exact.build import ask, declare
from tests.exact.spark import local_spark

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
pytestmark = pytest.mark.filterwarnings("ignore")  # of pyspark

SAID = {
    'java.io.IOException: Cannot run program "/opt/py": error=2, No such file': (
        "can't start Python: '/opt/py' is not there", "PYSPARK_PYTHON"
    ),
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9": (
        "of another version (PYSPARK_PYTHON is not set, so they take python3)", "PYSPARK_PYTHON"
    ),
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": (
        "their Python fails", "PYSPARK_PYTHON"
    ),
    "Error from python worker:\n  SyntaxError: invalid syntax": (
        "their Python fails", "PYSPARK_PYTHON"
    ),
    "Error from python worker:\n  No module named 'pyspark'": (
        "no module 'pyspark'", "install the same versions"
    ),
    "ModuleNotFoundError: No module named 'dprelease'": (
        "no module 'dprelease'", "install the same versions"
    ),
    "ModuleNotFoundError: No module named 'duckdb'": (
        "no module 'duckdb'", "install the same versions"
    ),
    "java.lang.OutOfMemoryError": ("is missing there", "install the same versions"),
    'Cannot run program "{x}\x1b[2J"': (r"'{x}\u001b[2J' is not there", "PYSPARK_PYTHON"),
}  # fmt: skip


@pytest.mark.parametrize("said", SAID, ids=lambda said: said[:40].replace("\x1b", ""))
def test_spark_worker_errors_are_explained(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(workers.PYTHON_VARIABLE, raising=False)
    problem, remedy = SAID[said]
    told = workers._worker_error(said)
    assert told.code == "DP-SPARK-004"
    assert problem in str(told)
    assert remedy in str(told).split("Fix")[1]


@pytest.mark.parametrize(
    ("master", "named", "is_refused"),
    [
        (None, "/nowhere/python3", True),
        ("local[2]", "no-such-python", True),
        ("local[2]", sys.executable, False),
        ("local[2]", None, False),
        ("spark://h:7077", "/nowhere/python3", False),  # it may be there
    ],
)
def test_missing_worker_python_is_refused(
    master: str | None, named: str | None, is_refused: bool
) -> None:
    environment = {} if named is None else {workers.PYTHON_VARIABLE: named}
    if not is_refused:
        workers.refuse_missing_python(master, environment)
        return
    with pytest.raises(DataError, match="DP-SPARK-004"):
        workers.refuse_missing_python(master, environment)


@pytest.mark.parametrize(
    ("named", "found"), [(None, sys.executable), ("", sys.executable), ("python3", "python3")]
)
def test_local_workers_use_this_python(named: str | None, found: str) -> None:
    """An empty name, as some shell profiles set it, counts as not set."""
    environment = {} if named is None else {workers.PYTHON_VARIABLE: named}
    workers.set_worker_python(environment)
    assert environment == {workers.PYTHON_VARIABLE: found}


def test_spark_is_not_started_with_a_missing_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(workers.PYTHON_VARIABLE, "/nowhere/python3")
    monkeypatch.setattr(
        spark_session, "_start_session", lambda *_: pytest.fail("Spark was started")
    )
    opened = spark_session.open_session(SparkSettings("local[2]"))
    with pytest.raises(DataError, match="PYSPARK_PYTHON is '/nowhere/python3'"), opened:
        pass


OTHER = """#!/bin/sh
shift
exec {python} -c 'import collections, runpy, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, 9, 0, "final", 0)
sys.argv.pop(0)
runpy.run_module("pyspark.daemon", run_name="__main__")' "$@"
"""


@pytest.mark.audit
@needs_java
@pytest.mark.parametrize("case", ["missing", "another version"])
def test_executors_with_another_python_are_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    if case == "another version":
        python.write_text(OTHER.format(python=sys.executable))
        python.chmod(0o700)
    query = ask(declare({"v": {"type": "integer"}}), {"n": {"count": "v"}})
    wanted = {"missing": f"'{python}' is not there", "another version": "of another version"}
    with local_spark() as session:
        monkeypatch.setattr(session.sparkContext, "pythonExec", str(python))
        opened = SparkEngine.open(query.declared, pa.table({"v": [1]}))
        with pytest.raises(DataError, match="DP-SPARK-004") as refused, opened:
            pass
    assert wanted[case] in str(refused.value)


LENGTHS = ([], [0], [1], [10, 0, 3], [131_072] * 3, [5_000_000, 7], [1_000] * 5_000, [10**9])


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda one: f"{len(one)} files")
@pytest.mark.parametrize("cores", [1, 2, 500])
@pytest.mark.parametrize("whole", [True, False])
def test_every_row_is_in_one_piece(lengths: list[int], cores: int, whole: bool) -> None:
    found = pieces.divide_into_pieces(lengths, cores, whole=whole)
    read = [piece for task in found for piece in task]
    for file, length in enumerate(lengths):
        mine = [(one.first, one.end) for one in read if one.file == file]
        if whole:
            assert mine == ([(0, None)] if length else [])
        else:
            ends = [first for first, _ in mine] + [length]
            assert [end for _, end in mine] == ends[1:]
            assert not mine or mine[0][0] == 0
    if not whole:
        assert all(end is not None and end - first <= pieces.MOST_ROWS for first, end in
                   ((one.first, one.end) for one in read))  # fmt: skip
    total = sum(lengths)
    assert len(found) <= max(1, cores * pieces.TASKS_A_CORE, math.ceil(total / pieces.MOST_ROWS))
    if total <= pieces.LEAST_ROWS:
        assert len(found) <= 1


@pytest.mark.parametrize("sizes", [[], [0], [1, 2], [10**9, 5, 10**9], [1_000] * 9_000])
def test_every_file_is_in_one_piece(sizes: list[int]) -> None:
    found = pieces.group_files(sizes, 2)
    assert [file for task in found for file in task] == list(range(len(sizes)))
    assert all(len(task) == 1 or sum(sizes[i] for i in task) <= pieces.MOST_BYTES for task in found)
    assert len(found) <= max(5, len([size for size in sizes if size > pieces.LEAST_BYTES]) * 2 + 1)


@pytest.mark.parametrize(
    ("rows", "cores", "expected"),
    [
        (0, 2, 1),
        (20_000, 2, 1),
        (20_000, 500, 1),
        (10**6, 2, 4),
        (10**9, 2, 954),
        (10**12, 8, 2**15),
    ],
)
def test_number_of_buckets_follows_the_data_size(rows: int, cores: int, expected: int) -> None:
    assert pieces.bucket_count(rows, cores) == expected


@pytest.mark.parametrize(
    ("blocks", "cores", "expected"),
    [(1, 2, 1), (3, 2, 3), (16, 2, 4), (256, 2, 4), (28_000, 2, 438), (28_000, 500, 1000)],
)
def test_blocks_of_cells_share_tasks(blocks: int, cores: int, expected: int) -> None:
    """As many tasks as cores, with at most as many blocks as fit in memory."""
    assert pieces.noise_task_count(blocks, cores) == expected


@pytest.fixture
def no_worker() -> Iterator[None]:
    """Forget the DuckDB of this process, as if it were another one."""
    from dprelease.exact.spark.executors import link

    link._IDLE_DATABASES.clear()
    yield
    link._IDLE_DATABASES.clear()


def test_tasks_of_a_worker_share_one_duckdb(no_worker: None, tmp_path: Path) -> None:
    """With the same rights for the next task, and nothing left of the last one."""
    file = tmp_path / "t[1].csv"
    file.write_text("v\n1\n")
    access = Access((str(file),))
    folders = []
    for turn in range(3):
        with task_link(access) as (link, folder):
            link.execute(f"CREATE TABLE seen_{turn} (v INT)")  # of the database: all would see it
            link.execute("CREATE TEMP TABLE mine AS SELECT 1 AS v")
            link.register("rows", pa.table({"v": [turn]}))
            tables = [name for (name,) in link.sql("SELECT table_name FROM duckdb_tables() "
                      "WHERE NOT temporary ORDER BY 1").fetchall()]  # fmt: skip
            assert tables == [f"seen_{i}" for i in range(turn + 1)]
            assert list(folder.iterdir()) == [folder / "held"]
            assert (folder.stat().st_mode & 0o777) == 0o700
            (folder / "left").touch()
            assert link.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
            folders.append(folder)
        assert not folder.exists()
    assert len(set(folders)) == 1
    with task_link(Access()) as (link, folder):
        assert link.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        with pytest.raises(Exception, match="disabled"):
            link.sql(f"SELECT * FROM read_csv('{file}')").fetchall()


def test_parallel_tasks_have_their_own_duckdb(no_worker: None) -> None:
    with task_link(Access()) as (one, first), task_link(Access()) as (two, second):
        one.execute("CREATE TABLE t (v INT)")
        assert two.sql("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        assert first != second
    assert not first.exists()
    assert not second.exists()


def test_existing_temporary_name_is_not_used(no_worker: None) -> None:
    with task_link(Access()) as (_, first):
        pass
    first.touch()
    try:
        with task_link(Access()) as (_, second):
            assert second != first
    finally:
        first.unlink()
