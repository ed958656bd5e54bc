"""The SQL of every example query, as files, so that a review shows the SQL that changed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import read_declaration
from dprelease.statements.bounding import hash_part_sql, hash_sql
from dprelease.statements.compiled_queries import compile_without_data
from tests.exact.reference import digest

SNAPSHOTS = Path(__file__).parent / "snapshots"
EXAMPLES = Path(__file__).parents[2] / "examples"
QUERIES = [
    (folder.name, query)
    for folder in sorted(path.parent for path in EXAMPLES.glob("*/release.yaml"))
    for query in resolve(read_declaration(folder / "release.yaml"))
]


@pytest.mark.parametrize(
    ("example", "query"), QUERIES, ids=lambda value: getattr(value, "name", value)
)
def test_sql_equals_the_snapshot(example: str, query: Query) -> None:
    path = SNAPSHOTS / f"{example}.{query.name}.sql"
    assert compile_without_data(query).text + "\n" == path.read_text(encoding="utf-8")


def test_no_snapshot_is_unused() -> None:
    assert {path.stem for path in SNAPSHOTS.iterdir()} == {f"{e}.{q.name}" for e, q in QUERIES}


def test_row_hash_test_vector() -> None:
    """The same numbers in SQL, in NumPy, and in any other language."""
    with duckdb.connect() as connection:
        row = "FROM (SELECT 'anna|1' AS id, 12::BIGINT AS cell, 7::BIGINT AS n)"
        parts = [hash_part_sql("id", text=True), hash_part_sql("cell"), hash_part_sql("n")]
        texts = ", ".join(hash_sql(parts[:n]) for n in (2, 3))
        found = connection.execute(f"SELECT {texts} {row}").fetchall()[0]
    assert found == (597870803, 1506047452)
    assert digest(["anna|1", 12]) == found[0]
    assert digest(["anna|1", 12, 7]) == found[1]
