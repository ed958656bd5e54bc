"""Statements over noised values never fail after the charge: they are refused, or a cell is NULL."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dprelease
from dprelease.errors import DpReleaseError, QueryError, RunState
from dprelease.query.outer_sql.parsing import parse
from dprelease.query.outer_sql.strict_types import check_types, type_constants
from tests.covering import thinned
from tests.sql_conformance.tables import write_tables

pytestmark = pytest.mark.usefixtures("replayed_noise")

CELLS = [
    "9223372036854775807 + 1", "9223372036854775807 * 2", "k LIKE 'b%' ESCAPE 'ab'",
    "k ILIKE 'b%' ESCAPE ''", "NTILE(0) OVER (ORDER BY n)", "NTILE(-1) OVER (ORDER BY n)",
    "SUM(n) OVER (ORDER BY n ROWS BETWEEN -1 PRECEDING AND CURRENT ROW)",
    "SUM(n) OVER (ORDER BY n RANGE BETWEEN -5 PRECEDING AND CURRENT ROW)",
    "SUBSTRING(k, -9223372036854775807, 9223372036854775807)", "INTERVAL 'foo'",
    "DATE '2020-01-01' + INTERVAL 3000000000 MONTHS", "CAST('20000-01-01' AS DATE)",
    "LEFT(k, 9223372036854775807)", "LAG(n, -9223372036854775807) OVER (ORDER BY n)",
    "make_date(n * 1000, 1, 1)", "-9223372036854775807 - 2", "1 / 0", "LN(-1)", "SQRT(0 - 1)",
]  # fmt: skip
CORE = "WITH t AS (SELECT state AS k, COUNT(*) AS n FROM people GROUP BY state) "
FUNCTIONS = [
    "chr((-9 - n)::INT)", "strptime(k, '%Y')", "regexp_matches(k, k || '(')", "cot(0)", "n::BIGINT << 90",
    "list_transform([n], lambda x: ln(-x))[1]", "bar(n, 0, 9, n * 1000)", "to_days((n * 1e9)::INT)",
    "date_add(DATE '2020-01-01', INTERVAL 900000 YEAR)",
    "LEFT(k, 9223372036854775807)", "SUBSTRING(k, n * -1e18::BIGINT)", "acos(n + 2)", "acosh(-n)", "cosh(n + 1e6)", "list_product([1e300, 1e300])", "factorial(n::INT + 99)",
]  # fmt: skip
TOTALS = ["GEOMEAN(0 - n)", "SKEWNESS(n * 1e300)", "REGR_SXX(n * 1e200, n)", "PRODUCT(n * 1e300)"]
MIXED = [
    "COALESCE(NULLIF(n, n), 'none')", "CASE WHEN n > 30 THEN 'many' ELSE n END", "IF(k = 'CT', 'x', 1)",
    "n = 'a'", "k <> n", "n IN (1, 'b')", "n IS DISTINCT FROM 'a'", "NULLIF(n, 'x')",
    "CASE n WHEN 'a' THEN 1 END", "LAG(n, 1, 'a') OVER (ORDER BY k)", "LEAD(n, 1, k) OVER (ORDER BY k)", "[n, 'x']",
    "n > 30 AND k", "NOT 'maybe'", "CASE WHEN k THEN 1 END", "map{'a': n, 1: 2}", "MAX(n, 1000000)",
    "ARG_MAX(k, n, 0)", "n = (SELECT k FROM t LIMIT 1)", "LIST(n) = ['a']", "DATE '2020-01-01' = 'June'",
    "CASE WHEN n > 30 THEN '2020-01-01' ELSE n END", "n NOT IN (1, '2020-01-01')", "IF(n = '2020-01-01', 1, 2)",
    "GREATEST(n, '2020-01-01')", "[n, '2020-01-01']", "COALESCE(NULLIF(n > 0, true), '2020-01-01')",
    "DATE '2020-01-01' = 2020 * n", "make_date(n, 1, 1) = 2020", "k IN (1, 'CT')",
    "n = ANY (['x'])", "n > ALL (SELECT k FROM t)", "n <> ANY (SELECT k FROM t)",
]  # fmt: skip
"""Values whose types DuckDB converts only for rows that it computes."""
SAME_TYPES = [
    "k = 'CT'", "k IN ('CT', 'MA')", "k = 5", "k NOT IN (1, 2)", "CASE k WHEN 1 THEN 2 END", "CASE k WHEN 'CT' THEN 'x' ELSE k END", "COALESCE(k, 'none')",
    "DATE '2020-01-01' >= '2019-12-31'", "k = '2020-01-01'", "n = 5.5", "NULLIF(n, 0)", "n AND k = 'CT'",
    "LAG(k, 1, '') OVER (ORDER BY k)", "COALESCE(n::VARCHAR, 'none')", "MAX(n, 2)",
    "k = '2020-01-01' OR make_date(n, 1, 1) IN ('2020-01-01', '2020-01-02 10:00:00.5')", "(n > 5) = 1",
    "CASE WHEN n > 5 THEN '2020-01-01' ELSE 'none' END", "CASE WHEN n > 5 THEN make_date(n, 1, 1) ELSE '2020-01-01' END",
    "LAG(make_date(n, 1, 1), 1, '2020-01-01') OVER (ORDER BY k)", "n = 5 AND k <> 7 AND k NOT IN (7, 8)",
    "[list_filter([k], lambda x: x = 1), list_transform([n], lambda x: (x = 1)::VARCHAR)]",
]  # fmt: skip
FORMS = [
    "SELECT k, {cell} AS x FROM t",
    "SELECT k, CASE WHEN n > 30 THEN {cell} END AS x FROM t",
    "SELECT {cell} AS x FROM t WHERE n > 30",
]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize(
    ("cell", "form", "private"), thinned(CELLS, FORMS, [False, True], together=1)
)
def test_no_statement_fails_after_the_charge(
    cell: str, form: str, private: bool, schemas: list[Path]
) -> None:
    state = RunState()
    try:
        dprelease.sql(
            CORE + form.format(cell=cell), schemas, epsilon=50, delta=1e-6, state=state,
            private_keys=["state"] if private else (), mechanism="discrete_laplace",
        )  # fmt: skip
    except DpReleaseError:
        assert not state.rows


@pytest.mark.parametrize("cell", MIXED)
def test_mixed_types_are_refused_before_the_charge(cell: str, schemas: list[Path]) -> None:
    state = RunState()
    with pytest.raises(DpReleaseError, match=r"DP-SQL-00[67]"):
        dprelease.sql(CORE + FORMS[2].format(cell=cell), schemas, epsilon=50, state=state)
    assert not state.rows


def test_a_join_of_a_text_and_a_number_is_refused_before_the_charge(schemas: list[Path]) -> None:
    state, both = RunState(), "SELECT 1 FROM t JOIN (SELECT n AS k FROM t) AS u USING (k)"
    with pytest.raises(DpReleaseError, match="DP-SQL-007"):
        dprelease.sql(f"{CORE} {both} WHERE t.n > 30", schemas, epsilon=50, state=state)
    assert not state.rows


def test_codes_are_compared_with_numbers(schemas: list[Path]) -> None:
    codes = "SELECT c FROM t, (VALUES ('1'), ('x'), ('01')) AS v(c) WHERE n > 30 AND c = 1"
    found = dprelease.sql(f"{CORE} {codes} AND k = 'CT' ORDER BY c", schemas, epsilon=50)
    assert list(found["c"]) == ["01", "1"]


@pytest.mark.parametrize("condition", ["c <> 9", "c NOT IN (8, 9)", "NOT c = 9"])
def test_a_code_that_is_no_number_differs_from_numbers(condition: str, schemas: list[Path]) -> None:
    codes = f"(VALUES ('9'), ('A'), (NULL)) AS v(c) WHERE k = 'CT' AND {condition}"
    found = dprelease.sql(f"{CORE} SELECT c FROM t, {codes}", schemas, epsilon=50)
    assert list(found["c"]) == ["A"]


def test_an_asof_join_is_answered(schemas: list[Path]) -> None:
    bands = "(VALUES (-1000, 'few'), (1000000, 'many')) AS bands(low, label)"
    select = f"SELECT DISTINCT label FROM t ASOF JOIN {bands} ON n >= low"
    assert list(dprelease.sql(CORE + select, schemas, epsilon=50)["label"]) == ["few"]


@pytest.mark.parametrize("cell", SAME_TYPES)
def test_equal_types_are_answered(cell: str, schemas: list[Path]) -> None:
    dprelease.sql(CORE + FORMS[2].format(cell=cell), schemas, epsilon=50)


@pytest.mark.parametrize(
    ("kinds", "most"), [(["DATE"] * 40, 1), (["VARCHAR"] * 40, 2), (["DATE"] * 20 + ["VARCHAR"] * 20, 5)]
)  # fmt: skip
def test_many_operands_are_bound_a_few_times(kinds: list[str], most: int) -> None:
    """Dates are compared with dates and with texts, but a number is no date."""
    forms: list[str] = []
    with duckdb.connect() as link:
        link.execute(
            f"CREATE TABLE t ({', '.join(f'c{i:02} {k}' for i, k in enumerate(kinds))}, n INT)"
        )

        def bind(form: str) -> None:
            forms.append(form)
            try:
                link.execute(f"EXPLAIN {form}")
            except duckdb.Error:
                raise QueryError("DP-SQL-007", problem="") from None

        compared = [f"c{i:02} = '2020-01-01'" for i in range(len(kinds))]
        tree = parse(f"SELECT {', '.join(compared)} FROM t")
        type_constants(tree)
        check_types(tree, bind)
        assert len(forms) <= most
        mixed = ", ".join([*compared, "n = '2020-01-01'"])
        tree = parse(f"SELECT {mixed} FROM t")
        type_constants(tree)
        with pytest.raises(QueryError):
            check_types(tree, bind)


@pytest.mark.parametrize("total", TOTALS)
def test_undefined_aggregates_are_null(total: str, schemas: list[Path]) -> None:
    found = dprelease.sql(f"{CORE} SELECT {total} AS x FROM t", schemas, epsilon=50)
    assert found["x"].isna().all()


@pytest.mark.parametrize("form", ["{}", "CASE WHEN n > 30 THEN {} END"])
def test_undefined_function_values_are_null(form: str, schemas: list[Path]) -> None:
    items = [f"{form.format(cell)} AS x{i}" for i, cell in enumerate(FUNCTIONS)]
    found = dprelease.sql(f"{CORE} SELECT {', '.join(items)} FROM t", schemas, epsilon=50)
    assert found.isna().all(axis=None)
