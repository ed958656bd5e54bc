"""Values are converted equally from every stored type; lossy pairs of types are refused."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.reading.frames import may_mix_types
from dprelease.statements.meanings import typed_value_sql
from tests.covering import sampled
from tests.exact.build import ask, declare, exact, write_parquet

COLUMNS: dict[str, Any] = {
    "whole": {"type": "integer", "lower": 0, "upper": 100},
    "real": {"type": "number", "lower": 0, "upper": 100, "step": 1},
    "flag": {"type": "boolean"},
    "code": {"type": "category", "values": ["1", "2", "34", "true", "false", "a", "2024-02-29"]},
    "padded": {"type": "category", "values": ["01", "02", "34"]},
    "odd": {"type": "category", "values": ["1.0", "+2", "34", "True", "FALSE"]},
    "name": {"type": "text"},
    "year": {"type": "date", "format": "%Y"},
    "day": {"type": "date"},
    "at": {"type": "timestamp", "format": "%d/%m/%Y %H:%M"},
}
TYPED = [name for name in COLUMNS if name not in ("name", "day", "at")]
"""What whole numbers may be declared as: a text has a spelling, which numbers don't keep, and no
number is a day of these two formats."""

Cells = Mapping[str, object]
"""Columns of the same logical values, by what they are stored as."""


def declared_for(kinds: Iterable[str], declared: Iterable[str]) -> dict[str, Any]:
    return {f"{name} of {kind}": COLUMNS[name] for kind in kinds for name in declared}


def columns_for(cells: Cells, declared: Iterable[str]) -> dict[str, object]:
    return {f"{name} of {kind}": column for kind, column in cells.items() for name in declared}


def _all(sql: str, link: Any) -> list[Any]:
    found: list[Any] = link.execute(sql).fetchall()
    return found


def meanings(
    columns: dict[str, Any], frame: object = None, source: object = None
) -> dict[str, list[Any]]:
    """Return the typed values of every declared column."""
    table = declare(columns) if source is None else declare(columns, source=source)
    found: dict[str, list[Any]] = {}
    with Engine.open(table, frame) as engine:
        parts = {
            name: f"CAST(({typed_value_sql(name, column, engine.physical[name], table.table.time_zone)}) AS {_sql_type(column)})"
            for name, column in table.table.columns.items()
        }
        for start in range(0, len(parts), 20):
            names = list(parts)[start : start + 20]
            select = ", ".join(parts[name] for name in names)
            rows = engine._attempt(
                "DP-DATA-006", State.READ, partial(_all, f"SELECT {select} FROM dp_source")
            )
            found |= zip(names, map(list, zip(*rows, strict=True)), strict=True)
    return found


def _sql_type(column: Any) -> str:
    return "DOUBLE" if column.type in ("integer", "number") else "VARCHAR"


def wrong_columns(
    found: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]
) -> dict[str, Any]:
    return {name: v for name, v in found.items() if v != wanted[name.split(" of ", 1)[0]]}


WHOLE = [1, 2, 34, None, 0]
SAID_BY_WHOLE: dict[str, list[Any]] = {
    "whole": [1, 2, 34, None, 0],
    "real": [1, 2, 34, None, 0],
    "flag": ["true", None, None, None, "false"],
    "code": ["1", "2", "34", None, "0"],
    "padded": ["01", "02", "34", None, "00"],
    "odd": ["1.0", "+2", "34", None, "0"],
    "year": ["0001-01-01", "0002-01-01", "0034-01-01", None, None],
}
SPELLINGS = ["{}", "{}.0", "{}.", " {}", "+{}", "0{}", "{}e0", "00{}.000"]
TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string())),
]
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(38, 3), pa.decimal256(50, 4)),
]
FLOATS = [float("nan") if value is None else float(value) for value in WHOLE]


def spell_values(spelling: str) -> list[str | None]:
    return [None if value is None else spelling.format(value) for value in WHOLE]


def objects(cells: Iterable[object]) -> pd.Series:
    return pd.Series(list(cells), dtype=object)


def pandas_numbers() -> dict[str, pd.Series]:
    """Return whole numbers in whatever pandas makes of them."""
    ten = decimal.Decimal("1.00")
    listed = [1, decimal.Decimal(2), "34", 0]
    return {
        "Int8": pd.Series(WHOLE, dtype="Int8"),
        "UInt64": pd.Series(WHOLE, dtype="UInt64"),
        "Float32": pd.Series(WHOLE, dtype="Float32"),
        "float16": pd.Series(FLOATS, dtype="float16"),
        "float64": pd.Series(FLOATS),
        "sparse": pd.Series(pd.arrays.SparseArray(FLOATS)),
        "objects": objects(WHOLE),
        "float objects": objects(FLOATS),
        "decimal objects": objects(None if v is None else v * ten for v in WHOLE),
        "numpy objects": objects(
            [np.int8(1), np.float32(2), np.uint64(34), np.float64("nan"), np.longdouble(0)]
        ),
        "mixed objects": objects([1, 2.0, "34", pd.NaT, decimal.Decimal("0.00")]),
        "categories": pd.Series(WHOLE).astype("category"),
        "integer categories": pd.Series(pd.Categorical(WHOLE, [0, 34, 2, 1])),
        "nullable categories": pd.Series(WHOLE, dtype="Int64").astype("category"),
        "mixed categories": pd.Series(
            pd.Categorical([1, decimal.Decimal(2), "34", None, 0], listed)
        ),
        "string categories": pd.Series(spell_values("{}"), dtype="str").astype("category"),
        **{kind: pd.Series(spell_values("{}"), dtype=kind) for kind in ("str", "string[python]")},
    }


def pandas_spellings() -> dict[str, pd.Series]:
    kinds = ("str", "string[python]", "string[pyarrow]", object, "category")
    return {
        f"{kind} {spelling}": pd.Series(spell_values(spelling)).astype(kind)
        for kind in kinds
        for spelling in SPELLINGS
    }


def cast(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([v if v is None else decimal.Decimal(v) for v in values]).cast(kind)
    return pa.array(values, pa.int64()).cast(kind)


def dictionary_of(kind: pa.DataType) -> pa.Array:
    places = pa.array([0, 1, 2, None, 3], pa.int16())
    return pa.DictionaryArray.from_arrays(places, cast([1, 2, 34, 0], kind))


def arrow_numbers() -> dict[str, pa.Array]:
    ends = pa.array([1, 2, 3, 4, 5], pa.int32())
    texts = pa.array(spell_values("{}"), pa.string())
    return {
        **{str(kind): cast(WHOLE, kind) for kind in NUMBERS},
        **{f"dictionary {kind}": dictionary_of(kind) for kind in NUMBERS if kind != pa.float16()},
        **{str(kind): texts.cast(kind) for kind in TEXTS},
        "runs": pa.RunEndEncodedArray.from_arrays(ends, cast(WHOLE, pa.int32())),
        "json": texts.cast(pa.json_()),
    }


def is_stored(column: pa.Array) -> bool:
    """Return whether this PyArrow writes such a column into Parquet: older ones have fewer types."""
    try:
        pq.write_table(pa.table({"column": column}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        return False
    return True


def test_integers_in_every_pandas_type() -> None:
    cells = dict(sampled(pandas_numbers().items()))
    backed = {
        f"backed {kind}": pd.Series(a, dtype=pd.ArrowDtype(a.type))
        for kind, a in sampled(arrow_numbers().items())
    }
    cells |= backed
    found = meanings(declared_for(cells, TYPED), pd.DataFrame(columns_for(cells, TYPED)))
    assert wrong_columns(found, SAID_BY_WHOLE) == {}


def test_integers_in_every_spelling() -> None:
    cells = dict(sampled(pandas_spellings().items()))
    found = meanings(declared_for(cells, TYPED), pd.DataFrame(columns_for(cells, TYPED)))
    assert wrong_columns(found, SAID_BY_WHOLE) == {}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("source", ["arrow", "parquet"])
def test_integers_in_every_arrow_type(source: str, tmp_path: Path) -> None:
    cells = dict(sampled(arrow_numbers().items(), 0.6))
    if source == "parquet":
        cells = {kind: column for kind, column in cells.items() if is_stored(column)}
        assert len(cells) > len(NUMBERS) / 2
    table, path = pa.table(columns_for(cells, TYPED)), None
    if source == "parquet":
        path = str(tmp_path / "t.parquet")
        pq.write_table(table, path)
        table = None
    found = meanings(declared_for(cells, TYPED), table, path)
    assert wrong_columns(found, SAID_BY_WHOLE) == {}


NO_DAYS = [pa.bool_(), *(kind for kind in NUMBERS[:-1] if not pa.types.is_floating(kind))]
"""None of their values is a day of most formats; the widest decimals are floats to the engine."""


@pytest.mark.share(0.25)
@pytest.mark.parametrize("name", ["day", "at"])
@pytest.mark.parametrize("kind", [*NO_DAYS, "Int64", "int64"], ids=str)
@pytest.mark.parametrize("files", [0, 1, 2])
def test_numeric_columns_as_dates_are_refused(
    name: str, kind: Any, files: int, tmp_path: Path
) -> None:
    """Otherwise, a table of only missing dates would be published and charged."""
    column = pd.Series([1, 0], dtype=kind) if isinstance(kind, str) else cast([1, 0], kind)
    table = pa.table({name: column})
    for place in range(files):
        texts = table if place == 0 else pa.table({name: ["2024-02-29", None]})
        write_parquet(texts, tmp_path / f"t{place}.parquet")
    asked = (None, str(tmp_path / "t*.parquet")) if files else (table, None)
    with pytest.raises(DataError, match="DP-DATA-004") as refused:
        meanings({name: COLUMNS[name]}, *asked)
    assert ("pd.to_datetime" in str(refused.value)) is (kind != pa.bool_())


@pytest.mark.share(0.5)
@pytest.mark.parametrize("name", ["day", "at"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), *TEXTS], ids=str)
def test_floats_and_number_texts_as_dates_are_missing(name: str, kind: pa.DataType) -> None:
    """A frame's column of missing dates only has floats; texts are read one by one."""
    said = (
        cast(WHOLE, kind) if pa.types.is_floating(kind) else pa.array(spell_values("{}")).cast(kind)
    )
    assert meanings({name: COLUMNS[name]}, pa.table({name: said})) == {name: [None] * 5}


