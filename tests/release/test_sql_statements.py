"""SQL statements: the answers of the engine itself if there is almost no noise, or an error."""

from __future__ import annotations

import json
import os
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import TokenType
from sqlglot.dialects import DuckDB
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.cli.sql_command import parameters_of
from dprelease.errors import DpReleaseError, QueryError
from dprelease.exact.post_view import run_statement
from dprelease.ledger.ledger import Ledger
from dprelease.query.outer_sql.statement import split_statement
from dprelease.schema.load import read_table
from tests import processes
from tests.ledger.test_ledger import TABLE, release_with_ledger
from tests.release.build import write

pytestmark = pytest.mark.usefixtures("replayed_noise")

PLACES = """\
table: places
public: true
source: places.csv
columns:
  name: {type: text}
  abroad: {type: boolean}
"""
STATEMENTS = [
    "SELECT city, COUNT_IF(age > 30) AS n, AVG(pay / 2) AS h FROM people GROUP BY ALL ORDER BY city",
    "SELECT age // 40 AS d, COUNT(*) FILTER (WHERE pay > 5) AS n FROM people GROUP BY d HAVING n > 9 ORDER BY d",
    "SELECT city, COUNT(*) AS n, GROUPING(city) AS g FROM people GROUP BY ROLLUP (city) ORDER BY n, city",
    "WITH p AS (SELECT *, age + 1 AS older FROM people WHERE age > 9) SELECT SUM(older) AS s FROM p WHERE older < 70",
    "SELECT COUNT(*) AS n FROM people AS p JOIN places AS q ON p.city = q.name WHERE q.abroad",
    "SELECT q.abroad, COUNT(*) AS n FROM people AS p LEFT JOIN places AS q ON p.city = q.name WHERE q.name <> 'Rome' GROUP BY 1 HAVING COUNT(*) > 9 ORDER BY 1",
    "SELECT q.abroad, SUM(n) AS n, COUNT(*) AS places FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) LEFT JOIN places AS q ON city = name GROUP BY ALL ORDER BY 1",
    "WITH c AS (SELECT city AS name, COUNT(*) AS n FROM people GROUP BY 1) SELECT name, n, abroad FROM c FULL JOIN places USING (NAME) ORDER BY 1",
    "WITH c AS (SELECT city AS name, COUNT(*) AS n FROM people GROUP BY 1) SELECT * FROM c RIGHT JOIN (SELECT Name, NOT abroad AS home FROM places) AS p USING (name) ORDER BY 1",
    "SELECT n, name FROM (SELECT COUNT(*) AS n FROM people) CROSS JOIN places ORDER BY name",
    "SELECT city, n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY 1) NATURAL JOIN (SELECT name AS city FROM places) ORDER BY 1",
    "SELECT city, COUNT(*) AS n, (SELECT abroad FROM places WHERE name = city) AS abroad FROM people GROUP BY city HAVING city IN (SELECT name FROM places) ORDER BY city",
    "WITH places AS (SELECT name, abroad FROM places WHERE abroad) SELECT n FROM places JOIN (SELECT city, COUNT(*) AS n FROM people GROUP BY city) c ON c.city = places.name",
    "SELECT P.CITY, Count(*) AS Total FROM people AS p WHERE AGE > 30 GROUP BY p.City HAVING TOTAL > 3 ORDER BY total, 1",
    "SELECT COUNT(*) AS n FROM people",
    "SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY city",
    "SELECT city, COUNT(*) AS n, SUM(age) AS years FROM people GROUP BY 1 ORDER BY 2 DESC, 1",
    "SELECT city AS place, SUM(age) / COUNT(*) AS mean FROM people WHERE age >= 20 GROUP BY city ORDER BY place",
    "SELECT city, AVG(age) AS a, AVG(age) * 2 AS b FROM people GROUP BY city HAVING COUNT(*) > 1 ORDER BY a",
    "SELECT SUM(age) - 3 * COUNT(age) AS x, -(COUNT(*)) AS y, round(SUM(age) / 7.0, 1) AS z FROM people",
    "SELECT COUNT(DISTINCT person) AS people FROM people WHERE city = 'Bern' OR age BETWEEN 10 AND 30",
    "SELECT city, COUNT(*) AS n FROM people GROUP BY city HAVING n >= 1 ORDER BY n, city LIMIT 2",
    "SELECT city, greatest(COUNT(*), 5) AS n FROM people GROUP BY city ORDER BY city",
    "SELECT city, VARIANCE(age) / 100 AS v, STDDEV(age) AS s FROM people GROUP BY city ORDER BY city",
    "SELECT city, MEDIAN(age) AS m, MIN(age) AS a, MAX(age) AS b FROM people GROUP BY city ORDER BY city",
    "SELECT QUANTILE_CONT(age, 0.25) AS q, COUNT(age) AS n FROM people",
    "SELECT COUNT(*) AS n FROM people WHERE city IN ('Bern', 'Oslo') AND NOT age > 40 LIMIT 1",
    "SELECT upper(city) || '!' AS c, CASE WHEN COUNT(*) > 49 THEN 1 ELSE 0 END AS n FROM people GROUP BY city ORDER BY c",
    "SELECT COUNT(*) % 40 AS a, COUNT(*) // 40 AS b, ln(COUNT(*)) AS c, COUNT(*)::VARCHAR AS d, power(COUNT(*), 2) AS e FROM people",
    "SELECT city, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY city ORDER BY city",
    "SELECT city, rank() OVER (ORDER BY city DESC) AS r FROM people GROUP BY city HAVING COUNT(*) > 1 ORDER BY r OFFSET 1",
    "SELECT city, COUNT(*) AS n FROM people GROUP BY city QUALIFY row_number() OVER (ORDER BY city) <= 2 ORDER BY city FETCH FIRST 1 ROWS ONLY",
    "WITH c AS (SELECT city, COUNT(*) AS n FROM people GROUP BY city) SELECT city, n / (SELECT SUM(n) FROM c) AS s FROM c WHERE city LIKE '%o%' ORDER BY city",
    "SELECT 'all' AS place, COUNT(*) AS n FROM people UNION ALL SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY place",
    "SELECT a.city, a.n, b.m FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city) a JOIN (SELECT city, COUNT(*) AS m FROM people WHERE age < 40 GROUP BY city) b USING (city) ORDER BY city",
    "SELECT MAX(n) - MIN(n) AS d, COUNT(*) AS cities FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city)",
    "SELECT * FROM (SELECT city AS place, COUNT(*) AS n FROM people GROUP BY city) WHERE place IN ('Rome', 'Oslo') AND n BETWEEN 1 AND 99 ORDER BY place",
    "SELECT DISTINCT COUNT(*) > 0 AS any, 1 AS x FROM people GROUP BY city",
    "SELECT city, (SELECT COUNT(*) FROM people) AS total FROM people GROUP BY city HAVING COUNT(*) > 0 ORDER BY city",
    "SELECT city FROM people GROUP BY city HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM people GROUP BY city)) ORDER BY 1",
    "SELECT SUM(COUNT(*)) OVER (ORDER BY city ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM people GROUP BY city ORDER BY c",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One row per person and all cities declared, so that no limit leaves out rows."""
    cities = ("Bern", "Oslo", "Rome")
    write(tmp_path, [f"{i},{cities[i // 2 % 3]},{i % 80},{i * 7 % 50}.5\n" for i in range(150)])
    return tmp_path


@pytest.mark.parametrize("statement", STATEMENTS)
def test_answers_equal_those_of_the_engine(folder: Path, statement: str) -> None:
    """At epsilon 100 the noise of whole counts and sums is 0 but with a chance below 1e-9."""
    people = pd.read_csv(folder / "people.csv")
    places = pd.DataFrame({"name": ["Bern", "Rome"], "abroad": [False, True]})
    places.to_csv(folder / "places.csv", index=False)
    (folder / "places.yaml").write_text(PLACES)
    expected = duckdb.sql(statement).df()
    assert (len(people), len(places)) == (150, 2)
    schema = folder / "people.yaml"
    schema.write_text(schema.read_text().replace(": 2", ": 1"))
    found = dprelease.sql(
        statement,
        [schema, folder / "places.yaml"],
        epsilon=100,
        delta="1e-2",
        mechanism="discrete_laplace",
    )
    assert list(found.columns) == list(expected.columns) or "count_star()" in expected.columns
    numbers = found.select_dtypes("number").to_numpy(dtype=float)
    reference = expected.select_dtypes("number").to_numpy(dtype=float)
    assert found.shape == expected.shape
    truths = [f.get("abroad", pd.Series()).astype("boolean").tolist() for f in (found, expected)]
    assert truths[0] == truths[1]
    # Sums of ages (up to 115) keep some noise: a few years of thousands.
    has_sums = "age" in statement.partition(" FROM ")[0]
    assert numbers == pytest.approx(reference, rel=0.05, abs=30 if has_sums else 1e-9, nan_ok=True)
    keys = [name for name in found.columns if str(name).casefold() in ("city", "place", "name")]
    assert found[keys].to_numpy().tolist() == expected[keys].to_numpy().tolist()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELEC COUNT(*)", "DP-SQL-001"),
        ("DELETE FROM people", "DP-SQL-001"),
        ("SELECT COUNT(*) FROM people; SELECT 1", "DP-SQL-001"),
        ("SELECT COUNT(*) FROM people" + " " * 10_000, "DP-SQL-001"),
        ("SELECT * FROM people", "DP-SQL-005"),
        ("SELECT COUNT(*) OVER () FROM people", "DP-SQL-005"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT * FROM people)", "DP-SQL-006"),
        ("SELECT COUNT(*) FROM people JOIN people AS b ON true", "DP-SQL-006"),
        ("SELECT COUNT(*) FROM people ORDER BY 9", "DP-SQL-007"),
        ("SELECT COUNT(*) FROM people QUALIFY true", "DP-SQL-007"),
        ("SELECT COUNT(*) FROM people USING SAMPLE 3", "DP-SQL-00[123]"),
        ("SELECT COUNT(*)", "DP-SQL-003"),
        ("SELECT COUNT(*) FROM 'people.csv'", "DP-SQL-003"),
        ("SELECT COUNT(*) FROM other.people", "DP-SQL-003"),
        ("SELECT COUNT(*) FROM read_csv('people.csv')", "DP-SQL-003"),
        ("SELECT city, COUNT(*) FROM people", "DP-SQL-004"),
        ("SELECT COUNT(*) + getenv('HOME') FROM people", "DP-SQL-006"),
        ("SELECT COUNT(*), read_text('/etc/passwd') FROM people", "DP-SQL-006"),
        ("SELECT SUM(person + 1) FROM people", "DP-SQL-006"),
        ("SELECT COUNT(*) + random() FROM people", "DP-SQL-006"),
        ("SELECT age, city FROM people ORDER BY city", "DP-SQL-005"),
        ("SELECT STRING_AGG(city) FROM people", "DP-SQL-006"),
        ("SELECT QUANTILE_CONT(age, age) FROM people", "DP-SQL-006"),
        ("SELECT ANY_VALUE(age) FROM people", "DP-SQL-00[46]"),
        (
            "SELECT city, COUNT(*) FROM people GROUP BY city HAVING city > 3 + COUNT(*) AND city",
            "DP-SQL-007",
        ),
        ("SELECT COUNT(*) FROM people WHERE age > (SELECT 1)", "DP-SQL-006"),
        ("SELECT COUNT(*) FROM people WHERE random() < 0.5", "DP-WHERE-00[0-9]"),
        ("SELECT person, COUNT(*) FROM people GROUP BY person", "DP-QUERY-002"),
        ("SELECT SUM(nothing) FROM people", "DP-QUERY-001"),
    ],
)
def test_statements_of_unbounded_sensitivity_are_refused(
    folder: Path, statement: str, code: str
) -> None:
    with pytest.raises(DpReleaseError) as caught:
        dprelease.sql(statement, folder / "people.yaml", epsilon=1)
    assert re.search(code, str(caught.value)), str(caught.value)


UNREACHABLE = [
    "SELECT (SELECT secret FROM hidden) AS x, COUNT(*) FROM people",
    "SELECT COUNT(*), x.* FROM people, hidden AS x GROUP BY ALL",
    "SELECT * FROM (SELECT COUNT(*) FROM people), hidden",
    "SELECT * FROM (SELECT COUNT(*) FROM people), 'CSV'",
    "SELECT * FROM (SELECT COUNT(*) FROM people), read_csv('CSV')",
    "SELECT * FROM (SELECT COUNT(*) FROM people), read_text('CSV')",
    "SELECT * FROM (SELECT COUNT(*) FROM people), duckdb_settings()",
    "SELECT * FROM (SELECT COUNT(*) FROM people), duckdb_settings",
    "SELECT * FROM (SELECT COUNT(*) FROM people), sqlite_master",
    "SELECT * FROM (SELECT COUNT(*) FROM people), information_schema.tables",
    "SELECT * FROM (SELECT COUNT(*) FROM people), main.people",
    "SELECT * FROM (SELECT COUNT(*) FROM people), people",
    "SELECT * FROM (SELECT COUNT(*) FROM people), glob('*')",
    "SELECT * FROM (SELECT COUNT(*) FROM people) ORDER BY (SELECT age FROM people)",
    "SELECT COUNT(*) FROM people UNION ALL SELECT age FROM people",
    "SELECT COUNT(*) FROM people UNION ALL SELECT 1 ORDER BY (SELECT age FROM people)",
    "WITH c AS (SELECT age FROM people) SELECT COUNT(*), (SELECT MAX(age) FROM c LIMIT 1 + age) FROM people",
    "SELECT COUNT(*), getenv('CANARY') FROM people",
    "SELECT COUNT(*), getvariable('canary') FROM people",
    "SELECT COUNT(*), current_setting('temp_directory') FROM people",
    "SELECT COUNT(*) FROM people LIMIT getenv('CANARY')",
    "SELECT COUNT(*) FROM people LIMIT (SELECT age FROM people)",
    "SELECT COUNT(*), query('SELECT 1') FROM people",
    "SELECT COUNT(*), query_table('people') FROM people",
    "SELECT COUNT(*), COLUMNS('.*') FROM people",
    "SELECT COUNT(*), list_transform([1], lambda x: getenv('CANARY')) FROM people",
    "SELECT dprelease_add_2(COUNT(*), 1) FROM people",
    "SELECT noised_1_1_0 FROM people GROUP BY city",
    "SELECT COUNT(*), random() FROM people",
    "SELECT COUNT(*), now() FROM people",
    "SELECT COUNT(*), uuid() FROM people",
    "SELECT COUNT(*), repeat('x', 1000000000) FROM people",
    "SELECT * FROM (SELECT COUNT(*) AS n FROM people), range(1000000000)",
    "SELECT * FROM (SELECT COUNT(*) AS n FROM people), LATERAL (SELECT age FROM people)",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i FROM r) SELECT * FROM r, (SELECT COUNT(*) FROM people)",
    "COPY (SELECT COUNT(*) FROM people) TO 'CSV'",
    "ATTACH 'CSV' AS x",
    "INSTALL httpfs",
    "PRAGMA database_list",
    "SET VARIABLE x = 1",
    "SELECT COUNT(*) FROM people; COPY people TO 'CSV'",
    "CREATE TABLE x AS SELECT COUNT(*) FROM people",
]


@pytest.mark.parametrize("statement", UNREACHABLE)
def test_statements_reach_only_noised_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """No files, rows, variables of Python or of the system, or settings."""
    monkeypatch.setenv("CANARY", "canary-31415")
    file = folder / "secret.csv"
    file.write_text("secret\ncanary-31415\n")
    hidden = pd.DataFrame({"secret": ["canary-31415"]})
    with pytest.raises(DpReleaseError) as caught:
        dprelease.sql(statement.replace("CSV", str(file)), folder / "people.yaml", epsilon=1)
    assert "31415" not in str(caught.value)
    assert "no budget was spent" in str(caught.value)
    assert len(hidden) == 1
    assert file.read_text().startswith("secret")


def test_engine_reaches_no_files_or_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without our list of allowed syntax, no file and no Python variable is readable."""
    (tmp_path / "secret.csv").write_text("secret\ncanary-31415\n")
    hidden = pa.table({"secret": ["canary-31415"]})
    tables = {"noised": pa.table({"n": [1]})}
    for statement in (
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        f"SELECT * FROM read_text('{tmp_path}/secret.csv')",
        f"SELECT * FROM glob('{tmp_path}/*')",
        "SELECT * FROM hidden",
        f"COPY noised TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/new.db' AS x",
        "CREATE TABLE kept AS SELECT 1 AS n",
        "INSERT INTO noised VALUES (2)",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(QueryError, match="DP-SQL-007") as caught:
            run_statement(statement, tables)
        assert "31415" not in str(caught.value)
    assert hidden.num_rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_opens_its_own_engine() -> None:
    """The engine of its parent waits for threads that the child does not have."""
    tables = {"noised": pa.table({"n": [1, 2]})}

    def total() -> int:
        (found,) = run_statement("SELECT SUM(n) AS n FROM noised", tables)["n"].to_pylist()
        return int(found)

    assert total() == 3
    child = os.fork()
    if child == 0:
        os._exit(0 if total() == 3 else 1)
    assert processes.ended(child) == 0


ARGUMENTS = [
    ("SELECT COUNT(*) * ? AS n FROM people WHERE age >= ? LIMIT ?", [2.5, 18, 1]),
    ("SELECT COUNT(*) AS n FROM people WHERE age+0 IN (?,?)--$a,\n", [18, 19]),
    ("SELECT COUNT(*) * $a AS n FROM people WHERE age >= $b LIMIT $c", {"a": 2.5, "b": 18, "c": 1}),
    (
        "SELECT COUNT(*) AS n FROM people WHERE city IN ($x,$y) HAVING '$x,$y' <> '$x ,'",
        {"x": "Bern", "y": "Oslo"},
    ),
    ("SELECT COUNT(*) AS n FROM people WHERE city IN $x", {"x": ["Bern", "Oslo"]}),
    ("SELECT COUNT(*) AS n FROM people WHERE age NOT IN ? AND age > ?", [[20, 30], 3]),
    ("SELECT COUNT(*) AS n FROM people WHERE age + 0 > $1 HAVING $2 AND n > $1", [-3, True]),
    ("SELECT COUNT(*) AS n, DATE '2024-01-01' - ? AS d FROM people", [date(2023, 12, 31)]),
]


@pytest.mark.parametrize(("statement", "params"), ARGUMENTS)
def test_statement_parameters(folder: Path, statement: str, params: Any) -> None:
    """Values are inserted as constants, in the order of the text, and never as SQL."""
    people = pd.read_csv(folder / "people.csv")
    schema = folder / "people.yaml"
    schema.write_text(schema.read_text().replace(": 2", ": 1"))
    expected = duckdb.execute(statement, params).df()
    assert len(people) == 150
    found = dprelease.sql(
        statement, schema, epsilon=100, mechanism="discrete_laplace", params=params
    )
    assert found.to_numpy(float).tolist() == expected.to_numpy(float).tolist()


@pytest.mark.parametrize(
    ("statement", "params", "code"),
    [
        ("SELECT COUNT(*) FROM people WHERE age > $min", None, "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > $min", {"max": 3}, "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", [1, 2], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", [[1]], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age IN ?", [[]], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age IN ?", [[[1]]], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age IN ?", [3], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", [float("nan")], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", [pd.NaT], "DP-WHERE-012"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", [pd.Timestamp(0, tz="UTC")], "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE age > ?", 3, "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people", "x", "DP-SQL-008"),
        ("SELECT COUNT(*) FROM people WHERE city = ?", ["x' OR 'a' = 'a"], "DP-WHERE-011"),
        ("SELECT COUNT(*) FROM $t", {"t": "people"}, "DP-SQL-00[138]"),
    ],
)
def test_wrong_parameters_are_refused(folder: Path, statement: str, params: Any, code: str) -> None:
    with pytest.raises(DpReleaseError) as caught:
        dprelease.sql(statement, folder / "people.yaml", epsilon=1, params=params)
    assert re.search(code, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18),
        ("-3", -3),
        ("0.50", Decimal("0.50")),
        ("2020-02-29", date(2020, 2, 29)),
        ("2021-02-29", "2021-02-29"),
        ("TRUE", True),
        ("null", None),
        ("no", "no"),
        ("01234", "01234"),
        ("1e5", "1e5"),
        ("nan", "nan"),
        ("'12'", "12"),
        ("'O''Hara'", "O'Hara"),
        ("a=b", "a=b"),
        ("", ""),
        ("١", "١"),
    ],
)
def test_types_of_parameters_on_the_command_line(text: str, value: object) -> None:
    (found,) = parameters_of([f"name={text}"]).values()
    assert (found, type(found)) == (value, type(value))


def test_parameters_on_the_command_line(folder: Path) -> None:
    line = ["--schema", str(folder / "people.yaml"), "--epsilon", "100", "--json"]
    statement = "SELECT COUNT(*) AS n FROM people WHERE city = $city AND age >= ?"
    assert _call("sql", statement, *line)[0] == 2
    statement = statement.replace("?", "$min")
    code, said = _call("sql", statement, *line, "--param", "city=Bern", "--param", "min=40")
    known = pd.read_csv(folder / "people.csv")
    wanted = int(((known["city"] == "Bern") & (known["age"] >= 40)).sum())
    assert (code, json.loads(said)["rows"]) == (0, [{"n": wanted}])
    for params in (["city"], ["=3"], ["city=Bern", "city=Rome"], ["town=Bern"]):
        options = [part for one in params for part in ("--param", one)]
        code, said = _call("sql", statement, *line, *options)
        assert (code, json.loads(said)["findings"][0]["code"]) == (2, "DP-SQL-008")


def _call(*line: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, list(line))
    return result.exit_code, result.stdout


def test_margin_columns_of_statements(folder: Path) -> None:
    """They are the published ones; the ends of intervals can be used in any expression."""
    statement = (
        "SELECT city, COUNT(*) AS n, AVG(age) AS age, MEDIAN(age), COUNT(*) + 1 AS more FROM people "
        "GROUP BY city HAVING DP_INTERVAL_HIGH(n) > n AND DP_INTERVAL_LOW(AVG(age)) IS NOT NULL"
    )
    found = dprelease.sql(statement, folder / "people.yaml", epsilon=20, margins=True)
    assert list(found.columns) == [
        "city", "n", "n_moe", "age", "age_lower", "age_upper",
        "quantile_age", "quantile_age_lower", "quantile_age_upper", "more", "more_lower", "more_upper",
    ] or "median_age" in found.columns  # fmt: skip
    assert (found["n_moe"] == found.attrs["dprelease"]["margins_95"]["n"]).all()
    assert (found["age_lower"] <= found["age"]).all()
    assert (found["age"] <= found["age_upper"]).all()
    for wrong, code in {
        "SELECT DP_INTERVAL_LOW(city), COUNT(*) FROM people GROUP BY city": "DP-SQL-006",
        "SELECT DP_INTERVAL_LOW(COUNT(*), 2) FROM people": "DP-SQL-006",
        "SELECT DP_INTERVAL_LOW(MODE(city)) FROM people": "DP-SQL-006",
        "SELECT DP_INTERVAL_LOW(2), COUNT(*) FROM people": "it contains no aggregate",
        "SELECT DP_INTERVAL_LOW(CASE WHEN COUNT(*) > 9 THEN 1 END) FROM people": "branch",
        "SELECT DP_INTERVAL_LOW(COUNT(*) / SUM(COUNT(*)) OVER ()) FROM people": "window",
        "SELECT DP_INTERVAL_LOW(MEDIAN(age) - AVG(age)) FROM people": "quantile",
        "SELECT DP_INTERVAL_LOW(COUNT(*) - (SELECT COUNT(*) FROM people)) FROM people": "another",
        "SELECT DP_INTERVAL_LOW(LN(COUNT(*))) FROM people": "not a sum",
        "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(city + n) FROM people GROUP BY city": "not a name",
        "SELECT COUNT(*) AS n, 1 AS n_moe FROM people": "DP-SQL-006",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM people)": "DP-SQL-006",
    }.items():
        with pytest.raises(QueryError, match=code):
            dprelease.sql(wrong, folder / "people.yaml", epsilon=1, margins=True)


