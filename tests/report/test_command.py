"""The report as a command, as a function, and as a file of a release."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import Findings, OutputError
from dprelease.exports.export import Export
from dprelease.exports.html_report import EXPORT
from dprelease.report.page import page_of
from dprelease.report.words import en
from tests.report.reading import HTML, parse_page, text_of
from tests.report.releases import read_release, write

FolderOf = Callable[[str], Path]


@pytest.fixture
def folder(folder_of: FolderOf, tmp_path: Path) -> Path:
    """Return the folder of a release of its own, whose source is not there any more."""
    return Path(shutil.copytree(folder_of("paid"), tmp_path / "it"))


def run_report(*words: object) -> Any:
    return CliRunner().invoke(cli.app, ["report", *map(str, words)])


def test_report_is_written_next_to_the_release(folder: Path, folder_of: FolderOf) -> None:
    done = run_report(folder)
    assert done.exit_code == 0, done.output
    path = folder.parent / "it_report.html"
    assert path.name in done.output
    told = text_of(next(parse_page(path.read_bytes()).iter(f"{HTML}main")))
    assert "the manifest is the canonical encoding with its own digest" in told
    assert "of the budget for one year" in told
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in folder_of("paid").iterdir()
    )
    again = run_report(folder)
    assert again.exit_code == 2
    assert "DP-OUTPUT-014" in again.output
    assert "--overwrite" in again.output
    before = path.read_bytes()
    path.write_bytes(b"old")
    assert run_report(folder, "--overwrite").exit_code == 0
    assert path.read_bytes() == before
    other = folder.parent / "other.html"
    assert dprelease.write_report(folder, other) == other
    assert other.read_bytes() == before


def test_report_checks_the_ledger(folder: Path, folder_of: FolderOf) -> None:
    ledger = folder_of("paid").parents[1] / "ledger.sqlite"
    done = run_report(folder, "--ledger", ledger)
    assert done.exit_code == 0, done.output
    assert "ledger.sqlite" in (folder.parent / "it_report.html").read_text(encoding="utf-8")


def test_changed_release_gets_no_report(folder: Path) -> None:
    table = next(folder.glob("*.parquet"))
    table.write_bytes(table.read_bytes() + b"0")
    done = run_report(folder)
    assert done.exit_code == 4
    assert "DP-VERIFY-004" in done.output
    with pytest.raises(Findings, match="DP-VERIFY-004"):
        dprelease.write_report(folder)
    assert not (folder.parent / "it_report.html").exists()


def test_impossible_reports_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: dict[str, tuple[Path, dict[str, Any]]] = {
        "DP-OUTPUT-011": (tmp_path / "none", {}),
        "DP-OUTPUT-002": (folder, {"output": tmp_path / "none" / "r.html"}),
        "DP-REPORT-003": (folder, {"language": "fr"}),
        "DP-REPORT-004": (folder, {"output": folder / "r.html"}),
    }
    for code, (place, named) in cases.items():
        with pytest.raises(OutputError, match=code):
            dprelease.write_report(place, **named)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        "dprelease.verification.after_publication.report_writing.find_spec", lambda name: None
    )
    with pytest.raises(OutputError, match="DP-REPORT-001"):
        dprelease.write_report(folder)


def test_report_has_declared_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "replaced")
    release = yaml.safe_load(path.read_text())
    release["about"] = {
        "languages": ["en", "fr"],
        "title": {"en": "Cities", "fr": "Villes"},
        "publisher": "The <office>",
    }
    release["queries"]["all"]["label"] = {"en": "All of them", "fr": "Tous"}
    path.write_text(yaml.safe_dump(release, allow_unicode=True))
    made = dprelease.read_release(path).run()
    for language, title, label in (("en", "Cities", "All of them"), ("fr", "Villes", "Tous")):
        target = dprelease.write_report(made, tmp_path / f"{language}.html", language=language)
        root = parse_page(target.read_bytes())
        heading = next(root.iter(f"{HTML}h1"))
        assert text_of(heading) == title
        assert heading[0].attrib["lang"] == language
        assert label in text_of(root)
        assert "The <office>" in text_of(root)


def test_report_as_a_format_of_a_release(folder: Path, tmp_path: Path) -> None:
    """It is the page without checks, which would have to tell of itself."""
    export: Export = EXPORT
    release = read_release(folder)
    target = tmp_path / "made"
    target.mkdir()
    assert not list(export.problems(release.metadata))
    assert export.write(release, target) == ["report.html"]
    assert [path.name for path in target.iterdir()] == ["report.html"]
    assert (target / "report.html").read_bytes() == page_of(release)
    record = release.record.model_copy(update={"digest": ""})
    parse_page(page_of(type(release)(folder, record, release.metadata)))


def test_report_of_a_rehearsal_shows_true_errors(tmp_path: Path) -> None:
    """Its page compares what was published with what is true of invented people."""
    path = write(tmp_path, "several")
    path.write_text(path.read_text().replace(", delta: 1e-8", ""))  # planned much faster
    (tmp_path / "people.csv").unlink()
    words = ["rehearse", str(path), "--output", str(tmp_path / "rehearsed"), "--rows", "500"]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    target = dprelease.write_report(tmp_path / "rehearsed")
    root = parse_page(target.read_bytes())
    told = text_of(root)
    assert "This is a rehearsal." in told
    title = en.SENTENCES["quality.simulated"]
    table = next(one for one in root.iter(f"{HTML}table") if text_of(one[0]) == title)
    rows = [[text_of(cell) for cell in row] for row in table.iter(f"{HTML}tr")]
    words = {(row[0], row[1].partition(",")[0]): row for row in rows if row[0] == "by_city"}
    counts = words["by_city", "ids"]  # of people, numbers with wide margins are empty
    assert float(counts[3]) < 20 * float(counts[2])
    assert counts[4].endswith("%")
    ranks = words["by_city", "usual"]
    assert ranks[2] == "\u2013"  # an error in rows is none in years
