"""Statements are known whole or refused: no part of a text is left out of its answer silently."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from dprelease.errors import Place, QueryError
from dprelease.exact.post_view import run_statement
from dprelease.query.expressions.predicate import parse_predicate
from dprelease.query.expressions.whole import KNOWN, unread_argument_text
from dprelease.query.outer_sql.statement import SplitStatement, split_statement
from dprelease.release.after_noise import outer_table
from dprelease.schema.load import table_from_mapping

CITIES = {"type": "category", "values": ["Bern", "Oslo"]}
NUMBER = {"type": "number", "lower": 0, "upper": 99}
COLUMNS = {
    "id": {"type": "integer"}, "sex": CITIES, "city": CITIES, "age": NUMBER, "pay": NUMBER,
    "born": {"type": "date"}, "name": {"type": "text"},
}  # fmt: skip
TABLE = table_from_mapping(
    {
        "table": "people",
        "privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
        "columns": COLUMNS,
    },
    Path(),
).table

REFUSED = {
    "DP-SQL-001": """
        SELECT MEDIAN(pay, 3) FROM people
        SELECT AVG(pay, 3) FROM people
        SELECT AVG() FROM people
    """,
    "DP-SQL-002": """
        SELECT COUNT(*) FROM people TABLESAMPLE 10%
        SELECT COUNT(*) FROM people TABLESAMPLE reservoir(5)
        SELECT COUNT(*) FROM people USING SAMPLE 10%
        SELECT COUNT(*) FROM people AT (VERSION => 3)
        SELECT COUNT(*) FROM people AT (TIMESTAMP => now())
        SELECT COUNT(*) FROM people AS p (x, y)
        SELECT COUNT(*) FROM ONLY people
        SELECT COUNT(*) FROM people FOR UPDATE
        SELECT MIN(pay, 2) FROM people
        SELECT MAX(pay, 2) FROM people
        SELECT MODE(city, 2) FROM people
        SELECT COUNT(sex, age) FROM people
        SELECT QUANTILE_CONT(pay, 0.5, 3) FROM people
        SELECT QUANTILE_CONT(pay, 0.5, age) FROM people
        SELECT APPROX_QUANTILE(pay, 0.5, 100) FROM people
        SELECT MEDIAN(pay ORDER BY pay) FROM people
        SELECT COUNT(people.*) FROM people
        SELECT COUNT(*) INTO x FROM people
        SELECT x.people.sex, COUNT(*) FROM people GROUP BY x.people.sex
        SELECT COUNT(*) FROM people WHERE TRIM(name, 'x') = 'y'
        SELECT COUNT(*) FROM people WHERE date(born, 'UTC') = '2020-01-01'
        SELECT COUNT(*) FROM people WHERE date_diff('day', born, born, born) = 1
    """,
    "DP-SQL-003": """
        SELECT nosuch.sex, COUNT(*) FROM people GROUP BY nosuch.sex
        SELECT SUM(nosuch.pay) FROM people
        SELECT COUNT(*) FROM people WHERE nosuch.age > 3
        SELECT COUNT(*) AS n FROM people ORDER BY nosuch.n
        SELECT people.sex, COUNT(*) FROM people AS p GROUP BY people.sex
        SELECT COUNT(*) FROM other.people
        SELECT COUNT(*) FROM people, other
    """,
    "DP-SQL-004": """
        SELECT city AS sex, sex AS city, COUNT(*) FROM people
        SELECT x AS y, y AS x, COUNT(*) FROM people
        SELECT COUNT(*) + y AS x, x AS y FROM people
        SELECT COUNT(*) FROM people ORDER BY 1 WITH FILL
        SELECT sex AS city, COUNT(*) FROM people GROUP BY city
    """,
    "DP-SQL-006": """
        SELECT COUNT(*) FROM people PIVOT (sum(pay) FOR sex IN ('Bern'))
        SELECT COUNT(* EXCLUDE (sex)) FROM people
        SELECT COUNT(*) AS n FROM people ORDER BY n COLLATE nocase
        SELECT COUNT(DISTINCT sex, age) FROM people
        SELECT COUNT(DISTINCT) FROM people
        SELECT SUM(DISTINCT pay) FROM people
        SELECT COUNT(*) AS n, SUM(pay) AS n FROM people
        SELECT COUNT(*) FROM people WHERE born > TIMESTAMP(3) '2020-01-01'
    """,
}
CASES = [
    (line.strip(), code) for code, text in REFUSED.items() for line in text.strip().splitlines()
]


@pytest.mark.parametrize(("statement", "code"), CASES)
def test_partly_supported_statements_are_refused(statement: str, code: str) -> None:
    with pytest.raises(QueryError, match=code):
        split_statement(statement, {"people": TABLE})


def test_exponentially_growing_names_are_refused() -> None:
    """Each name stands for two of the one before: 2^50 parts in 1,000 characters."""
    twice = ", ".join(f"x{i} + x{i} AS x{i + 1}" for i in range(50))
    for statement in (
        f"SELECT COUNT(*) AS x0, {twice} FROM people",
        f"SELECT COUNT(*) {'+ 1' * 3000} FROM people",
        f"SELECT {'(' * 2000}COUNT(*){')' * 2000} FROM people",
    ):
        with pytest.raises(QueryError, match="DP-SQL-001"):
            split_statement(statement, {"people": TABLE})


SAME = "SELECT sex, COUNT(*) FROM people WHERE age > 3 GROUP BY sex"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT people.sex, COUNT(*) FROM people WHERE people.age > 3 GROUP BY people.sex",
        "SELECT p.sex, COUNT(*) FROM people AS p WHERE p.age > 3 GROUP BY p.sex",
        "SELECT sex, COUNT(*) /* , MIN(pay, 2) */ FROM people WHERE age > 3 GROUP BY 1 -- 5 %",
        'SELECT "sex", COUNT(*) FROM "people" WHERE age > 3 GROUP BY "sex"',
    ],
)
def test_equivalent_statements(statement: str) -> None:
    found, same = (split_statement(text, {"people": TABLE}) for text in (statement, SAME))
    assert [core.same for core in found.cores.values()] == [found.cores["answer"].same]
    assert found.cores["answer"].same == same.cores["answer"].same
    assert found.cores["answer"].columns == same.cores["answer"].columns


def outer_tables(split: SplitStatement, noised: pa.Table) -> dict[str, pa.Table]:
    """Return the noisy table of a statement by its name there."""
    return {split.tables["answer"]: outer_table(split.cores["answer"], noised)}


@pytest.mark.parametrize("order", ["ASC NULLS FIRST", "DESC NULLS FIRST", "ASC NULLS LAST"])
def test_order_of_nulls_is_kept(order: str) -> None:
    text = f"SELECT COUNT(*) AS n FROM people ORDER BY n {order}"
    split = split_statement(text, {"people": TABLE})
    noised = {"answer": pa.table({"n": [1, None, 2]})}
    found = run_statement(split.outer, outer_tables(split, noised["answer"]))["n"].to_pylist()
    assert found.index(None) == (0 if "FIRST" in order else 2)
    assert [n for n in found if n is not None] == ([2, 1] if "DESC" in order else [1, 2])


COUNTS = (0, 3, -2, 1, 2**62, None)
SUMS = (0.0, 9.5, -4.0, 1e308, None)
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "SUM(pay) / COUNT(*)": lambda s, n: s / n,
    "COUNT(*) / SUM(pay)": lambda s, n: n / s,
    "1 / (SUM(pay) / COUNT(*))": lambda s, n: 1 / (s / n),
    "SQRT(COUNT(*)) + 1": lambda s, n: math.sqrt(n) + 1,
    "SUM(pay) * SUM(pay) * COUNT(*)": lambda s, n: s * s * n,
    "SUM(pay) * 10 - SUM(pay) * 10": lambda s, n: 0.0 if math.isfinite(s * 10) else None,
    "ABS(-COUNT(*)) * 8": lambda s, n: abs(n) * 8 if abs(n) * 8 < 2**63 else None,
    "ROUND(SUM(pay) / COUNT(*), -1)": lambda s, n: s / n,
    "-FLOOR(SUM(pay) / (COUNT(*) - 3))": lambda s, n: -float(math.floor(s / (n - 3))),
}
"""What is computed from noised sums and counts, and its value; Python raises where there is none."""


def _value(compute: Callable[[Any, Any], Any], total: Any, count: Any) -> float | None:
    try:
        found = compute(total, count)
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):
        return None
    return None if found is None or not math.isfinite(found) else float(found)


@pytest.mark.parametrize("computation", COMPUTED)
def test_undefined_results_are_null(computation: str) -> None:
    """A quotient by zero passes no condition, stands last in either direction, and is NULL."""
    pairs = list(itertools.product(SUMS, COUNTS))
    sums, counts = zip(*pairs, strict=True)
    noised = pa.table({"total": pa.array(sums, pa.float64()), "n": pa.array(counts, pa.int64())})
    asked = f"SELECT SUM(pay) AS total, COUNT(*) AS n, {computation} AS x FROM people"

    def answered(more: str = "") -> list[dict[str, Any]]:
        split = split_statement(f"{asked} {more}", {"people": TABLE})
        return run_statement(split.outer, outer_tables(split, noised)).to_pylist()

    found = [row["x"] for row in answered()]
    if "ROUND" not in computation:
        expected = [_value(COMPUTED[computation], total, count) for total, count in pairs]
        assert found == [None if x is None else pytest.approx(x) for x in expected]
    assert None in found
    numbers = [x for x in found if x is not None]
    assert all(map(math.isfinite, numbers))
    for order in ("x", "x DESC", "x ASC NULLS FIRST"):
        ordered = [row["x"] for row in answered(f"ORDER BY {order}")]
        nulls = [None] * (len(found) - len(numbers))
        sort = sorted(numbers, reverse="DESC" in order)
        assert ordered == (nulls + sort if "FIRST" in order else sort + nulls)
        assert [row["x"] for row in answered(f"ORDER BY {order} LIMIT 2")] == ordered[:2]
    for condition in ("x > 0", "NOT x > 0", "x <> 1", "x > 0 OR x <= 0"):
        kept = [row["x"] for row in answered(f"HAVING {condition}")]
        assert None not in kept
        assert set(kept) <= set(numbers)
    assert len(answered("HAVING x > 0 OR x <= 0")) == len(numbers)


def test_deeply_nested_arithmetic() -> None:
    nested = "COUNT(*)"
    for _ in range(28):
        nested = f"(1 / {nested})"
    split = split_statement(f"SELECT COUNT(*) AS n, {nested} AS x FROM people", {"people": TABLE})
    tables = outer_tables(split, pa.table({"n": [2, 0]}))
    assert run_statement(split.outer, tables).column("x").to_pylist() == [2.0, None]


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        ("name NOT LIKE 'x%'", "(\"name\" NOT LIKE 'x%')"),
        ("name NOT ILIKE 'x%'", "(\"name\" NOT ILIKE 'x%')"),
        ("NOT name LIKE 'x%'", "(NOT (\"name\" LIKE 'x%'))"),
        ("age >= .5 AND age < 1e1", '(("age" >= 0.5::DOUBLE) AND ("age" < 10))'),
    ],
)
def test_supported_predicates(where: str, sql: str) -> None:
    assert parse_predicate(where, TABLE, Place()).sql == sql


def test_unknown_node_arguments_are_refused() -> None:
    """Whatever a parser puts into an argument that is on no list refuses the statement."""
    found = 0
    for kind, known in KNOWN.items():
        for name in kind.arg_types:
            if name not in known:
                node = kind(**{name: exp.Literal.number(1)})
                assert unread_argument_text(exp.Paren(this=node)) is not None, (kind, name)
                found += 1
    assert found > 50
    assert unread_argument_text(sqlglot.parse_one(SAME, read="duckdb")) is None


@pytest.mark.parametrize("kind", ["ROLLUP", "CUBE"])
def test_with_rollup_is_a_rollup_of_all_keys(kind: str) -> None:
    text = "SELECT sex, city, COUNT(*) AS n FROM people GROUP BY "
    found, same = (
        split_statement(text + keys, {"people": TABLE})
        for keys in (f"sex, 2 WITH {kind}", f"{kind} (sex, city)")
    )
    assert (found.cores, found.outer) == (same.cores, same.outer)


def test_an_aggregate_without_a_name_has_not_that_of_another_column() -> None:
    text = "SELECT SUM(age) AS s, SUM(age), VARIANCE(pay) AS v, VAR_SAMP(pay), COUNT(*) FROM people"
    outer = sqlglot.parse_one(split_statement(text, {"people": TABLE}).outer, read="duckdb")
    names = [item.alias_or_name for item in outer.expressions]
    assert names == ["s", "SUM(age)", "v", "VARIANCE(pay)", "count_rows"]
