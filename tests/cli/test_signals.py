"""A signal ends a command like a failure: nothing is left, and the message states what happened."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest
import typer

import dprelease
from dprelease.cli.reporting import NO_THREAD_MESSAGE, report_failures
from dprelease.errors import DataError, LedgerError, OutputError, RunState, State
from dprelease.ledger.ledger import Ledger
from dprelease.release import folder
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.system.locks import Lock
from tests import processes
from tests.covering import thinned
from tests.ledger.test_ledger import TABLE, release_with_ledger

ROOT = Path(__file__).parents[2]

ENDED = """
import os, signal, sys
from dprelease.exact.duckdb import Engine
from dprelease.ledger.ledger import Ledger
from dprelease.release import folder, kinds
from dprelease.release.runs import family_run
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
    case "plan": ends(kinds, "prepare", True)
    case "reserved": ends(Ledger, "reserve", False)
    case "query": Engine.run = turned
    case "staged": ends(family_run, "write_pieces", False)
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
    "renamed": State.PAID,
}


def run_with_signal(
    folder: Path, place: str, number: int, *more: str
) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir()
    return processes.run(
        [sys.executable, "-c", ENDED, place, str(number), str(folder / "release.yaml"), *more],
        env=dict(os.environ, PYTHONPATH=str(ROOT), TMPDIR=str(folder / "tmp")),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("number", "place"),
    thinned((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), list(PLACES), together=1),
)
def test_signals_leave_nothing_and_state_the_charge(
    number: signal.Signals, place: str, tmp_path: Path
) -> None:
    release_with_ledger(tmp_path)
    done = run_with_signal(tmp_path, place, number)
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["state"]) == ("DP-SIGNAL-001", PLACES[place].value)
    assert number.name in finding["cause"]
    readable = (tmp_path / "out/people/manifest.json").exists()
    assert readable == (PLACES[place] is State.PAID)
    assert ("don't run it again" in finding["fix"]) == readable
    ledger = Ledger(tmp_path / "ledger.sqlite")
    if readable:  # the digest of its manifest is noted, though the signal came before
        digest = json.loads((tmp_path / "out/people/manifest.json").read_bytes())["digest"]
        assert ledger.history()[-1].body["manifest"] == digest
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


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    done = run_with_signal(tmp_path, "staged", signal.SIGHUP, "ignored")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/people/manifest.json").exists()


