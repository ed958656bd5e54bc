"""Tables with ids that share their rows equal tables that each read them, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding import shared_rows
from dprelease.exact.duckdb import Engine
from dprelease.query import scan_planning
from dprelease.query.resolve import Query
from tests.covering import examples
from tests.exact.build import ask, declare
from tests.exact.test_shared_scans import numbers

COLUMNS: dict[str, Any] = {
    "shop": {"type": "integer", "lower": 0, "upper": 6},
    "kind": {"type": "category", "values": ["a", "b", "c"], "others": "c"},
    "n": {"type": "integer", "lower": -5, "upper": 10**6},
    "m": {"type": "number", "lower": 0, "upper": 3, "step": "0.5"},
}
ASKED: dict[str, dict[str, Any]] = {
    "rows": {"count": "*"},
    "people": {"count_distinct": "id"},
    "kinds": {"count_distinct": "kind"},
    "known": {"count": "m"},
    "total": {"sum": "n"},
    "mean": {"mean": "m"},
    "middle": {"median": "m"},
    "common": {"mode": "kind"},
}
IDS = {
    "integer": (pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 2**62]),
    "text": (pa.string(), ["", "1", "é", "anna", "bo"]),
}
BOUNDS = ((1, 1), (2, 3), (3, 1), (3, 2, 4))
CONDITIONS = (None, "n > 1", "kind = 'a' OR m < 1")


def rows_of(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = {
        "id": st.sampled_from([None, *IDS[kind][1]]),
        "shop": st.sampled_from([0, 1, 5, 6, 7, None]),
        "kind": st.sampled_from(["a", "b", "zz", None]),
        "n": st.sampled_from([None, 0, 1, 5, 10**7]),
        "m": st.sampled_from([None, 0.0, 0.5, 2.25, 9.0]),
    }
    return st.lists(st.fixed_dictionaries(row), max_size=40)


def frame_of(kind: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    kinds = [("id", IDS[kind][0]), ("shop", pa.int32()), ("kind", pa.string()), ("n", pa.int64()),
             ("m", pa.float64())]  # fmt: skip
    return pa.Table.from_pylist(list(rows), pa.schema(kinds))


Asked = tuple[tuple[str, ...], tuple[str, ...], str | None]


def queries_of(kind: str, bounds: tuple[int, ...], asks: Sequence[Asked]) -> list[Query]:
    unit = {"id": "id", "max_groups": bounds[0], "max_rows_per_group": bounds[1]}
    unit |= {"max_rows": bounds[2]} if len(bounds) > 2 else {}
    declared = declare({"id": {"type": kind}, **COLUMNS}, privacy_unit=unit)
    return [
        replace(
            ask(declared, {c: dict(ASKED[c]) for c in columns}, list(keys), where), name=f"q{i}"
        )
        for i, (keys, columns, where) in enumerate(asks)
    ]


def answers(queries: Sequence[Query], frame: object, *, together: bool) -> list[Any]:
    with Engine.open(queries[0].declared, frame) as engine:
        if together:
            engine.expect(queries)
        return [numbers(engine.run(query), query) for query in queries]


SOME = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["shop", "kind"]), max_size=2, unique=True).map(tuple),
        st.lists(st.sampled_from(list(ASKED)), min_size=1, max_size=3, unique=True).map(tuple),
        st.sampled_from(CONDITIONS),
    ),
    min_size=2,
    max_size=4,
)


@given(st.sampled_from(list(IDS)), st.sampled_from(BOUNDS), SOME, st.data())
@examples(15)
def test_shared_rows_give_the_same_vectors(
    kind: str, bounds: tuple[int, int], asks: list[Asked], data: st.DataObject
) -> None:
    queries = queries_of(kind, bounds, asks)
    frame = frame_of(kind, data.draw(rows_of(kind)))
    assert answers(queries, frame, together=True) == answers(queries, frame, together=False)


ASKS: tuple[Asked, ...] = (
    (("shop",), ("rows", "total"), None),
    (("kind",), ("people",), "n > 1"),
    (("kind", "shop"), ("mean", "middle"), None),
)
ROWS = [
    {"id": i % 5, "shop": i * 7 % 8, "kind": "abcz"[i * 5 % 4], "n": i % 7, "m": i % 4 / 2}
    for i in range(40)
]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return how often rows are read, and numbered, from now on."""
    seen = {"read": 0, "numbered": 0}
    for what, place, name in (
        ("read", bounding, "read_all_batches"),
        ("numbered", bounding, "number_ids"),
        ("numbered", shared_rows, "number_ids"),
    ):
        real = getattr(place, name)

        def again(*given: Any, what: str = what, real: Any = real) -> Any:
            seen[what] += 1
            return real(*given)

        monkeypatch.setattr(place, name, again)
    return seen