TRUTH = [True, False, None]
SAID_BY_TRUTH: dict[str, list[Any]] = {
    "whole": [1, 0, None],
    "real": [1, 0, None],
    "flag": ["true", "false", None],
    "code": ["true", "false", None],
    "odd": ["True", "FALSE", None],
}


def truth_values() -> dict[str, Any]:
    words = [*(pa.array(["true", "false", None], kind) for kind in TEXTS[:3])]
    return {
        "boolean": pd.Series(TRUTH, dtype="boolean"),
        "objects": objects(TRUTH),
        "numpy objects": objects([np.bool_(True), np.bool_(False), pd.NA]),
        "mixed": objects([True, "False", float("nan")]),
        "categories": pd.Series(TRUTH).astype("category"),
        "capitals": pd.Series(["True", "False", None], dtype="str"),
        "loud": pd.Series(["TRUE", " FALSE ", None], dtype="string[python]"),
        "backed": pd.Series(TRUTH, dtype=pd.ArrowDtype(pa.bool_())),
        "bytes": pd.Series([1, 0, None], dtype=pd.ArrowDtype(pa.int8())),
        **{f"words {i}": pd.Series(w, dtype=pd.ArrowDtype(w.type)) for i, w in enumerate(words)},
    }


def test_booleans_in_every_type() -> None:
    cells, kinds = truth_values(), list(SAID_BY_TRUTH)
    numbers = {"bytes": cells.pop("bytes"), "floats": pd.Series([1.0, 0.0, float("nan")])}
    numbers["texts"] = objects(["1.0", "0.0", None])
    found = meanings(declared_for(cells, kinds), pd.DataFrame(columns_for(cells, kinds)))
    found |= meanings(declared_for(numbers, ["flag"]), pd.DataFrame(columns_for(numbers, ["flag"])))
    assert wrong_columns(found, SAID_BY_TRUTH) == {}


