"""The message at the end of a run fits the disk and the ledger, whichever system call failed (V85).

And what is readable after a kill at any system call is charged (V80).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.system.faulty_runs import FROM_THEN_ON, KILL, MODES, ONCE, WAYS

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux",
    reason="faults are put below the C library of Linux by a small library that has to be compiled",
)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes calls fail."""
    made = tmp_path_factory.mktemp("faults") / "faults.so"
    source = str(Path(__file__).parent / "faults.c")
    processes.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(made), source, "-ldl"], check=True)
    return made


LONG = 10
"""Of runs of which every so many calls fail, all take minutes."""


def run_with_faults(folder: Path, faults: Path, way: str, mode: str, first: int, every: int) -> str:
    (folder / "tmp").mkdir(parents=True)
    environment = dict(os.environ, PYTHONPATH=str(ROOT), LD_PRELOAD=str(faults))
    command = [sys.executable, "-m", "tests.system.faulty_runs", str(folder), way, mode]
    done = processes.run(
        [*command, str(first), str(every)],
        env=environment | {"TMPDIR": str(folder / "tmp")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        patience=processes.PATIENCE if every > LONG else 7200,
    )
    assert done.returncode == 0, done.stderr
    assert list((folder / "tmp").iterdir()) == []
    return done.stdout


SOME = [
    ("central", ONCE, 540),
    ("central", FROM_THEN_ON, 270),
    ("central", KILL, 180),
    ("local", ONCE, 360),
    ("federated", FROM_THEN_ON, 360),
    ("formats", ONCE, 1800),
    ("formats", KILL, 600),
    ("sql", ONCE, 180),
    ("sql to a folder", ONCE, 360),
    ("session", FROM_THEN_ON, 180),
]


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("way", "mode", "every"), SOME, ids=str)
def test_messages_are_right_if_some_system_calls_fail(
    way: str, mode: str, every: int, tmp_path: Path, faults: Path
) -> None:
    told = run_with_faults(tmp_path, faults, way, mode, 7, every)
    assert told.splitlines()[-1].endswith("problems 0"), told


STEPS = {"formats": 3}
"""Ways that make thousands of calls: of three in turn, each mode takes another one."""


@pytest.mark.audit
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_messages_are_right_if_any_system_call_fails(
    way: str, mode: str, tmp_path: Path, faults: Path
) -> None:
    every = STEPS.get(way, 1)
    told = run_with_faults(tmp_path, faults, way, mode, 1 + MODES.index(mode) % every, every)
    assert told.splitlines()[-1].endswith("problems 0"), told
