"""Exceptions of signal handlers are raised again after libraries swallow them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dprelease
from dprelease.errors import ChargeState, RunState, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.post_view import run_statement
from dprelease.exact.reading import streams
from dprelease.schema.load import read_table
from dprelease.system.deferred_signals import reraise_handler_errors
from tests import processes
from tests.release.build import SCHEMA
from tests.system.test_forks import told_by_child

LONG = "SELECT count(*) FROM range(200000000) AS t(x) WHERE x % 7 = 3"


class OutOfTimeError(OSError):
    """What a handler of a limit of time may raise; a library's failures are of that type too."""


def out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, out_of_time),
    }
    given = {number: signal.getsignal(number) for number in before}
    yield
    for number, handler in before.items():
        assert signal.signal(number, handler) is given[number], "a handler was not given back"


SIGNALS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, OutOfTimeError)]


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
@pytest.mark.parametrize("turned", [RuntimeError, None])
def test_exception_of_the_handler_is_raised(
    number: signal.Signals, raised: type[BaseException], turned: type[Exception] | None
) -> None:
    """Whether the block raises another error or none; its message is not kept."""

    def work() -> None:
        with suppress(BaseException):  # as a library does
            os.kill(os.getpid(), number)
        if turned is not None:
            raise turned("a value of the data")

    with pytest.raises(raised) as caught, reraise_handler_errors(), reraise_handler_errors():
        work()
    assert caught.value.__context__ is None


def test_other_exceptions_are_unchanged() -> None:
    with pytest.raises(ValueError, match="its own"), reraise_handler_errors():
        raise ValueError("its own")
    with reraise_handler_errors():
        pass


def test_other_threads_keep_their_handlers() -> None:
    handlers: list[Any] = []

    def work() -> None:
        with reraise_handler_errors():
            handlers.append(signal.getsignal(signal.SIGINT))

    processes.in_threads([work])
    assert handlers == [signal.default_int_handler]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_handles_its_own_signals() -> None:
    def interrupted() -> None:
        with reraise_handler_errors():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise RuntimeError("Query interrupted") from None

    with reraise_handler_errors():
        assert told_by_child(interrupted).startswith("KeyboardInterrupt")


@pytest.fixture
def registered_frame(tmp_path: Path) -> Iterator[pd.DataFrame]:
    (tmp_path / "people.yaml").write_text(SCHEMA)
    session = dprelease.Session(schema=tmp_path / "people.yaml", epsilon=2)
    frame = pd.DataFrame(
        {"person": [1, 2], "city": ["Bern", "Oslo"], "age": [3, 4], "pay": [5.0, 6.0]}
    )
    frame.dp.use(session)
    frame.dp.count(epsilon=0.5)
    yield frame
    session.remaining  # noqa: B018 - it is kept until here


@pytest.mark.parametrize(("number", "raised"), SIGNALS)
def test_interrupted_statement_notes_the_charge(
    number: signal.Signals,
    raised: type[BaseException],
    registered_frame: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DuckDB only reports the interruption; the note reports the charge."""
    real = Engine._read_rows

    def long(engine: Engine, work: Any) -> Any:
        monkeypatch.setattr(Engine, "_read_rows", real)
        sender = threading.Timer(0.1, os.kill, (os.getpid(), number))
        sender.start()
        return real(engine, lambda link: link.execute(LONG).fetchall())

    monkeypatch.setattr(Engine, "_read_rows", long)
    with pytest.raises(raised) as caught:
        registered_frame.dp.count(by="city", epsilon=0.5)
    assert caught.value.__notes__ == [f"State  {State.CHARGED.value}."]
    registered_frame.dp.count(by="city", epsilon=0.5)


@pytest.mark.parametrize("step", ["table", "batches", "view"])
def test_signal_while_the_engine_calls_python(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB replaces the exception of Python with its own error."""
    (tmp_path / "people.yaml").write_text(SCHEMA)
    declared = read_table(tmp_path / "people.yaml")
    noised = pa.table({"n": [1]})

    def rows() -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGINT)
        yield from noised.to_batches()

    def fails(*_: object) -> None:
        try:
            next(rows())
        except KeyboardInterrupt:
            raise duckdb.InvalidInputException("failed: KeyboardInterrupt") from None

    def ask() -> None:
        if step == "table":
            frame = pd.DataFrame({"person": [1], "city": ["Bern"], "age": [3], "pay": [5.0]})
            with Engine.open(declared, frame) as engine:
                engine._read_rows(fails)
        elif step == "batches":
            relation = duckdb.sql("SELECT 1 AS n")
            monkeypatch.setattr(duckdb.DuckDBPyRelation, "limit", fails)
            streams.relation_batches(relation, declared)
        else:
            reader = pa.RecordBatchReader.from_batches(noised.schema, rows())
            run_statement("SELECT n FROM noised", {"noised": reader})

    with pytest.raises(KeyboardInterrupt):
        ask()


def test_run_ended_by_a_handler_notes_its_state() -> None:
    state = RunState(rows=True, charge=ChargeState.SPENT)

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
        except OSError:
            raise RuntimeError("Query interrupted") from None

    with pytest.raises(OutOfTimeError) as caught, state.add_state_to_errors():
        work()
    assert caught.value.__notes__ == [f"State  {State.CHARGED.value}."]
