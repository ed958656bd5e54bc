"""The connection that a thread opens while modules are loaded is one like any other."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from dprelease.errors import DataError, DpReleaseError
from dprelease.exact import connection, machine_kind
from dprelease.exact.connection import closed, connected, opening_ahead
from dprelease.exact.engines import open_engine
from dprelease.exact.settings import DEFAULT, Settings
from dprelease.release.runs import pipeline
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.system.unforked import is_cut
from tests import processes
from tests.exact.build import declare
from tests.release.build import write
from tests.replay import Keyed

ROOT = Path(__file__).parents[2]

FRAME = pd.DataFrame({"n": [1]})
"""What a connection may not read by the name of a variable."""


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The threads in which connections were opened, by their names."""
    threads: list[str] = []
    connect = duckdb.connect

    def told(*given: Any, **named: Any) -> Any:
        threads.append(threading.current_thread().name)
        return connect(*given, **named)

    monkeypatch.setattr(duckdb, "connect", told)
    yield threads
    assert not connection._AHEAD
    assert not [one for one in threading.enumerate() if one.name == "dprelease-connect"]


def is_closed(link: duckdb.DuckDBPyConnection) -> bool:
    try:
        link.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False


def test_the_first_one_gets_it(opened: list[str], tmp_path: Path) -> None:
    with opening_ahead():
        links = [connected(tmp_path, DEFAULT) for _ in range(2)]
    assert sorted(opened) == sorted(["dprelease-connect", threading.current_thread().name])
    assert not any(map(is_closed, links))  # their engines close them
    for link in links:
        closed(link)
    assert all(map(is_closed, links))


def test_what_nobody_asked_for_is_closed(monkeypatch: pytest.MonkeyPatch, opened: Any) -> None:
    gone: list[duckdb.DuckDBPyConnection] = []
    get = connection._Coming.get

    def kept(self: connection._Coming) -> Any:
        gone.append(get(self))  # type: ignore[arg-type]
        return gone[-1]

    monkeypatch.setattr(connection._Coming, "get", kept)
    with pytest.raises(KeyboardInterrupt), opening_ahead():
        raise KeyboardInterrupt
    assert [is_closed(link) for link in gone] == [True]
    assert opened == ["dprelease-connect"]


ASKED = (
    "threads",
    "memory_limit",
    "temp_directory",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "python_enable_replacements",
    "async_threads",
)


@pytest.mark.parametrize("settings", [DEFAULT, Settings("2 GB", 1)])
def test_it_is_set_as_any_other(settings: Settings, tmp_path: Path) -> None:
    found = []
    with opening_ahead():
        for _ in range(2):
            link = connected(tmp_path, settings)
            asked = ", ".join(f"current_setting('{name}')" for name in ASKED)
            found.append(link.execute(f"SELECT {asked}").fetchall())
            with pytest.raises(duckdb.CatalogException):
                link.execute("SELECT * FROM FRAME")
            closed(link)
    assert found[0] == found[1]
    assert found[0][0][2:] == (str(tmp_path), False, False, False, 0)


def test_settings_that_it_does_not_take(tmp_path: Path) -> None:
    with opening_ahead():
        for _ in range(2):
            before = len(connection._OPEN)
            with pytest.raises(DataError, match="DP-ENGINE-004"):
                connected(tmp_path, Settings(memory_limit="much"))
            assert len(connection._OPEN) == before


class TakenMeanwhile(list[Any]):
    """Has one whenever it is asked, and another thread takes it before it is had."""

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def pop(self, _place: Any = -1) -> Any:
        raise IndexError


def test_one_that_another_thread_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(connection, "_AHEAD", TakenMeanwhile())
        closed(connected(tmp_path, DEFAULT))


def take(coming: connection._Coming, got: list[object]) -> None:
    got.append(coming.get())


