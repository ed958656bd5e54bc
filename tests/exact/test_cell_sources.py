"""SQLite files and workbooks: each cell is read independently of other rows."""

from __future__ import annotations

import datetime
import random
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.exact.reading import packages
from dprelease.exact.sources import excel_reader, sqlite_reader
from dprelease.exact.table_reader import TableReader
from dprelease.scaffold.proposals import peeked_sketch
from dprelease.scaffold.sketch import sketch
from tests.exact.build import ask, declare, exact
from tests.exact.test_column_type_changes import (
    COLUMNS,
    ODD,
    ROWS,
    STORED,
    answers,
    line_vectors,
    vectors_of_all_rows,
)
from tests.exact.test_sources import EXPECTED, FRAME, query_of, vectors

EACH_TIME = ("floats", "huge")
"""Lines that are tried each time, the others in audits."""

ROWS_IN_ALL = {"rows": {"count": "*"}}
SECRET = "SECRET-4711"
STORED_ROWS = [line.split(",") for line in ROWS]


def own_types(texts: list[str]) -> list[Any]:
    """Return the cells of a line as a program would store them: numbers as numbers."""

    def own(text: str) -> Any:
        for kind in (int, float):
            try:
                value = kind(text)
            except ValueError:
                continue
            return value if kind is int and abs(value) < 2**63 else float(text)
        return text or None

    spelled = {STORED.index(name) for name in ("padded", "digits")}
    return [text or None if i in spelled else own(text) for i, text in enumerate(texts)]


def as_texts(texts: list[str]) -> list[Any]:
    return [text or None for text in texts]


def into_sqlite(file: Path, kinds: str, rows: list[list[Any]]) -> dict[str, str]:
    columns = ", ".join(f'"{name}" {kinds}' for name in STORED)
    with closing(sqlite3.connect(file)) as link, link:
        link.execute(f"CREATE TABLE people ({columns})")
        link.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(STORED))})", rows)
    return {"path": str(file), "table": "people"}


def into_excel(file: Path, _: str, rows: list[list[Any]]) -> dict[str, str]:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in [STORED, *rows]:
        book.active.append(row)
    book.save(file)
    return {"path": str(file)}


STORES = {
    "sqlite, no types": (into_sqlite, "", own_types),
    "sqlite, texts": (into_sqlite, "TEXT", as_texts),
    "excel": (into_excel, "", own_types),
    "excel, texts": (into_excel, "", as_texts),
}


def source_vectors(store: str, file: Path, lines: list[list[str]]) -> dict[str, Any]:
    into, kinds, cells = STORES[store]
    source: Any = into(
        file.with_suffix(".sqlite" if kinds or into is into_sqlite else ".xlsx"),
        kinds,
        [cells(line) for line in lines],
    )
    declared = answers(None, {}, source)
    return {name: vector.tolist() for name, vector in declared.items()}


@pytest.mark.share(0.2)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("odds", [EACH_TIME, pytest.param(tuple(ODD), marks=pytest.mark.audit)])
def test_odd_row_in_a_file_changes_only_its_own_cells(
    store: str, odds: tuple[str, ...], tmp_path: Path
) -> None:
    """Each odd line, among others and alone; as texts it is read as in CSV."""
    before = source_vectors(store, tmp_path / "before", STORED_ROWS)
    assert before == {name: v.tolist() for name, v in vectors_of_all_rows("plain", False).items()}
    for i, odd in enumerate(odds):
        line = ODD[odd]
        cells = line.split(",")
        after = source_vectors(store, tmp_path / f"after{i}", [*STORED_ROWS, cells])
        own = source_vectors(store, tmp_path / f"own{i}", [cells])
        added = {name: (np.array(after[name]) - np.array(before[name])).tolist() for name in after}
        assert added == own, odd
        if "texts" in store and not (odd == "nothing" and "excel" in store):
            assert own == {name: v.tolist() for name, v in line_vectors(line, False).items()}, odd