FRACTIONS = [0.5, 2.25, -1.0, None, 0.7, -0.1]
SAID_BY_FRACTIONS: dict[str, list[Any]] = {
    "whole": [None, None, -1, None, None, None],
    "real": [0.5, 2.25, -1, None, 0.7, -0.1],
    "flag": [None] * 6,
    "part": ["0.50", "2.25", "-1", None, "0.7", "-0.10"],
}
PART = {"type": "category", "values": ["0.50", "2.25", "-1", "0.7", "-0.10"]}


def test_fractions_in_every_type() -> None:
    decimals = [None if v is None else decimal.Decimal(str(v)) for v in FRACTIONS]
    kinds = (pa.float16(), pa.float32(), pa.float64())
    backed = [pa.array(FRACTIONS, pa.float64()).cast(kind) for kind in kinds]
    backed += [pa.array(decimals).cast(kind) for kind in NUMBERS if pa.types.is_decimal(kind)]
    cells: dict[str, Any] = {
        "objects": objects(FRACTIONS),
        "decimals": objects(decimals),
        "long decimals": objects(
            None if v is None else v * decimal.Decimal("1.000") for v in decimals
        ),
        "float32": pd.Series(FRACTIONS, dtype="float32"),
        "float16": pd.Series(FRACTIONS, dtype="float16"),
        "small objects": objects(v if v is None else np.float32(v) for v in FRACTIONS),
        "half objects": objects(v if v is None else np.float16(v) for v in FRACTIONS),
        "Float64": pd.Series(FRACTIONS, dtype="Float64"),
        "categories": pd.Series(FRACTIONS).astype("category"),
        **{str(a.type): pd.Series(a, dtype=pd.ArrowDtype(a.type)) for a in backed},
    }
    columns = {
        f"{n} of {kind}": {**COLUMNS, "part": PART}[n] for kind in cells for n in SAID_BY_FRACTIONS
    }
    found = meanings(columns, pd.DataFrame(columns_for(cells, SAID_BY_FRACTIONS)))
    assert wrong_columns(found, SAID_BY_FRACTIONS) == {}


DECIMALS = [
    float(f"{sign}{digits}e{power}")
    for power in range(-9, 2)
    for digits in (*range(1, 1000), *range(1003, 10**6, 997))
    for sign in ("", "-")
]
"""Numbers of at most six digits: 32 bits tell all of them apart."""

QUESTIONS = {
    "x >= 0.7": lambda x: x >= 0.7,
    "x = 0.7": lambda x: x == 0.7,
    "x IN (0.7, 0.1, 2)": lambda x: x in (0.7, 0.1, 2),
    "x * 10 < 7": lambda x: x * 10 < 7,
    "band = 'high'": lambda x: 0.7 <= x < 2.5,
}