def test_one_that_two_threads_wait_for_is_had_once() -> None:
    """One that asked for it, and the block that began it and ends meanwhile."""
    for _ in range(20):
        with opening_ahead():
            (coming,) = connection._AHEAD
            got: list[object] = []
            threads = [threading.Thread(target=take, args=(coming, got)) for _ in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [link is None for link in got].count(True) == 1
            assert len(got) == 2
            for link in got:
                if isinstance(link, duckdb.DuckDBPyConnection):
                    link.close()


def test_one_that_cannot_be_opened_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connect = duckdb.connect

    def fails(*given: Any, **named: Any) -> Any:
        if threading.current_thread().name == "dprelease-connect":
            raise duckdb.OutOfMemoryException
        return connect(*given, **named)

    monkeypatch.setattr(duckdb, "connect", fails)
    with opening_ahead():
        closed(connected(tmp_path, DEFAULT))


def test_there_may_be_no_thread(
    monkeypatch: pytest.MonkeyPatch, opened: list[str], tmp_path: Path
) -> None:
    def none(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        with opening_ahead():
            closed(connected(tmp_path, DEFAULT))
        with opening_ahead():
            pass
    assert opened == [threading.current_thread().name]


def in_child(work: Any) -> int:
    """Return how a forked child ends that does some work, and then all that Python does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("waits", [True, False])
def test_a_child_opens_its_own(waits: bool, tmp_path: Path) -> None:
    """It neither waits for a thread that it doesn't have, nor ends what its parent opened."""
    with opening_ahead():
        (coming,) = connection._AHEAD
        if waits:
            coming._thread.join()

        def work() -> None:
            assert not connection._AHEAD
            assert coming.get() is None
            closed(connected(tmp_path, DEFAULT))

        assert in_child(work) == 0
        link = connected(tmp_path, DEFAULT)
        assert link.execute("SELECT 1").fetchall() == [(1,)]
        closed(link)


def test_a_child_leaves_the_block(tmp_path: Path) -> None:
    with opening_ahead():
        connection._AHEAD[0]._thread.join()
        block = opening_ahead()
        block.__enter__()
        assert in_child(lambda: block.__exit__(None, None, None)) == 0
        block.__exit__(None, None, None)


def test_a_run_opens_its_engine_while_it_is_made_ready(
    monkeypatch: pytest.MonkeyPatch, opened: list[str], tmp_path: Path
) -> None:
    """One connection alone, whether modules are still to be loaded or not; or without a thread."""
    made = [run(read_declaration(write(tmp_path / "a")), bits=Keyed("x"))]
    monkeypatch.setattr(machine_kind, "ENGINE_MODULE", "not loaded yet")
    made.append(run(read_declaration(write(tmp_path / "b")), bits=Keyed("x")))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "engine_begun", lambda _spec: nullcontext())
        patch.setattr(machine_kind, "ENGINE_MODULE", machine_kind.__name__)
        made.append(run(read_declaration(write(tmp_path / "c")), bits=Keyed("x")))
    here = threading.current_thread().name
    assert opened == ["dprelease-connect", "dprelease-connect", here]
    for file in made[0].glob("*.parquet"):
        assert all(file.read_bytes() == (other / file.name).read_bytes() for other in made)


@pytest.mark.parametrize("way", ["refused", "interrupted"])
def test_a_run_that_ends_before_rows_are_read_leaves_none(
    way: str, monkeypatch: pytest.MonkeyPatch, opened: list[str], tmp_path: Path
) -> None:
    path, before = write(tmp_path), set(connection._OPEN)  # of sessions that others left
    run(read_declaration(path), bits=Keyed("x"))
    if way == "interrupted":
        monkeypatch.setattr(pipeline, "open_engines", raising(KeyboardInterrupt))
    with pytest.raises((DpReleaseError, KeyboardInterrupt)):
        run(read_declaration(path), bits=Keyed("x"), overwrite=way == "interrupted")
    assert opened == ["dprelease-connect"] * 2
    assert set(connection._OPEN) <= before
    assert not connection._AHEAD


def raising(error: type[BaseException]) -> Any:
    def work(*_given: Any, **_named: Any) -> Any:
        raise error

    return work


TOLD = """
import sys, threading, duckdb
connect = duckdb.connect
def told(*given, **named):
    print(threading.current_thread().name)
    return connect(*given, **named)
duckdb.connect = told
import dprelease
for folder in sys.argv[1:]:
    dprelease.read_release(folder + "/release.yaml").run()
"""


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    folders = [str(write(tmp_path / name).parent) for name in "ab"]
    done = processes.run(
        [sys.executable, "-c", TOLD, *folders], cwd=ROOT, check=True, capture_output=True
    )
    assert done.stdout.split() == [b"dprelease-connect"] * 2


def test_a_source_that_is_refused_leaves_none(
    monkeypatch: pytest.MonkeyPatch, opened: list[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_kind, "ENGINE_MODULE", "not loaded yet")
    declared = declare({"n": {"type": "boolean"}}, source=str(tmp_path / "none.parquet"))
    with pytest.raises(DataError, match="DP-DATA-001"), open_engine(declared, None):
        pass
    assert opened == ["dprelease-connect"]


def interrupted(*_given: Any, **_named: Any) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("where", ["begun", "ahead", "set", "opened"])
def test_an_interrupt_leaves_no_connection(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever it comes: a connection that nobody knows of keeps threads for as long as we live."""
    before = set(connection._OPEN)  # those of sessions that are not over
    if where == "begun":
        monkeypatch.setattr(connection.time, "sleep", interrupted)
    if where == "ahead":
        monkeypatch.setattr(threading.Thread, "join", after(threading.Thread.join))
    if where == "set":
        monkeypatch.setattr(connection, "without_progress", interrupted)
    if where == "opened":
        monkeypatch.setattr(connection, "_opened", after(connection._opened))
    engine = open_engine(declare({"n": {"type": "integer"}}), FRAME)
    with pytest.raises(KeyboardInterrupt):
        with_nothing(opening_ahead() if where in ("begun", "ahead") else engine)
    assert connection._OPEN.keys() <= before


def with_nothing(block: AbstractContextManager[object]) -> None:
    with block:
        pass


@pytest.mark.parametrize("asked", [True, False])
def test_a_timer_that_ends_the_waiting_leaves_no_thread(
    asked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of a signal that nobody holds back, and that comes while the thread is waited for."""
    connect = duckdb.connect

    def slowly(*given: Any, **named: Any) -> Any:
        time.sleep(0.4)
        return connect(*given, **named)

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(duckdb, "connect", slowly)
    before, handler = set(connection._OPEN), signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(TimeoutError):
            timed(tmp_path, asked=asked)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert connection._OPEN.keys() <= before
    for thread in threading.enumerate():
        if thread.name == "dprelease-connect":
            assert not asked  # it is known all the same, so a process waits for it at its end
            thread.join()


def timed(scratch: Path, *, asked: bool) -> None:
    with opening_ahead():
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        if asked:
            closed(connected(scratch, DEFAULT))


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return some work that is interrupted just before its end."""

    def told(*given: Any, **named: Any) -> Any:
        interrupted()
        return work(*given, **named)

    return told


def raised(_link: object) -> None:
    raise TimeoutError


def test_what_else_ends_the_opening_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = set(connection._OPEN)
    monkeypatch.setattr(connection, "without_progress", raised)
    with pytest.raises(TimeoutError):
        connected(tmp_path, DEFAULT)
    assert connection._OPEN.keys() <= before


@pytest.mark.parametrize("ahead", [True, False])
def test_a_fork_waits_for_a_connection(
    ahead: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine's own locks would stay closed in the child, which could open none."""
    connect, begun, done = duckdb.connect, threading.Event(), []

    def slowly(*given: Any, **named: Any) -> Any:
        begun.set()
        time.sleep(0.3)
        link = connect(*given, **named)
        done.append(True)
        return link

    def work() -> None:
        with opening_ahead() if ahead else nullcontext():
            closed(connected(tmp_path, DEFAULT))

    monkeypatch.setattr(duckdb, "connect", slowly)
    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if done and not is_cut() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
