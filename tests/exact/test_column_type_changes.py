"""A row that changes the types of all columns in pandas changes only its own cells."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.exact.results.true_table import DenseProfile, ExactTable
from dprelease.query.measurement import Measurement
from tests.covering import spread
from tests.exact.build import ask, declare, exact

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "code": {"type": "category", "values": ["1", "2", "3"]},
    "padded": {"type": "category", "values": ["01", "02", "03"]},
    "word": {"type": "category", "values": ["x", "y"]},
    "age": {"type": "integer", "lower": 0, "upper": 115},
    "pay": {"type": "number", "lower": -50, "upper": 50, "step": 10},
    "part": {"type": "number", "lower": 0, "upper": 3, "step": "0.25"},
    "flag": {"type": "boolean"},
    "truth": {"type": "category", "values": ["True", "False"]},
    "day": {"type": "date", "lower": "2020-01-01", "upper": "2020-01-05"},
    "digits": {"type": "date", "format": "%Y%m%d", "lower": "2020-01-01", "upper": "2020-01-05"},
    "at": {"type": "timestamp", "lower": "2020-01-01", "upper": "2020-01-05 23:59:59"},
    "made": {"type": "category", "values": ["0", "3", "03", "01"], "expression": "left(word, 9)"},
}
ROWS = [
    f"{i},{i % 3 + 1},0{i % 3 + 1},0{i % 4},{i % 90},{5 * (i % 9) - 20},{i % 7 / 2},{i % 2},"
    f"{bool(i % 2)},2020-01-0{i % 5 + 1},2020010{i % 5 + 1},2020-01-0{i % 5 + 1} 12:00:00"
    for i in range(60)
]
STORED = [name for name in COLUMNS if name != "made"]
HEADER = ",".join(STORED)
ODD = {
    "nothing": "61" + "," * (len(STORED) - 1),
    "texts": "61" + ",x" * (len(STORED) - 1),
    "an odd id": "x61" + "," * (len(STORED) - 1),
    "floats": "61,1.5,1.5,1.5,1.5,1.5,1.5,0.5,1.5,1.5,20200101.5,1.5",
    "huge": "61" + ",18446744073709551614" * (len(STORED) - 1),
    "endless digits": "61" + ",99999999999999999999999" * (len(STORED) - 1),
    "endless": "61" + ",-inf" * (len(STORED) - 1),
    "truth": "61" + ",True" * (len(STORED) - 1),
    "negative": "61" + ",-1" * (len(STORED) - 1),
}
READERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dates": {"parse_dates": ["day", "at"]},
    "nullable": {"dtype_backend": "numpy_nullable"},
    "arrow": {"dtype_backend": "pyarrow"},
    "categories": {"dtype": dict.fromkeys(["code", "padded", "word", "truth"], "category")},
}
PAIRS = [
    *(("plain", odd) for odd in ODD),
    *(("arrow", odd) for odd in ODD if odd != "endless digits"),  # pandas itself fails
    *((reader, odd) for reader in READERS for odd in ("nothing", "texts", "floats")),
]
EACH_TIME = ("nothing", "an odd id", "floats")
"""Lines that are tried each time with rows bounded by id; the others in audits."""

CASES = [
    *spread([(reader, odd, False) for reader, odd in dict.fromkeys(PAIRS)], 0.6),
    *(
        pytest.param("plain", odd, True, marks=[] if odd in EACH_TIME else pytest.mark.audit)
        for odd in ODD
    ),
]
ASKED: dict[str, dict[str, Any]] = {
    "codes": {"columns": {"n": {"count": "*"}}, "by": ["code"]},
    "padded": {"columns": {"n": {"count": "*"}}, "by": ["padded"]},
    "truth": {"columns": {"n": {"count": "*"}}, "by": ["truth"]},
    "flags": {"columns": {"n": {"count": "*"}}, "by": ["flag"]},
    "days": {"columns": {"n": {"count": "*"}}, "by": ["day"]},
    "digits": {"columns": {"n": {"count": "*"}}, "by": ["digits"]},
    "sums": {
        "columns": {
            "age": {"sum": "age"},
            "pay": {"sum": "pay"},
            "part": {"sum": "part"},
            "flag": {"mean": "flag"},
        }
    },
    "noon": {"columns": {"n": {"count": "*"}}, "where": "at = TIMESTAMP '2020-01-03 12:00:00'"},
    "words": {"columns": {"n": {"count": "*"}}, "where": "word <> 'x' AND code = '1'"},
    "likeness": {"columns": {"n": {"count": "*"}}, "where": "word NOT LIKE '%0%' AND code <> '1'"},
    "parts": {"columns": {"n": {"count": "*"}}, "where": "length(word) + length(code) <> 2"},
    "columns": {"columns": {"n": {"count": "*"}}, "where": "word < padded OR word = code"},
    "middles": {
        "columns": {"day": {"median": "day"}, "digits": {"max": "digits"}, "at": {"median": "at"}}
    },
    "computed": {"columns": {"n": {"count": "*"}}, "by": ["made"]},
}
UNIT = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1}}


def answers(frame: object, unit: dict[str, Any], source: str | None = None) -> dict[str, Any]:
    """Return the true vectors of all queries."""
    declared = declare(COLUMNS, **(unit if source is None else {**unit, "source": source}))
    found = {}
    with Engine.open(declared, frame) as engine:
        for name, asked in ASKED.items():
            query = ask(declared, asked["columns"], asked.get("by"), asked.get("where"))
            table = engine.run(query)
            for measurement in query.measurements:
                found[f"{name}.{measurement.name}"] = vector_or_counts(table, measurement)
    return found


def vector_or_counts(table: ExactTable, measurement: Measurement) -> Any:
    """Return a vector, or for a quantile the number of rows with each candidate."""
    if not measurement.is_choice:
        return table.vector(measurement.name)
    profile = table.profile(measurement.name)
    pairs = profile.pairs() if isinstance(profile, DenseProfile) else profile
    return pairs.dense(measurement.aggregate.candidates)


def read(lines: list[str], reader: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO("\n".join([HEADER, *lines])), **READERS[reader])


@cache
def line_vectors(line: str, by_id: bool) -> dict[str, Any]:
    """Return what one line adds, read as the texts that stand there."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        path.write_text("\n".join([HEADER, line, ""]))
        return answers(None, UNIT if by_id else {}, str(path))


