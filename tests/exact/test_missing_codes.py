"""Declared codes are missing values, in every kind of source and every stored type."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dprelease.exact.duckdb import Engine
from dprelease.schema.load import Declared
from dprelease.statements.lost_rows import UNREAD, compile_left_out_rows
from tests.exact.build import ask, declare
from tests.exact.iceberg_catalogue import FolderCatalogue

COLUMNS: dict[str, Any] = {
    "id": {"type": "text", "missing": "none"},
    "code": {"type": "category", "values": ["1", "2"], "fill": "2", "missing": [9, "k.A."]},
    "padded": {"type": "category", "values": ["01", "02"], "others": "02", "missing": "99"},
    "age": {"type": "integer", "lower": 0, "upper": 120, "missing": [99, "999"]},
    "pay": {"type": "number", "lower": -50, "upper": 50, "step": "0.5", "missing": ["-9.9", "."]},
    "flag": {"type": "boolean", "missing": 9, "fill": True},
    "day": {"type": "date", "lower": "1900-01-01", "upper": "2030-12-31", "missing": "1900-01-01"},
    "at": {"type": "timestamp", "missing": ["1900-01-01 00:00:00"]},
    "band": {"cut": "age", "edges": [0, 50, 121], "fill": "50-120"},
    "twice": {"expression": "2 * age", "type": "integer", "lower": 0, "upper": 240},
}
CODES: dict[str, tuple[str, ...]] = {
    "id": ("none",), "code": ("9", "k.A."), "padded": ("99",), "age": ("99", "999"),
    "pay": ("-9.9", "."), "flag": ("9",), "day": ("1900-01-01",), "at": ("1900-01-01 00:00:00",),
}  # fmt: skip
STORED = list(CODES)
ROWS = [
    (f"p{i % 7}", str(i % 2 + 1), f"0{i % 3 + 1}", str(i % 60), str(i % 8 / 4), str(i % 2),
     f"2020-01-0{i % 5 + 1}", f"2020-01-0{i % 5 + 1} 12:00:00")
    for i in range(40)
]  # fmt: skip
TEXTS = pd.DataFrame(
    [
        tuple(
            CODES[name][i % len(CODES[name])] if (i + k) % 5 == 0 else row[k]
            for k, name in enumerate(STORED)
        )
        for i, row in enumerate(ROWS)
    ],
    columns=STORED,
)
"""Rows as texts, in which every fifth cell of each column is a code."""

NUMBERS = TEXTS.replace({"code": {"k.A.": "9"}, "pay": {".": "-9.9"}})
"""The same rows without codes that are no numbers."""

ASKED: dict[str, dict[str, Any]] = {
    "codes": {"columns": {"n": {"count": "*"}}, "by": ["code"]},
    "padded": {"columns": {"n": {"count": "*"}}, "by": ["padded"]},
    "flags": {"columns": {"n": {"count": "*"}}, "by": ["flag"]},
    "bands": {"columns": {"n": {"count": "*"}, "known": {"count": "pay"}}, "by": ["band"]},
    "sums": {
        "columns": {"age": {"sum": "age"}, "pay": {"sum": "pay"},                     "twice": {"sum": "twice"}},
    },
    "averages": {"columns": {"mean": {"mean": "age"}}},
    "known": {"columns": {name: {"count": name} for name in STORED if name != "id"}},
    "asked": {"columns": {"n": {"count": "*"}}, "where": "age IS NULL AND at IS NOT NULL"},
    "named": {"columns": {"n": {"count": "*"}}, "where": "id IS NULL OR code IS NULL"},
    "middle": {"columns": {"median": {"median": "age"}}},
}  # fmt: skip


def answers(declared: Declared, frame: object = None) -> dict[str, Any]:
    """Return the true vectors of all queries, and profiles of medians."""
    found = {}
    with Engine.open(declared, frame) as engine:
        for name, asked in ASKED.items():
            query = ask(declared, asked["columns"], asked.get("by"), asked.get("where"))
            table = engine.run(query)
            for measurement in query.measurements:
                at = f"{name}.{measurement.name}"
                if measurement.is_choice:
                    found[at] = table.profile(measurement.name).pairs().counts.tolist()
                else:
                    found[at] = table.vector(measurement.name).tolist()
    return found


def expected_counts() -> dict[str, Any]:
    """Return the counts by pandas, row by row, with a missing value in place of every code."""
    held = TEXTS.copy()
    for name, codes in CODES.items():
        held[name] = held[name].where(~held[name].isin(codes), None)
    age = pd.to_numeric(held["age"]).astype("Int64")
    pay, code = pd.to_numeric(held["pay"]).astype(float), held["code"].fillna("2")
    flag, padded = held["flag"].fillna("1"), held["padded"].map(
        lambda text: None if pd.isna(text) else text if text in ("01", "02") else "02"
    )  # fmt: skip
    low = age.lt(50).fillna(False).astype(bool)
    steps = np.sign(pay) * np.floor(np.abs(pay) / 0.5 + 0.5)
    return {
        "codes.n": [int((code == value).sum()) for value in ("1", "2")],
        "padded.n": [int((padded == value).sum()) for value in ("01", "02")],
        "flags.n": [int((flag == value).sum()) for value in ("0", "1")],
        "bands.n": [int(low.sum()), int((~low).sum())],
        "bands.known": [int(pay[low].notna().sum()), int(pay[~low].notna().sum())],
        "sums.age": [int(age.sum())],
        "averages.mean.count": [int(age.notna().sum())],
        "sums.twice": [2 * int(age.sum())],
        "sums.pay": [int(steps.sum())],
        "asked.n": [int((age.isna() & held["at"].notna()).sum())],
        "named.n": [int((held["id"].isna() | held["code"].isna()).sum())],
        **{f"known.{name}": [int(held[name].notna().sum())] for name in STORED if name != "id"},
    }


def plain_numbers(kinds: dict[str, pa.DataType]) -> pa.Table:
    """Return the rows with numbers and days in columns of these Arrow types."""
    days = {"day": pa.date32(), "at": pa.timestamp("us")}
    columns = {}
    for name in STORED:
        kind = kinds.get(name, days.get(name) if kinds else None)
        texts = pa.array(NUMBERS[name], pa.string())
        if kind is None:
            columns[name] = texts
        elif pa.types.is_temporal(kind):
            columns[name] = pa.array(pd.to_datetime(NUMBERS[name])).cast(kind)
        else:
            columns[name] = texts.cast(pa.float64()).cast(kind, safe=False)
    return pa.table(columns)


WHOLE = dict.fromkeys(("code", "age", "flag"), pa.int8())
KINDS: dict[str, dict[str, pa.DataType]] = {
    "texts": {},
    "narrow": {**WHOLE, "age": pa.int16(), "pay": pa.float32(), "at": pa.timestamp("ms")},
    "wide": {**dict.fromkeys(WHOLE, pa.int64()), "pay": pa.float64(), "at": pa.timestamp("ns")},
    "floats": {**dict.fromkeys(WHOLE, pa.float32()), "pay": pa.decimal128(9, 3)},
    "doubles": {**dict.fromkeys(WHOLE, pa.float64()), "pay": pa.decimal128(6, 2)},
}


def write_csv(folder: Path) -> dict[str, Any]:
    TEXTS.to_csv(folder / "t.csv", index=False)
    return {"path": str(folder / "t.csv")}


def write_json(folder: Path) -> dict[str, Any]:
    lines = [json.dumps(row) for row in TEXTS.to_dict("records")]
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    return {"path": str(folder / "t.jsonl")}


def write_duckdb(folder: Path) -> dict[str, Any]:
    with duckdb.connect(str(folder / "t.duckdb")) as link:
        link.register("rows", plain_numbers(KINDS["narrow"]))
        link.execute("CREATE TABLE people AS SELECT * FROM rows")
    return {"path": str(folder / "t.duckdb"), "table": "people"}


def write_sqlite(folder: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(folder / "t.sqlite")) as link, link:
        kinds = {"age": "INTEGER", "pay": "REAL", "flag": "INTEGER"}
        columns = ", ".join(f"{name} {kinds.get(name, '')}" for name in STORED)
        link.execute(f"CREATE TABLE people ({columns})")
        link.executemany(
            f"INSERT INTO people VALUES ({', '.join('?' * len(STORED))})", TEXTS.values
        )
    return {"path": str(folder / "t.sqlite"), "table": "people"}


def write_workbook(folder: Path) -> dict[str, Any]:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (STORED, *plain_numbers(KINDS["wide"]).to_pandas().values.tolist()):
        cells = [x.to_pydatetime() if isinstance(x, pd.Timestamp) else x for x in row]
        book.active.append(cells)
    book.save(folder / "t.xlsx")
    return {"path": str(folder / "t.xlsx")}


def write_two_files(folder: Path) -> dict[str, Any]:
    """Write files that store the same columns with different types."""
    for i, kind in enumerate(("texts", "floats", "narrow")):
        table = plain_numbers(KINDS[kind])
        pq.write_table(table.slice(i * 13, 13 if i < 2 else None), folder / f"t{i}.parquet")
    return {"path": str(folder / "t*.parquet")}


def write_delta_table(folder: Path) -> dict[str, Any]:
    write_deltalake(folder / "t", plain_numbers({**KINDS["wide"], "at": pa.timestamp("us")}))
    return {"path": str(folder / "t"), "format": "delta"}


def write_iceberg_table(folder: Path) -> dict[str, Any]:
    whole = dict.fromkeys(WHOLE, pa.int32())
    rows = plain_numbers({**KINDS["wide"], **whole, "at": pa.timestamp("us")})
    catalogue = FolderCatalogue(folder / "t")
    catalogue.create(rows.schema).append(rows)
    return {"path": catalogue.current, "format": "iceberg"}


FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "csv": write_csv, "json_lines": write_json, "duckdb": write_duckdb, "sqlite": write_sqlite,
    "excel": write_workbook, "delta": write_delta_table, "iceberg": write_iceberg_table, "files of several types": write_two_files,
}  # fmt: skip


def check(found: dict[str, Any]) -> None:
    """Compare answers with what pandas counts; a mean is a sum beside a count."""
    wanted = expected_counts()
    assert {name: found[name] for name in wanted} == wanted
    assert sum(found["middle.median"]) == wanted["known.age"][0]


@pytest.mark.parametrize("kind", FILES)
def test_missing_codes_in_files(kind: str, tmp_path: Path) -> None:
    check(answers(declare(COLUMNS, source=FILES[kind](tmp_path))))


@pytest.mark.share(0.5)
@pytest.mark.parametrize("kind", KINDS)
def test_missing_codes_in_parquet_and_frames(kind: str, tmp_path: Path) -> None:
    table = plain_numbers(KINDS[kind])
    pq.write_table(table, tmp_path / "t.parquet")
    check(answers(declare(COLUMNS, source=str(tmp_path / "t.parquet"))))
    check(answers(declare(COLUMNS), table))
    check(answers(declare(COLUMNS), table.to_pandas()))
    check(answers(declare(COLUMNS), pl.DataFrame(table).to_arrow()))
    check(answers(declare(COLUMNS), duckdb.from_arrow(table)))
    # Rows of persons are read one by one: equal cells are not grouped before codes are found.
    unit = {"id": "person", "max_groups": 1, "max_rows_per_group": 1}
    people = table.append_column("person", pa.array(range(len(table))))
    columns = {**COLUMNS, "person": {"type": "integer"}}
    check(answers(declare(columns, privacy_unit=unit), people))


def test_missing_codes_in_objects_and_categories() -> None:
    objects = plain_numbers({}).to_pandas().astype(object)
    check(answers(declare({**COLUMNS, "id": {"type": "text"}} | {"id": COLUMNS["id"]}),
                  objects.assign(id=TEXTS["id"].astype("str"))))  # fmt: skip
    check(answers(declare(COLUMNS), TEXTS.astype({"code": "category", "padded": "category"})))


@pytest.mark.parametrize("groups", [1, 50])
def test_rows_with_a_missing_code_as_id_are_left_out(groups: int) -> None:
    """Such an id is missing, and its rows do not use anyone's limits."""
    unit = {"id": "id", "max_groups": groups, "max_rows_per_group": 2}
    known = TEXTS[TEXTS["id"] != "none"]
    coded = answers(declare(COLUMNS, privacy_unit=unit), TEXTS)
    assert coded == answers(declare(COLUMNS, privacy_unit=unit), known)
    assert sum(coded["codes.n"]) > 0


