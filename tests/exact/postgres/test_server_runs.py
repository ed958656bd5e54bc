"""Runs over a real server: one snapshot of all tables, no passwords or values in errors."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from adbc_driver_manager import dbapi

from dprelease import verify
from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.engines import open_engines
from dprelease.exact.postgres import server_link
from dprelease.ledger.ledger import Ledger
from dprelease.release.accounts import account_of
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.schema.release import ReleaseSpec
from tests.exact.build import ask, declare, exact
from tests.exact.postgres.server import OWNER, SECRET, Server
from tests.processes import ended

pytestmark = pytest.mark.audit

WHOLE = {"type": "integer", "lower": 0, "upper": 100}
TOTAL = {"n": {"sum": "n"}}
SPEC = ReleaseSpec.model_construct(engine="duckdb")


def test_run_reads_one_snapshot_of_all_tables(server: Server) -> None:
    """Other sessions change tables between the reading of the first and the last."""
    server.do(
        "CREATE TABLE one (n int)", "INSERT INTO one VALUES (1)",
        "CREATE TABLE two (n int)", "INSERT INTO two VALUES (2)",
        "CREATE TABLE three (n int)", "INSERT INTO three VALUES (3)",
    )  # fmt: skip
    tables = [
        declare({"n": WHOLE}, source=server.source(name), table=name)
        for name in ("one", "two", "three")
    ]
    queries = [
        replace(ask(table, TOTAL, **{"from": table.table.name}), name=table.table.name)
        for table in tables
    ]
    with open_engines(queries, {}, SPEC) as engines:
        assert engines["one"].run(queries[0]).vector("n").tolist() == [1]
        server.do("INSERT INTO one VALUES (50)", "INSERT INTO two VALUES (50)", "DELETE FROM three")
        for change in ("TRUNCATE two", "ALTER TABLE three ALTER n TYPE text", "DROP TABLE one"):
            with pytest.raises(dbapi.Error, match="lock timeout"):
                server.do("SET lock_timeout = '50ms'", change)
        assert engines["two"].run(queries[1]).vector("n").tolist() == [2]
        assert engines["three"].run(queries[2]).vector("n").tolist() == [3]
    server.do("SET lock_timeout = '5s'", "TRUNCATE two")  # the end of the run has let go of it
    assert exact(queries[1], None)["n"].tolist() == [0]


def test_locked_table_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = dict(server_link.SETTINGS) | {"lock_timeout": "50ms"}
    monkeypatch.setattr(server_link, "SETTINGS", tuple(settings.items()))
    server.do("CREATE TABLE locked (n int)")
    declared = declare({"n": WHOLE}, source=server.source("locked"))
    with closing(server.link()) as link, link.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DataError, match=r"DP-DATA-024.*another session"):
            exact(ask(declared, TOTAL), None)
    assert exact(ask(declared, TOTAL), None)["n"].tolist() == [0]


def test_connection_lost_while_reading_is_an_error(server: Server) -> None:
    """The error has a code and none of the server's messages; locks are released."""
    server.do("CREATE TABLE cut (n int, v text)", f"INSERT INTO cut VALUES (1, '{SECRET}')")
    declared = declare({"n": WHOLE, "v": {"type": "text"}}, source=server.source("cut"))
    query = ask(declared, TOTAL)
    stop = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    )
    with open_engines([query], {}, SPEC) as engines:
        server.do(stop)
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            engines["q"].run(query)
    assert_no_secrets(caught.value)
    assert exact(query, None)["n"].tolist() == [1]


