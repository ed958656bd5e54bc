"""If the output of a command fails, its work stays done, and the error says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.cli.texts.plan_parts import file_list
from dprelease.errors import State
from dprelease.ledger.ledger import Ledger
from tests import processes
from tests.ledger.test_ledger import release_with_ledger

ROOT = Path(__file__).parents[2]

BAD = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
OUTPUTS = {
    "full": pytest.param("> /dev/full", 1, marks=BAD),
    "full for programs": pytest.param("--json > /dev/full", 1, marks=BAD),
    "full for both": pytest.param("--json > /dev/full 2>&1", 1, marks=BAD),
    "closed": pytest.param("<&- >&- 2>&-", 0),
    "nobody listens": pytest.param("| (exec <&-; sleep 0); exit ${PIPESTATUS[0]}", 141),
}


def run_command(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return processes.run(
        ["bash", "-c", f'"{sys.executable}" -m dprelease {command}'],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("output", "code"), OUTPUTS.values(), ids=OUTPUTS)
def test_release_stays_if_output_fails(output: str, code: int, tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    done = run_command(tmp_path, f"run release.yaml {output}")
    assert done.returncode == code
    assert (tmp_path / "out/people/manifest.json").exists()
    assert len(Ledger(tmp_path / "ledger.sqlite").history()) == 5
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if done.returncode and "2>&1" not in output:
        assert "DP-OUTPUT-007" in done.stderr
        assert State.PAID.value in done.stderr
        assert "don't run it again" in done.stderr
    for path in (tmp_path / "out/people").iterdir():
        assert (
            b"Published out/" not in path.read_bytes()
        )  # no file took the number of a closed stream


@BAD
def test_version_with_failing_output(tmp_path: Path) -> None:
    done = run_command(tmp_path, "--version > /dev/full")
    assert done.returncode == 1
    assert "DP-OUTPUT-007" in done.stderr
    assert State.NOTHING.value in done.stderr


PRINTING = (
    "plan release.yaml", "check release.yaml --json", "schema release", "mechanisms", "--version",
    "ledger show ledger.sqlite", "ledger history ledger.sqlite", "ledger export ledger.sqlite",
    "ledger check ledger.sqlite",
)  # fmt: skip


@pytest.mark.share(0.15)
@pytest.mark.parametrize("command", PRINTING)
def test_broken_pipe_is_silent(command: str, tmp_path: Path) -> None:
    """As other tools do it in a pipe whose next one has read enough."""
    release_with_ledger(tmp_path)
    done = run_command(tmp_path, f"{command} | (exec <&-; sleep 0); exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (141, "")


def test_broken_pipe_after_a_change_is_reported(tmp_path: Path) -> None:
    done = run_command(
        tmp_path,
        "ledger init new.sqlite --table t --owner o --epsilon 1 "
        "| (exec <&-; sleep 0); exit ${PIPESTATUS[0]}",
    )
    assert done.returncode == 141
    assert "DP-OUTPUT-007" in done.stderr
    assert (tmp_path / "new.sqlite").exists()


def test_names_not_utf8_are_printed(tmp_path: Path) -> None:
    """The output of a run shows the folder's name, whatever bytes are in it."""
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    release_with_ledger(folder)
    (tmp_path / "link").symlink_to(folder)
    done = run_command(tmp_path / "link", "check release.yaml")
    assert done.returncode == 0, done.stderr
    code = (
        "from dprelease.cli.reporting import print_result; import sys; "
        "print_result(True, sys.argv[1], '')"
    )
    words = [sys.executable, "-c", code, os.fsdecode(b"caf\xe9")]
    shown = processes.run(words, cwd=ROOT, capture_output=True, check=True).stdout
    assert json.loads(shown) == os.fsdecode(b"caf\xe9")


def test_closed_streams_are_not_reused_by_files(tmp_path: Path) -> None:
    """What libraries print would be written into it."""
    code = (
        "import os; from dprelease.cli import prepare_process as run; run()\n"
        "os.write(os.open('told', os.O_CREAT | os.O_RDWR), b'mine')\n"
        "[os.write(n, b'theirs') for n in (1, 2)]"
    )
    done = processes.run(
        ["bash", "-c", f'"{sys.executable}" -c "$0" <&- >&- 2>&-', code],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    assert (tmp_path / "told").read_bytes() == b"mine"


def test_many_files_are_listed_by_folder() -> None:
    few = ["a.parquet", "manifest.json", "tables/b.parquet"]
    assert file_list(few) == "a.parquet, manifest.json, tables/b.parquet"
    many = [*few, *(f"estimates/t{i}.parquet" for i in range(20))]
    assert file_list(sorted(many)) == ("a.parquet, manifest.json, 20 in estimates/, 1 in tables/")
    wide = [f"t{i}.parquet" for i in range(20)]
    assert file_list(wide) == "20 files"
