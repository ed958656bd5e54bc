"""Sheets of statistical offices: two header rows, numbers as texts, totals and notes below."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.exact.reading.line_selection import join_header_rows
from dprelease.statements.values.spelling import number_of_text_sql
from dprelease.statements.values.written_texts import plain_number, plain_number_sql
from tests.exact import test_open_documents as ods
from tests.exact.build import ask, declare, exact

COLUMNS: dict[str, Any] = {
    "person": {"type": "integer"},
    "stays_2019": {"type": "number", "lower": 0, "upper": 9999, "step": 1, "strip": "*"},
    "stays_2020": {"type": "number", "lower": 0, "upper": 9999, "step": 1},
}
HEADER = [["person", "stays", None, None], [None, 2019, 2020, "note"]]
ROWS: list[list[object]] = [
    [1, 1, "1.000,4", "Total"], [2, "1.234 *", 3, None], [3, 5, 1.234, "x"], [None, 1, 1, None],
]  # fmt: skip
NOTES: list[list[object]] = [["Total", 1240, 1006], [], [None, "Total of all offices"], ["x"]]


def write(folder: Path, ending: str, rows: list[list[object]]) -> Path:
    """Write a sheet with titles, two header rows, rows and notes; ODS and CSV as well."""
    sheet, path = [["Stays"], [], *HEADER, *rows, *NOTES], folder / f"stays.{ending}"
    if ending == "ods":
        lines = [ods.row(*map(ods.cell, one)) for one in sheet]
        return ods.write(path, s="".join(lines))
    book = openpyxl.Workbook()
    for number, one in enumerate(sheet, 1):
        for place, value in enumerate(one, 1):
            book.active.cell(number, place, value)
    book.active.merge_cells("B3:C3")
    book.active.merge_cells("A3:A4")
    book.save(path)
    return path


def read(path: Path, **keys: Any) -> list[int]:
    """Return the number of rows, and the sums of both years."""
    source = {"path": str(path), "header": [3, 4], "decimal": ",", "thousands": ".", **keys}
    query = {"n": {"count": "*"}, "a": {"sum": "stays_2019"}, "b": {"sum": "stays_2020"}}
    found = exact(ask(declare(COLUMNS, source=source), query), None)
    return [int(found[name][0]) for name in query]


@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_totals_and_notes_are_not_read(ending: str, tmp_path: Path) -> None:
    """A row counts wherever it is: only the last row with this start begins the notes."""
    path = write(tmp_path, ending, ROWS)
    whole = [4, 1 + 1234 + 5 + 1, 1000 + 3 + 1 + 1]
    assert read(path, until="Total of", footer=1) == read(path, footer=3) == whole
    assert read(path, until="Total", footer=1) == whole  # of which the first Total is one
    for i in range(len(ROWS)):
        write(tmp_path, ending, [*ROWS[:i], *ROWS[i + 1 :]])
        assert read(path, footer=3)[0] == len(ROWS) - 1
    for notes, key in (({"until": "Sum"}, "until"), ({"until": "x", "footer": 7}, "footer")):
        with pytest.raises(DpReleaseError, match=rf"DP-DATA-024.*a workbook.*`{key}`"):
            read(path, **notes)


def test_csv_with_two_header_rows(tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("Stays;;\n\nperson;stays;\n;2019;2020\n1;1;1.000,4\n2;1.234 *;3\n")
    assert read(path, delimiter=";") == [2, 1235, 1003]


def test_names_of_merged_header_cells() -> None:
    """An empty cell has the text to its left, unless that is a complete name."""
    assert join_header_rows([["a", "", "b", ""], ["1", "2", "", "3", "4"]]) == [
        "a_1", "a_2", "b", "3", "4",
    ]  # fmt: skip
    assert join_header_rows([["a", "", ""], ["x", "", "y"], ["1", "2", "3"]]) == [
        "a_x_1", "a_x_2", "a_y_3",
    ]  # fmt: skip


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("thousands", [None, ".", ",", " ", "'"])
def test_numbers_of_texts_are_read_as_in_csv(decimal: str, thousands: str | None) -> None:
    if decimal == thousands:
        return
    draw = random.Random(1)
    texts = ["".join(draw.choices("0123.,-e' \u202f+", k=draw.randint(1, 9))) for _ in range(3000)]
    texts += ["1.234,5", "1,234.5", "-1 234", ",5", ".5", "5,", "1,5e3", "1\u202f000", "1.000.000"]
    with duckdb.connect() as link:
        link.execute("CREATE TABLE t AS SELECT * FROM (SELECT unnest(?) AS x, unnest(?) AS y)",
                     [texts, [plain_number(text, decimal, thousands) for text in texts]])  # fmt: skip
        numbers = map(number_of_text_sql, ("a", "y"))
        rows = f"SELECT {plain_number_sql('x', decimal, thousands, False)} AS a, x, y FROM t"
        different = link.execute(
            f"SELECT x, y FROM ({rows}) WHERE {' IS DISTINCT FROM '.join(numbers)}"
        ).fetchall()
    assert different == []


def write_merged(path: Path, rows: list[list[Any]], heights: dict[tuple[int, int], int]) -> Path:
    """Write a sheet in which the cells at places of rows and columns span several rows."""
    covered = {(i + j, k) for (i, k), height in heights.items() for j in range(1, height)}
    if path.suffix == ".ods":
        lines = []
        for i, row in enumerate(rows):
            spans = [
                f'table:number-rows-spanned="{heights.get((i, k), 1)}"' for k in range(len(row))
            ]
            cells = [
                "<table:covered-table-cell/>" if (i, k) in covered else ods.cell(cell, spans[k])
                for k, cell in enumerate(row)
            ]
            lines.append(ods.row(*cells))
        return ods.write(path, s="".join(lines))
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for (i, k), height in heights.items():
        ends = {"start_row": i + 1, "end_row": i + height}
        book.active.merge_cells(start_column=k + 1, end_column=k + 1, **ends)
    book.save(path)
    return path


@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_merged_cells_have_their_value_in_each_row_if_declared(ending: str, tmp_path: Path) -> None:
    """Compared with the table in which the values are written out; others are missing."""
    draw = random.Random(5)
    number = {"type": "integer", "lower": 0, "upper": 99}
    columns = {
        "k": {"type": "category", "values": ["a", "b"], "fill": "b"},
        "n": number,
        "id": number,
    }
    query = {"r": {"count": "*"}, "m": {"count": "n"}, "s": {"sum": "n"}}
    for merged in ("fill", None):
        rows: list[list[Any]] = [["k", "n", "id"]]
        heights: dict[tuple[int, int], int] = {}
        while len(rows) < 30:
            height, kind, value = draw.randint(1, 4), draw.choice("ab"), draw.randint(1, 9)
            heights |= {(len(rows), column): height for column in range(draw.randint(1, 2))}
            rows += [[kind, value, len(rows) + i] for i in range(height)]
        path = write_merged(tmp_path / f"t.{ending}", rows, heights)
        read_rows = [[*row] for row in rows[1:]]
        for (i, k), height in heights.items() if merged is None else ():
            for j in range(1, height):
                read_rows[i - 1 + j][k] = ["b", None][k]
        source = {"path": str(path), **({"merged": merged} if merged else {})}
        found = exact(ask(declare(columns, source=source), query, ["k"]), None)
        for i, key in enumerate("ab"):
            values = [row[1] for row in read_rows if row[0] == key]
            known = [value for value in values if value is not None]
            wanted = [len(values), len(known), sum(known)]
            assert [int(found[name][i]) for name in query] == wanted
        done = CliRunner().invoke(cli.app, ["init", str(path)])
        assert "span several rows: k, n." in " ".join(done.stdout.replace("#", " ").split())
