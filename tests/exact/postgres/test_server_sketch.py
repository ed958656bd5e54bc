"""`dprelease init postgresql://...`: a schema from the catalogue, which reads what it sketches."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.exact.postgres import server_link
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import CONFIRM, PEEKED, read_declaration
from tests.exact.postgres.server import OWNER, READER, SECRET, Server

pytestmark = pytest.mark.audit

CANARY = "CANARY-7391"
TABLE = """
CREATE TABLE office.people (
  person text, "Größe" numeric(5,1), pay numeric, code smallint, born date, seen timestamptz,
  well boolean, sex a_sex, kin a_kin, word citext, raw bytea, whole numeric(30,0),
  twice int GENERATED ALWAYS AS (code * 2) STORED
)
"""
LINES = {
    "person": "{type: text}",
    "pay": "{type: number}",
    "code": "{type: integer}",
    "born": "{type: date}",
    "seen": "{type: timestamp}",
    "well": "{type: boolean}",
    "word": "{type: text}",
    "sex": '{type: category, values: ["m", "f", "it\'s: other"]}',
    "kin": '{type: category, values: ["m", "f", "it\'s: other"]}',
    "whole": "{type: number}",
}


@pytest.fixture(scope="module", autouse=True)
def people(postgres: Server) -> None:
    postgres.do(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE SCHEMA office",
        "CREATE TYPE a_sex AS ENUM ('m', 'f', 'it''s: other')",
        "CREATE DOMAIN a_kin AS a_sex",
        TABLE,
        f"INSERT INTO office.people VALUES ('{CANARY}', 2.5, 17, 3, '2001-02-03', now(), true,"
        " 'f', 'm', 'a', 'x', 12)",
        "CREATE VIEW seen AS SELECT 1 AS n",
    )


def init(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.app, ["init", *words])
    return done.exit_code, done.stdout, done.stderr


def test_the_catalogue_alone_is_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement names the table but the one that holds it; each open place is marked."""
    asked: list[str] = []
    done = server_link.Link._done
    monkeypatch.setattr(
        server_link.Link, "_done", lambda self, sql, get: asked.append(sql) or done(self, sql, get)
    )
    monkeypatch.setattr(server_link.Link, "batches", None)
    code, text, _ = init(server.address(), "--table", "office.people", "--unit", "person")
    assert code == 0, text
    assert CANARY not in text
    assert "no row" in text
    naming = [sql for sql in asked if '"people"' in sql]
    assert naming == ['LOCK TABLE "office"."people" IN ACCESS SHARE MODE']
    for name, body in LINES.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: "))
        assert line.removeprefix(f"  {name}: ").startswith(body), line
        assert (CONFIRM in line) == body.startswith("{type: category")
    assert '"Größe": {type: number, lower: -9999.9, upper: 9999.9, step: 0.1}' in text
    assert "# raw: left out, bytea columns can't be used" in text
    assert "# twice: left out, generated columns can't be used" in text


def test_what_is_sketched_is_read(server: Server, tmp_path: Path) -> None:
    """Once it is confirmed and filled in; until then it is refused."""
    path = tmp_path / "people.yaml"
    where = server.address()
    assert (
        init(where, "--table", "office.people", "--unit", "person", "--output", str(path))[0] == 0
    )
    (tmp_path / "release.yaml").write_text(
        "title: t\ntables: [people.yaml]\nbudget: {epsilon: 1}\noutput: out\n"
        'queries: {q: {from: people, group_by: [sex], columns: {n: {count: "*"}}}}\n'
    )
    assert CliRunner().invoke(cli.app, ["check", str(tmp_path / "release.yaml")]).exit_code == 2
    lines = [line.partition(f"  {CONFIRM}")[0] for line in path.read_text().splitlines()]
    text = "\n".join(lines).replace("# max_groups: FILL IN", "max_groups: 1  #")
    path.write_text(text.replace("# max_rows_per_group: FILL IN", "max_rows_per_group: 1  #"))
    folder = run(read_declaration(tmp_path / "release.yaml"))
    assert (folder / "q.parquet").is_file()


def test_a_peek_is_marked(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "people.yaml"
    code, _, told = init(
        server.address(), "--table", "office.people", "--peek", "--output", str(path)
    )
    assert code == 0, told
    assert "READ THE VALUES" in told
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert f'values: ["{CANARY}"]' in text
    for name, body in {"pay": "lower: 17, upper: 17", "code": "lower: 3, upper: 3"}.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: "))
        assert body in line
        assert PEEKED in line


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--table", "office.nobody"], "DP-DATA-001"),
        (["--table", "seen"], "DP-DATA-014"),
        ([], "DP-DATA-010"),
        (["--table", "office.people", "--unit", "gone"], "DP-DATA-011"),
    ],
)
def test_what_can_not_be_sketched(server: Server, words: list[str], code: str) -> None:
    done, text, told = init(server.address(), *words)
    assert done != 0
    assert code in told
    assert SECRET not in text + told


def test_who_may_not_read_gets_no_sketch(server: Server) -> None:
    done, _, told = init(server.address(user=READER), "--table", "office.people")
    assert done != 0
    assert "DP-DATA-024" in told or "DP-DATA-001" in told
    assert OWNER not in told
