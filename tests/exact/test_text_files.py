"""A text file gives the same rows in every dialect and encoding that its source declares."""

from __future__ import annotations

import gzip
import itertools
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, DpReleaseError, Findings, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.reading.plain import TextDecoding
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.spark.executors.link import Access, task_link
from dprelease.exact.spark.executors.task_files import TextRows
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared, table_from_mapping
from dprelease.schema.source_texts import ENCODINGS
from dprelease.statements.values.spelling import number_of_text_sql
from dprelease.statements.values.written_texts import plain_number_sql
from tests.exact.build import ask

REGIONS = ["Kärnten", "Niederösterreich", "Wien"]
ROWS = [
    ("Kärnten", "1234", "1234.5", datetime(2024, 1, 31, 9, 5)),
    ("Niederösterreich", "12", "0.25", datetime(2024, 12, 1, 23, 59)),
    ("Wien", "1000000", "-1000.75", datetime(2024, 2, 29, 0, 0)),
    ("Kärnten", "-7", "12.5", datetime(2023, 12, 31, 12, 30)),
]
COLUMNS: dict[str, Any] = {
    "region": {"type": "category", "values": REGIONS},
    "visits": {"type": "integer", "lower": -10, "upper": 2_000_000},
    "cost": {"type": "number", "lower": -2000, "upper": 2000, "step": "0.25"},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    "at": {"type": "timestamp"},
}
ASKED: dict[str, Any] = {
    "rows": {"count": "*"},
    "visits": {"sum": "visits"},
    "cost": {"sum": "cost"},
    "days": {"count": "day"},
}
EXPECTED = {"rows": [2, 1, 1], "visits": [1227, 12, 1_000_000], "cost": [4988, 1, -4003],
            "days": [1, 1, 1]}  # fmt: skip
LATE = "at >= '2024-01-31 09:05:00' AND at < '2025-01-01 00:00:00'"

DIALECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it was": ({}, {}),
    "semicolons": ({"delimiter": ";"}, {}),
    "tabs": ({"delimiter": "\t"}, {}),
    "bars and single quotes": ({"delimiter": "|", "quote": "'"}, {}),
    "Windows line ends": ({}, {"end": "\r\n"}),
    "decimal commas": ({"decimal": ",", "delimiter": ";"}, {}),
    "decimal commas in quotes": ({"decimal": ","}, {}),
    "commas between thousands": ({"thousands": ","}, {}),
    "points between thousands": ({"thousands": ".", "decimal": ","}, {}),
    "spaces between thousands": ({"thousands": " ", "decimal": ","}, {}),
    "narrow spaces, declared as others": ({"thousands": " "}, {"between": "\u202f"}),
    "apostrophes": ({"thousands": "'"}, {}),
    "apostrophes and commas": ({"thousands": "'", "decimal": ",", "delimiter": ";"}, {}),
    "days first": ({"date_format": "%d/%m/%Y", "timestamp_format": "%d/%m/%Y %H:%M"}, {}),
    "months first": ({"date_format": "%m-%d-%Y", "timestamp_format": "%m-%d-%Y %I:%M %p"}, {}),
    "two digits": (
        {"date_format": "%d.%m.%y", "timestamp_format": "%d.%m.%y %H.%M", "pivot": 2068}, {},
    ),
    "names of months": ({"date_format": "%d %b %Y", "timestamp_format": "%d %b %Y %H:%M"}, {}),
    "all at once": (
        {"delimiter": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y",
         "timestamp_format": "%d.%m.%Y %H:%M", "nulls": ["", "NA"]},
        {"end": "\r\n"},
    ),
}  # fmt: skip
ENCODED: dict[str, tuple[str | None, str]] = {
    "UTF-8": (None, "utf-8"),
    "UTF-8 with its mark": (None, "utf-8-sig"),
    "UTF-16 with its mark": ("utf-16", "utf-16"),
    "UTF-16 without": ("UTF-16", "utf-16-le"),
    "UTF-16 of the other end": ("utf-16-be", "utf-16-be"),
    "latin-1": ("latin-1", "latin-1"),
    "cp1252": ("windows-1252", "cp1252"),
    "ISO-8859-15": ("ISO-8859-15", "iso-8859-15"),
    "DOS": ("cp850", "cp850"),
    "Mac": ("mac-roman", "mac-roman"),
    "GB 18030": ("gb18030", "gb18030"),
}
PACKED = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def csv_text(source: dict[str, Any], between: str | None = None, end: str = "\n") -> str:
    """Return the rows as a source says that they are written."""
    delimiter, quote = source.get("delimiter", ","), source.get("quote", '"')
    marks = {".": source.get("decimal", "."), ",": between or source.get("thousands") or ""}
    day = source.get("date_format", "%Y-%m-%d")
    at = source.get("timestamp_format", "%Y-%m-%d %H:%M")

    def number(text: str) -> str:
        whole, point, rest = text.partition(".")
        return f"{int(whole):,}".replace(",", marks[","]) + (marks["."] + rest if point else "")

    def cell(text: str) -> str:
        return f"{quote}{text}{quote}" if delimiter in text or quote in text else text

    lines = [delimiter.join(COLUMNS)]
    for region, visits, cost, when in ROWS:
        texts = [region, number(visits), number(cost), when.strftime(day), when.strftime(at)]
        lines.append(delimiter.join(cell(text.replace(quote, quote * 2)) for text in texts))
    return end.join([*lines, ""])


