"""The process of the command line: how it ends, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.release.build import write

ROOT = Path(__file__).parents[2]


def run_python(code: str, *options: str, stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
    """Return how a fresh interpreter ends: exit code, output and messages, to the byte."""
    command = [sys.executable, *options, "-c", code]
    done = processes.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


@pytest.mark.share(0.25)
@pytest.mark.parametrize("words", [["--help"], ["mechanisms", "--json"], ["plan"], ["check", "no"]])
def test_entry_points_end_like_the_application(words: list[str]) -> None:
    scripts = ["from dprelease.cli import app; app()", "from dprelease.cli import main; main()"]
    ends = []
    for entry in (*(["-c", script] for script in scripts), ["-m", "dprelease"]):
        command = [sys.executable, *entry, *words]
        done = processes.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = (*done.stdout.splitlines(), *done.stderr.splitlines())
        told = [line for line in lines if "usage" not in line.lower() and "Try" not in line]
        ends.append((done.returncode, told))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][1]


def test_run_ends_silently(tmp_path: Path) -> None:
    release = str(write(tmp_path))
    command = [sys.executable, "-m", "dprelease", "run", release, "--json"]
    done = processes.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    again = processes.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 5
    assert "DP-OUTPUT-018" in again.stdout


CRASHES = """
import os, resource, sys, ctypes
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
def look():
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    print(*limits, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
    child = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"
    os.system(f'"{sys.executable}" -c "{child}"')
    open("/proc/self/mountinfo").close()
    open("/proc/self/fd/1", "w").close()
    os.abort()
"""


def test_crash_leaves_no_core(tmp_path: Path) -> None:
    """Of the command line alone: a library that is imported changes nothing of its host."""
    code = f"{CRASHES}from dprelease.cli import prepare_process as run\nrun()\nlook()"
    with processes.started(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -os.WTERMSIG(status)
    assert os.WTERMSIG(status) == 6
    assert not os.WCOREDUMP(status)
    assert said == ["0 0 0", "0 0"]
    assert list(tmp_path.iterdir()) == []
    hosts = "import dprelease, resource, pandas; print(*resource.getrlimit(resource.RLIMIT_CORE))"
    bare = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"
    assert run_python(hosts)[1] == run_python(bare)[1]


@pytest.mark.parametrize("entry", ["main()", "-m"])
def test_entry_points_disable_core_dumps(entry: str, tmp_path: Path) -> None:
    script = tmp_path / "sitecustomize.py"
    script.write_text(
        "import atexit, resource\n"
        "atexit.register(lambda: print(*resource.getrlimit(resource.RLIMIT_CORE)))\n"
    )
    words = (
        ["-m", "dprelease"] if entry == "-m" else ["-c", f"from dprelease.cli import main; {entry}"]
    )
    done = processes.run(
        [sys.executable, *words, "mechanisms"],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=f"{tmp_path}:{ROOT}"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 0"


def test_no_plugins_are_searched() -> None:
    """For plugins of pydantic's; not even their names are read."""
    begin = "from dprelease.cli import prepare_process as run\nrun()\n"
    body = (
        "import importlib.metadata as told, pydantic\n"
        "told.distributions = lambda *_, **__: print('looked for') or iter(())\n"
        "pydantic.create_model('Model', x=int)(x=1)\nprint('made')"
    )
    assert run_python(body)[1].split("\n") == ["looked for", "made", ""]
    assert run_python(begin + body)[1].split("\n") == ["made", ""]
