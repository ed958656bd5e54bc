"""The folder of a release: it is claimed for a whole run, and published by one rename."""

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

from dprelease.documents.encoding import NAME, SIGNATURE
from dprelease.documents.file_records import listed_files
from dprelease.errors import OutputError, RunState
from dprelease.exact.scratch import folders_with_prefix
from dprelease.system.deferred_signals import defer_signals
from dprelease.system.files import NotRegularFile, TooLarge, entries, read_file, reason_of
from dprelease.system.forks import Maker
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.system.locks import Lock
from dprelease.system.renaming import exchange, is_mounted, rename_new

# Check what --overwrite may replace: a release, and nothing else that is stored in its folder.


def refuse_irreplaceable(target: Path) -> None:
    """Raise OutputError unless the target is exactly one release, which can be replaced.

    Replacing a folder deletes everything in it: another release, the ledger, the source.

    Raises OutputError: DP-OUTPUT-003 if it is not a release, 009 if it holds more than one, 010 if
    it is a mount point.
    """
    names = _release_file_names(target)
    if names is None:
        raise OutputError("DP-OUTPUT-003", name=target.name)
    if target.is_symlink():
        return  # only the link is replaced, and its target stays
    if is_mounted(target):
        raise OutputError("DP-OUTPUT-010", name=target.name)
    others = sorted(
        name
        for name, entry in entries(target, names, is_mounted)
        if name not in names or entry.is_dir()
    )
    if others:
        raise OutputError("DP-OUTPUT-009", name=target.name, other=others[0])


def refuse_inside_release(target: Path) -> None:
    """Raise OutputError DP-OUTPUT-024 for a target in a release, whose manifest lists all files."""
    parent = Path(os.path.realpath(target.parent))  # unlike `resolve`, without errors for loops
    for folder in (parent, *parent.parents):
        with contextlib.suppress(OSError):
            if _release_file_names(folder) is not None:
                raise OutputError("DP-OUTPUT-024", name=target.name, folder=folder.name)