def test_engine_column_types_do_not_depend_on_cells(tmp_path: Path) -> None:
    """The type of a column depends only on the declaration."""
    kinds = {"i": "INTEGER", "r": "REAL", "d": "DATE", "t": "VARCHAR(9)", "b": "BLOB", "n": ""}
    columns: dict[str, Any] = {name: {"type": "number"} for name in kinds}
    for i, cell in enumerate([None, 1, 1.5, "x", b"x", 2**63 - 1, 1e308, float("inf"), "\0é"]):
        file = tmp_path / f"{i}.sqlite"
        with closing(sqlite3.connect(file)) as link, link:
            declared = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
            link.execute(f"CREATE TABLE t ({declared})")
            link.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [cell] * len(kinds))
        table = declare(columns, source={"path": str(file), "table": "t"})
        with Engine.open(table) as engine:
            assert engine.physical == dict.fromkeys(kinds, "VARCHAR")
            assert engine.run(ask(table, ROWS_IN_ALL)).vector("rows").tolist() == [1]


LOSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "a text in a column of integers": ("INT", {"type": "text"}, "DP-DATA-004"),
    "a text in a column of reals": ("REAL", {"type": "text"}, "DP-DATA-004"),
    "a text in what SQLite takes for numbers": ("STRING", {"type": "text"}, "DP-DATA-004"),
    "codes that are one number": (
        "INTEGER",
        {"type": "category", "values": ["1", "01"]},
        "DP-DATA-004",
    ),
    "integers in a column of reals": ("DOUBLE", {"type": "integer"}, "DP-DATA-015"),
}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("case", LOSING)
@pytest.mark.parametrize("rows", [[], [1], ["x"]])
def test_lossy_sqlite_types_are_refused(case: str, rows: list[object], tmp_path: Path) -> None:
    """The type in the file's schema decides, not the rows."""
    kind, column, code = LOSING[case]
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.execute(f"CREATE TABLE t (v {kind}, k TEXT)")
        link.executemany("INSERT INTO t (v) VALUES (?)", [[row] for row in rows])
    source = {"path": str(tmp_path / "t.sqlite"), "table": "t"}
    table = declare({"v": column}, source=source)
    with pytest.raises(DataError, match=code):
        exact(ask(table, {"n": {"count": "v"}}), None)
    assert exact(ask(table, ROWS_IN_ALL), None)["rows"].tolist() == [len(rows)]


def test_float_ids_of_sqlite_are_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.execute("CREATE TABLE t (v REAL)")
    unit = {"privacy_unit": {"id": "v", "max_groups": 1, "max_rows_per_group": 1}}
    columns = {"v": {"type": "integer", "lower": 0, "upper": 9}}
    table = declare(columns, source={"path": str(tmp_path / "t.sqlite"), "table": "t"}, **unit)
    with pytest.raises(DataError, match="DP-DATA-005"):
        exact(ask(table, ROWS_IN_ALL), None)


