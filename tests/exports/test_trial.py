"""A format that fails in a trial costs nothing, and never leaves a partial release."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.documents.release_manifest import GuaranteedManifest
from dprelease.errors import DpReleaseError, OutputError, State
from dprelease.exports.trial import MOST_ROWS, blank_release, max_bytes
from dprelease.ledger.ledger import Ledger
from dprelease.release.accounts import account_of
from dprelease.release.kinds import Exports, plan_release
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.schema.release_parts import extension_names
from dprelease.verification.after_publication.export_copy import export
from tests.exports import build, full_release
from tests.release import area_family
from tests.replay import Keyed

OWN = """
class Own:
    name = "own"
    extra = None
    fail = staticmethod(lambda at_trial: None)

    def problems(self, metadata):
        return iter(())

    def write(self, release, folder):
        at_trial = all(set(file["sha256"]) == {"0"} for file in release.record.to_json()["files"])
        (folder / "own").mkdir()
        (folder / "own/all.txt").write_text("begun")
        self.fail(at_trial)
        return ["own/all.txt"]


EXPORT = Own()
"""

SECRET = "4711 people of Bern"

FAILURES: dict[str, Callable[[], BaseException]] = {
    "a bug": lambda: ZeroDivisionError(SECRET),
    "a label that a package refuses": lambda: ValueError(SECRET),
    "a package's own limit": lambda: pa.ArrowInvalid(SECRET),
    "a file that a package lacks": lambda: FileNotFoundError(errno.ENOENT, SECRET, "font.ttf"),
    "memory": lambda: MemoryError(SECRET),
    "an interrupt": lambda: KeyboardInterrupt(),
    "a full disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
}

UNREAD, LOST = State.NOTHING, State.CHARGED


@pytest.fixture
def own_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A custom format, which fails as a test declares."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/own_export.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setitem(extension_names.FORMATS, "own", "own_export")
    from dprelease.exports.writer import export_format

    yield type(export_format("own"))
    sys.modules.pop("own_export")


def write_declaration(
    folder: Path, more: str = "formats: [csv, own]\n", ledger: bool = False
) -> Path:
    path = build.write(folder, more + ("ledger: ledger.sqlite\n" if ledger else ""))
    if ledger:
        account = account_of("office/people", "person", "add_remove", "100", "1e-5", None)
        Ledger(folder / "ledger.sqlite").open_account(account)
        schema = (folder / "people.yaml").read_text()
        (folder / "people.yaml").write_text(schema + "owner: office\n")
    return path


def spent_epsilon(folder: Path) -> float:
    return float(Ledger(folder / "ledger.sqlite").state().spent("office/people"))


def files(folder: Path) -> set[str]:
    """Return all entries of a folder except lock files."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {name for name in names if not name.endswith(("-lock", ".lock"))}


