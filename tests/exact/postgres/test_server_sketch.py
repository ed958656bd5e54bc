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
CREATE TABLE registry.people (
  person text, "Größe" numeric(5,1), pay numeric, code smallint, born date, seen timestamptz,
  well boolean, sex a_sex, kin a_kin, word citext, raw bytea, whole numeric(30,0),
  age smallint NOT NULL CHECK (age BETWEEN 0 AND 120), rank bigint CHECK (rank > 0),
  kind varchar(9) CHECK (kind IN ('F', 'it''s')), flag char(2) CHECK (flag IN ('a', 'b') OR flag IS NULL),
  shade citext CHECK (shade IN ('a')), grade a_grade, share a_share, level int CHECK (level IN (1, 2, 9)),
  "Tag" date CHECK ("Tag" >= '1900-01-01' AND "Tag" < '2025-01-01'), late int, fee numeric(4,2),
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
    "age": "{type: integer, lower: 0, upper: 120}",
    "rank": "{type: integer}",
    "kind": '{type: category, values: ["F", "it\'s"]}',
    "flag": '{type: category, values: ["a", "b"]}',
    "shade": "{type: text}",
    "grade": "{type: integer, lower: 1, upper: 5}",
    "share": "{type: number, lower: 0, upper: 100, step: 0.1}",
    "level": '{type: category, values: ["1", "2", "9"]}',
    "Tag": "{type: date, lower: 1900-01-01, upper: 2025-01-01}",
    "late": "{type: integer}",
    "fee": "{type: number, lower: 0, upper: 99.99, step: 0.01}",
}


@pytest.fixture(scope="module", autouse=True)
def people(postgres: Server) -> None:
    postgres.do(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE SCHEMA registry",
        "CREATE TYPE a_sex AS ENUM ('m', 'f', 'it''s: other')",
        "CREATE DOMAIN a_kin AS a_sex",
        "CREATE DOMAIN a_positive AS integer NOT NULL CHECK (VALUE >= 1)",
        "CREATE DOMAIN a_grade AS a_positive CHECK (VALUE <= 5)",
        "CREATE DOMAIN a_share AS numeric(5,1) CHECK (VALUE BETWEEN 0 AND 100)",
        TABLE,
        "ALTER TABLE registry.people ADD CHECK (fee >= 0 AND fee <= pay)",
        f"INSERT INTO registry.people VALUES ('{CANARY}', 2.5, 17, 3, '2001-02-03', now(), true,"
        " 'f', 'm', 'a', 'x', 12, 34, 1, 'F', 'a', 'a', 2, 7, 2, '2001-02-03', 77, 1)",
        "ALTER TABLE registry.people ADD CHECK (late BETWEEN 0 AND 9) NOT VALID",
        "CREATE VIEW seen AS SELECT 1 AS n",
    )


def init(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.app, ["init", *words])
    return done.exit_code, done.stdout, done.stderr


def test_sketch_reads_only_the_catalogue(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the statement that locks the table names it; each open question is marked."""
    asked: list[str] = []
    done = server_link.Link._result
    monkeypatch.setattr(
        server_link.Link,
        "_result",
        lambda self, sql, get: asked.append(sql) or done(self, sql, get),
    )
    monkeypatch.setattr(server_link.Link, "batches", None)
    code, text, _ = init(server.address(), "--table", "registry.people", "--unit", "person")
    assert code == 0, text
    assert CANARY not in text
    assert "no row" in text
    naming = [sql for sql in asked if '"people"' in sql]
    assert naming == ['LOCK TABLE "registry"."people" IN ACCESS SHARE MODE']
    for name, body in LINES.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: "))
        assert line.removeprefix(f"  {name}: ").startswith(body), line
        assert (CONFIRM in line) == ("values: [" in body or "lower: " in body)
        assert ("NOT NULL" in line) == (name in ("age", "grade"))
        assert ("its CHECK constraint leaves lower: 1" in line) == (name == "rank")
    assert '"Größe": {type: number, lower: -9999.9, upper: 9999.9, step: 0.1}' in text
    assert "# raw: left out, bytea columns can't be used" in text
    assert "# twice: left out, generated columns can't be used" in text


def test_confirmed_sketch_runs(server: Server, tmp_path: Path) -> None:
    """Before it is confirmed and filled in, it is refused."""
    path = tmp_path / "people.yaml"
    where = server.address()
    assert (
        init(where, "--table", "registry.people", "--unit", "person", "--output", str(path))[0] == 0
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


def test_proposals_from_rows_are_marked(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "people.yaml"
    code, _, told = init(
        server.address(), "--table", "registry.people", "--peek", "--output", str(path)
    )
    assert code == 0, told
    assert "READ THE VALUES" in told
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert f'values: ["{CANARY}"]' in text
    lines = {
        "pay": (PEEKED, "lower: 17, upper: 17"),
        "code": (PEEKED, "lower: 3, upper: 3"),
        "age": (CONFIRM, "lower: 0, upper: 120"),  # what is declared, where it is
        "sex": (CONFIRM, '["m", "f", '),
    }
    for name, (mark, body) in lines.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: "))
        assert body in line
        assert mark in line


def test_constraints_of_a_parent_only_are_not_proposed(server: Server) -> None:
    """Constraints of a partitioned table are, because its partitions inherit all of them."""
    columns = "a int NOT NULL CHECK (a BETWEEN 1 AND 5), b int CHECK (b BETWEEN 1 AND 5)"
    server.do(
        f"CREATE TABLE registry.parent ({columns} NO INHERIT)",
        "CREATE TABLE registry.child () INHERITS (registry.parent)",
        "CREATE TABLE registry.alone (b int CHECK (b BETWEEN 1 AND 5) NO INHERIT)",
        f"CREATE TABLE registry.whole ({columns}) PARTITION BY LIST (a)",
        "CREATE TABLE registry.part PARTITION OF registry.whole FOR VALUES IN (1)",
    )
    bounds, required = "{type: integer, lower: 1, upper: 5}", "NOT NULL"
    for table, expected in {
        "parent": {"a": [bounds], "b": []},
        "alone": {"b": [bounds]},
        "whole": {"a": [bounds, required], "b": [bounds]},
    }.items():
        _, text, _ = init(server.address(), "--table", f"registry.{table}")
        for name, parts in expected.items():
            (line,) = (line for line in text.splitlines() if line.startswith(f"  {name}: "))
            assert [part for part in (bounds, required) if part in line] == parts, (table, line)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--table", "registry.nobody"], "DP-DATA-001"),
        (["--table", "seen"], "DP-DATA-014"),
        ([], "DP-DATA-010"),
        (["--table", "registry.people", "--unit", "gone"], "DP-DATA-011"),
    ],
)
def test_sketch_of_unreadable_tables_is_refused(
    server: Server, words: list[str], code: str
) -> None:
    done, text, told = init(server.address(), *words)
    assert done != 0
    assert code in told
    assert SECRET not in text + told


def test_sketch_without_read_permission_is_refused(server: Server) -> None:
    done, _, told = init(server.address(user=READER), "--table", "registry.people")
    assert done != 0
    assert "DP-DATA-024" in told or "DP-DATA-001" in told
    assert OWNER not in told
