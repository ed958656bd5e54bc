"""The Spark engine gives exactly the vectors of DuckDB, or refuses."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.spark.sessions import spark_session, workers
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.query.resolve import resolve
from dprelease.release.run_options import with_engine
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.covering import thinned
from tests.exact import test_computed_values, test_joins, test_missing_codes, test_reference
from tests.exact.build import ask, declare
from tests.exact.spark import assert_engines_agree, local_spark, of_source, some_rows, some_table
from tests.release import build as release_build
from tests.replay import Keyed

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark
]
Row = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[Any]:
    with local_spark() as session:
        yield session


UNITS_AND_KEYS = thinned(test_reference.UNITS, test_reference.KEYS[1:], together=1)


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("unit", "by"), UNITS_AND_KEYS, ids=str)
def test_random_tables_agree_on_spark(unit: Row, by: list[str]) -> None:
    query = test_reference.build(unit, by, test_reference.MEASURES)
    few = test_reference.build(unit, by, {"rows": {"count": "*"}, "total": {"sum": "n"}})
    table = test_reference.as_table(some_rows(len(str(by)), 70))
    assert_engines_agree([query, few, test_reference.without_people(query)], table)


@pytest.mark.parametrize("unit", test_reference.UNITS[:2], ids=str)
def test_empty_tables_and_no_keys_on_spark(unit: Row) -> None:
    query = test_reference.build(unit, [], test_reference.MEASURES)
    table = test_reference.as_table(some_rows(1, 40))
    assert_engines_agree([query], table)
    with SparkEngine.open(query.declared, table.slice(0, 0)) as engine:
        assert not engine.run(query).vector("rows").any()


@pytest.mark.audit  # without Spark it is tried each time: test_spark_shared.py
def test_spark_sums_are_clamped_after_adding_all_parts() -> None:
    """Each part is beyond 2^62, and their sum is not."""
    column = {"type": "integer", "lower": -(2**62), "upper": 2**62}
    query = ask(declare({"v": column}), {"total": {"sum": "v"}, "rows": {"count": "*"}})
    values = [2**62] * 2**18 + [2**62] + [-(2**62)] * 2**18
    assert_engines_agree([query], pa.table({"v": values}))


@pytest.mark.parametrize("in_query", [True, False])
def test_computed_columns_agree_on_spark(in_query: bool) -> None:
    for seed, unit in enumerate(test_reference.UNITS[:2]):
        table = test_reference.as_table(some_rows(seed, 70))
        queries = [
            test_computed_values.build(
                unit, by, "band <> '0-9' OR n >= 3 OR k LIKE 'z%'", in_query=in_query
            )
            for by in test_computed_values.KEYS[1:]
        ]
        assert_engines_agree(queries, table)


@pytest.mark.parametrize("how", test_joins.JOINS)
def test_public_joins_agree_on_spark(how: str) -> None:
    one = random.Random(how).choice
    rows = [
        {
            "id": one([None, 1, 2, 3]),
            "start": one([None, 1, 2, 3, 4]),
            "code": one(["a", "A", "b", None]),
            "n": one([None, -7, 0, 3, 99]),
        }
        for _ in range(40)
    ]
    public = [
        {"station": i, "code": "aAb1"[i % 4], "region": ("north", None)[i % 2], "height": i + 0.75}
        for i in range(4)
    ]
    for unit in test_joins.UNITS:
        query = test_joins.public_query(unit, how)
        assert_engines_agree([query], test_joins.trips(rows), test_joins.stations(public))


def test_joins_by_id_agree_on_spark() -> None:
    one = random.Random(3).choice
    ids = [None, 1, 1, 2, 3, 4, 5, 6]
    people = [
        {"id": one(ids), "sex": one(["F", "M", None]), "rate": one([None, 0, 2, 9])}
        for _ in range(30)
    ]
    visits = [
        {"id": one(ids), "ward": one(["a", "b", "d", None]), "days": one([None, -9, 1, 3])}
        for _ in range(50)
    ]
    first, second = test_joins.tables(people, visits)
    for bounds in test_joins.BOUNDS:
        assert_engines_agree([test_joins.private_query(bounds, ["sex", "ward"])], first, second)


def test_clipped_sums_agree_on_spark() -> None:
    """Sums of people that are limited in each cell, within limits of rows or of all rows."""
    values = {"m": "x", "s": 0, "x": 0.5, "flag": True}
    rows = [{"id": i % 4, "k": "abc"[i % 3], "n": i % 9, **values} for i in range(40)]
    for unit in test_reference.UNITS[1], test_reference.UNITS[5]:
        query = test_reference.build(unit, ["k", "m"], {"total": {"sum": "n"}})
        assert any(m.aggregate.most_of_unit for m in query.measurements)
        assert_engines_agree([query], test_reference.as_table(rows))


@pytest.mark.parametrize(
    "unit",
    [{}, {"id": "id", "max_groups": 2, "max_rows_per_group": 1}, {"id": "id", "max_rows": 3}],
    ids=str,
)
def test_private_keys_agree_on_spark(unit: Row) -> None:
    columns = {"id": {"type": "integer"}, "word": {"type": "text"}, "n": {"type": "integer"}}
    query = ask(
        declare(columns, **({"privacy_unit": unit} if unit else {})),
        {"rows": {"count": "*"}},
        ["word", "n"],
        private_keys="true",
    )
    one = random.Random(5).choice
    rows = [
        {
            "id": one([None, 1, 2, 3, 4]),
            "word": one(["ä", "a", "a:1", "\0", None]),
            "n": one([1, -2]),
        }
        for _ in range(60)
    ]
    frame = pa.Table.from_pylist(rows)
    with Engine.open(query.declared, frame) as one_, SparkEngine.open(query.declared, frame) as two:
        assert two.compile(query) is None
        found, wanted = two.partitions(query), one_.partitions(query)
    assert dict(zip(found.names, found.units.tolist(), strict=True)) == dict(
        zip(wanted.names, wanted.units.tolist(), strict=True)
    )


LINES = [
    "1,a, 7 ,2.25,01.02.2024,true,2024-01-02 00:00:00",
    "1,b,+3,1e1,29.02.2024,0,2024-01-01 00:00:00",
    "2,\"a\"\"\",3.0,.5,30.02.2024,T,x",
    "2,a,5,nan,01.02.2023,maybe,",
    ",b,99999999999999999999999999,inf,,f,2024-06-01 00:00:00",
    "3,\xa0a,4,-1,1.2.2024, true ,2024-01-02 00:00:00",
    "4",
    "5,a,1,1,,,,,,",
    "6,\"a\nb,1\n\",1,2,,,",
    '7,"z"z,1,2,,,',
    '8,"5" a",1,2,,,',
    "NA,a,1,2,,,",
]  # fmt: skip


@pytest.mark.parametrize("unit", [True, False])
def test_text_files_agree_on_spark(unit: bool, tmp_path: Path) -> None:
    """Both engines read damaged lines equally."""
    for part, lines in enumerate((LINES, LINES[:4], LINES[::-1])):
        text = "\r\n" if part else "\n"
        body = text.join(["id,k,n,x,d,flag,t", *lines, ""])
        (tmp_path / f"t{part}.csv").write_bytes(body.encode())
    assert_engines_agree([of_source(f"{tmp_path}/t*.csv", unit, nulls=["", "NA"])])
    records = [
        {"id": i % 4, "k": "a", "n": [1, "2", 3.5, None][i % 4], "x": i / 8} for i in range(30)
    ]
    lines = "\n".join([*map(json.dumps, records), "{broken", ""])
    (tmp_path / "t.jsonl").write_text(lines)
    assert_engines_agree([of_source(f"{tmp_path}/t.jsonl", unit)])


@pytest.mark.parametrize("unit", [True, False])
def test_parquet_agrees_on_spark(unit: bool, tmp_path: Path) -> None:
    table = some_table(300)
    pq.write_table(table, tmp_path / "t1.parquet", row_group_size=50)
    pq.write_table(table.slice(0, 10), tmp_path / "t2.parquet")
    assert_engines_agree([of_source(f"{tmp_path}/t*.parquet", unit)])


@pytest.mark.parametrize("kind", ["csv", "json_lines", "narrow", "doubles"])
def test_missing_codes_and_two_digit_years_on_spark(kind: str, tmp_path: Path) -> None:
    kinds = test_missing_codes.KINDS.get(kind)
    if kinds is None:
        source = test_missing_codes.FILES[kind](tmp_path)
    else:
        pq.write_table(test_missing_codes.plain_numbers(kinds), tmp_path / "t.parquet")
        source = {"path": str(tmp_path / "t.parquet")}
    declared = declare(test_missing_codes.COLUMNS, source=source)
    asked = test_missing_codes.ASKED.values()
    assert_engines_agree(
        [ask(declared, one["columns"], one.get("by"), one.get("where")) for one in asked]
    )
    (tmp_path / "days.csv").write_text("d\n31.12.99\n01.02.03\n30.06.26\n")
    days = {"d": {"type": "date", "lower": "1926-01-01", "upper": "2025-12-31"}}
    form = {"path": str(tmp_path / "days.csv"), "date_format": "%d.%m.%y", "pivot": 2025}
    assert_engines_agree([ask(declare(days, source=form), {"n": {"count": "*"}}, ["d"])])


def test_counts_of_rows_agree_on_spark(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("v\n1\n2\n3\n")
    for name in ("t.parquet", "t.csv"):
        declared = declare({"v": {"type": "integer"}}, source=str(tmp_path / name))
        assert_engines_agree([ask(declared, {"rows": {"count": "*"}})])


@pytest.mark.parametrize("name", ["t.parquet", "{t}.parquet", "t[1]*.parquet"])
def test_spark_reads_types_and_names_through_duckdb(name: str, tmp_path: Path) -> None:
    """Tasks read files with DuckDB: types unknown to Spark, names that Spark reads as patterns."""
    # By DuckDB: Arrow writes a UUID as plain bytes up to a version that is still allowed.
    value = "'00112233-4455-6677-8899-aabbccddeeff'::UUID"
    duckdb.sql(f"COPY (SELECT {value} AS v) TO '{tmp_path / name}'")
    declared = declare({"v": {"type": "text"}}, source=str(tmp_path / name))
    assert_engines_agree([ask(declared, {"n": {"count": "v"}})])


def test_unsupported_sources_on_spark_are_refused(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "t.duckdb") as link:
        link.execute("CREATE TABLE t AS SELECT 1 AS v")
    pq.write_table(pa.table({"v": [1]}), tmp_path / "m1.parquet")
    pq.write_table(pa.table({"v": ["1"]}), tmp_path / "m2.parquet")
    for source in (
        str(tmp_path / "m*.parquet"),
        {"path": str(tmp_path / "t.duckdb"), "table": "t"},
    ):
        query = ask(declare({"v": {"type": "integer"}}, source=source), {"n": {"count": "v"}})
        with (
            SparkEngine.open(query.declared) as engine,
            pytest.raises(DataError, match="SPARK-001"),
        ):
            engine.compile(query)


@pytest.mark.parametrize("unit", [True, False])
def test_spark_errors_contain_no_values(unit: bool, tmp_path: Path, capfd: Any) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 12], np.int32)), pa.py_buffer(b"SECRET-4711\xff")]
    )  # fmt: skip
    columns = {"id": {"type": "text"}, "k": {"type": "text"}}
    # Without statistics: of a file that holds one value alone DuckDB would not read it.
    pq.write_table(pa.table({"k": bad, "id": bad}), tmp_path / "t.parquet", write_statistics=False)
    given = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1}} if unit else {}
    declared = declare(columns, source=str(tmp_path / "t.parquet"), **given)
    query = ask(declared, {"n": {"count": "k"}}, where="lower(k) <> 'x'")
    with (
        SparkEngine.open(declared) as engine,
        pytest.raises(DataError, match="DP-DATA-006") as caught,
    ):
        engine.run(query)
    error = caught.value
    said = "".join(capfd.readouterr())
    assert "4711" not in f"{error} {error.args} {error.__cause__} {error.__context__} {said}"


def test_file_that_changes_is_refused_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.csv"
    file.write_text("v\n1\n")
    query = ask(declare({"v": {"type": "integer"}}, source=str(file)), {"n": {"count": "v"}})
    with SparkEngine.open(query.declared) as engine:
        file.write_text("v\n1\n2\n")
        with pytest.raises(DataError, match="DP-DATA-007"):
            engine.run(query)


def test_missing_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    query = ask(declare({"v": {"type": "integer"}}), {"n": {"count": "v"}})
    frame = pa.table({"v": [1]})
    monkeypatch.setattr(workers, "version_text", lambda: "dprelease 0")
    with pytest.raises(DataError, match="DP-SPARK-004"), SparkEngine.open(query.declared, frame):
        pass
    monkeypatch.setattr(spark_session, "find_spec", lambda _: None)
    with pytest.raises(DataError, match="DP-SPARK-003"), SparkEngine.open(query.declared, frame):
        pass


@pytest.mark.parametrize("example", ["nist_acs", "bike_trips"])
def test_example_data_agrees_on_spark(example: str) -> None:
    declaration = read_declaration(ROOT / "examples" / example / "release.yaml")
    for query in resolve(declaration):
        assert_engines_agree([query])


def test_releases_of_both_engines_are_equal(tmp_path: Path) -> None:
    """With the same noise, both engines publish the same bytes."""
    declaration = read_declaration(release_build.write(tmp_path))
    one = run(declaration, bits=Keyed("noise"), output=tmp_path / "one")
    two = run(with_engine(declaration, "spark"), bits=Keyed("noise"), output=tmp_path / "two")
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes()


def test_releases_of_records_use_duckdb() -> None:
    declaration = read_declaration(ROOT / "tests/bad/DP-LOCAL-001_presence_of_a_record.yaml")
    assert with_engine(declaration, "duckdb") is declaration
    with pytest.raises(DataError, match="DP-SPARK-005"):
        with_engine(declaration, "spark")


def test_lookups_of_persons_use_duckdb(tmp_path: Path) -> None:
    """They are refused before a row is read, for frames and for files."""
    (tmp_path / "ids.csv").write_text("card,person\n1,7\n")
    (tmp_path / "held.csv").write_text("card\n1\n")
    lookup = {"source": str(tmp_path / "ids.csv"), "on": "card"}
    unit = {"id": "person", "lookup": lookup, "max_rows": 1}
    columns = {"person": {"type": "integer"}, "card": {"type": "integer"}}
    frame = pa.table({"card": [1]})
    for more, rows in (({}, frame), ({"source": str(tmp_path / "held.csv")}, None)):
        query = ask(declare(columns, privacy_unit=unit, **more), {"n": {"count": "*"}})
        with SparkEngine.open(query.declared, rows) as engine:
            with pytest.raises(DataError, match="DP-SPARK-005") as refused:
                engine.compile(query)
            assert refused.value.state is State.NOTHING


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "kind", ["uint8", "uint16", "uint32", "uint64", "ns", "ns, UTC", "us", "ms", "ms, UTC"]
)
@pytest.mark.parametrize("unit", [True, False])
def test_types_unknown_to_spark_are_read(kind: str, unit: bool, tmp_path: Path) -> None:
    values = [0, 7, None, 2**8 - 1, 1_704_067_200]
    if kind == "uint64":
        values += [2**64 - 1, 2**53 + 1]
    if kind == "ns":
        values += [1_704_067_200 * 10**9, 2**62]
    if kind.startswith("ms"):
        values += [1_704_067_200 * 10**3, 2**63 - 1, -(2**63)]  # beyond what microseconds hold
    stored = {
        "ns": pa.timestamp("ns"),
        "ns, UTC": pa.timestamp("ns", "UTC"),
        "us": pa.timestamp("us"),
        "ms": pa.timestamp("ms"),
        "ms, UTC": pa.timestamp("ms", "UTC"),
    }
    arrow = stored.get(kind) or getattr(pa, kind)()
    most = {"uint8": 2**8, "uint16": 2**16}.get(kind, 2**64)
    held = [v for v in values if v is None or v < most]
    table = pa.table({"v": pa.array(held, pa.int64() if kind in stored else arrow).cast(arrow)})
    table = table.append_column("id", pa.array([i % 3 for i in range(len(table))], pa.uint64()))
    pq.write_table(table, tmp_path / "t.parquet")
    column: Row = {"type": "date", "lower": "1970-01-01", "upper": "2025-01-01"}
    measurements: Row = {"rows": {"count": "v"}}
    if kind not in stored:
        column = {"type": "number", "lower": 0, "upper": 2**60, "step": 3}
        measurements["sum"] = {"sum": "v"}
    columns = {"id": {"type": "integer"}, "v": column}
    given = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1}} if unit else {}
    assert_engines_agree(
        [ask(declare(columns, source=str(tmp_path / "t.parquet"), **given), measurements)]
    )


def test_running_spark_application_is_kept_with_a_warning(spark: Any) -> None:
    """Its web page is off, and its files are not encrypted."""
    warned = pytest.warns(spark_session.ExposedWarning, match="in the clear")
    with warned as told, spark_session.open_session(spark_session.SparkSettings()) as found:
        assert found.sparkContext is spark.sparkContext
    assert "web UI" not in str(told[0].message)
    assert spark.range(3).count() == 3
