"""A thread writes tables while others get noise: the same files, or nothing is published."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import OutputError, State
from dprelease.exact.duckdb import Engine
from dprelease.release.runs import family_run
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.release.build import write
from tests.replay import Keyed

TABLES = 7


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release of several tables."""
    path = write(tmp_path)
    more = "".join(
        f"  more_{i}:\n    from: people\n    group_by: [city]\n"
        '    columns: {rows: {count: "*", margin: true}, age: {sum: age}}\n'
        for i in range(TABLES - 2)
    )
    path.write_text(path.read_text().replace("output:", f"{more}output:"))
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def writing_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("dprelease-write")]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert not writing_threads()


def publish_files(release: Path, name: str) -> dict[str, bytes]:
    output = release.parent / name
    return files_of(run(read_declaration(release), output=output, bits=Keyed("noise")))


def test_same_bytes_with_and_without_a_thread(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: set[str] = set()
    real = family_run.write_pieces

    def told(*given: Any) -> Any:
        names.add(threading.current_thread().name)
        return real(*given)

    monkeypatch.setattr(family_run, "write_pieces", told)
    beside = publish_files(release, "beside")
    assert {name.rpartition("_")[0] for name in names} == {"dprelease-write"}

    start = ThreadPoolExecutor._adjust_thread_count

    def none(self: ThreadPoolExecutor) -> None:
        if self._thread_name_prefix == "dprelease-write":
            raise RuntimeError("can't start new thread")
        start(self)

    names.clear()
    monkeypatch.setattr(ThreadPoolExecutor, "_adjust_thread_count", none)
    assert publish_files(release, "alone") == beside
    assert names == {"MainThread"}
    assert len(beside) == TABLES + 1


def test_one_table_starts_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = family_run.TableWriters._submit

    def submitted(self: family_run.TableWriters, work: family_run.WriteTask) -> None:
        assert real(self, work) is None

    monkeypatch.setattr(family_run.TableWriters, "_submit", submitted)
    path = write(tmp_path)
    text = path.read_text()
    path.write_text(text[: text.index("  all:")] + text[text.index("output:") :])
    assert len(publish_files(path, "one")) == 2


@pytest.mark.parametrize("which", range(TABLES))
def test_nothing_is_published_if_one_table_cannot_be_written(
    which: int, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, number = family_run.write_pieces, iter(range(TABLES))

    def full(*given: Any) -> Any:
        if next(number) == which:
            raise OSError(28, "No space left on device")
        return real(*given)

    monkeypatch.setattr(family_run, "write_pieces", full)
    with pytest.raises(OutputError, match="no space left") as caught:
        publish_files(release, "out")
    assert caught.value.state is State.READ
    assert not list(release.parent.glob("*staging*"))
    assert not (release.parent / "out").exists()


@pytest.mark.parametrize("after", ["writing", "reading"])
def test_signal_during_writing_leaves_nothing(
    after: str, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread ends before its folder is removed."""
    real, begun, going_on = family_run.write_pieces, threading.Event(), threading.Event()
    read = Engine.run

    def slow(*given: Any) -> Any:
        begun.set()
        if after == "writing":
            os.kill(os.getpid(), signal.SIGINT)
        going_on.wait(1)
        return real(*given)

    def stopped(self: Engine, query: Any) -> Any:
        if after == "reading" and begun.is_set():
            raise KeyboardInterrupt
        return read(self, query)

    monkeypatch.setattr(family_run, "write_pieces", slow)
    monkeypatch.setattr(Engine, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        publish_files(release, "out")
    assert not list(release.parent.glob("*staging*"))
    assert not (release.parent / "out").exists()


def test_number_of_waiting_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a table is written, no more than `MOST_WAITING` are held, that one among them."""
    waiting = most = 0
    lock = threading.Lock()

    def work(number: int) -> dict[str, Any]:
        nonlocal waiting
        threading.Event().wait(0.01)
        with lock:
            waiting -= 1
        return {str(number): number}

    with family_run.table_writers(9) as writers:
        for i in range(9):
            with lock:
                waiting += 1
            writers.write(lambda i=i: work(i), at_once=i == 5)
            with lock:
                most = max(most, waiting)
        assert list(writers.finish()) == [str(i) for i in range(9)]
    assert 1 < most <= family_run.MOST_WAITING_TABLES