@pytest.mark.share(0.5)
@pytest.mark.parametrize("ledger", [True, False], ids=["charged", "free"])
@pytest.mark.parametrize("at_trial", [True, False], ids=["at trial", "of noised tables"])
@pytest.mark.parametrize("what", FAILURES)
def test_failed_formats_leave_nothing_readable(
    what: str, at_trial: bool, ledger: bool, own_format: Any, tmp_path: Path
) -> None:
    """In the trial they cost nothing, and no source is opened; later the charge remains."""
    folder = tmp_path / "here"
    path = write_declaration(folder, ledger=ledger)
    if at_trial:
        (folder / "people.csv").unlink()
    there = files(folder)

    def fail(now: bool) -> None:
        if now == at_trial:
            raise FAILURES[what]()

    own_format.fail = staticmethod(fail)
    with pytest.raises((DpReleaseError, KeyboardInterrupt)) as caught:
        run(read_declaration(path), bits=Keyed("trial"))
    problem = caught.value
    state = UNREAD if at_trial else (LOST if ledger else State.READ)
    if isinstance(problem, KeyboardInterrupt):
        assert what == "an interrupt"
        assert any(state.value in note for note in problem.__notes__)
    else:
        assert isinstance(problem, DpReleaseError)
        wanted = "DP-EXPORT-008" if at_trial else "DP-EXPORT-009"
        assert problem.code == ("DP-OUTPUT-002" if what == "a full disk" else wanted)
        assert problem.state is state
        assert (what == "a full disk") or "own" in problem.cause
    if at_trial and getattr(problem, "code", "") == "DP-EXPORT-008":
        assert SECRET in str(problem)
        assert problem.place.key == "formats"
        assert problem.place.line
    if not at_trial:
        assert SECRET not in str(problem)
    if getattr(problem, "code", "") == "DP-EXPORT-009":
        assert (problem.__cause__, problem.__context__) == (None, None)
    assert files(folder) == there
    if ledger:
        assert (spent_epsilon(folder) > 0) == (not at_trial)
    if what == "memory" and ledger and not at_trial:  # what is lost does not stand in the way
        own_format.fail = staticmethod(lambda _now: None)
        run(read_declaration(path), bits=Keyed("trial"))


def test_check_tests_formats_and_plan_does_not(own_format: Any, tmp_path: Path) -> None:
    """Both open no data."""
    path = write_declaration(tmp_path)
    (tmp_path / "people.csv").unlink()

    def fail(_now: bool) -> None:
        raise ValueError("'x' is no label.")

    own_format.fail = staticmethod(fail)
    there = files(tmp_path)
    done = CliRunner().invoke(app, ["check", str(path), "--json"])
    (finding,) = json.loads(done.output)["findings"]
    assert (done.exit_code, finding["code"], finding["key"]) == (2, "DP-EXPORT-008", "formats")
    assert "'x' is no label." in finding["cause"]
    assert CliRunner().invoke(app, ["plan", str(path)]).exit_code == 0
    assert files(tmp_path) == there


def test_format_that_lists_an_unwritten_file_is_refused(own_format: Any, tmp_path: Path) -> None:
    own_format.write = lambda *_args: ["own/none.txt"]
    with pytest.raises(DpReleaseError, match=r"DP-EXPORT-008.*FileNotFoundError.*own/none\.txt"):
        run(read_declaration(write_declaration(tmp_path)), bits=Keyed("trial"))


def test_failed_export_of_a_published_release(own_format: Any, tmp_path: Path) -> None:
    """It costs nothing, and leaves nothing."""
    folder = run(read_declaration(write_declaration(tmp_path, "")), bits=Keyed("trial"))
    own_format.fail = staticmethod(lambda _now: 1 / 0)
    there = files(tmp_path)
    with pytest.raises(OutputError, match=r"DP-EXPORT-009[^$]*no row was read, no budget"):
        export(folder, ["own"])
    assert files(tmp_path) == there


WITH_REPORT = (
    "formats: [csv, excel, ods, sdmx-csv, json-stat, px, dp-event, mbi, report, registry, "
    "datapackage, dcat]\n"
)
ALL = WITH_REPORT.replace("report, ", "")
FEW = ALL.replace("excel, ods, ", "")
WORDS = build.RELEASE.replace("output: out\n", build.WORDS_TOO)
MANY = build.SCHEMA.replace("upper: 5}", "upper: 4999}")
CONSISTENT = "{non_negative: true, publish: {records: true}}"


def _areas(folder: Path) -> Path:
    path = area_family.write_family(folder, consistent=CONSISTENT)
    path.write_text(path.read_text() + ALL)
    return path


def _many(folder: Path) -> Path:
    """Return a release with one table of 40,000 cells."""
    path = build.write(folder, FEW)
    (folder / "people.yaml").write_text(MANY)
    return path


