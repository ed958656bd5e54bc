"""No byte of the data or of a true aggregate is left anywhere; a kill leaves all or nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest

from dprelease.verification.verify import verify
from tests import processes
from tests.release.build import HEADER, RELEASE, ROWS, SCHEMA, write

ROOT = Path(__file__).parents[2]
CANARY_ROWS = [f"{900000000000 + i},CANARYCITY{i},40,1234.5\n" for i in range(20)] + [
    "314159265358,Oslo,271828182845,CANARYTEXT\n"
]
MARKS = [b"CANARY", b"314159265358", b"271828182845", b"900000000001", b"people.csv\x00"]

STEPS = """
import os, signal, sys
from pathlib import Path
from tests.processes import ended
import dprelease.exact.engines as engines
import dprelease.release.execute as execute
import dprelease.release.folder as folder
import dprelease.release.runs.family_run as family_run
import dprelease.release.runs.pipeline as pipeline
from dprelease.schema.load import read_declaration

count, target = [0], 0

def stepping(function):
    def wrapped(*args, **kwargs):
        count[0] += 1
        if count[0] == target:
            os.kill(os.getpid(), signal.SIGKILL)
        found = function(*args, **kwargs)
        count[0] += 1
        if count[0] == target:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return wrapped

for owner, names in (
    (execute, ("open_publication",)),
    (engines, ("open_engines",)),
    (family_run, ("write_family_tables", "streaming", "write_pieces")),
):
    for name in names:
        setattr(owner, name, stepping(getattr(owner, name)))
folder._sync_to_disk = stepping(folder._sync_to_disk)
folder.exchange = stepping(folder.exchange)
Path.chmod = stepping(Path.chmod)
folder.shutil.rmtree = stepping(folder.shutil.rmtree)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        target, code = int(line), 1
        try:
            pipeline.run(read_declaration(Path(sys.argv[1])), overwrite=True)
            Path(sys.argv[2]).write_text(str(count[0]))
            code = 0
        finally:
            os._exit(code)
    print(ended(child), flush=True)
"""
"""For each number that it reads: a fork runs the release, and is killed at that step of it."""


def read_all_below(folder: Path) -> dict[str, bytes]:
    """Return every file's bytes, and the decoded values of every Parquet file."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
            if path.suffix == ".parquet":
                found[f"{path.name} values"] = str(pq.read_table(path).to_pylist()).encode()
    return found


def run_cli(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = dict(os.environ, PYTHONPATH=str(ROOT), TMPDIR=str(folder / "tmp"))
    (folder / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dprelease", *words]
    return processes.run(command, cwd=folder, env=environment, capture_output=True)


def test_no_cell_value_reaches_any_output(tmp_path: Path) -> None:
    write(tmp_path, [*ROWS, *CANARY_ROWS])
    outputs = [
        run_cli(tmp_path, "run", "release.yaml"),
        run_cli(tmp_path, "run", "release.yaml"),  # refused: it is there already
        run_cli(tmp_path, "run", "release.yaml", "--overwrite", "--json"),
        run_cli(tmp_path, "verify", "out/people", "--json"),
    ]
    assert [done.returncode for done in outputs] == [0, 5, 0, 0]
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("pay: {type", "paid: {type"))
    (tmp_path / "release.yaml").write_text(RELEASE.replace("sum: pay", "sum: paid"))
    outputs.append(run_cli(tmp_path, "run", "release.yaml", "--overwrite"))
    assert outputs[-1].returncode == 2
    (tmp_path / "people.csv").unlink()
    held = read_all_below(tmp_path)
    for i, done in enumerate(outputs):
        held[f"output {i}"] = done.stdout + done.stderr
    for name, data in held.items():
        for mark in MARKS[:-1]:
            assert mark not in data, name
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.share(0.4)
@pytest.mark.parametrize("ending", ["sqlite", "xlsx"])
def test_no_cell_of_database_or_workbook_reaches_any_output(ending: str, tmp_path: Path) -> None:
    """Also when the run is refused because the file is truncated."""
    write(tmp_path)
    rows = [line.strip().split(",") for line in [HEADER, *ROWS, *CANARY_ROWS]]
    file, told = tmp_path / f"people.{ending}", f"people.{ending}"
    if ending == "sqlite":
        told = "{path: people.sqlite, table: people}"
        with closing(sqlite3.connect(file)) as link, link:
            link.execute("CREATE TABLE people (person INT, city TEXT, age INT, pay REAL)")
            link.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows[1:])
    else:
        book = openpyxl.Workbook()
        assert book.active is not None
        for row in rows:
            book.active.append(row)
        book.save(file)
    (tmp_path / "people.csv").unlink()
    (tmp_path / "people.yaml").write_text(SCHEMA.replace("people.csv", told))
    outputs = [run_cli(tmp_path, "run", "release.yaml")]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    outputs.append(run_cli(tmp_path, "run", "release.yaml", "--overwrite"))
    failed = 1 if ending == "sqlite" else 2  # its rows were being read; the other can't be opened
    assert [done.returncode for done in outputs] == [0, failed], outputs[0].stderr
    file.unlink()
    held = read_all_below(tmp_path)
    for i, done in enumerate(outputs):
        held[f"output {i}"] = done.stdout + done.stderr
    for name, data in held.items():
        for mark in MARKS[:-1]:
            assert mark not in data, name
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def run_killed_at(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Return how a run ends that is killed at a step; imports are made once."""
    command = [sys.executable, "-c", STEPS, str(tmp_path / "release.yaml"), str(tmp_path / "steps")]
    with processes.started(
        command,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as run:

        def asked(step: int) -> int:
            assert run.stdin is not None
            run.stdin.write(f"{step}\n")
            return int(processes.first_line(run))

        yield asked


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.audit)])
def test_kill_at_any_step_leaves_one_complete_release(
    every: int, run_killed_at: Callable[[int], int], tmp_path: Path
) -> None:
    """SIGKILL before and after every step: what is readable verifies, and the next run succeeds."""
    write(tmp_path, [*ROWS, *CANARY_ROWS])
    assert run_killed_at(0) == 0
    steps = int((tmp_path / "steps").read_text())
    assert steps > 30
    target = tmp_path / "out" / "people"
    for at in range(1, steps + 1, every):
        assert run_killed_at(at) == -signal.SIGKILL
        readable = [path for path in (tmp_path / "out").iterdir() if path.name == "people"]
        waiting = list((tmp_path / "out").glob(".people.dprelease-replaced"))
        assert readable or waiting  # one whole release exists at every instant
        for folder in readable or waiting:
            assert verify(folder).ok
        staged = list((tmp_path / "out").glob(".people.dprelease-staging-*"))
        assert all(path.stat().st_mode & 0o077 == 0 or at > steps - 12 for path in staged)
        for name, data in read_all_below(tmp_path / "out").items():
            assert not any(mark in data for mark in MARKS[:4]), name
    done = run_cli(tmp_path, "run", "release.yaml", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["people"]
    assert verify(target).ok