TABLE = f"CREATE TABLE t (k TEXT, n INT); INSERT INTO t VALUES ('{SECRET}', 1);"
UNREADABLE: dict[str, tuple[str, str]] = {
    "a view": (f"{TABLE} CREATE VIEW v AS SELECT * FROM t", "DP-DATA-014"),
    "a virtual table": ("CREATE VIRTUAL TABLE v USING fts5(k, n)", "DP-DATA-014"),
    "computed as it is read": ("CREATE TABLE v (k TEXT, m INT, n INT AS (m * 2))", "DP-DATA-014"),
    "computed as it was written": (
        "CREATE TABLE v (k TEXT, m INT, n INT AS (m * 2) STORED)",
        "DP-DATA-014",
    ),
    "another table": (TABLE, "DP-DATA-001"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_sqlite_views_and_computed_columns_are_refused(case: str, tmp_path: Path) -> None:
    sql, code = UNREADABLE[case]
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.executescript(sql)
    table = declare(
        {"n": {"type": "number"}, "k": {"type": "text"}},
        source={"path": str(tmp_path / "t.sqlite"), "table": "v"},
    )
    with pytest.raises(DataError, match=code):
        exact(ask(table, ROWS_IN_ALL), None)


def test_sqlite_with_indexes_on_functions_is_read(tmp_path: Path) -> None:
    """A function of SQLite or of an application, which is never called."""
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.create_function("own", 1, lambda text: text, deterministic=True)
        link.executescript(
            "CREATE TABLE t (k TEXT, n INT); INSERT INTO t VALUES ('{\"a\": 1}', 1);"
            "CREATE INDEX a ON t (json_extract(k, '$.a'), own(n)) WHERE k ->> '$.a' > 0;"
            "CREATE UNIQUE INDEX b ON t (own(k));"
        )
    columns = {"n": {"type": "integer", "lower": 0, "upper": 9}, "k": {"type": "text"}}
    table = declare(columns, source={"path": str(tmp_path / "t.sqlite"), "table": "t"})
    assert exact(ask(table, {"n": {"sum": "n"}}), None)["n"][0] == 1
    described = sqlite_reader.READER.describe(tmp_path / "t.sqlite", None)
    assert described.columns == [("k", "text"), ("n", "integer")]


def test_names_and_defaults_of_sqlite_are_not_executed(tmp_path: Path) -> None:
    """Triggers and defaults don't run, a name with quotes is a name, one that is none no text."""
    name = 'a "b"; --'
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.executescript(
            'CREATE TABLE "x "";" ("a ""b""; --" INT, other INT DEFAULT (random()), spare AS (1));'
            'CREATE TABLE log (n INT); INSERT INTO "x "";" VALUES (3, 4);'
            "CREATE TRIGGER g AFTER INSERT ON log BEGIN DELETE FROM log; END;"
        )
    before = (tmp_path / "t.sqlite").read_bytes()
    source = {"path": str(tmp_path / "t.sqlite"), "table": 'x ";'}
    number = {"type": "integer", "lower": 0, "upper": 9}
    table = declare({name: number, "no such": number}, source=source)
    assert exact(ask(table, {"n": {"sum": name}}), None)["n"].tolist() == [3]
    with pytest.raises(DataError, match="DP-DATA-002"):
        exact(ask(table, {"n": {"sum": "no such"}}), None)
    assert (tmp_path / "t.sqlite").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.sqlite"]


def test_sqlite_column_names_are_case_sensitive(tmp_path: Path) -> None:
    source = into_sqlite(tmp_path / "t.sqlite", "", STORED_ROWS[:1])
    table = declare({"ID": {"type": "integer", "lower": 0, "upper": 9}}, source=source)
    with pytest.raises(DataError, match="DP-DATA-002"):
        exact(ask(table, {"n": {"sum": "ID"}}), None)


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_uncommitted_sqlite_changes_are_not_read(mode: str, tmp_path: Path) -> None:
    """Neither half a transaction nor a stale state is read, and nothing is written."""
    file = tmp_path / "t.sqlite"
    source = {"path": str(file), "table": "t"}
    table = declare({"n": {"type": "integer", "lower": 0, "upper": 9}}, source=source)

    def total() -> list[int]:
        return exact(ask(table, {"n": {"sum": "n"}}), None)["n"].tolist()  # type: ignore[no-any-return]

    with closing(sqlite3.connect(file, isolation_level=None)) as link:
        link.execute(f"PRAGMA journal_mode = {mode}")
        link.execute("CREATE TABLE t (n INT)")
        link.execute("BEGIN")
        link.execute("PRAGMA cache_size = 1")  # so that it is written before it is committed
        link.execute(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9999) INSERT INTO t SELECT 0 FROM c"
        )
        link.execute("INSERT INTO t VALUES (5)")
        if mode == "WAL":
            link.execute("COMMIT")
        with pytest.raises(DataError, match="DP-DATA-024"):
            total()
        if mode != "WAL":
            link.execute("COMMIT")
            assert total() == [5]
    assert total() == [5]
    beside = {path.name for path in tmp_path.iterdir()} - {file.name}
    assert beside <= ({"t.sqlite-journal"} if mode in ("PERSIST", "TRUNCATE") else set())


def test_sqlite_rows_are_read_in_stored_order(tmp_path: Path) -> None:
    """An index that covers all columns would return them in the order of values."""
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.execute("CREATE TABLE t (n INT, wide TEXT)")
        link.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 99) for n in (5, 3, 9, 1)])
        link.execute("CREATE INDEX i ON t (n)")
    source = {"path": str(tmp_path / "t.sqlite"), "table": "t"}
    from dprelease.exact.sources.sqlite_reader import READER

    declared = declare({"n": {"type": "integer"}}, source=source)
    rows = READER.rows(declared, declared.table.source, [tmp_path / "t.sqlite"]).reader().read_all()
    assert rows["n"].to_pylist() == ["5", "3", "9", "1"]


