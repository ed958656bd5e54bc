"""Each pair of an Arrow type and a declared type is refused by the types alone, or never."""

from __future__ import annotations

import decimal
import io
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError
from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query
from tests.covering import spread
from tests.exact.build import ask, declare

COLUMNS: dict[str, dict[str, Any]] = {
    "whole": {"type": "integer", "lower": -(2**53), "upper": 2**53, "step": 3},
    "key": {"type": "integer", "lower": 0, "upper": 3},
    "number": {"type": "number", "lower": "-1e15", "upper": "1e15", "step": "0.5"},
    "boolean": {"type": "boolean"},
    "date": {"type": "date"},
    "bounded": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03"},
    "digits": {"type": "date", "format": "%Y%m%d"},
    "timestamp": {"type": "timestamp"},
    "category": {"type": "category", "values": ["a", "1", "true", "2024-01-01"]},
    "padded": {"type": "category", "values": ["01", "02"], "others": "02", "fill": "01"},
    "text": {"type": "text"},
}
ASKED: dict[str, dict[str, Any]] = {
    "whole": {"columns": {"n": {"sum": "v"}}, "where": "v * v >= 0 OR v IS NULL"},
    "key": {"columns": {"n": {"count": "*"}}, "by": ["v"]},
    "number": {"columns": {"n": {"sum": "v"}, "m": {"variance": "v"}}, "where": "-v < 1e9 OR TRUE"},
    "boolean": {"columns": {"n": {"count": "*"}}, "by": ["v"]},
    "date": {"columns": {"n": {"count": "v"}}, "where": "year(v) > 0 OR v IS NULL"},
    "bounded": {"columns": {"n": {"count": "*"}}, "by": ["v"]},
    "digits": {"columns": {"n": {"count": "v"}}, "where": "month(v) > 0 OR v IS NULL"},
    "timestamp": {"columns": {"n": {"count": "v"}}, "where": "year(v) > 0 OR v IS NULL"},
    "category": {"columns": {"n": {"count": "*"}}, "by": ["v"]},
    "padded": {"columns": {"n": {"count": "*"}}, "by": ["v"]},
    "text": {"columns": {"n": {"count": "v"}}, "where": "lower(v) LIKE '%a' OR length(v) >= 0"},
}


def bits(kind: pa.DataType) -> pa.Array:
    """Return the ends of a type that is made of whole numbers, whatever they mean."""
    width = kind.bit_width
    plain = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width]
    most = 2 ** (width - 1) - 1
    ends = [most, -most - 1, most - 1, -most, 0, 1, -1, 59, most // 1000 * 1000, None]
    return pa.array(ends, plain).view(kind)


def floats(kind: pa.DataType) -> pa.Array:
    width = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
    ends = [np.finfo(width).max, np.finfo(width).min, np.finfo(width).smallest_subnormal]
    return pa.array(np.array([*ends, -0.0, np.inf, -np.inf, np.nan, 2.5], dtype=width), kind)


def decimals(kind: pa.DataType) -> pa.Array:
    top = decimal.Decimal((0, (9,) * kind.precision, -kind.scale))
    least = decimal.Decimal((0, (1,), -kind.scale))
    if kind.scale > kind.precision:
        return pa.array([1, None], pa.int32()).view(pa.int32()).cast(pa.decimal128(38)).view(kind)
    with decimal.localcontext(prec=100):
        return pa.array([top, -top, least, -least, None], kind)


ODD_TEXTS = [b"\xff", b"\xed\xa0\x80", b"\0", b"9" * 400, b"1e999999999", b"-inf", b"", b"NaN"]
ODD_TEXTS += [b"0" * 99 + b"1", b"9999-12-31 23:59:60", b"0000-01-01", b"10000-01-01", b"\t1\n"]
ODD_TEXTS += [
    b"2024-01-01 00:00:00+99:99",
    b"infinity",
    b"2024-01-01 24:00:00",
    b"\xc2\xa01",
    b"1_0",
]


def texts(kind: pa.DataType) -> pa.Array:
    return (
        unchecked_texts(ODD_TEXTS, pa.large_string())
        if kind == pa.large_string()
        else unchecked_texts(ODD_TEXTS)
    )


def unchecked_texts(values: list[bytes], kind: pa.DataType | None = None) -> pa.Array:
    """Return texts that may be invalid UTF-8."""
    wide = kind == pa.large_string()
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64 if wide else np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind or pa.string(), len(values), buffers)


def string_views(_: pa.DataType) -> pa.Array:
    """Return short inline texts that may be invalid UTF-8."""
    short = [value for value in ODD_TEXTS if len(value) <= 12]
    rows = b"".join(struct.pack("<i12s", len(value), value) for value in short)
    return pa.Array.from_buffers(pa.string_view(), len(short), [None, pa.py_buffer(rows)])


def dictionary_array(kind: pa.DataType) -> pa.Array:
    inner = extreme_values(kind.value_type)
    places = pa.array([*range(len(inner)), None], kind.index_type)
    return pa.DictionaryArray.from_arrays(places, inner)


def extension(kind: pa.BaseExtensionType) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, extreme_values(kind.storage_type))


def nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(3, kind)


def runs(kind: pa.DataType) -> pa.Array:
    inner = extreme_values(kind.value_type)
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(inner) + 1), pa.int32()), inner)


def fixed_size_binary(kind: pa.DataType) -> pa.Array:
    return pa.array([b"\xff" * 16, b"\0" * 16, None], kind)


