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
from tests.planted import telling
from tests.planted.faults import PACKAGE, RELEASES, ROOT, Fault

PATIENCE = 300.0
"""Seconds for the tests of one fault: many times what they take."""

LIMITS = {False: 120.0, True: 240.0}
"""Seconds after which `dprelease audit` begins nothing more, without drawn answers and with them."""

COPIED = (PACKAGE, "tests")
"""Folders that a run finds itself in; links to the others do."""

CHECKS = frozenset({"AssertionError", "Failed"})
"""What a failed assertion raises, and pytest for what was to be raised and was not."""


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
            path = folder / fault.path
            path.write_text(fault.planted(path.read_text(encoding="utf-8")), encoding="utf-8")
        yield folder


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed, in which phase, and what was raised."""

    test: str
    when: str
    errors: tuple[str, ...]
    words: str

    def is_right(self, raised: Sequence[str]) -> bool:
        """Return whether it is by what the test asserts, or by an error that is known to follow."""
        return self.when == "call" and set(self.errors) <= CHECKS | set(raised)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of tests in a copy; `code` is that of pytest: 0 if all passed, 1 if some failed."""

    code: int
    failures: tuple[Failure, ...]
    printed: str


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that finds the copy, and nothing else of the package."""
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HYPOTHESIS_PROFILE": "planted",
        telling.TOLD: str(folder / "told.jsonl"),
    }


def outcome_of(folder: Path, tests: Sequence[str], patience: float = PATIENCE) -> Outcome:
    """Return what comes of tests in a copy."""
    plugins = [f"{telling.__name__}", "no:cacheprovider", "no:randomly"]
    options = [word for name in plugins for word in ("-p", name)]
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
    told = folder / "told.jsonl"
    lines = told.read_text(encoding="utf-8").splitlines() if told.is_file() else []
    return Outcome(
        done.returncode, tuple(_failure(json.loads(line)) for line in lines), done.stdout
    )


def _failure(held: dict[str, Any]) -> Failure:
    return Failure(held["test"], held["when"], tuple(held["errors"]), held["words"])


def missed(fault: Fault, outcome: Outcome) -> list[str]:
    """Return the tests that were to find a fault and did not, or not for the right reason."""
    right = {one.test for one in outcome.failures if one.is_right(fault.raised)}
    return [test for test in fault.tests if test.partition("[")[0] not in right]


def audited(folder: Path, release: str, *, drawn: bool) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `dprelease audit` on a small release, and the outcome that it prints.

    `drawn`: whether answers are drawn by the million as well.
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