def test_32_bit_floats_are_read_as_their_short_decimals() -> None:
    real = {"v": {"type": "number"}}
    found = meanings(real, pa.table({"v": pa.array(DECIMALS, pa.float32())}))["v"]
    assert found == DECIMALS
    halves = [x for x in DECIMALS if len(f"{abs(x):e}".rstrip("0")) < 20 and 1e-3 < abs(x) < 1e4]
    halves = [x for x in halves if float(f"{x:.2e}") == x]  # 16 bits tell three digits apart
    assert meanings(real, pa.table({"v": pa.array(halves, pa.float16())}))["v"] == halves


def test_decimals_of_32_bit_floats_round_trip() -> None:
    """With no more digits than NumPy writes; NaN is missing, whatever its bits."""
    bits = np.random.default_rng(1).integers(0, 2**32, 50_000, dtype=np.uint64).astype(np.uint32)
    floats = np.concatenate([bits.view(np.float32), np.float32([0, -0.0, np.inf, -np.inf, np.nan])])
    table = pa.table({"v": pa.array(floats, from_pandas=False)})
    found = meanings({"v": {"type": "number"}}, table)["v"]
    for one, said in zip(floats, found, strict=True):
        if np.isnan(one):
            assert said is None
            continue
        assert np.float32(said) == one
        assert len(repr(abs(said))) <= len(repr(float(str(abs(one)))))


@pytest.mark.share(0.4)
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("stored", ["frame", "file"])
def test_conditions_and_bands_agree_for_all_float_widths(
    kind: pa.DataType, stored: str, tmp_path: Path
) -> None:
    values = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 2.5, 2.0, None]
    table = pa.table({"x": pa.array(values, pa.float64()).cast(kind)})
    columns = {
        "x": {"type": "number", "lower": 0, "upper": 3, "step": "0.1"},
        "band": {"cut": "x", "edges": ["0", "0.7", "2.5"], "labels": ["low", "high"]},
    }
    more: dict[str, Any] = {}
    if stored == "file":
        write_parquet(table, tmp_path / "t.parquet")
        more = {"source": str(tmp_path / "t.parquet")}
    declared = declare(columns, **more)
    frame = None if more else table
    for where, holds in QUESTIONS.items():
        query = ask(declared, {"n": {"count": "*"}}, where=where)
        expected = sum(x is not None and holds(x) for x in values)
        assert exact(query, frame)["n"].tolist() == [expected], where
    by_band = exact(ask(declared, {"n": {"count": "*"}, "s": {"sum": "x"}}, ["band"]), frame)
    assert by_band["n"].tolist() == [4, 3]
    assert by_band["s"].tolist() == [12, 35]


DAYS = [datetime.date(2024, 2, 29), datetime.date(1066, 10, 14), None]
SAID_BY_DAYS: dict[str, list[Any]] = {
    "day": ["2024-02-29", "1066-10-14", None],
    "at": ["2024-02-29 00:00:00", "1066-10-14 00:00:00", None],
    "code": ["2024-02-29", "1066-10-14", None],
}


def midnights(zone: str | None = None) -> list[pd.Timestamp | None]:
    return [None if day is None else pd.Timestamp(day, tz=zone) for day in DAYS]


