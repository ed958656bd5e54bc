"""Statements over rows with missing and undeclared values, compared with DuckDB at a huge budget."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.errors import QueryError
from tests.sql_conformance.test_statements import EPSILON, plain

pytestmark = pytest.mark.usefixtures("replayed_noise")

SCHEMA = """\
table: people
source: {frame: people}
privacy_unit: {id: id, max_groups: 1, max_rows_per_group: 1}
columns:
  id: {type: integer}
  city: {type: category, values: [Bern, Oslo, Rome, other], others: other, fill: Rome}
  town: {type: category, values: [A, B, C], fill: C}
  kind: {type: category, values: [cat, dog]}
  code: {type: category, values: [a1, a2, b1]}
  age: {type: integer, lower: 0, upper: 99}
  band: {type: integer, lower: 1, upper: 10, fill: 3}
  flag: {type: boolean, fill: "true"}
  pay: {type: number, lower: 0, upper: 100, step: "0.5", fill: 5}
  day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
  born: {type: date, lower: 1920-01-01, upper: 2020-12-31, fill: 2000-01-01}
  job: {type: text}
  seen: {type: timestamp}
"""
TOWNS = """\
table: towns
public: true
source: {frame: towns}
columns:
  code: {type: text}
  coast: {type: category, values: [sea, land]}
  kind: {type: category, values: [cat, dog]}
