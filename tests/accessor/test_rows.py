"""Whatever pandas does to a frame, queries read the rows that the session began with.

A queried frame is either refused, or stands for these rows: nothing computed from several rows
is ever published with the budget of one (V28, V78).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dprelease
from dprelease.accessor import row_comparison
from dprelease.errors import DataError, SessionError
from dprelease.exact.duckdb import Engine
from tests import processes
from tests.covering import sampled

SCHEMA: dict[str, Any] = {
    "table": "people",
    "columns": {
        "state": {"type": "category", "values": ["VT", "NH"]},
        "age": {"type": "integer", "lower": 0, "upper": 115},
        "pay": {"type": "number", "lower": 0, "upper": 100, "step": "0.5"},
        "adult": {"expression": "age >= 18", "type": "boolean"},
    },
}


def frame() -> pd.DataFrame:
    """Return rows without the declared column `pay`."""
    ages = [3, 20, 90, 41, 20, 66]
    return pd.DataFrame({"state": ["VT", "NH"] * 3, "age": ages, "note": range(6)})


Operation = Callable[[pd.DataFrame], pd.DataFrame]


def in_place(f: pd.DataFrame) -> pd.DataFrame:
    f["age"] = f["note"].max()
    return f


def ages(f: pd.DataFrame) -> pd.Series:
    return f["age"] if "age" in f.columns else f["note"]


OPERATIONS: dict[str, Operation] = {
    "copy": lambda f: f.copy(),
    "drop a column": lambda f: f.drop(columns="age", errors="ignore"),
    "change a column": lambda f: f.assign(age=ages(f).max()),
    "change in place": in_place,
    "declared and new": lambda f: f.assign(pay=ages(f).mean()),
    "renamed": lambda f: f.drop(columns="pay", errors="ignore").rename(columns={"age": "pay"}),
    "filter": lambda f: f[f["note"] > 2],
    "filter that keeps all": lambda f: f[f["note"] >= 0],
    "other order": lambda f: f.sort_values("note", ascending=False).reset_index(drop=True),
    "twice": lambda f: pd.concat([f, f], ignore_index=True),
    "merge that loses attrs": lambda f: f.merge(f[["note"]].iloc[::-1], on="note", how="right"),
    "merge with a column": lambda f: f.merge(
        f[["state"]].assign(pay=ages(f).max()).drop_duplicates("state"), on="state", how="left"
    ),
    "made anew": lambda f: pd.DataFrame(f.to_dict("list")),
    "made anew, changed": lambda f: pd.DataFrame(f.assign(age=0).to_dict("list")),
}


class ReachedEngine(Exception):
    """A query reached the engine."""


@pytest.fixture
def opened_frames(monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    """Return the frames that questions open; none of them is read."""
    found: list[pd.DataFrame] = []

    def keep(_: object, rows: pd.DataFrame, *__: object) -> None:
        found.append(rows)
        raise ReachedEngine

    monkeypatch.setattr(Engine, "open", keep)
    return found


def try_to_use(found: pd.DataFrame, session: Any) -> None:
    try:
        found.dp.use(session)
    except SessionError as error:
        assert error.code in ("DP-SESSION-002", "DP-SESSION-010")  # noqa: PT017


def derived_frames(found: pd.DataFrame, session: Any, depth: int) -> Iterator[pd.DataFrame]:
    """Yield what all sequences of at most `depth` operations make of a frame, uses among them."""
    yield found
    if depth == 0:
        return
    used = found.copy(deep=False)
    try_to_use(used, session)
    yield from derived_frames(used, session, depth - 1)
    for operation in OPERATIONS.values():
        try:
            made = operation(found.copy(deep=False))
        except KeyError:  # a column that an earlier operation took away
            continue
        yield from derived_frames(made, session, depth - 1)


def test_only_the_registered_rows_are_read(opened_frames: list[pd.DataFrame]) -> None:
    """For all sequences of three operations."""
    session = dprelease.Session(SCHEMA, epsilon=1)
    first = frame()
    first.dp.use(session)
    outcomes = Counter[bool]()
    for found in sampled(derived_frames(first, session, 3), 0.15):
        try_to_use(found, session)
        try:
            found.dp.count(epsilon="1e-6")
        except ReachedEngine:
            rows = opened_frames.pop()[["state", "age"]]
            assert rows.to_dict("list") == frame()[["state", "age"]].to_dict("list")
            outcomes[True] += 1
        except SessionError:
            outcomes[False] += 1
    assert outcomes[True] > 15
    assert outcomes[False] > 150


NAN = float("nan")


def of_arrow(values: list[Any], kind: Any) -> Any:
    return pd.array(pd.arrays.ArrowExtensionArray(pa.array(values, kind)))


def floating(values: list[float], missing: list[bool]) -> Any:
    return pd.arrays.FloatingArray(np.array(values), np.array(missing))


MISSING: dict[str, Callable[[Any], Any]] = {
    "NumPy": lambda x: [1.0, NAN, x],
    "objects": lambda x: pd.Series([1.0, NAN, x], dtype=object),
    "Float64": lambda x: pd.array([1.0, None, x], dtype="Float64"),
    "Float64, without missing values": lambda x: floating([1.0, NAN, x], [False] * 3),
    "Int64": lambda x: pd.array([1, None, int(x)], dtype="Int64"),
    "Int64, missing otherwise": lambda x: pd.array([1, None, 3][:: -1 if x == 4 else 1], "Int64"),
    "Arrow": lambda x: of_arrow([1.0, NAN, x], pa.float64()),
    "Arrow, 32 bits": lambda x: of_arrow([None, NAN, x], pa.float32()),
    "Arrow, without NaN": lambda x: of_arrow([1.0, None, x], pa.float64()),
    "Arrow's decimals": lambda x: of_arrow([None, None, int(x)], pa.decimal128(5, 1)),
}


def masked_numbers(values: list[int], *, last: bool) -> Any:
    """Return nullable numbers, of which the last may be masked."""
    return pd.arrays.IntegerArray(np.array(values), np.array([False] * 2 + [last]))


EQUAL: dict[str, tuple[Any, Any, Any]] = {
    "behind missing ones": (
        masked_numbers([1, 2, 3], last=True),
        masked_numbers([1, 2, 4], last=True),
        masked_numbers([1, 2, 3], last=False),
    ),
    "zeros of both signs": ([0.0, 1.0, 2.0], [-0.0, 1.0, 2.0], [0.0, 1.0, 2.5]),
    "zeros that may be missing": (
        pd.array([0.0, None, 2.0], "Float64"),
        pd.array([-0.0, None, 2.0], "Float64"),
        pd.array([None, 0.0, 2.0], "Float64"),
    ),
    "NaNs of other bits": (
        np.array([1, 0x7FF8_0000_0000_0000, 2]).view(float),
        np.array([1, 0x7FF8_0000_0000_0001, 2]).view(float),
        np.array([1, 0x7FF0_0000_0000_0000, 2]).view(float),
    ),
    "every second number": (
        np.arange(6)[::2],
        np.array([0, 2, 4]),
        np.array([0, 2, 5]),
    ),
    "truth values": ([True, False, True], [True, False, True], [True, False, False]),
    "times": (
        pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
        pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
        pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
    ),
    "objects": (
        [Decimal("1.5"), None, date(2024, 1, 1)],
        [Decimal("1.50"), None, date(2024, 1, 1)],
        [Decimal("1.5"), None, date(2024, 1, 2)],
    ),
    "bytes of another type": (np.array([0, 0, 0]), np.array([0, 0, 0]), np.array([0.0, 0.0, 0.0])),
}
"""Values, the same ones in other bytes or another place, and other ones."""


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_values_with_other_bytes_are_accepted(kind: str) -> None:
    made = [pd.DataFrame({"state": ["VT", "NH", "VT"], "pay": pay}) for pay in EQUAL[kind]]
    session = dprelease.Session(schema=SCHEMA, epsilon=1.0)
    for frame in made[:2]:
        frame.dp.use(session)
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        made[2].dp.use(session)


@pytest.mark.parametrize("where", ["column", "index"])
@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_equal(kind: str, where: str) -> None:
    def made(x: float) -> pd.DataFrame:
        pay, states = MISSING[kind](x), {"state": ["VT", "NH", "VT"]}
        if where == "column":
            return pd.DataFrame({**states, "pay": pay})
        return pd.DataFrame(states, index=pd.Index(pay))

    session = dprelease.Session(schema=SCHEMA, epsilon=1.0)
    first, same, other = made(3.0), made(3.0), made(4.0)
    for frame in (first, same, first.copy()):
        frame.dp.use(session)
        assert len(frame.dp.count(by="state", epsilon=0.1)) == 2
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        other.dp.use(session)


@pytest.mark.parametrize("stored", ["Arrow", "Float64"])
def test_nan_and_null_are_different(stored: str) -> None:
    arrays = [of_arrow(values, pa.float64()) for values in ([1.0, NAN], [1.0, None])]
    if stored == "Float64":
        arrays = [floating([1.0, NAN], [False, null]) for null in (False, True)]
    first, other = (pd.DataFrame({"state": ["VT", "NH"], "pay": one}) for one in arrays)
    session = dprelease.Session(schema=SCHEMA, epsilon=1.0)
    first.dp.use(session)
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        other.dp.use(session)


def test_duplicate_columns_are_refused() -> None:
    session = dprelease.Session(SCHEMA, epsilon=1)
    found = frame()
    found.dp.use(session)
    twice = pd.concat([found, found[["age"]] + 1], axis=1)
    with pytest.raises(DataError, match="DP-DATA-003"):
        twice.dp.use(session)


def test_columns_registered_twice_are_refused() -> None:
    session = dprelease.Session(SCHEMA, epsilon=1)
    found = frame()
    pd.concat([found, found[["age"]]], axis=1).dp.use(session)
    with pytest.raises(DataError, match="DP-DATA-003"):
        found.dp.use(session)


OTHERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "of two levels": lambda found: pd.concat({"age": found[["age", "age"]] + 1}, axis=1),
    "without a name": lambda found: pd.concat([found, pd.DataFrame({pd.NA: found["age"]})], axis=1),
    "twice": lambda found: pd.concat([found, found[["of_mine"]]], axis=1),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_undeclared_columns_are_not_read(kind: str) -> None:
    session = dprelease.Session(SCHEMA, epsilon=1)
    found = frame().assign(of_mine=1)
    found.dp.use(session)
    other = OTHERS[kind](found)
    other.dp.use(session)
    assert len(other.dp.count(epsilon=1)) == 1


class Incomparable(Decimal):
    """Can't be compared with anything."""

    def __eq__(self, _other: object) -> bool:
        raise AssertionError("it was asked")

    __hash__ = Decimal.__hash__


