"""The folder of a release: claimed for a whole run, then all or nothing by one rename."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from dprelease.errors import OutputError, RunState
from dprelease.exact.scratch import folders_with_prefix
from dprelease.release.replaceable import MANIFEST, refuse_irreplaceable
from dprelease.system.deferred_signals import defer_signals
from dprelease.system.entries import entries
from dprelease.system.files import reason_of
from dprelease.system.forks import Maker
from dprelease.system.locks import Lock
from dprelease.system.renaming import exchange, rename_new

TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
"""What the system answers where something has the name already."""

STATUS = Path("/proc/self/status")
UMASK = re.compile(rb"^Umask:\s*([0-7]+)$", re.MULTILINE)
"""Where the kernel tells it, see proc(5)."""


class Claim:
    """The sole right to publish at a target, and the private folder that is filled for it.

    The right is a lock of a file beside the target. Whoever has it is the only run there, so all
    private folders for that target that it finds are leftovers.
    """

    def __init__(self, target: Path, folder: Path, overwrite: bool) -> None:
        self.target, self._folder, self._overwrite = target, folder, overwrite
        self._maker = Maker()

    @property
    def folder(self) -> Path:
        """Return the private folder.

        Raises
        ------
        OutputError
            DP-OUTPUT-013 in a forked process: the claim, and what is in the folder, are the run's.
        """
        if not self._maker.is_here:
            raise OutputError("DP-OUTPUT-013", name=self.target.name)
        return self._folder

    def end(self) -> None:
        """Remove the private folder, if it is there still and this is no forked process."""
        if self._maker.is_here:
            with defer_signals():
                _discard(self._folder)

    def refuse_left(self) -> None:
        """Raise OSError if anything is in the private folder, all of which would be published."""
        for path in self.folder.iterdir():
            raise OSError(errno.EBUSY, f"'{path.name}' can't be removed")

    def refuse_others(self, files: Collection[str]) -> None:
        """Raise OutputError DP-OUTPUT-017 unless these files are all that is in the private folder.

        Their names alone are looked at: what their bytes are is the manifest's to tell.
        """
        found = {
            name: entry.is_file(follow_symlinks=False)
            for name, entry in entries(self.folder, files)
        }
        others = sorted(name for name, is_file in found.items() if name not in files or not is_file)
        for name in [*others, *sorted(set(files) - found.keys())]:
            what = "came into" if name in others else "was removed from"
            raise OutputError("DP-OUTPUT-017", name=self.target.name, file=name, what=what)

    def store(self) -> None:
        """Bring all files to the disk, with the rights that they are published with."""
        left_out = _umask()
        for path in self.folder.rglob("*"):
            path.chmod((0o777 if path.is_dir() else 0o666) & ~left_out)
            _sync(path)
        _sync(self.folder)

    def publish(self, state: RunState) -> None:
        """Make the folder readable under its final name; before this rename nothing is.

        Raises
        ------
        OutputError
            As `claim_target`, if the folder got something that would be replaced; as `folder`.
        OSError
            If the system refuses; `state` tells whether the release is readable all the same.
        """
        replaces = self._overwrite and os.path.lexists(self.target)
        if replaces:
            refuse_irreplaceable(self.target)
        self.folder.chmod(0o777 & ~_umask())
        mine = self.folder.stat()
        replaced: Path | None = None
        try:
            if replaces:
                replaced = exchange(self.folder, self.target, _aside(self.target))
            else:
                rename_new(self.folder, self.target)
            state.released = True
        except BaseException:
            state.released = _is(self.target, mine)
            raise
        try:
            _sync(self.target.parent)
        finally:
            if replaced is not None:
                with defer_signals():
                    _discard(replaced)


@contextmanager
def claim_target(target: Path, overwrite: bool, state: RunState) -> Iterator[Claim]:
    """Yield the claim of a target, for as long as a run lasts; its private folder is gone then.

    Raises
    ------
    OutputError
        DP-OUTPUT-001, 003, 009 or 010 if a release may not be published here, 006 if another run
        is at work on it, 002 if the system refuses, also later in the block.
    """
    failure: OSError | None = None
    try:
        target = _resolve_dots(target)
        _refuse_undecodable(target)
        _make(target.parent)
        with _lock_target(target):
            _refuse_existing(target, overwrite)
            claim: Claim | None = None
            try:
                with defer_signals():
                    folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
                    claim = Claim(target, folder, overwrite)
                yield claim
            finally:
                if claim is not None:
                    claim.end()
    except OSError as problem:
        failure = problem
    if failure is not None:
        raise _output_error(target, failure, state)


@contextmanager
def _lock_target(target: Path) -> Iterator[None]:
    lock: Lock | None = None
    try:
        with defer_signals():
            lock = Lock.take(target.parent / f".{target.name}.dprelease-lock")
        if lock is None:
            raise OutputError("DP-OUTPUT-006", name=target.name)
        yield
    finally:
        if lock is not None:
            with defer_signals():
                lock.let_go()


def _make(folder: Path, missing: bool = False) -> None:
    """Make a folder, and those that it is in, where they are not there, and bring them to the disk.

    A release that was confirmed would else be lost with a folder that the disk never heard of.
    `missing`: it was not there a moment ago, so whoever has made it may still be at this.
    """
    try:
        folder.mkdir()
    except FileNotFoundError:
        _make(folder.parent, missing=True)
        folder.mkdir(exist_ok=True)
    except OSError as problem:
        if not folder.is_dir():
            if isinstance(problem, FileExistsError):
                _refuse_no_folder(folder)
            raise
        if not missing:
            return
    _sync(folder.parent)


def _refuse_no_folder(path: Path) -> None:
    """Raise OSError for what has the name of a folder: a file, or a link that leads to none."""
    path.stat()
    raise NotADirectoryError(errno.ENOTDIR, f"'{path.name}', which it would be in, is no folder")


def _resolve_dots(path: Path) -> Path:
    """Return a target by a name of its own: "." and ".." name no place that can be taken."""
    return path if path.name not in ("", "..") else path.resolve()


def _refuse_undecodable(target: Path) -> None:
    """Raise OSError for a name that is no UTF-8: not all of what writes files takes it."""
    try:
        os.path.abspath(target).encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name is not UTF-8") from None


def _refuse_existing(target: Path, overwrite: bool) -> None:
    """Raise OutputError DP-OUTPUT-001, 003, 009 or 010 unless one may be published here."""
    _recover(target)
    if not os.path.lexists(target):
        return
    refuse_irreplaceable(target)
    if not overwrite:
        raise OutputError("DP-OUTPUT-001", name=target.name)


def _recover(target: Path) -> None:
    """Finish, or undo, an overwrite that a kill cut short; remove what other runs have left."""
    aside = _aside(target)
    if os.path.lexists(aside):
        if not os.path.lexists(target):
            aside.rename(target)
        elif (target / MANIFEST).is_file():  # else the only release there is waits aside
            _discard(aside)
    for folder in folders_with_prefix(target.parent, _prefix(target)):
        _discard(folder)


def working_names(target: Path) -> tuple[Path, ...]:
    """Return where a release may be for a while besides its target; one name stands for many."""
    return target.parent / f"{_prefix(target)}{'x' * 8}", _aside(target)


def _aside(target: Path) -> Path:
    """Return where a release waits while another one takes its place, if it has to."""
    return target.parent / f".{target.name}.dprelease-replaced"


def _prefix(target: Path) -> str:
    return f".{target.name}.dprelease-staging-"


def _discard(path: Path) -> None:
    """Remove a folder, or a link to one; never raises: the next run tries again."""
    with contextlib.suppress(OSError):
        if path.is_symlink():
            path.unlink()
            return
    shutil.rmtree(path, ignore_errors=True)


def _output_error(target: Path, problem: OSError, state: RunState) -> OutputError:
    name, reason = target.name, reason_of(problem)
    if state.released:
        return OutputError("DP-OUTPUT-008", name=name, reason=reason)
    if state.rows and problem.errno in TAKEN and os.path.lexists(target):
        return OutputError("DP-OUTPUT-001", name=name)  # somebody put it there meanwhile
    return OutputError("DP-OUTPUT-002", name=name, reason=reason, refused_by=problem)


def _is(target: Path, folder: os.stat_result) -> bool | None:
    """Return whether a path names a folder now; None where the system does not tell."""
    try:
        return os.path.samestat(target.lstat(), folder)
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _umask() -> int:
    """Return the mask of new files' rights.

    To ask by setting it is no question: other threads would make files under what is set meanwhile,
    and two that ask at once may leave it so.
    """
    with contextlib.suppress(OSError):
        match = UMASK.search(STATUS.read_bytes())
        if match:
            return int(match[1], 8)
    mask = os.umask(0o077)  # another system than Linux
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