def cells(rows: str, styles: str = "", more: str = "") -> dict[str, str]:
    """Return the parts of a workbook whose sheet has these rows, in XML."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    package = "http://schemas.openxmlformats.org/package/2006"
    return {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/></Types>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}">{more}<sheets>'
        '<sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{office}/worksheet" Target="worksheets/s.xml"/>'
        "</Relationships>",
        "xl/worksheets/s.xml": f"{styles}<worksheet {main}><sheetData>{rows}</sheetData></worksheet>",
    }


def write_package(file: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, text)
    return file


HEADER = '<row r="1"><c r="A1" t="inlineStr"><is><t>v</t></is></c></row>'
HOSTILE = [
    '<c r="A2"><v>1e999</v></c>',
    '<c r="A2"><v>nan</v></c>',
    f'<c r="A2"><v>{SECRET}</v></c>',
    f'<c r="A2"><v>{"9" * 5000}</v></c>',
    '<c r="A2" t="s"><v>7</v></c>',
    f'<c r="A2" t="s"><v>{SECRET}</v></c>',
    f'<c r="A2" t="d"><v>{SECRET}</v></c>',
    f'<c r="A2" t="b"><v>{SECRET}</v></c>',
    f'<c r="A2" t="e"><v>{SECRET}</v></c>',
    f'<c r="A2" t="x"><v>{SECRET}</v></c>',
    f'<c r="{SECRET}"><v>1</v></c>',
    f'<c r="A2" s="{SECRET}"><v>1</v></c>',
    '<c r="A2" s="99"><v>1</v></c>',
    '<c r="A2" t="inlineStr"><is></is></c>',
    '<c r="A2"><f>1+</f><v>7</v></c>',
    f'<c r="A2"><f t="shared" si="0">{SECRET}((</f><v>7</v></c>',
    '<c r="A2" t="str"><f>A3</f><v>7</v></c>',
    "<c/>",
    '<other r="A2"/>',
]


@pytest.mark.share(0.5)
@pytest.mark.parametrize("cell", HOSTILE)
def test_hostile_workbook_cells_do_not_stop_a_run(cell: str, tmp_path: Path) -> None:
    rows = HEADER + f'<row r="2">{cell}</row><row r="3"><c r="A3"><v>2</v></c></row>'
    file = write_package(tmp_path / "t.xlsx", cells(rows))
    columns = {"v": {"type": "integer", "lower": 0, "upper": 1}}
    table = declare(columns, source=str(file))
    found = exact(ask(table, {"n": {"sum": "v"}}), None)
    assert found["n"].tolist() in ([1], [2])
    if "<f" in cell:  # whatever it last came to
        assert found["n"].tolist() == [1]


def workbook(folder: Path, fill: Callable[[Any], object], **more: Any) -> dict[str, Any]:
    book = openpyxl.Workbook()
    fill(book.active)
    book.save(folder / "t.xlsx")
    return {"path": str(folder / "t.xlsx"), **more}


def test_titles_formulas_and_merged_cells_are_read(tmp_path: Path) -> None:
    """Also errors, empty rows and texts for missing values."""

    def fill(sheet: Any) -> None:
        sheet.append(["Visits of 2024"])
        sheet.append([])
        sheet.append(["k", "n", None, 2024])
        sheet.append(["a", 1, "beside", 10])
        sheet.append(["a", "=B4+1", None, 10])
        sheet.append([None, "=1", None, None])
        sheet.append([])
        sheet.append(["b", "NA", None, 10])
        sheet.append(["b", "#N/A", None, "10"])
        sheet.append(["b", 2, None, True])
        sheet.merge_cells("A8:A10")
        sheet["F60"].number_format = "0.00"

    columns = {
        "k": {"type": "category", "values": ["a", "b", "none"], "fill": "none"},
        "n": {"type": "integer", "lower": 0, "upper": 9},
        "2024": {"type": "integer", "lower": 0, "upper": 10},
    }
    source = workbook(tmp_path, fill, header=3, nulls=["NA"])
    table = declare(columns, source=source)
    asked = {**ROWS_IN_ALL, "n": {"sum": "n"}, "m": {"sum": "2024"}}
    vectors = exact(ask(table, asked, ["k"]), None)
    # Merged cells have a value in the first alone; the formula's row has no other value.
    assert vectors["rows"].tolist() == [2, 1, 2]
    assert vectors["n"].tolist() == [1, 0, 2]
    assert vectors["m"].tolist() == [20, 10, 11]


@pytest.mark.parametrize("is_1904", [False, True])
def test_excel_dates_follow_the_number_format(is_1904: bool, tmp_path: Path) -> None:
    day = datetime.datetime
    told = [day(2024, 2, 29), day(2024, 2, 29, 12, 30, 15), datetime.date(2024, 3, 1)]

    def fill(sheet: Any) -> None:
        if is_1904:
            sheet.parent.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
        for value in ["d", *told, 45351, "2024-02-29", "29.02.2024", datetime.time(12), 1e9, -5]:
            sheet.append([value])
        for row in (9, 10):
            sheet.cell(row, 1).number_format = "yyyy-mm-dd"
        sheet.append([60.5])
        sheet.cell(11, 1).number_format = "yyyy-mm-dd"

    table = declare(
        {"d": {"type": "date", "lower": "2024-02-29", "upper": "2024-03-01"}},
        source=workbook(tmp_path, fill),
    )
    counts = exact(ask(table, {"n": {"count": "*"}}, ["d"]), None)
    assert counts["n"].tolist()[:2] == [3, 1]
    other = declare(
        {"d": {"type": "date", "format": "%d.%m.%Y", "lower": "2024-02-29", "upper": "2024-03-01"}},
        source=workbook(tmp_path, fill),
    )
    counts = exact(ask(other, {"n": {"count": "*"}}, ["d"]), None)
    assert counts["n"].tolist()[:2] == [4, 1]  # the text of that form, too
    first = declare(
        {"d": {"type": "date", "lower": "1900-01-01", "upper": "1904-12-31"}},
        source=workbook(tmp_path, fill),
    )
    counts = exact(ask(first, {"n": {"count": "*"}}, where="d < '1905-01-01'"), None)
    assert counts["n"].tolist() == [1 if is_1904 else 0]  # 29 February 1900 never was


def two_sheets(folder: Path) -> Path:
    book = openpyxl.Workbook()
    book.create_sheet(SECRET).append(["v"])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def zip_bomb(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in cells(HEADER).items():
            package.writestr(name, text)
        package.writestr("xl/other.xml", b"<a>" + b" " * (1 << 20))
    return folder / "t.xlsx"


def xml_entities(folder: Path) -> Path:
    laughs = f'<!-- {" " * 99}<a> --><!DOCTYPE a [<!ENTITY b "{SECRET}"><!ENTITY c "&b;&b;">]>'
    return write_package(folder / "t.xlsx", cells(HEADER, laughs))


def encrypted_workbook(folder: Path) -> Path:
    (folder / "t.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + SECRET.encode() * 99)
    return folder / "t.xlsx"


def not_a_zip(folder: Path) -> Path:
    (folder / "t.xlsx").write_text(f"v\n{SECRET}\n")
    return folder / "t.xlsx"


def no_header(folder: Path) -> Path:
    return write_package(folder / "t.xlsx", cells(HEADER.replace('r="1"', 'r="2"')))


def duplicate_header(folder: Path) -> Path:
    return write_package(
        folder / "t.xlsx", cells(HEADER.replace("</row>", HEADER[11:].replace("A1", "B1")))
    )


def truncated_workbook(folder: Path) -> Path:
    return write_package(
        folder / "t.xlsx", {**cells(HEADER), "xl/workbook.xml": f"<workbook>{SECRET}"}
    )


WORKBOOKS = {
    two_sheets: "several sheets",
    zip_bomb: "larger, when unpacked",
    xml_entities: "damaged",
    encrypted_workbook: "password",
    not_a_zip: "not an .xlsx",
    no_header: "its header has no column names",
    duplicate_header: "name twice",
    truncated_workbook: "damaged",
}


@pytest.mark.parametrize("made", WORKBOOKS, ids=lambda made: made.__name__)
def test_unreadable_workbooks_are_refused_without_values(
    made: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "MOST_HELD", 1 << 20)
    file = made(tmp_path)
    with pytest.raises(DataError, match=re.escape(WORKBOOKS[made])) as caught:
        exact(ask(declare({"v": {"type": "text"}}, source=str(file)), ROWS_IN_ALL), None)
    error = caught.value
    assert error.code == "DP-DATA-024"
    for told in (error, error.args, error.to_json(), error.__cause__, error.__context__):
        assert SECRET not in str(told)


def test_sheet_names_are_case_sensitive(tmp_path: Path) -> None:
    file = two_sheets(tmp_path)
    for sheet, rows in ((SECRET, [0]), (SECRET.lower(), None)):
        table = declare({"v": {"type": "text"}}, source={"path": str(file), "sheet": sheet})
        if rows is None:
            with pytest.raises(DataError, match="DP-DATA-024"):
                exact(ask(table, ROWS_IN_ALL), None)
        else:
            assert exact(ask(table, ROWS_IN_ALL), None)["rows"].tolist() == rows


def test_missing_openpyxl_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel_reader.importlib.util, "find_spec", lambda _: None)
    file = write_package(tmp_path / "t.xlsx", cells(HEADER))
    with pytest.raises(DataError, match=r"dprelease\[excel\]"):
        exact(ask(declare({"v": {"type": "text"}}, source=str(file)), ROWS_IN_ALL), None)


def not_sqlite(folder: Path) -> Path:
    (folder / "t.sqlite").write_text(SECRET * 999)
    return folder / "t.sqlite"


def truncated_sqlite(folder: Path) -> Path:
    rows = [[SECRET] * len(STORED)] * 400
    into_sqlite(folder / "t.sqlite", "", rows)
    whole = (folder / "t.sqlite").read_bytes()
    (folder / "t.sqlite").write_bytes(whole[: len(whole) // 2] + b"\xff" * (len(whole) // 2))
    return folder / "t.sqlite"


@pytest.mark.parametrize(("made", "code"), [(not_sqlite, "001"), (truncated_sqlite, "006")])
def test_damaged_sqlite_is_refused_without_values(
    made: Callable[[Path], Path], code: str, tmp_path: Path
) -> None:
    table = declare(
        {"id": {"type": "text"}}, source={"path": str(made(tmp_path)), "table": "people"}
    )
    with pytest.raises(DataError, match=f"DP-DATA-{code}") as caught:
        exact(ask(table, ROWS_IN_ALL), None)
    error = caught.value
    for told in (error, error.args, error.to_json(), error.__cause__, error.__context__):
        assert SECRET not in str(told)


def damage(raw: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, or truncated, near its start or anywhere."""
    begin = rng.randrange(rng.choice([len(raw), min(len(raw), 4096)]))
    size = rng.choice([1, 2, 8, 100])
    made = {
        "flip": lambda: bytes([raw[begin] ^ 1 << rng.randrange(8)]),
        "noise": lambda: rng.randbytes(size),
        "high": lambda: b"\xcc" * size,
        "zeros": lambda: bytes(size),
    }
    how = rng.choice([*made, "cut"])
    if how == "cut":
        return raw[:begin]
    part = made[how]()[: len(raw) - begin]
    return raw[:begin] + part + raw[begin + len(part) :]


