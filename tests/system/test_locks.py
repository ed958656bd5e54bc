"""A lock that ends with its process marks what it owns, not the process number (V86)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dprelease.exact.scratch import private_folder, remove_stale
from dprelease.system.locks import Lock, is_held
from tests import processes

ROOT = Path(__file__).parents[2]

HOLDER = """
import sys
from pathlib import Path
from dprelease.exact.scratch import private_folder
with private_folder(Path(sys.argv[1]), "p-") as folder:
    (folder / "spilled").write_text("rows")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["a process", "the first process of a namespace"])
def holder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    own = request.param != "a process"
    words = processes.unshared(*processes.OWN_PROCESSES) if own else []
    with processes.started(
        [*words, sys.executable, "-c", HOLDER, str(tmp_path)],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as found:
        assert processes.first_line(found)
        yield found


def test_folder_stays_while_its_holder_lives(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    remove_stale(tmp_path, "p-")
    (left,) = tmp_path.iterdir()
    assert (left / "spilled").read_text() == "rows"
    assert left.stat().st_mode & 0o777 == 0o700
    os.killpg(holder.pid, signal.SIGKILL)
    # To the end of what is printed: the first process of a namespace has gone as well.
    holder.communicate(timeout=processes.PATIENCE)
    time.sleep(0.5)
    remove_stale(tmp_path, "another-")
    assert list(tmp_path.iterdir()) == [left]
    with private_folder(tmp_path, "p-") as own:
        assert list(tmp_path.iterdir()) == [own]
    assert list(tmp_path.iterdir()) == []


def test_folders_without_a_lock_are_removed(tmp_path: Path) -> None:
    """Those of older versions, and of a process that was killed before it had the lock."""
    (tmp_path / f"p-{os.getpid()}-x" / "spill").mkdir(parents=True)
    (tmp_path / "p-file").write_text("not a folder")
    (tmp_path / "p-link").symlink_to(ROOT)
    remove_stale(tmp_path, "p-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p-file", "p-link"]
    assert (ROOT / "dprelease").is_dir()


def test_concurrent_creation_and_cleanup_of_folders(tmp_path: Path) -> None:
    """Who makes one while others look for leftovers has it, with its lock, as long as it wants."""
    lost: list[str] = []

    def work() -> None:
        for _ in range(60):
            with private_folder(tmp_path, "p-") as folder:
                (folder / "mine").write_text("rows")
                remove_stale(tmp_path, "p-")
                if not (folder / "mine").exists():
                    lost.append(folder.name)

    processes.in_threads([work] * 4)
    assert lost == []
    assert list(tmp_path.iterdir()) == []


def test_one_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    first = Lock.acquire(path)
    assert first is not None
    assert Lock.acquire(path) is None
    assert is_held(path)
    child = os.fork()
    if child == 0:  # a child has none of its parent's locks, and can't let go of them
        first.release()
        os._exit(0 if is_held(path) else 1)
    assert processes.ended(child) == 0
    assert is_held(path)
    first.release()
    assert not path.exists()
    second = Lock.acquire(path)
    assert second is not None
    first.release()  # nothing twice
    assert is_held(path)
    second.release()


def test_forked_child_does_not_keep_a_lock(tmp_path: Path) -> None:
    """A worker that outlives the run that forked it is not that run."""
    path = tmp_path / "lock"
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        lock = Lock.acquire(path)
        worker = os.fork()
        if worker == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
        os._exit(0 if lock is not None else 1)
    os.close(ours)
    assert processes.ended(child) == 0
    deadline = time.monotonic() + 30
    while is_held(path) and time.monotonic() < deadline:
        time.sleep(0.01)  # the worker lets go as soon as it is there
    assert not is_held(path)
    os.close(theirs)


def test_lock_refuses_symlinks(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        Lock.acquire(tmp_path / "lock")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_locks_of_others_in_a_shared_folder(tmp_path: Path) -> None:
    """Two people of one group: whoever was killed is in nobody's way, who is alive is seen."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    path, other = shared / "lock", 12345
    path.touch(0o644)

    def asked() -> int:
        """Return what another user sees: that it is held, that it was taken."""
        child = os.fork()
        if child == 0:
            code = 9
            try:
                os.chdir(shared)  # the folders that it is in may be ours alone
                os.setuid(other)
                held = is_held(Path(path.name))
                taken = Lock.acquire(Path(path.name))
                code = held + 2 * (taken is not None)
                if taken is not None:
                    taken.release()
            finally:
                os._exit(code)
        return processes.ended(child)

    assert asked() == 2
    assert not path.exists()
    held = Lock.acquire(path)
    assert held is not None
    assert asked() == 1
    assert path.exists()
    held.release()
