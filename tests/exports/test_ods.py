"""OpenDocument spreadsheets: the same cells as in Excel's workbooks, read back by two readers."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from openpyxl import load_workbook

from dprelease.documents.metadata import Role
from dprelease.exact.reading.open_documents import TABLE, TEXT, OpenSheet, sheet_names
from dprelease.exports.workbooks import ods, workbook
from dprelease.exports.workbooks.excel import EXPORT as EXCEL
from dprelease.exports.workbooks.ods import EXPORT, column_letters
from tests.exports import full_release
from tests.exports.build import column, release_with_all_metadata
from tests.exports.test_excel import FORMULAS, release_of

STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
XLINK = "{http://www.w3.org/1999/xlink}"


def cells_of(file: Path) -> dict[str, dict[tuple[int, int], object]]:
    """Return the values of every sheet of a spreadsheet by row and column."""
    found = {}
    for name in sheet_names(file):
        sheet = OpenSheet(file, name)
        rows = dict(sheet.rows())
        found[name] = {(row, at): v for row, cells in rows.items() for at, v in cells.items()}
        assert not sheet.formulas
    return found


def cells_of_excel(file: Path) -> dict[str, dict[tuple[int, int], object]]:
    """Return the values of every sheet of Excel's workbook by row and column."""
    return {
        sheet.title: {
            (cell.row, cell.column): cell.value
            for row in sheet.iter_rows()
            for cell in row
            if cell.value is not None
        }
        for sheet in load_workbook(file)
    }


def check(file: Path) -> None:
    """Check the archive, and that every style, link and range exists."""
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist()[0] == "mimetype"
        first = archive.infolist()[0]
        assert (first.compress_type, first.extra) == (zipfile.ZIP_STORED, b"")
        assert archive.read("mimetype").decode() == ods.MIMETYPE
        parts = {name: archive.read(name) for name in archive.namelist()[1:]}
    trees = {name: ElementTree.fromstring(raw) for name, raw in parts.items()}
    listed = {entry.attrib[next(iter(entry.attrib))] for entry in trees["META-INF/manifest.xml"]}
    assert listed == {"/", *parts} - {"META-INF/manifest.xml"}
    content = trees["content.xml"]
    styles = {style.get(f"{STYLE}name") for style in content.iter(f"{STYLE}style")}
    sheets = {table.get(f"{TABLE}name") for table in content.iter(f"{TABLE}table")}
    for element in content.iter():
        assert element.get(f"{TABLE}style-name") in {*styles, None}
        assert element.get(f"{TABLE}formula") is None
        if (link := element.get(f"{XLINK}href")) is not None:
            assert re.fullmatch(r"#'(.*)'\.A\d+", link)[1] in sheets  # type: ignore[index]
        if (area := element.get(f"{TABLE}target-range-address")) is not None:
            assert re.match(r"'(.*?)'\.A\d+:", area)[1] in sheets  # type: ignore[index]


@pytest.mark.parametrize("release", ["two languages, consistent tables", "malice", "wide"])
def test_ods_cells_equal_those_of_excel(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are numbers with all digits, and texts are texts, in the same cells."""
    monkeypatch.setattr(type(EXPORT), "ending", "xlsx")  # names of files are in texts
    if release == "two languages, consistent tables":
        published = full_release.publish_release(tmp_path)
    else:
        published = release_with_all_metadata(tmp_path, ("sex",) if release == "wide" else ())
    names, others = (one.write(published, tmp_path / "x") for one in (EXPORT, EXCEL))
    assert [one.replace("ods", "excel") for one in names] == others
    for name, other in zip(names, others, strict=True):
        file = tmp_path / "x" / name
        check(file)
        found, wanted = cells_of(file), cells_of_excel(tmp_path / "x" / other)
        assert list(found) == list(wanted)
        for sheet, cells in found.items():
            assert cells == wanted[sheet], sheet
            for kind in (str, bool):
                assert {at for at in cells if isinstance(cells[at], kind)} == {
                    at for at in cells if isinstance(wanted[sheet][at], kind)
                }
    assert any(isinstance(value, float) for cells in found.values() for value in cells.values())


def test_ods_keeps_texts_and_digits(tmp_path: Path) -> None:
    """Only characters that XML can't contain, and line ends, change."""
    texts = [
        *(text for text in FORMULAS if len(text) < 100),
        "two  spaces ",
        " \t a\nb\n",
        "\N{ZERO WIDTH SPACE}x",
    ]
    numbers = ["0.1", "-1e-7", "123456789012345", "1e300", "5e-324", "0.30000000000000004"]
    table = pa.table({"t": texts, "n": (numbers * len(texts))[: len(texts)]})
    table = table.set_column(1, "n", table["n"].cast(pa.float64()))
    told = [column("t", pa.string(), Role.VALUE), column("n", pa.float64())]
    (name,) = EXPORT.write(release_of(tmp_path, table, told), tmp_path)
    check(tmp_path / name)
    cells = cells_of(tmp_path / name)["Table 1"]
    at = next(key for key, value in cells.items() if value == "t")
    number = next(key for key, value in cells.items() if value == "n")
    for i, (text, value) in enumerate(zip(texts, table["n"].to_pylist(), strict=True), 1):
        plain = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", text)
        assert cells[at[0] + i, at[1]] == plain.replace("\r", "\n"), repr(text)
        assert cells[number[0] + i, number[1]] == value


def test_ods_repeats_heads_and_declares_widths(tmp_path: Path) -> None:
    """Heads are repeated on pages; columns are as wide as in Excel; styles have number formats."""
    names = EXPORT.write(release_with_all_metadata(tmp_path), tmp_path)
    with zipfile.ZipFile(tmp_path / names[0]) as archive:
        content = ElementTree.fromstring(archive.read("content.xml"))
        settings = archive.read("settings.xml").decode()
    table = next(t for t in content.iter(f"{TABLE}table") if t.get(f"{TABLE}name") == "Table 1")
    (heads,) = table.findall(f"{TABLE}table-header-rows")
    texts = [cell.findtext(f"{TEXT}p") for cell in heads[0]]
    assert len(texts) == len(table.findall(f"{TABLE}table-column")) == 9
    assert 'config:name="Table 1"' in settings
    formats = {
        dict(one.attrib).get("{urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0}decimal-places")
        for one in content.iter("{urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0}number")
    }
    assert formats == {"1", "2"}
    assert [column_letters(one) for one in (1, 26, 27, 702, 703)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_rows_of_long_ods_sheets_are_stored_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are the same whether rows are in memory or not, and no file is left."""
    release = release_with_all_metadata(tmp_path)
    (tmp_path / "a").mkdir()
    names = EXPORT.write(release, tmp_path / "a")
    monkeypatch.setattr(ods, "MEMORY", 1)
    monkeypatch.setattr(workbook, "IN_MEMORY", 0)
    assert EXPORT.write(release, tmp_path / "b") == names
    for name in names:
        one, other = tmp_path / "a" / name, tmp_path / "b" / name
        assert one.read_bytes() == other.read_bytes()
        assert EXPORT.has_same_content(one, other)
    left = [path.name for path in (tmp_path / "b").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(Path(name).name for name in names)
    assert not EXPORT.has_same_content(tmp_path / "a" / names[0], tmp_path / "a" / names[1])
    (tmp_path / "no.ods").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="no archive"):
        EXPORT.has_same_content(tmp_path / "no.ods", other)