def write_valid_file(file: Path) -> dict[str, str]:
    """Write a file of one row, and return the source that it is."""
    frame = pd.DataFrame({"k": [SECRET], "n": [1]})
    match file.suffix:
        case ".sqlite":
            with closing(sqlite3.connect(file)) as link, link:
                link.executescript(
                    TABLE + "CREATE VIEW w AS SELECT k FROM t; CREATE INDEX i ON t (n)"
                )
        case ".duckdb":
            with duckdb.connect(file) as made:
                made.execute(TABLE)
        case ".parquet":
            frame.to_parquet(file)
        case _:
            frame.to_excel(file, index=False)
    return {"path": str(file), **({"table": "t"} if file.suffix in (".sqlite", ".duckdb") else {})}


DAMAGED = {"sqlite": 30, "duckdb": 4, "parquet": 6, "xlsx": 6}
"""How many damaged files of a kind are tried each time; in audits ten times as many."""


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.audit) for seed in range(1, 10))]
)
@pytest.mark.parametrize("ending", DAMAGED)
def test_errors_of_damaged_files_contain_no_values(ending: str, seed: int, tmp_path: Path) -> None:
    file = tmp_path / f"t.{ending}"
    source = write_valid_file(file)
    raw, rng = file.read_bytes(), random.Random(f"{ending} {seed}")
    query = ask(declare({"k": {"type": "text"}}, source=source), ROWS_IN_ALL)
    for _ in range(DAMAGED[ending]):
        file.write_bytes(damage(raw, rng))
        for work in (
            lambda: exact(query, None),
            lambda: sketch(file, table=source.get("table")),
            lambda: peeked_sketch(file, table=source.get("table")),
        ):
            found = None
            try:
                work()
            except DpReleaseError as error:
                found = error
            if found is not None:
                assert found.code.startswith("DP-DATA-")
                assert SECRET not in f"{found}{found.__cause__}{found.__context__}"


