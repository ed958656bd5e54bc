"""Tables of Spark's catalogue and Parquet URIs give the same results as DuckDB."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, DeclarationError
from dprelease.exact.duckdb import Engine
from dprelease.exact.spark.spark_engine import SparkEngine
from dprelease.query.resolve import Query
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.exact.build import ask, declare
from tests.exact.spark import local_spark, of_source, some_table, vectors

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore"),  # of pyspark
]
Row = dict[str, Any]
INTEGER: Row = {"v": {"type": "integer", "lower": 0, "upper": 99}}


@pytest.fixture(scope="module", autouse=True)
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    place = tmp_path_factory.mktemp("db")
    with local_spark() as session:
        session.sql(f"CREATE DATABASE db LOCATION 'file://{place}'")
        yield session


@pytest.fixture
def visits(spark: Any, tmp_path: Path) -> Iterator[pa.Table]:
    """Keep some rows as the table db.visits, in several files, and a folder for each day."""
    table = some_table(300)
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = spark.read.parquet(f"file://{tmp_path}/rows.parquet").repartition(3)
    folder = f"file://{tmp_path}/visits"
    rows.write.partitionBy("d").option("path", folder).saveAsTable("db.visits")
    yield table
    spark.sql("DROP TABLE db.visits")


def count(source: Row | str, **columns: Row) -> Query:
    return ask(declare(columns or INTEGER, source=source), {"n": {"count": "v"}})


def assert_equals_duckdb(query: Query, own: object, joined: object = None) -> None:
    """Assert that Spark reads the same from the source as DuckDB from a frame."""
    other = None if query.join is None else query.join.declared
    with (
        Engine.open(query.declared, own, other, joined) as one,
        SparkEngine.open(query.declared, None, other) as two,
    ):
        wanted = vectors(query, one.run(query))
        assert vectors(query, two.run(query)) == wanted
        assert any(any(values) for values in wanted.values())


WAYS = [True, pytest.param(False, marks=pytest.mark.audit)]


@pytest.mark.audit
@pytest.mark.parametrize("unit", WAYS)
def test_catalogue_tables_equal_duckdb(unit: bool, visits: pa.Table) -> None:
    assert_equals_duckdb(of_source(None, unit, table="db.visits"), visits)


@pytest.mark.parametrize("unit", WAYS)
@pytest.mark.parametrize(
    "path", ["t", "t/*.parquet", pytest.param("t/1.parquet", marks=pytest.mark.audit)]
)
def test_parquet_uris_equal_duckdb(unit: bool, path: str, tmp_path: Path) -> None:
    table = some_table(300)
    (tmp_path / "t").mkdir()
    parts = [table] if path.endswith("1.parquet") else [table.slice(0, 50), table.slice(50)]
    for i, part in enumerate(parts, 1):
        pq.write_table(part, tmp_path / f"t/{i}.parquet")
    uri = f"file://{tmp_path}/{path}"
    assert_equals_duckdb(of_source(uri, unit, format="parquet"), table)


@pytest.mark.parametrize("public", WAYS)
def test_joins_of_catalogue_tables_equal_duckdb(public: bool, spark: Any, tmp_path: Path) -> None:
    own = pa.table({"id": [1, 1, 2, 3, None], "v": [1, 2, 3, 99, 5]})
    other = pa.table({"id": [1, 2, 3, 4], "w": [7, 8, None, 9]})
    for name, table in (("own", own), ("other", other)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        spark.sql(f"CREATE TABLE {name} USING parquet LOCATION 'file://{tmp_path}/{name}.parquet'")
    unit: Row = {"privacy_unit": {"id": "id", "max_groups": 3, "max_rows_per_group": 1}}
    number: Row = {"type": "integer"}
    first = declare({"id": number, **INTEGER}, source={"table": "own"}, **unit)
    second = declare(
        {"id": number, "w": {"type": "integer", "lower": 0, "upper": 9}},
        table="other",
        source={"table": "other"},
        **({"public": "true"} if public else unit),
    )
    join: Row = (
        {"table": "other", "on": {"id": "id"}} if public else {"table": "other", "on_unit": "true"}
    )
    asked = {"n": {"sum": "v"}, "w": {"sum": "w"}}
    query = ask(first, asked, other=second, join=join)
    try:
        assert_equals_duckdb(query, own, other)
    finally:
        spark.sql("DROP TABLE own")
        spark.sql("DROP TABLE other")


@pytest.mark.audit
def test_release_of_a_catalogue_table(visits: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "table: t\nsource: {table: db.visits}\ncolumns:\n"
        "  n: {type: integer, lower: 0, upper: 99}\n"
    )
    (tmp_path / "release.yaml").write_text(
        "title: Visits\ntables: [t.yaml]\nbudget: {epsilon: 100, neighbours: add_remove}\n"
        'queries: {q: {from: t, columns: {rows: {count: "*"}}}}\noutput: out\nengine: spark\n'
    )
    out = run(read_declaration(tmp_path / "release.yaml"))
    assert verify(out).ok
    assert pq.read_table(out / "q.parquet")["rows"].to_pylist() == [300]


@pytest.mark.parametrize("source", [{"table": "db.visits"}, "s3a://bucket/v.parquet"], ids=str)
def test_duckdb_refuses_catalogue_tables_and_uris(source: Row | str) -> None:
    declared = count(source).declared
    with pytest.raises(DataError, match="DP-SPARK-006"), Engine.open(declared):
        pass


@pytest.mark.parametrize(
    "source",
    [
        {"table": "db.visits", "format": "parquet"},
        {"table": "db.visits", "frame": "f"},
        {"path": "s3a://bucket/v.csv"},
        {"path": "hdfs://host/v.duckdb", "table": "v"},
        {},
    ],
    ids=str,
)
def test_ambiguous_spark_sources_are_refused(source: Row) -> None:
    with pytest.raises(DeclarationError, match="DP-SCHEMA-011"):
        declare(INTEGER, source=source)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("CREATE VIEW db.t AS SELECT 1 AS v", "DP-SPARK-001"),
        ("CREATE TABLE db.t (v INT) USING csv", "DP-SPARK-001"),
        # Before 4.2 Spark does not tell the files of a table with such a column.
        ("CREATE TABLE db.t (v CHAR(9)) USING parquet", "DP-SPARK-002|DP-DATA-001"),
        ("CREATE TABLE db.t (v STRING COLLATE UTF8_LCASE) USING parquet", "DP-SPARK-002"),
        ("CREATE TABLE db.t (v BINARY) USING parquet", "DP-SPARK-002"),
        ("CREATE TABLE db.t (v ARRAY<INT>) USING parquet", "DP-SPARK-002"),
        ("CREATE TABLE db.t (w INT) USING parquet", "DP-DATA-002"),
        ("CREATE TABLE db.t (V INT) USING parquet", "DP-DATA-002"),
        ("CREATE TABLE db.other (v INT) USING parquet", "DP-DATA-001"),
    ],
)
def test_views_and_other_catalogue_tables_are_refused(
    made: str, code: str, spark: Any, tmp_path: Path
) -> None:
    located = f"{made} LOCATION 'file://{tmp_path}/t'" if "parquet" in made else made
    spark.sql(located)
    query = count({"table": "db.t"}, v={"type": "text"})
    try:
        with pytest.raises(DataError, match=code), SparkEngine.open(query.declared) as engine:
            engine.compile(query)
    finally:
        kind, name = made.split()[1:3]
        spark.sql(f"DROP {kind} {name}")


def test_temporary_views_are_refused(spark: Any) -> None:
    spark.sql("SELECT 1 AS v").createOrReplaceTempView("passing")
    declared = count({"table": "passing"}).declared
    with pytest.raises(DataError, match="DP-DATA-001"), SparkEngine.open(declared):
        pass
    spark.sql("SELECT 1 AS v").createOrReplaceGlobalTempView("passing")
    declared = count({"table": "global_temp.passing"}).declared
    with pytest.raises(DataError, match=r"DP-(SPARK|DATA)-001"), SparkEngine.open(declared):
        pass


NANOS = pa.array([1, 2], pa.timestamp("ns"))


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (pa.table({"v": NANOS}), None, "DP-DATA-001"),
        (pa.table({"v": [1], "w": NANOS[:1]}), None, "DP-DATA-001"),
        (pa.table({"v": [1]}), pa.table({"v": ["a"]}), "DP-DATA-001"),
        (pa.table({"v": [1]}), pa.table({"v": [1.5]}), "DP-DATA-001"),
        (pa.table({"v": [1], "V": [2]}), None, "DP-DATA-001"),
        (pa.table({"v": [b"a"]}), None, "DP-SPARK-002"),
        (pa.table({"V": [1]}), None, "DP-DATA-002"),
        (None, None, "DP-DATA-001"),
    ],
)
def test_files_with_unreadable_types_are_refused_on_spark(
    first: pa.Table | None, second: pa.Table | None, code: str, tmp_path: Path
) -> None:
    for i, table in enumerate((first, second)):
        if table is not None:
            pq.write_table(table, tmp_path / f"{i}.parquet")
    query = count({"path": f"file://{tmp_path}", "format": "parquet"})
    with pytest.raises(DataError, match=code), SparkEngine.open(query.declared) as engine:
        engine.compile(query)


@pytest.mark.audit
def test_catalogue_table_that_changes_is_refused(visits: pa.Table, spark: Any) -> None:
    columns = {"n": {"type": "integer", "lower": 0, "upper": 99}}
    query = ask(declare(columns, source={"table": "db.visits"}), {"rows": {"count": "*"}})
    with SparkEngine.open(query.declared) as engine:
        assert engine.run(query).vector("rows").tolist() == [300]
        spark.sql("INSERT INTO db.visits SELECT * FROM db.visits LIMIT 1")
        with pytest.raises(DataError, match="DP-DATA-007"):
            engine.run(query)
        with pytest.raises(DataError, match="DP-DATA-007"):
            engine.run(query)


@pytest.mark.parametrize("how", ["more", "another", "less"])
def test_files_of_a_uri_that_change_are_refused(how: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"v": [1, 2]}), tmp_path / f"{name}.parquet")
    query = count({"path": f"file://{tmp_path}/", "format": "parquet"})
    with SparkEngine.open(query.declared) as engine:
        assert engine.run(query).vector("n").tolist() == [4]
        if how == "less":
            (tmp_path / "b.parquet").unlink()
        else:
            name = "c" if how == "more" else "b"
            pq.write_table(pa.table({"v": [1, 3]}), tmp_path / f"{name}.parquet")
        with pytest.raises(DataError, match=r"DP-DATA-00[67]"):
            engine.run(query)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_96_bit_timestamps_by_path_and_uri_are_equal(zone: str, tmp_path: Path) -> None:
    at = pa.array([0, 1_709_164_800 * 10**9, None], pa.timestamp("ns"))
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"d": at}), file, use_deprecated_int96_timestamps=True)
    columns: Row = {"d": {"type": "date", "lower": "2024-02-28", "upper": "2024-02-29"}}

    def query(path: str) -> Query:
        source = {"path": path, "format": "parquet", "time_zone": zone}
        return ask(declare(columns, source=source), {"n": {"count": "*"}}, ["d"])

    asked = query(f"file://{file}")
    with Engine.open(query(str(file)).declared) as one, SparkEngine.open(asked.declared) as two:
        wanted = vectors(asked, one.run(query(str(file))))
        assert vectors(asked, two.run(asked)) == wanted
        assert wanted["n"] == ([0, 1] if zone == "UTC" else [1, 0])


MARKS = {
    "_delta_log/0.json": "Delta", "metadata/v1.metadata.json": "Iceberg", ".hoodie/h": "Hudi",
    "_temporary/0": "'_temporary'",
}  # fmt: skip
FEW = ["t", "t/1.parquet"]


@pytest.mark.parametrize(
    ("mark", "ways"),
    [
        ("_delta_log/0.json", FEW),
        *(
            pytest.param(mark, ["t/", "t/*.parquet", "t/k=1", *FEW], marks=pytest.mark.audit)
            for mark in MARKS
        ),
        pytest.param("_delta_log/0.json", ["", "t/k=1/j=2", "*/k=1"], marks=pytest.mark.audit),
    ],
)
def test_lake_and_job_files_of_a_uri_are_refused(
    mark: str, ways: list[str], tmp_path: Path
) -> None:
    """By path, Spark reads all Parquet files of a lake table, deleted ones too."""
    for place in ("t", "t/k=1/j=2"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"v": [1]}), tmp_path / place / "1.parquet")
    assert _opens(f"file://{tmp_path}/{ways[0]}")
    (tmp_path / "t" / mark).parent.mkdir()
    (tmp_path / "t" / mark).touch()
    for way in ways:
        with pytest.raises(DataError, match="DP-DATA-024") as caught:
            _opens(f"file://{tmp_path}/{way}")
        assert MARKS[mark] in str(caught.value)


def _opens(uri: str) -> bool:
    source = {"path": uri, "format": "parquet"}
    with SparkEngine.open(count(source).declared, None):
        return True