def json_lines(rows: list[tuple[str, str, str, datetime]], end: str) -> str:
    """Return rows as JSON lines."""
    lines = [
        dict(zip(COLUMNS, [region, int(visits), float(cost), str(at)[:10], str(at)], strict=True))
        for region, visits, cost, at in rows
    ]
    return end.join([*(json.dumps(line, ensure_ascii=False) for line in lines), ""])


def declare_table(
    source: dict[str, Any], folder: Path, columns: dict[str, Any] = COLUMNS
) -> Declared:
    return table_from_mapping({"table": "t", "source": source, "columns": columns}, folder)


def exact(query: Query) -> dict[str, list[int]]:
    with Engine.open(query.declared) as engine:
        found = engine.run(query)
    return {
        measurement.name: found.vector(measurement.name).tolist()
        for measurement in query.measurements
    }


def check(source: dict[str, Any], folder: Path) -> None:
    """Assert that the source holds all rows, and all of their values."""
    table = declare_table(source, folder)
    assert exact(ask(table, ASKED, ["region"])) == EXPECTED
    assert exact(ask(table, {"rows": {"count": "*"}}, where=LATE)) == {"rows": [3]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_rows_are_read_in_every_dialect(dialect: str, tmp_path: Path) -> None:
    source, how = DIALECTS[dialect]
    text = csv_text(source, **how)
    (tmp_path / "t.csv").write_bytes(text.encode())
    check({"path": "t.csv", **source}, tmp_path)


@pytest.mark.each
@pytest.mark.parametrize(
    ("encoded", "packed"),
    [*itertools.product(ENCODED, [""]), *itertools.product(["UTF-8", "cp1252"], [".gz", ".zst"])],
)
def test_all_rows_are_read_in_every_encoding(encoded: str, packed: str, tmp_path: Path) -> None:
    name, codec = ENCODED[encoded]
    source, how = DIALECTS["all at once"]
    data = PACKED[packed](csv_text(source, **how).encode(codec))
    (tmp_path / f"t.csv{packed}").write_bytes(data)
    check({"path": f"t.csv{packed}", **source, **({"encoding": name} if name else {})}, tmp_path)


@pytest.mark.each
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("encoded", "packed"),
    [*itertools.product(ENCODED, [""]), ("UTF-8 with its mark", ".gz"), ("cp1252", ".zst")],
)
def test_all_json_lines_are_read_in_every_encoding(
    encoded: str, packed: str, end: str, tmp_path: Path
) -> None:
    """The byte order mark is not part of the first line."""
    name, codec = ENCODED[encoded]
    (tmp_path / f"t.jsonl{packed}").write_bytes(PACKED[packed](json_lines(ROWS, end).encode(codec)))
    check({"path": f"t.jsonl{packed}", **({"encoding": name} if name else {})}, tmp_path)


