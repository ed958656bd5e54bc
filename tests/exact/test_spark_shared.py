"""Several tables of one source on Spark: computed by one job, and equal to DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprelease.exact.duckdb import Engine
from dprelease.exact.spark import jobs
from dprelease.exact.spark.executors import unit_tasks
from dprelease.query.resolve import Query
from tests.covering import examples
from tests.exact import families
from tests.exact import test_shared_scans as scanned
from tests.exact.build import ask, declare
from tests.exact.fake_spark import fake_spark_engine
from tests.exact.spark import small_pieces, vectors

ID = {"id": {"type": "integer"}}
BOUNDS = ((1, 1), (2, 1), (2, 3), (99, 2), (99, 3, 4), (2, 3, 5))
NAMES = ("max_groups", "max_rows_per_group", "max_rows")
ROWS = st.builds(
    lambda row, person: row | {"id": person}, scanned.ROWS, st.sampled_from([None, 1, 2, 3, -7])
)
IDS = pa.schema([*scanned.TYPES, ("id", pa.int64())])


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> Iterator[None]:
    with small_pieces(4):
        yield


def build_queries(unit: tuple[int, ...] | None, asks: Sequence[Any], **more: Any) -> list[Query]:
    """Return queries; with bounds on ids, or of rows."""
    given: dict[str, Any] = {}
    if unit is not None:
        given["privacy_unit"] = {"id": "id"} | dict(zip(NAMES, unit, strict=False))
    declared = declare(ID | scanned.COLUMNS, **given, **more)
    return [scanned.build_query(declared, f"q{i}", *one) for i, one in enumerate(asks)]


def duckdb_tables(queries: Sequence[Query], frame: object = None) -> list[Any]:
    """Return the tables of DuckDB, one by one."""
    with Engine.open(queries[0].declared, frame) as engine:
        return [vectors(query, engine.run(query)) for query in queries]


def spark_tables(queries: Sequence[Query], frame: object = None) -> tuple[list[Any], int]:
    """Return the tables of Spark, planned together, and the number of jobs that read rows."""
    with fake_spark_engine(queries[0].declared, frame) as (engine, spark):
        for query in queries:
            engine.compile(query)
        assert spark.jobs == 0
        engine.expect(queries)
        return [vectors(query, engine.run(query)) for query in queries], spark.jobs


@given(
    st.lists(ROWS, max_size=30),
    scanned.releases(),
    st.sampled_from([None, *BOUNDS]),
    st.sampled_from([0, 2**24]),
)
@settings(
    examples(8, in_audits=100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_shared_spark_jobs_give_the_vectors_of_duckdb(
    rows: Any, asks: Any, unit: Any, few: int
) -> None:
    queries, frame = build_queries(unit, asks), pa.Table.from_pylist(rows, IDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "MOST_DRIVER_SUMS", few)
        patch.setattr(jobs, "BLOCK_CELLS", 3)
        patch.setattr(unit_tasks, "MOST_ROWS_IN_MEMORY", 0 if few else 2**22)
        found, _ = spark_tables(queries, frame)
    assert found == duckdb_tables(queries, frame)


ROWS_OF_IDS = [
    {**scanned.ODD[i % 4], "id": person}
    for i, person in enumerate([1, 1, 1, 2, 2, None, 3, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 1, 1])
]


@pytest.mark.share(0.25)
@pytest.mark.parametrize("unit", [None, (2, 1)], ids=str)
@pytest.mark.parametrize("files", [0, 1, 3])
def test_one_spark_job_reads_all_tables(unit: Any, files: int, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS_OF_IDS, IDS)
    more: dict[str, Any] = {"source": f"{tmp_path}/*.parquet"} if files else {}
    for i in range(files):
        part = table.slice(7 * i, 7 if i < files - 1 else None)
        pq.write_table(part, tmp_path / f"{i}.parquet", row_group_size=3)
    frame = None if files else table
    queries = build_queries(unit, scanned.ASKS, **more)
    found, read = spark_tables(queries, frame)
    assert found == duckdb_tables(queries, frame)
    assert read == 1


@pytest.mark.share(0.25)
@pytest.mark.parametrize("kind", ["text", "integer"])
@pytest.mark.parametrize(
    "ids",
    [
        ["1", "2", "1", None, "-5"],
        [str(2**63), str(2**63 + 1), str(2**63), None, "7"],
        [str(2**70), str(2**70 + 1), str(2**70), None, str(-(2**70))],
        [str(2**127 - 1), str(2**127 - 2), str(2**127 - 1), None, str(-(2**127) + 1)],
    ],
    ids=["64 bits", "unsigned", "128 bits", "the widest"],
)
def test_ids_of_any_width_on_spark(kind: str, ids: list[str | None]) -> None:
    """Beyond 64 bits they are sent as texts, and SQL bounds them."""
    columns = {"id": {"type": kind}, "k": {"type": "category", "values": ["a", "b"]},
               "n": {"type": "integer", "lower": 0, "upper": 9}}  # fmt: skip
    bounds = {"id": "id", "max_groups": 1, "max_rows_per_group": 2}
    declared = declare(columns, privacy_unit=bounds)
    frame = pa.table({"id": ids * 6, "k": list("aabab") * 6, "n": list(range(30))})
    asks: list[dict[str, Any]] = [
        {"rows": {"count": "*"}},
        {"sum": {"sum": "n"}, "people": {"count_distinct": "id"}, "kinds": {"count_distinct": "k"}},
        {"middle": {"median": "n"}},
    ]
    queries = [
        replace(ask(declared, columns, ["k"]), name=f"q{i}") for i, columns in enumerate(asks)
    ]
    found, read = spark_tables(queries, frame)
    assert found == duckdb_tables(queries, frame)
    assert read == 1


def test_shared_sums_are_clamped_after_adding_all_parts() -> None:
    """Each task has two rows: a part is beyond 2^62, and the total is not."""
    declared = declare({"v": {"type": "integer", "lower": -(2**62), "upper": 2**62}})
    queries = [replace(ask(declared, {"total": {"sum": "v"}}), name=name) for name in "ab"]
    frame = pa.table({"v": [2**62, 2**62, 2**62, -(2**62), -(2**62)]})
    found, _ = spark_tables(queries, frame)
    assert found == duckdb_tables(queries, frame) == [{"total": [2**62]}] * 2


def test_spark_files_with_different_types(tmp_path: Path) -> None:
    """One has a narrower column, and one a column with an internal name."""
    files = [
        pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int64()), "x": [0.5, None]}),
        pa.table({"id": [1, 3], "n": pa.array([3, 4], pa.int8()), "x": [4.5, 0.0]}),
        pa.table({"id": [1] * 9, "n": [7] * 9, "x": [float("nan"), 3.0, 1.0] * 3,
                  "File_Row_Number": list("abcdefghi")}),
    ]  # fmt: skip
    for i, table in enumerate(files):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    columns = {"id": {"type": "integer"}, "n": {"type": "integer", "lower": 0, "upper": 9},
               "x": {"type": "number", "lower": 0, "upper": 4, "step": "0.5"}}  # fmt: skip
    bounds = {"id": "id", "max_groups": 2, "max_rows_per_group": 2}
    for unit in ({}, {"privacy_unit": bounds}):
        declared = declare(columns, source=f"{tmp_path}/*.parquet", **unit)
        asks = ({"rows": {"count": "*"}}, {"x": {"sum": "x"}, "known": {"count": "x"}})
        queries = [
            replace(ask(declared, dict(one), ["n"]), name=f"q{i}") for i, one in enumerate(asks)
        ]
        assert spark_tables(queries)[0] == duckdb_tables(queries)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "unit", [families.ROW_UNIT, families.unit_of(2, 2), families.unit_of(3, 2, 4)], ids=str
)
@pytest.mark.parametrize("asked", families.ASKED[:2])
@examples(1)
@given(rows=st.lists(families.ROWS, min_size=8, max_size=24))
def test_families_on_spark_equal_duckdb(unit: str, asked: str, rows: Any) -> None:
    """Rows are bounded by the finest cells, and those of ids meet once for all tables."""
    queries = families.family(asked, families.SUMS, unit, families.NULLS[1])
    frame = pa.Table.from_pylist(
        [{name: row[name] for name in families.TYPES.names} for row in rows], families.TYPES
    )
    found, read = spark_tables(queries, frame)
    assert found == duckdb_tables(queries, frame)
    assert read == (1 if unit else len(queries))


def test_columns_may_have_names_of_spark_columns() -> None:
    """For rows that are sent as stored, and as codes."""
    names = ("dp_bucket", "bucket", "kind", "content", "place", "number", "one")
    columns = {name: {"type": "category", "values": ["a", "b"]} for name in names}
    bounds = {"id": "id", "max_groups": 2, "max_rows_per_group": 1}
    people = {"id": {"type": "integer"}, "w": {"type": "integer", "lower": 0, "upper": 9}}
    declared = declare(ID | columns, privacy_unit=bounds)
    joined = declare(people, table="other", privacy_unit=bounds)
    frame = pa.table({"id": [1, 1, 2, 3, None] * 3} | {name: list("abaab") * 3 for name in names})
    other = pa.table({"id": [1, 2, 3], "w": [4, 5, 9]})
    join: dict[str, Any] = {"table": "other", "on_unit": "true"}
    for more in ({}, {"other": joined, "join": join}):
        queries = [
            replace(ask(declared, {"n": {"count": "*"}}, [name], **more), name=name)
            for name in names
        ]
        right = more.get("other")
        with Engine.open(declared, frame, right, other if right else None) as one:
            wanted = [vectors(query, one.run(query)) for query in queries]
        with fake_spark_engine(declared, frame, right, other if right else None) as (engine, spark):
            engine.expect(queries)
            assert [vectors(query, engine.run(query)) for query in queries] == wanted
            assert spark.jobs == (2 if right else 1)


@pytest.mark.parametrize("unit", [None, (2, 1)], ids=["rows", "ids"])
def test_private_keys_of_tasks_with_several_parts(
    unit: tuple[int, int] | None, tmp_path: Path
) -> None:
    """Numbers of one part and sums of several are combined in either order."""
    given: dict[str, Any] = {}
    if unit is not None:
        given = {"privacy_unit": {"id": "id", "max_groups": unit[0], "max_rows_per_group": unit[1]}}
    rows = [{"id": i % 9, "k": "abc"[i % 3]} for i in range(35)]
    frame = pa.Table.from_pylist(rows)
    columns = ID | {"k": {"type": "text"}}
    query = ask(declare(columns, **given), {"n": {"count": "*"}}, ["k"], private_keys="true")
    with Engine.open(query.declared, frame) as one:
        wanted = one.partitions(query)
    for stretch in (1, 2, 3):
        with small_pieces(stretch), fake_spark_engine(query.declared, frame) as (engine, _):
            found = engine.partitions(query)
        assert dict(zip(found.names, found.units.tolist(), strict=True)) == dict(
            zip(wanted.names, wanted.units.tolist(), strict=True)
        )
