"""A signal ends a command as a failure does: nothing is left, and what had happened is told."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.errors import RunState, State
from dprelease.ledger.ledger import Ledger
from tests.ledger.test_ledger import release_with_ledger

ROOT = Path(__file__).parents[1]

ENDED = """
import os, signal, sys
from dprelease.exact.duckdb import Engine
from dprelease.ledger.ledger import Ledger
from dprelease.release import folder, pipeline, prepare
place, number = sys.argv[1], int(sys.argv[2])
for default in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(default, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
if len(sys.argv) > 4:
    signal.signal(number, signal.SIG_IGN)

def ends(owner, name, before):
    real = getattr(owner, name)
    def ended(*given, **named):
        if before:
            os.kill(os.getpid(), number)
        found = real(*given, **named)
        if not before:
            os.kill(os.getpid(), number)
        return found
    setattr(owner, name, ended)

def turned(*given):
    try:
        os.kill(os.getpid(), number)
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted")  # as the engine does

match place:
    case "plan": ends(pipeline, "prepare", True)
    case "reserved": ends(Ledger, "reserve", False)
    case "query": Engine.run = turned
    case "staged": ends(pipeline, "write_parquet", False)
    case "renamed": ends(folder, "rename_new", False)
from dprelease.cli import main
sys.argv = ["dprelease", "run", sys.argv[3], "--json"]
main()
"""

PLACES = {
    "plan": State.NOTHING,
    "reserved": State.HELD,
    "query": State.CHARGED,
    "staged": State.CHARGED,
    "renamed": State.RELEASED,
}


def ended(folder: Path, place: str, number: int, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir()
    return subprocess.run(
        [sys.executable, "-c", ENDED, place, str(number), str(folder / "release.yaml"), *more],
        env=dict(os.environ, PYTHONPATH=str(ROOT), TMPDIR=str(folder / "tmp")),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("number", "place"),
    [(n, p) for n in (signal.SIGINT, signal.SIGTERM) for p in PLACES] + [(signal.SIGHUP, "query")],
)
def test_what_a_signal_leaves_and_what_is_said(
    number: signal.Signals, place: str, tmp_path: Path
) -> None:
    release_with_ledger(tmp_path)
    done = ended(tmp_path, place, number)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["state"]) == ("DP-SIGNAL-001", PLACES[place].value)
    assert number.name in finding["cause"]
    readable = (tmp_path / "out/people/manifest.json").exists()
    assert readable == (PLACES[place] is State.RELEASED)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    held = ledger.state().reservations.values()
    charged = PLACES[place] is not State.NOTHING
    assert any(r.is_charged for r in held) == charged
    left = [p.name for p in (tmp_path / "out").iterdir()] if (tmp_path / "out").exists() else []
    assert left == (["people"] if readable else [])
    assert list((tmp_path / "tmp").iterdir()) == []
    ledger.recover()  # where it is told that the ledger may still count it
    free = (State.NOTHING, State.HELD)
    charges = ledger.state().reservations.values()
    assert any(r.is_charged for r in charges) == (PLACES[place] not in free)
    assert not list(tmp_path.glob(".ledger*"))


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    done = ended(tmp_path, "staged", signal.SIGHUP, "ignored")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/people/manifest.json").exists()


def test_an_interrupt_in_python_tells_what_had_happened() -> None:
    state = RunState(rows=True)
    with pytest.raises(KeyboardInterrupt) as caught, state.told_by_failures():
        raise KeyboardInterrupt
    assert caught.value.__notes__ == [f"State  {State.READ.value}."]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("kind", ["", "--json"])
def test_an_answer_that_is_cut_off(unbuffered: str, kind: str, tmp_path: Path) -> None:
    """A disk without room for all of it: a part of the noised answer is out, so it is not unsaid."""
    release_with_ledger(tmp_path)
    statement = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    words = [sys.executable, "-m", "dprelease", "sql", statement, "--epsilon", "1"]
    with (tmp_path / "shown").open("wb") as shown:
        done = subprocess.run(
            [*words, "--schema", "people.yaml", *([kind] if kind else [])],
            env=dict(os.environ, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED=unbuffered),
            cwd=tmp_path,
            stdout=shown,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)),
        )
    assert (tmp_path / "shown").stat().st_size == 512
    assert done.returncode == 2, done.stderr
    assert "DP-OUTPUT-007" in done.stderr
    assert State.UNKNOWN.value in done.stderr
