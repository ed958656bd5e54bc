"""DuckDB relations, and databases that others use: read, and never written to."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dprelease
from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests import processes
from tests.exact.build import ask, declare, exact
from tests.exact.test_sources import EXPECTED, FRAME, query_of, vectors
from tests.release.build import ROWS, write
from tests.replay import Keyed

HOLD = """
import sys, duckdb
link = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reading")
link.execute("SELECT * FROM people").fetchall()
print("held", flush=True)
sys.stdin.read()
"""


def relation(link: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return the frame of all formats as a relation."""
    link.register("frame", FRAME)
    return link.sql("SELECT * FROM frame")


def test_relations_give_the_same_vectors(tmp_path: Path) -> None:
    with duckdb.connect() as link:
        assert vectors(query_of(None, tmp_path), relation(link)) == EXPECTED
        assert vectors(query_of(None, tmp_path), relation(link).order("x")) == EXPECTED


def test_connection_of_a_relation_is_not_changed(tmp_path: Path) -> None:
    """dprelease adds no table, view or setting, not even while the engine is open."""
    objects = (
        "SELECT view_name FROM duckdb_views() UNION ALL SELECT table_name FROM duckdb_tables()"
    )
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    query = query_of(None, tmp_path)
    with duckdb.connect() as link:
        given = relation(link)
        before = [link.execute(sql).fetchall() for sql in (objects, settings)]
        with Engine.open(query.declared, given) as engine:
            assert [link.execute(sql).fetchall() for sql in (objects, settings)] == before
            link.execute("CREATE TABLE other AS SELECT 1 AS a")
            with pytest.raises(duckdb.Error):
                engine._connection.execute("SELECT * FROM other")
            engine.run(query)
            engine.run(query)  # the rows were fetched once
        assert given.fetchall() == link.sql("SELECT * FROM frame").fetchall()


def test_types_of_a_relation_are_converted() -> None:
    """Enumerations, wide integers and decimals are read as declared."""
    columns = {
        "k": {"type": "category", "values": ["a", "b"]},
        "n": {"type": "integer", "lower": 0, "upper": 9},
        "x": {"type": "number", "lower": 0, "upper": 10, "step": "0.5"},
    }
    query = ask(declare(columns), {"n": {"sum": "n"}, "x": {"sum": "x"}}, ["k"])
    with duckdb.connect() as link:
        link.execute("CREATE TYPE letter AS ENUM ('a', 'b')")
        given = link.sql(
            "SELECT * FROM (VALUES ('a'::letter, 3::HUGEINT, 1.5::DECIMAL(30, 3)), "
            "('b'::letter, NULL, 99.0), (NULL, 1, 1.0)) t(k, n, x)"
        )
        found = exact(query, given)
    assert {name: vector.tolist() for name, vector in found.items()} == {"n": [3, 0], "x": [3, 20]}


def test_counts_of_rows_of_relations() -> None:
    columns: dict[str, Any] = {"k": {"type": "boolean"}, "n": {"type": "integer"}}
    query = ask(declare(columns), {"rows": {"count": "*"}})
    with duckdb.connect() as link:
        assert exact(query, link.sql("SELECT 1 AS other FROM range(5)"))["rows"].tolist() == [5]
        assert exact(query, link.sql("SELECT 1 AS n WHERE false"))["rows"].tolist() == [0]


def test_unreadable_relations_are_refused_without_values(tmp_path: Path) -> None:
    """No name and no value of the engine's error is quoted (V58)."""
    query = query_of(None, tmp_path)
    with duckdb.connect() as link:
        twice = link.sql("SELECT 1 AS n, 2 AS N, 'a' AS k")
        with pytest.raises(DataError, match="DP-DATA-003"):
            vectors(query, twice)
        with pytest.raises(DataError, match="DP-DATA-002"):
            vectors(query, link.sql("SELECT 1 AS n"))
        late = "CASE WHEN i = 2500000 THEN CAST('SECRET-' || i AS INTEGER) ELSE 1 END"
        columns = {"n": {"type": "integer", "lower": 0, "upper": 9}}
        plain = ask(declare(columns), {"n": {"sum": "n"}})
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            exact(plain, link.sql(f"SELECT {late} AS n FROM range(3000000) t(i)"))
        told = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
        assert "SECRET" not in told
    closed = duckdb.connect()
    given = closed.sql("SELECT 1 AS n")
    closed.close()
    with pytest.raises(DataError, match="DP-DATA-027"):
        exact(plain, given)


