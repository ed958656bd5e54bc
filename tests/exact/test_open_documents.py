"""OpenDocument spreadsheets, from `init` to a verified release, to the last row."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.exact.build import ask, declare, exact

NAMES = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "table", "text")
)


def cell(value: object, more: str = "") -> str:
    """Return a cell with a value of a type, as spreadsheet programs write it."""
    if value is None:
        return f"<table:table-cell {more}/>"
    kind, shown = "string", escape(str(value))
    if isinstance(value, bool):
        more += f' office:boolean-value="{str(value).lower()}"'
        kind = "boolean"
    elif isinstance(value, int | float):
        more += f' office:value="{value}"'
        kind = "float"
    elif str(value)[:4].isdigit() and str(value)[4:5] == "-":
        more += f" office:date-value={quoteattr(str(value))}"
        kind = "date"
    paragraph = f"<text:p>{shown}</text:p>"
    return f'<table:table-cell office:value-type="{kind}" {more}>{paragraph}</table:table-cell>'


def row(*cells: str, more: str = "") -> str:
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


def write(path: Path, **sheets: str) -> Path:
    tables = "".join(
        f"<table:table table:name={quoteattr(name)}>{rows}</table:table>"
        for name, rows in sheets.items()
    )
    body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        content = f"<office:document-content{NAMES}>{body}</office:document-content>"
        package.writestr("content.xml", f"<?xml version='1.0' encoding='UTF-8'?>{content}")
    return path


COLUMNS: dict[str, Any] = {
    "k": {"type": "category", "values": ["a b", "c"]},
    "n": {"type": "integer", "lower": -10, "upper": 100},
    "d": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    "b": {"type": "boolean"},
}
SPACED = (
    '<table:table-cell office:value-type="string"><office:annotation><text:p>secret</text:p>'
    "</office:annotation><text:p>a<text:s/><text:span>b</text:span></text:p></table:table-cell>"
)
FORMULA = cell(50, 'table:formula="of:=SUM([.B1:.B9])"')
ODD = '<table:table-cell office:value-type="float" office:value="secret"/>'
ROWS = (
    row(cell("Title"))
    + row(cell(None, 'table:number-columns-repeated="9"'), more='table:number-rows-repeated="2"')
    + row(*map(cell, "kndb"))
    + "<table:table-row-group>"
    + row(SPACED, cell(5), cell("2024-02-29"), cell(True))
    + "</table:table-row-group>"
    + row(cell("c"), FORMULA, cell("2024-01-01T10:00:00"), cell(None))
    + row(cell("c"), cell(7), more='table:number-rows-repeated="3"')
    + row(cell(1, 'table:number-columns-repeated="2"'), cell("2024-13-01"), ODD)
    + row(SPACED.replace("table-cell", "covered-table-cell"), cell("9"), cell("2023-01-01"))
    + row(cell(None), more='table:number-rows-repeated="1048500"')
)


def test_cells_of_a_sheet_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ods", one=row(cell("x")), two=ROWS)
    table = declare(COLUMNS, source={"path": str(path), "sheet": "two", "header": 4})
    asked = {"q1": "*", "q2": "n", "q3": "d", "q4": "b", "q5": "k"}
    columns = {name: {"count": column} for name, column in asked.items()} | {"s": {"sum": "n"}}
    found = {name: int(one[0]) for name, one in exact(ask(table, columns), None).items()}
    assert found == {"q1": 7, "q2": 6, "q3": 2, "q4": 1, "q5": 7, "s": 5 + 21 + 1 + 9}
    by = ask(declare(COLUMNS, source={"path": str(path), "sheet": "two", "header": "d"}), {
        "n": {"count": "*"}
    }, ["k"])  # fmt: skip
    assert list(exact(by, None)["n"]) == [2, 4]


def test_open_document_from_sketch_to_release(tmp_path: Path) -> None:
    rows = "".join(
        row(cell(f"p{i}"), cell(1 + i % 2), cell(f"2024-01-{1 + i % 28:02}"), cell(i), FORMULA)
        for i in range(40)
    )
    head = row(cell("Survey")) + row() + row(*map(cell, ("id", "sex", "day", "age", "sum")))
    write(tmp_path / "p.ods", people=head + rows)
    words = ["init", str(tmp_path / "p.ods"), "--output", str(tmp_path / "p.yaml")]
    done = CliRunner().invoke(cli.app, [*words, "--release", str(tmp_path / "r.yaml")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "p.yaml").read_text()
    schema = yaml.safe_load(text)
    assert schema["source"] == {"path": "p.ods", "header": 3}
    types = {name: column["type"] for name, column in schema["columns"].items()}
    assert types == {"id": "text", "sex": "text", "day": "date", "age": "integer", "sum": "text"}
    assert "formulas count as missing: sum." in text
    release = (tmp_path / "r.yaml").read_text()
    (tmp_path / "r.yaml").write_text(release.replace("epsilon: 1}", "epsilon: 50}"))
    declaration = read_declaration(tmp_path / "r.yaml")
    assert int(exact(resolve(declaration)[0], None)["rows"][0]) == 40
    folder = run(declaration)
    assert pq.read_table(folder / "total.parquet")["rows"].to_pylist() == [40]
    assert dprelease.verify(folder).ok


DAMAGED = {
    "no package": b"PK\x03\x04 secret",
    "no content": None,
    "cut": "<office:document-content>secret",
    "entities": '<!DOCTYPE x [<!ENTITY a "secret">]><x>&a;</x>',
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_ods_files_are_refused_without_values(what: str, tmp_path: Path) -> None:
    path, content = tmp_path / "t.ods", DAMAGED[what]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as package:
            package.writestr("content.xml" if content else "other.xml", content or "<a/>")
    table = declare(COLUMNS, source=str(path))
    with pytest.raises(DpReleaseError) as caught:
        exact(ask(table, {"n": {"count": "*"}}), None)
    assert caught.value.code == "DP-DATA-024"
    assert "secret" not in str(caught.value)


def test_sheets_above_the_row_limit_are_refused(tmp_path: Path) -> None:
    """Otherwise, one more row would displace another person's row."""
    below = row(more='table:number-rows-repeated="3000000"') + row(cell("c"))
    for repeated, n in ((7, 8), (1 << 20, 0)):
        rows = row(cell("k")) + row(cell("c"), more=f'table:number-rows-repeated="{repeated}"')
        path = write(tmp_path / "t.ods", one=rows + below)
        table = declare({"k": COLUMNS["k"]}, source={"path": str(path), "sheet": "one"})
        if n:
            assert exact(ask(table, {"n": {"count": "*"}}, ["k"]), None)["n"][1] == n
            continue
        with pytest.raises(DpReleaseError) as caught:
            exact(ask(table, {"n": {"count": "*"}}), None)
        assert caught.value.code in ("DP-DATA-006", "DP-DATA-024")