"""
ROWS = 500


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    drawn = random.Random(7)
    start = date(2020, 1, 1)

    def column(*values: object) -> pd.Series[Any]:
        return pd.Series([drawn.choice(values) for _ in range(ROWS)], dtype=object)

    return pd.DataFrame(
        {
            "id": range(ROWS),
            "city": column("Bern", "Oslo", "zzz", None),
            "town": column("A", "B", None, None),
            "kind": column("cat", "cat", "dog"),
            "code": column("a1", "a2", "b1", "b1"),
            "age": pd.Series([i * 37 % 100 for i in range(ROWS)]),
            "band": column(1, 5, 9, None, None).astype("Int64"),
            "flag": column(True, False, None, None),
            "pay": column(0, 10.5, 99.5, None).astype("Float64"),
            "day": [start + timedelta(i * 11 % 366) for i in range(ROWS)],
            "born": column(date(1950, 1, 1), date(1960, 5, 5), None),
            "seen": pd.to_datetime([start + timedelta(i % 40, 60 * i) for i in range(ROWS)]),
            "job": column("cook", "nurse", "smith").astype("str"),
        }
    )


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("messy") / "people.yaml"
    path.write_text(SCHEMA)
    path.with_name("towns.yaml").write_text(TOWNS)
    return path


def towns() -> pd.DataFrame:
    """Return a public table with a column name that the people have as well."""
    columns = {"code": ["a1", "a2"], "coast": ["sea", "land"], "kind": ["dog", "cat"]}
    return pd.DataFrame(columns, dtype="str")


@pytest.fixture(scope="module")
def exact(frame: pd.DataFrame) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as link:
        link.register("people", frame)
        link.register("towns", towns())
        yield link


def ask(text: str, schema: Path, frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
    schemas, frames = [schema], {"people": frame}
    if "towns" in text:
        schemas, frames = [schema, schema.with_name("towns.yaml")], frames | {"towns": towns()}
    return dprelease.sql(text, schemas, epsilon=EPSILON, frames=frames, **options)


COUNTED = ["city", "town", "code", "age", "band", "flag", "born"]
FILTERED = [
    *(f"{name}({column})" for name in ("COUNT", "MODE") for column in COUNTED if column != "age"),
    *(f"COUNT(DISTINCT {column})" for column in COUNTED),
    *(f"{name}({column})" for name in ("SUM", "MEDIAN") for column in ("age", "band", "pay")),
    *("AVG(flag)", "SUM(flag)", "VAR_POP(band)", "STDDEV(pay)"),
]


@pytest.mark.parametrize("aggregate", FILTERED)
def test_filter_selects_rows_as_where_does(
    aggregate: str, schema: Path, frame: pd.DataFrame
) -> None:
    """FILTER changes which rows an aggregate reads, and not what `fill` and `others` replace."""
    condition = "age < 70 AND kind = 'cat'"
    filtered = f"SELECT {aggregate} FILTER (WHERE {condition}) AS v FROM people"
    where = f"SELECT {aggregate} AS v FROM people WHERE {condition}"
    assert plain(ask(filtered, schema, frame)) == plain(ask(where, schema, frame))


N = "WITH c AS (SELECT kind, code, COUNT(*) AS n FROM people GROUP BY kind, code) "
ANSWERED = [
    # names of keys, and keys with the name of their table
    "SELECT kind AS code, code AS kind, COUNT(*) AS n FROM people GROUP BY CUBE (kind, code) "
    "ORDER BY 1, 2, 3",
    "SELECT p.kind AS k, p.code, COUNT(*) AS n FROM people p GROUP BY ROLLUP (kind, code) "
    "ORDER BY ALL",
    "SELECT kind, SUM(p.age) AS s FROM people p GROUP BY ROLLUP (p.kind) HAVING SUM(age) > 0 "
    "ORDER BY kind",
    # sub-queries in the place of a value
    N + "SELECT kind, n / (SELECT SUM(n) FROM c) AS share FROM c ORDER BY share",
    N + "SELECT (SELECT MAX(n) FROM c) AS m, (SELECT kind FROM c ORDER BY n DESC LIMIT 1) AS k",
    N + "SELECT DISTINCT a.code, (SELECT b.n FROM c b WHERE b.code = a.code AND kind = 'cat') AS n "
    "FROM c a ORDER BY code",
    N + "SELECT kind, code FROM c WHERE n = (SELECT n FROM c WHERE n = (SELECT MAX(n) FROM c))",
    N + "SELECT kind FROM c WHERE n IN (SELECT n FROM c) AND EXISTS (SELECT n FROM c) ORDER BY 1",
    # parts of dates before and after the noise
    "SELECT EXTRACT(DOW FROM DATE '2020-05-03') AS d, COUNT(*) AS n FROM people",
    "SELECT day, EXTRACT(DOW FROM day) AS d, date_part('week', day) AS w, COUNT(*) AS n "
    "FROM people GROUP BY day ORDER BY day LIMIT 9",
    "SELECT EXTRACT(WEEK FROM day) AS w, COUNT(*) AS n FROM people GROUP BY w ORDER BY w",
    "SELECT COUNT(*) AS n FROM people WHERE week(day) = 5 OR date_part('week', day) > 50",
    # sums of computed values, windows and their frames
    N + "SELECT SUM(n * 2) FILTER (WHERE kind = 'cat') AS s, AVG(DISTINCT n + 1) AS a FROM c",
    N + "SELECT kind, code, SUM(n * 2) OVER (PARTITION BY kind ORDER BY code) AS s FROM c "
    "ORDER BY kind, code",
    N + "SELECT code, AVG(n + 0) OVER w AS s, STDDEV(n) OVER w AS t FROM c WINDOW w AS "
    "(ORDER BY kind, code ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) ORDER BY kind, code",
    N + "SELECT kind, code, LAG(n, 2, 0) OVER (ORDER BY kind, code) AS l, "
    "NTILE(2) OVER (ORDER BY kind, code) AS t FROM c ORDER BY kind, code",
    N + "SELECT SUBSTRING(code, 1, 1) AS c, RIGHT(code, 1) AS r, SUM(n) AS n FROM c GROUP BY 1, 2 "
    "ORDER BY 1, 2",
    # joins with a table that has a column of the same name, and with sub-queries of it
    "SELECT coast, p.kind, COUNT(*) AS n FROM people p JOIN towns USING (code) "
    "GROUP BY coast, p.kind ORDER BY ALL",
    "SELECT t.coast, COUNT(*) AS n FROM people p LEFT JOIN towns t ON p.code = t.code "
    "WHERE t.coast IS NOT NULL GROUP BY t.coast ORDER BY ALL",
    "SELECT p.kind, t.coast, SUM(age) AS s FROM people p JOIN towns t ON p.code = t.code "
    "GROUP BY ROLLUP (p.kind, t.coast) ORDER BY ALL",
    "SELECT c, COUNT(*) AS n FROM people JOIN (SELECT code AS k, coast AS c FROM towns) ON code = k "
    "GROUP BY c ORDER BY c",
    "SELECT SUM(w) AS w, COUNT(*) AS n FROM people JOIN (SELECT code, CASE WHEN coast = 'sea' "
    "THEN 2 ELSE 1 END AS w FROM towns WHERE coast = 'land') USING (code)",
    "SELECT COUNT(*) AS n FROM people p, towns t WHERE p.code = t.code AND t.coast = 'sea'",
    # dates with intervals, differences of dates, and functions of dates in conditions
    "SELECT COUNT(*) AS n FROM people WHERE day >= DATE '2020-06-01' + INTERVAL 30 DAY",
    "SELECT COUNT(*) AS n FROM people WHERE day < DATE '2020-03-31' - INTERVAL 1 MONTH",
    "SELECT COUNT(*) AS n FROM people WHERE day + INTERVAL 2 WEEKS >= DATE '2020-06-01'",
    "SELECT COUNT(*) AS n FROM people WHERE day BETWEEN DATE '2020-02-01' AND DATE '2020-02-01' "
    "+ INTERVAL '10 days'",
    "SELECT COUNT(*) AS n FROM people WHERE born + INTERVAL 22000 DAY < day - INTERVAL 1 DAY",
    "SELECT COUNT(*) AS n, AVG(day - DATE '2020-01-01') AS d FROM people "
    "WHERE day - DATE '2020-03-01' > 30",
    "SELECT COUNT(*) FILTER (WHERE date_trunc('month', day) = DATE '2020-02-01') AS m, "
    "COUNT(*) FILTER (WHERE strftime(day, '%b %Y') = 'May 2020') AS s, "
    "COUNT(*) FILTER (WHERE make_date(2020, month(day), 1) = day) AS f FROM people",
    "SELECT date_trunc('month', make_date(2020, month(day), 1)) AS m, COUNT(*) AS n FROM people "
    "GROUP BY m ORDER BY m",
    "SELECT COUNT(*) FILTER (WHERE seen::DATE = '2020-01-09') AS a, "
    "COUNT(*) FILTER (WHERE CAST(seen AS DATE) < DATE '2020-01-05' + INTERVAL 3 DAY) AS b FROM people",
    # texts that are computed from declared values
    "SELECT LEFT(code, 1) AS c, COUNT(*) AS n FROM people GROUP BY c ORDER BY c",
    "SELECT UPPER(TRIM(kind)) AS k, SUBSTR(code, 2) AS c, COUNT(*) AS n FROM people GROUP BY ALL "
    "ORDER BY ALL",
    "SELECT COUNT(DISTINCT LEFT(code, 1)) AS c, MODE(UPPER(kind)) AS m FROM people",
    "SELECT make_date(2020, month(day), 1) AS m, COUNT(*) AS n FROM people GROUP BY month(day) "
    "ORDER BY m",
    # times and dates in one comparison, and intervals of all units
    "SELECT COUNT(*) AS n FROM people WHERE seen >= DATE '2020-01-20' AND seen < day",
    "SELECT COUNT(*) AS n FROM people WHERE day IN (DATE '2020-01-20', DATE '2020-02-11') OR "
    "seen BETWEEN DATE '2020-01-20' AND TIMESTAMP '2020-01-22 12:00:00'",
    "SELECT COUNT(*) AS n FROM people WHERE seen <= day + INTERVAL 36 HOUR AND day < seen + "
    "INTERVAL 1 MONTH AND seen - INTERVAL 90 MINUTE > DATE '2020-01-05'",
    "SELECT COUNT(*) FILTER (WHERE seen - TIMESTAMP '2020-01-05 07:30:00' <= INTERVAL 7 DAY) AS n, "
    "COUNT(*) FILTER (WHERE born + INTERVAL 60 YEAR > day) AS b FROM people",
    # parts and units of dates as keys, and as values
    "SELECT week(day) AS w, COUNT(*) AS n FROM people GROUP BY w ORDER BY w",
    "SELECT date_diff('week', DATE '2020-06-03', day) AS w, COUNT(*) AS n FROM people GROUP BY w "
    "HAVING n > 0 ORDER BY w",
    "SELECT AVG(week(day)) AS w, SUM(date_diff('week', DATE '2020-02-02', day)) AS s FROM people",
    "SELECT make_date(year(day), month(day), 1) AS m, COUNT(*) AS n FROM people GROUP BY m ORDER BY m",
    "SELECT date_trunc('day', day) AS d, COUNT(*) AS n FROM people GROUP BY d ORDER BY d",
    "SELECT make_date(year(day), month(day), day(day)) AS d, COUNT(*) AS n FROM people GROUP BY d "
    "ORDER BY d",
    "SELECT strftime(day, '%a %-d.%m.%Y') AS d, COUNT(*) AS n FROM people GROUP BY d ORDER BY d",
    "SELECT d::DATE AS d, COUNT(*) AS n FROM (SELECT CAST(day AS DATE) AS d FROM people) GROUP BY 1 "
    "ORDER BY 1",
    "SELECT ROUND(pay, -1) AS p, COUNT(*) AS n FROM people GROUP BY p HAVING n > 0 AND p > 0 ORDER BY p",
    "SELECT ROUND(pay / 7, 1) AS p, COUNT(*) AS n FROM people GROUP BY p HAVING n > 0 AND p > 0 ORDER BY p",
    "SELECT SUM(ROUND(pay / 7, 2)) AS s, AVG(ROUND(age, -1)) AS a FROM people",
    "SELECT REGR_R2(age, band) * 1000 AS r FROM people WHERE age > 3 AND band < 10",
    "SELECT SUM(if(flag, age, 0)) AS s FROM people WHERE flag IS NOT NULL",
    "SELECT AVG(epoch(day) - epoch(DATE '2020-01-01')) AS s, MAX(EXTRACT(EPOCH FROM day)) AS m "
    "FROM people",
]


@pytest.mark.parametrize("text", ANSWERED)
def test_answers_equal_duckdb(
    text: str, schema: Path, frame: pd.DataFrame, exact: duckdb.DuckDBPyConnection
) -> None:
    found, expected = ask(text, schema, frame), exact.execute(text).df()
    assert list(found.columns) == list(expected.columns)
    assert plain(found) == plain(expected)


TIMES = """\
table: people
source: {frame: people}
privacy_unit: {id: id, max_groups: 1, max_rows_per_group: 1}
columns:
  id: {type: integer}
  day: {type: date, lower: 2020-01-01, upper: 2020-12-31}
  seen: {type: timestamp, lower: 2020-01-01, upper: 2020-03-01 12:00:00}