def test_missing_codes_of_a_joined_table() -> None:
    """Keys and values of a public table may be codes as well."""
    rates = declare(
        {"code": {"type": "text", "missing": "2"},
         "rate": {"type": "integer", "lower": 0, "upper": 9, "missing": 9}},
        table="rates", public=True,
    )  # fmt: skip
    declared = declare({"code": {"type": "text"}})
    query = ask(
        declared, {"n": {"sum": "rate"}, "known": {"count": "rate"}}, other=rates,
        join={"table": "rates", "on": {"code": "code"}},
    )  # fmt: skip
    people, public = pa.table({"code": list("1123")}), pa.table(
        {"code": list("123"), "rate": [4, 5, 9]}
    )  # fmt: skip
    with Engine.open(declared, people, rates, public, queries=[query]) as engine:
        found = engine.run(query)
    assert (found.vector("n").tolist(), found.vector("known").tolist()) == ([8], [2])


@pytest.mark.parametrize(
    ("stored", "codes", "left"),
    [
        (pa.array([99.0, 1e8, 5.0], pa.float32()), [99_999_999], [99, 5]),
        (pa.array([2**53, 10**16, 5], pa.int64()), ["9999999999999999", 10**16], [2**53, 5]),
        (pa.array(["09", "9.0", "9e0", " 9 ", "90", "9.5", "x"]), [9], [90]),
        (pa.array(["9", "k.A.", "", None]), ["k.A."], [9]),
        (pa.array([1e300, 5.0]), ["1e300"], [5]),
    ],
)
def test_missing_codes_are_compared_as_numbers(
    stored: pa.Array, codes: list[Any], left: list[int]
) -> None:
    declared = declare({"v": {"type": "integer", "lower": 0, "upper": 2**60, "missing": codes}})
    if pa.types.is_floating(stored.type):
        declared = declare(
            {"v": {"type": "number", "lower": 0, "upper": 2**40, "step": 1, "missing": codes}}
        )
    query = ask(declared, {"n": {"count": "v"}, "sum": {"sum": "v"}})
    with Engine.open(declared, pa.table({"v": stored})) as engine:
        found = engine.run(query)
    assert (found.vector("n").tolist(), found.vector("sum").tolist()) == ([len(left)], [sum(left)])


