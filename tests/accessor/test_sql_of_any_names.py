"""`df.dp.sql` over columns of any names: results have the names of the statement."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import dprelease
from dprelease.errors import DpReleaseError
from dprelease.query.outer_sql.statement import split_statement
from dprelease.schema.field_types import NAME, RESERVED
from tests.exact.build import declare

KEY, TEXT, NUMBER = "Größe", 'kind "x"', "a.b"
ROWS = {KEY: [1, 2, 3] * 400, TEXT: ["u", "v"] * 600, NUMBER: [0, 10, 20, 30, 40] * 240}
SCHEMA: dict[str, Any] = {
    "table": "t",
    "columns": {
        KEY: {"type": "integer", "lower": 1, "upper": 3},
        TEXT: {"type": "category", "values": ["u", "v"]},
        NUMBER: {"type": "number", "lower": 0, "upper": 40, "step": 1},
    },
}
QUOTED = {name: '"' + name.replace('"', '""') + '"' for name in (KEY, TEXT, NUMBER)}
AGGREGATES = {
    "COUNT(*)": 400,
    f"COUNT({QUOTED[NUMBER]})": 400,
    f"COUNT(DISTINCT {QUOTED[TEXT]})": 2,
    f"SUM({QUOTED[NUMBER]})": 8000,
    f"AVG({QUOTED[NUMBER]})": 20,
    f"VARIANCE({QUOTED[NUMBER]})": 200,
    f"STDDEV({QUOTED[NUMBER]})": 14.1,
    f"MEDIAN({QUOTED[NUMBER]})": 20,
    f"QUANTILE_CONT({QUOTED[NUMBER]}, 0.25)": 10,
    f"MIN({QUOTED[NUMBER]})": 0,
    f"MAX({QUOTED[NUMBER]})": 40,
}
NAMES = ["", "Summe €", "con", "größe", "A", "x" * 80, 'of "x"', "n", "rows"]


def run_statement(rows: pd.DataFrame, schema: dict[str, Any], statement: str) -> pd.DataFrame:
    """Return the result of a new session with negligible noise."""
    session = dprelease.Session(schema, epsilon=100)
    rows.dp.use(session)
    return rows.dp.sql(statement, epsilon=90)


@pytest.mark.share(0.3)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates_may_have_any_name(aggregate: str) -> None:
    """Several names in one statement, by a key with a name that no file may have."""
    for name in NAMES:
        named = f' AS "{name.replace(chr(34), chr(34) * 2)}"' if name else ""
        statement = f"SELECT {QUOTED[KEY]}, {aggregate}{named} FROM t GROUP BY {QUOTED[KEY]}"
        found = run_statement(pd.DataFrame(ROWS), SCHEMA, statement)
        assert found.columns[0] == KEY
        assert found.columns[1] == name or not name
        values = found.iloc[:, 1].astype(float).tolist()
        assert values == pytest.approx([AGGREGATES[aggregate]] * 3, rel=0.05, abs=10)


def test_columns_with_similar_names_stay_distinct() -> None:
    rows = pd.DataFrame({"a b": [1] * 500, "a.b": [2] * 500, "a_b": [3] * 500})
    bounds = {"type": "integer", "lower": 0, "upper": 9}
    schema = {"table": "t", "columns": {str(name): bounds for name in rows.columns}}
    found = run_statement(rows, schema, 'SELECT SUM("a b"), SUM("a.b"), SUM(a_b) FROM t')
    assert found.iloc[0].tolist() == pytest.approx([500, 1000, 1500], abs=100)


@given(
    st.lists(st.text(min_size=1, max_size=70), min_size=1, max_size=6, unique=True),
    st.lists(st.text(max_size=12) | st.sampled_from(NAMES), unique_by=str.casefold, max_size=6),
)
@example(["a b", "a.b", "a_b"], ["x", "sum_a_b"])
@example(["a b", "a.b", "a_b"], ["SUM_A_B", "sum_a_b_2"])
def test_column_names_of_files_are_valid_and_distinct(columns: list[str], names: list[str]) -> None:
    assume(not any(set("\0\ud800") & set(text) for text in (*columns, *names)))
    bounds = {"type": "integer", "lower": 0, "upper": 9}
    try:
        table = declare(dict.fromkeys(columns, bounds)).table
    except DpReleaseError:
        assume(False)
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    named = [f' AS "{name.replace(chr(34), chr(34) * 2)}"' if name else "" for name in names]
    named += [""] * len(columns)
    items = [f"SUM({column}){name}" for column, name in zip(quoted, named, strict=False)]
    found = split_statement(f"SELECT {', '.join(items)} FROM t", {"t": table}).cores["answer"]
    assert len(found.columns) == len(columns)
    assert len({name.casefold() for name in found.columns}) == len(columns)
    for name in found.columns:
        assert re.fullmatch(NAME, name)
        assert name.casefold() not in RESERVED