"""
OF_TIMES = [
    "SELECT CAST(seen AS DATE) AS d, COUNT(*) AS n FROM people GROUP BY d HAVING n > 0 ORDER BY d",
    "SELECT date_trunc('day', seen) AS d, COUNT(*) AS n FROM people GROUP BY d HAVING n > 0 "
    "ORDER BY d",
    "SELECT date_trunc('hour', seen) AS h, COUNT(*) AS n FROM people GROUP BY h HAVING n > 0 "
    "ORDER BY h",
    "SELECT strftime(seen, '%Y-%m-%d') AS d, COUNT(*) AS n FROM people GROUP BY d HAVING n > 0 "
    "ORDER BY d",
    "SELECT make_date(year(seen), month(seen), day(seen)) AS d, COUNT(*) AS n FROM people "
    "GROUP BY d HAVING n > 0 ORDER BY d",
    "SELECT AVG(EXTRACT(EPOCH FROM (seen - TIMESTAMP '2020-01-01')) / 3600) AS h FROM people",
    "SELECT date_diff('week', TIMESTAMP '2020-01-15 20:00:00', seen) AS w, COUNT(*) AS n "
    "FROM people WHERE seen < DATE '2020-01-08' GROUP BY ALL HAVING n > 0 ORDER BY w",
    "SELECT second(seen) AS s, COUNT(*) AS n FROM people GROUP BY s HAVING n > 0",
]


@pytest.mark.parametrize("text", OF_TIMES)
def test_units_of_times(
    text: str, schema: Path, frame: pd.DataFrame, exact: duckdb.DuckDBPyConnection
) -> None:
    path = schema.with_name("times.yaml")
    path.write_text(TIMES)
    options: dict[str, Any] = {"epsilon": EPSILON, "mechanism": "discrete_laplace"}
    found = dprelease.sql(text, path, frames={"people": frame}, **options)
    assert plain(found) == plain(exact.execute(text).df())


PARAMETERS = [
    pd.Timestamp("2020-01-20 06:00"), datetime(2020, 1, 20, 6), date(2020, 1, 20), "2020-01-20",
    np.datetime64("2020-01-20T06"), np.datetime64("2020-01-20"),
]  # fmt: skip


@pytest.mark.parametrize("value", PARAMETERS, ids=repr)
@pytest.mark.parametrize("column", ["seen", "day"])
def test_parameters_of_times(
    column: str, value: Any, schema: Path, frame: pd.DataFrame, exact: duckdb.DuckDBPyConnection
) -> None:
    text = f"SELECT COUNT(*) AS n FROM people WHERE {column} >= $1"
    expected = exact.execute(text.replace("$1", f"TIMESTAMP '{pd.Timestamp(value)}'")).df()
    assert plain(ask(text, schema, frame, params=[value])) == plain(expected)


WRONG = [
    (pd.Timestamp("2020-01-20", tz="UTC"), "time zone"), (pd.Timestamp(1), "nanoseconds"),
    ([1], "type list"), (timedelta(1), "type timedelta"), (pd.NaT, "NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), WRONG)
def test_other_parameters_are_refused(
    value: Any, reason: str, schema: Path, frame: pd.DataFrame
) -> None:
    with pytest.raises(QueryError, match=reason):
        ask("SELECT COUNT(*) FROM people WHERE seen >= ?", schema, frame, params=[value])


WITHOUT_VALUE = [
    N + "SELECT (SELECT n FROM c WHERE n > 0) AS v",  # several rows
    N + "SELECT SUM(n * 1e306) AS v FROM c",  # infinity
    N + "SELECT SUM(CAST(n * 1e36 AS HUGEINT)) AS v FROM c",  # an error of DuckDB
    N + "SELECT AVG(n * 1e300) OVER () AS v FROM c LIMIT 1",
    "SELECT make_date(2020, 2, 30 + COUNT(*)) AS v FROM people",
    "SELECT make_date(CAST(COUNT(*) * 1e9 AS BIGINT), 1, 1) AS v FROM people",
]


@pytest.mark.parametrize("text", WITHOUT_VALUE)
def test_undefined_values_are_null(text: str, schema: Path, frame: pd.DataFrame) -> None:
    assert ask(text, schema, frame)["v"].isna().all()


REFUSED = [
    (N + "SELECT (SELECT n FROM c) AS v", "a row for each key"),
    (N + "SELECT n > (SELECT 2 * n FROM (SELECT n FROM c)) AS v FROM c", "a row for each key"),
    (N + "SELECT NTILE(n + 1) OVER () FROM c", "NTILE with a computed value"),
    (N + "SELECT LAG(n, n) OVER () FROM c", "LAG with a computed value"),
    (N + "SELECT DP_INTERVAL_LOW(n) FROM c", "it needs the aggregate itself"),
    (
        "SELECT t.kind, COUNT(*) FROM people p JOIN towns t USING (code) GROUP BY ALL",
        "write p.kind",
    ),
    ("SELECT kind, COUNT(*) FROM people p JOIN towns t USING (code) GROUP BY ALL", "write p.kind"),
    (
        "SELECT COUNT(*) FROM people JOIN (SELECT * FROM towns WHERE kind = 'cat') USING (code)",
        "both tables have a column 'kind'",
    ),
    ("SELECT COUNT(*) FROM people WHERE seen - day < INTERVAL 1 MONTH", "INTERVAL 30 DAY"),
    ("SELECT COUNT(*) FROM people WHERE INTERVAL 1 DAY > seen", "added to a date or a time"),
    ("SELECT AVG(day + INTERVAL 1 DAY) FROM people", "an instant"),
    ("SELECT time_bucket(INTERVAL 7 DAY, day) AS w, COUNT(*) FROM people GROUP BY w", "date_trunc"),
    ("SELECT seen::DATE AS d, COUNT(*) FROM people GROUP BY d", "declare lower and upper"),
    ("SELECT strftime(day, '%A') AS d, COUNT(*) FROM people GROUP BY d", "dayname"),
    (
        "SELECT make_date(2020, month(day), 1) AS d, COUNT(*) FROM people GROUP BY d",
        "GROUP BY MONTH",
    ),
    ("SELECT to_char(day, 'YYYY') AS d, COUNT(*) FROM people GROUP BY d", "STRFTIME"),
    ("SELECT COUNT(*) FROM people WHERE to_char(day, 'YYYY') = '2020'", "TO_CHAR"),
    ("SELECT SUM(age * flag) FROM people", "if.flag, 1, 0."),
    ("SELECT AVG(LEAST(pay / age, 9)) FROM people", "pay / GREATEST.age, 1. with age IS NOT NULL"),
    ("SELECT AVG(ROUND(pay, age)) FROM people", "constant from -15 to 15"),
    ("SELECT AVG(date_diff('decade', born, day)) FROM people", "'week', 'day'"),
    ("SELECT MAX(id) FROM people", "aggregate of 'id'"),
    ("SELECT REGR_SXX(age, pay) FROM people", "VAR_POP.pay. . COUNT"),
    ("SELECT REGR_COUNT(age, pay) FROM people", "age IS NOT NULL AND pay IS NOT NULL"),
    ("PIVOT people ON kind USING COUNT(*)", "FILTER"),
    ("SELECT COUNT(*) FROM towns", "public tables only"),
    ("SELECT COUNT(*) FROM nowhere", "not declared"),
    ("SELECT COUNT(*) FROM people WHERE DATE '2020-01-01' + INTERVAL 9000 YEAR > day", "9999"),
    ("SELECT knd, COUNT(*) FROM people GROUP BY kind", "did you mean 'kind'"),
    ("SELECT COUNT(*) FROM people WHERE kind = 1", "no declared value of 'kind'"),
    ("SELECT COUNT(*) FROM people WHERE age > 3 & flag", "write AND"),
    ("SELECT COUNT(*) FROM people WHERE strptime(job, '%d') > day", "a constant"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_refusals_name_the_reason(
    text: str,
    reason: str,
    schema: Path,
    frame: pd.DataFrame,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(QueryError, match=reason):
        ask(text, schema, frame)
    assert not caplog.records


def test_intervals_of_sets_of_keys(schema: Path, frame: pd.DataFrame) -> None:
    text = (
        "SELECT kind AS k, COUNT(*) AS n, DP_INTERVAL_LOW(COUNT(*)) AS low, DP_INTERVAL_HIGH(n) "
        "AS high FROM people GROUP BY ROLLUP (kind) ORDER BY k"
    )
    found = ask(text, schema, frame)
    assert found["k"].tolist()[:2] == ["cat", "dog"]
    assert (found["low"] <= found["n"]).all()
    assert (found["n"] <= found["high"]).all()


def test_population_variance_of_no_rows_has_an_interval(schema: Path, frame: pd.DataFrame) -> None:
    text = (
        "SELECT kind, VAR_POP(age) AS v, STDDEV_POP(age) AS s FROM people WHERE FALSE GROUP BY kind"
    )
    found = dprelease.sql(text, schema, epsilon=1, frames={"people": frame}, margins=True)
    ends = found[["v_lower", "v_upper", "s_lower", "s_upper"]]
    assert ends.notna().all(axis=None)


@pytest.mark.parametrize("private", [True, ["job"], "job"])
def test_private_keys_next_to_a_total(private: Any, schema: Path, frame: pd.DataFrame) -> None:
    """A SELECT without GROUP BY has no keys that could be private."""
    text = (
        "SELECT job, COUNT(*) / (SELECT COUNT(*) FROM people) AS share FROM people GROUP BY job "
        "ORDER BY job"
    )
    shares = frame["job"].value_counts(normalize=True).sort_index()
    session = dprelease.Session(schema, epsilon=EPSILON, delta="1e-3", ledger=None)
    mine = frame.copy()  # a frame belongs to one session
    mine.dp.use(session)
    terms: dict[str, Any] = {
        "delta": "1e-3", "private_keys": private, "mechanism": "discrete_laplace",
    }  # fmt: skip
    found = [ask(text, schema, frame, **terms), mine.dp.sql(text, epsilon=EPSILON, **terms)]
    for answer in found:
        assert answer["job"].tolist() == shares.index.tolist()
        assert answer["share"].to_numpy() == pytest.approx(shares.to_numpy(), rel=0.02)