def test_relations_in_releases_and_statements(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    first = run(read_declaration(path), bits=Keyed("x"), output=tmp_path / "a")
    with duckdb.connect() as link:
        given = link.sql(f"SELECT * FROM read_csv('{tmp_path / 'people.csv'}', all_varchar = true)")
        other = run(
            read_declaration(path), bits=Keyed("x"), output=tmp_path / "b", frames={"people": given}
        )
        for file in first.glob("*.parquet"):
            assert file.read_bytes() == (other / file.name).read_bytes()
        answer = dprelease.sql(
            "SELECT city, count(*) AS n FROM people GROUP BY city",
            tmp_path / "people.yaml", epsilon="50", frames={"people": given},
        )  # fmt: skip
    assert list(answer.columns) == ["city", "n"]
    assert len(answer) == 3


def file_states(folder: Path) -> dict[str, tuple[str, int]]:
    """Return digest and time of every file of a folder."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def database(folder: Path, *, log: bool = False) -> Path:
    """Return a database of the frame; with `log`, all of it waits in the write-ahead log."""
    folder.mkdir()
    path = folder / "t.duckdb"
    if not log:
        with duckdb.connect(path) as link:
            link.register("frame", FRAME)
            link.execute("CREATE TABLE people AS SELECT * FROM frame")
        return path
    script = (
        "import os, sys, duckdb\n"
        "from tests.exact.test_sources import FRAME\n"
        "link = duckdb.connect(sys.argv[1])\n"
        "link.execute(\"SET checkpoint_threshold = '1TB'\")\n"
        "link.register('frame', FRAME)\n"
        "link.execute('CREATE TABLE people AS SELECT * FROM frame')\n"
        "os._exit(0)\n"
    )
    root = Path(__file__).parents[2]
    processes.run([sys.executable, "-c", script, str(path)], cwd=root, check=True)
    assert (folder / "t.duckdb.wal").exists()
    return path


@pytest.mark.parametrize("log", [False, True], ids=["checkpointed", "in the log"])
def test_databases_are_never_written_to(log: bool, tmp_path: Path) -> None:
    """Neither the file nor its log changes, and rows in the log are read."""
    path = database(tmp_path / "held", log=log)
    before = file_states(path.parent)
    query = query_of({"path": "held/t.duckdb", "table": "people"}, tmp_path)
    with Engine.open(query.declared) as engine:
        found = engine.run(query)
        for sql in (
            "INSERT INTO dp_database.people SELECT * FROM dp_database.people",
            "CREATE TABLE dp_database.other AS SELECT 1 AS a",
            "DROP TABLE dp_database.people",
        ):
            with pytest.raises(duckdb.Error):
                engine._connection.execute(sql)
        engine._connection.execute("CHECKPOINT dp_database")
        assert file_states(path.parent) == before
    assert {name: found.vector(name).tolist() for name in EXPECTED} == EXPECTED
    assert file_states(path.parent) == before


@pytest.mark.parametrize("way", ["reading", "writing"])
def test_database_open_in_another_process(way: str, tmp_path: Path) -> None:
    """Readers share it; with a writer it is refused. It is never changed."""
    path = database(tmp_path / "held")
    query = query_of({"path": "held/t.duckdb", "table": "people"}, tmp_path)
    with processes.started(
        [sys.executable, "-c", HOLD, str(path), way], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert processes.first_line(other) == b"held\n"
        before = file_states(path.parent)
        if way == "reading":
            assert vectors(query) == EXPECTED
        else:
            with pytest.raises(DataError, match="DP-DATA-001"):
                vectors(query)
        assert file_states(path.parent) == before
        other.communicate(timeout=processes.PATIENCE)
    assert vectors(query) == EXPECTED