def test_incomparable_objects_are_refused_without_values() -> None:
    """Foreign classes are not compared, because their errors may contain a cell."""
    session = dprelease.Session(SCHEMA, epsilon=1)
    one, other = (
        pd.DataFrame({"pay": pd.Series([Incomparable(i), None], dtype=object)}) for i in range(2)
    )
    one.dp.use(session)
    with pytest.raises(SessionError, match="DP-SESSION-002") as caught:
        other.dp.use(session)
    assert "it was asked" not in "".join(traceback.format_exception(caught.value))


def test_memory_error_is_not_reported_as_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("4711 bytes")

    session = dprelease.Session(SCHEMA, epsilon=1)
    one, other = (
        pd.DataFrame({"pay": pd.Series([Incomparable(i)], dtype=object)}) for i in range(2)
    )
    one.dp.use(session)
    monkeypatch.setattr(row_comparison, "_same_arrow", fail)
    with pytest.raises(DataError, match="DP-DATA-006") as caught:
        other.dp.use(session)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_identical_objects_are_not_compared() -> None:
    """A million comparisons would take 20 ms of each query."""
    session = dprelease.Session(SCHEMA, epsilon=1)
    found = pd.DataFrame({"pay": pd.Series([Incomparable(1), None, Incomparable(2)], dtype=object)})
    found.dp.use(session)
    found.dp.use(session)
    found.copy().dp.use(session)