def test_files_may_differ_in_byte_order_marks(tmp_path: Path) -> None:
    for part, codec in enumerate(("utf-8", "utf-8-sig")):
        rows = ROWS[2 * part : 2 * part + 2]
        (tmp_path / f"{part}.jsonl").write_bytes(json_lines(rows, "\n").encode(codec))
    check({"path": "*.jsonl"}, tmp_path)


def test_files_of_a_pattern_share_their_encoding(tmp_path: Path) -> None:
    lines = csv_text({}).splitlines(keepends=True)
    for part, rows in enumerate((lines[1:3], lines[3:])):
        (tmp_path / f"{part}.csv").write_bytes("".join([lines[0], *rows]).encode("cp1252"))
    check({"path": "*.csv", "encoding": "cp1252"}, tmp_path)


def test_json_numbers_ignore_separators(tmp_path: Path) -> None:
    rows = ['{"region": "Kärnten", "cost": 1.234}', '{"region": "Kärnten", "cost": "1 234,5"}']
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode("latin-1")))
    source = {"path": "t.jsonl.gz", "encoding": "latin-1", "decimal": ",", "thousands": " "}
    table = declare_table(source, tmp_path, {"cost": COLUMNS["cost"], "region": COLUMNS["region"]})
    found = exact(ask(table, {"cost": {"sum": "cost"}}, ["region"]))
    assert found == {"cost": [5 + 4938, 0, 0]}  # quarters


@pytest.mark.parametrize("encoding", sorted(ENCODINGS - {"utf-8"}))
def test_unknown_bytes_affect_only_their_own_line(encoding: str) -> None:
    """The lines around it are complete, and the line itself is not read as text."""
    for strange in [bytes([b]) for b in range(0x80, 0x100)] + [b"\x81\x20", b"\xff\xff", b"\x8f"]:
        wide = encoding.startswith("utf-16")
        if wide:  # half a character shifts all that follow, as half of a pair does not
            strange = (0xD800 + strange[0]).to_bytes(
                2, "big" if encoding[-2:] == "be" else "little"
            )
        codec = "utf-16-le" if encoding == "utf-16" else encoding
        before, after = "a,1\n".encode(codec), "\nb,2\n".encode(codec)
        data = before + strange + after
        raw = pa.BufferReader(data)
        found = b"".join(TextDecoding(encoding).chunks(raw))
        first, middle, last, rest = found.split(b"\n")
        assert (first, last, rest) == (b"a,1", b"b,2", b""), strange
        try:
            expected = strange.decode(codec)
        except UnicodeDecodeError:
            with pytest.raises(UnicodeDecodeError):
                middle.decode()
        else:
            assert middle.decode() == expected


def test_line_of_another_encoding_is_left_out(tmp_path: Path) -> None:
    data = csv_text({}).encode("cp1252").replace(b"Wien", b"W\x81en")
    (tmp_path / "t.csv").write_bytes(data)
    for encoding in ("cp1252", "ascii", "utf-8"):
        table = declare_table({"path": "t.csv", "encoding": encoding}, tmp_path)
        rows = exact(ask(table, {"rows": {"count": "region"}}))["rows"]
        assert rows == ([3] if encoding == "cp1252" else [0])  # the others lose the accents too