def test_dates_in_every_type() -> None:
    """One text among dates turns all into objects, or texts with a time of day."""
    micro = [pa.array(midnights(), pa.timestamp(unit)) for unit in ("s", "ms", "us")]
    zoned = [pa.array(midnights("UTC"), pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us")]
    days = [pa.array(DAYS, kind) for kind in (pa.date32(), pa.date64())]
    texts = [None if day is None else str(day) for day in DAYS]
    cells: dict[str, Any] = {
        "objects": objects(DAYS),
        "instants": objects(midnights()),
        "zoned": objects(midnights("UTC")),
        "numpy": objects([np.datetime64(day, "D") for day in DAYS]),
        "mixed": objects([midnights()[0], texts[1], pd.NaT]),
        "categories": objects(DAYS).astype("category"),
        "mixed categories": objects([DAYS[0], texts[1], None]).astype("category"),
        "texts": pd.Series(texts, dtype="str"),
        "datetime64": pd.Series(midnights(), dtype="datetime64[s]"),
        **{str(a.type): pd.Series(a, dtype=pd.ArrowDtype(a.type)) for a in micro + zoned + days},
    }
    found = meanings(
        declared_for(cells, SAID_BY_DAYS), pd.DataFrame(columns_for(cells, SAID_BY_DAYS))
    )
    assert wrong_columns(found, SAID_BY_DAYS) == {}


@pytest.mark.parametrize(
    "ending", ["", " 00:00:00", "T00:00:00", " 00:00:00.000000", " 00:00:00+00:00", "T00:00:00Z"]
)
def test_dates_written_with_a_time_of_day(ending: str) -> None:
    """CSV writers add the time to all dates if one of them has a time."""
    texts = [None if day is None else f"{day}{ending}" for day in DAYS]
    kinds = ["day", "at"] + (["code"] if ending.strip(" T0:.") == "" else [])
    cells = {"texts": texts}
    found = meanings(declared_for(cells, kinds), pd.DataFrame(columns_for(cells, kinds)))
    assert wrong_columns(found, SAID_BY_DAYS) == {}


NOON = datetime.datetime(2024, 2, 29, 12, 30, 0, 500000)


def test_timestamps_in_every_type() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    there = NOON.replace(tzinfo=datetime.UTC).astimezone(zone)
    cells: dict[str, Any] = {
        "objects": objects([NOON]),
        "elsewhere": objects([there]),
        "stamps": objects([pd.Timestamp(there)]),
        "numpy": objects([np.datetime64(NOON, "ns")]),
        "texts": ["2024-02-29T12:30:00.500Z"],
        "other texts": ["2024-02-29 14:30:00.5+02:00"],
        "ns": pd.Series([NOON], dtype="datetime64[ns]"),
        "us": pd.Series([NOON], dtype="datetime64[us]"),
        "zoned": pd.Series([there]).dt.tz_convert("UTC"),
    }
    wanted = {"at": ["2024-02-29 12:30:00.5"], "day": ["2024-02-29"]}
    found = meanings(declared_for(cells, wanted), pd.DataFrame(columns_for(cells, wanted)))
    assert wrong_columns(found, wanted) == {}
    as_texts = {kind: cells[kind] for kind in ("objects", "elsewhere", "stamps", "numpy")}
    noon = {"type": "category", "values": ["2024-02-29 12:30:00.5"]}
    said = meanings(dict.fromkeys(as_texts, noon), pd.DataFrame(as_texts))
    assert {value for (value,) in said.values()} == {"2024-02-29 12:30:00.5"}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("layout", [None, "%Y-%d-%m %H:%M:%S.%f", "%d.%m.%Y %H:%M:%S"])
@pytest.mark.parametrize("local", [False, True])
def test_odd_cell_changes_no_other_timestamp(zone: str, layout: str | None, local: bool) -> None:
    """It turns all others into Python objects, with the zone and format of the column."""
    stamps = pd.to_datetime(
        ["2024-07-01 23:30:00.5", "2024-02-01", "2023-12-31 19:00", "1960-03-04 22:00", None],
        format="ISO8601",
        utc=None if local else True,
    )
    form = {} if layout is None else {"format": layout}
    columns = {
        "at": {"type": "timestamp", **form},
        "day": {"type": "date", **form},
        "free": {"type": "date", **form, "lower": "2024-01-01", "upper": "2024-12-31"},
        "code": {"type": "category", "values": ["2024-02-01", "2024-07-01 23:30:00.5"]},
    }
    plain = pd.DataFrame(dict.fromkeys(columns, pd.Series(stamps)))
    odd = pd.DataFrame(dict.fromkeys(columns, objects([*stamps, "unknown"])))
    source = {"frame": "t", "time_zone": zone}
    wanted, found = meanings(columns, plain, source), meanings(columns, odd, source)
    assert wanted["at"][:4] != [None] * 4
    assert {name: cells[:-1] for name, cells in found.items()} == wanted


@pytest.mark.share(0.5)
@pytest.mark.parametrize("layout", ["%Y-%d-%m", "%d.%m.%Y", "%Y%m%d", "%Y-%m-%d"])
def test_python_dates_ignore_the_declared_format(layout: str) -> None:
    column = {"v": {"type": "date", "format": layout}}
    days = ["2024-02-01", "2024-12-31"]
    wanted = meanings(column, pd.DataFrame({"v": pd.to_datetime(days)}))["v"]
    held = [datetime.date.fromisoformat(day) for day in days]
    for cells in (held, [np.datetime64(day) for day in days], map(pd.Timestamp, days)):
        found = meanings(column, pd.DataFrame({"v": objects([*cells, held[0].strftime(layout)])}))
        assert found["v"] == [*wanted, wanted[0]]


def test_dates_of_digits_only_are_read() -> None:
    """Numbers lose leading zeros and gain a decimal point; texts do not."""
    column = {"type": "date", "format": "%d%m%Y"}
    cells: dict[str, Any] = {
        "texts": ["01022024", "31122024", "99999999", None],
        "integers": pd.Series([1022024, 31122024, 99999999, None], dtype="Int64"),
        "floats": [1022024.0, 31122024.0, 99999999.0, None],
        "float texts": ["1022024.0", "31122024.0", "99999999.0", None],
    }
    found = meanings(dict.fromkeys(cells, column), pd.DataFrame(cells))
    assert {
        kind: v for kind, v in found.items() if v != ["2024-02-01", "2024-12-31", None, None]
    } == {}


def test_uuids_in_every_type() -> None:
    one = uuid.UUID(int=2**127 + 5)
    arrow = pa.array([one.bytes], pa.uuid())
    table = pa.table({"name of arrow": arrow, "name of text": [str(one)]})
    found = meanings(declared_for(["arrow", "text"], ["name"]), table)
    coded = {"type": "category", "values": [str(one)]}
    found |= meanings({"of objects": coded}, pd.DataFrame({"of objects": [one]}))
    assert set(map(tuple, found.values())) == {(str(one),)}


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_integers_in_text_files(kind: str, tmp_path: Path) -> None:
    if kind == "csv":
        cells = {f"csv {s}": spell_values(s) for s in SPELLINGS}
        path = tmp_path / "t.csv"
        pd.DataFrame(columns_for(cells, TYPED)).to_csv(path, index=False)
    else:
        cells = {"numbers": WHOLE, "floats": FLOATS, "texts": spell_values("{}")}
        path = tmp_path / "t.jsonl"
        lines = pd.DataFrame(columns_for(cells, TYPED)).to_dict("records")
        path.write_text("".join(json.dumps(_without_nan(line)) + "\n" for line in lines))
    found = meanings(declared_for(cells, TYPED), None, str(path))
    assert wrong_columns(found, SAID_BY_WHOLE) == {}


def _without_nan(line: dict[Any, Any]) -> dict[Any, Any]:
    return {name: None if value != value else value for name, value in line.items()}


@pytest.mark.share(0.5)
@pytest.mark.parametrize(
    "kind", ["HUGEINT", "UHUGEINT", "DECIMAL(38,30)", "ENUM('34', '2', '1', '0')"]
)
def test_integers_in_every_duckdb_type(kind: str, tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as link:
        names = ", ".join(f'v::VARCHAR::{kind} AS "{name} of it"' for name in TYPED)
        link.execute(f"CREATE TABLE t AS SELECT {names} FROM unnest([1, 2, 34, NULL, 0]) g(v)")
    source = {"path": str(tmp_path / "t.duckdb"), "table": "t"}
    assert wrong_columns(meanings(declared_for(["it"], TYPED), None, source), SAID_BY_WHOLE) == {}


def every_column() -> dict[str, Any]:
    """Return columns of every type, each with values that a text could say as well."""
    columns = pandas_numbers() | truth_values()
    columns |= {
        f"arrow {kind}": pd.Series(a, dtype=pd.ArrowDtype(a.type))
        for kind, a in arrow_numbers().items()
    }
    columns |= {"days": pd.Series(pa.array(DAYS, pa.date32()), dtype=pd.ArrowDtype(pa.date32()))}
    columns |= {"instants": pd.Series(midnights(), dtype="datetime64[s]")}
    return columns | {"identifiers": objects([uuid.UUID(int=5)]), "nothing": objects([None, None])}


TEXTUAL = re.compile("^str|capitals|loud|words|arrow.*string|json")
"""Columns whose cells are texts; Python objects may be others, and are refused whatever they are."""


@pytest.mark.share(0.4)
@pytest.mark.parametrize("name", every_column())
def test_declared_texts_must_be_stored_as_texts(name: str) -> None:
    """One row with a letter turns all into texts: 1 becomes 1.0 or 01, and true True."""
    frame = pd.DataFrame({"v": every_column()[name]})
    if TEXTUAL.search(name):
        assert meanings({"v": COLUMNS["name"]}, frame)["v"][0] in (
            "1",
            "true",
            "True",
            "TRUE",
            None,
        )
        return
    with pytest.raises(DataError, match="DP-DATA-004") as caught:
        meanings({"v": COLUMNS["name"]}, frame)
    if may_mix_types(frame["v"].array):
        assert "stored as OBJECT" in str(caught.value)
        return
    assert "read_csv(..., dtype={'v': str})" in caught.value.fix


@pytest.mark.parametrize(
    "column",
    [
        {"type": "integer", "lower": 0, "upper": 2**53 + 1},
        {"type": "integer"},
        {"type": "category", "values": ["1", "9007199254740993"]},
    ],
    ids=["bounds", "no bounds", "values"],
)
@pytest.mark.parametrize("cells", [[1.0, None], []], ids=["some", "none"])
def test_floats_that_merge_declared_values_are_refused(
    column: dict[str, Any], cells: list[Any]
) -> None:
    with pytest.raises(DataError, match="DP-DATA-015"):
        meanings({"v": column}, pd.DataFrame({"v": pd.Series(cells, dtype="float64")}))
    said = meanings({"v": column}, pd.DataFrame({"v": pd.Series([1, None], dtype="Int64")}))
    assert said["v"][0] in (1.0, "1")


@pytest.mark.parametrize(
    "column",
    [
        {"type": "integer", "lower": 0, "upper": 2**24 + 1},
        {"type": "category", "values": ["1", "16777217"]},
        {"type": "date", "format": "%Y%m%d"},
    ],
    ids=["bounds", "values", "days"],
)
@pytest.mark.parametrize("cells", [[1.0, None], []], ids=["some", "none"])
def test_32_bit_floats_that_merge_integers_are_refused(
    column: dict[str, Any], cells: list[Any]
) -> None:
    with pytest.raises(DataError, match=r"DP-DATA-015.*2\^24 .* 32-bit floats"):
        meanings({"v": column}, pd.DataFrame({"v": pd.Series(cells, dtype="float32")}))
    if cells:  # the same column of 64 bits, and smaller numbers, can be read
        meanings({"v": column}, pd.DataFrame({"v": pd.Series(cells, dtype="float64")}))
    if cells and column["type"] == "integer":
        within = {**column, "upper": 2**24}
        meanings({"v": within}, pd.DataFrame({"v": pd.Series(cells, dtype="float32")}))


LONG = 2**53 + 1
CONDITIONS = {
    "equal": f"v = {LONG}",
    "beyond": f"v > {LONG - 1}",
    "among": f"v IN (3, {LONG})",
    "between": f"v BETWEEN {LONG} AND {LONG}",
    "negative": f"-v <= -{LONG}",
    "two columns": "v = w",
    "no null": "nullif(v, w) IS NULL",
    "the same": "v IS NOT DISTINCT FROM w",
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_conditions_treat_integers_of_one_float_equally(kind: str, condition: str) -> None:
    """One missing value turns all into floats, and may not change who is counted."""
    column = {"type": kind, "lower": 0, "upper": 100}
    query = ask(declare({"v": column, "w": column}), {"n": {"count": "*"}}, where=condition)
    frame = pd.DataFrame({"v": [LONG, 3], "w": [LONG - 1, 2]})
    with_a_gap = pd.concat([frame, pd.DataFrame({"v": [None], "w": [1]})]).astype("float64")
    for twin in (frame.astype("str"), with_a_gap.iloc[:2], frame.astype("Int64")):
        assert exact(query, twin)["n"].tolist() == exact(query, frame)["n"].tolist()


def test_private_keys_merge_integers_of_one_float() -> None:
    columns = {"id": {"type": "integer"}, "v": {"type": "integer", "lower": 0, "upper": 100}}
    query = ask(
        declare(columns, privacy_unit={"id": "id", "max_groups": 1, "max_rows_per_group": 1}),
        {"n": {"count": "*"}},
        ["v"],
        private_keys=True,
    )
    cells = [LONG, LONG - 1, 2, 200]
    found = []
    for kind in ("int64", "float64", "str"):
        frame = pd.DataFrame({"id": range(4), "v": pd.Series(cells).astype(kind)})
        with Engine.open(query.declared, frame) as engine:
            found.append(sorted(engine.partitions(query).names))
    assert found == [["1:2", "3:200"]] * 3


def test_cuts_treat_integers_of_one_float_equally() -> None:
    columns = {"v": {"type": "number"}, "cut": {"cut": "v", "edges": [0, LONG, 2**60]}}
    query = ask(declare(columns), {"n": {"count": "*"}}, ["cut"])
    whole = exact(query, pd.DataFrame({"v": [LONG - 1]}))["n"].tolist()
    assert exact(query, pd.DataFrame({"v": [float(LONG - 1)]}))["n"].tolist() == whole


ODD_NUMBERS = {
    "a vertical tab": ("\v34\v", 34),
    "a long exponent": ("34e00000000000", 34),
    "a far exponent": ("1e9999999999", float("inf")),
    "a small one": ("1e-9999999999", 0),
    "zero": ("0e9999999999", 0),
    "endless digits": ("9" * 400, 10**400 - 1),
    "endless negative digits": ("-" + "9" * 400, 1 - 10**400),
    "beyond 128 bits": (str(2**127 - 1), float(2**127 - 1)),
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("odd", ODD_NUMBERS)
def test_number_texts_are_read_as_in_pandas(odd: str) -> None:
    """A text among other texts, and the number among numbers."""
    text, value = ODD_NUMBERS[odd]
    cells = {"text": objects([text]), "value": objects([value])}
    if abs(value) < 2**1000 or isinstance(value, float):
        cells["float"] = pd.Series([float(value)])
    kinds = ["whole", "real", "flag", "code", "padded"]
    found = meanings(declared_for(cells, kinds), pd.DataFrame(columns_for(cells, kinds)))
    for kind in kinds:
        assert len({str(v) for name, v in found.items() if name.startswith(kind)}) == 1, kind


@pytest.mark.parametrize("word", ["infinity", " Infinity", "-infinity", "EPOCH ", "\tinfinity"])
def test_special_dates_of_duckdb_are_missing(word: str) -> None:
    """DuckDB accepts them in any format, and returns 1900-01-01."""
    kinds = ["year", "day", "at"]
    found = meanings(declared_for("t", kinds), pd.DataFrame(columns_for({"t": [word]}, kinds)))
    assert set(map(tuple, found.values())) == {(None,)}


@pytest.mark.parametrize("moment", ["2019-12-31 23:59:59.999999999", "1969-12-31 23:59:59.9999999"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_do_not_change_the_date(moment: str, zone: str | None) -> None:
    """DuckDB would round them to the next day; texts and objects lose them."""
    stamp = pd.Timestamp(moment, tz=zone)
    kind = "datetime64[ns]" if zone is None else "datetime64[ns, UTC]"
    cells = {
        "ns": pd.Series([stamp]).astype(kind),
        "objects": objects([stamp]),
        "numpy": objects([np.datetime64(moment, "ns")]),
        "texts": [moment],
        "categories": pd.Series([stamp]).astype("category"),
    }
    wanted = {"day": [moment[:10]], "at": [moment[:26]]}
    found = meanings(declared_for(cells, wanted), pd.DataFrame(columns_for(cells, wanted)))
    assert wrong_columns(found, wanted) == {}


def test_sparse_object_columns_are_read() -> None:
    """An odd cell does not make the column unreadable."""
    cells = np.array(["1", 2, b"x", None, 34.0], dtype=object)
    sparse = pd.Series(pd.arrays.SparseArray(cells, dtype=pd.SparseDtype(object)))
    found = meanings(declared_for(["s"], ["code"]), pd.DataFrame({"code of s": sparse}))
    assert found == {"code of s": ["1", "2", "x", None, "34"]}


def test_empty_texts_are_missing_unless_declared() -> None:
    """pandas reads missing codes as empty texts if one code does not fit 64 bits."""
    empty = {"type": "category", "values": ["", "1"]}
    named = {"type": "category", "values": ["a", "b"]}
    lines = pd.read_csv(io.StringIO(f"v\n1\n\n{2**64 - 1}\n"), skip_blank_lines=False)
    frame = pd.DataFrame({name: objects(["", "1"]) for name in ("c", "n", "e")})
    frame["v"] = lines["v"][:2][::-1].tolist()
    columns = {"c": COLUMNS["code"], "n": named, "e": empty, "v": COLUMNS["code"]}
    found = meanings(columns, frame)
    wanted = [None, "1"]
    assert found == {"c": wanted, "n": wanted, "e": ["", "1"], "v": wanted}


def test_equal_numbers_as_values_need_text_columns() -> None:
    column = {"type": "category", "values": ["1", "01", "a"]}
    texts = ["1", "01", "a", "001"]
    assert meanings({"v": column}, pd.DataFrame({"v": texts})) == {"v": texts}
    other = {"type": "category", "values": ["9", "09", "01", "02", "true", "True"]}
    found = ["1", "2.0", "001", "9", "09", "009", "9.0", "TRUE"]  # of other codes, all spellings
    wanted = ["01", "02", "01", "9", "09", "009", "9.0", "TRUE"]
    assert meanings({"v": other}, pd.DataFrame({"v": found})) == {"v": wanted}
    for cells in ([1, 1], [1.0, None], [True, False]):
        with pytest.raises(DataError, match="DP-DATA-004") as caught:
            meanings({"v": column}, pd.DataFrame({"v": cells}))
        assert "'1' and '01'" in caught.value.fix


def test_ids_of_python_objects_are_refused() -> None:
    """A float may stand for several ids (V25), and a cell decides whether there is one."""
    for column in ({"type": "integer"}, {"type": "integer", "lower": 0, "upper": 9}):
        unit = {"id": "id", "max_groups": 1, "max_rows_per_group": 1}
        query = ask(
            declare({"id": column}, privacy_unit=unit), {"people": {"count_distinct": "id"}}
        )
        for cells in ([1, 2**53 + 1], ["1", None], [1, 1.0], [np.float32(1)], []):
            with pytest.raises(DataError, match=r"DP-DATA-004.*stored as OBJECT"):
                exact(query, pd.DataFrame({"id": objects(cells)}))


def test_chunked_csv_types_do_not_change_other_rows() -> None:
    """pandas finds types for each chunk: a letter keeps '01' in thousands of rows near it."""
    query = ask(declare({"v": {"type": "text"}}), {"n": {"count": "*"}}, where="v = '01'")
    for part in ([1, 2, 1], ["01", "02", "01"], []):
        frame = pd.DataFrame({"v": pd.Series([*part, "A7"], dtype=object)})
        with pytest.raises(DataError, match="DP-DATA-004"):
            exact(query, frame)
    whole = pd.read_csv(io.StringIO("v\n01\n02\n01\nA7\n"), dtype=str)
    assert exact(query, whole)["n"] == [2]


ODD_CATEGORIES = ["a", "\ud800", 1, 2.5, True, None, b"a", (1,), datetime.date(2024, 2, 29), NOON]


def test_categoricals_of_any_type_are_read() -> None:
    """An odd code refuses nothing, and no message quotes it (V79)."""
    columns = {"v": {"type": "category", "values": ["a", "1", "2024-02-29"], "others": "a"}}
    query = ask(declare(columns), {"rows": {"count": "*"}}, ["v"])
    known = [code for code in ODD_CATEGORIES if code is not None and code is not True]
    frame = pd.DataFrame({"v": pd.Categorical(ODD_CATEGORIES[:4] + known[4:], known)})
    plain = pd.DataFrame({"v": objects(frame["v"])})
    assert exact(query, frame)["rows"].tolist() == exact(query, plain)["rows"].tolist() == [4, 1, 1]


def test_computed_columns_may_have_bounds_above_2_to_53() -> None:
    columns = {
        "n": {"type": "integer", "lower": 0, "upper": 9},
        "big": {"expression": "n * 2", "type": "integer", "lower": 0, "upper": 2**60},
    }
    query = ask(declare(columns), {"total": {"sum": "big"}})
    assert exact(query, pd.DataFrame({"n": [1, 2]}))["total"] == [6]
