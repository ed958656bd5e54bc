"""Quantiles of dates: the same days, whatever type stores them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dprelease.errors import QueryError
from dprelease.query.resolve import Query
from tests.exact.build import ask, declare, exact

FIRST, LAST = date(1969, 12, 28), date(1970, 1, 15)
DAYS = [
    *(FIRST + timedelta(days=i) for i in range(-3, 22)),
    None, date(1970, 1, 1), date(1600, 2, 29), date(2200, 1, 1), None,
]  # fmt: skip
COLUMN: dict[str, Any] = {"type": "date", "lower": str(FIRST), "upper": str(LAST)}


def query(**more: Any) -> Query:
    columns = {"low": {"quantile": {"of": "d", "at": "0.3"}}, "last": {"max": "d"}}
    return ask(declare({"d": {**COLUMN, **more}}), columns)


def arrow(kind: pa.DataType) -> pa.Table:
    midnights = [None if day is None else datetime(day.year, day.month, day.day) for day in DAYS]
    array = pa.array(DAYS) if pa.types.is_date(kind) else pa.array(midnights, pa.timestamp("us"))
    return pa.table({"d": array.cast(kind)})


def numpy(unit: str) -> pd.DataFrame:
    return pd.DataFrame({"d": np.array(DAYS, dtype="datetime64[D]").astype(f"datetime64[{unit}]")})


UNITS = ("s", "ms", "us")

FRAMES: dict[str, Any] = {
    "date32": lambda: arrow(pa.date32()),
    "date64": lambda: arrow(pa.date64()),
    **{f"timestamp {unit}": lambda unit=unit: arrow(pa.timestamp(unit)) for unit in UNITS},
    "in UTC": lambda: arrow(pa.timestamp("us", "UTC")),
    **{f"datetime64 {unit}": lambda unit=unit: numpy(unit) for unit in UNITS},
    "objects": lambda: pd.DataFrame({"d": pd.Series(DAYS, dtype=object)}),
    "texts": lambda: pd.DataFrame({"d": [None if day is None else str(day) for day in DAYS]}),
    "polars": lambda: pl.DataFrame({"d": DAYS}),
    "polars instants": lambda: pl.DataFrame({"d": DAYS}).with_columns(
        pl.col("d").cast(pl.Datetime("ms"))
    ),
}


@pytest.mark.parametrize("stored", FRAMES)
def test_date_quantiles_are_equal_for_every_stored_type(stored: str) -> None:
    wanted, found = exact(query(), FRAMES["date32"]()), exact(query(), FRAMES[stored]())
    assert {name: v.tolist() for name, v in found.items()} == {
        name: v.tolist() for name, v in wanted.items()
    }


def test_date_quantiles_of_texts_in_a_declared_format() -> None:
    texts = [None if day is None else f"{day:%d.%m.%Y}" for day in DAYS]
    frame = pd.DataFrame({"d": texts})
    wanted, found = exact(query(), arrow(pa.date32())), exact(query(format="%d.%m.%Y"), frame)
    assert found["low"].tolist() == wanted["low"].tolist()


def test_invalid_dates_do_not_stop_a_run() -> None:
    """Nor do infinite dates, which DuckDB has. An instant counts as its day."""
    odd = ["infinity", "-infinity", "", "2020-02-30", "1970-01-02 10:00", "9999999-01-01", "x"]
    frame = pd.DataFrame({"d": [*odd, "1970-01-01"]})
    alone = pd.DataFrame({"d": ["1970-01-01", "1970-01-02"]})
    assert exact(query(), frame)["low"].tolist() == exact(query(), alone)["low"].tolist()


@pytest.mark.parametrize(
    "day", [FIRST - timedelta(days=1), LAST + timedelta(days=1), date(1, 1, 1)]
)
@pytest.mark.parametrize("fill", ["drop", "1970-01-02"])
def test_dates_outside_the_bounds_are_missing(day: date, fill: str) -> None:
    """Stored and computed dates alike."""
    columns = {"d": {**COLUMN, "fill": fill}, "wide": {"type": "date"}}
    measured = {"m": {"median": "d"}}
    query = ask(declare(columns), measured)
    moved = {"e": {**COLUMN, "fill": fill, "expression": "wide"}}
    computed = ask(declare(columns), {"m": {"median": "e"}}, derive=moved)
    found, wanted = (
        exact(query, pd.DataFrame({"d": [one, "1970-01-05"], "wide": [None, None]}))["m"].tolist()
        for one in (str(day), None)
    )
    assert found == wanted
    frame = pd.DataFrame({"d": [None, None], "wide": [str(day), "1970-01-05"]})
    assert exact(computed, frame)["m"].tolist() == wanted


def test_quantiles_of_the_widest_date_bounds() -> None:
    columns = {"d": {"type": "date", "lower": "0001-01-01", "upper": "9999-12-31"}}
    found = ask(declare(columns), {"m": {"median": "d", "interval": False}})
    scores = exact(found, pd.DataFrame({"d": ["0001-01-01", "9999-12-31", "1970-01-01"]}))["m"][0]
    aggregate = found.measurements[0].aggregate
    best = aggregate.lower + int(scores.argmax()) * aggregate.stride
    assert abs(best) < aggregate.stride  # 1970-01-01 is day 0


@pytest.mark.parametrize("word", ["sum", "mean", "variance", "stddev"])
def test_dates_have_no_sums(word: str) -> None:
    with pytest.raises(QueryError, match="DP-QUERY-004"):
        ask(declare({"d": COLUMN}), {"m": {word: "d"}})


def test_quantiles_of_dates_without_bounds_are_refused() -> None:
    with pytest.raises(QueryError, match="DP-QUERY-003"):
        ask(declare({"d": {"type": "date"}}), {"m": {"median": "d"}})


@pytest.mark.parametrize(
    "option",
    [{"non_negative": True}, {"round_to": 7}, {"bottom_code": 3}, {"suppress_above": "30 %"}, {"decimals": 1}],
    ids=str,
)  # fmt: skip
def test_numeric_options_of_date_quantiles_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match="DP-QUERY-019"):
        ask(declare({"d": COLUMN}), {"m": {"median": "d", **option}})
