"""Numbers that may have lost digits of the original text are refused or missing."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from dprelease.errors import DataError
from dprelease.statements.values.spelling import loses_digits
from tests.exact.build import ask, declare, exact
from tests.exact.test_value_conversion import meanings

LAYOUTS: dict[str, tuple[list[str], bool]] = {
    "%m.%Y": (["10.2020", "02.2021"], True),
    "%Y.%m": (["2020.10", "2021.02"], True),
    "%Y%m%d.%H": (["20201001.10", "20210201.20"], True),
    "%Y01": (["202001", "202101"], True),
    "%Y%m%d%I": (["2020100110", "2021020111"], True),
    "%Y%m%d": (["20201001", "20210201"], False),
    "%y%m%d": (["201001", "090201"], False),
    "%d.%m.%Y": (["01.10.2020", "01.02.2021"], False),
    "%Y %b": (["2020 Oct", "2021 Feb"], False),
}
"""Texts of some formats, and whether pandas takes all of them for numbers that don't tell them."""


@pytest.mark.share(0.5)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_numeric_date_columns_are_exact_or_refused(layout: str, kind: str) -> None:
    """One row with a letter turns all into texts, which are read; else all would be missing."""
    texts, loses = LAYOUTS[layout]
    pivot = {"pivot": 2025} if "%y" in layout else {}
    columns = {"d": {"type": kind, "format": layout, **pivot}}
    wanted = meanings(columns, pd.DataFrame({"d": [*texts, "x"]}))["d"]
    assert wanted[-1] is None
    assert None not in wanted[:2]
    assert loses_digits(layout) == loses
    frame = pd.read_csv(io.StringIO("\n".join(["d", *texts, ""])))
    mixed = pd.DataFrame({"d": pd.Series([*texts, 1.5], dtype=object)})
    if not loses:
        assert meanings(columns, frame)["d"] == wanted[:2]
        assert meanings(columns, mixed)["d"][:2] == wanted[:2]
        return
    for given in (frame, mixed):  # pandas reads a long file by parts, each with types of its own
        with pytest.raises(DataError, match=r"(?s)DP-DATA-004.*store it as text"):
            meanings(columns, given)


@pytest.mark.parametrize("affinity", ["TEXT", "", "NUMERIC", "REAL", "DATE"])
def test_sqlite_columns_that_turn_dates_to_numbers_refused(affinity: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.execute(f"CREATE TABLE t (d {affinity})")
        link.executemany("INSERT INTO t VALUES (?)", [["10.2020"], ["02.2021"], [1.2021]])
    source = {"path": str(tmp_path / "t.sqlite"), "table": "t"}
    columns = {"d": {"type": "date", "format": "%m.%Y"}}
    if affinity in ("", "TEXT"):
        found = meanings(columns, None, source)["d"]
        assert found[:2] == ["2020-10-01", "2021-02-01"]
        assert found[2] == ("2021-01-01" if affinity else None)  # as a text, it says so
        return
    with pytest.raises(DataError, match="DP-DATA-004"):
        meanings(columns, None, source)


def into_sqlite(file: Path, cells: list[object]) -> dict[str, Any]:
    with closing(sqlite3.connect(file)) as link, link:
        link.execute("CREATE TABLE t (v)")
        link.executemany("INSERT INTO t VALUES (?)", [[cell] for cell in cells])
    return {"path": str(file), "table": "t", "format": "sqlite"}


def into_excel(file: Path, cells: list[object]) -> dict[str, Any]:
    book = openpyxl.Workbook()
    assert book.active is not None
    for cell in ["v", *cells]:
        book.active.append([cell])
    book.save(file)
    return {"path": str(file), "format": "excel"}


LARGE = [1e17, -(2.0**60), 1e18, 1.0, 2**53 + 1, str(2**53 + 3), 1e400]
EXACT = [None, None, None, "1", "9007199254740993", "9007199254740995"]
VALUES = {"type": "category", "values": ["1", *EXACT[4:], "100000000000000000"]}
DECLARED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "ids": ({"type": "text"}, EXACT),
    "any integers": ({"type": "integer"}, [None if e is None else float(e) for e in EXACT]),
    "codes": (VALUES, EXACT),
    "bounded integers": (
        {"type": "integer", "lower": 0, "upper": 9},
        [1e17, -(2.0**60), 1e18, 1.0, float(2**53 + 1), float(2**53 + 3)],
    ),
}


@pytest.mark.parametrize("into", [into_sqlite, into_excel])
@pytest.mark.parametrize("case", DECLARED)
def test_floats_of_several_integers_are_missing(case: str, into: Any, tmp_path: Path) -> None:
    """Two ids with one float would be one person; as texts or integers they are two."""
    column, wanted = DECLARED[case]
    found = meanings({"v": column}, None, into(tmp_path / "t", LARGE))["v"]
    if into is into_excel:  # has floats alone, whatever wrote it
        wanted = [*wanted[:4], float(2**53) if "bounded" in case else None, wanted[5]]
    assert found[: len(wanted)] == wanted


def test_ids_beyond_exact_floats_are_left_out(tmp_path: Path) -> None:
    unit = {"privacy_unit": {"id": "v", "max_groups": 1, "max_rows_per_group": 1}}
    for into in (into_sqlite, into_excel):
        source = into(tmp_path / into.__name__, [*LARGE[:3], *LARGE[3:6]])
        within = {"type": "integer", "lower": 0, "upper": 9}
        for column in (within, {"type": "integer"}, {"type": "text"}):
            query = ask(declare({"v": column}, source=source, **unit), {"n": {"count": "*"}})
            assert exact(query, None)["n"].tolist() == [3 if into is into_sqlite else 2]


def test_null_texts_apply_to_numbers_of_sheets(tmp_path: Path) -> None:
    """As in CSV, where -99 is the text -99."""
    source = into_excel(tmp_path / "t.xlsx", [-99, -99.0, "-99", 5, "NA", True, None])
    columns = {"v": {"type": "integer", "lower": -100, "upper": 9}}
    found = meanings(columns, None, {**source, "nulls": ["", "NA", "-99"]})["v"]
    assert found == [None, None, None, 5.0, None, 1.0]