def test_interrupt_swallowed_by_another_handler_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For example by the handler of Spark: the state of the run is reported nevertheless."""

    def interrupted() -> None:
        with report_failures(as_json=False) as state:
            state.rows = True
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as caught:
        interrupted()
    assert caught.value.exit_code == 128 + signal.SIGINT
    told = capsys.readouterr().err
    assert "DP-SIGNAL-001" in told
    assert State.READ.value in told


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (MemoryError(), "DP-SYSTEM-001", "there is no more memory"),
        (ImportError("libarrow.so: failed to map segment"), "DP-SYSTEM-001", "no more memory"),
        (ImportError("No module named 'canary'"), "DP-INTERNAL-001", "ImportError"),
        (OSError(errno.EMFILE, "canary"), "DP-SYSTEM-001", "too many open files"),
        (OSError(errno.ENOSPC, "canary", "canary"), "DP-SYSTEM-001", "no space left"),
        (RuntimeError(NO_THREAD_MESSAGE), "DP-SYSTEM-001", "it can't start more threads"),
        (RuntimeError("canary"), "DP-INTERNAL-001", "RuntimeError"),
        (FileNotFoundError(errno.ENOENT, "canary"), "DP-INTERNAL-001", "FileNotFoundError"),
        (ValueError("canary"), "DP-INTERNAL-001", "ValueError"),
    ],
)
def test_system_failures_are_no_internal_errors(
    problem: Exception, code: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        with report_failures(as_json=False):
            raise problem

    with pytest.raises(typer.Exit) as caught:
        fails()
    assert caught.value.exit_code == 1
    told = capsys.readouterr().err
    assert code in told
    assert said in told
    assert "canary" not in told


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 1), (errno.EIO, 1), (errno.EMFILE, 1), (errno.EACCES, 2)]
)
def test_system_failures_are_no_input_errors(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of what the system said, whichever part of a run was told it."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for part, name in ((folder.tempfile, "mkdtemp"), (Lock, "acquire")):
        with monkeypatch.context() as patch:
            patch.setattr(part, name, refused)
            with pytest.raises(OutputError, match="DP-OUTPUT-002") as caught:
                run(read_declaration(release_with_ledger(tmp_path / name)))
        assert caught.value.exit_code == code
        assert pickle.loads(pickle.dumps(caught.value)).exit_code == code
    assert LedgerError("DP-LEDGER-005", name="l", problem="p").exit_code == 2
    with monkeypatch.context() as patch:
        patch.setattr(Lock, "acquire", refused)
        with pytest.raises(LedgerError, match="DP-LEDGER-005") as told:
            Ledger(tmp_path / "mkdtemp/ledger.sqlite").reserve([], "r")
    assert told.value.exit_code == code
    assert DataError("DP-DATA-006", table="t").exit_code == 1


def test_message_of_python_if_no_thread_can_start() -> None:
    before = threading.stack_size(2**46)  # more than any machine has
    try:
        with pytest.raises(RuntimeError) as caught:
            threading.Thread(target=print).start()
    finally:
        threading.stack_size(before)
    assert str(caught.value) == NO_THREAD_MESSAGE


def test_deleted_working_folder_is_reported(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    (tmp_path / "gone").mkdir()
    words = f"{sys.executable} -m dprelease run {tmp_path}/release.yaml --output out"
    done = processes.run(
        ["sh", "-c", f"rmdir {tmp_path}/gone && exec {words}"],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        cwd=tmp_path / "gone",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "DP-SYSTEM-001" in done.stderr
    assert "the folder that it was started in no longer exists" in done.stderr
    assert State.NOTHING.value in done.stderr


def test_interrupt_in_python_notes_the_state() -> None:
    state = RunState(rows=True)
    with pytest.raises(KeyboardInterrupt) as caught, state.add_state_to_errors():
        raise KeyboardInterrupt
    assert caught.value.__notes__ == [f"State  {State.READ.value}."]


QUESTIONS = {
    "count": lambda dp: dp.count(by="city", epsilon=1),
    "sql": lambda dp: dp.sql("SELECT AVG(age) AS a FROM people", epsilon=1),
    "groups": lambda dp: dp.groupby("city")["age"].mean(epsilon=1),
}


class Interrupter:
    """Interrupts at the n-th new line of the accessor that runs after a question began to run."""

    def __init__(self, number: int) -> None:
        self.left, self.seen, self.place = number, set[tuple[str, int]](), ""

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if f"dprelease{os.sep}accessor" not in code.co_filename:
            return None
        place = (code.co_filename, frame.f_lineno)
        if event == "line" and place not in self.seen:
            self.seen.add(place)
            self.left -= 1
            if self.left == 0:
                self.place = f"{code.co_name}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.share(0.09)
@pytest.mark.parametrize(
    ("question", "has_ledger"),
    [*((question, False) for question in QUESTIONS), ("groups", True)],
)
def test_interrupted_question_notes_spent_budget(
    question: str, has_ledger: bool, tmp_path: Path
) -> None:
    """At every line of the accessor: the note states what session and ledger have charged."""
    release_with_ledger(tmp_path, epsilon="1000000")
    ledger = Ledger(tmp_path / "ledger.sqlite") if has_ledger else None
    session = dprelease.Session(
        tmp_path / "people.yaml", epsilon=1000000, ledger=ledger and ledger.path
    )
    frame = pd.DataFrame({"person": [1, 2], "city": ["Bern", "Oslo"], "age": [3, 4], "pay": 1.5})
    frame.dp.use(session)
    counts, number, done = {True: 0, False: 0}, 0, False
    while not done:
        number += 1
        spent = session.spent.epsilon
        charged = 0 if ledger is None else ledger.state().spent(TABLE)
        interrupter = Interrupter(number)
        sys.settrace(interrupter)
        try:
            QUESTIONS[question](frame.dp)
            done = True
        except KeyboardInterrupt as ended:
            told = getattr(ended, "__notes__", [])
        finally:
            sys.settrace(None)
        if done:
            break
        more = session.spent.epsilon - spent
        if ledger is not None:
            assert (ledger.state().spent(TABLE) > charged) == (more > 0), interrupter.place
        states = {State.SPENT, State.CHARGED} if more else {State.NOTHING}
        assert len(told) <= 1, interrupter.place
        if told or more:  # before and after a question runs there is nothing to tell
            assert told, interrupter.place
            assert told[0] in {f"State  {state.value}." for state in states}, interrupter.place
        counts[more > 0] += bool(told)
    assert counts[True] >= 4  # while noise is drawn, and after that
    assert counts[False] >= 15


@pytest.mark.share(0.2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("kind", ["", "--json"])
def test_truncated_output_is_reported(unbuffered: str, kind: str, tmp_path: Path) -> None:
    """A disk without room for all of it: a part of the noised answer is out, so it is not unsaid."""
    release_with_ledger(tmp_path)
    statement = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    words = [sys.executable, "-m", "dprelease", "sql", statement, "--epsilon", "1"]
    with (tmp_path / "shown").open("wb") as shown:
        done = processes.run(
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
    assert done.returncode == 1, done.stderr
    assert "DP-OUTPUT-007" in done.stderr
    assert "look first whether the answer is there" in done.stderr
    assert State.UNKNOWN.value in done.stderr


WHILE_LOADING = """
import importlib.abc, os, signal, sys
{before}
class Ends(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Ends())
sys.argv = ["dprelease", "--version"]
from dprelease.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["dprelease.cli", "typer", "dprelease.cli.releases"])
def test_interrupt_during_import_has_no_traceback(module: str) -> None:
    default = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    done = loading(default, module)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
    done = loading("signal.signal(signal.SIGINT, signal.SIG_IGN)", module)
    assert (done.returncode, done.stderr) == (0, "")


def loading(before: str, module: str) -> subprocess.CompletedProcess[str]:
    code = WHILE_LOADING.format(before=before, module=module)
    return processes.run([sys.executable, "-c", code], text=True, capture_output=True)


def test_a_signal_in_code_from_a_string_sets_the_exit_code_of_python_m(tmp_path: Path) -> None:
    """Data classes run code from strings; Python itself would then end as if by SIGINT."""
    (tmp_path / "ended.py").write_text(
        "import sys\n"
        "from dprelease import cli\n"
        "from dprelease.cli import reference_commands\n"
        "kill = 'import os, signal; os.kill(os.getpid(), signal.SIGTERM)'\n"
        "reference_commands._mechanism_records = lambda: exec(kill)\n"
        "sys.argv = ['dprelease', 'mechanisms']\n"
        "cli.main()\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = processes.run(
        [sys.executable, "-m", "ended"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert (done.returncode, "SIGTERM" in done.stderr) == (128 + signal.SIGTERM, True)
