"""Every source format gives the same vectors; nothing is guessed, no other file can be read."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dprelease.errors import DataError, State
from dprelease.exact import duckdb as engine_module
from dprelease.exact.duckdb import Engine
from dprelease.exact.scratch import private_folder
from dprelease.exact.settings import SCRATCH
from dprelease.exact.sources import parquet_reader
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.table_reader import TableReader
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query, resolve_one
from dprelease.schema.load import table_from_mapping
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.yaml_text.reader import Document
from dprelease.statements.compiled_statements import CompiledQuery
from tests.exact.iceberg_catalogue import FolderCatalogue

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "k": {"type": "category", "values": ["a", "b"]},
    "n": {"type": "integer", "lower": 0, "upper": 9},
    "x": {"type": "number", "lower": 0, "upper": 10, "step": "0.5"},
    "d": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    "flag": {"type": "boolean"},
}
FRAME = pd.DataFrame(
    {
        "id": [1, 1, 2, 3, 4, 5],
        "k": ["a", "a", "b", "b", "zz", "a"],
        "n": [1, 12, 3, -4, 5, 6],
        "x": [0.25, 2.0, 99.0, -3.0, 1.0, 7.25],
        "d": pd.to_datetime(
            ["2024-01-03", "2024-03-01", "2024-03-25", "2023-01-01", "2024-05-05", "2024-06-01"]
        ).date,
        "flag": [True, False, True, True, False, True],
        "spare": [[1], [2], [3], [4], [5], [6]],
    }
)
MEASURES = {"rows": {"count": "*"}, "n": {"sum": "n"}, "xs": {"sum": "x"}, "days": {"count": "d"}}
EXPECTED = {"rows": [3, 2], "n": [16, 3], "xs": [20, 20], "days": [3, 1]}


def query_of(
    source: object, folder: Path, declared_columns: dict[str, Any] | None = None, **asked: Any
) -> Query:
    values: dict[str, object] = {"table": "t", "columns": declared_columns or COLUMNS}
    if source is not None:
        values["source"] = source
    declared = table_from_mapping(values, folder)
    spec = {"from": "t", "group_by": ["k"], "columns": MEASURES, **asked}
    document = Document(folder / "q", "", spec, {})
    parsed = validate(QuerySpec, document, Files(relative_reader(folder)))
    return resolve_one(declared, "q", parsed, Neighbours.ADD_REMOVE, Limits())


def vectors(query: Query, frame: object | None = None) -> dict[str, list[int]]:
    with Engine.open(query.declared, frame) as engine:
        found = engine.run(query)
    return {m.name: found.vector(m.name).tolist() for m in query.measurements if m.is_vector}


def write_csv(path: Path, frame: pd.DataFrame = FRAME, delimiter: str = ",") -> None:
    frame.drop(columns="spare").to_csv(path, index=False, sep=delimiter, quoting=csv.QUOTE_MINIMAL)


@pytest.mark.parametrize(
    "kind",
    [
        "parquet",
        "delta",
        "iceberg",
        "glob",
        "csv",
        "tsv",
        "json_lines",
        "duckdb",
        "sqlite",
        "excel",
        "pandas",
        "arrow",
    ],
)
def test_every_format_gives_the_same_vectors(kind: str, tmp_path: Path) -> None:
    source: object = None
    frame: object | None = None
    if kind == "parquet":
        FRAME.to_parquet(tmp_path / "t.parquet")
        source = "t.parquet"
    elif kind == "delta":
        write_deltalake(tmp_path / "t", FRAME.iloc[:2])
        write_deltalake(tmp_path / "t", FRAME.iloc[2:], mode="append")
        source = {"path": "t", "format": "delta"}
    elif kind == "iceberg":
        rows = pa.Table.from_pandas(FRAME, preserve_index=False)
        catalogue = FolderCatalogue(tmp_path / "t")
        catalogue.create(rows.schema).append(rows)
        source = {"path": catalogue.current, "format": "iceberg"}
    elif kind == "glob":
        FRAME.iloc[:2].to_parquet(tmp_path / "part-1.parquet")
        FRAME.iloc[2:][list(FRAME.columns)[::-1]].to_parquet(tmp_path / "part-2.parquet")
        source = "part-*.parquet"
    elif kind in ("csv", "tsv"):
        write_csv(tmp_path / f"t.{kind}", delimiter="," if kind == "csv" else "\t")
        source = f"t.{kind}"
    elif kind == "json_lines":
        FRAME.assign(d=FRAME.d.astype(str)).to_json(
            tmp_path / "t.jsonl", orient="records", lines=True
        )
        source = "t.jsonl"
    elif kind == "duckdb":
        with duckdb.connect(tmp_path / "t.duckdb") as connection:
            connection.register("frame", FRAME)
            connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        source = {"path": "t.duckdb", "table": "people"}
    elif kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
            texts = FRAME.drop(columns="spare").assign(d=FRAME.d.astype(str))
            texts.to_sql("people", link, index=False)
        source = {"path": "t.sqlite", "table": "people"}
    elif kind == "excel":
        FRAME.to_excel(tmp_path / "t.xlsx", index=False)
        source = "t.xlsx"
    else:
        frame = FRAME if kind == "pandas" else pa.Table.from_pandas(FRAME)
    assert vectors(query_of(source, tmp_path), frame) == EXPECTED


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.assign(k=f.k.astype("category")),
        lambda f: f.assign(k=f.k.astype("string")),
        lambda f: f.assign(k=f.k.astype(object)),
        lambda f: f.assign(n=f.n.astype("Int64")),
        lambda f: f.assign(n=f.n.astype("float64")),
        lambda f: f.assign(n=f.n.astype("int8")),
        lambda f: f.assign(n=f.n.astype(str)),
        lambda f: f.assign(x=f.x.astype("float32")),
        lambda f: f.assign(d=pd.to_datetime(f.d)),
        lambda f: f.assign(d=pd.to_datetime(f.d).dt.tz_localize("UTC")),
        lambda f: f.assign(flag=f.flag.astype(int)),
        lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
        lambda f: f.iloc[::-1],
    ],
)
def test_stored_types_change_no_vector(change: Any, tmp_path: Path) -> None:
    assert vectors(query_of(None, tmp_path), change(FRAME)) == EXPECTED


@pytest.mark.parametrize(
    "kind",
    ["UBIGINT", "HUGEINT", "UHUGEINT", "DECIMAL(38,3)", "USMALLINT", "VARCHAR", "ENUM"],
)
def test_wide_integers_and_decimals_are_clamped(kind: str, tmp_path: Path) -> None:
    """Extreme values of every stored type are clamped, never wrapped, never an error (V13, V14)."""
    largest = {
        "UBIGINT": 2**64 - 1,
        "HUGEINT": 2**127 - 1,
        "UHUGEINT": 2**128 - 1,
        "USMALLINT": 2**16 - 1,
    }
    top = str(largest.get(kind, 9 * 10**30 if kind.startswith("DEC") else 10**30))
    kind = "ENUM('3', '" + top + "')" if kind == "ENUM" else kind
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT 'a' AS k, CAST(v AS VARCHAR)::{kind} AS n FROM (VALUES ('3'), ('{top}')) g(v)"
        )
    columns = {"k": COLUMNS["k"], "n": {"type": "integer", "lower": -(2**62), "upper": 2**62}}
    query = query_of(
        {"path": "t.duckdb", "table": "t"}, tmp_path, columns, columns={"n": {"sum": "n"}}
    )
    assert vectors(query)["n"] == [min(2**62, 3 + min(int(top), 2**62)), 0]


POISON_NUMBERS = [
    None,
    float("nan"),
    float("inf"),
    float("-inf"),
    -0.0,
    5e-324,
    1.7976931348623157e308,
]
POISON_TEXTS = [
    "",
    "=1+1",
    "'; drop table t; --",
    "NaN",
    "1e999",
    "inf",
    "\x01",
    "é",
    "e\u0301",
    "9" * 60,
    "x" * 1_000_000,
    "1_0",
    "0x10",
    "１",
]


def test_unreadable_values_are_missing_or_clamped(tmp_path: Path) -> None:
    """No value stops a run (V15, V20)."""
    columns = {
        "k": {"type": "category", "values": ["a", "b"], "others": "b", "fill": "b"},
        "n": {"type": "integer", "lower": 0, "upper": 9},
        "x": {"type": "number", "lower": 0, "upper": 9, "step": 1},
        "d": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
        "t": {"type": "timestamp"},
        "flag": {"type": "boolean"},
    }
    measurements = {
        "n": {"sum": "n"},
        "x": {"sum": "x"},
        "d": {"count": "d"},
        "f": {"count": "flag"},
        "rows": {"count": "*"},
    }
    where = (
        "t IS NULL OR t > TIMESTAMP '2000-01-01 00:00:00' OR x * 1e308 > 3 OR abs(n) >= 0 OR TRUE"
    )
    texts = pd.DataFrame(dict.fromkeys(columns, POISON_TEXTS))
    query = query_of(None, tmp_path, columns, columns=measurements, where=where)
    # '1e999' and 'inf' are infinity, which is clamped; sixty nines clamp as a number, not as an integer.
    assert vectors(query, texts) == {
        "n": [0, 0],
        "x": [0, 27],
        "d": [0, 0],
        "f": [0, 0],
        "rows": [0, len(POISON_TEXTS)],
    }
    numbers = pd.DataFrame(
        {name: pd.Series(POISON_NUMBERS, dtype="float64") for name in ("n", "x", "flag")}
    )
    numbers["k"], numbers["d"], numbers["t"] = "a", pd.NaT, pd.NaT
    found = vectors(query, numbers)
    assert found["rows"] == [7, 0]
    assert found["x"] == [18, 0]


def test_dates_beyond_the_calendar_are_missing(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 'a' AS k, d FROM (VALUES (DATE 'infinity'), (DATE '-infinity'), (DATE '-4713-01-01'), (DATE '2024-02-29')) g(d)"
        )
        connection.execute("CREATE TABLE s AS SELECT k, d::TIMESTAMP AS d FROM t")
        connection.execute(
            "CREATE TABLE z AS SELECT k, d::TIMESTAMPTZ AS d FROM t WHERE isfinite(d)"
        )
    columns = {"k": COLUMNS["k"], "d": COLUMNS["d"]}
    for table in "tsz":
        query = query_of(
            {"path": "t.duckdb", "table": table},
            tmp_path,
            columns,
            columns={"d": {"count": "d"}},
            where="year(d) = 2024 OR d IS NULL",
        )
        assert vectors(query)["d"] == [1, 0]


def test_csv_is_never_sniffed(tmp_path: Path) -> None:
    """One more row, 03/25, does not turn every date from day/month into month/day (V34)."""
    columns = {"k": COLUMNS["k"], "d": {**COLUMNS["d"], "format": "%d/%m/%Y"}, "n": COLUMNS["n"]}
    head = "k,d,n\n" + "".join(f"a,{day:02}/03/2024,1\n" for day in range(1, 12))
    asked = {
        "columns": {"march": {"count": "*"}, "n": {"sum": "n"}},
        "where": "d BETWEEN '2024-03-01' AND '2024-03-31'",
    }
    query = query_of("t.csv", tmp_path, columns, **asked)
    (tmp_path / "t.csv").write_text(head)
    first = vectors(query)
    (tmp_path / "t.csv").write_text(
        head + 'a,03/25/2024,not a number\nragged\na,b,c,d,e\n"unclosed,1\n'
    )
    assert vectors(query) == first == {"march": [11, 0], "n": [11, 0]}


@pytest.mark.parametrize("name", ["t[1]", "a*b", "q?x", "plain"])
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_existing_file_name_is_not_a_pattern(name: str, ending: str, tmp_path: Path) -> None:
    """Of `t[1].csv` and `t1.csv` the first is read, although as a pattern it matches the second."""
    right = pd.DataFrame({"k": ["a"], "n": [3]})
    for stem, frame in ((name, right), ("t1", right * 2), ("aXb", right * 2), ("qyx", right * 2)):
        file = tmp_path / f"{stem}.{ending}"
        if ending == "parquet":
            frame.to_parquet(file)
        elif ending == "csv":
            frame.to_csv(file, index=False)
        else:
            frame.to_json(file, orient="records", lines=True)
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    query = query_of(f"{name}.{ending}", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert vectors(query)["n"] == [3, 0]


def test_unreadable_json_line_has_missing_values(tmp_path: Path) -> None:
    """It counts as one row, and changes no other line."""
    lines = ['{"k": "a", "n": 1}', '{"k": "a", "n": ', "no json", '{"k": "a", "n": 3}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    asked = {"columns": {"rows": {"count": "*"}, "n": {"sum": "n"}}}
    found = vectors(query_of("t.jsonl", tmp_path, columns, **asked))
    assert found == {"rows": [2, 0], "n": [4, 0]}
    total = vectors(query_of("t.jsonl", tmp_path, columns, group_by=[], **asked))
    assert total == {"rows": [4], "n": [4]}


@pytest.mark.parametrize(
    ("text", "total"),
    [(",k,n\n0,a,1\n1,a,2\n", 3), ("k,,n\na,,1\na,x,2\n", 3), (",,k,,n\n,,a,,1\n", 1)],
    ids=["an index of pandas", "inside", "several"],
)
def test_csv_columns_without_a_name_are_ignored(text: str, total: int, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    query = query_of("t.csv", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert vectors(query)["n"] == [total, 0]


def test_header_longer_than_its_rows_is_refused(tmp_path: Path) -> None:
    """All rows would be lost silently, because they have too few fields."""
    (tmp_path / "t.csv").write_text("k,n,\na,1\na,2\n")
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    query = query_of("t.csv", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert "ragged" in assert_error("DP-DATA-024", query).fix


PARTS = {
    "nothing": (b"", "DP-DATA-024", "'p2.parquet' can't be opened, or is incomplete"),
    "cut short": (None, "DP-DATA-024", "'p2.parquet' can't be opened, or is incomplete"),
    "other letters": ({"k": ["a"], "N": [1]}, "DP-DATA-024", "'p2.parquet' has the column 'n'"),
    "both": ({"k": ["a"], "n": [1], "N": [1]}, "DP-DATA-003", "several columns named 'n'"),
    "a column less": ({"k": ["a"]}, "DP-DATA-024", "'p2.parquet' lacks the column 'n'"),
}


@pytest.mark.parametrize("what", PARTS)
def test_faulty_parquet_part_is_named(what: str, tmp_path: Path) -> None:
    part, code, words = PARTS[what]
    for name in ("p1.parquet", "p2.parquet", "p3.parquet"):
        pq.write_table(pa.table({"k": ["a"], "n": [1]}), tmp_path / name)
    odd = tmp_path / "p2.parquet"
    if isinstance(part, dict):
        pq.write_table(pa.table(part), odd)
    else:
        odd.write_bytes(odd.read_bytes()[:-9] if part is None else part)
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    query = query_of("p*.parquet", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert words in str(assert_error(code, query))


def test_csv_part_without_a_header_is_named(tmp_path: Path) -> None:
    for name, text in (("p1.csv", "k,n\na,1\n"), ("p2.csv", "")):
        (tmp_path / name).write_text(text)
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    query = query_of("p*.csv", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert "'p2.csv' of 'p*.csv'" in str(assert_error("DP-DATA-009", query))


def test_file_with_another_header_is_named(tmp_path: Path) -> None:
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    for name, text in (
        ("p1.csv", "k,n\na,1\n"),
        ("p2.csv", "k,n\na,2\n"),
        ("p3.csv", "n,k\n3,a\n"),
    ):
        (tmp_path / name).write_text(text)
    query = query_of("p*.csv", tmp_path, columns, columns={"n": {"sum": "n"}})
    told = assert_error("DP-DATA-024", query)
    assert "'p*.csv', can't be read as CSV: the header of 'p3.csv' is another than" in str(told)
    assert told.state is State.NOTHING
    (tmp_path / "p3.csv").write_text("k,n\na,3\n")
    assert vectors(query)["n"] == [6, 0]


def test_csv_row_of_invalid_utf8_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"k,n\na,1\n\xff\xfe,2\na,3\n")
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    assert vectors(query_of("t.csv", tmp_path, columns, columns={"n": {"sum": "n"}}))["n"] == [4, 0]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Pacific/Auckland"])
def test_time_zone_of_the_machine_changes_no_row(
    zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(V37)"""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    frame = pd.DataFrame({"k": ["a"], "d": pd.to_datetime(["2024-03-01 01:00"]).tz_localize("UTC")})
    columns = {"k": COLUMNS["k"], "d": COLUMNS["d"]}
    query = query_of(
        None, tmp_path, columns, columns={"n": {"count": "*"}}, where="d = '2024-03-01'"
    )
    assert vectors(query, frame)["n"] == [1, 0]
    monkeypatch.undo()
    time.tzset()


