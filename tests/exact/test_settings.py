"""Settings of DuckDB: memory, threads and the folder for temporary files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding import row_selection_numpy
from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import Input
from dprelease.exact.settings import SCRATCH, Settings
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests import processes
from tests.exact.build import ask, declare
from tests.exact.test_sources import FRAME, query_of
from tests.release.build import RELEASE, write
from tests.replay import Keyed


def write_release(folder: Path, settings: str) -> Path:
    path = write(folder)
    path.write_text(RELEASE + f"duckdb: {settings}\n")
    return path


def test_duckdb_gets_the_declared_settings(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    path = write_release(tmp_path, "{memory_limit: 2 GB, threads: 1, temp_directory: spill}")
    settings = Settings.of(read_declaration(path))
    assert settings == Settings("2 GB", 1, tmp_path / "spill", settings.place)
    assert str(settings.place).startswith("release.yaml:")
    with Engine.open(query_of(None, tmp_path).declared, FRAME, settings=settings) as engine:
        (own,) = (tmp_path / "spill").iterdir()
        assert own.name.startswith(SCRATCH)
        assert own.stat().st_mode & 0o777 == 0o700
        names = ("threads", "memory_limit", "temp_directory")
        asked = [
            engine._connection.execute(f"SELECT current_setting('{name}')").fetchone()
            for name in names
        ]
        assert asked == [(1,), ("1.8 GiB",), (str(own),)]
    assert list((tmp_path / "spill").iterdir()) == []


@pytest.mark.parametrize("limit", ["1MB", "2GB", "1.5 TiB", "512MiB"])
def test_memory_limits_are_read(limit: str, tmp_path: Path) -> None:
    settings = Settings.of(read_declaration(write_release(tmp_path, f"{{memory_limit: {limit}}}")))
    duckdb.connect(config=settings.config).close()  # the engine reads it as well


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("{memory_limit: 0.5GB}", "DP-ENGINE-001"),
        ("{memory_limit: -1GB}", "DP-ENGINE-001"),
        ("{memory_limit: 80%}", "DP-ENGINE-001"),
        ("{memory_limit: 1e3MB}", "DP-ENGINE-001"),
        ('{memory_limit: "1GB\'; ATTACH"}', "DP-ENGINE-001"),
        ("{threads: 0}", "DP-DECL-003"),
        ("{threads: 1.5}", "DP-DECL-003"),
        ("{temp_directory: ~/spill}", "DP-ENGINE-002"),
        ("{temp_directory: a/../../b}", "DP-ENGINE-002"),
        ("{temp_directory: 's3://bucket'}", "DP-PATH-001"),
        ("{preserve_insertion_order: false}", "DP-DECL-001"),
    ],
)
def test_wrong_settings_are_refused(settings: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(DpReleaseError, match=code):
        read_declaration(write_release(tmp_path, settings))


def test_settings_that_duckdb_rejects_are_refused(tmp_path: Path) -> None:
    settings = Settings(memory_limit="much")
    with (
        pytest.raises(DataError, match="DP-ENGINE-004"),
        Engine.open(query_of(None, tmp_path).declared, FRAME, settings=settings),
    ):
        pass


TEXTS = {
    "csv": ("n\n", "1\n"),
    "json_lines": ("", '{"n": "1", "beside": "0123456789"}\n'),
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("kind", "sizes", "threads", "little", "enough"),
    [
        ("csv", (20,), 2, "18MiB", "34MiB"),
        ("csv", (12, 12, 12), 2, "25MiB", "40MiB"),
        ("json_lines", (1,), 1, "32MiB", "50MiB"),
        ("json_lines", (1,), 2, "66MiB", "84MiB"),
        ("json_lines", (40,), 2, "100MiB", "120MiB"),
    ],
)
def test_texts_above_the_memory_limit_are_refused(
    kind: str, sizes: tuple[int, ...], threads: int, little: str, enough: str, tmp_path: Path
) -> None:
    """Before a row is read; with a little more memory, DuckDB reads them."""
    head, line = TEXTS[kind]
    rows = [(size << 20) // len(line) for size in sizes]
    for i, many in enumerate(rows):
        (tmp_path / f"n{i}.{kind}").write_text(head + line * many)
    columns = {"n": {"type": "integer", "lower": 0, "upper": 9}}
    declared = declare(columns, source={"path": f"{tmp_path}/n*.{kind}", "format": kind})
    query = ask(declared, {"n": {"sum": "n"}})
    with (
        pytest.raises(DataError, match="DP-ENGINE-005") as caught,
        Engine.open(declared, settings=Settings(little, threads)),
    ):
        pass
    assert caught.value.state is State.NOTHING
    with Engine.open(declared, settings=Settings(enough, threads)) as engine:
        assert engine.run(query).vector("n").tolist() == [sum(rows)]


def test_settings_change_no_value(tmp_path: Path) -> None:
    plain = run(read_declaration(write(tmp_path / "a")), bits=Keyed("x"))
    given = write_release(tmp_path / "b", "{memory_limit: 200MB, threads: 1}")
    other = run(read_declaration(given), bits=Keyed("x"))
    for path in plain.glob("*.parquet"):
        assert path.read_bytes() == (other / path.name).read_bytes()


def wide_rows(link: duckdb.DuckDBPyConnection, rows: int) -> duckdb.DuckDBPyRelation:
    """Return rows of 300 bytes about persons who have two each."""
    person = f"lpad((i * 7919 % {rows // 2})::VARCHAR, 290, 'person ')"
    return link.sql(f"SELECT {person} AS id, i % 2 = 0 AS k, i % 10 AS n FROM range({rows}) t(i)")


def test_data_of_ten_times_the_memory_limit(tmp_path: Path) -> None:
    """Rows spill to a private folder in the declared one, which is removed."""
    columns = {
        "id": {"type": "text"},
        "k": {"type": "boolean"},
        "n": {"type": "integer", "lower": 0, "upper": 9},
    }
    query = ask(declare(columns), {"n": {"sum": "n"}, "named": {"count": "id"}}, ["k"])
    (tmp_path / "spill").mkdir()
    settings = Settings("30MB", 1, tmp_path / "spill")
    with (
        duckdb.connect() as link,
        Engine.open(query.declared, wide_rows(link, 1_000_000), settings=settings) as engine,
    ):
        (own,) = (tmp_path / "spill").iterdir()
        assert [path.stat().st_size for path in own.iterdir()] == [0]  # its lock: no row was read
        found = engine.run(query)
        assert sum(path.stat().st_size for path in own.iterdir()) > 30 * 10**6
    assert found.vector("n").tolist() == [2_500_000, 2_000_000]
    assert found.vector("named").tolist() == [500_000, 500_000]
    assert list((tmp_path / "spill").iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (None, bounding.MOST_HELD_ROWS),
        ("64KiB", 655),
        ("30MiB", 314_572),
        ("1TB", bounding.MOST_HELD_ROWS),
    ],
)
def test_rows_in_memory_follow_the_memory_limit(limit: str | None, most: int) -> None:
    with duckdb.connect(config={"memory_limit": limit} if limit else {}) as link:
        assert bounding.most_rows_in_memory(link) == pytest.approx(most, rel=2e-3)


@pytest.mark.parametrize(
    ("ids", "total", "in_parts"),
    [
        ("i % 50021", 2 * 50021, False),
        ("CAST(i % 50021 AS VARCHAR)", 2 * 50021, False),
        ("i % 500021", 1_000_000, True),  # two rows of each, both kept: i and i + 500021
    ],
)
def test_bounding_of_ten_times_the_memory_limit(
    ids: str, total: int, in_parts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are dropped as they are read, or ids are read in parts, to hold few rows at a time."""
    kind = "text" if "VARCHAR" in ids else "integer"
    columns = {"id": {"type": kind}, "n": {"type": "integer", "lower": 0, "upper": 9}}
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 1}
    query = ask(declare(columns, privacy_unit=unit), {"rows": {"count": "*"}}, ["n"])
    held: list[int] = []
    add = row_selection_numpy._Candidates.add

    def watched(self: row_selection_numpy._Candidates, block: Any) -> None:
        add(self, block)
        held.append(self.size)

    asked: list[str] = []
    kept_of = bounding._select_rows

    def counted(link: duckdb.DuckDBPyConnection, sql: str, *more: Any) -> Any:
        asked.append(sql)
        return kept_of(link, sql, *more)

    monkeypatch.setattr(row_selection_numpy._Candidates, "add", watched)
    monkeypatch.setattr(bounding, "_select_rows", counted)
    found, most = [], []
    for settings in (Settings(), Settings("30MB", 1)):
        held.clear()
        with duckdb.connect() as link:
            rows = link.sql(f"SELECT {ids} AS id, i % 7 AS n FROM range(1000000) t(i)")
            with Engine.open(query.declared, rows, settings=settings) as engine:
                found.append(engine.run(query).vector("rows").tolist())
        most.append(max(held))
    assert found[0] == found[1]
    assert sum(found[0]) == total
    assert any("hash(id)" in sql for sql in asked) == in_parts
    assert most[0] == 1_000_000
    assert most[1] < 400_000


