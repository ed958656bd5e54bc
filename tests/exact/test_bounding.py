"""Contribution limits keep the same rows in memory, in SQL and in the slow reference."""

from __future__ import annotations

import traceback
from collections import Counter
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import DataError
from dprelease.exact import table_reader
from dprelease.exact.bounding import bounding_in_memory as bounding
from dprelease.exact.bounding import id_ranges, row_samples, row_selection_numpy
from dprelease.query.resolve import Query
from dprelease.statements.bounding import MODULUS, ROUNDS
from tests.covering import examples, sampled, thinned
from tests.exact.build import ask, declare, exact
from tests.exact.reference import digest, reference

COLUMNS: dict[str, Any] = {
    "shop": {"type": "integer", "lower": 0, "upper": 40},
    "n": {"type": "integer", "lower": -(10**15), "upper": 10**15},
    "m": {"type": "integer", "lower": 0, "upper": 3},
}
TEXTS = ["", "1", "é", "anna|1", "a" * 300]
NUMBERS = [-(2**63), -1, 0, 1, MODULUS, 2**63 - 1]
KINDS = {
    "text": (pa.string(), "text", TEXTS),
    "integer": (pa.int64(), "integer", NUMBERS),
    "unsigned": (pa.uint64(), "integer", [0, 1, MODULUS, 2**64 - 1]),
    "small": (pa.int8(), "integer", [-128, -1, 0, 1, 127]),
    "close": (pa.int8(), "integer", [-3, -1, 0, 2, 6]),
    "large and close": (pa.uint64(), "integer", [2**64 - 9, 2**64 - 5, 2**64 - 1]),
    "digits": (pa.string(), "integer", ["-1", "0", "7", str(2**63 - 1)]),
    "many digits": (pa.string(), "integer", ["-1", "7", str(2**100)]),
}
MEASURES: dict[str, Any] = {
    "with values": {
        "rows": {"count": "*"},
        "total": {"sum": "n"},
        "often": {"sum": "m"},
        "clipped": {"sum": "m", "max_sum": 4},
    },
    "without": {"rows": {"count": "*"}, "people": {"count_distinct": "id"}},
}
BOUNDS = [
    (1, 1), (3, 2), (2, 5), (41, 2), (50, 1), (41, 3, 4), (2, 3, 5), (50, 7, 6), (5, 1, 3),
    (1, 1, 1), (2, 1, 2), (3, 1, 3),
]  # fmt: skip
"""The limits of groups, of rows in each group, and of all rows; the last ones imply each other."""


def build(kind: str, bounds: tuple[int, ...], measures: str) -> Query:
    unit = {"id": "id", "max_groups": bounds[0], "max_rows_per_group": bounds[1]}
    unit |= {"max_rows": bounds[2]} if len(bounds) > 2 else {}
    columns = {"id": {"type": KINDS[kind][1]}, **COLUMNS}
    return ask(declare(columns, privacy_unit=unit), MEASURES[measures], ["shop"])