def test_intervals_of_arithmetic(folder: Path, tmp_path: Path) -> None:
    """Margins of quotients are those of DP_INTERVAL, by name or as written, and are published."""
    statement = (
        "SELECT city, SUM(age) AS s, COUNT(*) AS n, s / n AS mean, AVG(age) - AVG(pay) AS d, "
        "ROUND(SUM(age) / NULLIF(COUNT(*), 0), 1) AS r, DP_INTERVAL_HIGH(mean) AS top, "
        "CASE WHEN n > 5 THEN 1 END AS big FROM people GROUP BY city "
        "HAVING DP_INTERVAL_LOW(SUM(age) / COUNT(*)) > 0"
    )
    schema = folder / "people.yaml"
    answers = [
        dprelease.sql(statement, schema, epsilon=50, margins=True),
        dprelease.sql(statement, schema, epsilon=50, margins=True, output=tmp_path / "out"),
    ]
    for found in answers:
        assert len(found)
        assert "big_lower" not in found
        for name in ("mean", "d"):
            assert (found[f"{name}_lower"] < found[name]).all()
            assert (found[name] < found[f"{name}_upper"]).all()
        assert (found["r_lower"] == found["mean_lower"]).all()
        assert (found["top"] == found["mean_upper"]).all()
    assert dprelease.verify(tmp_path / "out").ok
    free = dprelease.sql(statement, schema, epsilon=1e-3, margins=True)
    assert free["mean_lower"].isna().equals(free["mean_upper"].isna())