def test_rows_are_read_and_ids_numbered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, frame = queries_of("integer", (2, 3), ASKS), frame_of("integer", ROWS)
    alone = answers(queries, frame, together=False)
    seen = count_reads(monkeypatch)
    assert answers(queries, frame, together=True) == alone
    assert seen == {"read": 1, "numbered": 1}


def test_too_many_rows_are_read_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, frame = queries_of("integer", (2, 3), ASKS), frame_of("integer", ROWS)
    alone = answers(queries, frame, together=False)
    monkeypatch.setattr(bounding, "MOST_HELD_ROWS", 20)
    assert answers(queries, frame, together=True) == alone


def test_planted_faults_in_shared_rows_are_found() -> None:
    queries, frame = queries_of("integer", (2, 3), ASKS), frame_of("integer", ROWS)
    alone = answers(queries, frame, together=False)
    blocks = shared_rows.HeldRows._id_rows

    def some_too_few(self: shared_rows.HeldRows, columns: Any) -> Any:
        for rows in blocks(self, columns):
            values = None if rows.values is None else rows.values.slice(9)
            yield replace(rows, ids=rows.ids[9:], cells=rows.cells[9:], values=values)

    def rows_of_others(self: shared_rows.HeldRows, columns: Any) -> Any:
        for rows in blocks(self, columns):
            yield replace(rows, ids=rows.ids[::-1])

    for fault in (some_too_few, rows_of_others):
        with mock.patch.object(shared_rows.HeldRows, "_id_rows", fault):
            assert answers(queries, frame, together=True) != alone, fault.__name__


def test_only_queries_of_one_table_share_rows() -> None:
    some = queries_of("integer", (2, 3), ASKS)
    others = [replace(query, name=f"{query.name} of others") for query in
              queries_of("integer", (2, 3), ASKS[:1])]  # fmt: skip
    rows = declare(COLUMNS)
    by_row = replace(ask(rows, {"n": {"count": "*"}}, ["shop"]), name="rows")
    found = scan_planning.groups_bounded_together([*some, *others, by_row])
    assert [[query.name for query in one.queries] for one in found] == [["q0", "q1", "q2"]]
    with mock.patch.object(scan_planning, "MOST_TABLES", 2):
        found = scan_planning.groups_bounded_together(some)
        assert [[query.name for query in one.queries] for one in found] == [["q0", "q1"]]


def of_two_groups() -> list[Query]:
    """Return queries that take turns, of two that mean different things by one name."""
    unit = {"id": "id", "max_groups": 2, "max_rows_per_group": 3}
    declared = declare({"id": {"type": "integer"}, **COLUMNS}, privacy_unit=unit)
    found = []
    for i, least in enumerate((1, 5, 1, 5, 1)):
        many = {"many": {"type": "boolean", "expression": f"n >= {least}"}}
        query = ask(declared, {"rows": {"count": "*"}}, ["many"], CONDITIONS[i // 2], derive=many)
        found.append(replace(query, name=f"q{i}"))
    return found


def groups_with_rows(engine: Engine) -> int:
    """Return the number of groups whose rows the engine holds."""
    assert engine._rows is not None
    return sum(group.held is not None for group in engine._rows._groups)


def test_alternating_groups_are_read_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, frame = of_two_groups(), frame_of("integer", ROWS)
    alone = answers(queries, frame, together=False)
    seen = count_reads(monkeypatch)
    assert answers(queries, frame, together=True) == alone
    assert seen == {"read": 2, "numbered": 2}
    with Engine.open(queries[0].declared, frame) as engine:
        engine.expect(queries)
        found = []
        for query in queries:
            engine.run(query)
            found.append(groups_with_rows(engine))
        assert found == [1, 2, 2, 1, 0]


def test_groups_share_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups together may hold what one may: the second is read for each table."""
    queries, frame = of_two_groups(), frame_of("integer", ROWS)
    alone = answers(queries, frame, together=False)
    monkeypatch.setattr(bounding, "MOST_HELD_ROWS", len(ROWS) * 3 // 2)
    with Engine.open(queries[0].declared, frame) as engine:
        engine.expect(queries)
        found = []
        for query, wanted in zip(queries, alone, strict=True):
            assert numbers(engine.run(query), query) == wanted
            found.append(groups_with_rows(engine))
        assert found == [1, 1, 1, 1, 0]


def test_rows_are_released_after_the_last_table() -> None:
    queries, frame = queries_of("integer", (2, 3), ASKS), frame_of("integer", ROWS)
    with Engine.open(queries[0].declared, frame) as engine:
        engine.expect(queries)
        found = []
        for query in reversed(queries):
            engine.run(query)
            found.append(groups_with_rows(engine))
        assert found == [1, 1, 0]
        again = numbers(engine.run(queries[0]), queries[0])  # read anew
    assert again == answers(queries, frame, together=False)[0]
