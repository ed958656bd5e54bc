"""A copy of the repository with one fault in it, and tests and commands that are run there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import processes
from tests.planted import failure_log
from tests.planted.changes import PACKAGE, ROOT
from tests.planted.faults import RELEASES, Fault

PATIENCE = 300.0
"""Seconds for the tests of one fault: many times what they need."""

LIMITS = {False: 120.0, True: 240.0}
"""The time limit of `dprelease audit` in seconds, without drawn answers and with them."""

COPIED = (PACKAGE, "tests")
"""Folders that are copied; links to the others suffice."""

FAILURES = "failures.jsonl"

CHECKS = frozenset({"AssertionError", "Failed"})
"""What a failed assertion raises, and `pytest.raises` where nothing is raised."""


@contextmanager
def copied(fault: Fault | None) -> Iterator[Path]:
    """Yield a copy of the repository with a fault, or without one."""
    with TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        for entry in ROOT.iterdir():
            if entry.name in COPIED:
                shutil.copytree(entry, folder / entry.name)
            elif not entry.name.startswith(".") and entry.name != "out":
                (folder / entry.name).symlink_to(entry)
        if fault is not None:
            path = folder / fault.change.path
            changed = fault.change.apply(path.read_text(encoding="utf-8"))
            path.write_text(changed, encoding="utf-8")
        yield folder


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed, in which phase, and what it raised."""

    test: str
    when: str
    errors: tuple[str, ...]
    words: str

    def is_right(self, errors: Sequence[str]) -> bool:
        """Return whether an assertion of the test failed, or an error that the fault expects."""
        return self.when == "call" and set(self.errors) <= CHECKS | set(errors)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of tests in a copy; `code` is that of pytest: 0 if all passed, 1 if some failed."""

    code: int
    failures: tuple[Failure, ...]
    printed: str


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that imports the copy."""
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HYPOTHESIS_PROFILE": "planted",
        failure_log.LOG: str(folder / FAILURES),
    }


def outcome_of(folder: Path, tests: Sequence[str], patience: float = PATIENCE) -> Outcome:
    """Run tests in a copy."""
    plugins = [f"{failure_log.__name__}", "no:cacheprovider", "no:randomly"]
    options = [word for name in plugins for word in ("-p", name)]
    # A test fails once only (`failure_log`), so more failures than tests are impossible.
    options.append(f"--maxfail={len(tests)}")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", *options, *tests]
    done = processes.run(
        command,
        patience=patience,
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = folder / FAILURES
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    return Outcome(
        done.returncode, tuple(_failure(json.loads(line)) for line in lines), done.stdout
    )


def _failure(held: dict[str, Any]) -> Failure:
    return Failure(held["test"], held["when"], tuple(held["errors"]), held["words"])


def missed(fault: Fault, outcome: Outcome) -> list[str]:
    """Return the tests of a fault that did not find it, or failed for another reason."""
    right = {one.test for one in outcome.failures if one.is_right(fault.errors)}
    return [test for test in fault.tests if test.partition("[")[0] not in right]


def audited(folder: Path, release: str, *, drawn: bool) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `dprelease audit` on a small release, and the outcome that it prints.

    `drawn`: whether it also draws a million answers.
    """
    there = folder / RELEASES.relative_to(ROOT) / release
    limit = LIMITS[drawn]
    words = ["audit", "release.yaml", "--json", "--time-limit", str(limit)]
    done = processes.run(
        [sys.executable, "-m", PACKAGE, *words, "--draws" if drawn else "--no-draws"],
        patience=limit + PATIENCE,
        cwd=there,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("{"), done.stderr
    return done.returncode, json.loads(done.stdout)
