"""Rewritten SELECTs against DuckDB: the same results on exact rows, and bounds that hold."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dprelease.errors import DpReleaseError, Place
from dprelease.query.expressions.predicate import parse_expression, parse_predicate
from dprelease.query.outer_sql.parsing import PositionsFromOne
from dprelease.query.sql_rewrites.aggregate_forms import with_known_names
from dprelease.query.sql_rewrites.grouping_sets import expand_grouping_sets
from dprelease.query.sql_rewrites.row_forms import row_form
from dprelease.query.sql_rewrites.select_rows import rewrite_rows
from dprelease.query.sql_rewrites.value_ranges import value_range
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.table import Table
from tests.covering import examples
from tests.exact.build import ask, exact
from tests.exact.test_reference import breaches, claims

ONE = {"max_groups": 1, "max_rows_per_group": 1}
PEOPLE: dict[str, Any] = {
    "id": {"type": "integer"},
    "sex": {"type": "category", "values": ["F", "M"]},
    "city": {"type": "category", "values": ["Bern", "Oslo"]},
    "age": {"type": "integer", "lower": -3, "upper": 70},
    "pay": {"type": "number", "lower": 0, "upper": 900, "step": "0.25"},
    "adult": {"type": "boolean"},
    "day": {"type": "date", "lower": "2019-11-05", "upper": "2021-02-20"},
    "name": {"type": "text"},
}
VISITS = {"id": {"type": "integer"}, "reason": {"type": "category", "values": ["flu", "leg"]}}
PLACES = {"code": {"type": "text"}, "country": {"type": "category", "values": ["CH", "NO"]}}
TOWNS = {"city": {"type": "text"}, "size": {"type": "integer", "lower": 0, "upper": 9}}


def declare_table(name: str, columns: dict[str, Any], **more: Any) -> Declared:
    return table_from_mapping({"table": name, "columns": columns, **more}, Path())


TABLES: dict[str, Table] = {
    one.table.name: one.table
    for one in (
        declare_table("people", PEOPLE, privacy_unit={"id": "id", **ONE}),
        declare_table("visits", VISITS, privacy_unit={"id": "id", **ONE}),
        declare_table("places", PLACES, public="true"),
        declare_table("towns", TOWNS, public="true"),
    )
}
AGES = [None, -3, -2, 0, 7, 17, 18, 39, 40, 70]
PAYS = [None, 0.0, 0.25, 10.5, 899.75, 900.0]
DAYS = [None, *(date(*d) for d in ((2019, 11, 5), (2020, 1, 1), (2020, 2, 29), (2021, 2, 20)))]
ROWS = [
    (i, "FM"[i % 2] if i % 7 else None, ["Bern", "Oslo", None][i % 3], age, pay, i % 4 > 1,
     DAYS[i % 5], f"n{i % 3}")
    for i, (age, pay) in enumerate(product(AGES, PAYS))
]  # fmt: skip
TYPES = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.date32(),
         pa.string())  # fmt: skip
DATA = {
    "people": pa.table(
        [
            pa.array(values, kind)
            for values, kind in zip(zip(*ROWS, strict=True), TYPES, strict=True)
        ],
        names=list(PEOPLE),
    ),
    "visits": pa.table({"id": [1, 2, 5, 99], "reason": ["flu", "leg", "flu", "leg"]}),
    "places": pa.table({"code": ["Bern", "Rome"], "country": ["CH", None]}),
    "towns": pa.table({"city": ["Oslo"], "size": [3]}),
}


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in DATA.items():
        connection.register(name, rows)
    return connection


def public_rows(query: exp.Query) -> list[tuple[object, ...]]:
    """Return the rows of a query over the public tables."""
    with duckdb.connect() as connection:
        for name in ("places", "towns"):
            connection.register(name, DATA[name])
        return connection.execute(query.sql("duckdb")).fetchall()


def select_of(text: str) -> exp.Select:
    """Return a parsed SELECT."""
    tree = sqlglot.parse_one(text, read="duckdb")
    tree = with_known_names(tree)
    assert isinstance(tree, exp.Select)
    return tree


def rewrite_select(text: str) -> str:
    """Return the rewritten SELECT over a sub-query with its computed and joined columns."""
    tree = select_of(text)
    found = rewrite_rows(tree, TABLES, public_rows)
    table = TABLES[tree.args["from_"].this.name]
    join, rows, columns = found.join, table.name, dict(table.columns)
    if join is not None:
        right = TABLES[str(join["table"])]
        pairs: Any = join.get("on", {table.unit.id: table.unit.id})
        kind = "JOIN" if join.get("unmatched") == "drop" or "on_unit" in join else "LEFT JOIN"
        on = " AND ".join(f"a.{left} = b.{name}" for left, name in pairs.items())
        added = {n: c for n, c in right.columns.items() if n not in pairs or pairs[n] != n}
        shown = "".join(f", b.{name}" for name in added)
        rows, columns = (
            f"(SELECT a.*{shown} FROM {rows} a {kind} {right.name} b ON {on})",
            columns | added,
        )
    view = table.model_copy(update={"columns": columns})
    computed = "".join(
        f", {typed_sql(spec, view)} AS {name}" for name, spec in found.derive.items()
    )
    tree.args["from_"].set(
        "this", sqlglot.parse_one(f"(SELECT *{computed} FROM {rows})", read="duckdb")
    )
    return tree.sql("duckdb")


def typed_sql(spec: Any, view: Table) -> str:
    """Return the SQL of a computed column; floats of integer columns are read as integers."""
    sql = parse_expression(str(spec["expression"]), view, Place())[0].sql
    return f"CAST({sql} AS BIGINT)" if spec["type"] == "integer" else sql


LISTED: list[dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "sql_rewrites.yaml").read_text()
)
REFUSED = [one for one in LISTED if one["expect"] == "refused"]
IN_SETS = re.compile("ROLLUP|CUBE|GROUPING SETS")
ANSWERED = [one["sql"] for one in LISTED if one["expect"] == "answered"]
GROUPED = [text for text in ANSWERED if IN_SETS.search(text)]
ANSWERED = [text for text in ANSWERED if text not in GROUPED]


def results(engine: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    rows = engine.execute(sql).fetchall()
    return sorted(rows, key=lambda row: [(value is None, str(value)) for value in row])


@pytest.mark.parametrize("text", ANSWERED)
def test_rewritten_statements_equal_the_engine(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    """Without noise and bounds; all values of these rows are declared."""
    found, expected = results(engine, rewrite_select(text)), results(engine, text)
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert list(row) == [
            pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for value in other
        ]


SPELLINGS = [
    "age // 7 = 1", "trunc(age / 7) > 2", "sign(age) = 1", "pow(age, 2) > 300", "log2(pay + 1) > 4", "age ** 2 < 50",
    "CAST(age / 4 AS INTEGER) = 2", "adult::INT = 1", "CASE city WHEN 'Bern' THEN 1 ELSE 2 END = 1",
    "dayname(day) = 'Wednesday'", "monthname(day) <> 'May'", "dayofweek(day) > 3", "weekday(day) = 3",
    "EXTRACT(month FROM day) > 2", "date_part('year', day) = 2020", "date_diff('month', DATE '2019-12-31', day) = 2",
    "date_add(day, INTERVAL 1 MONTH) > '2020-03-01'", "day - DATE '2020-01-01' > 20",
]  # fmt: skip
"""Conditions in spellings that are replaced."""


@pytest.mark.parametrize("text", SPELLINGS)
def test_conditions_in_other_spellings_equal_the_engine(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    sql, ids = parse_predicate(text, TABLES["people"], Place()).sql, "SELECT id FROM people WHERE "
    found = results(engine, ids + sql)
    assert found == results(engine, ids + text)
    assert found


@pytest.mark.parametrize("text", ANSWERED)
def test_rewritten_statements_keep_column_names(text: str) -> None:
    tree = select_of(text)
    names = names_of(tree)
    rewrite_rows(tree, TABLES, public_rows)
    assert names_of(tree) == names


def names_of(tree: exp.Select) -> list[str]:
    return [
        item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql("duckdb")
        for item in tree.expressions
    ]


@pytest.mark.parametrize("text", ANSWERED)
def test_computed_values_are_within_their_bounds(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    """No value of rows within declared bounds is clamped, and no key is left out."""
    tree = select_of(text)
    found = rewrite_rows(tree, TABLES, public_rows)
    if found.join is not None:
        return
    for spec in found.derive.values():
        sql = parse_expression(str(spec["expression"]), TABLES["people"], Place())[0].sql
        values = [value for (value,) in engine.execute(f"SELECT {sql} FROM people").fetchall()]
        present = [value for value in values if value is not None]
        if spec["type"] in ("integer", "number"):
            low, high = Fraction(str(spec["lower"])), Fraction(str(spec["upper"]))
            assert all(
                low - Fraction(1, 10**9) <= Fraction(v) <= high + Fraction(1, 10**9)
                for v in present
            )
        if spec["type"] == "integer":
            assert all(value == int(value) for value in present)
        if spec["type"] == "category":
            assert set(present) <= set(spec["values"])  # type: ignore[arg-type]


@pytest.mark.parametrize("text", GROUPED)
def test_grouping_sets_equal_the_engine(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    """NULL in the keys that a set does not contain, and one row for each group of each set."""
    tree = select_of(text)
    for item in list(tree.expressions):  # as the statement's columns are named before
        if not isinstance(item, exp.Alias | exp.Column):
            item.replace(exp.alias_(item.copy(), item.sql("duckdb"), quoted=True))
    assert expand_grouping_sets(tree, TABLES, "set_")
    names = [item.alias_or_name for item in tree.expressions]
    assert names == names_of(select_of(text))
    assert results(engine, tree.sql("duckdb")) == results(engine, text)


@pytest.mark.parametrize("listed", REFUSED, ids=[one["sql"] for one in REFUSED])
def test_other_statements_are_refused_with_a_reason(listed: dict[str, str]) -> None:
    with pytest.raises(DpReleaseError, match=listed["code"]) as caught:
        rewrite_rows(select_of(listed["sql"]), TABLES, public_rows)
    assert re.search(listed["reason"], str(caught.value)), str(caught.value)


@pytest.mark.parametrize("key", ["abs(age) - abs(age) % 10", "trunc(abs(age) / 10) * 10"])
def test_bands_have_no_further_values(key: str) -> None:
    """The multiples of 10 from 0 to 70."""
    found = rewrite_rows(select_of(f"SELECT COUNT(*) FROM people GROUP BY {key}"), TABLES)
    (declaration,) = found.derive.values()
    assert (declaration["lower"], declaration["upper"]) == ("0", "7")


REPLACED = {
    "contains(city, 'ern')": "city LIKE '%ern%'",
    "strpos(name, '%') > 0": "name LIKE '%abc%'",
    "ends_with(city, 'n')": "city LIKE '%n'",
    "right(city, 1) = 'n'": "city LIKE '%n'",
    "substr(city, -1) = 'n'": "CASE WHEN city LIKE '%n' THEN 'n' ELSE 'other' END",
    "name ~ 'a.*'": "name LIKE 'a%' OR name LIKE '_b%'",
    "replace(city, 'B', 'b') = 'bern'": "city = 'Bern'",
    "name[1:2] = 'ab'": "substr(name, 1, 2)",
    "split_part(name, '.', 1) = 'a'": "substr(name, 1, 3)",
    "city NOT IN ('Bern', NULL)": "city NOT IN ('Bern') AND city IS NOT NULL",
    "age IN (1, NULL)": "age IN (1) OR age IS NULL",
    "(sex, age) IN (('F', 1), ('M', 2))": "(sex = 'F' AND age = 1) OR (sex = 'M' AND age = 2)",
    "(sex, age) = ('F', 1)": "sex = 'F' AND age = 1",
    "age NOT IN (pay, 3)": "NOT (age = pay OR age = 3)",
    "age = ANY([1, 2])": "age IN (1, 2)",
    "name LIKE city": "starts_with(a, b)",
    "isoyear(day) = 2020": "year(date_trunc('week', day) + INTERVAL 3 DAY)",
    "date_part('isoyear', day) = 2020": "year(date_trunc('week', day) + INTERVAL 3 DAY)",
    "dayofmonth(day) = 2": "day(day)",
    "decade(day) = 202": "floor(year(day) / 10)",
    "last_day(day) = '2020-01-31'": "date_trunc('month', day)",
    "day AT TIME ZONE 'UTC' > '2020-01-01'": "day",
    "day + 3 > '2020-01-01'": "day + INTERVAL 3 DAY",
    "age::VARCHAR = '7'": "age = 1",
    "adult::VARCHAR = 'true'": "CASE WHEN adult THEN 'yes' ELSE 'no' END",
    "day::VARCHAR = '2020-01-01'": "strftime(day, '%Y-%m-%d')",
    "age::BOOLEAN": "age <> 0",
    "name::BOOLEAN": "name = 'yes'",
    "pay::DECIMAL(9, 1) = 1": "ROUND(pay, 1)",
    "sex || city = 'FBern'": "sex = 'F' AND city = 'Bern'",
    "concat_ws('-', sex, age) = 'F-1'": "sex = 'F' AND age = 1",
    "round(pay, age) = 1": "ROUND(pay, 2)",
    "list_contains(['Bern'], city)": "city IN ('Bern')",
    "day LIKE '2020%'": "strftime(day, '%Y-%m-%d')",
    "age LIKE '1%'": "age BETWEEN 10 AND 19",
    "name LIKE 'a!_b' ESCAPE '!'": "name LIKE 'a!_b'",
    "width_bucket(pay, 0, 900, 9) = 1": "floor(pay / 10) * 10",
    "day::TIMESTAMP > '2020-01-01T08:00+01:00'": "TIMESTAMP '2020-01-01 08:00:00'",
    "(age & 1) = 1": "AND, OR or NOT",
}


@pytest.mark.parametrize(("condition", "instead"), REPLACED.items())
def test_what_a_refusal_advises_is_answered(condition: str, instead: str) -> None:
    table = TABLES["people"]
    where = sqlglot.parse_one(condition, read=PositionsFromOne)
    with pytest.raises(DpReleaseError, match=r"DP-SQL-006|DP-WHERE-") as caught:
        parse_expression(row_form(where, table).sql("duckdb"), table, Place())
    assert instead in caught.value.fix
    if instead not in ("starts_with(a, b)", "AND, OR or NOT"):
        parse_expression(instead, table, Place())


@pytest.mark.parametrize("text", ["pay / age", "pay / (age + 1)"])
def test_advice_to_clamp_keeps_missing_values(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    with pytest.raises(DpReleaseError) as caught:
        rewrite_rows(select_of(f"SELECT AVG({text}) FROM people"), TABLES)
    clamped = re.search(r"CASE WHEN .*? END", str(caught.value))
    assert clamped
    rest = "FROM people WHERE age NOT IN (0, -1) OR age IS NULL"
    advised = f"SELECT AVG({clamped[0]}), COUNT({clamped[0]}) {rest}"
    expected = f"SELECT AVG(greatest(least(q, 100), 0)), COUNT(q) FROM (SELECT {text} AS q {rest})"
    found = results(engine, rewrite_select(advised))[0]
    assert found == pytest.approx(results(engine, f"{expected} WHERE q IS NOT NULL")[0])


NUMBERS = st.sampled_from(["age", "pay", "2", "0", "0.5", "7", "-3"])
CONDITIONS = st.sampled_from(["age > 3", "adult", "pay <= 10", "sex = 'F'"])


FUNCTIONS = ["abs", "floor", "ceil", "round", "sign", "-", "sqrt", "ln", "log", "log2", "log10"]


def binary_expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(
            lambda t: f"(({t[0]}) {t[1]} ({t[2]}))"
        ),
        pair.map(lambda t: f"least({t[0]}, {t[1]})"),
        pair.map(lambda t: f"greatest({t[0]}, {t[1]})"),
        pair.map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        pair.map(lambda t: f"nullif({t[0]}, {t[1]})"),
        pair.map(lambda t: f"(({t[0]}) // 4) + trunc({t[1]})"),
        st.tuples(CONDITIONS, pair).map(
            lambda t: f"CASE WHEN {t[0]} THEN {t[1][0]} ELSE {t[1][1]} END"
        ),
        st.tuples(CONDITIONS, inner).map(lambda t: f"if({t[0]}, {t[1]}, NULL)"),
        st.tuples(st.sampled_from(FUNCTIONS), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(inner, st.sampled_from([2, -1])).map(lambda t: f"round({t[0]}, {t[1]})"),
    )


@examples(60)
@given(text=st.recursive(NUMBERS, binary_expressions, max_leaves=6))
def test_expressions_are_within_range_and_on_steps(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    """Every expression over all combinations of edge values of its columns."""
    table = TABLES["people"]
    node = row_form(sqlglot.parse_one(text, read="duckdb"), table)
    found = value_range(node, table.columns)
    sql = parse_expression(node.sql("duckdb"), table, Place())[0].sql
    values = [value for (value,) in engine.execute(f"SELECT DISTINCT {sql} FROM people").fetchall()]
    assert found.missing or None not in values
    for value in values:
        if value is None:
            continue
        size = 1e-9 * max(1.0, abs(value))
        assert found.lower is None or value >= float(found.lower) - size
        assert found.upper is None or value <= float(found.upper) + size
        if found.step == 0:
            assert value == 0
        elif found.step is not None:
            quotient = value / float(found.step)
            assert abs(quotient - round(quotient)) < 1e-6 * max(1.0, abs(quotient))


NEIGHBOURS = [
    ["pay / 12"],
    ["age * age - pay"],
    ["CASE WHEN age > 3 THEN pay ELSE 0 END"],
    ["abs(age) % 7"],
    [
        "sqrt(pay)",
        "ln(pay + 1)",
        "log2(pay + 0.5)",
        "round(pay / 7, 1)",
        "round(age, -1)",
        "week(day)",
        "epoch(day) / 86400",
        "date_diff('week', DATE '2020-06-03', day)",
        "if(adult, age, 0)",
        "if(day > TIMESTAMP '2020-02-29 12:00:00' AND day + INTERVAL 1 MONTH > day, pay, 0)",
    ],
]
EDGE_DAYS = [date(year, 2, 20) for year in (1200, 2019, 2020, 2021, 9999)]
ROW = st.fixed_dictionaries(
    {
        "id": st.sampled_from([None, 1, 2, 3]),
        "age": st.sampled_from([None, -99, -3, 5, 70, 2**60]),
        "pay": st.sampled_from([None, -1.0, 0.0, 33.3, 900.0, float("nan"), float("inf")]),
        "day": st.sampled_from([None, *EDGE_DAYS]),
        "adult": st.sampled_from([None, True, False]),
    }
)


@pytest.mark.parametrize("texts", NEIGHBOURS, ids=" ".join)
@examples(8)
@given(rows=st.lists(ROW, max_size=8))
def test_sensitivity_of_computed_sums(texts: list[str], rows: list[dict[str, Any]]) -> None:
    sums = ", ".join(f"SUM({text})" for text in texts)
    tree = select_of(f"SELECT COUNT_IF(({texts[0]}) > 3), {sums} FROM people")
    found = rewrite_rows(tree, TABLES, public_rows)
    count, *totals = (item.unalias().this.name for item in tree.expressions)
    columns = {"n": {"count": count}, "m": {"mean": totals[0]}, "v": {"variance": totals[0]}}
    columns |= {f"s{i}": {"sum": total} for i, total in enumerate(totals)}
    unit = {"id": "id", "max_groups": 1, "max_rows_per_group": 2}
    base = table_from_mapping({"table": "t", "columns": PEOPLE, "privacy_unit": unit}, Path())
    assert_no_person_counts_more(ask(base, columns, derive=found.derive), rows)


DAY_KEYS = [
    "CAST(day AS DATE)", "date_trunc('day', day - INTERVAL 30 HOUR)", "date_trunc('month', day)", "strftime(day, '%Y%m%d')",
    "make_date(year(day), month(day), 1)", "week(day)", "date_diff('week', DATE '2020-06-03', day)",
    "ROUND(pay / 7, 1)",
]  # fmt: skip


@pytest.mark.parametrize("text", DAY_KEYS)
@examples(3)
@given(rows=st.lists(ROW, min_size=3, max_size=5))
def test_contribution_limits_with_computed_keys(text: str, rows: list[dict[str, Any]]) -> None:
    tree = select_of(f"SELECT {text} AS k, COUNT(*) AS n FROM people GROUP BY {text}")
    found = rewrite_rows(tree, TABLES, public_rows)
    keys = [key.name for key in tree.args["group"].expressions]
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 1}
    base = table_from_mapping({"table": "t", "columns": PEOPLE, "privacy_unit": unit}, Path())
    query = ask(base, {"n": {"count": "*"}}, by=keys, derive=found.derive)
    assert_no_person_counts_more(query, rows)


OF_PUBLIC_TABLES = [
    "SELECT q.country AS k, SUM(COALESCE(t.size, 2) * age) AS s FROM people p LEFT JOIN places q "
    "ON q.code = p.city LEFT JOIN towns t ON t.city = p.city GROUP BY k",
    "SELECT t.size AS k, SUM(pay * t.size) AS s FROM people p, places q, towns t WHERE p.city = t.city "
    "AND q.code IN (SELECT code FROM places) AND t.city = p.city AND q.code = p.city GROUP BY k",
    "SELECT age > (SELECT MAX(size) FROM towns) AS k, SUM(CASE WHEN city NOT IN (SELECT code FROM "
    "places) THEN age END) AS s FROM people GROUP BY k",
]


@pytest.mark.parametrize("text", OF_PUBLIC_TABLES)
@examples(8)
@given(rows=st.lists(ROW, max_size=6), cities=st.lists(st.sampled_from("BOPx"), min_size=6))
def test_sensitivity_with_values_of_public_tables(
    text: str, rows: list[dict[str, Any]], cities: list[str]
) -> None:
    tree = select_of(text)
    found = rewrite_rows(tree, TABLES, public_rows)
    assert found.join is None
    keys = [key.name for key in tree.args["group"].expressions]
    total = tree.expressions[1].unalias().this.name
    where = tree.args.get("where")
    columns = {"n": {"count": "*"}, "s": {"sum": total}, "m": {"mean": total}}
    base = table_from_mapping(
        {"table": "t", "columns": PEOPLE, "privacy_unit": {"id": "id", **ONE}}, Path()
    )
    condition = {} if where is None else {"where": where.this.sql("duckdb")}
    query = ask(base, columns, by=keys, derive=found.derive, **condition)
    names = {"B": "Bern", "O": "Oslo", "P": "Paris", "x": None}
    placed = [row | {"city": names[one]} for row, one in zip(rows, cities, strict=False)]
    assert_no_person_counts_more(query, placed)


def assert_no_person_counts_more(query: Any, rows: list[dict[str, Any]]) -> None:
    """Compare the answer of all rows with that without each person."""
    names = list(PEOPLE)

    def table(some: list[dict[str, Any]]) -> pa.Table:
        return pa.table(
            [
                pa.array([row.get(n) for row in some], kind)
                for n, kind in zip(names, TYPES, strict=True)
            ],
            names=names,
        )

    whole = exact(query, table(rows))
    for person in {row["id"] for row in rows} - {None}:
        rest = exact(query, table([row for row in rows if row["id"] != person]))
        assert not breaches(query, whole, rest, claims(query))