@pytest.mark.parametrize("layout", ["%d.%m.%Y", "%Y%m%d", "%Y-%m-%d"])
def test_missing_codes_are_compared_as_dates(layout: str) -> None:
    """In any spelling; a text that is no date is missing anyway."""
    days = [datetime.date(1900, 1, 1), datetime.date(2020, 2, 3), datetime.date(9999, 12, 31)]
    codes = [days[0].strftime(layout), days[2].isoformat(), "99.99.9999"]
    columns = {"d": {"type": "date", "format": layout, "missing": codes}}
    query = ask(declare(columns), {"n": {"count": "d"}})
    for cells in (
        pa.array(days), pa.array([day.strftime(layout) for day in days]),
        pa.array([day.isoformat() for day in days]), pa.array(days).cast(pa.timestamp("ms")),
    ):  # fmt: skip
        with Engine.open(query.declared, pa.table({"d": cells})) as engine:
            assert engine.run(query).vector("n").tolist() == [1]


def test_profile_does_not_count_missing_codes_as_unreadable() -> None:
    columns = {"v": COLUMNS["pay"], "flag": COLUMNS["flag"]}
    declared = declare(columns)
    query = ask(declared, {"v": {"sum": "v"}, "f": {"count": "flag"}})
    table = pa.table({"v": [".", "-9.9", "x", "1", ""], "flag": ["9", "8", "true", "0", None]})
    left_out = compile_left_out_rows(query, dict.fromkeys(columns, "VARCHAR"), {})
    with duckdb.connect() as link:
        link.register("dp_source", table)
        counted = link.execute(left_out.stored_sql).fetchone()
    assert counted is not None
    found = dict(zip(left_out.stored_counts, counted, strict=True))
    assert (found[UNREAD, "v"], found[UNREAD, "flag"]) == (1, 1)