def assert_error(code: str, query: Query, frame: object | None = None) -> DataError:
    with pytest.raises(DataError, match=code) as caught:
        vectors(query, frame)
    return caught.value


def test_missing_and_mistyped_columns_are_refused(tmp_path: Path) -> None:
    query = query_of(None, tmp_path)
    assert_error("DP-DATA-002", query, FRAME.rename(columns={"n": "N"}))
    assert_error("DP-DATA-003", query, FRAME.assign(N=1))
    arrow = pa.Table.from_pandas(FRAME)
    assert_error("DP-DATA-004", query, arrow.set_column(2, "n", arrow["spare"]))
    # Python objects in a pandas column that are no texts or numbers are missing, whatever they are.
    assert vectors(query, FRAME.assign(n=FRAME.spare))["n"] == [0, 0]
    assert_error("DP-DATA-004", query, FRAME.assign(x=pd.to_datetime(FRAME.d)))
    assert_error("DP-DATA-017", query, "not a frame")
    assert_error("DP-DATA-008", query)
    assert_error("DP-DATA-001", query_of("nothing.parquet", tmp_path))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is no parquet SECRET-4711")
    assert "4711" not in str(assert_error("DP-DATA-001", query_of("broken.parquet", tmp_path)))
    (tmp_path / "empty.csv").write_text("")
    assert_error("DP-DATA-009", query_of("empty.csv", tmp_path))
    (tmp_path / "twins.csv").write_text("k,n,N,x,d\n")
    assert_error("DP-DATA-003", query_of("twins.csv", tmp_path))
    with duckdb.connect(tmp_path / "t.duckdb"):
        pass
    told = assert_error("DP-DATA-001", query_of({"path": "t.duckdb", "table": "none"}, tmp_path))
    assert "the table 'none' of 't.duckdb'" in str(told)