class LyingArray(pd.arrays.IntegerArray):
    """Converts to other numbers than it contains."""

    def to_numpy(self, *_given: Any, **_named: Any) -> Any:
        return np.array([1, 2])


def test_conversions_of_foreign_arrays_are_not_trusted() -> None:
    session = dprelease.Session(SCHEMA, epsilon=1)
    pd.DataFrame({"age": pd.array([1, 2], "Int64")}).dp.use(session)
    lie = LyingArray(np.array([50, 60]), np.array([False, False]))
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        pd.DataFrame({"age": lie}).dp.use(session)


def test_refusals_contain_advice() -> None:
    session = dprelease.Session(SCHEMA, epsilon=100)
    found = frame()
    found.dp.use(session)
    later = found.assign(pay=found.age / 2)
    with pytest.raises(SessionError, match=r"DP-SESSION-010.*'pay'.*\n.*derive.*row_wise=True"):
        later.dp.use(session)
    with pytest.raises(SessionError, match=r"DP-SESSION-002.*\n.*where.*row_wise=True"):
        found[found.age > 30].dp.use(session)
    assert session.spent.epsilon == 0
    later.dp.use(session, row_wise=True)  # that word is its user's
    assert later.dp.sum("pay", epsilon=90)["value"][0] == pytest.approx(120, abs=24)
    # What has been vouched for is a registration like the first one.
    assert later.copy().dp.count(epsilon=1).shape == (1, 3)  # value, moe, quality
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        later.assign(pay=later.pay.max()).dp.use(session)
    # A computed column of the schema is computed from its own row, whatever a frame has there.
    found.assign(adult=False).dp.use(session)


def test_parallel_threads_register_one_frame() -> None:
    """(V46)"""
    from functools import partial
    from threading import Barrier

    session = dprelease.Session(SCHEMA, epsilon=1)
    frames = [frame().assign(age=number) for number in range(8)]
    barrier = Barrier(len(frames))
    used: list[int] = []

    def use(number: int) -> None:
        barrier.wait(processes.PATIENCE)
        try:
            frames[number].dp.use(session)
        except SessionError:
            return
        used.append(number)

    processes.in_threads(partial(use, number) for number in range(len(frames)))
    assert len(used) == 1


@pytest.mark.parametrize("kind", ["int64", "Int64", "object", "category"])
def test_writes_into_arrays_of_columns_are_detected(kind: str) -> None:
    """pandas copies on write, but not if code writes into an array of a column."""
    mine = frame().astype({"age": kind})
    session = dprelease.Session(SCHEMA, epsilon=1)
    mine.dp.use(session)
    array = mine["age"].array
    array[:] = [array[0]] * len(array)
    assert session._snapshot(session._first_token)["age"].tolist() == frame()["age"].tolist()
    with pytest.raises(SessionError, match="DP-SESSION-002"):
        mine.dp.count(epsilon=1)