def test_explain_reads_and_charges_nothing(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    (tmp_path / "people.csv").unlink()
    ledger = tmp_path / "ledger.sqlite"
    statement = "explain SELECT city, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY city"
    found = dprelease.sql(statement, tmp_path / "people.yaml", epsilon=1, ledger=ledger)
    assert found["column"].tolist() == ["n", "age.sum", "age.count", "age"]
    assert float(found.attrs["dprelease"]["guarantee"]["epsilon"]) == pytest.approx(1)
    assert float(Ledger(ledger).state().spent(TABLE)) == 0


def test_tables_of_a_statement_share_its_budget(folder: Path, tmp_path: Path) -> None:
    """Equal tables are measured once; others are published together, and charged together."""
    statement = (
        "WITH c AS (SELECT city, COUNT(*) AS n FROM people GROUP BY city) "
        "SELECT a.city, a.n / (SELECT COUNT(*) FROM people) AS share FROM c AS a JOIN c USING (city)"
    )
    out = tmp_path / "out"
    found = dprelease.sql(statement, folder / "people.yaml", epsilon=2, output=out)
    assert found.shape == (3, 2)
    assert float(found.attrs["dprelease"]["guarantee"]["epsilon"]) == pytest.approx(2, rel=1e-6)
    assert sorted(path.stem for path in out.glob("*.parquet")) == ["answer", "answer_2"]
    assert dprelease.verify(out).ok


def test_sql_command_charges_publishes_and_explains(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    ledger = tmp_path / "ledger.sqlite"
    words = ["sql", "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC"]
    words += ["--schema", str(tmp_path / "people.yaml"), "--ledger", str(ledger)]
    done = CliRunner().invoke(cli.app, [*words, "--epsilon", "0.25"])
    assert done.exit_code == 0, done.output
    assert "margins of error at 95 %: n " in done.stdout
    none = "SELECT city, COUNT(*) AS n FROM people GROUP BY city HAVING n > 1000000000"
    done = CliRunner().invoke(cli.app, [words[0], none, *words[2:4], "--epsilon", "0.25"])
    assert "(the result has no rows)" in done.stdout
    out = tmp_path / "published"
    done = CliRunner().invoke(cli.app, [*words, "--epsilon", "0.5", "--output", str(out), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert {row["city"] for row in answer["rows"]} == {"Bern", "Oslo", "Rome"}
    assert answer["guarantee"]["delta"] == "0"
    assert dprelease.verify(out, ledger=ledger).ok
    done = CliRunner().invoke(cli.app, [*words, "--epsilon", "0.5"])
    assert done.exit_code == 3
    assert "DP-BUDGET-091" in done.stderr
    assert float(Ledger(ledger).state().spent(TABLE)) == pytest.approx(0.75, rel=1e-3)


def test_frames_and_several_tables(folder: Path) -> None:
    frame = pd.DataFrame(
        {"person": range(10), "city": ["Bern"] * 10, "age": [1] * 10, "pay": [0.5] * 10}
    )
    trips = "table: trips\nsource: trips.csv\ncolumns:\n  k: {type: category, values: [a]}\n"
    (folder / "trips.yaml").write_text(trips)
    found = dprelease.sql(
        "SELECT COUNT(*) AS n FROM people",
        [folder / "trips.yaml", folder / "people.yaml"],
        epsilon=50,
        frames={"people": frame},
    )
    assert found["n"].tolist() == [pytest.approx(10, abs=2)]
    assert set(found.attrs["dprelease"]["margins_95"]) == {"n"}


KINDS = """\
table: t
source: t.csv
columns:
  day: {type: date, lower: 2024-01-01, upper: 2024-01-03}
  adult: {type: boolean}
  place: {type: category, values: [Bern, Rome]}
  age: {type: integer, lower: 0, upper: 9}
  pay: {type: number, lower: 0, upper: 10, step: 0.5}
"""


@pytest.mark.parametrize(
    "asked",
    [
        "day, COUNT(*) AS n FROM t GROUP BY day",
        "adult, place, age, COUNT(*) AS n FROM t GROUP BY adult, place, age",
        "SUM(pay) AS s, AVG(pay) AS a, MAX(pay) AS b, SUM(pay) * 2.5 AS c, SUM(age) * 0.1 AS d FROM t",
        "MODE(day) AS d, MODE(adult) AS a, MODE(age) AS b, MODE(place) AS c FROM t",
        "COUNT(*) / 0 AS a, COUNT(*) * 1e300 * 1e300 AS b FROM t",
        "AVG(pay) AS a, STDDEV(age) AS b FROM t WHERE age > 100",
    ],
)
def test_json_output_of_every_type(tmp_path: Path, asked: str) -> None:
    """The output names charge and files, in standard JSON."""
    rows = [f"2024-01-0{i % 3 + 1},{i % 2},Rome,{i % 9},{i % 10}.5\n" for i in range(90)]
    (tmp_path / "t.csv").write_text("day,adult,place,age,pay\n" + "".join(rows))
    (tmp_path / "t.yaml").write_text(KINDS)
    words = ["sql", f"SELECT {asked}", "--schema", str(tmp_path / "t.yaml"), "--epsilon", "50"]
    done = CliRunner().invoke(cli.app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found["rows"]


def test_release_of_a_statement_with_overwrite(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day,adult,place,age,pay\n2024-01-01,1,Rome,3,2.5\n")
    (tmp_path / "t.yaml").write_text(KINDS)
    words = ["sql", "SELECT COUNT(*) AS n FROM t", "--schema", str(tmp_path / "t.yaml")]
    words += ["--output", str(tmp_path / "out"), "--epsilon"]
    once, again = [*words, "1"], [*words, "2", "--overwrite"]
    assert CliRunner().invoke(cli.app, once).exit_code == 0
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    refused = CliRunner().invoke(cli.app, again[:-1])
    assert (refused.exit_code, "--overwrite" in refused.output) == (2, True)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    assert CliRunner().invoke(cli.app, again).exit_code == 0
    assert (tmp_path / "out" / "manifest.json").read_bytes() != before
    assert dprelease.verify(tmp_path / "out")


COUNTS = "(SELECT city, COUNT(*) AS n FROM people GROUP BY city) AS c"


def _with_places(folder: Path, schema: str = PLACES) -> list[Path]:
    (folder / "places.csv").write_text("name,abroad\nBern,false\nRome,true\n")
    (folder / "places.yaml").write_text(schema)
    return [folder / "people.yaml", folder / "places.yaml"]


def test_joined_public_table_is_in_plan_and_manifest(folder: Path) -> None:
    statement = f"SELECT name, n FROM {COUNTS} JOIN places ON city = name"
    schemas = _with_places(folder)
    found = dprelease.sql(statement, schemas, epsilon=1, output=folder / "out")
    assert sorted(found["name"]) == ["Bern", "Rome"]
    assert found.attrs["dprelease"]["public_tables"] == ["places"]
    manifest = json.loads((folder / "out/manifest.json").read_text())
    assert "'places'" in manifest["declaration"]["texts"]["sql.yaml"]
    assert "places.yaml" in manifest["declaration"]["sha256"]
    (folder / "places.csv").unlink()  # a plan reads nothing
    plan = dprelease.sql(f"EXPLAIN {statement}", schemas, epsilon=1)
    assert plan["table"].tolist() == ["answer", "places"]
    assert plan.attrs["dprelease"]["public_tables"] == ["places"]


@pytest.mark.parametrize(
    ("statement", "places", "code"),
    [
        ("SELECT name FROM places", PLACES, "DP-SQL-003"),
        (f"SELECT n FROM {COUNTS}, read_csv('places.csv')", PLACES, "DP-SQL-003"),
        (f"SELECT n FROM {COUNTS}, 'places.csv'", PLACES, "DP-SQL-003"),
        (f"SELECT n FROM {COUNTS}, other.places", PLACES, "DP-SQL-003"),
        (f"SELECT n, size FROM {COUNTS}, places", PLACES, "DP-SQL-007"),
        (f"SELECT n FROM {COUNTS} JOIN places ON n = name", PLACES, "DP-SQL-007"),
        (f"SELECT name FROM {COUNTS}, places", PLACES.replace("places.csv", "no.csv"), "DP-DATA"),
        (f"SELECT name FROM {COUNTS}, places", PLACES.replace("name:", "town:"), "DP-SQL-007"),
        (f"SELECT town FROM {COUNTS}, places", PLACES.replace("name:", "town:"), "DP-DATA-002"),
        (
            f"SELECT city AS name FROM {COUNTS}, places",
            PLACES.replace("places.csv", "people.csv"),
            "DP-JOIN-003",
        ),
    ],
)
def test_impossible_public_tables_are_refused(
    folder: Path, tmp_path: Path, statement: str, places: str, code: str
) -> None:
    schemas = _with_places(folder, places)
    with pytest.raises(DpReleaseError, match=code) as caught:
        dprelease.sql(statement, schemas, epsilon=1)
    assert "no budget was spent" in str(caught.value)


def test_public_values_have_their_declared_types(folder: Path) -> None:
    """Cells that can't be read are missing, and columns that the statement does not name unread."""
    schemas = _with_places(
        folder,
        "table: places\npublic: true\nsource: places.csv\ncolumns:\n  name: {type: text}\n"
        "  year: {type: integer}\n  share: {type: number}\n  day: {type: date}\n"
        "  kind: {type: category, values: [old, new]}\n  absent: {type: text}\n"
        "  later: {type: number, expression: year + 1}\n",
    )
    rows = "Bern,2001,0.5,2020-01-02,old\nRome,x,nan,2020-13-40,young\nRome,9,1,2020-01-02,new\n"
    (folder / "places.csv").write_text("name,year,share,day,kind\n" + rows)
    statement = (
        "SELECT name, year, share, day, kind, later, some FROM places, "
        "(SELECT COUNT(*) > 0 AS some FROM people) ORDER BY name, year NULLS FIRST"
    )
    found = dprelease.sql(statement, schemas, epsilon=100)
    plain = found.astype(object).where(found.notna(), None).to_numpy().tolist()
    day = date(2020, 1, 2)
    assert plain == [
        ["Bern", 2001, 0.5, day, "old", 2002, True],
        ["Rome", None, None, None, "young", None, True],
        ["Rome", 9, 1, day, "new", 10, True],
    ]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_names_are_case_insensitive(folder: Path, statement: str) -> None:
    schemas = _with_places(folder)
    known = {(t := read_table(path).table).name: t for path in schemas}
    tokens = [t for t in DuckDB().tokenize(statement) if t.token_type is TokenType.VAR]
    swapped = statement
    for token in tokens:
        start, end = token.start, token.end + 1
        swapped = swapped[:start] + swapped[start:end].swapcase() + swapped[end:]
    assert swapped != statement
    written, other = (split_statement(text, known) for text in (statement, swapped))
    assert repr(written).casefold() == repr(other).casefold()


def test_private_keys_in_statements(tmp_path: Path) -> None:
    rows = [f"2024-01-01,1,{'Rome' if i % 2 else 'Bern'},3,2.5\n" for i in range(400)]
    (tmp_path / "t.csv").write_text("day,adult,place,age,pay\n" + "".join(rows))
    text = KINDS.replace("{type: category, values: [Bern, Rome]}", "{type: text}")
    (tmp_path / "t.yaml").write_text(text)
    statement = "SELECT place, COUNT(*) AS n FROM t GROUP BY ROLLUP (place) ORDER BY place"
    words = ["sql", statement, "--schema", str(tmp_path / "t.yaml"), "--epsilon", "10"]
    words += ["--private-keys", "place", "--json"]
    done = CliRunner().invoke(cli.app, [*words, "--delta", "1e-3"])
    assert done.exit_code == 0, done.output
    assert [row["place"] for row in json.loads(done.output)["rows"]] == ["Bern", "Rome", None]
    for more, code in (([], "DP-BUDGET-011"), (["--private-keys", "age"], "DP-SQL-006")):
        refused = CliRunner().invoke(cli.app, [*words, *more])
        assert refused.exit_code in (2, 3)
        assert code in refused.output
    computed = "SELECT upper(left(place, 2)) AS p, COUNT(*) AS n FROM t GROUP BY p ORDER BY p"
    found = dprelease.sql(computed, tmp_path / "t.yaml", epsilon=10, delta=1e-3, private_keys=["p"])
    assert list(found["p"]) == ["BE", "RO"]
    with pytest.raises(DpReleaseError, match="DP-QUERY-002"):
        dprelease.sql(computed, tmp_path / "t.yaml", epsilon=10, delta=1e-3)
    for wrong in (3, [3]):
        with pytest.raises(DpReleaseError, match="DP-SESSION-016"):
            dprelease.sql(statement, tmp_path / "t.yaml", epsilon=1, private_keys=wrong)  # type: ignore[arg-type]


def test_grouping_sets_keep_names_of_aggregates(tmp_path: Path) -> None:
    """Unless such a name is also that of a column, which the keys may mean."""
    rows = [f"2024-01-01,1,{'Rome' if i % 2 else 'Bern'},3,2.5\n" for i in range(40)]
    (tmp_path / "t.csv").write_text("day,adult,place,age,pay\n" + "".join(rows))
    (tmp_path / "t.yaml").write_text(KINDS)
    statement = "SELECT place, COUNT(*) AS n, SUM(age) AS years, SUM(age) + 1 AS m FROM t "
    out = tmp_path / "out"
    sql = statement + "GROUP BY ROLLUP (place)"
    found = dprelease.sql(sql, tmp_path / "t.yaml", epsilon=1, output=out)
    assert list(found.columns) == ["place", "n", "years", "m"]
    published = [set(pq.read_schema(one).names) for one in out.glob("*.parquet")]
    assert len(published) == 2
    assert all({"n", "years"} <= names for names in published)
    same = "SELECT place, COUNT(*) AS day, SUM(age) AS n FROM t GROUP BY ROLLUP (place)"
    assert list(dprelease.sql(same, tmp_path / "t.yaml", epsilon=1).columns) == [
        "place",
        "day",
        "n",
    ]