def test_parquet_columns_are_case_sensitive(tmp_path: Path) -> None:
    """DuckDB would silently return the other column (V36)."""
    table = pa.table({"k": ["a"], "N": [1], "n": [2], "s": [{"n": 1, "m": 2}]})
    pq.write_table(table, tmp_path / "t.parquet")
    columns = {"k": COLUMNS["k"], "n": COLUMNS["n"]}
    assert_error(
        "DP-DATA-003", query_of("t.parquet", tmp_path, columns, columns={"n": {"sum": "n"}})
    )
    pq.write_table(table.drop_columns("N"), tmp_path / "t.parquet")
    query = query_of("t.parquet", tmp_path, columns, columns={"n": {"sum": "n"}})
    assert vectors(query)["n"] == [2, 0]


def test_float_ids_are_refused_and_large_ids_are_distinct(tmp_path: Path) -> None:
    """2^53 and 2^53 + 1 are two people; a float column would merge them (V25)."""
    values = {
        "table": "t",
        "columns": {"id": {"type": "integer"}},
        "privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1},
    }
    declared = table_from_mapping(values, tmp_path)
    document = Document(
        tmp_path / "q", "", {"from": "t", "columns": {"people": {"count_distinct": "id"}}}, {}
    )
    spec = validate(QuerySpec, document, Files(relative_reader(tmp_path)))
    query = resolve_one(declared, "q", spec, Neighbours.ADD_REMOVE, Limits())
    ids = [2**53, 2**53 + 1, None]
    assert_error("DP-DATA-005", query, pd.DataFrame({"id": pd.Series(ids, dtype="float64")}))
    assert vectors(query, pd.DataFrame({"id": pd.Series(ids, dtype="Int64")})) == {"people": [2]}


