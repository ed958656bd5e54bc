"""One run at a time owns an output folder: parallel runs never replace each other's work (V84)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dprelease.documents.encoding import NAME as MANIFEST
from dprelease.errors import LedgerError, OutputError, RunState, State
from dprelease.ledger.ledger import Ledger
from dprelease.release import folder
from dprelease.release.folder import claim_target
from dprelease.release.runs import family_run
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.system import renaming
from dprelease.verification.verify import verify
from tests import processes
from tests.ledger.test_ledger import release_with_ledger
from tests.release.build import write

ROOT = Path(__file__).parents[2]

RUNNERS = """
import os, sys
from pathlib import Path
from dprelease.release import folder
from dprelease.release import kinds
from dprelease.release.runs import pipeline
from dprelease.schema.load import read_declaration
declaration = read_declaration(Path(sys.argv[1]))
kinds.prepare(declaration)
ours, theirs = os.pipe()
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        os.close(theirs)
        os.read(ours, 1)  # all of them start at once
        try:
            pipeline.run(declaration, overwrite=sys.argv[2] == "True")
            words = "published"
        except Exception as problem:
            words = f"{getattr(problem, 'code', repr(problem))} {getattr(problem, 'state', '')}"
        os.write(1, (words + "\\n").encode())
        os._exit(0)
    children.append(child)
os.close(theirs)
for child in children:
    os.waitpid(child, 0)
"""


@pytest.mark.share(0.4)
@pytest.mark.parametrize("overwrite", [False, True])
def test_six_parallel_runs(overwrite: bool, tmp_path: Path) -> None:
    """Only runs that publish are charged; without --overwrite only one publishes."""
    path = release_with_ledger(tmp_path)
    done = processes.run(
        [sys.executable, "-c", RUNNERS, str(path), str(overwrite)],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = done.stdout.splitlines()
    assert len(told) == 6
    published = told.count("published")
    refused = {"DP-OUTPUT-006 State.NOTHING", "DP-OUTPUT-001 State.NOTHING"}
    assert published == 1 or (overwrite and published > 1), told
    assert set(told) - {"published"} <= refused, told
    state = Ledger(tmp_path / "ledger.sqlite").state()
    assert sum(r.is_charged for r in state.reservations.values()) == published
    assert len(state.reservations) == published  # the others did not even reserve
    assert verify(tmp_path / "out" / "people", ledger=tmp_path / "ledger.sqlite").ok
    assert os.listdir(tmp_path / "out") == ["people"]


def test_output_folder_is_claimed_until_run_ends(tmp_path: Path) -> None:
    target, state = tmp_path / "out", RunState()
    with claim_target(target, True, state):
        found: list[str] = []

        def another() -> None:
            with pytest.raises(OutputError) as caught, claim_target(target, True, RunState()):
                pass
            found.append(f"{caught.value.code} {caught.value.state.name}")

        processes.in_threads([another])
        assert found == ["DP-OUTPUT-006 NOTHING"]
        with claim_target(tmp_path / "other", False, RunState()):
            pass
    with claim_target(target, False, state):
        pass
    assert list(tmp_path.iterdir()) == []


def put_file(target: Path) -> None:
    target.write_text("mine")


def put_folder(target: Path) -> None:
    target.mkdir()
    (target / "mine").write_text("mine")


def put_release(target: Path) -> None:
    target.mkdir()
    (target / MANIFEST).write_text("{}")


@pytest.mark.share(0.5)
@pytest.mark.parametrize("known", [True, False], ids=["renameat2", "rename"])
@pytest.mark.parametrize("put", [put_file, put_folder, put_release])
def test_files_created_during_a_run_are_not_replaced(
    put: Any, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else makes them, or a program that does not use claims."""
    target = tmp_path / "out" / "people"
    real = family_run.write_pieces

    def late(*given: Any) -> int:
        if not target.exists():
            put(target)
        return real(*given)

    if not known:
        monkeypatch.setattr(renaming, "_rename_with_flags", lambda *_: False)
    monkeypatch.setattr(family_run, "write_pieces", late)
    declaration = read_declaration(write(tmp_path))
    with pytest.raises(OutputError, match="DP-OUTPUT-001") as caught:
        run(declaration)
    assert caught.value.state is State.READ
    held = target if target.is_file() else next(target.iterdir())
    assert held.read_text() in ("mine", "{}")
    assert os.listdir(tmp_path / "out") == ["people"]