def _release_file_names(target: Path) -> set[str] | None:
    """Return the names of the files of a release; None if the folder is not a release."""
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))
        return {NAME, SIGNATURE, *listed_files(record)}
    except (NotRegularFile, TooLarge, FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


NAME_EXISTS_ERRORS = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
"""Error numbers of the system if the name already exists."""

STATUS = Path("/proc/self/status")
UMASK = re.compile(rb"^Umask:\s*([0-7]+)$", re.MULTILINE)
"""The line in which the kernel reports the umask, see proc(5)."""


class Claim:
    """The exclusive right to publish at a target, and the private folder for its files.

    The right is a lock on a file next to the target. Only one run holds it, so all other private
    folders for that target are leftovers of interrupted runs.
    """

    def __init__(self, target: Path, folder: Path, overwrite: bool) -> None:
        self.target, self._folder, self._overwrite = target, folder, overwrite
        self._maker = Maker()

    @property
    def folder(self) -> Path:
        """Return the private folder.

        Raises OutputError: DP-OUTPUT-013 in a forked process, because claim and folder belong to
        the parent's run.
        """
        if not self._maker.is_here:
            raise OutputError("DP-OUTPUT-013", name=self.target.name)
        return self._folder

    def remove(self) -> None:
        """Remove the private folder if it still exists, unless this is a forked process."""
        if self._maker.is_here:
            with defer_signals():
                _remove_folder(self._folder)

    def refuse_leftovers(self) -> None:
        """Raise OSError if the private folder is not empty, because all of it gets published."""
        for path in self.folder.iterdir():
            raise OSError(errno.EBUSY, f"'{path.name}' can't be removed")

    def refuse_others(self, files: Collection[str]) -> None:
        """Raise OutputError DP-OUTPUT-017 unless the private folder holds exactly these files.

        Only names are checked: the manifest records the digests of their bytes.
        """
        found = {
            name: entry.is_file(follow_symlinks=False)
            for name, entry in entries(self.folder, files)
        }
        others = sorted(name for name, is_file in found.items() if name not in files or not is_file)
        for name in [*others, *sorted(set(files) - found.keys())]:
            what = "came into" if name in others else "was removed from"
            raise OutputError("DP-OUTPUT-017", name=self.target.name, file=name, what=what)

    def sync_files(self) -> None:
        """Sync all files to the disk, with their final permissions."""
        left_out = _process_umask()
        for path in self.folder.rglob("*"):
            # The private folder was closed to others; readers get the permissions that the user's
            # umask gives to all new files.
            path.chmod((0o777 if path.is_dir() else 0o666) & ~left_out)
            _sync_to_disk(path)
        _sync_to_disk(self.folder)

    def publish(self, state: RunState) -> None:
        """Make the folder readable under its final name by a rename; before it nothing is readable.

        Raises OutputError: the errors of `claim_target` if something now exists that would be
        replaced; those of `folder`. Raises OSError if the system refuses; `state` records whether
        the release is readable nevertheless.
        """
        replaces = self._overwrite and os.path.lexists(self.target)
        if replaces:
            # Checked again, because something may have been put there since the claim.
            refuse_irreplaceable(self.target)
        self.folder.chmod(0o777 & ~_process_umask())
        # Known before the rename, so that the folder is recognized under either name if the rename
        # fails.
        mine = self.folder.stat()
        replaced: Path | None = None
        try:
            if replaces:
                replaced = exchange(self.folder, self.target, _replaced_release_path(self.target))
            else:
                rename_new(self.folder, self.target)
            state.released = True
        except BaseException:
            # A signal may arrive after the system has renamed the folder.
            state.released = _is_same_folder(self.target, mine)
            raise
        try:
            # A rename is on the disk only when the folder that has the name is.
            _sync_to_disk(self.target.parent)
        finally:
            if replaced is not None:
                with defer_signals():
                    _remove_folder(replaced)


@contextmanager
def claim_target(target: Path, overwrite: bool, state: RunState) -> Iterator[Claim]:
    """Claim a target during the block; the private folder is removed at the end of the block.

    Raises OutputError: DP-OUTPUT-001, 003, 009, 010 or 024 if no release may be published here; 006
    if another run has claimed the target; 002 if the system refuses, also later in the block.
    """
    failure: OSError | None = None
    try:
        target = _resolve_dots(target)
        _refuse_undecodable(target)
        refuse_inside_release(target)
        _create_folder(target.parent)
        with lock_target(target):
            # Only under the lock: it removes the leftovers of other runs, which the folder of a
            # live run must not be taken for.
            _refuse_existing(target, overwrite)
            claim: Claim | None = None
            try:
                with defer_signals():
                    folder = Path(
                        # Next to the target, because a rename works within one file system only.
                        tempfile.mkdtemp(prefix=_private_folder_prefix(target), dir=target.parent)
                    )
                    claim = Claim(target, folder, overwrite)
                yield claim
            finally:
                if claim is not None:
                    claim.remove()
    except OSError as problem:
        failure = problem
    if failure is not None:
        raise _output_error(target, failure, state)


@contextmanager
def lock_target(target: Path) -> Iterator[None]:
    """Hold the lock of a target during the block; raise OutputError DP-OUTPUT-006 if taken."""
    lock: Lock | None = None
    try:
        with defer_signals():
            lock = Lock.acquire(target.parent / f".{target.name}.dprelease-lock")
        if lock is None:
            raise OutputError("DP-OUTPUT-006", name=target.name)
        yield
    finally:
        if lock is not None:
            with defer_signals():
                lock.release()


def _create_folder(folder: Path, missing: bool = False) -> None:
    """Create a folder and its missing parents, and sync them to the disk.

    Otherwise a power failure could lose the folder of a confirmed release. `missing`: the folder
    did not exist a moment ago. If it exists now, another process has created it and may not have
    synced it.
    """
    try:
        folder.mkdir()
    except FileNotFoundError:
        _create_folder(folder.parent, missing=True)
        folder.mkdir(exist_ok=True)
    except OSError as problem:
        if not folder.is_dir():
            if isinstance(problem, FileExistsError):
                _refuse_non_folder(folder)
            raise
        if not missing:
            return
    _sync_to_disk(folder.parent)


def _refuse_non_folder(path: Path) -> None:
    """Raise OSError if a folder's path names a file, or a link to nothing."""
    path.stat()
    raise NotADirectoryError(errno.ENOTDIR, f"'{path.name}', its parent, is not a folder")


def _resolve_dots(path: Path) -> Path:
    """Return a target path without "." and "..", which can't be claimed."""
    return path if path.name not in ("", "..") else path.resolve()


def _refuse_undecodable(target: Path) -> None:
    """Raise OSError for a name that is not UTF-8, because not every writer accepts it."""
    try:
        os.path.abspath(target).encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name is not UTF-8") from None


def _refuse_existing(target: Path, overwrite: bool) -> None:
    """Raise OutputError DP-OUTPUT-001, 003, 009 or 010 unless a release may be published here."""
    _recover_interrupted_overwrite(target)
    if not os.path.lexists(target):
        return
    refuse_irreplaceable(target)
    if not overwrite:
        raise OutputError("DP-OUTPUT-001", name=target.name)


def _recover_interrupted_overwrite(target: Path) -> None:
    """Finish or undo an interrupted overwrite, and remove the leftovers of other runs."""
    aside = _replaced_release_path(target)
    if os.path.lexists(aside):
        # A link to nothing is in the way as well, but `exists` would not see it.
        if not os.path.lexists(target):
            aside.rename(target)
        # otherwise the release that was moved aside is the only copy
        elif (target / NAME).is_file():
            _remove_folder(aside)
    for folder in folders_with_prefix(target.parent, _private_folder_prefix(target)):
        _remove_folder(folder)


def temporary_paths(target: Path) -> tuple[Path, ...]:
    """Return other paths where a release may temporarily be; a pattern stands for several."""
    return target.parent / f"{_private_folder_prefix(target)}{'x' * 8}", _replaced_release_path(
        target
    )


def _replaced_release_path(target: Path) -> Path:
    """Return the path to which a release is moved while another one replaces it."""
    return target.parent / f".{target.name}.dprelease-replaced"


def _private_folder_prefix(target: Path) -> str:
    return f".{target.name}.dprelease-staging-"


def _remove_folder(path: Path) -> None:
    """Remove a folder, or a link to a folder; never raises, because the next run tries again."""
    with contextlib.suppress(OSError):
        if path.is_symlink():
            path.unlink()
            return
    shutil.rmtree(path, ignore_errors=True)


def _output_error(target: Path, problem: OSError, state: RunState) -> OutputError:
    """Return the error for a refusal of the system, in the state of the run."""
    name, reason = target.name, reason_of(problem)
    if state.released:
        return OutputError("DP-OUTPUT-008", name=name, reason=reason)
    if state.rows and problem.errno in NAME_EXISTS_ERRORS and os.path.lexists(target):
        return OutputError("DP-OUTPUT-001", name=name)  # another process created it meanwhile
    return OutputError("DP-OUTPUT-002", name=name, reason=reason, refused_by=problem)


def _is_same_folder(target: Path, folder: os.stat_result) -> bool | None:
    """Return whether a path now names this folder; None if the system can't say."""
    try:
        return os.path.samestat(target.lstat(), folder)
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _process_umask() -> int:
    """Return the umask of the process.

    It is not read with os.umask, which sets it: other threads would create files with the temporary
    value, and two simultaneous calls could leave it changed.
    """
    with contextlib.suppress(OSError):
        match = UMASK.search(STATUS.read_bytes())
        if match:
            return int(match[1], 8)
    mask = os.umask(0o077)  # systems other than Linux
    os.umask(mask)
    return mask


def _sync_to_disk(path: Path) -> None:
    """Write a file or folder from the system's memory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