@pytest.mark.parametrize("failing", ["_number_ids_first", "select_kept_rows"])
def test_ids_that_can_not_be_numbered_are_read_in_parts(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": {"type": "text"}, "n": {"type": "integer", "lower": 0, "upper": 9}}
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 1}
    query = ask(declare(columns, privacy_unit=unit), {"rows": {"count": "*"}}, ["n"])
    original, failed = getattr(bounding, failing), []

    def fail(*given: Any) -> Any:
        if failing == "_number_ids_first" or not failed:
            failed.append(failing)
            raise duckdb.OutOfMemoryException
        return original(*given)

    found = []
    for most in (bounding.MOST_HELD_ROWS, 1000):
        if most == 1000:
            monkeypatch.setattr(bounding, "MOST_HELD_ROWS", most)
            monkeypatch.setattr(bounding, failing, fail)
        with duckdb.connect() as link:
            rows = link.sql(
                "SELECT CAST(i % 521 AS VARCHAR) AS id, i % 7 AS n FROM range(9000) t(i)"
            )
            with Engine.open(query.declared, rows) as engine:
                found.append(engine.run(query).vector("rows").tolist())
    assert failed
    assert found[0] == found[1]
    assert sum(found[0]) == 2 * 521


def test_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    path = write_release(tmp_path, "{memory_limit: 200MB, temp_directory: spill}")
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from dprelease.exact.duckdb import Engine\n"
        "from dprelease.release.runs.pipeline import run\n"
        "from dprelease.schema.load import read_declaration\n"
        "Engine.run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run(read_declaration(Path(sys.argv[1])))\n"
    )
    done = processes.run(
        [sys.executable, "-c", script, str(path)], cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == -9
    (left,) = (tmp_path / "spill").iterdir()
    assert left.stat().st_mode & 0o777 == 0o700
    (left / "spilled").write_text("rows")
    run(read_declaration(path))
    assert list((tmp_path / "spill").iterdir()) == []


@pytest.mark.parametrize("short", [MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError])
def test_memory_errors_do_not_blame_the_source(
    short: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(_self: Input, _link: object) -> None:
        raise short("Out of Memory Error: 4711 bytes")

    monkeypatch.setattr(Input, "describe", describe)
    declared = declare({"n": {"type": "integer"}})
    with pytest.raises(DataError, match="DP-DATA-006") as told:
        Engine.open(declared, pa.table({"n": [1]})).__enter__()
    assert "no row was read" in str(told.value)
    assert "4711" not in str(told.value)
