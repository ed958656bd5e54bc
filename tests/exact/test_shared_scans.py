"""Tables read by one scan equal those that are read one by one, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.errors import DataError, State
from dprelease.exact import shared_scan
from dprelease.exact.duckdb import Engine
from dprelease.exact.results import vectors
from dprelease.exact.results.true_table import DenseProfile, ExactTable, Profile
from dprelease.query import scan_planning
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.resolve import Query
from dprelease.schema.load import Declared
from dprelease.statements.values import categories
from tests.covering import examples
from tests.exact.build import ask, declare

COLUMNS: dict[str, dict[str, Any]] = {
    "state": {"type": "category", "values": ["A", "B", "C"], "others": "C"},
    "race": {"type": "category", "values": ["x", "y"], "fill": "y"},
    "sex": {"type": "category", "values": ["F", "M"]},
    "adult": {"type": "boolean"},
    "age": {"type": "integer", "lower": 0, "upper": 4},
    "born": {"type": "date", "lower": date(2000, 1, 1), "upper": date(2000, 1, 3)},
    "pay": {"type": "number", "lower": -2, "upper": "7.5", "step": "0.5"},
    "band": {"cut": "pay", "edges": [-2, 0, 7]},
    "large": {"type": "integer", "lower": 0, "upper": 2**40},
}
KEYS = ("state", "race", "sex", "adult", "age", "born", "band")
ASKED: dict[str, dict[str, Any]] = {
    "n": {"count": "*"},
    "known": {"count": "pay"},
    "total": {"sum": "pay"},
    "old": {"sum": "age"},
    "mean": {"mean": "pay"},
    "spread": {"variance": "age"},
    "middle": {"median": "pay"},
    "low": {"quantile": {"of": "age", "at": "0.25"}},
    "common": {"mode": "race"},
    "most": {"sum": "large"},
    "kinds": {"count_distinct": "state"},
}
CONDITIONS = (None, None, "age > 1", "pay < 3 OR race = 'x'", "sex IS NOT NULL")
ROWS = st.fixed_dictionaries(
    {
        "state": st.sampled_from(["A", "B", "C", "Z", None]),
        "race": st.sampled_from(["x", "y", "q", None]),
        "sex": st.sampled_from(["F", "M", "?", None]),
        "adult": st.sampled_from([True, False, None]),
        "age": st.sampled_from([-1, 0, 1, 3, 4, 9, None]),
        "born": st.sampled_from([date(2000, 1, 1), date(2000, 1, 3), date(2020, 1, 1), None]),
        "pay": st.sampled_from([-9.0, -2.0, 0.0, 0.5, 7.25, 100.0, None]),
        "large": st.sampled_from([0, 1, 2**40, None]),
    }
)


TYPES = pa.schema(
    [("state", pa.string()), ("race", pa.string()), ("sex", pa.string()), ("adult", pa.bool_()),
     ("age", pa.int32()), ("born", pa.date32()), ("pay", pa.float64()), ("large", pa.int64())]
)  # fmt: skip


def frame_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), TYPES)


def build_query(declared: Declared, name: str, keys: Sequence[str], columns: Sequence[str],
          where: str | None) -> Query:  # fmt: skip
    query = ask(declared, {c: dict(ASKED[c]) for c in columns}, list(keys), where)
    return replace(query, name=name)


@st.composite
def releases(draw: st.DrawFn) -> list[tuple[tuple[str, ...], tuple[str, ...], str | None]]:
    """Draw what several queries ask: keys, columns, and a condition."""
    some_keys = st.lists(st.sampled_from(KEYS), max_size=3, unique=True).map(tuple)
    some = st.lists(st.sampled_from(list(ASKED)), min_size=1, max_size=3, unique=True).map(tuple)
    return draw(st.lists(st.tuples(some_keys, some, st.sampled_from(CONDITIONS)),
                         min_size=2, max_size=6))  # fmt: skip


def numbers(table: ExactTable, query: Query) -> dict[str, list[Any]]:
    """Return everything that is in a table."""
    found: dict[str, list[Any]] = {}
    for measurement in query.measurements:
        if measurement.is_vector:
            found[measurement.name] = table.vector(measurement.name).tolist()
            continue
        profile = table.profile(measurement.name)
        pairs = profile.pairs() if isinstance(profile, DenseProfile) else profile
        assert isinstance(pairs, Profile)
        found[measurement.name] = [
            pairs.starts.tolist(), pairs.values.tolist(), pairs.counts.tolist()
        ]  # fmt: skip
    return found


def answers(queries: Sequence[Query], frame: object, *, together: bool) -> list[Any]:
    known = queries if together else None
    with Engine.open(queries[0].declared, frame, queries=known) as engine:
        for query in queries:
            engine.compile(query)
        if together:
            engine.expect(queries)
        return [numbers(engine.run(query), query) for query in queries]


ODD = (
    {"state": "A", "race": "x", "sex": None, "age": 1, "pay": 0.5},
    {"state": "Z", "race": None, "sex": "F", "age": 9, "pay": None},
    {"state": None, "race": "y", "sex": "M", "age": 4, "pay": 3.0},
    {"state": "B", "race": "x", "sex": "F", "age": 0, "pay": -9.0},
    {"state": "C", "race": "q", "sex": "M", "age": 2, "pay": 2.0},
)
"""Rows that some keys drop and others keep."""

RANKS = [
    (("sex",), ("middle",), None),
    ((), ("middle", "n"), None),
    (("sex",), ("middle", "total"), None),
]
"""Tables whose ranks are those of a joint one, or sums of these: each adds up counts of its own."""


@given(
    st.lists(ROWS, max_size=12),
    releases(),
    st.sampled_from([1, 40, 2**18]),
    st.sampled_from([categories.COMPARED, 0]),
)
@examples(12)
@example(ODD, RANKS, 2**18, categories.COMPARED)
@example(ODD, RANKS, 40, 0)
def test_shared_scans_give_the_same_vectors(rows: Any, asks: Any, most: int, compared: int) -> None:
    declared = declare(COLUMNS)
    queries = [build_query(declared, f"q{i}", *one) for i, one in enumerate(asks)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_planning, "MOST_CELLS", most)  # few tables are joint ones, some, or all
        patch.setattr(categories, "COMPARED", compared)  # where more are looked up in tables
        frame = frame_of(rows)
        assert answers(queries, frame, together=True) == answers(queries, frame, together=False)


ASKS = (
    (("state", "sex", "age"), ("n", "total"), None),
    (("age", "state"), ("n", "mean"), None),
    (("sex",), ("n", "middle"), "age > 0"),
    (("race",), ("middle", "total"), "age > 0"),
    ((), ("n", "spread", "middle"), None),
)


def build_queries() -> list[Query]:
    declared = declare(COLUMNS)
    return [build_query(declared, f"q{i}", *one) for i, one in enumerate(ASKS)]


def shared_answers(queries: Sequence[Query]) -> list[Any]:
    return answers(queries, frame_of(ODD), together=True)


def test_one_scan_reads_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answers(build_queries(), frame_of(ODD), together=False)
    read = 0
    scan = Engine._scan_joint_tables

    def counted(self: Engine, what: scan_planning.Scan) -> Any:
        nonlocal read
        read += 1
        return scan(self, what)

    monkeypatch.setattr(Engine, "_scan_joint_tables", counted)
    monkeypatch.setattr(
        Engine, "_read_table", lambda self, query: pytest.fail("a table was read alone")
    )
    assert shared_answers(build_queries()) == alone
    assert read == 1


def test_planted_faults_in_shared_scans_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answers(build_queries(), frame_of(ODD), together=False)
    faults: dict[str, tuple[Any, str, Any]] = {
        "rows that one key drops are lost to all tables": (
            scan_planning.Joint, "space",
            property(lambda self: KeySpace(tuple(self.keys.values()))),
        ),
        "rows without a cell count in the last one": (
            Key, "size", property(lambda self: len(self.values))
        ),
        "conditions are left out": (scan_planning.Joint, "condition", None),
        "keys in the order of the joint table": (
            shared_scan, "_sum_over_other_keys",
            lambda values, keys, kept: over(values, keys, [k for k in keys if k.column in
                                            {one.column for one in kept}]),
        ),
        "one row too few": (
            shared_scan, "fill_joint_tables",
            lambda batches, joints: fill((batch.slice(1) for batch in batches), joints),
        ),
    }  # fmt: skip
    over, fill = shared_scan._sum_over_other_keys, shared_scan.fill_joint_tables
    for name, (where, what, fault) in faults.items():
        with monkeypatch.context() as patch:
            patch.setattr(where, what, fault)
            try:
                wrong = shared_answers(build_queries()) != alone
            except (ValueError, IndexError, DataError):
                wrong = True  # numbers that don't fit their tables
            assert wrong, name


def test_too_many_rows_are_not_scanned_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of more rows might not fit 64 bits; DuckDB alone uses 128."""
    alone = answers(build_queries(), frame_of(ODD), together=False)
    monkeypatch.setattr(shared_scan, "MOST_ROWS", len(ODD) - 1)
    assert shared_answers(build_queries()) == alone


