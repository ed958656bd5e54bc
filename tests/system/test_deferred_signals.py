"""Signals are deferred until steps that must not be interrupted end."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dprelease.errors import RunState
from dprelease.exact.scratch import private_folder
from dprelease.release.folder import claim_target
from dprelease.system.deferred_signals import ENDING_SIGNALS, defer_signals, temporary_folder

SIGNALS = [pytest.param(number, id=number.name) for number in ENDING_SIGNALS]


@pytest.fixture(autouse=True)
def _python_handlers() -> Iterator[None]:
    """Handle all signals in Python, as in a command."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, interrupt) for number in ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        assert signal.signal(number, handler) is interrupt, "a handler was not given back"


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_is_handled_after_the_block(number: signal.Signals) -> None:
    done = []

    @defer_signals()
    def steps() -> None:
        for step in range(3):
            os.kill(os.getpid(), number)
            done.append(step)

    with pytest.raises(KeyboardInterrupt) as caught:
        steps()
    assert done == [0, 1, 2]
    assert caught.value.args == (number,)


def test_first_signal_is_handled_after_all_blocks() -> None:
    done = []

    @defer_signals()
    def inner() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("inner")

    @defer_signals()
    def outer() -> None:
        inner()
        os.kill(os.getpid(), signal.SIGINT)
        done.append("outer")

    with pytest.raises(KeyboardInterrupt) as caught:
        outer()
    assert done == ["inner", "outer"]
    assert caught.value.args == (signal.SIGTERM,)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with defer_signals():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


def test_error_of_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="its own"), defer_signals():
        raise ValueError("its own")


def test_other_threads_do_not_change_handlers() -> None:
    handlers, seen = [signal.getsignal(number) for number in ENDING_SIGNALS], []

    def work() -> None:
        with defer_signals():
            seen.append([signal.getsignal(number) for number in ENDING_SIGNALS])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handlers]


@contextmanager
def a_claim(parent: Path) -> Iterator[Path]:
    with claim_target(parent / "out", False, RunState()) as claim:
        yield claim.folder


FOLDERS: dict[str, Callable[[Path], AbstractContextManager[Path]]] = {
    "temporary": lambda parent: temporary_folder("dprelease-", parent),
    "locked": lambda parent: private_folder(parent, "dprelease-"),
    "claimed": a_claim,
}


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("ended_before", [False, True])
def test_signals_leave_no_partial_folder(
    kind: str, ended_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at every file that is removed: at the end, and behind a first one in the block."""
    real, removed = shutil.rmtree, []

    def disturbed(path: Path, *given: Any, **named: Any) -> None:
        for file in sorted(Path(path).rglob("*")):
            os.kill(os.getpid(), signal.SIGINT)
            removed.append(file.name)
        real(path, *given, **named)

    def used() -> None:
        with FOLDERS[kind](tmp_path) as folder:
            for name in "abc":
                (folder / name).write_text("noised")
            if ended_before:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    with pytest.raises(KeyboardInterrupt):
        used()
    assert {*"abc"} <= {*removed}
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", FOLDERS)
def test_signal_during_folder_creation_leaves_none(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def made(*given: Any, **named: Any) -> None:
        real(*given, **named)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "mkdir", made)
    with pytest.raises(KeyboardInterrupt), FOLDERS[kind](tmp_path):
        pytest.fail("nobody should get it")
    assert [*tmp_path.iterdir()] == []
