"""The folder of a release: all or nothing, by a staging folder beside it and one rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import OutputError, State
from dprelease.exact.scratch import make_private, remove_stale

MANIFEST = "manifest.json"


def refuse_existing(target: Path, overwrite: bool) -> None:
    """Raise OutputError DP-OUTPUT-001 or 003 unless a release may be published here."""
    _recover(target)
    if not target.exists() and not target.is_symlink():
        return
    if not overwrite:
        raise OutputError("DP-OUTPUT-001", name=target.name)
    if not (target / MANIFEST).is_file():
        raise OutputError("DP-OUTPUT-003", name=target.name)


def _aside(target: Path) -> Path:
    """Return where a release waits while another one takes its place."""
    return target.parent / f".{target.name}.dprelease-replaced"


def _recover(target: Path) -> None:
    """Finish, or undo, an overwrite that a crash cut short; remove staging of dead processes."""
    aside = _aside(target)
    if aside.exists():
        if target.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(target)
    remove_stale(target.parent, _prefix(target))


def _prefix(target: Path) -> str:
    return f".{target.name}.dprelease-staging-"


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """Yield a private folder beside the target, gone afterwards unless it was renamed."""
    folder: Path | None = None
    failure: OutputError | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = make_private(target.parent, _prefix(target))
    except OSError as problem:
        failure = _unwritable(target, problem, State.NOTHING)
    if failure is not None or folder is None:
        raise failure or OutputError("DP-OUTPUT-002", name=target.name, reason="no folder")
    try:
        yield folder
    except OSError as problem:
        failure = _unwritable(target, problem, State.READ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def _unwritable(target: Path, problem: OSError, state: State) -> OutputError:
    reason = (problem.strerror or "the system refused").lower()
    return OutputError("DP-OUTPUT-002", name=target.name, reason=reason, state=state)


def publish(folder: Path, target: Path) -> None:
    """Make the folder readable under its final name; before this rename nothing is."""
    for path in folder.iterdir():
        path.chmod(0o666 & ~_umask())
        _sync(path)
    folder.chmod(0o777 & ~_umask())
    _sync(folder)
    aside = _aside(target)
    if target.exists():
        target.rename(aside)
    folder.rename(target)
    _sync(target.parent)
    if aside.exists():
        shutil.rmtree(aside)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