def test_keys_are_compared_without_normalization(tmp_path: Path) -> None:
    columns = {"k": {"type": "category", "values": ["é", "a"]}}
    frame = pd.DataFrame({"k": ["é", "e\u0301", "A", "a ", "a"]})
    assert vectors(query_of(None, tmp_path, columns, columns={"n": {"count": "*"}}), frame)[
        "n"
    ] == [1, 1]


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    """Quotes, semicolons, and the names of intermediate columns (V63)."""
    for name in (
        'a"b',
        "x; DROP TABLE t",
        "value",
        "code",
        "cell",
        "id",
        "typed",
        "k0",
        "v0",
        "naïve",
        "select",
    ):
        columns = {
            name: {"type": "category", "values": ["a"]},
            "y'z": {"type": "integer", "lower": 0, "upper": 9},
            "cutter": {"cut": "y'z", "edges": [0, 5, 10]},
        }
        frame = pd.DataFrame({name: ["a", "b"], "y'z": [4, 5]})
        quoted = '"' + name.replace('"', '""') + '"'
        query = query_of(
            None,
            tmp_path,
            columns,
            group_by=[name, "cutter"],
            columns={"n": {"sum": "y'z"}},
            where=f"{quoted} = 'a' AND cutter <> '5-9'",
        )
        assert vectors(query, frame)["n"] == [4, 0]


