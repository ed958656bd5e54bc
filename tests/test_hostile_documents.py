"""Any file that is named to a command is read, or refused with words, in time and in little memory.

Times are of the processor, for the machine may be busy; a case that waits for somebody is ended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from dprelease.ledger.ledger import Ledger
from dprelease.system.json_text import MOST_BYTES
from tests.hostile import FILES, GROUPS, PAID, budget, call
from tests.processes import run

ROOT = Path(__file__).parents[1]
SECONDS, MEBIBYTES = 5.0, 512.0


SLOW = {"matrix", "declarations", "ledgers"}
"""Groups that audits alone read."""


@pytest.mark.parametrize(
    "group",
    [pytest.param(one, marks=[pytest.mark.audit] if one in SLOW else []) for one in GROUPS],
)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.audit)])
def test_hostile_files_are_read_or_refused_in_time(group: str, whole: bool, tmp_path: Path) -> None:
    extent = ["whole"] if whole else []
    command = [sys.executable, "-m", "tests.hostile", str(tmp_path), group, *extent]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = run(command, patience=280, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wrong = []
    for line in done.stdout.splitlines():
        found = json.loads(line)
        problem = problem_of(found)
        if problem:
            wrong.append(f"{found['name']}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert done.stdout.count("\n") == sum(1 for _ in GROUPS[group](whole))


def test_manifest_above_the_limit_is_refused_before_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of manifests have a limit: what is beyond is refused before it is charged."""
    for name, text in {**FILES, "release.yaml": PAID}.items():
        (tmp_path / name).write_text(text)
    budget(tmp_path)
    monkeypatch.setattr("dprelease.release.execute.ROOM", MOST_BYTES - 1000)
    code, told = call("run", str(tmp_path / "release.yaml"))
    assert (code, "DP-RELEASE-019" in told) == (2, True), told
    assert "no row was read, no budget was spent" in told
    assert not (tmp_path / "out").exists()
    assert [entry.kind for entry in Ledger(tmp_path / "ledger.sqlite").history()] == ["open"]


def test_missing_source_is_named(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "people.csv").unlink()
    code, told = call("run", str(tmp_path / "release.yaml"))
    assert code == 2
    assert told.startswith("people.yaml:3  source\nDP-DATA-001  ")
    assert "'people', 'people.csv', does not exist" in told


def problem_of(found: dict[str, object]) -> str:
    """Return why a case did not end as it has to; empty if it did."""
    if found["answer"] is None:
        return f"it did not end, or died (status {found['status']})"
    code, told = found["answer"]  # type: ignore[misc]
    if found["cpu"] > SECONDS or found["mebibytes"] > MEBIBYTES:  # type: ignore[operator]
        return f"{found['cpu']:.1f} s and {found['mebibytes']:.0f} MiB"
    if code not in (0, 2, 3, 4) or "Traceback" in told:
        return f"exit code {code}: {told[-600:]}"
    codes = found["codes"]
    assert isinstance(codes, list)
    if code and not ("Fix" in told or '"fix"' in told):
        return f"no words: {told[-600:]}"
    if codes and (code == 0 or not any(one in told for one in codes)):
        return f"exit code {code}, none of {codes}: {told[-600:]}"
    return ""