def test_deeply_nested_text_does_not_stop_a_run(tmp_path: Path) -> None:
    deep = cell("c").replace("c<", "<text:span>" * 3000 + "c" + "</text:span>" * 3000 + "<", 1)
    path = write(tmp_path / "t.ods", one=row(cell("k")) + row(deep) + row(cell("a b")))
    table = declare({"k": COLUMNS["k"]}, source={"path": str(path), "sheet": "one"})
    assert list(exact(ask(table, {"n": {"count": "*"}}, ["k"]), None)["n"]) == [1, 1]


def test_sheet_truncated_below_its_header_is_refused(tmp_path: Path) -> None:
    """The error when rows are read quotes no row."""
    path = write(tmp_path / "t.ods", one=row(cell("k")) + row(cell("c")) * 9)
    with zipfile.ZipFile(path) as package:
        content = package.read("content.xml").decode()
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("content.xml", content[:-400].rstrip("<") + "</secret>")
    table = declare({"k": COLUMNS["k"]}, source={"path": str(path), "sheet": "one"})
    with pytest.raises(DpReleaseError) as caught:
        exact(ask(table, {"n": {"count": "*"}}), None)
    assert caught.value.code in ("DP-DATA-006", "DP-DATA-024")
    assert "secret" not in str(caught.value)