def test_sqlite_schema_of_invalid_utf8_is_refused(tmp_path: Path) -> None:
    """SQLite quotes the schema in its error, which Python can't decode."""
    write_valid_file(tmp_path / "t.sqlite")
    raw = (tmp_path / "t.sqlite").read_bytes()
    source = {"path": str(tmp_path / "t.sqlite"), "table": "t"}
    query = ask(declare({"k": {"type": "text"}}, source=source), ROWS_IN_ALL)
    at = raw.index(b"CREATE TABLE t")
    for i in range(at, at + len(b"CREATE TABLE ")):
        (tmp_path / "t.sqlite").write_bytes(raw[:i] + b"\xcc" + raw[i + 1 :])
        with pytest.raises(DataError, match="DP-DATA-001"):
            exact(query, None)
        with pytest.raises(DataError, match="DP-DATA-010"):
            sketch(tmp_path / "t.sqlite", table="t")


@pytest.mark.parametrize("name", ["t.sqlite", "t.xlsx"])
def test_files_that_change_while_read_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = into_sqlite if name == "t.sqlite" else into_excel
    file, query = tmp_path / name, None
    source = into(file, "", STORED_ROWS)
    query = ask(declare(COLUMNS, source=source), ROWS_IN_ALL)
    read = TableReader.vectors

    def changing(*words: Any) -> Any:
        vectors = read(*words)
        file.write_bytes(file.read_bytes())
        return vectors

    monkeypatch.setattr(TableReader, "vectors", changing)
    with pytest.raises(DataError, match="DP-DATA-007"):
        exact(query, None)


