"""What tests start ends with them, whatever it does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import processes

TESTS = Path(__file__).parent
HANGS = "import os, time; os.fork(); print(os.getpid(), flush=True); time.sleep(600)"


def test_hanging_process_is_killed_with_its_children() -> None:
    """They hold its output open, so that nobody would come to the end of it."""
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run([sys.executable, "-c", HANGS], patience=2.0, capture_output=True)
    assert time.monotonic() - start < 60


def test_hanging_fork_is_killed() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    with pytest.raises(TimeoutError):
        processes.ended(child, patience=0.1)


def test_tests_use_processes_with_time_limits() -> None:
    """Benchmarks and comparisons are scripts, watched by who runs them."""
    scripts = (*TESTS.glob("benchmarks/*.py"), TESTS / "same_releases.py")
    mine = (TESTS / "processes.py", Path(__file__), *scripts)
    waiting = re.compile(r"subprocess\.(run|Popen|check_output|check_call|call)\(")
    found = [path.name for path in TESTS.rglob("*.py") if waiting.search(path.read_text())
             and path not in mine]  # fmt: skip
    assert found == [], "tests.processes has `run` and `started`, which end"