KINDS: dict[pa.DataType, Callable[[Any], pa.Array]] = {
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], bits),
    **dict.fromkeys([pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], bits),
    **dict.fromkeys([pa.float16(), pa.float32(), pa.float64()], floats),
    **dict.fromkeys([pa.decimal32(9, 0), pa.decimal64(18, 18), pa.decimal128(38, 0)], decimals),
    **dict.fromkeys([pa.decimal128(38, 38), pa.decimal256(76, 0), pa.decimal256(76, 76)], decimals),
    **dict.fromkeys([pa.decimal128(5, -3), pa.decimal128(3, 9), pa.decimal256(9, 2)], decimals),
    **dict.fromkeys([pa.string(), pa.large_string()], texts),
    pa.string_view(): string_views,
    **dict.fromkeys(
        [pa.binary(16), pa.uuid()],
        lambda kind: extension(kind) if kind == pa.uuid() else fixed_size_binary(kind),
    ),
    **dict.fromkeys([pa.binary(), pa.large_binary(), pa.binary_view()], nulls),
    **dict.fromkeys([pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms")], bits),
    **dict.fromkeys([pa.time64("us"), pa.time64("ns")], bits),
    **dict.fromkeys([pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], bits),
    **dict.fromkeys([pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")], bits),
    **dict.fromkeys([pa.timestamp("us", "Mars/Phobos"), pa.timestamp("s", "+23:59")], bits),
    **dict.fromkeys([pa.duration(unit) for unit in ("s", "ms", "us", "ns")], bits),
    **dict.fromkeys([pa.month_day_nano_interval(), pa.null(), pa.bool_()], nulls),
    **dict.fromkeys([pa.list_(pa.int8()), pa.large_list(pa.string())], nulls),
    **dict.fromkeys([pa.list_view(pa.float16()), pa.list_(pa.int8(), 2)], nulls),
    **dict.fromkeys([pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())], nulls),
    **dict.fromkeys([pa.dense_union([pa.field("a", pa.int8())])], nulls),
    **dict.fromkeys([pa.json_(), pa.bool8(), pa.opaque(pa.int64(), "a", "b")], extension),
    **dict.fromkeys(
        [pa.run_end_encoded(pa.int32(), k) for k in (pa.int64(), pa.timestamp("s"))], runs
    ),
    **dict.fromkeys(
        [pa.dictionary(pa.int8(), k) for k in (pa.string(), pa.int64())], dictionary_array
    ),
    **dict.fromkeys(
        [
            pa.dictionary(pa.uint16(), pa.timestamp("s")),
            pa.dictionary(pa.int32(), pa.decimal128(38, 38)),
        ],
        dictionary_array,
    ),
}


def extreme_values(kind: pa.DataType) -> pa.Array:
    return KINDS[kind](kind)


def outcomes(column: pa.Array, source: str | None = None) -> dict[str, str]:
    """Return the code of the refusal of each declared type; nothing for an answer."""
    more: dict[str, Any] = {} if source is None else {"source": source}
    table = declare(COLUMNS, **more)
    rows = pa.table(dict.fromkeys(COLUMNS, column))
    if source is not None:
        pq.write_table(rows, source)
    queries = {
        name: ask(
            table,
            {
                k: {f: name if v == "v" else v for f, v in m.items()}
                for k, m in asked["columns"].items()
            },
            [name] if "by" in asked else None,
            re.sub(r"\bv\b", name, asked["where"]) if "where" in asked else None,
        )
        for name, asked in ASKED.items()
    }
    try:
        with Engine.open(table, rows if source is None else None) as engine:
            return {name: error_code(engine, query) for name, query in queries.items()}
    except DataError as error:
        return dict.fromkeys(COLUMNS, error.code)


def error_code(engine: Engine, query: Query) -> str:
    try:
        engine.run(query)
    except DataError as error:
        return error.code
    return ""


@pytest.mark.share(0.2)
@pytest.mark.parametrize("kind", spread([(kind,) for kind in KINDS], 0.6), ids=str)
def test_arrow_columns_are_refused_by_type_or_never(kind: pa.DataType) -> None:
    extremes = extreme_values(kind)
    found = outcomes(extremes)
    assert found == outcomes(extremes.slice(0, 0))
    assert set(found.values()) <= {"", "DP-DATA-004", "DP-DATA-015", "DP-DATA-028"}


STORED = [pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float64(), pa.date32(), pa.null()]
STORED += [pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.time64("us")]
STORED += [pa.decimal128(38, 38), pa.decimal256(76, 76), pa.uuid(), pa.duration("us"), pa.bool8()]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", STORED, ids=str)
def test_parquet_columns_are_refused_by_type_or_never(kind: pa.DataType, tmp_path: Path) -> None:
    extremes = extreme_values(kind)
    found = outcomes(extremes, str(tmp_path / "t.parquet"))
    assert found == outcomes(extremes.slice(0, 0), str(tmp_path / "empty.parquet"))
    assert set(found.values()) <= {"", "DP-DATA-004", "DP-DATA-015"}


def test_untyped_null_columns_are_missing_values(tmp_path: Path) -> None:
    """Such a column has no type: the only value of one person would give it one."""
    for source in (None, str(tmp_path / "t.parquet")):
        assert set(outcomes(pa.nulls(3), source).values()) == {""}
    empty = pd.read_csv(io.StringIO("v,w\n,1\n,2\n"), dtype_backend="pyarrow")["v"]
    assert set(outcomes(pa.array(empty)).values()) == {""}
