"""Hostile metadata of tables is valid, escaped and complete in every format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from csvw import CSVW
from frictionless import Package
from jsonstat_validator import validate_jsonstat
from openpyxl import load_workbook

from dprelease.exports.csv_tables.csv_files import EXPORT as CSV
from dprelease.exports.data_package import EXPORT as PACKAGE
from dprelease.exports.json_stat import EXPORT as JSON_STAT
from dprelease.exports.workbooks.excel import EXPORT as EXCEL
from dprelease.query.quality import AT_BOUND, FEW_PEOPLE, SIGNS
from tests.exports.build import HOSTILE, OTHER, release_with_all_metadata

LAYOUTS = [(), ("sex",), ("age_group",)]


@pytest.mark.filterwarnings("ignore:Unspecified column")  # it knows no escaped names: `pay.%3DM`
@pytest.mark.parametrize("wide", LAYOUTS)
def test_csv_with_hostile_metadata_is_valid(wide: tuple[str, ...], tmp_path: Path) -> None:
    release = release_with_all_metadata(tmp_path, wide)
    files = CSV.write(release, tmp_path)
    read = CSVW(str(tmp_path / "csv/tables/pay.csv"), validate=True)
    assert read.is_valid
    assert read.t.check_referential_integrity()
    assert len(list(read.t.tables[0])) == (2 if wide else 4)
    PACKAGE.write(replace(release, written={"csv": files}), tmp_path)
    package = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert list(Package.metadata_validate(package)) == []
    report = Package.from_descriptor(package, basepath=str(tmp_path)).validate()
    assert report.valid, report.flatten(["title", "note"])
    assert {one["path"] for one in package["resources"]} == {
        name for name in files if name.endswith(".csv")
    }


def test_json_stat_with_hostile_metadata_is_valid(tmp_path: Path) -> None:
    JSON_STAT.write(release_with_all_metadata(tmp_path), tmp_path)
    data = json.loads((tmp_path / "json-stat/tables/pay.json").read_text(encoding="utf-8"))
    validate_jsonstat(data)
    assert data["label"] == HOSTILE
    assert data["dimension"]["sex"]["category"]["label"]["F"] == HOSTILE
    assert data["value"] == [1, 0.5, None, 1.5, -3, 2.5, 4, None]
    assert data["status"] == {
        "0": "D", "2": "few_people", "4": "A", "6": "at_bound", "7": "O"
    }  # fmt: skip


@pytest.mark.parametrize("wide", LAYOUTS)
def test_excel_with_hostile_metadata_has_no_formulas(wide: tuple[str, ...], tmp_path: Path) -> None:
    """No cell is a formula, and no link leads out of the workbook."""
    names = EXCEL.write(release_with_all_metadata(tmp_path, wide), tmp_path)
    assert names == ["excel/release_en.xlsx", "excel/release_fr.xlsx"]
    assert sorted(p.name for p in (tmp_path / "excel").iterdir()) == [
        Path(name).name for name in names
    ]
    shown = []
    for name in names:
        book = load_workbook(tmp_path / name)
        cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
        assert {cell.data_type for cell in cells} <= {"s", "n", "b"}
        assert not [cell for cell in cells if cell.hyperlink and not cell.hyperlink.location]
        shown.append({cell.value for cell in cells if cell.data_type == "s"})
    assert {HOSTILE, f"Table 1: {HOSTILE}", "Published by: Office & Söhne"} <= shown[0]
    french = {OTHER, f"Tableau 1: {OTHER}", "Publié par : Office & Söhne", "Seul", "Note"}
    assert french <= shown[1]
    for texts in shown:
        assert {"@SUM(A1)", "\t-1", "+1"} <= texts
        assert {"D", SIGNS[AT_BOUND], SIGNS[FEW_PEOPLE]} <= texts
