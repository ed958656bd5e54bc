"""Layers of a family that executors compute by subtree: the same bits as on one machine."""

from __future__ import annotations

import pickle
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.consistency.estimates import first_pass
from dprelease.errors import DataError, RunState, State
from dprelease.exact import engine_api
from dprelease.exact.duckdb import Engine
from dprelease.exact.spark import noise as spark_noise
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.postprocess.consistent import values
from dprelease.release.runs.pipeline import run
from dprelease.system import prefetch
from tests.exact.spark import local_spark
from tests.release.area_family import publish_family, read_family
from tests.release.test_consistent import CASES
from tests.release.test_consistent_runs import files
from tests.release.test_spark_families import SITUATIONS, no_java, situation
from tests.replay import Keyed

__all__ = ["no_java"]  # a fixture

LEAST_LEVELS = {"no areas"}
"""Situations of which the whole tree is its top: nothing is spread."""

QUICK = ("crossing", "no areas", "levels of their own", "parts", "two queries", "no rows")


def situations() -> list[Any]:
    marks = {what: [] if what in QUICK else [pytest.mark.audit] for what in SITUATIONS}
    return [pytest.param(what, marks=marks[what]) for what in SITUATIONS]


@pytest.fixture
def subtrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let others work on few cells, a subtree for each area, in waves of three."""
    monkeypatch.setattr(values, "FEW", 0)
    held = (*(first_pass.__defaults__ or ())[:-1], 1)  # the last default: cells of a piece
    monkeypatch.setattr(first_pass, "__defaults__", held)
    monkeypatch.setattr(spark_noise, "FIRST_WAVE_TASKS", 3)
    monkeypatch.setattr(spark_noise, "MOST_WAVE_TASKS", 3)


class PickledTasks:
    """Runs pickled tasks in this process, some twice, and pickles their results."""

    def __init__(self, change: Callable[[Any], None] = lambda _: None) -> None:
        self.tasks = 0
        self.change = change

    def __call__(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            self.tasks += 1
            there, given = pickle.loads(pickle.dumps((work, task)))
            there(given)
            made = pickle.loads(pickle.dumps(there(given)))
            self.change(made)
            yield made


@pytest.mark.share(0.25)
@pytest.mark.usefixtures("subtrees")
@pytest.mark.parametrize("what", ["areas", "whole sums", "zeros", "records"])
def test_subtrees_give_the_files_of_the_whole_tree(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pickled subtree has all that its rows depend on, and nothing else."""
    with monkeypatch.context() as patched:
        patched.setattr(first_pass, "__defaults__", (1 << 21,))
        patched.setattr(values, "FEW", 1 << 20)
        whole = publish_family(tmp_path / "whole", **CASES[what])
    sent = PickledTasks()
    monkeypatch.setattr(engine_api, "in_threads", sent)
    assert files(publish_family(tmp_path / "sent", **CASES[what])) == files(whole)
    assert sent.tasks > 4


@pytest.mark.usefixtures("subtrees")
def test_changed_subtree_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number of one row changes the files, and `verify` finds it."""
    whole = publish_family(tmp_path / "whole", **CASES["areas"])

    def change(made: object) -> None:
        if isinstance(made, list) and made:
            batch = made[0][1]
            column = next(iter(batch.values))
            batch.values[column][0] += 1

    monkeypatch.setattr(engine_api, "in_threads", PickledTasks(change))
    other = publish_family(tmp_path / "other", **CASES["areas"])
    assert files(other) != files(whole)
    assert not dprelease.verify(other).ok


@pytest.mark.usefixtures("subtrees")
def test_tasks_contain_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be millions of area codes; they stay in the process that writes files."""
    held: list[bytes] = []

    def spread(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            held.append(pickle.dumps((work, task)))
            yield work(task)

    monkeypatch.setattr(engine_api, "in_threads", spread)
    folder = publish_family(tmp_path, **CASES["areas"])
    names = pq.read_table(folder / "estimates/pop_town.parquet")["town"].unique().to_pylist()
    assert len(names) > 4
    assert held
    for one in held:
        assert not any(name.encode() in one for name in [*names, "KeySpace"])


@pytest.mark.share(0.25)
@pytest.mark.usefixtures("no_java", "subtrees")
@pytest.mark.parametrize("what", situations())
def test_executor_tasks_give_the_layers_of_one_machine(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves: list[int] = []
    following = spark_noise.Waves.next_results

    def counted(self: spark_noise.Waves) -> list[Any]:
        waves.append(len(found := following(self)))
        return found

    monkeypatch.setattr(spark_noise.Waves, "next_results", counted)
    one = publish_family(tmp_path / "one", **situation(what))
    assert not waves
    other = publish_family(tmp_path / "other", **situation(what, more="engine: spark\n"))
    assert files(one) == files(other)
    assert what in LEAST_LEVELS or max(waves) > 1
    assert max(waves, default=0) <= 3


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with local_spark() as session:
        yield session


@pytest.mark.audit
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.usefixtures("spark", "subtrees")
@pytest.mark.parametrize(
    "what",
    [
        "parts",
        *(pytest.param(what, marks=pytest.mark.audit) for what in ("crossing", "two queries")),
    ],
)
def test_spark_gives_the_layers_of_one_machine(what: str, tmp_path: Path) -> None:
    one = publish_family(tmp_path / "one", **situation(what))
    other = publish_family(tmp_path / "other", **situation(what, more="engine: spark\n"))
    assert files(one) == files(other)
    assert dprelease.verify(other).ok


def fails(_: object) -> None:
    raise ValueError("SECRET-4711")


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.usefixtures("spark", "subtrees")
def test_failing_executor_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message, which may quote a number, is not shown; the error states what was read and spent."""
    declaration = read_family(tmp_path, **situation("parts", more="engine: spark\n"))
    spread = SparkEngine.spread
    monkeypatch.setattr(SparkEngine, "spread", lambda self, _, tasks: spread(self, fails, tasks))
    state = RunState()
    with pytest.raises(DataError) as told:
        run(declaration, bits=Keyed("family"), state=state)
    assert told.value.code == "DP-DATA-006"
    assert "SECRET" not in "".join(traceback.format_exception(told.value))
    assert state.message_state is State.READ
    assert not list(tmp_path.rglob("*.parquet"))


def test_in_threads_keeps_order_and_ends_threads() -> None:
    import threading
    import time

    def slow(task: int) -> int:
        time.sleep(0.01 if task % 2 else 0.0)
        return task * task

    before = threading.active_count()
    assert list(prefetch.in_threads(slow, range(20))) == [task * task for task in range(20)]
    begun: list[int] = []
    made = prefetch.in_threads(lambda task: begun.append(task) or task, iter(range(100)))
    assert next(made) == 0
    made.close()
    assert len(begun) <= 1 + prefetch.THREADS
    assert threading.active_count() == before

    def fails(task: int) -> int:
        if task == 2:
            raise KeyError(task)
        return task

    with pytest.raises(KeyError):
        list(prefetch.in_threads(fails, range(9)))
    assert threading.active_count() == before


def test_duckdb_engine_runs_tasks_in_this_process() -> None:
    assert [*object.__new__(Engine).spread(str, [1, 2, 3])] == ["1", "2", "3"]
