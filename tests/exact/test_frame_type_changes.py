"""Values of polars and Arrow types are read equally in every frame; types alone are refused."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable
from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from dprelease.errors import DataError
from tests.covering import sampled
from tests.exact.test_column_type_changes import (
    HEADER,
    ODD,
    ROWS,
    STORED,
    UNIT,
    answers,
    line_vectors,
)
from tests.exact.test_value_conversion import COLUMNS, meanings

FRAMES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "eager": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "reader": lambda frame: pa.table(frame).to_reader(max_chunksize=2),
    "table": lambda frame: pa.table(frame),
}
DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)
VALUES: dict[str, tuple[list[Any], Any]] = {
    **{str(kind): ([1, 2, 34, None, 0], kind) for kind in (
        pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
        pl.Float16, pl.Float32, pl.Float64,
    )},
    "Decimal": ([decimal.Decimal(n) for n in (1, 2, 34)] + [None], pl.Decimal(38, 3)),
    "String": (["1", "02", "a", None, "2024-02-29", " 1"], pl.String),
    "Categorical": (["1", "02", "a", None, "2024-02-29", " 1"], pl.Categorical),
    "Enum": (["1", "02", None, "1"], pl.Enum(["02", "1", "other"])),
    "Boolean": ([True, False, None], pl.Boolean),
    "Null": ([None, None], pl.Null),
    "Date": ([DAY, None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], pl.Date),
    **{f"Datetime {unit} {zone}": ([MOMENT, None], pl.Datetime(unit, zone))
       for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")},
}  # fmt: skip
REFUSED: dict[str, tuple[list[Any], Any]] = {
    "Int128": ([1, None], pl.Int128),
    "UInt128": ([1, None], pl.UInt128),
    "Duration": ([datetime.timedelta(1), None], pl.Duration),
    "Time": ([datetime.time(1), None], pl.Time),
    "Binary": ([b"1", None], pl.Binary),
    "List": ([[1], None], pl.List(pl.Int64)),
    "Array": ([[1], None], pl.Array(pl.Int64, 1)),
    "Struct": ([{"a": 1}, None], pl.Struct({"a": pl.Int64})),
    "Object": ([1, None], pl.Object),
}


OF_128_BITS = ("huge", "endless digits")
"""Lines whose integers polars stores in a type that is refused."""


def meaning(name: str, frame: Any) -> list[Any] | str:
    """Return the values of one declared column, or the code of its refusal."""
    try:
        return meanings({name: COLUMNS[name]}, frame)[name]
    except DataError as problem:
        return problem.code


@pytest.mark.share(0.1)
@pytest.mark.parametrize("kind", VALUES)
def test_values_are_equal_in_every_kind_of_frame(kind: str) -> None:
    cells, physical = VALUES[kind]
    for name in sampled(COLUMNS):
        frame = pl.DataFrame({name: pl.Series(cells, dtype=physical)})
        found = {form: meaning(name, convert(frame)) for form, convert in FRAMES.items()}
        assert all(one == found["table"] for one in found.values()), (name, found)
        # Whether it is refused depends on the type alone.
        for other in ([None], cells[:1]):
            rows = pl.DataFrame({name: pl.Series(other, dtype=physical)})
            for convert in FRAMES.values():
                is_refused = isinstance(meaning(name, convert(rows)), str)
                assert is_refused == isinstance(found["table"], str)


def test_polars_texts_numbers_and_dates_are_read() -> None:
    for kind in ("String", "Categorical"):
        frame = pl.DataFrame({"code": pl.Series(["1", "a", None, "x"], dtype=getattr(pl, kind))})
        assert meaning("code", frame.lazy())[:3] == ["1", "a", None]
    for zone, wanted in (("UTC", ["2024-02-29"]), ("Asia/Tokyo", "DP-DATA-028")):
        days = pl.DataFrame({"day": pl.Series([MOMENT], dtype=pl.Datetime("us", zone))})
        assert meaning("day", days) == meaning("day", days.lazy()) == wanted
    codes = pl.DataFrame({"code": pl.Series([MOMENT], dtype=pl.Datetime("us", "Asia/Tokyo"))})
    assert meaning("code", codes) == meaning("code", codes.lazy()) == "DP-DATA-028"


@pytest.mark.share(0.5, by="form")
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("form", ["eager", "lazy"])
def test_unsupported_polars_types_are_refused(kind: str, form: str) -> None:
    cells, physical = REFUSED[kind]
    for name in COLUMNS:
        for some in (cells, cells[1:], []):
            frame = pl.DataFrame({name: pl.Series(some, dtype=physical), "other": some})
            assert meaning(name, FRAMES[form](frame)) == "DP-DATA-004"
    # A column that is not declared does no harm.
    frame = pl.DataFrame({"whole": [1, 2], "odd": pl.Series([*cells], dtype=physical)})
    assert meaning("whole", FRAMES[form](frame)) == [1, 2]


def read(lines: list[str], form: str) -> Any:
    """Return lines as polars reads them, which takes the types of all columns from all lines."""
    text = "\n".join([HEADER, *lines]).encode()
    return FRAMES[form](pl.read_csv(io.BytesIO(text), infer_schema_length=None))


@cache
def vectors_of_all_rows(form: str, by_id: bool) -> dict[str, Any]:
    return answers_of(ROWS, form, by_id)


def answers_of(lines: list[str], form: str, by_id: bool) -> dict[str, Any]:
    """Return the true vectors of all queries; a reader is read anew for each."""
    return answers(read(lines, form), UNIT if by_id else {})


def test_test_lines_have_every_column() -> None:
    assert set(read(ROWS, "eager").columns) == set(STORED)


@pytest.mark.share(0.15)
@pytest.mark.parametrize("odd", [odd for odd in ODD if odd not in OF_128_BITS])
@pytest.mark.parametrize("form", ["eager", "lazy"])
def test_line_read_by_polars_changes_only_its_own_cells(form: str, odd: str) -> None:
    """Whatever types polars infers because of it; or the type is refused."""
    by_id = odd == "nothing"
    before, own = vectors_of_all_rows(form, by_id), line_vectors(ODD[odd], by_id)
    after = answers_of([*ROWS, ODD[odd]], form, by_id)
    assert {name: (v - before[name]).tolist() for name, v in after.items()} == {
        name: v.tolist() for name, v in own.items()
    }