def rows_of(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = {
        "id": st.sampled_from([None, *KINDS[kind][2]]),
        "shop": st.sampled_from([0, 1, 2, 3, 4, 40, 41]),
        "n": st.sampled_from([None, 0, 1, 5, MODULUS, -MODULUS, 10**15]),
        "m": st.sampled_from([None, 0, 1, 2]),
    }
    return st.lists(st.fixed_dictionaries(row), max_size=60)


MOST = bounding.MOST_HELD_ROWS
WAYS = {
    "in the engine": (0, 2**18, 2**16, 2**20, 2**17),
    "in parts": (8, 2**18, 2**16, 2**20, 1),
    "numbered before, in parts, as they come": (12, 3, 2, 1, 2),
    "numbered before, as they come": (30, 4, 2, 3, 2**17),
    "in memory": (MOST, 2**18, 2**16, 2**20, 2**17),
    "in memory, in ranges of ids": (MOST, 2**18, 2**16, 2**20, 1),
    "in memory, in short blocks": (MOST, 5, 3, 2, 3),
}
"""Rows held, rows of a batch, rows hashed together, new rows after which some are dropped, and keys
from which on a range of ids has a thread of its own."""


def limits_for(way: str) -> dict[Any, dict[str, int]]:
    """Return limits of the modules with which few rows use this method."""
    held, batch, block, fewest, keys = WAYS[way]
    return {
        bounding: {"MOST_HELD_ROWS": held, "BATCH_ROWS": batch},
        row_selection_numpy: {"HASHED_AT_ONCE": block, "LEAST_NEW_ROWS": fewest},
        id_ranges: {"FEWEST_KEYS": keys},
    }


@pytest.mark.share(0.2)
@pytest.mark.parametrize(
    ("kind", "measures", "way"), thinned(list(KINDS), list(MEASURES), list(WAYS))
)
@examples(4)
@given(data=st.data())
def test_all_bounding_methods_keep_the_same_rows(
    kind: str, measures: str, way: str, data: st.DataObject
) -> None:
    query = build(kind, data.draw(st.sampled_from(BOUNDS)), measures)
    rows = data.draw(rows_of(kind))
    fields = [("id", KINDS[kind][0]), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    with ExitStack() as limits:
        for module, values in limits_for(way).items():
            limits.enter_context(mock.patch.multiple(module, **values))
        found = exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    for name, vector in reference(query, rows).items():
        assert found[name].tolist() == vector, name


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("kind", "way"), thinned(list(KINDS), list(WAYS), together=1))
def test_each_bounding_method_runs_and_agrees(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each method is used, and keeps the same of 300 rows as the reference."""
    for module, values in limits_for(way).items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    taken: set[str] = set()
    record_methods(monkeypatch, taken)
    ids = [None, *KINDS[kind][2]]
    rows = [
        {
            "id": ids[i * 11 % len(ids)],
            "shop": i * i % 11 % 6,
            "n": (i * 5) % 13 if i % 17 else None,
            "m": i % 3,
        }
        for i in range(300)
    ]
    fields = [("id", KINDS[kind][0]), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    for bounds in [(2, 1), (2, 5), (41, 2), (3, 4, 7)]:
        for measures in MEASURES:
            query = build(kind, bounds, measures)
            found = exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
            for name, vector in reference(query, rows).items():
                assert found[name].tolist() == vector, (name, bounds)
    if kind == "many digits" or way == "in the engine":
        assert not taken
    else:
        assert taken >= ({"whole"} if "in memory" in way else {"numbered"})
        assert "parts" in taken or "in parts" not in way or len(ids) < 6  # few ids fit


def test_rows_are_read_again_if_duckdb_can_not_store_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example if its disk is full: the same rows are kept."""
    monkeypatch.setattr(bounding, "MOST_HELD_ROWS", 60)
    query = build("integer", (2, 2), "with values")
    rows = [{"id": i % 9, "shop": i % 5, "n": i % 7, "m": i % 3} for i in range(300)]
    fields = [("id", pa.int64()), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    for place in ("dp_unbounded", "no.such.place"):
        monkeypatch.setattr(bounding, "UNBOUNDED", place)
        stored = mock.Mock(side_effect=bounding._materialize)
        monkeypatch.setattr(bounding, "_materialize", stored)
        found = exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
        assert stored.called
        for name, vector in reference(query, rows).items():
            assert found[name].tolist() == vector, name


@pytest.mark.parametrize("seen", ["id < 3", "id BETWEEN 4 AND 7", "id > 999", "id < 0"])
def test_ids_that_appear_between_two_reads_are_limited(
    seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids outside the range that the first read found get the same limits."""
    query = build("integer", (2, 1), "without")
    rows = [
        {"id": i % 9 + 4711 * (i % 9 == 8), "shop": i % 5, "n": None, "m": None} for i in range(90)
    ]
    fields = [("id", pa.int64()), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    before, asked = bounding._number_ids_first, []

    def stale(link: Any, sql: str, kind: pa.DataType, most: int) -> Any:
        asked.append(sql)
        return sql, *before(link, f"SELECT * FROM ({sql}) WHERE {seen}", kind, most)[1:]

    monkeypatch.setattr(bounding, "_number_ids_first", stale)
    monkeypatch.setattr(bounding, "MOST_HELD_ROWS", 60)
    found = exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    assert asked
    for name, vector in reference(query, rows).items():
        assert found[name].tolist() == vector, name


@pytest.mark.parametrize(("most", "long"), [(2**30, 300), (30_000, 300), (30_000, 3)])
def test_long_text_ids_are_bounded(most: int, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow can't number texts of 2^31 bytes together."""
    monkeypatch.setattr(bounding, "MOST_LONG_ID_BYTES", most)
    taken: set[str] = set()
    record_methods(monkeypatch, taken)
    query = build("text", (2, 1), "with values")
    ids = [str(i).rjust(long, "x") for i in range(120)]
    rows = [{"id": ids[i % 120], "shop": i % 5, "n": i % 7, "m": i % 3} for i in range(400)]
    fields = [("id", pa.string()), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    found = exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    assert taken == ({"whole"} if most == 2**30 or long == 3 else {"numbered"})
    for name, vector in reference(query, rows).items():
        assert found[name].tolist() == vector, name


@pytest.mark.parametrize("error", [pa.ArrowCapacityError, pa.ArrowKeyError, MemoryError])
def test_library_errors_in_bounding_contain_no_data(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's error, for example, would contain the total length of ids."""

    def fails(*_: object) -> None:
        raise error("4711")

    monkeypatch.setattr(bounding, "number_ids", fails)
    query = build("text", (2, 1), "with values")
    fields = [("id", pa.string()), ("shop", pa.int16()), ("n", pa.int64()), ("m", pa.int32())]
    rows = [{"id": "a", "shop": 1, "n": 1, "m": 1}]
    with pytest.raises(DataError, match="DP-DATA-006") as caught:
        exact(query, pa.Table.from_pylist(rows, schema=pa.schema(fields)))
    told = "".join(traceback.format_exception(caught.value))
    assert "4711" not in told


def record_methods(monkeypatch: pytest.MonkeyPatch, taken: set[str]) -> None:
    """Record which methods of bounding are used."""
    numbered, append, read = (
        bounding._number_ids_first,
        bounding._append_kept_rows,
        bounding.read_all_batches,
    )

    def before(*given: Any) -> Any:
        taken.add("numbered")
        return numbered(*given)

    def appended(*given: Any, alone: bool) -> None:
        if not alone:
            taken.add("parts")
        append(*given, alone=alone)

    def whole(*given: Any) -> Any:
        found = read(*given)
        if found is not None:
            taken.add("whole")
        return found

    monkeypatch.setattr(bounding, "_number_ids_first", before)
    monkeypatch.setattr(bounding, "_append_kept_rows", appended)
    monkeypatch.setattr(bounding, "read_all_batches", whole)


def test_cells_with_equal_hashes_count_as_two_cells() -> None:
    """Cells that differ by the modulus have the same hash; the limits hold nevertheless."""
    cells = np.array([5, 5 + MODULUS, 5 + 2 * MODULUS, 5, 5 + MODULUS, 7], dtype=np.int64)
    codes = np.array([0, 0, 0, 0, 0, 1], dtype=np.int64)
    values = pa.record_batch({"v0": pa.array([1, 2, 3, 4, 5, 6])})
    rows = row_selection_numpy.IdRows(codes, 0, cells, values)
    unit = build("integer", (2, 1), "with values").unit
    hashes = np.array([3, 4], dtype=np.int64)
    found = row_selection_numpy.select_kept_rows(
        [rows], 6, hashes, row_selection_numpy.SelectionLimits(unit, 2**40, most_rows=10, threads=2)
    )
    assert sorted(zip(found["id"].to_pylist(), found["cell"].to_pylist(), strict=True)) == [
        (0, 5),
        (0, 5 + MODULUS),
        (1, 7),
    ]


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 3, 2**31]),
            st.sampled_from([0, 1, 5, 5 + MODULUS, 5 + 2 * MODULUS, 2**61]),
            st.integers(0, 3),
        ),
        max_size=40,
    ),
    bounds=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    few=st.booleans(),
)
@example(rows=[(0, 5, 1), (0, 5 + MODULUS, 2)], bounds=(1, 1), few=False)
@example(rows=[(0, 0, 1), (1, 2**61, 2), (0, 2**61, 3)], bounds=(2, 2), few=False)
def test_packed_numbers_sort_like_keys(
    rows: list[tuple[int, int, int]], bounds: tuple[int, int], few: bool
) -> None:
    """By id and cell in one number or not, and where cells of an id share a hash, the same rows."""
    if few:
        rows = [(one % 2**31, cell % 7, value) for one, cell, value in rows]
    ids, cells, values = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    batch = pa.record_batch({"v0": pa.array(values)})
    known = {0: 0, 1: 1, 3: 2, 2**31: 3}
    codes = np.array([known[int(one)] for one in ids], dtype=np.int64)
    hashes = row_samples.extend_hash(
        None, row_samples.hash_residues(np.array(list(known), dtype=np.int64))
    )
    unit = build("integer", bounds, "with values").unit

    def found() -> list[tuple[Any, ...]]:
        block = row_selection_numpy.IdRows(codes, 0, np.ascontiguousarray(cells), batch)
        limits = row_selection_numpy.SelectionLimits(unit, 2**62, most_rows=100, threads=1)
        table = row_selection_numpy.select_kept_rows([block], len(rows), hashes, limits)
        return sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))

    packed = found()
    with mock.patch.object(
        row_selection_numpy, "_order_by_cell", row_selection_numpy._order_by_hash
    ):
        assert found() == packed
    assert max(Counter((one, cell) for one, cell, _ in packed).values(), default=0) <= bounds[1]
    groups = Counter(one for one, _ in {row[:2] for row in packed})
    wanted = {code: min(len(set(cells[codes == code])), bounds[0]) for code in set(codes.tolist())}
    assert groups == wanted


