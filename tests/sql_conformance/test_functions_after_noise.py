"""Functions over noised values are DuckDB's functions of their arguments alone, and never fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dprelease
from dprelease.errors import QueryError
from dprelease.query.outer_sql.functions import AGGREGATES, NAMES, SCALAR_NAMES, WINDOW_FUNCTIONS
from tests.sql_conformance.tables import frames, write_tables
from tests.sql_conformance.test_statements import EPSILON

pytestmark = pytest.mark.usefixtures("replayed_noise")

SYNTAX = {"coalesce", "extract", "grouping", "ifnull", "percentile_cont", "percentile_disc"}
"""Functions that DuckDB's grammar has, and not its catalog."""

FUNCTIONS = (
    "SELECT function_name, function_type, stability, macro_definition FROM duckdb_functions() "
    "WHERE function_type IN ('scalar', 'macro', 'aggregate', 'window')"
)
CORE = "WITH c AS (SELECT state, sex, COUNT(*) AS n FROM people GROUP BY state, sex) "


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def exact() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as link:
        for name, frame in frames().items():
            link.register(name, frame)
        yield link


def test_listed_functions_are_pure() -> None:
    with duckdb.connect() as link:
        rows = link.execute(FUNCTIONS).fetchall()
    kinds = {"scalar": SCALAR_NAMES, "aggregate": AGGREGATES, "window": WINDOW_FUNCTIONS}
    for name in NAMES - SYNTAX:
        found = [row for row in rows if row[0] == name]
        pure = [kind for _, kind, stability, _ in found if stability in ("CONSISTENT", None)]
        assert pure, name
        assert set(pure) <= {kind for kind, names in kinds.items() if name in names} | {"macro"}
    others = {row[0] for row in rows if row[2] not in ("CONSISTENT", None)} - NAMES
    bodies = [row[3].replace('"', " ").split("(") for row in rows if row[0] in NAMES and row[3]]
    words = {word for body in bodies for part in body[:-1] for word in part.split()[-1:]}
    assert not words & others


ITEMS = """
sin(n), atan2(n, 2), log10(n), log2(n), degrees(n), n ** 0.5, n % 7, fdiv(n, 7), gcd(n, 12), n::INT & 1,
round_even(n / 7.0, 1), greatest(n, 50), sign(n), pi() * n, bar(n, 0, 200, 10), isnan(n / 2),
lpad(state, 5, '*'), printf('%.1f', n * 1.0), format('{:,}', n * 1000), regexp_replace(state, '[A-C]', '_'),
regexp_matches(state, '^C'), state ~ '^C.*', state SIMILAR TO 'C.*', LEFT(state, n), state.lower(), chr(65),
split_part(state, 'T', 1), translate(state, 'C', 'c'), levenshtein(state, 'CT'), md5(state), typeof(state),
strptime('2024-01-31', '%Y-%m-%d'), date_add(DATE '2024-01-31', INTERVAL 3 DAY), epoch(DATE '2024-01-31'),
DATE '2024-01-31' + to_days(n::INT), last_day(DATE '2024-02-03'), time_bucket(INTERVAL 7 DAY, DATE '2024-01-31'),
[n, n + 1][2], [1, 2, 3][-1], [1, 2, 3][2:], {'a': n}.a, MAP {'a': n}['a'], list_contains(['CT'], state),
list_transform([n, 1], lambda x: x / 2), list_filter([n, 1], lambda x: x > 1), list_sort([3, n, 1]),
string_split(state, 'T'), CAST([n] AS DOUBLE[]), len([n, n]), list_sum([n, 1]), unnest([n, 2])
"""
AGGREGATED = """
LIST(n ORDER BY state, sex), ARRAY_AGG(state ORDER BY n)[1], MAD(n), ENTROPY(n), GEOMEAN(n), PRODUCT(n / 100),
PRODUCT(n) FILTER (WHERE sex = 'F'), HISTOGRAM(sex), KURTOSIS(n), KURTOSIS_POP(n), SKEWNESS(n), SEM(n),
WEIGHTED_AVG(n, n + 1), REGR_R2(n, n * n), REGR_SXY(n, n + 1), CORR(n, n * 2), MAX_BY(state, n), ARG_MIN(state, n),
FIRST(state ORDER BY n), BIT_OR(n::INT), QUANTILE_CONT(n, [0.25, 0.5]), QUANTILE_CONT(n, [0.25, 0.5])[2],
list_sum(LIST(n)), SUM(n) FILTER (sex = 'F') / SUM(n), BOOL_AND(n > 1), COUNT(DISTINCT sex), MODE(sex)
"""


