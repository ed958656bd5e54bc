"""Processes, forks and threads of tests: each is waited for so long and no longer.

The limit that a whole test has ends that test alone. What it has started would be waited for where
its block ends, or would go on behind the tests that follow: here it is killed, with its children.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PATIENCE = 120.0
"""Seconds: many times what any of them takes, and less than a whole test has."""


@contextmanager
def started(command: list[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Yield a process that can't ask the terminal; it is killed where this ends, with its children."""
    given = {"stdin": subprocess.DEVNULL, **options, "start_new_session": True}
    with subprocess.Popen(command, **given) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run(
    command: list[Any],
    *,
    patience: float = PATIENCE,
    input: str | bytes | None = None,  # noqa: A002 - as it is called there
    capture_output: bool = False,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Do what `subprocess.run` does; raise TimeoutExpired if it takes longer than that."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with started(command, **options) as process:
        out, err = process.communicate(input, timeout=patience)
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def first_line(process: subprocess.Popen[Any]) -> Any:
    """Return the first line that a process prints, in one piece."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        raise TimeoutError(f"no line of {process.args}")
    return process.stdout.readline()


def ended(child: int, patience: float = PATIENCE) -> int:
    """Return the exit code of a fork; kill it if it does not end."""
    end = time.monotonic() + patience
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError("a fork did not end")
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(found[1])


def in_threads(works: Iterable[Callable[[], object]]) -> None:
    """Do all of this at once, each in its thread; one that hangs does not outlive the tests."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread did not end"


def unshared(*kinds: str) -> list[str]:
    """Return the command that starts another one in namespaces of its own, or skip the test."""
    command = ["unshare", *kinds]
    try:
        if run([*command, "true"], capture_output=True).returncode == 0:
            return command
    except FileNotFoundError:
        pass
    pytest.skip(f"{' '.join(command)} is not allowed here")


OWN_PROCESSES = ("--pid", "--fork", "--user", "--map-current-user")
OWN_MOUNTS = ("--mount", "--user", "--map-root-user")
