"""`PublishedRelease` reads published tables, and refuses files that changed since."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.errors import DpReleaseError, OutputError, UsageError, VerificationError
from tests.release.build import RELEASE, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = write(tmp_path)
    path.write_text(RELEASE.replace("{sum: pay,", "{sum: pay, label: Pay,"))
    return dprelease.run(path).folder


def test_tables_in_every_library(folder: Path) -> None:
    published = dprelease.PublishedRelease(folder)
    assert published.tables == ("by_city", "all")
    table = pq.read_table(folder / "by_city.parquet")
    assert published.to_arrow("by_city").equals(table)
    pd.testing.assert_frame_equal(published.to_pandas("by_city"), table.to_pandas())
    assert published.to_polars("by_city").equals(pl.DataFrame(table))
    assert [column.name for column in published.columns("by_city")] == table.column_names
    (label,) = published.labels["by_city"]["pay"].values()
    assert label.startswith("Pay")
    assert repr(published).splitlines()[0] == "<PublishedRelease: release 'People by city'"
    assert "by_city  3" in repr(published)


def test_manifest_budget_and_quality(folder: Path) -> None:
    published = dprelease.PublishedRelease(str(folder))
    assert published.manifest.title == published.title == "People by city"
    assert published.spent is not None
    assert 0 < published.spent.epsilon <= 1
    quality = published.quality("by_city")
    assert list(quality["column"]) == ["people", "pay"]
    assert list(published.quality()["column"]) == ["people", "pay", "rows"]
    assert (quality["margin_95"] > 0).all()
    assert (quality["standard_deviation"] > 0).all()
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


def test_wrong_tables_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = dprelease.PublishedRelease(folder)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-020.*no table is named"):
        published.to_pandas()
    with pytest.raises(OutputError, match=r"(?s)DP-OUTPUT-020.*did you mean 'by_city'"):
        published.to_pandas("by_cty")
    with pytest.raises(OutputError, match="DP-OUTPUT-020"):
        published.to_arrow("../by_city")
    with pytest.raises(UsageError, match="DP-SESSION-016"):
        published.to_arrow(3)  # type: ignore[arg-type]
    for wrong in ("s3://bucket/out", "~/out", folder / "nothing"):
        with pytest.raises(DpReleaseError):
            dprelease.PublishedRelease(wrong)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(OutputError, match="DP-OUTPUT-021"):
        published.to_polars("all")


def test_rehearsals_and_single_tables(tmp_path: Path) -> None:
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


FAMILY = """\
title: People
tables: [people.yaml]
budget: {epsilon: 1}
queries:
  people:
    from: people
    marginals: [[], [city]]
    consistent: MODE
    columns: {n: {count: "*"}}
output: out
"""


def test_tables_of_a_family_by_name(tmp_path: Path) -> None:
    """The folder can be left out where the name alone is clear."""
    path = write(tmp_path)
    path.write_text(FAMILY.replace("MODE", "true"))
    published = dprelease.PublishedRelease(dprelease.run(path).folder)
    assert published.tables == ("estimates/people_total", "estimates/people_city")
    for name in ("estimates/people_city", "people_city"):
        assert list(published.quality(name)["query"]) == ["people_city"]
        assert len(published.to_pandas(name)) == 3
        assert dprelease.compare(
            published.path, published.path, table=name,
            old_cells={"city": "Bern"}, new_cells={"city": "Oslo"},
        ).attrs["dprelease"]["table"] == "estimates/people_city"  # fmt: skip
    path.write_text(FAMILY.replace("MODE", "{non_negative: true, publish: {records: true}}"))
    published = dprelease.PublishedRelease(dprelease.run(path, overwrite=True).folder)
    assert len(published.quality("tables/people_city")) == 1
    assert len(published.quality("records/people_invented")) == 2
    with pytest.raises(OutputError, match=r"but estimates/people_city and tables/people_city"):
        published.to_pandas("people_city")