def test_planning_compares_only_tables_that_can_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release may have thousands of tables: the time is not quadratic."""
    declared, compared = declare(COLUMNS), 0
    queries = [
        build_query(declared, f"q{i}", (), ("n", "middle"), f"age <> {i}") for i in range(100)
    ]
    grown = scan_planning.Joint.with_part

    def counting(self: scan_planning.Joint, part: scan_planning.Part) -> int:
        nonlocal compared
        compared += 1
        return grown(self, part)

    monkeypatch.setattr(scan_planning.Joint, "with_part", counting)
    twins = [replace(query, name=f"{query.name} again") for query in queries]
    found, _ = scan_planning.plan_scans([*queries, *twins])
    assert [len(scan.joints) for scan in found] == [200]
    assert compared == 200  # each twin with the joint table of the first


def test_wide_rows_are_read_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory does not grow with the number of tables."""
    declared, largest = declare(COLUMNS), 0
    wide = [build_query(declared, f"q{i}", (), ("n",), f"age <> {i}") for i in range(64)]
    frame = pa.table({"age": pa.array([i % 5 for i in range(10_000)], pa.int32())})
    alone = answers(wide, frame, together=False)
    real = Engine._scan_joint_tables

    def watched(self: Engine, what: scan_planning.Scan) -> Any:
        def seen(given: Any, joints: Any) -> Any:
            def each() -> Any:
                nonlocal largest
                for batch in given:
                    largest = max(largest, len(batch) * batch.num_columns)
                    yield batch

            return fill(each(), joints)

        with monkeypatch.context() as patch:
            patch.setattr(shared_scan, "fill_joint_tables", seen)
            return real(self, what)

    fill = shared_scan.fill_joint_tables
    monkeypatch.setattr(Engine, "_scan_joint_tables", watched)
    monkeypatch.setattr(
        vectors, "MOST_BATCH_NUMBERS", 2**15
    )  # the engine gives 2,048 rows, and more of these
    assert answers(wide, frame, together=True) == alone
    assert 0 < largest <= 64 * 2**11


