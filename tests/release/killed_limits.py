"""Runs of a release that chooses limits, in processes that die at one of their steps."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dprelease.exact import engines
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.store import Store
from dprelease.release import execute, folder
from dprelease.release.runs import family_run, pipeline
from dprelease.schema.load import read_declaration
from tests.ledger.crash import stepping
from tests.processes import ended

STEPS = (
    (pipeline, ("execute", "read_chosen_limits", "with_chosen_limits")),
    (execute, ("open_publication", "copy_declared_files")),
    (engines, ("open_engines",)),
    (family_run, ("streaming", "write_pieces")),
    (folder, ("_sync_to_disk", "rename_new")),
    (Ledger, ("reserve", "read", "publish", "commit")),
    (Store, ("append",)),
)


def _run(release: Path, target: int, count: list[int]) -> None:
    """Run a release in this process, which dies at a step; no step has the number 0."""
    for owner, names in STEPS:
        for name in names:
            setattr(owner, name, stepping(count, target, getattr(owner, name)))
    pipeline.run(read_declaration(release))


def count_steps(release: Path) -> int:
    """Return the number of steps of a whole run."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = [0]
        try:
            _run(release, 0, count)
            os.write(writer, str(count[0]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    ended(child)
    with os.fdopen(reader) as text:
        return int(text.read())


def run_killed_at(release: Path, target: int, *, wait: bool = True) -> int:
    """Return whether a run was killed at its step; without `wait`, its process, which still runs."""
    child = os.fork()
    if child == 0:
        try:
            _run(release, target, [0])
        finally:
            os._exit(0)
    return ended(child) == -signal.SIGKILL if wait else child
