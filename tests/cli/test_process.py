"""The command line as a process: it ends early, and nobody can tell but by the clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.release.build import write

ROOT = Path(__file__).parents[2]

TORN_DOWN = """
import os, sys
class Told:
    def __del__(self):
        os.write(1, b"taken apart")
told = Told()
"""
"""Writes when the interpreter takes the modules apart."""


def ended(code: str, *options: str, stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
    """Return how a fresh interpreter ends: exit code, output and messages, to the byte."""
    command = [sys.executable, *options, "-c", code]
    done = processes.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def both(command: str) -> list[tuple[int, str, str]]:
    """Return the ends of a process in which `command()` is left to itself, and is the whole."""
    whole = "from dprelease.cli.process_setup import whole_process\nwhole_process(command)\n"
    return [ended(f"{command}\n{last}") for last in ("command()\n", whole)]


@pytest.mark.share(0.5)
@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "sys.exit()",
        "sys.exit(0)",
        "sys.exit(3)",
        "sys.exit(-1)",
        "sys.exit(300)",
        "sys.exit(True)",
        "sys.exit('in words')",
        "print('x' * 300_000); print('to people', file=sys.stderr); sys.exit(4)",
        "sys.stdout.write('no end of line'); sys.exit(4)",
        "atexit.register(print, 'registered'); sys.exit(2)",
        "threading.Timer(0.2, print, ['a thread']).start(); sys.exit(2)",
        "weakref.finalize(threading, print, 'finalized'); sys.exit(2)",
        "os.close(1); sys.exit(2)",
        "print('lost'); os.close(1); sys.exit(2)",
        "sys.stdout.close(); sys.exit(2)",
        "sys.stdout = None; sys.exit(2)",
        "typer.run(lambda: print('done'))",
        "typer.run(interrupted)",
    ],
)
def test_ends_as_any_other_process(body: str) -> None:
    names = "import atexit, os, sys, threading, weakref, typer"
    interrupted = "def interrupted():\n    raise KeyboardInterrupt"
    alone, whole = both(f"{names}\n{interrupted}\ndef command():\n    {body}")
    assert whole == alone


@pytest.mark.parametrize(
    "body",
    [
        "raise KeyboardInterrupt",
        "1 / 0",
        "os.kill(os.getpid(), 15)",
        "atexit.register(divmod, 1, 0); exit(2)",
    ],
)
def test_failures_end_with_the_same_code_and_words(body: str) -> None:
    """Only the lines of the traceback between them differ."""
    (alone, _, words), (whole, _, same) = both(f"import atexit, os\ndef command():\n    {body}")
    assert whole == alone != 0
    assert same.splitlines()[-1:] == words.splitlines()[-1:]


def test_modules_are_not_taken_apart() -> None:
    (_, alone, _), (_, whole, _) = both(f"{TORN_DOWN}\ndef command():\n    sys.exit(0)")
    assert alone == "taken apart"
    assert not whole


@pytest.mark.parametrize("watched", ["sys.modules['pyspark'] = sys", "import cProfile"])
def test_modules_are_taken_apart_where_something_watches(watched: str) -> None:
    ends = both(f"{TORN_DOWN}\ndef command():\n    {watched}\n    sys.exit(5)")
    assert ends == [(5, "taken apart", "")] * 2


@pytest.mark.parametrize("watch", ["settrace", "setprofile"])
def test_a_tracer_watches(watch: str) -> None:
    code = "import sys\nfrom dprelease.cli.process_setup import _is_watched as watched\n"
    asked = f"before = watched()\nsys.{watch}(lambda *_: None)\nprint(before, watched())"
    assert ended(code + asked)[1].split() == ["False", "True"]


@pytest.mark.parametrize("given", [None, "3"])
def test_one_thread_for_small_matrices_unless_told(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    body = "import os\ndef command():\n    print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    (_, alone, _), (_, whole, _) = both(body)
    assert (alone.strip(), whole.strip()) == (str(given), given or "1")


def test_a_session_that_goes_on_is_not_ended() -> None:
    code = (
        "from dprelease.cli.process_setup import whole_process; import sys; whole_process(sys.exit)"
    )
    command = [sys.executable, "-i", "-c", code]
    done = processes.run(
        command, cwd=ROOT, input=b"print(6 * 7)\n", capture_output=True, check=False
    )
    assert done.stdout.strip() == b"42"


@pytest.mark.share(0.5)
@pytest.mark.parametrize("words", [["--help"], ["mechanisms", "--json"], ["plan"], ["check", "no"]])
def test_both_entries_end_as_the_bare_application(words: list[str]) -> None:
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


def test_a_run_ends_silently(tmp_path: Path) -> None:
    release = str(write(tmp_path))
    command = [sys.executable, "-m", "dprelease", "run", release, "--json"]
    done = processes.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    again = processes.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "DP-OUTPUT-001" in again.stdout


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


def test_a_crash_leaves_no_core(tmp_path: Path) -> None:
    """Of the command line alone: a library that is imported changes nothing of its host."""
    code = f"{CRASHES}from dprelease.cli.process_setup import whole_process\nwhole_process(look)"
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
    assert ended(hosts)[1] == ended(bare)[1]


def test_no_garbage_is_looked_for_while_modules_are_loaded() -> None:
    """The objects that they make stay; each search among them takes longer than the one before."""
    code = (
        "import atexit, gc, sys\n"
        "import dprelease.__main__ as entry\n"
        "found = []\n"
        "gc.callbacks.append(lambda phase, about: found.append(phase))\n"
        "sys.argv = ['dprelease', 'schema', 'table']\n"
        "atexit.register(lambda: print(found, file=sys.stderr))\n"
        "entry.main()\n"
    )
    assert ended(code)[2] == "[]\n"


@pytest.mark.parametrize("entry", ["main()", "-m"])
def test_both_entries_leave_no_core(entry: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("size", [10, 300_000])
def test_nobody_reads_on(size: int) -> None:
    """A closed pipe: the same code and the same words as any other process has."""
    for unread in ("sys.stdout.write", "typer.echo"):
        ends = []
        for last in ("", "from dprelease.cli.process_setup import whole_process as run\n"):
            ours, theirs = os.pipe()
            os.close(ours)
            text = f"import sys, typer\n{last}def command():\n    {unread}('x' * {size})\n"
            called = "run(lambda: typer.run(command))" if last else "typer.run(command)"
            ends.append(ended(text + called, stdout=theirs))
            os.close(theirs)
        assert ends[0] == ends[1]
        assert ends[0][0]


def test_no_other_package_is_looked_at() -> None:
    """For plugins of pydantic's; not even their names are read."""
    body = (
        "import importlib.metadata as told, pydantic\n"
        "told.distributions = lambda *_, **__: print('looked for') or iter(())\n"
        "def command():\n    pydantic.create_model('Model', x=int)(x=1)\n    print('made')"
    )
    (_, alone, _), (_, whole, _) = both(body)
    assert alone.split("\n") == ["looked for", "made", ""]
    assert whole.split("\n") == ["made", ""]