@given(
    ids=st.lists(st.integers(0, 9), min_size=1, max_size=80),
    blocks=st.integers(1, 4),
    threads=st.integers(1, 6),
)
def test_no_id_is_in_two_ranges(ids: list[int], blocks: int, threads: int) -> None:
    """Each key is in one range, in the order of keys, with all others of its id."""
    keys = np.array([(one << 31) + place for place, one in enumerate(ids)], dtype=np.int64)
    with mock.patch.object(id_ranges, "FEWEST_KEYS", 1):
        spans = id_ranges.key_ranges(np.array_split(keys, blocks), 31, threads)
    found = [keys[id_ranges.positions_in_range(keys, span)] for span in spans]
    assert sorted(np.concatenate(found).tolist()) == sorted(keys.tolist())
    held = [set((part >> 31).tolist()) for part in found]
    assert sum(map(len, held)) == len(set(ids))
    assert spans == sorted(spans)
    assert len(spans) <= threads


def test_id_ranges_have_equal_sizes() -> None:
    keys = np.arange(1000, dtype=np.int64) << 31
    with mock.patch.object(id_ranges, "FEWEST_KEYS", 100):
        spans = id_ranges.key_ranges([keys[:700], keys[700:]], 31, 4)
    assert [len(id_ranges.positions_in_range(keys, span)) for span in spans] == [250] * 4
    assert id_ranges.key_ranges([keys], 31, 4) == [(0, id_ranges.LARGEST_KEY)]