@pytest.mark.share(0.24)
@pytest.mark.parametrize("known", [True, False], ids=["renameat2", "rename"])
@pytest.mark.parametrize("fails", [(), (1,), (2,), (1, 2), (2, 3)], ids=str)
def test_overwrite_is_atomic(
    known: bool, fails: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever renames fail, the old or the new release is there, and the error says which."""
    path = release_with_ledger(tmp_path)
    target = run(read_declaration(path))
    before = json.loads((target / MANIFEST).read_bytes())["digest"]
    calls = [0]

    def failing(real: Any) -> Any:
        def wrapped(*given: Any) -> Any:
            calls[0] += 1
            if calls[0] in fails:
                raise OSError(errno.EIO, "broken")
            return real(*given)

        return wrapped

    if known:
        monkeypatch.setattr(renaming, "_rename_with_flags", failing(renaming._rename_with_flags))
    else:
        monkeypatch.setattr(renaming, "_rename_with_flags", lambda *_: False)
        monkeypatch.setattr(Path, "rename", failing(Path.rename))
    problem: OutputError | None = None
    try:
        run(read_declaration(path), overwrite=True)
    except OutputError as found:
        problem = found
    monkeypatch.undo()
    changed = (not target.exists()) or json.loads((target / MANIFEST).read_bytes())[
        "digest"
    ] != before
    if problem is None:
        assert changed
    else:
        assert problem.state is State.CHARGED
        assert target.exists() or fails == (2, 3)  # back again, unless that fails as well
        waits = target.parent / ".people.dprelease-replaced" / MANIFEST
        kept = target / MANIFEST if target.exists() else waits
        assert json.loads(kept.read_bytes())["digest"] == before
    # A commit names a manifest only if it is readable.
    history = Ledger(tmp_path / "ledger.sqlite").history()
    told = [entry.body["manifest"] for entry in history if entry.kind == "commit"]
    assert [digest is not None for digest in told] == [True, problem is None]
    run(read_declaration(path), overwrite=True)
    assert verify(target, ledger=tmp_path / "ledger.sqlite").ok
    assert os.listdir(tmp_path / "out") == ["people"]


@pytest.mark.parametrize("step", ["_sync_to_disk", "commit"])
def test_failure_after_rename_keeps_the_release(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is there and charged, and the error says so."""
    path = release_with_ledger(tmp_path)
    target = tmp_path / "out" / "people"
    real = folder._sync_to_disk

    def failing(path: Path) -> None:
        if path == target.parent:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    def locked(*_: object) -> None:
        raise LedgerError("DP-LEDGER-004", name="ledger.sqlite")

    if step == "_sync_to_disk":
        monkeypatch.setattr(folder, "_sync_to_disk", failing)
    else:
        monkeypatch.setattr(Ledger, "commit", locked)
    code = {"_sync_to_disk": "DP-OUTPUT-008", "commit": "DP-LEDGER-004"}[step]
    with pytest.raises((OutputError, LedgerError), match=code) as caught:
        run(read_declaration(path))
    assert caught.value.state is State.PAID
    assert State.PAID.value in str(caught.value.args[0])
    assert "don't run it again" in str(caught.value)
    assert "dprelease ledger recover" in caught.value.fix
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert verify(target, ledger=ledger.path).ok
    ledger.recover()
    (found,) = ledger.state().reservations.values()
    assert found.steps == ["read", "publish", "commit"]


def test_old_release_is_kept_if_its_place_is_taken(tmp_path: Path) -> None:
    target, aside = tmp_path / "people", tmp_path / ".people.dprelease-replaced"
    put_release(aside)
    put_folder(target)
    with pytest.raises(OutputError, match="DP-OUTPUT-003"), claim_target(target, True, RunState()):
        pass
    assert (aside / MANIFEST).exists()


def test_symlink_to_release_is_replaced_not_followed(tmp_path: Path) -> None:
    declaration = read_declaration(write(tmp_path))
    first = run(declaration, output=tmp_path / "first")
    (tmp_path / "link").symlink_to(first)
    before = (first / MANIFEST).read_bytes()
    run(declaration, output=tmp_path / "link", overwrite=True)
    assert (first / MANIFEST).read_bytes() == before
    assert not (tmp_path / "link").is_symlink()
    assert not list(tmp_path.glob(".link*"))


@pytest.mark.parametrize("name", ["a[b]", "*", "people.dprelease-lock", "ü"])
def test_output_names_with_glob_characters(name: str, tmp_path: Path) -> None:
    """Leftovers of another target are not removed."""
    other = tmp_path / ".x.dprelease-staging-1"
    other.mkdir()
    with claim_target(tmp_path / name, False, RunState()) as claim:
        assert claim.folder.is_dir()
        left = tmp_path / f".{name}.dprelease-staging-9"
        left.mkdir()
    with claim_target(tmp_path / name, False, RunState()):
        assert not left.exists()
    assert list(tmp_path.iterdir()) == [other]


def test_output_name_not_utf8_is_refused_before_charge(tmp_path: Path) -> None:
    path = release_with_ledger(tmp_path)
    with pytest.raises(OutputError, match="not UTF-8") as caught:
        run(read_declaration(path), output=Path(os.fsdecode(bytes(tmp_path) + b"/out\xff")))
    assert caught.value.state is State.NOTHING
    assert not Ledger(tmp_path / "ledger.sqlite").state().reservations


def record_fsyncs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, set[str]]]:
    """Return the folders that are brought to the disk from now on, and what is in each then."""
    found: list[tuple[Path, set[str]]] = []
    sync = os.fsync

    def told(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir():
            found.append((path, {entry.name for entry in path.iterdir()}))
        sync(handle)

    monkeypatch.setattr(os, "fsync", told)
    return found


@pytest.mark.share(0.5)
@pytest.mark.parametrize("there", ["", "a", "a/b", "a/b/c"])
@pytest.mark.parametrize("spelled", ["a/b/c/out", "a/./b/x/../c/out", "link/b/c/out"])
def test_new_parent_folders_are_fsynced(
    there: str, spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by fsync of its parent, after it has its name, and before the charge."""
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    if "x" in spelled:
        (tmp_path / "a/b/x").mkdir(parents=True)
        there = max(there, "a/b", key=len)
    if "link" in spelled:
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "link").symlink_to("a")
        there = max(there, "a", key=len)
    release = release_with_ledger(tmp_path)
    calls = record_fsyncs(monkeypatch)
    reserved: list[int] = []
    reserve = Ledger.reserve
    monkeypatch.setattr(
        Ledger, "reserve", lambda *words: (reserved.append(len(calls)), reserve(*words))[1]
    )
    run(read_declaration(release), output=tmp_path / spelled)
    new = [part for part in ("a", "a/b", "a/b/c") if len(part) > len(there)]
    for part in new:
        path = tmp_path / part
        at = [
            i
            for i, (folder, names) in enumerate(calls)
            if folder == path.parent and path.name in names
        ]
        assert at, part
        assert at[0] < reserved[0]
    assert len([folder for folder, _ in calls[: reserved[0]]]) == len(new)
    assert calls[-1][0] == tmp_path / "a/b/c"
    assert "out" in calls[-1][1]


def test_parent_folder_created_by_parallel_run_is_fsynced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs call fsync."""
    calls = record_fsyncs(monkeypatch)
    make = Path.mkdir

    def raced(path: Path, *words: Any, **named: Any) -> None:
        if path == tmp_path / "a" and not path.exists():
            make(path)
        make(path, *words, **named)

    monkeypatch.setattr(Path, "mkdir", raced)
    with claim_target(tmp_path / "a/b/out", False, RunState()):
        pass
    assert [folder for folder, _ in calls] == [tmp_path, tmp_path / "a"]


def test_file_in_place_of_parent_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    for spelled in ("a/out", "a/b/out"):
        with (
            pytest.raises(OutputError, match="DP-OUTPUT-002"),
            claim_target(tmp_path / spelled, False, RunState()),
        ):
            pass
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
@pytest.mark.parametrize("told", [True, False])
def test_umask_is_read_without_setting_it(
    mask: int, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The umask belongs to the process: other threads make files at the same time."""
    before = os.umask(mask)
    try:
        if told:
            monkeypatch.setattr("os.umask", lambda _: pytest.fail("it was set"))
        else:
            monkeypatch.setattr("dprelease.release.folder.STATUS", tmp_path / "status")
        assert folder._process_umask() == mask
    finally:
        monkeypatch.undo()
        assert os.umask(before) == mask


def test_parent_that_is_no_folder_is_named_in_error(tmp_path: Path) -> None:
    """The error does not call it a file that exists already."""
    (tmp_path / "People.csv").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    said = {
        "People.csv": "'People.csv', its parent, is not a folder",
        "loop": "too many levels of symbolic links",
        "nowhere": "no such file or directory",
    }
    for parent, words in said.items():
        target = tmp_path / parent / "x"
        with (
            pytest.raises(OutputError, match="DP-OUTPUT-002") as caught,
            claim_target(target, False, RunState()),
        ):
            pass
        assert caught.value.cause == f"'x' can't be written: {words}."
