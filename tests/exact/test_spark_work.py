"""Work of Spark executors on published data: encrypted in transit, each result once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.exact.spark import noise
from dprelease.exact.spark.executors.seal import Seal
from dprelease.exact.spark.executors.tasks import TaskFailure
from dprelease.exact.spark.noise import EncryptedWork, Waves, decrypt_object, encrypt_object
from tests.exact.fake_spark import FakeSpark, Frame


def squares(task: np.ndarray) -> np.ndarray:
    return task * task


def all_of(waves: Waves) -> list[list[Any]]:
    return list(iter(waves.next_results, []))


@pytest.fixture(autouse=True)
def three_tasks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "FIRST_WAVE_TASKS", 2)
    monkeypatch.setattr(noise, "MOST_WAVE_TASKS", 3)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 8])
def test_results_are_in_the_order_of_tasks(number: int) -> None:
    tasks = [np.arange(i, i + 4) for i in range(number)]
    waves = all_of(Waves(FakeSpark(), squares, iter(tasks)))
    sizes = {0: [], 1: [1], 2: [2], 3: [2, 1], 8: [2, 3, 3]}
    assert [len(wave) for wave in waves] == sizes[number]
    found = [one for wave in waves for one in wave]
    assert [one.tolist() for one in found] == [squares(task).tolist() for task in tasks]


def test_large_results_are_returned_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as fit, once their size is known; tasks are created when they are sent."""
    monkeypatch.setattr(noise, "RESULT_BYTES", 100)
    begun: list[int] = []
    tasks = (begun.append(i) or np.arange(1000) * i for i in range(6))
    waves = Waves(FakeSpark(), squares, tasks)
    assert len(waves.next_results()) == 2
    assert begun == [0, 1]
    assert [len(wave) for wave in all_of(waves)] == [1, 1, 1, 1]


class ChangedResults(FakeSpark):
    """A session whose last job returns other rows than the tasks wrote."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def createDataFrame(self, table: pa.Table) -> Frame:
        change, made = self.change, super().createDataFrame(table)

        class Then(Frame):
            def repartitionById(self, number: int, column: str) -> Frame:
                return Then(super().repartitionById(number, column).partitions)

            def mapInArrow(self, task: Any, schema: str) -> Frame:
                return Then(super().mapInArrow(task, schema).partitions)

            def toArrow(self) -> pa.Table:
                return change(super().toArrow())

        return Then(made.partitions)


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), LookupError),
        (lambda rows: rows.slice(1), LookupError),
        (lambda rows: rows.set_column(0, "number", rows["number"].take([1, 0])), ValueError),
        (
            lambda rows: rows.set_column(
                1, "content", pa.array([encrypt_object(Seal.fresh(), i, i) for i in range(2)])
            ),
            ValueError,
        ),
    ],
    ids=["twice", "missing", "exchanged", "of another run"],
)
def test_missing_and_duplicate_results_are_refused(change: Any, failure: type[Exception]) -> None:
    tasks = [np.arange(3), np.arange(4)]
    with pytest.raises(failure):
        Waves(ChangedResults(change), squares, tasks).next_results()
    straight = Waves(ChangedResults(lambda rows: rows), squares, tasks).next_results()
    assert [one.tolist() for one in straight] == [[0, 1, 4], [0, 1, 4, 9]]


def test_transferred_data_is_encrypted() -> None:
    """Noisy numbers before they are published: the files that Spark wrote reveal nothing."""
    moved: list[bytes] = []

    class Kept(FakeSpark):
        def createDataFrame(self, table: pa.Table) -> Frame:
            moved.extend(table["content"].to_pylist())
            return super().createDataFrame(table)

    numbers = np.arange(4711, 4811)
    (found,) = Waves(Kept(), squares, [numbers]).next_results()
    assert found.tolist() == (numbers * numbers).tolist()
    (content,) = moved
    for plain in (numbers.tobytes(), numbers.astype(np.int16).tobytes(), b"numpy"):
        assert plain not in content
    with pytest.raises(ValueError, match="sealed"):
        decrypt_object(Seal.fresh(), 0, content)
    seal = Seal.fresh()
    assert decrypt_object(seal, 7, encrypt_object(seal, 7, {"a": 1})) == {"a": 1}
    with pytest.raises(ValueError, match="sealed"):
        decrypt_object(seal, 8, encrypt_object(seal, 7, {"a": 1}))


def test_errors_of_tasks_contain_no_values() -> None:
    def fails(task: object) -> object:
        raise ValueError("SECRET-4711")

    seal = Seal.fresh()
    rows = noise._task_row(0, encrypt_object(seal, 0, "task"))
    with pytest.raises(TaskFailure) as told:
        list(EncryptedWork(fails, seal, Seal.fresh()).run([rows]))
    assert "SECRET" not in str(told.value)
    assert told.value.__context__ is None
