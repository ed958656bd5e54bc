"""Excel: every value is kept, texts stay texts, and the bytes are reproducible."""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import time
import warnings
import zipfile
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from openpyxl import load_workbook

from dprelease.documents.metadata import CodeList, Role
from dprelease.exports.workbooks import workbook
from dprelease.exports.workbooks.book import DIGITS, significant_digits
from dprelease.exports.workbooks.cells import unique_heads
from dprelease.exports.workbooks.excel import EXPORT, escape_text
from dprelease.planning.treatments import treatment_sentence
from dprelease.query.quality import FEW_PEOPLE, SIGNS, UNDEFINED
from tests.covering import spread
from tests.exports.build import (
    CITIES,
    column,
    handmade_release,
    key,
    publish,
    release_with_all_metadata,
)
from tests.exports.test_csv import tables

FILE = "excel/release.xlsx"
NO_VALUE, LEFT_EMPTY = SIGNS[UNDEFINED], SIGNS[FEW_PEOPLE]
ROW = "the row"
FORMULAS = [
    '=HYPERLINK("http://x", "y")', "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0",
    "#N/A", "#REF!", "TRUE", "1e5", "00123", "2020-01-01", "_x0041_", "_x005F_", "\x07", "\ufffe",
    " ", "{=1}", "&<>\"'", "x" * 40_000, "\U0001f600" * 20_000, "<r>&</r>", "<r><t>x</t></r>",
    "_x0041_x0042_x0043_", "\ta\n",
]  # fmt: skip


def release_of(release_folder: Path, table: pa.Table, columns: list[Any]) -> Any:
    """Return a release of one table, with the numbers of its rows as a key."""
    table = table.add_column(0, ROW, pa.array(range(len(table)), pa.int64()))
    columns = [key(ROW, pa.int64(), range(len(table))), *columns]
    release = handmade_release(release_folder, [("t", table, columns)])
    said = release_with_all_metadata(release_folder / "other").record
    record = said.model_copy(update={"files": release.record.files})
    return type(release)(release.folder, record, release.metadata)


def write_workbook(release_folder: Path, table: pa.Table, columns: list[Any]) -> Path:
    """Return the workbook of that release."""
    EXPORT.write(release_of(release_folder, table, columns), release_folder)
    return release_folder / FILE


