"""Layers of a family that executors make, subtree by subtree: the bits of one machine."""

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
from dprelease.exact.spark import work as spark_work
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.postprocess.consistent import values
from dprelease.release.runs.pipeline import run
from dprelease.system import prefetch
from tests.exact.spark import local_spark
from tests.release.families_of_areas import declared, published
from tests.release.test_consistent import CASES
from tests.release.test_consistent_runs import files
from tests.release.test_spark_families import SITUATIONS, asked, no_java
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
    monkeypatch.setattr(spark_work, "FIRST_WAVE_TASKS", 3)
    monkeypatch.setattr(spark_work, "MOST_WAVE_TASKS", 3)


class Sent:
    """Who works on tasks of this process that were pickled, as were their results; some twice."""

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
def test_subtrees_give_what_the_whole_tree_gives(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent away, each of them knows all that its rows depend on, and nothing else."""
    with monkeypatch.context() as patched:
        patched.setattr(first_pass, "__defaults__", (1 << 21,))
        patched.setattr(values, "FEW", 1 << 20)
        whole = published(tmp_path / "whole", **CASES[what])
    sent = Sent()
    monkeypatch.setattr(engine_api, "in_threads", sent)
    assert files(published(tmp_path / "sent", **CASES[what])) == files(whole)
    assert sent.tasks > 4


@pytest.mark.usefixtures("subtrees")
def test_a_subtree_that_is_made_otherwise_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of one row: neither the files nor `verify` let it pass."""
    whole = published(tmp_path / "whole", **CASES["areas"])

    def change(made: object) -> None:
        if isinstance(made, list) and made:
            batch = made[0][1]
            column = next(iter(batch.values))
            batch.values[column][0] += 1

    monkeypatch.setattr(engine_api, "in_threads", Sent(change))
    other = published(tmp_path / "other", **CASES["areas"])
    assert files(other) != files(whole)
    assert not dprelease.verify(other).ok


@pytest.mark.usefixtures("subtrees")
def test_what_is_sent_has_no_key_of_the_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes of areas may be millions: they stay where files are written."""
    held: list[bytes] = []

    def spread(work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            held.append(pickle.dumps((work, task)))
            yield work(task)

    monkeypatch.setattr(engine_api, "in_threads", spread)
    folder = published(tmp_path, **CASES["areas"])
    names = pq.read_table(folder / "estimates/pop_town.parquet")["town"].unique().to_pylist()
    assert len(names) > 4
    assert held
    for one in held:
        assert not any(name.encode() in one for name in [*names, "KeySpace"])


@pytest.mark.share(0.25)
@pytest.mark.usefixtures("no_java", "subtrees")
@pytest.mark.parametrize("what", situations())
def test_executors_make_the_layers_of_one_machine(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves: list[int] = []
    following = spark_work.Waves.next_results

    def counted(self: spark_work.Waves) -> list[Any]:
        waves.append(len(found := following(self)))
        return found

    monkeypatch.setattr(spark_work.Waves, "next_results", counted)
    one = published(tmp_path / "one", **asked(what))
    assert not waves
    other = published(tmp_path / "other", **asked(what, more="engine: spark\n"))
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
def test_spark_itself_makes_the_same_layers(what: str, tmp_path: Path) -> None:
    one = published(tmp_path / "one", **asked(what))
    other = published(tmp_path / "other", **asked(what, more="engine: spark\n"))
    assert files(one) == files(other)
    assert dprelease.verify(other).ok


def fails(_: object) -> None:
    raise ValueError("SECRET-4711")


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("ignore")  # of pyspark
@pytest.mark.usefixtures("spark", "subtrees")
def test_an_executor_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words, which may quote a number, go no further; the run says what was read and spent."""
    declaration = declared(tmp_path, **asked("parts", more="engine: spark\n"))
    spread = SparkEngine.spread
    monkeypatch.setattr(SparkEngine, "spread", lambda self, _, tasks: spread(self, fails, tasks))
    state = RunState()
    with pytest.raises(DataError) as told:
        run(declaration, bits=Keyed("family"), state=state)
    assert told.value.code == "DP-DATA-006"
    assert "SECRET" not in "".join(traceback.format_exception(told.value))
    assert state.message_state is State.READ
    assert not list(tmp_path.rglob("*.parquet"))


def test_threads_keep_the_order_and_leave_none_behind() -> None:
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


def test_the_engine_of_this_machine_works_here() -> None:
    assert [*object.__new__(Engine).spread(str, [1, 2, 3])] == ["1", "2", "3"]