def assert_no_secrets(error: BaseException) -> None:
    """Assert that an error and its causes contain no password, host or value."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None:
        seen.append(at)
        at = at.__cause__ or at.__context__
    for one in seen:
        told = f"{one!s} {one!r} {getattr(one, '__notes__', '')}"
        assert SECRET not in told
        assert "FATAL" not in told
        assert "authentication" not in told


WAYS_IN: dict[str, tuple[str, dict[str, str]]] = {
    "the wrong password": ("/{folder}&user={user}", {"PGPASSFILE": "wrong"}),
    "no password": ("/{folder}&user={user}", {"PGPASSFILE": "/nowhere"}),
    "nobody there": ("/{folder}/nowhere&user={user}", {}),
    "no such database": ("nowhere/{folder}&user={user}", {}),
    "no such role": ("/{folder}&user=nobody", {}),
    "no such service": ("?service=nowhere", {}),
}


@pytest.mark.parametrize("case", WAYS_IN)
def test_failed_login_is_refused_without_secrets(
    case: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, environment = WAYS_IN[case]
    wrong = tmp_path / "wrong"
    wrong.write_text(f"*:*:*:*:no-{SECRET}\n")
    wrong.chmod(0o600)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(wrong) if value == "wrong" else value)
    if "folder" in way:
        database, _, rest = way.partition("/{folder}")
        after = rest.format(folder=server.folder, user=OWNER)
        path = f"postgresql:///{database or 'postgres'}?host={server.folder}{after}"
    else:
        path = f"postgresql:///{way}"
    declared = declare({"n": WHOLE}, source={"path": path, "table": "t"})
    with pytest.raises(DataError, match=r"DP-DATA-024.*connection") as caught:
        exact(ask(declared, TOTAL), None)
    assert_no_secrets(caught.value)
    assert str(server.folder) not in str(caught.value).replace(path, "")


RELEASE = """
title: People of a server
ledger: ledger.db
budget: {epsilon: 1, neighbours: add_remove}
tables: [people.yaml, areas.yaml]
queries:
  by_sex: {from: people, group_by: [sex], columns: {people: {count: "*"}}}
  by_kind: {from: people, join: {table: areas, on: {area: area}}, group_by: [kind], columns: {people: {count: "*"}}}
output: out
"""
PEOPLE = """
table: people
owner: office
source: {path: "postgresql:///?service=census", table: office.people}
columns:
  sex: {type: category, values: [F, M]}
  area: {type: category, values: [a, b, c]}
"""
AREAS = """
table: areas
public: true
source: {path: "postgresql:///?service=census", table: office.areas}
columns:
  area: {type: category, values: [a, b, c]}
  kind: {type: category, values: [town, land]}
"""


def test_release_over_a_service_writes_no_secrets(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From check to verify, no file that is written contains the password or the host."""
    server.do(
        "CREATE SCHEMA office",
        "CREATE TABLE office.people (sex char(3), area text)",
        "INSERT INTO office.people SELECT CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, "
        "chr(97 + i % 3) FROM generate_series(1, 9000) i",
        "CREATE TABLE office.areas (area text, kind varchar)",
        "INSERT INTO office.areas VALUES ('a', 'town'), ('b', 'land'), ('c', 'land')",
    )
    services = tmp_path / "services"
    services.write_text(
        f"[census]\nhost={server.folder}\nuser={OWNER}\ndbname=postgres\npassword={SECRET}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    work = tmp_path / "work"
    work.mkdir()
    for name, text in {"release": RELEASE, "people": PEOPLE, "areas": AREAS}.items():
        (work / f"{name}.yaml").write_text(text)
    Ledger(work / "ledger.db").open_account(
        account_of("office/people", None, "add_remove", "5", None, None)
    )
    folder = run(read_declaration(work / "release.yaml"))
    assert verify(folder, ledger=work / "ledger.db").ok
    import pyarrow.parquet as pq

    found = pq.read_table(folder / "by_sex.parquet").to_pydict()["people"]
    assert all(abs(a - b) < 200 for a, b in zip(found, [3000, 6000], strict=True))
    for path in work.rglob("*"):
        held = path.read_bytes() if path.is_file() else b""
        assert SECRET.encode() not in held, path
        assert str(server.folder).encode() not in held, path


def test_fork_does_not_close_the_parents_connection(server: Server) -> None:
    server.do("CREATE TABLE forked (n int)", "INSERT INTO forked VALUES (4)")
    query = ask(declare({"n": WHOLE}, source=server.source("forked")), TOTAL)
    with open_engines([query], {}, SPEC) as engines:
        held = [*server_link._OPEN_LINKS.values()]
        child = os.fork()
        if child == 0:
            try:
                engines["q"].run(query)
            except DpReleaseError:
                for link in held:
                    link.close()  # as the end of its block, or of a program, would
                os._exit(7)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        assert ended(child) == 7
        assert engines["q"].run(query).vector("n").tolist() == [4]