@pytest.mark.parametrize("end", [f"{ITEMS} FROM c ORDER BY ALL", f"{AGGREGATED} FROM c"])
def test_results_equal_duckdb(
    end: str, schemas: list[Path], exact: duckdb.DuckDBPyConnection
) -> None:
    text = f"{CORE} SELECT {end}"
    found = dprelease.sql(text, schemas, epsilon=EPSILON, mechanism="discrete_laplace")
    expected = exact.sql(text).to_arrow_table().to_pandas()
    assert len(found.columns) == len(expected.columns) > 20
    for place, name in enumerate(found.columns):
        for one, other in zip(found.iloc[:, place], expected.iloc[:, place], strict=True):
            assert _plain(one) == _plain(other), name


def _plain(value: object) -> object:
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, str | bool | np.bool_) or value is None or hasattr(value, "isoformat"):
        return value
    return pytest.approx(float(value), rel=1e-6)  # type: ignore[arg-type]


def test_item_of_quantile_list_measures_one_quantile(schemas: list[Path]) -> None:
    texts = ["QUANTILE_CONT(age, [0.25, 0.5])[2]", "QUANTILE_CONT(age, 0.5)"]
    plans = [
        dprelease.sql(f"EXPLAIN SELECT {text} AS v FROM people", schemas, epsilon=1)
        for text in texts
    ]
    pd.testing.assert_frame_equal(*plans)


IMPURE = {
    "random()": "draws random numbers", "now()": "reads the clock", "current_date": "reads the clock",
    "repeat(state, 3)": "BAR", "range(3)": "BAR", "getenv('HOME')": "settings",
    "current_setting('threads')": "settings", "read_text('a')": "on the page", "nosuch(n)": "on the page",
    "nextval('a')": "on the page", "list_reduce([n], lambda a, b: a + b)": "BAR",
    "lpad(state, n, '0')": "write a constant", "printf(state, n)": "write a constant",
    "printf('%99999d', n)": "write a constant", "json_serialize_plan('SELECT 1')": "on the page",
    '"current_timestamp"': "reads the clock", '"session_user"': "settings",
    "list_aggr([n], 'reservoir_quantile', 0.5)": "on the page", "j_s_o_n_object(n)": "on the page",
}  # fmt: skip


@pytest.mark.parametrize(("item", "fix"), IMPURE.items())
def test_other_functions_are_refused(item: str, fix: str, schemas: list[Path]) -> None:
    with pytest.raises(QueryError, match=fix) as caught:
        dprelease.sql(f"{CORE} SELECT {item} FROM c", schemas, epsilon=1)
    assert caught.value.code == "DP-SQL-006"
    assert caught.value.place is not None
    assert caught.value.place.key == "sql"


LONE = ["MAD", "ENTROPY", "GEOMEAN", "PRODUCT", "HISTOGRAM", "LIST", "ARRAY_AGG", "KURTOSIS", "FIRST", "SEM"]  # fmt: skip


@pytest.mark.parametrize("name", LONE)
def test_functions_over_rows_stay_refused(name: str, schemas: list[Path]) -> None:
    for text in (
        f"SELECT {name}(income) FROM people",
        f"SELECT state, {name}(age) FROM people GROUP BY 1",
    ):
        with pytest.raises(QueryError, match="use ") as caught:
            dprelease.sql(text, schemas, epsilon=1)
        assert caught.value.code == "DP-SQL-006"