def test_duckdb_may_not_open_the_source_file(tmp_path: Path) -> None:
    """Even the declared file can't be read by a statement."""
    source: Any = into_sqlite(tmp_path / "t.sqlite", "", STORED_ROWS)
    with Engine.open(declare(COLUMNS, source=source)) as engine:
        sql = f"SELECT * FROM read_text('{tmp_path / 't.sqlite'}')"
        with pytest.raises(Exception, match=r"(?i)permission|disabled|access"):
            engine._connection.execute(sql)


def test_files_with_equal_headers_are_one_table(tmp_path: Path) -> None:
    for i, rows in enumerate((STORED_ROWS[:30], STORED_ROWS[30:])):
        into_sqlite(tmp_path / f"{i}.sqlite", "", rows)
        into_excel(tmp_path / f"{i}.xlsx", "", rows)
    sources: list[Any] = [
        {"path": str(tmp_path / "*.sqlite"), "table": "people"},
        str(tmp_path / "*.xlsx"),
    ]
    for source in sources:
        table = declare(COLUMNS, source=source)
        assert exact(ask(table, ROWS_IN_ALL), None)["rows"].tolist() == [60]
    into_excel(tmp_path / "2.xlsx", "", [])
    book = openpyxl.load_workbook(tmp_path / "2.xlsx")
    assert book.active is not None
    book.active["A1"] = "other"
    book.save(tmp_path / "2.xlsx")
    with pytest.raises(DataError, match=r"DP-DATA-024.*different headers"):
        exact(ask(table, ROWS_IN_ALL), None)


def test_unfinished_and_hidden_files_of_folders_are_ignored(tmp_path: Path) -> None:
    """All finished Parquet files are read, also those in subfolders."""
    parts = [("a.parquet", FRAME.iloc[:2]), ("k=a/b.parquet", FRAME.iloc[2:4])]
    parts += [("k=b/c/d.parquet", FRAME.iloc[4:]), ("_old/0/e.parquet", FRAME)]
    parts += [("k=a/_f.parquet", FRAME), (".hidden/g.parquet", FRAME), ("k=a/.h.parquet", FRAME)]
    for name, frame in parts:
        file = tmp_path / "people" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(file)
    (tmp_path / "people" / "_SUCCESS").touch()
    for source in ("people/", "peop*/", str(tmp_path / "people") + "/"):
        assert vectors(query_of(source, tmp_path)) == EXPECTED
    assert pq.read_schema(tmp_path / "people" / "a.parquet").names == list(FRAME.columns)
    with pytest.raises(DataError, match="DP-DATA-001"):
        vectors(query_of("nobody/", tmp_path))