def test_locked_connection_reads_no_other_file(tmp_path: Path) -> None:
    """(V64)"""
    (tmp_path / "secret.csv").write_text("a\n1\n")
    FRAME.to_parquet(tmp_path / "t.parquet")
    query = query_of("t.parquet", tmp_path)
    caller_frame = FRAME
    assert caller_frame is FRAME
    with Engine.open(query.declared) as engine:
        for sql in (
            f"SELECT * FROM read_csv_auto('{tmp_path}/secret.csv')",
            f"SELECT * FROM read_text('{tmp_path}/secret.csv')",
            f"SELECT * FROM glob('{tmp_path}/*')",
            f"SELECT * FROM sniff_csv('{tmp_path}/secret.csv')",
            f"COPY dp_source TO '{tmp_path}/out.csv'",
            f"EXPORT DATABASE '{tmp_path}/export'",
            f"ATTACH '{tmp_path}/other.duckdb'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
            "SET threads = 1",
            "PRAGMA enable_profiling",
            "SELECT * FROM caller_frame",
        ):
            with pytest.raises(duckdb.Error):
                engine._connection.execute(sql)
        assert engine.run(query).vector("rows").tolist() == EXPECTED["rows"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv", "t.parquet"]


def overwrite(file: Path) -> None:
    """Write other values of the same length into a file."""
    with file.open("r+b") as held:
        first = held.read()
        held.seek(0)
        held.write(first.replace(b"1", b"2"))


def replace_file(file: Path) -> None:
    """Put another file of the same length in the place of one."""
    other = file.with_name("other")
    other.write_bytes(file.read_bytes().replace(b"1", b"2"))
    other.rename(file)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written to in place": overwrite,
    "replaced by another": replace_file,
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"7,1,1\n"),
    "gone": Path.unlink,
}
FORMATS = ("t.csv", "t.csv.gz", "t.parquet", "t.jsonl")
MOMENTS = ("after it was opened", "after its header was read", "while rows are read")