def test_numpy_hash_is_the_documented_hash() -> None:
    ids = np.array([0, 1, 77, MODULUS - 1], dtype=np.int64)
    found = row_samples.extend_hash(row_samples.extend_hash(None, ids), np.array([9, 0, 4711, 3]))
    wanted = [digest([0, 9]), digest([1, 0]), digest([77, 4711]), digest([MODULUS - 1, 3])]
    assert found.tolist() == wanted
    assert all(2**32 * factor <= 2**63 for _, factor in ROUNDS)  # XOR keeps a sum below 2^32


@pytest.mark.parametrize("cells", [np.arange(20), np.arange(200), np.arange(0, 51200, 512)])
def test_hash_prefers_no_cell(cells: np.ndarray[Any, Any]) -> None:
    """Over 20,000 ids in a row each cell is among the first five as often as any other."""
    ids = row_samples.extend_hash(None, np.arange(20_000))
    hashes = row_samples.extend_hash(ids[:, None], np.broadcast_to(cells, (len(ids), len(cells))))
    first = np.argpartition(hashes, 5, axis=1)[:, :5]
    counts = np.bincount(first.ravel(), minlength=len(cells))
    expected = 5 * len(ids) / len(cells)
    spread = np.sum((counts - expected) ** 2) / expected / (1 - 5 / len(cells))
    assert spread < len(cells) + 6 * (2 * len(cells)) ** 0.5


CROWD = pa.table({"id": [7] * 60, "shop": [*range(5)] * 12, "n": [1] * 60, "m": [1] * 60})
GRID = [
    (groups, rows, total)
    for groups in range(1, 7)
    for rows in (1, 2)
    for total in (None, *range(1, 7))
]
"""All limits around those that imply each other, for a unit with 12 rows in each of 5 cells."""


@pytest.mark.share(0.5)
@pytest.mark.parametrize("many", [0, 2**62], ids=["in memory", "in the engine"])
@pytest.mark.parametrize("measures", MEASURES)
def test_every_contribution_limit_is_applied(many: int, measures: str) -> None:
    """A limit may be left out only where others imply it: as many rows count as all limits allow."""
    for groups, rows, total in sampled(GRID, 0.4):
        query = build("integer", (groups, rows, *(() if total is None else (total,))), measures)
        unit = query.unit
        with mock.patch.object(table_reader, "MANY_CELLS", many):
            found = exact(query, CROWD)
        allowed = min(min(groups, 5) * rows, total or 60)
        assert found["rows"].sum() == allowed, unit
        assert found["rows"].max() <= rows
        if measures == "without":
            assert found["people"].sum() <= unit.most_groups