def test_reasons_for_separate_scans_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    declared, other = declare(COLUMNS), declare(COLUMNS)
    monkeypatch.setattr(scan_planning, "MOST_NUMBERS", 400)
    queries = [
        build_query(declared, "ids", ("state",), ("kinds", "n"), None),
        build_query(declared, "wide", ("state",), ("most",), None),
        build_query(declared, "large", ("state", "race", "sex", "adult", "age"), ("n",), None),
        build_query(other, "other", ("state",), ("n",), None),
        build_query(declared, "a", ("state",), ("n",), None),
        build_query(declared, "b", ("sex",), ("n",), None),
    ]
    found, reasons = scan_planning.plan_scans(queries)
    assert [{part.query.name for part in scan.parts} for scan in found] == [{"a", "b"}]
    assert reasons == {
        "ids": ["distinct values don't add up"],
        "wide": [f"a row may add more than {scan_planning.MOST_ADDED} steps"],
        "large": ["it has too many cells to be computed together with others"],
        "other": ["no other table reads the same rows and columns"],
    }


def test_scans_stay_within_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joint tables and the sums over them, in as many scans as needed."""
    queries = build_queries() + [
        replace(query, name=f"{query.name} again") for query in build_queries()
    ]
    for most in (500, 1_000, 10_000):
        monkeypatch.setattr(scan_planning, "MOST_NUMBERS", most)
        found, _ = scan_planning.plan_scans(queries)
        for scan in found:
            held = sum(table.space.size * max(table.candidates, len(table.vectors))
                       for table in scan.joints)  # fmt: skip
            assert held + sum(part.integer_count for part in scan.parts) <= most
        alone = answers(queries, frame_of(ODD), together=False)
        assert answers(queries, frame_of(ODD), together=True) == alone


def test_unexpected_query_is_read_alone() -> None:
    queries = build_queries()
    with Engine.open(queries[0].declared, frame_of(ODD)) as engine:
        engine.expect(queries)
        twin = replace(queries[0], measurements=queries[0].measurements[:1])
        assert list(numbers(engine.run(twin), twin)) == ["n"]
        first = numbers(engine.run(queries[0]), queries[0])
        assert first == numbers(engine.run(queries[0]), queries[0])  # asked again: read again


def test_file_that_changes_before_the_scan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(frame_of(ODD), path)
    declared = declare(COLUMNS, source=str(path))
    queries = [build_query(declared, f"q{i}", *one) for i, one in enumerate(ASKS)]
    with Engine.open(declared) as engine:
        engine.expect(queries)
        pq.write_table(frame_of(ODD[:2]), path)
        with pytest.raises(DataError, match=r"DP-DATA-00[67]") as raised:
            engine.run(queries[0])
    assert raised.value.state is State.READ


UNITS: dict[str, dict[str, Any]] = {
    "rows": {},
    "ids": {"privacy_unit": {"id": "id", "max_groups": 2, "max_rows_per_group": 2}},
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("one", "other"), [("old", "old"), ("old", "OLD"), ("straße", "STRASSE"), ("é", "E\u0301")]
)
@pytest.mark.parametrize("read_as", ["key", "condition", "sum"])
def test_computed_columns_with_equal_names_stay_apart(
    unit: str, one: str, other: str, read_as: str
) -> None:
    """Each query uses its own column, even if names differ only by case."""
    declared = declare({"id": {"type": "integer"}, **COLUMNS}, **UNITS[unit])
    queries = []
    for i, (name, least) in enumerate([(one, 1), (other, 4), (one, 9)]):
        kind = (
            {"type": "integer", "lower": 0, "upper": 2} if read_as == "sum" else {"type": "boolean"}
        )
        text = (
            f"CASE WHEN age >= {least} THEN 1 ELSE 0 END" if read_as == "sum" else f"age >= {least}"
        )
        columns = {"n": {"count": "*"}} | ({"s": {"sum": name}} if read_as == "sum" else {})
        query = ask(
            declared, columns, [name] if read_as == "key" else [],
            f'"{name}"' if read_as == "condition" else None,
            derive={name: {**kind, "expression": text}},
        )  # fmt: skip
        queries.append(replace(query, name=f"q{i}"))
    ages = [0, 1, 3, 4, 9, None, 4]
    frame = pa.table({"id": list(range(7)), "age": pa.array(ages, pa.int32())})
    assert answers(queries, frame, together=True) == answers(queries, frame, together=False)


def test_many_small_keys_share_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells for rows that a key drops are planned only where a table without it needs them."""
    monkeypatch.setattr(scan_planning, "MOST_NUMBERS", 4 * 2**8)
    flags = {f"b{i}": {"type": "boolean"} for i in range(8)}
    declared = declare(flags)
    queries = [
        replace(ask(declared, {"n": {"count": "*"}}, list(flags)[:size]), name=f"q{size}")
        for size in (8, 0, 4, 8)
    ]
    queries[-1] = replace(queries[-1], name="twin")
    found, reasons = scan_planning.plan_scans(queries)
    assert [{part.query.name for part in scan.parts} for scan in found] == [
        {"q8", "twin"},
        {"q4", "q0"},
    ]
    assert not reasons
    frame = pa.table({name: [True, None, False, i > 4] for i, name in enumerate(flags)})
    assert answers(queries, frame, together=True) == answers(queries, frame, together=False)