BROKEN = {
    "cut off": lambda data: data[: len(data) // 2],
    "changed": lambda data: data[:-6] + b"xxxxxx",
    "longer": lambda data: data + b"something else",
    "not compressed": lambda data: b"region,visits\n" * 5,
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("packed", [".gz", ".zst"])
@pytest.mark.parametrize("broken", BROKEN)
def test_truncated_archives_are_refused(packed: str, broken: str, tmp_path: Path) -> None:
    """Before rows are read, only the header is checked."""
    many = "region\n" + "".join(f"{REGIONS[i * i % 3]}{i * 7919 % 1009}\n" for i in range(200_000))
    (tmp_path / f"t.csv{packed}").write_bytes(BROKEN[broken](PACKED[packed](many.encode())))
    table = declare_table({"path": f"t.csv{packed}"}, tmp_path, {"region": COLUMNS["region"]})
    query = ask(table, {"rows": {"count": "*"}})
    with pytest.raises(DataError) as caught:
        exact(query)
    # A fault within the first pieces is found with the header, before any row is read.
    assert caught.value.code in ("DP-DATA-006", "DP-DATA-009")


def test_nothing_is_copied_before_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(csv_text({}).encode("utf-16"))
    table = declare_table({"path": "t.csv", "encoding": "utf-16"}, tmp_path)
    query = ask(table, ASKED, ["region"])
    with Engine.open(table) as engine:
        (given,) = engine._inputs
        engine.compile(query)
        assert [copy.stat().st_size for copy in given.copies.values()] == [0]
        folder = next(iter(given.copies.values())).parent
        for _ in range(2):
            found = engine.run(query)
            assert {name: found.vector(name).tolist() for name in EXPECTED} == EXPECTED
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_changed_file_is_refused_although_a_copy_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(csv_text({}).encode("latin-1"))
    table = declare_table({"path": "t.csv", "encoding": "latin-1"}, tmp_path)
    query = ask(table, ASKED, ["region"])
    with Engine.open(table) as engine:
        (tmp_path / "t.csv").write_bytes(csv_text({}).encode("latin-1") + b"Wien,1,1,,\n")
        with pytest.raises(DataError, match="DP-DATA-007"):
            engine.run(query)


@pytest.mark.parametrize("dialect", ["semicolons", "points between thousands", "all at once"])
@pytest.mark.parametrize(("encoded", "packed"), [("UTF-8", ""), ("cp1252", ".gz")])
def test_spark_tasks_read_the_same_texts(
    dialect: str, encoded: str, packed: str, tmp_path: Path
) -> None:
    source, how = DIALECTS[dialect]
    name, codec = ENCODED[encoded]
    file = tmp_path / f"t.csv{packed}"
    file.write_bytes(PACKED[packed](csv_text(source, **how).encode(codec)))
    given = {"path": file.name, **source, **({"encoding": name} if name else {})}
    table = declare_table(given, tmp_path)
    with Engine.open(table) as engine:
        engine._attempt("DP-DATA-006", State.READ, lambda _: None)
        expected = engine._connection.sql("FROM dp_source").fetchall()
        physical = engine.physical
    kept = table.table.source
    assert kept is not None
    rows = TextRows(
        physical, reader_of(kept.type).text_reader(table, kept, [file]), (str(file),), ((0,),)
    )
    batch = pa.RecordBatch.from_pydict({"id": [0]})
    with task_link(Access(rows.files)) as (link, folder):
        found = [
            row
            for _ in rows.register_parts([batch], link, folder, "dp_source")
            for row in link.sql("FROM dp_source").fetchall()
        ]
        assert not (folder / "text").exists()
    assert found == expected
    assert len(found) == len(ROWS)


MISSING = None
NUMBERS: list[tuple[str, str | None, dict[str, float | None]]] = [
    (".", None, {"12": 12, "1.5": 1.5, "1,5": MISSING, "1,234": MISSING, "1e3": 1000}),
    (".", ",", {"1,234": 1234, "1,234.5": 1234.5, "12,34": MISSING, "1,234,5": MISSING,
                "12,34,567": 1234567, "1234.5": 1234.5, ",123": MISSING, "-1,234": -1234}),
    (",", None, {"12,5": 12.5, "12": 12, "12.5": MISSING, "1,2,3": MISSING, ",5": 0.5,
                 "1,5e2": 150, "": MISSING, ",": MISSING, "true": 1}),
    (",", ".", {"1.234": 1234, "1.234,5": 1234.5, "1234,5": 1234.5, "12.5": MISSING,
                "1.5": MISSING, "1.234.567": 1234567, "1,234.5": MISSING}),
    (",", " ", {"1 234,5": 1234.5, "1\u00a0234": 1234, "1\u202f234\u202f567,5": 1234567.5,
                " 12 ": 12, "1 2": MISSING, "1.5": MISSING, "- 5": MISSING}),
    (".", "'", {"1'234.5": 1234.5, "1'23": MISSING, "1'234'567": 1234567}),
    (".", "_", {"1_234": 1234, "1__234": MISSING}),
]  # fmt: skip


@pytest.mark.parametrize(("decimal", "thousands", "texts"), NUMBERS)
def test_numbers_of_texts_use_the_declared_separators(
    decimal: str, thousands: str | None, texts: dict[str, float | None]
) -> None:
    with duckdb.connect() as link:
        for text, number in texts.items():
            said = number_of_text_sql(plain_number_sql("t", decimal, thousands, False))
            (found,) = link.execute(f"SELECT {said} FROM (SELECT $1 AS t)", [text]).fetchone() or ()
            assert found == number, (text, decimal, thousands)


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "encoding of Parquet": ("DP-SCHEMA-014", {"path": "t.parquet", "encoding": "latin-1"}),
    "version of Parquet": ("DP-SCHEMA-014", {"path": "t.parquet", "version": 3}),
    "encoding of Delta": ("DP-SCHEMA-014", {"path": "t", "format": "delta", "encoding": "latin-1"}),
    "decimal of a frame": ("DP-SCHEMA-014", {"frame": "t", "decimal": ","}),
    "days of a database": (
        "DP-SCHEMA-014", {"path": "t.db", "table": "t", "date_format": "%d/%m/%Y"},
    ),
    "delimiter of JSON": ("DP-SCHEMA-014", {"path": "t.jsonl", "delimiter": ";"}),
    "nulls of JSON": ("DP-SCHEMA-014", {"path": "t.jsonl", "nulls": ["NA"]}),
    "points of JSON": ("DP-SCHEMA-014", {"path": "t.jsonl", "thousands": ".", "decimal": ","}),
    "one mark for two": ("DP-SCHEMA-014", {"path": "t.csv", "thousands": "."}),
    "Parquet in an archive": ("DP-SCHEMA-011", {"path": "t.parquet.gz"}),
    "no such encoding": ("DP-DECL-003", {"path": "t.csv", "encoding": "latin-99"}),
    "no encoding of texts": ("DP-DECL-003", {"path": "t.csv", "encoding": "base64"}),
    "one that moves line ends": ("DP-DECL-003", {"path": "t.csv", "encoding": "utf-7"}),
    "no such archive": ("DP-DECL-003", {"path": "t.csv", "compression": "rar"}),
    "a letter as a mark": ("DP-DECL-003", {"path": "t.csv", "thousands": "k"}),
    "two letters": ("DP-DECL-003", {"path": "t.csv", "decimal": "::"}),
    "a format of nothing": ("DP-DECL-003", {"path": "t.csv", "date_format": "%Q"}),
    "nowhere": ("DP-DECL-003", {"path": "t.csv", "time_zone": "Europe/Wien"}),
    "the machine's own": ("DP-DECL-003", {"path": "t.csv", "time_zone": "localtime"}),
    "a path": ("DP-DECL-003", {"path": "t.csv", "time_zone": "../../etc/passwd"}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_contradictory_text_options_are_refused(case: str) -> None:
    code, source = WRONG[case]
    with pytest.raises(DpReleaseError) as caught:
        declare_table(source, Path())
    found = caught.value
    codes = [e.code for e in found.errors] if isinstance(found, Findings) else [found.code]
    assert codes == [code]


ZONE = "America/New_York"
INSTANTS = ["2024-01-01T03:00:00Z", "2024-01-01T06:00:00+01:00", "2024-07-01T04:30:00Z"]
LOCAL_DAYS = ["2023-12-31", "2024-01-01", "2024-07-01"]  # the second is midnight there


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame"])
def test_dates_of_timestamps_are_local(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"day": INSTANTS})
    source: dict[str, Any] = {"path": f"t.{kind}", "time_zone": ZONE}
    instants = frame.assign(day=pd.to_datetime(frame.day, utc=True))
    if kind == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    elif kind == "jsonl":
        frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    elif kind == "parquet":
        instants.to_parquet(tmp_path / "t.parquet")
    else:
        source = {"frame": "t", "time_zone": ZONE}
    days = {"type": "date", "lower": "2023-12-30", "upper": "2024-07-02"}
    query = ask(declare_table(source, tmp_path, {"day": days}), {"rows": {"count": "*"}}, ["day"])
    with Engine.open(query.declared, instants if kind == "frame" else None) as engine:
        rows = engine.run(query).vector("rows")
    (key,) = query.keys.keys
    first = key.days[0]
    found = [datetime.fromordinal(first.toordinal() + i).date().isoformat()
             for i, n in enumerate(rows.tolist()) for _ in range(n)]  # fmt: skip
    assert found == LOCAL_DAYS


UNITS = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


@pytest.mark.each
@pytest.mark.parametrize("beside", [None, "us", "text", "ms"])
@pytest.mark.parametrize("unit", UNITS)
def test_parquet_timestamps_are_local_in_every_unit(
    unit: str, beside: str | None, tmp_path: Path
) -> None:
    """Also timestamps that DuckDB can't read directly."""
    instants = pd.to_datetime(pd.Series(INSTANTS), utc=True)
    ends = [2**62, -(2**62)] if unit == "ms" else []  # no value stops a run
    ticks = [round(i.timestamp() * UNITS[unit]) for i in instants] + ends
    kinds = {"us": pa.timestamp("us", "UTC"), "ms": pa.timestamp("ms"), "text": pa.string()}
    day = pa.array(ticks, pa.timestamp(unit, "UTC"))
    pq.write_table(pa.table({"day": day}), tmp_path / "t1.parquet")
    if beside is not None:
        other = pa.array(INSTANTS if beside == "text" else [None] * 3).cast(kinds[beside])
        pq.write_table(pa.table({"day": other}), tmp_path / "t2.parquet")
    source = {"path": "t*.parquet", "time_zone": ZONE}
    days = {"type": "date", "lower": "2023-12-30", "upper": "2024-07-02"}
    query = ask(declare_table(source, tmp_path, {"day": days}), {"rows": {"count": "*"}}, ["day"])
    rows = exact(query)["rows"]
    (key,) = query.keys.keys
    found = {(key.days[0] + timedelta(i)).isoformat(): n for i, n in enumerate(rows) if n}
    assert found == dict.fromkeys(LOCAL_DAYS, 2 if beside == "text" else 1)


def test_local_timestamp_texts_are_not_converted(tmp_path: Path) -> None:
    """Only a text with an offset from UTC is converted."""
    (tmp_path / "t.csv").write_text("at\n2024-01-01 03:00:00\n2024-01-01\n2024-01-01T08:00Z\n")
    table = declare_table(
        {"path": "t.csv", "time_zone": ZONE}, tmp_path, {"at": {"type": "timestamp"}}
    )
    asked = {"rows": {"count": "*"}}
    where = "at = '2024-01-01 03:00:00'"
    assert exact(ask(table, asked, where=where)) == {"rows": [2]}
    assert exact(ask(table, asked, where="at = '2024-01-01 00:00:00'")) == {"rows": [1]}


@pytest.mark.parametrize("zone", ["UTC", ZONE, "Pacific/Kiritimati", "Asia/Kolkata"])
def test_no_timestamp_stops_a_run_in_any_time_zone(zone: str, tmp_path: Path) -> None:
    ends = [
        "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0000-12-31T00:00:00Z",
        "9999-12-31T23:59:59-14:00", "290000-01-01T00:00:00Z", "2024-03-10T07:30:00Z", "infinity", "-infinity", "epoch",
    ]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["at,day", *(f"{e},{e}" for e in ends), ""]))
    columns = {"at": {"type": "timestamp"}, "day": {"type": "date"}}
    table = declare_table({"path": "t.csv", "time_zone": zone}, tmp_path, columns)
    found = exact(ask(table, {"at": {"count": "at"}, "day": {"count": "day"}}))

    def inside(text: str) -> bool:
        try:
            datetime.fromisoformat(text).astimezone(ZoneInfo(zone))
        except (ValueError, OverflowError):
            return False
        return True

    expected = sum(inside(text) for text in ends)
    assert found == {"at": [expected], "day": [expected]}
