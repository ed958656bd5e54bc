"""`PublishedRelease` reads what a run has published, and nothing that was changed since."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, OutputError, VerificationError
from tests.release.build import RELEASE, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = write(tmp_path)
    path.write_text(RELEASE.replace("{sum: pay,", "{sum: pay, label: Pay,"))
    return dprelease.run(path).folder


def test_tables_are_read_in_every_form(folder: Path) -> None:
    published = dprelease.PublishedRelease(folder)
    assert published.tables == ("by_city", "all")
    table = pq.read_table(folder / "by_city.parquet")
    assert published.to_arrow("by_city").equals(table)
    pd.testing.assert_frame_equal(published.to_pandas("by_city"), table.to_pandas())
    assert published.to_polars("by_city").equals(pl.DataFrame(table))
    assert [column.name for column in published.columns("by_city")] == table.column_names
    (label,) = published.labels["by_city"]["pay"].values()
    assert label.startswith("Pay")
    assert repr(published) == "<PublishedRelease: release 'People by city' with 2 tables>"


def test_its_manifest_budget_and_quality(folder: Path) -> None:
    published = dprelease.PublishedRelease(str(folder))
    assert published.manifest.title == published.title == "People by city"
    assert published.spent is not None
    assert 0 < published.spent.epsilon <= 1
    quality = published.quality("by_city")
    assert list(quality["column"]) == ["people", "pay"]
    assert list(published.quality()["column"]) == ["people", "pay", "rows"]
    assert (quality["margin_95"].astype(float) > 0).all()
    assert published.verify().ok


def test_changed_files_are_not_read(folder: Path) -> None:
    published = dprelease.PublishedRelease(folder)
    (folder / "all.parquet").write_bytes((folder / "by_city.parquet").read_bytes())
    with pytest.raises(VerificationError, match="DP-VERIFY-004"):
        published.to_pandas("all")
    (folder / "all.parquet").unlink()
    with pytest.raises(VerificationError, match="DP-VERIFY-004"):
        published.to_arrow("all")
    assert not published.verify().ok
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(VerificationError, match="DP-VERIFY-002"):
        dprelease.PublishedRelease(folder)


def test_wrong_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = dprelease.PublishedRelease(folder)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-020.*no table is named"):
        published.to_pandas()
    with pytest.raises(OutputError, match=r"(?s)DP-OUTPUT-020.*did you mean 'by_city'"):
        published.to_pandas("by_cty")
    with pytest.raises(OutputError, match="DP-OUTPUT-020"):
        published.to_arrow("../by_city")
    with pytest.raises(OutputError, match="DP-OUTPUT-020"):
        published.to_arrow(3)  # type: ignore[arg-type]
    for wrong in ("s3://bucket/out", "~/out", folder / "nothing"):
        with pytest.raises(DpReleaseError):
            dprelease.PublishedRelease(wrong)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(OutputError, match="DP-OUTPUT-021"):
        published.to_polars("all")


def test_a_rehearsal_and_single_tables(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(RELEASE.partition("  all:")[0] + "output: out/people\n")
    rehearsed = dprelease.PublishedRelease(dprelease.rehearse(path).folder)
    assert rehearsed.is_rehearsal
    assert rehearsed.verify().ok
    published = dprelease.PublishedRelease(dprelease.run(path).folder)
    assert len(published.to_pandas()) == 3
    assert not published.is_rehearsal


def test_export_returns_its_files(folder: Path, tmp_path: Path) -> None:
    found = dprelease.export(folder, "csv", output=tmp_path / "copy")
    assert found.folder == tmp_path / "copy"
    assert {path.relative_to(found.folder).as_posix() for path in found.folder.rglob("*.csv")} <= {
        *found.files
    }
    with pytest.raises(DpReleaseError, match=r"DP-EXPORT-001.*did you mean 'csv'"):
        dprelease.export(folder, ["cvs"])
    with pytest.raises(OutputError, match="DP-OUTPUT-011"):
        dprelease.export(tmp_path / "nothing", "csv")