NAN = float("nan")


WAYS = ("one file", "groups of rows", "two files", "two types", "no statistics", "a database")


def write_source(way: str, first: list[float | None], folder: Path) -> dict[str, str]:
    """Return the source of these numbers and of NaN, 0.25 and 7, stored in one of the ways."""
    parts = [
        (first, pa.int32()),
        ([NAN, 0.25, 7.0], pa.float64() if way == "two types" else pa.int32()),
    ]
    tables = [
        pa.table({"pay": pa.array(rows, pa.float64()), "age": pa.array([1] * len(rows), kind)})
        for rows, kind in parts
    ]
    if way in ("two files", "two types"):
        for i, table in enumerate(tables):
            pq.write_table(table, folder / f"{i}.parquet")
    elif way == "a database":
        with duckdb.connect(folder / "t.duckdb") as link:
            link.register("rows", pa.concat_tables(tables))
            link.execute("CREATE TABLE t AS SELECT * FROM rows")
        return {"path": str(folder / "t.duckdb"), "table": "t"}
    else:
        size = max(1, len(first)) if way == "groups of rows" else None
        whole, kept = pa.concat_tables(tables).combine_chunks(), way != "no statistics"
        pq.write_table(whole, folder / "0.parquet", row_group_size=size, write_statistics=kept)
    return {"path": str(folder / "*.parquet")}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("first", [[0.5, 0.5], [NAN, 0.5], [NAN], [None], []])