@cache
def vectors_of_all_rows(reader: str, by_id: bool) -> dict[str, Any]:
    return answers(read(ROWS, reader), UNIT if by_id else {})


def test_test_lines_count_in_cells() -> None:
    found = vectors_of_all_rows("plain", False)
    assert [found[f"{name}.n"].sum() for name in ("codes", "padded", "truth", "days")] == [60] * 4
    assert (found["noon.n"].sum(), found["words.n"].sum()) == (12, 20)


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("reader", "odd", "by_id"), CASES)
def test_line_read_by_pandas_changes_only_its_own_cells(reader: str, odd: str, by_id: bool) -> None:
    """Whatever types pandas infers because of it."""
    frame = read([*ROWS, ODD[odd]], reader)
    before, own = vectors_of_all_rows(reader, by_id), line_vectors(ODD[odd], by_id)
    after = answers(frame, UNIT if by_id else {})
    assert {name: (v - before[name]).tolist() for name, v in after.items()} == {
        name: v.tolist() for name, v in own.items()
    }


@pytest.mark.share(0.15)
@pytest.mark.parametrize("odd", [odd for odd in ODD if odd != "endless digits"])
def test_parquet_types_of_one_file_change_only_its_cells(odd: str, tmp_path: Path) -> None:
    """One of two files has other types because of the line."""
    read(ROWS[:30], "plain").to_parquet(tmp_path / "t1.parquet")
    read([*ROWS[30:], ODD[odd]], "plain").to_parquet(tmp_path / "t2.parquet")
    after, own = answers(None, {}, str(tmp_path / "t*.parquet")), line_vectors(ODD[odd], False)
    before = vectors_of_all_rows("plain", False)
    assert {name: (v - before[name]).tolist() for name, v in after.items()} == {
        name: v.tolist() for name, v in own.items()
    }


@pytest.mark.parametrize("cell", ["unknown", True, 1.5, [1], "\ud800", pd.NaT, 10**400])
def test_odd_cell_among_objects_changes_no_other_cell(cell: object) -> None:
    """Dates become objects because of it, and it is no category."""
    days = pd.to_datetime(["2020-01-02", "2020-01-03", "2020-01-03"])
    plain = {"day": days, "code": [1, 2, 2], "truth": [True, False, False]}
    columns = {name: COLUMNS[name] for name in plain}
    mixed = {
        name: mixed_with(pd.Series([*values, cell], dtype=object), cell)
        for name, values in plain.items()
    }
    for name in plain:
        query = ask(declare(columns), {"n": {"count": "*"}}, [name])
        wanted = exact(query, pd.DataFrame(plain))["n"]
        found = exact(query, pd.DataFrame(mixed))["n"] - wanted
        assert found.sum() == int(name == "truth" and cell is True)


def mixed_with(values: pd.Series, cell: object) -> pd.Series:
    """Return objects as categories, unless a cell can be none, or is one of the others: True is 1."""
    if isinstance(cell, list | bool):
        return values
    if isinstance(cell, int):  # so large that pandas 3.0 fails where it looks for a better type
        return values.astype(pd.CategoricalDtype(pd.Index(values.unique(), dtype=object)))
    return values.astype("category")
