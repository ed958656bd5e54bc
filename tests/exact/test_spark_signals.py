"""A signal ends a run on Spark as any other run: the error reports what had happened."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from dprelease.errors import State
from dprelease.exact.spark.sessions.spark_session import restore_interrupt_handler, silence_logging
from tests import processes
from tests.exact.spark import CONFIG
from tests.ledger.test_ledger import release_with_ledger

ROOT = Path(__file__).parents[2]

ENDED = """
import os, signal, sys, threading
from dprelease.exact.spark.sessions.attempts import attempt, reading_failure_error
from dprelease.exact.spark.spark_engine import SparkEngine

whose, number, path = sys.argv[1:]

def endless(self, _query):
    from pyspark import SparkContext
    process = os.getpid() if whose == "run" else SparkContext._gateway.proc.pid
    threading.Timer(1, os.kill, (process, int(number))).start()
    rows = self._spark.range(10**13).selectExpr("sum(hash(id))")
    return attempt(rows.collect, reading_failure_error("people", "parquet"))

SparkEngine.run = endless
from dprelease.__main__ import main
sys.argv = ["dprelease", "run", path, "--json"]
main()
"""


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.parametrize(
    ("whose", "number", "code"),
    [
        ("run", signal.SIGINT, "DP-SIGNAL-001"),
        ("run", signal.SIGTERM, "DP-SIGNAL-001"),
        ("Java", signal.SIGKILL, "DP-DATA-006"),
    ],
)
def test_signals_end_a_run_on_spark(
    whose: str, number: signal.Signals, code: str, tmp_path: Path
) -> None:
    path = release_with_ledger(tmp_path)
    config = json.dumps(CONFIG)
    path.write_text(f"{path.read_text()}\nengine: spark\nspark: {{config: {config}}}\n")
    (tmp_path / "tmp").mkdir()
    done = processes.run(
        [sys.executable, "-c", ENDED, whose, str(int(number)), str(path)],
        env=dict(os.environ, PYTHONPATH=str(ROOT), TMPDIR=str(tmp_path / "tmp")),
        capture_output=True,
        text=True,
    )
    assert not [word for word in ("Traceback", "Interrupt", "ERROR") if word in done.stderr]
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["state"]) == (code, State.CHARGED.value)
    assert done.returncode == (128 + number if whose == "run" else 1)
    assert [*(tmp_path / "tmp").iterdir()] == []
    assert [*(tmp_path / "out").iterdir()] == []


def test_interrupt_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with restore_interrupt_handler():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_spark_logging_is_silenced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the block and after it."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with silence_logging():
        logging.error("of py4j")
        logging.getLogger("py4j").error("of py4j")
    assert root.handlers == []
    assert capsys.readouterr().err == ""


def test_handlers_of_the_caller_still_log(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[logging.LogRecord] = []
    theirs = logging.Handler()
    monkeypatch.setattr(theirs, "emit", heard.append)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [theirs])
    with silence_logging():
        logging.error("of py4j")
    assert [record.getMessage() for record in heard] == ["of py4j"]
    assert root.handlers == [theirs]
