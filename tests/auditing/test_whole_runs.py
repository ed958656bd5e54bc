"""Runs on synthetic people: twins agree, canaries do not leak, and planted faults are found."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dprelease.auditing import stage as stage_module
from dprelease.auditing.neighbours.counting_rows import QueryGroup
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.worst_units import random_situations
from dprelease.auditing.replayed_words import ReplayedBits
from dprelease.auditing.sensitivities import query_groups
from dprelease.auditing.single_records import compare_record_pairs
from dprelease.auditing.stage import AuditedRelease
from dprelease.auditing.whole_runs import canaries as canaries_module
from dprelease.auditing.whole_runs.canaries import run_canaries
from dprelease.auditing.whole_runs.replayed_run import RunOutput as Outcome
from dprelease.auditing.whole_runs.replayed_run import folder_for_runs, run_release
from dprelease.auditing.whole_runs.twin_runs import run_twins
from dprelease.documents.audit_record import AuditFinding
from dprelease.errors import DataError, OutputError
from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import find_input
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration
from tests.auditing.build import FEDERATED, IDS, read_local_release, read_release

ASKED = {
    "q": {
        "from": "people", "group_by": ["sex"], "where": "place <> 'nowhere'",
        "columns": {"n": {"count": "*"}, "pay": {"sum": "pay"}},
    }
}  # fmt: skip
LESS = {"mechanism": "discrete_laplace", "formats": ["csv"]}


@pytest.fixture
def audited_release(tmp_path: Path) -> tuple[AuditedRelease, list[QueryGroup]]:
    stage = AuditedRelease.of(read_release(tmp_path / "declared", ASKED, IDS, **LESS))
    return stage, query_groups(stage, stage.queries, ReplayedBits("tests"))


def twin_findings(
    audited: tuple[AuditedRelease, list[QueryGroup]], folder: Path
) -> list[AuditFinding]:
    stage, groups = audited
    worst = [(groups[0], one) for one in random_situations(groups[0], stage.queries, 2)]
    told, findings, left_out = run_twins(stage, groups, worst, folder, float("inf"))
    assert left_out == []
    assert told.silent >= 2
    assert told.holds is not bool(findings)
    return findings


def test_twins_give_the_same_release(
    audited_release: tuple[AuditedRelease, list[QueryGroup]], tmp_path: Path
) -> None:
    assert twin_findings(audited_release, tmp_path / "runs") == []


def test_canaries_do_not_leak(
    audited_release: tuple[AuditedRelease, list[QueryGroup]], tmp_path: Path
) -> None:
    """In all formats, and in runs that fail by what is wrong with their rows."""
    runs: list[Outcome] = []

    def watched(*asked: Any, **more: Any) -> Outcome:
        runs.append(run_release(*asked, **more))
        return runs[-1]

    with mock.patch.object(canaries_module, "run_release", watched):
        told, findings, left_out = run_canaries(*audited_release, tmp_path / "runs")
    assert (findings, left_out) == ([], [])
    assert told.holds
    assert told.columns == 10  # of the table that is asked, all but truth values and computed ones
    codes = [run.failure.code for run in runs if run.failure is not None]
    assert told.failures == len(codes)
    assert {code.rpartition("-")[0] for code in codes} == {"DP-DATA"}
    assert "DP-DATA-001" in codes  # of a file that is no Parquet file any more
    published = {path.name for path in runs[0].folder.iterdir()}
    assert published >= {"q.parquet", "csv", "json-stat", "sdmx-csv", "report.html"}
    assert told.searched == sum(
        1 for path in (tmp_path / "runs" / "left").rglob("*") if path.is_file()
    )


def test_selected_keys_are_no_leak(tmp_path: Path) -> None:
    """A correct release with private keys may publish the selected keys."""
    query = {**ASKED["q"], "group_by": ["place"], "private_keys": True}
    more = {**LESS, "budget": {"epsilon": 60, "delta": "0.01"}}
    stage = AuditedRelease.of(read_release(tmp_path / "declared", {"q": query}, IDS, **more))
    groups = query_groups(stage, stage.queries, ReplayedBits("tests"))
    told, findings, _ = run_canaries(stage, groups, tmp_path / "runs")
    assert (told.holds, findings) == (True, [])
    release = tmp_path / "runs" / "left" / "published" / "run" / "release"
    assert b"Kanarie" in (release / "csv" / "q.csv").read_bytes()
    with leaking(_steps):
        told, findings, _ = run_canaries(stage, groups, tmp_path / "again")
    assert {found.seen for found in findings} == {"it stands in what the run says"}


def test_private_keys_under_rho_are_charged_to_a_ledger(tmp_path: Path) -> None:
    """The run with canaries is charged to a ledger, which needs a delta for private keys."""
    query = {"from": "people", "group_by": ["place"], "private_keys": True,
             "columns": {"n": {"count_distinct": "id"}}}  # fmt: skip
    more = {"mechanism": "discrete_gaussian", "budget": {"rho": 2, "delta": "0.01"}}
    stage = AuditedRelease.of(read_release(tmp_path / "declared", {"q": query}, IDS, **more))
    assert stage.plan.guarantee.rho_delta > 0
    groups = query_groups(stage, stage.queries, ReplayedBits("tests"))
    told, findings, left_out = run_canaries(stage, groups, tmp_path / "runs")
    assert (told.holds, findings, left_out) == (True, [], [])


@pytest.mark.parametrize("check", ["twins", "canaries"])
def test_runs_failing_on_the_disk_decide_nothing(
    check: str, audited_release: tuple[AuditedRelease, list[QueryGroup]], tmp_path: Path
) -> None:
    """No release is said to hold, or not to, by runs for which there was no room."""

    def full(*_: Any, output: Path, **__: Any) -> Path:
        raise OutputError("DP-OUTPUT-002", name=output.name, reason="No space left on device")

    def checked() -> object:
        if check == "twins":
            return twin_findings(audited_release, tmp_path / "runs")
        return run_canaries(*audited_release, tmp_path / "runs")

    with mock.patch.object(stage_module, "run", full), pytest.raises(OutputError) as caught:
        checked()
    assert caught.value.code == "DP-AUDIT-008"
    assert "No space left" in caught.value.cause


@pytest.mark.share(0.4)
@pytest.mark.parametrize("kind", ["records", "party"])
def test_local_and_federated_releases_are_run(kind: str, tmp_path: Path) -> None:
    """Whole runs publish, also of rows in another order, and planted values stay in."""
    if kind == "records":
        stage = AuditedRelease.of(read_local_release(tmp_path / "declared"))
        groups = [
            compare_record_pairs(stage, part, ReplayedBits("tests")).group for part in stage.records
        ]
    else:
        asked = {"q": {**ASKED["q"], "columns": {"n": {"count": "*"}}}}
        stage = AuditedRelease.of(read_release(tmp_path / "declared", asked, IDS, **FEDERATED))
        groups = query_groups(stage, stage.queries, ReplayedBits("tests"))
    one, other = groups[0].invent_units(2)
    worst = [(groups[0], Situation("another unit", one, other))]
    told, findings, left_out = run_twins(stage, groups, worst, tmp_path / "runs", float("inf"))
    assert (told.holds, findings, left_out) == (True, [], [])
    found, leaks, _ = run_canaries(stage, groups, tmp_path / "planted")
    assert (found.holds, leaks) == (True, [])
    assert (tmp_path / "planted" / "left" / "published" / "run" / "release").is_dir()


def test_unusable_temporary_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError) as caught, folder_for_runs():
        (tmp_path / "file").mkdir()
    assert caught.value.code == "DP-AUDIT-008"


@dataclass(frozen=True)
class RunOutput:
    """What a planted fault can reach after a run: its folder and the rows that it read."""

    folder: Path
    places: list[str]
    rows: int
    bits: ReplayedBits
    progress: Callable[[str], None]


def leaking(leak: Callable[[RunOutput], object]) -> Any:
    """Return a planted fault: a run that uses rows afterwards."""

    def faulty(
        declaration: Declaration,
        *,
        bits: ReplayedBits,
        progress: Callable[[str], None],
        frames: Mapping[str, Any],
        **more: Any,
    ) -> Path:
        folder = run(declaration, bits=bits, progress=progress, frames=frames, **more)
        if "people" in frames:
            places = [str(value) for value in frames["people"]["place"].to_pylist() if value]
            rows = frames["people"].num_rows
            leak(RunOutput(folder, places, rows, bits, progress))
        return folder

    return mock.patch.object(stage_module, "run", faulty)


def _named_files(ran: RunOutput) -> None:
    for place in {*ran.places}:
        (ran.folder / f"{place}.txt").touch()


def _steps(ran: RunOutput) -> None:
    for place in ran.places:
        ran.progress(place)


def _log(ran: RunOutput) -> None:
    (ran.folder / "log").write_text(" ".join(ran.places))


def _bits(ran: RunOutput) -> None:
    ran.bits.words(ran.rows)


def _file_of_rows(ran: RunOutput) -> None:
    (ran.folder / "rows.txt").write_text(str(ran.rows))


LEAKS: dict[str, Callable[[RunOutput], object]] = {
    "a message with the number of rows": lambda ran: ran.progress(f"{ran.rows} rows"),
    "a bit for each row": _bits,
    "a file with the number of rows": _file_of_rows,
    "a file for each row": lambda ran: (ran.folder / f"part-{ran.rows}").touch(),
    "a folder for each row": lambda ran: (ran.folder / f"part-{ran.rows}").mkdir(),
    "a file beside the release": lambda ran: (ran.folder.parent / f"{ran.rows}").touch(),
    "a line on the standard output": lambda ran: print(ran.rows),
    "a temporary folder that stays": lambda _ran: tempfile.mkdtemp(),
}


@pytest.mark.share(0.18)
@pytest.mark.parametrize("leak", LEAKS)
def test_twins_find_planted_faults(
    leak: str, audited_release: tuple[AuditedRelease, list[QueryGroup]], tmp_path: Path
) -> None:
    with leaking(LEAKS[leak]):
        assert twin_findings(audited_release, tmp_path / "runs")


def _error_with_a_value() -> Any:
    """Return a planted fault: an error about a frame quotes its first text."""

    def quoting(declared: Any, relation: str, frame: Any = None, *more: Any) -> Any:
        known = ["id", "place"] if frame is None else frame.column_names
        if declared.table.name == "people" and not {"id", "place"} <= {*known}:
            texts = [str(value) for name in frame.column_names for value in frame[name].to_pylist()]
            raise DataError("DP-DATA-002", table="people", column=" ".join(texts))
        return find_input(declared, relation, frame, *more)

    return mock.patch("dprelease.exact.inputs.find_input", quoting)


def _in_a_format(ran: RunOutput) -> None:
    if (ran.folder / "json-stat").exists():
        _log(ran)


def _left_by_failures() -> Any:
    """Return a planted fault: a run whose table lacks a column leaves its rows beside its folder."""

    def faulty(
        declaration: Declaration, *, output: Path, frames: Mapping[str, Any], **more: Any
    ) -> Path:
        table = frames.get("people")
        if table is not None and not {"id", "place"} <= {*table.column_names}:
            (output.parent / "rows").write_text(str(table.to_pydict()))
        return run(declaration, output=output, frames=frames, **more)

    return mock.patch.object(stage_module, "run", faulty)


CANARY_LEAKS: dict[str, Callable[[], Any]] = {
    "a file named by a key": lambda: leaking(_named_files),
    "a step that names a value": lambda: leaking(_steps),
    "a file with values": lambda: leaking(_log),
    "a file with values where a format is written": lambda: leaking(_in_a_format),
    "a file that a failing run leaves": _left_by_failures,
    "an error that quotes a value": _error_with_a_value,
}


@pytest.mark.share(0.15)
@pytest.mark.parametrize("leak", CANARY_LEAKS)
def test_canaries_find_planted_faults(
    leak: str, audited_release: tuple[AuditedRelease, list[QueryGroup]], tmp_path: Path
) -> None:
    with CANARY_LEAKS[leak]():
        told, findings, _ = run_canaries(*audited_release, tmp_path / "runs")
    assert not told.holds
    assert {found.check for found in findings} == {"canaries"}
    assert "Kanarie" not in str(findings)  # an audit names no value either


def test_audit_opens_no_declared_source(tmp_path: Path) -> None:
    """Sources that would hang, fail or be noticed: a pipe without a writer, and a watched file."""
    declaration = read_release(tmp_path, ASKED, IDS, **LESS)
    os.mkfifo(tmp_path / "nowhere.parquet")
    stage = AuditedRelease.of(declaration)
    assert all(query.declared.table.source is None for query in stage.queries)
    assert all(one.table.source is None for one in stage.declaration.tables.values())
    groups = query_groups(stage, stage.queries, ReplayedBits("tests"))
    assert twin_findings((stage, groups), tmp_path / "runs") == []


def test_audit_refuses_queries_with_sources(
    audited_release: tuple[AuditedRelease, list[QueryGroup]],
) -> None:
    stage, _ = audited_release
    from dprelease.query.resolve import resolve
    from dprelease.schema.load import read_declaration

    real = resolve(read_declaration(stage.declaration.document.path))
    with pytest.raises(TypeError), stage.engines(real, {}):
        pass


@pytest.fixture(autouse=True)
def _no_engine_is_left() -> Iterator[None]:
    yield
    assert Engine.run.__qualname__ == "Engine.run"
