"""An engine is closed by a thread while what it answered last is noised, written and published."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.errors import DpReleaseError
from dprelease.exact import connection, table_reader
from dprelease.exact import duckdb as engine_module
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.exact.test_opened_ahead import in_child
from tests.release.build import write
from tests.replay import Keyed

THREAD = "dprelease-close"
SLOWLY = 0.2
"""Seconds; longer than all that a small release does behind its rows."""

Steps = list[tuple[str, str]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """What the engine is asked for, and when it is closed, each with the name of the thread."""
    told: Steps = []
    others = {*connection._OPEN}  # sessions of other tests keep theirs
    close, ask = connection.closed, engine_module.Engine.run

    def closes(link: duckdb.DuckDBPyConnection) -> None:
        if id(link) in connection._OPEN:
            time.sleep(SLOWLY)
            told.append(("closed", threading.current_thread().name))
        close(link)

    def asked(self: Any, query: Any) -> Any:
        told.append((query.name, threading.current_thread().name))
        return ask(self, query)

    monkeypatch.setattr(connection, "closed", closes)
    monkeypatch.setattr(engine_module.Engine, "run", asked)
    yield told
    assert {*connection._OPEN} == others
    assert not [one for one in threading.enumerate() if one.name == THREAD]


def declared(folder: Path) -> Path:
    """Return a release whose engine has its private folder in `scratch`."""
    path = write(folder)
    (folder / "scratch").mkdir()
    path.write_text(path.read_text() + "duckdb: {temp_directory: scratch}\n")
    return path


def published(folder: Path, **given: Any) -> Path:
    return run(read_declaration(declared(folder)), bits=Keyed("x"), **given)


def test_once_and_behind_the_last_query(steps: Steps, tmp_path: Path) -> None:
    here = threading.current_thread().name
    seen: dict[str, bool] = {}

    def progress(step: str) -> None:
        seen[step] = bool(list((tmp_path / "scratch").iterdir()))

    found = published(tmp_path, progress=progress)
    assert (found / "manifest.json").is_file()
    assert steps == [("by_city", here), ("all", here), ("closed", THREAD)]
    assert seen["manifest"]  # its folder is there until it is closed
    assert not list((tmp_path / "scratch").iterdir())


def test_what_is_released_is_the_same(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    early = published(tmp_path / "early")
    monkeypatch.setattr(engine_module.Engine, "close_early", lambda _self: None)
    late = published(tmp_path / "late")
    assert [name for what, name in steps if what == "closed"][1:] == [
        threading.current_thread().name
    ]
    for file in early.glob("*.parquet"):
        assert file.read_bytes() == (late / file.name).read_bytes()


def test_not_while_vectors_come_from_it(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of very many cells each range is read when it is noised."""
    whole = published(tmp_path / "whole")
    monkeypatch.setattr(table_reader, "MANY_CELLS", 1)
    monkeypatch.setattr(table_reader, "HELD", 0)
    found = published(tmp_path / "ranges")
    assert steps[-1] == ("closed", threading.current_thread().name)
    for file in whole.glob("*.parquet"):
        assert file.read_bytes() == (found / file.name).read_bytes()


def test_there_may_be_no_thread(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start = threading.Thread.start

    def none(self: threading.Thread) -> None:
        if self.name == THREAD:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", none)
    assert published(tmp_path).is_dir()
    assert steps[-1] == ("closed", threading.current_thread().name)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failure_waits_for_it(steps: Steps, stop: Any, tmp_path: Path) -> None:
    """What the engine holds is removed behind it, and nothing is published."""

    def progress(step: str) -> None:
        if step == "manifest":
            assert ("closed", THREAD) not in steps
            raise stop

    with pytest.raises((KeyboardInterrupt, DpReleaseError)):
        published(tmp_path, progress=progress)
    assert steps[-1] == ("closed", THREAD)
    assert not list((tmp_path / "scratch").iterdir())
    assert not list((tmp_path / "out").iterdir())


def test_a_signal_does_not_end_the_wait(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered once the engine is closed; the release is readable by then, and told so."""
    main = threading.main_thread().ident
    assert main is not None
    sent, close = threading.Event(), connection.closed

    def slowly(link: duckdb.DuckDBPyConnection) -> None:
        assert sent.wait(60)
        close(link)

    monkeypatch.setattr(connection, "closed", slowly)

    def interrupts() -> None:
        while not (tmp_path / "out" / "people" / "manifest.json").exists():
            time.sleep(1e-3)
        signal.pthread_kill(main, signal.SIGINT)
        sent.set()

    sender = threading.Thread(target=interrupts)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        published(tmp_path)
    sender.join()
    assert steps[-1] == ("closed", THREAD)
    assert (tmp_path / "out" / "people" / "manifest.json").is_file()
    assert not list((tmp_path / "scratch").iterdir())


def test_a_child_leaves_it_to_its_parent(steps: Steps, tmp_path: Path) -> None:
    """A child that is forked while the thread is at work neither waits for it nor closes itself."""
    codes: list[int] = []
    others = {*connection._OPEN}

    def progress(step: str) -> None:
        if step == "manifest":
            (link,) = (one for key, one in connection._OPEN.items() if key not in others)

            def work() -> None:
                assert not connection._OPEN
                closing = connection.Closing(link)
                closing.begin()
                closing.end()

            codes.append(in_child(work))

    published(tmp_path, progress=progress)
    assert codes == [0]
    assert steps[-1] == ("closed", THREAD)
    assert not [name for what, name in steps if what == "closed"][1:]
