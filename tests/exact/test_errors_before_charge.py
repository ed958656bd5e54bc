"""Declarations of the layout of a file that can't be right are found before a budget is charged."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import State
from tests.exact import test_open_documents as ods

RUN = CliRunner()
ROWS = [[str(i), "fm"[i % 2]] for i in range(30)]
NOTES = [["Total", "30"], ["Source: office", ""]]
FIXED = {"format": "fixed_width", "columns": {"k": [1, 2], "sex": [3, 3]}}


def write(folder: Path, name: str) -> None:
    """Write a table with notes below its rows, in the format of a file name."""
    table = [["k", "sex"], *ROWS, *NOTES]
    if name.endswith("dat"):
        rows = [f"{k:>2}{sex}" for k, sex in ROWS]
        (folder / name).write_text("\n".join([*rows, *(row[0] for row in NOTES), ""]))
    elif name.endswith("jsonl"):
        rows = [json.dumps({"K": k, "Sex": sex}) for k, sex in ROWS]
        (folder / name).write_text("\n".join(["{", *rows]))
    elif name.endswith("ods"):
        ods.write(folder / name, a="".join(ods.row(*map(ods.cell, row)) for row in table))
    elif name.endswith("xlsx"):
        book = openpyxl.Workbook()
        for row in table:
            book.active.append(row)
        book.save(folder / name)
    else:
        encoding = "utf-16" if "wide" in name else "utf-8"
        (folder / name).write_text("\n".join(map(";".join, table)), encoding=encoding)


def run(folder: Path, source: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the answer of a run that counts all rows, and the number of charges of its ledger."""
    columns = {"k": {"type": "integer"}, "sex": {"type": "category", "values": ["f", "m"]}}
    schema = {"table": "t", "owner": "me", "source": source, "columns": columns}
    (folder / "t.yaml").write_text(json.dumps(schema))
    release = {
        "title": "x", "tables": ["t.yaml"], "budget": {"epsilon": 1}, "ledger": "l.sqlite",
        "queries": {"n": {"from": "t", "columns": {"n": {"count": "*"}}}}, "output": "out",
    }  # fmt: skip
    (folder / "r.yaml").write_text(json.dumps(release))
    ledger = str(folder / "l.sqlite")
    options = ["--table", "t", "--owner", "me", "--epsilon", "1"]
    assert RUN.invoke(cli.app, ["ledger", "init", ledger, *options]).exit_code == 0
    done = RUN.invoke(cli.app, ["run", str(folder / "r.yaml"), "--json"])
    shown = RUN.invoke(cli.app, ["ledger", "show", ledger, "--json"])
    return json.loads(done.stdout), json.loads(shown.stdout)[0]["releases"]


@pytest.mark.each
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("t.csv", {"delimiter": ";"}),
        ("t.csv", {"delimiter": ";", "footer": 1}),
        ("wide.csv", {"delimiter": ";", "encoding": "utf-16"}),
        ("t.dat", FIXED),
        ("t.xlsx", {}),
        ("t.ods", {}),
    ],
)
@pytest.mark.parametrize("has_parts", [False, True])
def test_missing_notes_are_found_before_a_charge(
    name: str, keys: dict[str, Any], has_parts: bool, tmp_path: Path
) -> None:
    """The same file is read, and charged, if its notes are as declared."""
    write(tmp_path, name)
    for notes, charges in (({"until": "Quelle"}, 0), ({"footer": 40}, 0), ({"until": "Total"}, 1)):
        source = {"path": name, **keys, **notes}
        found, charged = run(tmp_path, {"files": [source]} if has_parts else source)
        assert charged == charges
        assert found.get("ok", True) is (charges == 1)
        for error in found.get("findings", []) if charges == 0 else []:
            assert error["code"] == "DP-DATA-024"
            assert name in error["cause"]
            assert error["state"] == State.READ.value
        (tmp_path / "l.sqlite").unlink()


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("t.csv", {}),
        ("t.csv", {"delimiter": ";", "encoding": "utf-16"}),
        ("t.xlsx", {"header": 3}),
        ("t.jsonl", {}),
    ],
)
def test_file_without_any_declared_column_is_refused_before_a_charge(
    name: str, keys: dict[str, Any], tmp_path: Path
) -> None:
    """A query that reads no column would count lines that are no rows of the table."""
    write(tmp_path, name)
    found, charged = run(tmp_path, {"path": name, **keys})
    assert charged == 0
    assert found["findings"][0]["code"] == ("DP-DATA-024" if "json" in name else "DP-DATA-002")


@pytest.mark.parametrize("text", ["", "[" * 9000 + '\n{"K": 1}\n{"k": 1}\n'])
def test_json_lines_are_read_if_no_row_or_one_row_has_a_column(text: str, tmp_path: Path) -> None:
    """Rows may leave out columns whose values are missing, and lines may be unreadable."""
    (tmp_path / "t.jsonl").write_text(text)
    found, charged = run(tmp_path, {"path": "t.jsonl"})
    assert found.get("ok", True)
    assert charged == 1


@pytest.mark.parametrize("ref", ["A0:B2", "x", ""])
def test_unreadable_places_of_merged_cells_are_found_before_a_charge(
    ref: str, tmp_path: Path
) -> None:
    write(tmp_path, "t.xlsx")
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    book.active.merge_cells("A3:A4")
    book.save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as package:
        parts = {name: package.read(name) for name in package.namelist()}
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as package:
        for name, part in parts.items():
            package.writestr(name, part.replace(b"A3:A4", ref.encode()))
    found, charged = run(tmp_path, {"path": "t.xlsx", "merged": "fill"})
    assert charged == 0
    assert found["findings"][0]["code"] == "DP-DATA-024"