def change_file(file: Path, how: str) -> None:
    """Change a file, and give it the times that it had, as `touch -r` and `cp -p` do."""
    time.sleep(0.02)  # the kernel's clock of files ticks
    before = file.stat()
    CHANGES[how](file)
    if file.exists():
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.share(0.25)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("name", FORMATS)
def test_source_that_changes_while_read_is_refused(
    name: str, how: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(V69, V90)"""
    file = tmp_path / name
    kind = file.suffixes[0]
    if kind == ".parquet":
        FRAME.to_parquet(file)
    elif kind == ".csv":
        FRAME.to_csv(file, index=False)
    else:
        FRAME.to_json(file, orient="records", lines=True)
    query = query_of(name, tmp_path)
    if moment == "after its header was read":  # or where a header would be
        is_parquet, reader = kind == ".parquet", reader_of(query.declared.table.source.type)
        owner = parquet_reader if is_parquet else type(reader)
        function = "parquet_sql" if is_parquet else "text_reader"
        opened = getattr(owner, function)
        monkeypatch.setattr(
            owner, function, lambda *words: (opened(*words), change_file(file, how))[0]
        )
    code = r"DP-DATA-007" if moment == "while rows are read" else r"DP-DATA-00[167]"
    if moment == "while rows are read":
        read = TableReader.vectors
        monkeypatch.setattr(
            TableReader, "vectors", lambda *words: (read(*words), change_file(file, how))[0]
        )

    def answer() -> None:
        with Engine.open(query.declared) as engine:
            if moment == "after it was opened":
                change_file(file, how)
            engine.run(query)

    with pytest.raises(DataError, match=code):
        answer()


def test_reading_does_not_count_as_a_change(tmp_path: Path) -> None:
    """Neither dprelease nor another reader changes the state of the file."""
    FRAME.to_parquet(tmp_path / "t.parquet")
    query = query_of("t.parquet", tmp_path)
    with Engine.open(query.declared) as engine:
        (tmp_path / "t.parquet").read_bytes()
        (tmp_path / "beside").write_text("x")
        (tmp_path / "link").symlink_to("t.parquet")
        assert engine.run(query).vector("rows").tolist() == EXPECTED["rows"]


def test_engine_errors_contain_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the message, its arguments, nor its chain of causes (V58)."""
    query = query_of(None, tmp_path)
    with Engine.open(query.declared, FRAME) as engine:
        broken = CompiledQuery("SELECT CAST('SECRET-4711' AS INTEGER)", (), ("n",), {})
        monkeypatch.setattr(engine_module, "compile_query", lambda *_: broken)
        with pytest.raises(DataError, match="DP-DATA-006") as caught:
            engine.run(query)
    error = caught.value
    assert (
        "4711"
        not in f"{error} {error.args} {error.to_json()} {error.__cause__} {error.__context__}"
    )


def test_true_values_are_not_printed_copied_or_pickled(tmp_path: Path) -> None:
    import copy
    import pickle

    query = query_of(None, tmp_path)
    with Engine.open(query.declared, FRAME) as engine:
        found = engine.run(query)
    assert "16" not in f"{found!r} {found}"
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copier(found)
    with pytest.raises(TypeError):
        list(found)  # type: ignore[call-overload]


def test_scratch_folders_of_dead_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spill files survive a kill; the next run removes them (V57)."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    stale = tmp_path / f"{SCRATCH}x"
    stale.mkdir()
    (stale / "spill").write_text("rows")
    query = query_of(None, tmp_path)
    with private_folder(tmp_path, SCRATCH) as alive:
        stale.mkdir()
        with Engine.open(query.declared, FRAME):
            own = [path for path in tmp_path.iterdir() if path not in (stale, alive)]
            assert [path.stat().st_mode & 0o777 for path in own] == [0o700]
        assert list(tmp_path.iterdir()) == [alive]
    assert list(tmp_path.iterdir()) == []


def test_totals_of_example_data() -> None:
    """The exact step gives the published totals of the example data (computed with pandas)."""
    from dprelease.query.resolve import resolve
    from dprelease.schema.load import read_declaration

    examples = Path(__file__).parents[2] / "examples"
    facts = json.loads((Path(__file__).parents[1] / "reference" / "facts.json").read_text())
    by_name = {q.name: q for q in resolve(read_declaration(examples / "nist_acs" / "release.yaml"))}
    income, persons = vectors(by_name["income"]), vectors(by_name["persons"])
    assert sum(persons["persons"]) == facts["national2019"]["rows"]
    # The sum is measured around the middle of its bounds, beside the count that the mean needs.
    centred, count = sum(income["income_total.sum"]), sum(income["income_total.count"])
    assert centred + 75000 * count == facts["national2019"]["sum_PINCP_clamped_0_150000"]
    areas = np.array(persons["persons"]).reshape(20, -1).sum(axis=1).tolist()
    assert areas == list(facts["national2019"]["rows_by_PUMA"].values())


def test_file_behind_several_links_is_read_once(tmp_path: Path) -> None:
    """A link to a file, to a folder, and a circular link."""
    (tmp_path / "people" / "old").mkdir(parents=True)
    FRAME.to_parquet(tmp_path / "people" / "old" / "1.parquet")
    write_csv(tmp_path / "people" / "1.csv")
    (tmp_path / "people" / "latest.csv").symlink_to("1.csv")
    (tmp_path / "people" / "latest.parquet").symlink_to("old/1.parquet")
    (tmp_path / "people" / "same").symlink_to("old")
    (tmp_path / "people" / "round").symlink_to(".")
    for source in ("people/", "people/**/*.parquet", "people/*.csv"):
        assert vectors(query_of(source, tmp_path)) == EXPECTED


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("source", ["people/", "people/*.parquet", "people/**/*.parquet"])
def test_unreadable_file_of_a_pattern_is_refused(source: str, kind: str, tmp_path: Path) -> None:
    """Otherwise, a missing file would silently reduce the counts."""
    (tmp_path / "people").mkdir()
    FRAME.to_parquet(tmp_path / "people" / "1.parquet")
    lost = tmp_path / "people" / "2.parquet"
    lost.symlink_to("nowhere") if kind == "link" else os.mkfifo(lost)
    with pytest.raises(DataError, match=r"DP-DATA-024.*2\.parquet"):
        vectors(query_of(source, tmp_path))