@pytest.mark.parametrize("way", WAYS)
def test_missing_values_do_not_depend_on_other_rows(
    way: str, first: list[float | None], tmp_path: Path
) -> None:
    """Statistics of a file do not decide whether a value is NaN."""
    declared = declare(COLUMNS, source=write_source(way, first, tmp_path))
    wanted = 2 + sum(value == 0.5 for value in first)
    for where, least in ((None, wanted), ("pay > 1", 1)):
        queries = [build_query(declared, f"q{i}", (), ("known", "old"), where) for i in range(2)]
        for found in (answers(queries, None, together=together) for together in (True, False)):
            assert [one["known"] for one in found] == [[least]] * 2


WIDER = {"text": pa.string(), "float": pa.float32(), "integer": pa.int16()}
"""Types of a column in another file, in which the values of a column of doubles are texts."""


@pytest.mark.parametrize("other", WIDER)
@pytest.mark.parametrize("source", ["path", "files"])
def test_nan_counts_in_no_file_of_several_types(source: str, other: str, tmp_path: Path) -> None:
    """With two values in a file of floats, its statistics rule out the NaN of other rows."""
    found = {}
    for name, more in (("without", []), ("with", [2.0])):
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(pa.table({"c": [NAN] * 100 + [1.0] + more}), folder / "1.parquet")
        values = pa.array([1, 2], pa.int64()).cast(WIDER[other])
        pq.write_table(pa.table({"c": values}), folder / "2.parquet")
        files = str(folder / "*.parquet")
        declared = declare(
            {"c": {"type": "category", "values": ["1", "2"]}},
            source={"path": files} if source == "path" else {"files": [files]},
        )
        queries = [
            replace(ask(declared, {"known": {"count": "c"}}, (), where), name=f"q{i}")
            for i, where in enumerate([None, "c <> '1'", "c IS NULL"])
        ]
        found[name] = [one["known"] for one in answers(queries, None, together=False)]
    assert found == {"without": [[3], [1], [0]], "with": [[4], [2], [0]]}


def test_columns_may_have_names_of_scan_columns(tmp_path: Path) -> None:
    names = ("dp_where0", "k0", "v0", "cell", "code", "value")
    columns = {name: {"type": "category", "values": ["p", "q"]} for name in names}
    frame = pd.DataFrame(
        {name: ["p", "q", "p", "zz"][i:] + ["q"] * i for i, name in enumerate(names[:4])}
        | {"code": ["p"] * 4, "value": ["q"] * 4}
    )
    declared = declare(columns)
    queries = [
        replace(ask(declared, {"n": {"count": "*"}}, [name], f"{other} = 'p'"), name=name)
        for name, other in zip(names, reversed(names), strict=True)
    ]
    assert answers(queries, frame, together=True) == answers(queries, frame, together=False)