@pytest.fixture(params=["small", "long"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a workbook in memory, or as one that is too long for it."""
    if request.param == "long":
        monkeypatch.setattr(workbook, "IN_MEMORY", -1)
    return str(request.param)


def texts_in(path: Path) -> set[str]:
    """Return all texts of cells as Excel shows them; openpyxl unescapes some of them."""
    found = set()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            for element in ElementTree.fromstring(archive.read(name)).iter():
                if element.tag.endswith(("}si", "}is")):
                    runs = [one.text or "" for one in element.iter() if one.tag.endswith("}t")]
                    found.add("".join(map(unescape, runs)))
    return found


def rows_below(path: Path, names: list[str]) -> list[list[Any]]:
    """Return the cells below the heads of the one table."""
    sheet = load_workbook(path)["Table 1"]
    cells = [[(cell.value, cell.data_type) for cell in row] for row in sheet.iter_rows()]
    heads = [[value for value, _ in row] for row in cells].index([ROW, *names])
    rows = takewhile(lambda row: row[0][0] is not None, cells[heads + 1 :])
    return [row[1:] for row in rows]


def unescape(text: str) -> str:
    """Return the text that Excel shows (ECMA-376, ST_Xstring)."""
    return re.sub("_x([0-9A-F]{4})_", lambda match: chr(int(match[1], 16)), text)


def as_read(cell: tuple[Any, str], kind: pa.DataType) -> object:
    """Return the value of a cell."""
    value, stored = cell
    if value in (None, NO_VALUE):
        return None if value or kind != pa.string() else ""
    assert stored in ("s", "n", "b")
    if kind == pa.string():
        assert stored == "s"
        return unescape(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    return {pa.int64(): int, pa.float64(): float}.get(kind, bool)(value)


@given(tables().filter(len))
def test_excel_keeps_every_value(table: pa.Table) -> None:
    """Numbers with more digits than Excel has are texts; floats are numbers."""
    columns = [column(name, table.schema.field(name).type) for name in table.column_names]
    with TemporaryDirectory() as folder:
        rows = rows_below(write_workbook(Path(folder), table, columns), table.column_names)
    found = [
        {
            name: as_read(cell, table.schema.field(name).type)
            for name, cell in zip(table.column_names, row, strict=True)
        }
        for row in rows
    ]
    assert found == table.to_pylist()


def test_excel_texts_are_no_formulas(tmp_path: Path, size: str) -> None:
    texts = pa.array(FORMULAS)
    columns = [column("=key", pa.string()), column("n", pa.int64())]
    table = pa.table({"=key": texts, "n": range(len(FORMULAS))})
    path = write_workbook(tmp_path, table, columns)
    rows = rows_below(path, ["=key", "n"])
    assert {cell[0][1] for cell in rows} == {"s"}
    # What is cut says so; Excel counts in units of UTF-16.
    cut = {"x": 32_766 * "x" + "\u2026", "\U0001f600": 16_383 * "\U0001f600" + "\u2026"}
    assert {text if len(text) < 20_000 else cut[text[0]] for text in FORMULAS} <= texts_in(path)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            text = archive.read(name)
            assert b"<f>" not in text
            assert b"<f " not in text
            assert b'TargetMode="External"' not in text


def test_numbers_that_excel_would_change_are_texts(tmp_path: Path, size: str) -> None:
    whole = [2**53 + 1, -(2**63), 10**15, 123456789012345, 10**18]
    table = pa.table({"n": pa.array(whole, pa.int64()), "x": pa.array([0.1 + 0.2] * 5)})
    columns = [column("n", pa.int64()), column("x", pa.float64())]
    rows = rows_below(write_workbook(tmp_path, table, columns), ["n", "x"])
    assert [cell[0][1] for cell in rows] == ["s", "s", "n", "n", "n"]
    assert {cell[1] for cell in rows} == {(0.1 + 0.2, "n")}
    assert significant_digits("-0.00120300") == 4
    assert significant_digits("9" * DIGITS + "000") == DIGITS


def test_missing_values_have_a_sign_in_excel(tmp_path: Path) -> None:
    """By their reason: left empty by a rule, or without a value."""
    table = pa.table({"pay": pa.array([1.5, None])})
    release = release_of(tmp_path, table, [column("pay", pa.float64())])
    for words, mark in (([], NO_VALUE), (["Noised values below 3 are left empty; x."], LEFT_EMPTY)):
        release.central.files[0].post_processing = {"pay": words}
        EXPORT.write(release, tmp_path)
        assert [row[0] for row in rows_below(tmp_path / FILE, ["pay"])] == [(1.5, "n"), (mark, "s")]


def test_workbooks_follow_guidance_for_statistics(tmp_path: Path, size: str) -> None:
    """A cover, contents with links to all sheets, one named table per sheet, no merged cells.

    Tables of a long workbook have a name, but are not marked up.
    """
    path = publish(tmp_path, "formats: excel\n") / FILE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        book = load_workbook(path)
    assert book.sheetnames == ["Cover", "Contents", "Notes", "Table 1", "Table 2", "Annex"]
    cover = [row[0] for row in book["Cover"].iter_rows(values_only=True)]
    assert cover[0] == "People: <cities> & sexes"
    assert any(
        re.search(r"epsilon = (3\.99\d|4) and delta = 0.000001", line or "") for line in cover
    )
    assert any("“person”" in line for line in cover if line)
    links = [row[0].hyperlink.location for row in book["Contents"].iter_rows(min_row=4)]
    led = dict.fromkeys(link.split("!")[0] for link in links)
    assert list(led) == [f"'{name}'" for name in book.sheetnames[2:]]
    names = set()
    for i, sheet in enumerate(book.worksheets[1:], 1):
        if size == "small":
            (table,) = sheet.tables.values()
            name, ref = table.displayName, table.ref
            heads = [cell.value for cell in sheet[int(ref.split(":")[0][1:])]]
            assert heads == [column.name for column in table.tableColumns]
        else:
            name = f"Table_{i}"
            title, ref = book.defined_names[name].attr_text.replace("$", "").split("!")
            assert title.strip("'") == sheet.title
        names.add(name)
        first, last = ref.split(":")
        head = int(first[1:])
        assert sheet["A2"].value == "This worksheet contains one table."
        assert re.sub("[0-9]", "", last) == re.sub("[0-9]", "", sheet.dimensions.split(":")[1])
        assert first.startswith("A")
        assert any(cell.value is not None for cell in sheet[int(re.sub("[A-Z]", "", last))])
        assert not sheet.merged_cells.ranges
        assert sheet.sheet_state == "visible"
        assert (sheet.page_setup.orientation, int(sheet.page_setup.paperSize)) == ("landscape", 9)
        assert sheet.print_title_rows == f"${head}:${head}"
        assert sheet.freeze_panes.endswith(str(head + 1))
    assert len(names) == len(book.worksheets) - 1


def test_tables_of_a_query_share_a_sheet(tmp_path: Path) -> None:
    """Every published number is there once; tables by fewer keys are totals."""
    folder = publish(tmp_path, "formats: excel\n")
    sheet = load_workbook(folder / FILE)["Table 1"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=4)]
    at = {row[:2][0]: row for row in reversed(rows) if row[1] is None}
    cells = {tuple(row[:2]): row[2] for row in rows if row[1] is not None}
    expected: dict[tuple[Any, ...], Any] = {}
    for name in ("city_sex", "city", "sex", "total"):
        for row in pq.read_table(folder / f"cells_{name}.parquet").to_pylist():
            key = tuple(row.get(one, "Total") for one in ("city", "sex"))
            expected[key] = LEFT_EMPTY if row["people"] is None else row["people"]
    assert cells == expected
    cities = ["Total", *CITIES]
    assert list(cells) == [(city, sex) for city in cities for sex in ("Total", "F", "M")]
    assert at, "there is text below the table"


def test_workbooks_contain_no_time_and_no_machine(tmp_path: Path, size: str) -> None:
    path = publish(tmp_path, "formats: excel\n") / FILE
    day = 1 if size == "small" else 31
    with zipfile.ZipFile(path) as archive:
        assert {part.date_time for part in archive.infolist()} == {(1980, 1, day, 0, 0, 0)}
        core = archive.read("docProps/core.xml").decode()
    assert re.findall(r"[0-9]{4}-[0-9T:-]*Z", core) == ["1980-01-01T00:00:00Z"] * 2
    assert str(tmp_path).encode() not in path.read_bytes()
    assert os.listdir(path.parent) == [path.name]
    release = release_with_all_metadata(tmp_path / "other")
    names = EXPORT.write(release, tmp_path / "one")
    time.sleep(2.1)  # an archive's clock has two seconds
    EXPORT.write(release, tmp_path / "two")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_column_heads_are_unique() -> None:
    heads = unique_heads(["a", "A", "", "x" * 300, "x" * 301])
    assert len({head.casefold() for head in heads}) == 5
    assert all(0 < len(head) < 255 for head in heads)


@pytest.mark.parametrize(
    "heads", [["a (3)", "a", "a"], ["a", "a", "a (2)", "a (3)"], ["x" * 240, "x" * 241, "x" * 300]]
)
def test_numbered_heads_are_unique(heads: list[str]) -> None:
    assert len({head.casefold() for head in unique_heads(heads)}) == len(heads)


SAME = {"en": "Person"}


@pytest.mark.parametrize("wide", [False, True])
def test_equal_labels_are_distinguished(tmp_path: Path, wide: bool) -> None:
    """Two values, columns or tables with one label show their names and codes."""
    kinds = pa.string(), pa.string(), pa.int64(), pa.int64()
    rows = pa.table(
        {"sex": ["1", "2"] * 2, "k": ["a", "a", "b", "b"], "m": range(4), "n": range(4)}
    )
    labels = {"1": SAME, "2": SAME}
    told = [
        key("k", kinds[1], ["a", "b"], labels={"a": {"en": "=A"}}),
        key("sex", kinds[0], ["1", "2"], labels=labels, label={"en": "Sex"}),
        column("m", kinds[2], label={"en": "Number"}),
        column("n", kinds[3], label={"en": "number"}),
    ]
    rows = rows.select([one.name for one in told])
    tables = [("t", rows, told), ("u", rows, told)]
    made = handmade_release(tmp_path, tables, ["sex"] if wide else [])
    said = release_with_all_metadata(tmp_path / "other").record
    labelled = tuple(replace(table, label={"en": "Titled"}) for table in made.metadata.tables)
    release = replace(
        made,
        record=said.model_copy(update={"files": made.record.files}),
        metadata=replace(made.metadata, tables=labelled),
    )
    EXPORT.write(release, tmp_path)
    book = load_workbook(tmp_path / FILE)
    assert [cell.value for cell in book["Contents"]["B"][-3:-1]] == ["Titled (t)", "Titled (u)"]
    rows = [[c.value for c in row] for row in book["Table 1"].iter_rows(min_row=3)]
    if wide:
        heads = [
            f"Number: Person (m.{i})" if c == "m" else f"number: Person (n.{i})"
            for i in (1, 2)
            for c in "mn"
        ]
        assert rows[0] == ["k", "k, code", *heads]
        assert rows[1:3] == [["=A", "a", 0, 0, 1, 1], ["b", "b", 2, 2, 3, 3]]
    else:
        assert rows[0] == ["k", "k, code", "Sex", "Sex, code", "Number (m)", "number (n)"]
        assert [row[:4] for row in rows[1:5]] == [
            [*k, "Person", sex] for k in (("=A", "a"), ("b", "b")) for sex in "12"
        ]


def test_values_of_every_type_are_shown_by_labels(tmp_path: Path) -> None:
    """For keys and selected values; values without a label and missing ones are unchanged."""
    table = pa.table(
        {
            "old": pa.array([True, False]),
            "year": pa.array([1, 2], pa.int64()),
            "day": pa.array([date(2024, 1, 1), date(2024, 1, 2)]),
            "job": pa.array(["cook", None]),
        }
    )
    first = {"old": True, "year": 2, "day": date(2024, 1, 2)}
    columns = [
        key(name, table.schema.field(name).type, table[name].to_pylist(), labels={v: {"en": "L"}})
        for name, v in first.items()
    ]
    codes = CodeList(("cook", "sailor"), {"cook": {"en": "Koch"}})
    columns.append(column("job", pa.string(), codes=codes))
    heads = [name for key in first for name in (key, f"{key}, code")]
    rows = rows_below(write_workbook(tmp_path, table, columns), [*heads, "job"])
    assert [[cell[0] for cell in row] for row in rows] == [
        ["L", "true", "1", "1", "2024-01-01", "2024-01-01", "Koch"],
        ["false", "false", "L", "2", "L", "2024-01-02", NO_VALUE],
    ]


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_COLUMNS"])
def test_tables_too_large_for_a_sheet_are_refused(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"k": ["a", "b"], "n": [1, 2]})
    columns = [key("k", pa.string(), ["a", "b"]), column("n", pa.int64())]
    metadata = handmade_release(tmp_path, [("t", table, columns)]).metadata
    assert list(EXPORT.problems(metadata)) == []
    monkeypatch.setattr(workbook, limit, 1)
    (problem,) = EXPORT.problems(metadata)
    assert problem.message.startswith("'t': it has 2 ")
    records = handmade_release(
        tmp_path, [("t", table, [column("k", pa.string(), Role.LABEL, "n")])]
    ).metadata
    assert [one.words for one in EXPORT.problems(records)] == ["no table has readable values"]


def test_workbooks_with_the_same_content_are_equal(tmp_path: Path) -> None:
    """With other compression it is equal; with another cell, sheet or part it is not."""
    table = pa.table({"n": [1, 2, 3]})
    one = write_workbook(tmp_path / "one", table, [column("n", pa.int64())])
    other = tmp_path / "other.xlsx"
    with zipfile.ZipFile(one) as read, zipfile.ZipFile(other, "w", zipfile.ZIP_STORED) as write:
        for part in read.infolist():
            write.writestr(part.filename, read.read(part))
    assert other.read_bytes() != one.read_bytes()
    assert EXPORT.has_same_content(one, other)
    assert EXPORT.has_same_content(other, one)
    changes = (
        (b"<v>2</v>", b"<v>4</v>"),
        (b'name="Notes"', b'name="Noted"'),
        (b'sheetId="3"', b'sheetId="3" state="hidden"'),
    )
    for old, new in changes:
        with zipfile.ZipFile(one) as read, zipfile.ZipFile(other, "w") as write:
            for part in read.infolist():
                write.writestr(part.filename, read.read(part).replace(old, new))
        assert not EXPORT.has_same_content(other, one), new
    with zipfile.ZipFile(other, "w") as write:
        write.writestr("xl/vbaProject.bin", "x")
    assert not EXPORT.has_same_content(other, one)
    other.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="no archive"):
        EXPORT.has_same_content(other, one)


def test_excel_escapes_follow_the_standard() -> None:
    assert escape_text("a_x0041_b\x07") == "a_x005F_x0041_b_x0007_"
    assert escape_text("a_b\t\n") == "a_b\t\n"


SMALL = [(0, room) for room in (0, 200, 1000, 2000, 3000, 4000, 6000)]
LARGE = [(2000, room) for room in (8_000, 30_000, 70_000)]
"""Rows, of which a long workbook writes some before the sheet ends; what the disk takes."""


@pytest.mark.share(0.5)
@pytest.mark.parametrize(("rows", "room"), spread([*SMALL, *LARGE], 0.6))
def test_full_disk_is_reported_once(
    tmp_path: Path, rows: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only by the system's error: no file that the library leaves open warns."""
    monkeypatch.setattr(workbook, "IN_MEMORY", 100)
    n = column("n", pa.int64())
    large = release_of(tmp_path, pa.table({"n": range(rows)}), [n]) if rows else None
    release, left = large or release_with_all_metadata(tmp_path), []
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            EXPORT.write(release, tmp_path)
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    gc.collect()
    assert left == []


@pytest.mark.parametrize(
    ("treatment", "wanted"),
    {
        "key; missing: _X; not declared: drop; missing values: also 9": ["under “_X”", "code", "9"],
        "missing: drop; outside the bounds: clamped; value; missing: not counted": ["nearest"],
        "missing: 0; outside the bounds: clamped": ["as 0"],
        "condition; compared first": ["ompared first"],
        "key; missing: the unallocated part of the area that the row has in 'a', and without it "
        "drop": ["unallocated", "without it are left out"],
    }.items(),
)
def test_treatments_are_in_plain_words(treatment: str, wanted: list[str]) -> None:
    sentence = treatment_sentence(treatment)
    assert all(words in sentence for words in wanted)
    assert not any(word in sentence for word in ("drop", "key;", "clamped", "not counted"))
    assert sentence.count("without a value") <= 1