RELEASES: dict[str, Callable[[Path], Path]] = {
    "all kinds of columns": lambda folder: build.write(folder, WITH_REPORT),
    "wide": lambda folder: build.write(folder, ALL + "wide: [sex]\n"),
    "keys that are not public": lambda folder: build.write(folder, FEW, WORDS),
    "labels, dates, a family": lambda folder: full_release.write_release(
        folder, full_release.RELEASE + ALL
    ),
    "areas and persons": _areas,
    "many cells": _many,
}


def plan_exports(folder: Path, release: str) -> tuple[Declaration, Exports, GuaranteedManifest]:
    declaration = read_declaration(RELEASES[release](folder))
    release = plan_release(declaration)
    exports = release.exports()
    assert exports is not None
    return declaration, exports, release.draft().as_read()


@pytest.mark.share(0.3)
@pytest.mark.parametrize("release", RELEASES)
def test_blank_tables_have_the_schema_of_published_ones(release: str, tmp_path: Path) -> None:
    """Columns, types, keys, possible missing values, and bounded sizes."""
    declaration, exports, draft = plan_exports(tmp_path, release)
    (tmp_path / "blank").mkdir()
    blank = blank_release(draft, exports.metadata, tmp_path / "blank")
    folder = run(declaration, bits=Keyed("blank"))
    for table, tried in zip(exports.metadata.tables, blank.metadata.tables, strict=True):
        real, made_up = (pq.read_table(place / table.file) for place in (folder, blank.folder))
        assert made_up.schema.remove_metadata().equals(_without_notes(real.schema)), table.name
        assert made_up.num_rows <= MOST_ROWS
        keys = [key.name for key in table.keys if key.codes is not None]
        if keys == [key.name for key in table.keys] and table.rows and keys:
            asked_for = real.select(keys).to_pylist()
            held = made_up.select(keys).to_pylist()
            assert held == (
                asked_for if table.rows <= MOST_ROWS else sorted(held, key=asked_for.index)
            )
            assert (held[0], held[-1]) == (asked_for[0], asked_for[-1])
            assert tried.rows == len(held)
        for name in real.column_names:
            if real[name].null_count:
                assert made_up[name].null_count, (table.name, name)
    record = json.loads((folder / "manifest.json").read_text())
    for part in record["exports"]:
        written = sum((folder / file["name"]).stat().st_size for file in part["files"])
        open_rows = any(table.rows is None for table in exports.metadata.tables)
        assert open_rows or written <= max_bytes([part["format"]], exports.metadata), part


def _without_notes(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_metadata(None) for field in schema])


def test_disk_too_small_for_formats_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is charged, although the tables alone would fit."""
    path = build.write(tmp_path, ALL)
    monkeypatch.setattr("dprelease.release.disk.free_bytes", lambda _folder: 3_000_000)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-015[^$]*no row was read, no budget"):
        run(read_declaration(path))
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    path.write_text(path.read_text().replace(ALL, "formats: csv\n"))
    assert run(read_declaration(path), bits=Keyed("room")).is_dir()


def test_trial_files_that_can_not_be_removed_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is charged, and the next run leaves nothing."""
    path, true, refused = (
        write_declaration(tmp_path, "formats: csv\n", ledger=True),
        shutil.rmtree,
        [],
    )

    def refusing(folder: Any, *given: Any, **more: Any) -> None:
        if ".dprelease-trial-" in str(folder) and not refused:
            refused.append(folder)
            return  # as `ignore_errors` does
        true(folder, *given, **more)

    monkeypatch.setattr(shutil, "rmtree", refusing)
    with pytest.raises(OutputError, match=r"DP-OUTPUT-002.*can't be removed") as caught:
        run(read_declaration(path))
    assert caught.value.state is State.NOTHING
    assert (len(refused), spent_epsilon(tmp_path)) == (1, 0)
    assert not [name for name in files(tmp_path) if "staging" in name or "trial" in name]
    assert sorted(
        entry.name for entry in run(read_declaration(path)).iterdir() if entry.is_dir()
    ) == ["csv"]
