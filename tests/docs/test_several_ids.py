"""The statement that gives rows the ids of persons, in all small tables and their neighbours."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import duckdb
import pytest

from tests.docs.fences import DOCS

ROWS = [("1", "x"), ("1", "y"), ("1", "y"), ("2", "x"), ("3", "z"), (None, "x")]
LINES = [*product(("1", "2"), ("a", "b", None)), ("1", "a"), (None, "a")]
PERSONS = ("a", "b")


def statement() -> str:
    """Return the query of the page, over the tables `prescriptions` and `ids`."""
    page = (DOCS / "how-to" / "databases.md").read_text(encoding="utf-8")
    query = page.partition("COPY (")[2].partition(") TO 'prescriptions.parquet'")[0]
    assert query.count("all_varchar") == 2
    for name, relation in (("prescriptions", "held"), ("ids", "ids")):
        query = query.replace(f"read_csv('{name}.csv', all_varchar = true)", relation)
    return query


def rows_of_persons(
    link: duckdb.DuckDBPyConnection, query: str, rows: list[tuple[str | None, str]], lines: list[tuple[str | None, str | None]]
) -> Counter[tuple[str | None, str]]:  # fmt: skip
    """Return the rows that the query gives, with their numbers."""
    for table, held in (("held", rows), ("ids", lines)):
        link.execute(f"DELETE FROM {table}")
        if held:
            link.executemany(f"INSERT INTO {table} VALUES (?, ?)", held)
    return Counter(link.execute(query).fetchall())


def breaches(query: str) -> int:
    """Return in how many tables removing one person changes rows of others, or rows multiply."""
    link = duckdb.connect()
    link.execute("CREATE TABLE held (insurance VARCHAR, drug VARCHAR)")
    link.execute("CREATE TABLE ids (insurance VARCHAR, patient VARCHAR)")
    found = 0
    for size in range(4):
        for lines in combinations(LINES, size):
            named = {key: [p for k, p in lines if k == key and p] for key, _ in ROWS if key}
            owner = {key: min(persons) for key, persons in named.items() if persons}
            whole = rows_of_persons(link, query, ROWS, list(lines))
            found += whole.total() != len(ROWS)
            for person in PERSONS:
                rest = [row for row in ROWS if owner.get(row[0] or "") != person]
                others = [line for line in lines if line[1] != person]
                without = rows_of_persons(link, query, rest, others)
                wanted = Counter({row: n for row, n in whole.items() if row[0] != person})
                found += without != wanted
    return found


def test_a_person_changes_no_rows_of_others_and_no_row_is_doubled() -> None:
    assert breaches(statement()) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(patient) AS patient", "patient"),
        ("min(patient)", "CASE WHEN count(DISTINCT patient) = 1 THEN min(patient) END"),
        ("min(patient)", "(SELECT min(patient) FROM ids)"),
    ],
)
def test_other_rules_are_found_out(old: str, new: str) -> None:
    """Lines that multiply rows; numbers of several persons left out; lines of other numbers."""
    query = statement().replace(old, new)
    if new == "patient":
        query = query.replace("GROUP BY insurance", "")
    assert breaches(query) > 0
