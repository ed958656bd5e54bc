"""Delta Lake tables: a version has the rows of its log, or is refused before rows are read."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact.engines import open_duckdb
from dprelease.exact.lakes.lake_version import constant_sql
from dprelease.exact.sources import delta_reader
from dprelease.statements.values.source_equality import SPARK_NOTE
from tests.exact.build import ask, declare, exact

CITIES = ["Bern", "Oslo", "a/b = %C3é'\"", "100%", "N=Y/../x", "ß ;|", None]
ROWS = [
    {"person": i, "city": CITIES[i % 7], "pay": i * 10, "day": date(2024, 1, 1 + i % 3)}
    for i in range(42)
]
SCHEMA = pa.schema(
    [("person", pa.int64()), ("city", pa.string()), ("pay", pa.int32()), ("day", pa.date32())]
)
COLUMNS: dict[str, Any] = {
    "person": {"type": "integer"},
    "city": {"type": "category", "values": [one for one in CITIES if one]},
    "pay": {"type": "integer", "lower": 0, "upper": 10_000},
    "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03"},
}
Row = dict[str, Any]


def city_totals(folder: Path, version: int | None = None, **columns: Any) -> dict[str, list[int]]:
    """Return the rows and the pay of each city, as the engine reads them."""
    source = {"path": str(folder), "format": "delta"} | (
        {} if version is None else {"version": version}
    )
    table = declare(COLUMNS | columns, source=source)
    asked = {"rows": {"count": "*"}, "pay": {"sum": "pay"}, "days": {"count_distinct": "day"}}
    found = exact(ask(table, asked, ["city"]), None)
    return {name: vector.tolist() for name, vector in found.items()}


def expected_totals(rows: list[Row]) -> dict[str, list[int]]:
    """Return the same from rows in Python."""
    cities = [[row for row in rows if row["city"] == city] for city in COLUMNS["city"]["values"]]
    return {
        "rows": [len(held) for held in cities],
        "pay": [sum(row["pay"] or 0 for row in held) for held in cities],
        "days": [len({row["day"] for row in held} - {None}) for held in cities],
    }


def arrow_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def assert_refused(
    folder: Path, words: str, version: int | None = None, code: str = "DP-DATA-024"
) -> DataError:
    with pytest.raises(DataError, match=words) as caught:
        city_totals(folder, version)
    assert (caught.value.code, caught.value.state) == (code, State.NOTHING)
    return caught.value


@pytest.mark.share(0.4)
@pytest.mark.parametrize("by", [None, ["city"], ["city", "day"]], ids=str)
def test_every_delta_version_has_its_rows(by: list[str] | None, tmp_path: Path) -> None:
    """Of appends, updates, deletions, compaction, checkpoints and overwriting, as deltalake reads it."""
    folder, history = tmp_path / "people 100%", dict[int, list[Row]]()

    def note(rows: list[Row]) -> list[Row]:
        history[DeltaTable(folder).version()] = rows
        return rows

    write_deltalake(folder, arrow_table(ROWS[:20]), partition_by=by)
    note(ROWS[:20])
    write_deltalake(folder, arrow_table(ROWS[20:]), mode="append")
    note(ROWS)
    DeltaTable(folder).delete("person >= 30")
    rows = note(ROWS[:30])
    DeltaTable(folder).create_checkpoint()
    DeltaTable(folder).update(updates={"pay": "pay + 7"}, predicate="city = 'Oslo'")
    rows = note([row | {"pay": row["pay"] + 7 * (row["city"] == "Oslo")} for row in rows])
    write_deltalake(folder, arrow_table(ROWS[:3]), mode="append")
    rows = note([*rows, *ROWS[:3]])
    DeltaTable(folder).optimize.compact()
    note(rows)
    DeltaTable(folder).create_checkpoint()
    begin = DeltaTable(folder).version()
    write_deltalake(folder, arrow_table(ROWS[5:9]), mode="overwrite")
    note(ROWS[5:9])
    DeltaTable(folder).delete()
    note([])
    assert [*history] == [*range(8)]
    for version, rows in history.items():
        listed = {Path(uri).name for uri in DeltaTable(folder, version=version).file_uris()}
        assert {path.name for path in delta_reader.read_version(folder, version).paths} == listed
        assert city_totals(folder, version) == expected_totals(rows)
    assert city_totals(folder) == expected_totals([])
    for commit in range(begin):  # the log may be cleaned up to a checkpoint
        (folder / "_delta_log" / f"{commit:020}.json").unlink()
    assert city_totals(folder, 6) == expected_totals(history[6])
    assert_refused(folder, "does not have all commits that version 4 needs", 4)


def test_contribution_limits_hold_across_delta_files(tmp_path: Path) -> None:
    """Rows of one person in several files and partitions count as one person's."""
    for i in range(3):
        rows = [{"person": 1, "city": city, "pay": i} for city in ("Bern", "Oslo")]
        write_deltalake(tmp_path, arrow_table(rows), mode="append", partition_by=["city"])
    unit = {"id": "person", "max_groups": 1, "max_rows_per_group": 2}
    table = declare(COLUMNS, source={"path": str(tmp_path), "format": "delta"}, privacy_unit=unit)
    assert exact(ask(table, {"rows": {"count": "*"}}, ["city"]), None)["rows"].sum() == 2
    assert exact(ask(table, {"people": {"count_distinct": "person"}}), None)["people"].tolist() == [
        1
    ]


def test_added_delta_columns_are_missing_in_older_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, arrow_table(ROWS[:7]).drop_columns(["pay", "day"]))
    write_deltalake(tmp_path, arrow_table(ROWS[7:]), mode="append", schema_mode="merge")
    older = [row | {"pay": None, "day": None} for row in ROWS[:7]]
    assert city_totals(tmp_path) == expected_totals([*older, *ROWS[7:]])
    assert_refused(tmp_path, "has no column", 0, code="DP-DATA-002")


def log(folder: Path, version: int, *actions: Row) -> None:
    """Write a commit by hand, for tables that deltalake does not write."""
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log" / f"{version:020}.json").write_text(text)


def protocol(reader: int = 1, *features: str) -> Row:
    more = {"readerFeatures": [*features], "writerFeatures": [*features]} if features else {}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": 2, **more}}


FIELDS = [("person", "long"), ("city", "string"), ("pay", "integer"), ("day", "date")]


def metadata(
    fields: list[tuple[Any, ...]] = FIELDS, partitions: tuple[str, ...] = (), **settings: str
) -> Row:
    declared = [
        {"name": name, "type": kind, "nullable": True, "metadata": more[0] if more else {}}
        for name, kind, *more in fields
    ]
    text = json.dumps({"type": "struct", "fields": declared})
    return {
        "metaData": {
            "id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": text,
            "partitionColumns": [*partitions], "configuration": settings,
        }
    }  # fmt: skip


def add_file(folder: Path, name: str, table: pa.Table, **more: Any) -> Row:
    """Write a file, and return the action that adds it."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name)
    size = (folder / name).stat().st_size
    fields = {"path": quote(name), "partitionValues": {}, "size": size, "modificationTime": 0}
    return {"add": fields | {"dataChange": True} | more}


def simple(folder: Path, *more: Row, first: Row | None = None, **fields: Any) -> Row:
    """Make a table of one file, and return the action that adds it."""
    action = add_file(folder, "p.parquet", arrow_table(ROWS), **fields)
    log(folder, 0, first or protocol(), metadata(), action, *more)
    return action


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_delta_columns_are_read(mode: str, tmp_path: Path) -> None:
    """By column mapping, also to a former name of another column."""
    key = "delta.columnMapping"
    fields = [
        (name, kind, {f"{key}.id": i, f"{key}.physicalName": f"col-{i}"})
        for i, (name, kind) in enumerate([FIELDS[0], FIELDS[1], ("pay", "integer"), FIELDS[3]])
    ]
    own = [
        pa.field(f"col-{i}", kind, metadata={"PARQUET:field_id": str(i)})
        for i, kind in enumerate(SCHEMA.types)
    ]
    if mode == "id":
        own = [field.with_name(f"other {field.name}") for field in own]
    other = pa.array(["secret"] * 42)
    rows = pa.table(
        [*arrow_table(ROWS).columns, other], schema=pa.schema([*own, pa.field("pay", pa.string())])
    )
    parts = {"col-1": "Oslo"}
    first = add_file(tmp_path, "1.parquet", rows)
    settings = metadata(fields, **{f"{key}.mode": mode})
    log(tmp_path, 0, protocol(2), settings, first)
    assert city_totals(tmp_path) == expected_totals(ROWS)
    (tmp_path / "by").mkdir()
    settings = metadata(fields, ("city",), **{f"{key}.mode": mode})
    second = add_file(
        tmp_path / "by", "2.parquet", rows.drop_columns([own[1].name]), partitionValues=parts
    )
    log(tmp_path / "by", 0, protocol(3, "columnMapping"), settings, second)
    assert city_totals(tmp_path / "by") == expected_totals([row | {"city": "Oslo"} for row in ROWS])
    if mode == "id":  # written by a program that knows no ids
        plain = pa.table(arrow_table(ROWS).columns, names=[f"col-{i}" for i in range(4)])
        log(tmp_path, 1, add_file(tmp_path, "3.parquet", plain))
        assert_refused(tmp_path, "have no ids")


def test_deletion_vectors_are_refused(tmp_path: Path) -> None:
    """The table itself may allow deletion vectors, as long as no file has one."""
    feature = protocol(3, "deletionVectors")
    action = simple(tmp_path, first=feature)
    assert city_totals(tmp_path) == expected_totals(ROWS)
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "x",
        "offset": 1,
        "sizeInBytes": 3,
        "cardinality": 2,
    }
    log(
        tmp_path,
        1,
        {"remove": {"path": "p.parquet"}},
        {"add": action["add"] | {"deletionVector": vector}},
    )
    assert "PURGE" in assert_refused(tmp_path, "deletion vectors").fix
    assert city_totals(tmp_path, 0) == expected_totals(ROWS)
    gone = {"remove": {"path": "p.parquet", "deletionVector": vector}}
    log(tmp_path, 2, gone, add_file(tmp_path, "q.parquet", arrow_table(ROWS[:5])))
    assert city_totals(tmp_path) == expected_totals(ROWS[:5])


WRONG: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a newer reader": ("reader of version 4", lambda at: simple(at, first=protocol(4))),
    "a feature": ("knows 'variantType'", lambda at: simple(at, first=protocol(3, "variantType"))),
    "a clone": ("outside of its folder", lambda at: simple(at, path="file:///tmp/p.parquet")),
    "an absolute path": ("outside of its folder", lambda at: simple(at, path="/tmp/p.parquet")),
    "a folder above": ("outside of its folder", lambda at: simple(at, path="../p.parquet")),
    "a file that is gone": ("do not exist any more", lambda at: simple(at, path="q.parquet")),
    "another size": ("another size", lambda at: simple(at, size=5)),
    "a file twice": (
        "lists a file twice", lambda at: simple(at, {"add": {"path": "./p.parquet", "size": 2117, "partitionValues": {}}}),
    ),
    "another format": (
        "not Parquet",
        lambda at: simple(at, {"metaData": metadata()["metaData"] | {"format": {"provider": "orc"}}}),
    ),
    "another mapping": (
        "unknown way", lambda at: simple(at, metadata(**{"delta.columnMapping.mode": "new"})),
    ),
    "other upper case": (
        "other upper or lower case",
        lambda at: log(at, 0, protocol(), metadata(), add_file(at, "p.parquet", arrow_table(ROWS).rename_columns(["Person", *SCHEMA.names[1:]]))),
    ),
    "a partition that is no date": (
        "can't be read exactly",
        lambda at: log(at, 0, protocol(), metadata(partitions=("day",)), add_file(at, "p.parquet", arrow_table(ROWS).drop_columns(["day"]), partitionValues={"day": "secret"})),
    ),
    "an instant without a zone": (
        "can't be read exactly",
        lambda at: log(at, 0, protocol(), metadata([*FIELDS[:3], ("day", "timestamp")], ("day",)), add_file(at, "p.parquet", arrow_table(ROWS).drop_columns(["day"]), partitionValues={"day": "2024-01-01 00:00:00"})),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_inexact_delta_tables_are_refused(case: str, tmp_path: Path) -> None:
    words, make = WRONG[case]
    make(tmp_path / "t")
    if case == "a file twice":
        size = (tmp_path / "t/p.parquet").stat().st_size
        text = (tmp_path / "t/_delta_log" / f"{0:020}.json").read_text()
        (tmp_path / "t/_delta_log" / f"{0:020}.json").write_text(text.replace("2117", str(size)))
    if case == "a folder above":
        pq.write_table(arrow_table(ROWS), tmp_path / "p.parquet")
    assert "secret" not in str(assert_refused(tmp_path / "t", words))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]\n",
        '{"add": 1}',
        '{"protocol": {}}',
        '{"add": {"path": "p", "size": "secret"}}',
    ],
)
def test_damaged_delta_logs_are_refused(text: str, tmp_path: Path) -> None:
    simple(tmp_path)
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text(text)
    found = assert_refused(tmp_path, "can't be opened as a Delta Lake table", code="DP-DATA-001")
    assert "secret" not in str(found)


def test_damaged_delta_checkpoints_are_refused(tmp_path: Path) -> None:
    simple(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert city_totals(tmp_path) == expected_totals(ROWS)
    checkpoint = tmp_path / "_delta_log" / f"{0:020}.checkpoint.parquet"
    held = pq.read_table(checkpoint)
    for name in ("1.0000000002", "2.0000000002"):  # in two parts
        part = checkpoint.with_name(f"{0:020}.checkpoint.000000000{name}.parquet")
        pq.write_table(held.slice(0, 1) if name[0] == "1" else held.slice(1), part)
    checkpoint.unlink()
    assert city_totals(tmp_path) == expected_totals(ROWS)
    part.unlink()
    assert_refused(tmp_path, "all commits that version 0 needs")
    checkpoint.write_bytes(b"secret")
    assert_refused(tmp_path, "can't be opened", code="DP-DATA-001")


@pytest.mark.parametrize("place", ["log", "file"])
def test_ids_with_collations_are_refused(place: str, tmp_path: Path) -> None:
    """Spark records them in the schema of the log and in files, also for renamed columns."""
    key, noted = "delta.columnMapping", {"__COLLATIONS": {"city": "spark.UTF8_LCASE"}}
    own = {f"{key}.id": 1, f"{key}.physicalName": "col-1"}
    fields = [("city", "string", own | (noted if place == "log" else {}))]
    rows = arrow_table(ROWS).select(["city"]).rename_columns(["col-1"])
    if place == "file":
        note = {"name": "col-1", "metadata": {"__COLLATIONS": {"col-1": "spark.UTF8_LCASE"}}}
        rows = rows.replace_schema_metadata({SPARK_NOTE: json.dumps({"fields": [note]})})
    action = add_file(tmp_path, "p.parquet", rows)
    log(tmp_path, 0, protocol(2), metadata(fields, **{f"{key}.mode": "name"}), action)
    unit = {"id": "city", "max_groups": 1, "max_rows_per_group": 1}
    source = {"path": str(tmp_path), "format": "delta"}
    table = declare({"city": {"type": "text"}}, source=source, privacy_unit=unit)
    with pytest.raises(DataError, match="DP-DATA-026") as caught:
        exact(ask(table, {"rows": {"count": "*"}}), None)
    assert "UTF8_LCASE" in caught.value.cause


def test_pipes_in_delta_folders_are_not_opened(tmp_path: Path) -> None:
    action = simple(tmp_path)
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    os.mkfifo(commit.with_name(f"{1:020}.json"))
    os.mkfifo(commit.with_name(f"{2:020}.checkpoint.parquet"))
    for version in (1, 2):
        assert_refused(tmp_path, "can't be opened", version, code="DP-DATA-001")
    assert city_totals(tmp_path, 0) == expected_totals(ROWS)
    (tmp_path / "p.parquet").unlink()
    os.mkfifo(tmp_path / "p.parquet")
    assert_refused(tmp_path, "do not exist any more", 0)
    assert action["add"]["path"] == "p.parquet"


def test_missing_delta_versions_are_refused(tmp_path: Path) -> None:
    simple(tmp_path)
    assert "up to 0" in assert_refused(tmp_path, "no version 1", 1).fix
    shutil.rmtree(tmp_path / "_delta_log")
    assert_refused(tmp_path, "can't be opened", code="DP-DATA-001")
    (tmp_path / "_delta_log").mkdir()
    assert_refused(tmp_path, "has no version")


def test_delta_files_are_read_by_their_own_types(tmp_path: Path) -> None:
    """As after type widening, and as Spark writes timestamps: INT96, or in milliseconds."""
    wide = arrow_table(ROWS[:20]).set_column(2, "pay", pa.array(range(20), pa.int64()))
    times = [datetime(2024, 1, 1 + i % 3, 23) for i in range(20)]
    late = wide.set_column(3, "day", pa.array(times, pa.timestamp("us", "UTC")))
    (tmp_path / "t").mkdir()
    actions = [add_file(tmp_path / "t", "0.parquet", arrow_table(ROWS))]
    for i, options in enumerate(
        [{"use_deprecated_int96_timestamps": True}, {"coerce_timestamps": "ms"}]
    ):
        actions.append(add_file(tmp_path / "t", f"{i + 1}.parquet", late))
        pq.write_table(late, tmp_path / f"t/{i + 1}.parquet", **options)
        actions[-1]["add"]["size"] = (tmp_path / f"t/{i + 1}.parquet").stat().st_size
    fields = [*FIELDS[:2], ("pay", "long"), ("day", "timestamp")]
    log(tmp_path / "t", 0, protocol(3, "typeWidening", "timestampNtz"), metadata(fields), *actions)
    narrow = [row | {"pay": i, "day": times[i].date()} for i, row in enumerate(ROWS[:20])]
    assert city_totals(tmp_path / "t") == expected_totals([*ROWS, *narrow, *narrow])


@pytest.mark.parametrize("kind", ["long", "decimal(5,2)", "string", "date", "boolean"])
def test_delta_partition_values_of_every_type(kind: str, tmp_path: Path) -> None:
    """Texts of the log mean the values that a file would store; an empty text is missing."""
    texts = {
        "long": ["-9223372036854775808", "7", "007"], "decimal(5,2)": ["-1.50", "7", "0.25"],
        "string": ["'", " ", "NULL"], "date": ["2024-02-29", "0001-01-01", "9999-12-31"],
        "boolean": ["true", "false"],
    }[kind]  # fmt: skip
    types = {"long": "integer", "decimal(5,2)": "number", "string": "text", "date": "date"}
    table = arrow_table(ROWS[:2]).drop_columns(["pay"])
    actions = [
        add_file(tmp_path, f"{i}.parquet", table, partitionValues={"p": text})
        for i, text in enumerate([*texts, "", None])
    ]
    fields = [*FIELDS[:2], ("p", kind)]
    log(tmp_path, 0, protocol(), metadata(fields, ("p",)), *actions)
    columns: dict[str, Any] = {
        "person": {"type": "integer"},
        "p": {"type": types.get(kind, "boolean")},
    }
    source = {"path": str(tmp_path), "format": "delta"}
    with open_duckdb(declare(columns, source=source), None) as engine:
        read = engine._connection.execute(
            f"SELECT p, count(*) FROM {engine._inputs[0].relation} GROUP BY p"
        ).fetchall()
    found = Counter(
        {str(value).lower() if kind == "boolean" else str(value): n for value, n in read}
    )
    values = [str(int(text)) if kind == "long" else text for text in texts]
    wanted = Counter({None if False else str(value): 2 for value in values})
    if kind == "long":
        wanted = Counter({"-9223372036854775808": 2, "7": 4})
    if kind == "decimal(5,2)":
        wanted = Counter({"-1.50": 2, "7.00": 2, "0.25": 2})
    wanted["none" if kind == "boolean" else "None"] = 4
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("128", "TINYINT"), ("1.0", "INTEGER"), ("٣", "INTEGER"), ("1e3", "BIGINT"), ("", "INTEGER"),
        ("1000", "DECIMAL(5,2)"), ("1.234", "DECIMAL(5,2)"), (".", "DECIMAL(5,2)"), ("1e1", "DECIMAL(5,2)"),
        ("2024-02-30", "DATE"), ("True", "BOOLEAN"), ("a\0b", "VARCHAR"), ("\ud800", "VARCHAR"),
        ("1", "DOUBLE"), ("x", "BLOB"),
    ],
)  # fmt: skip
def test_invalid_partition_values_are_not_read(text: str, kind: str) -> None:
    assert constant_sql(text, kind) is None


def test_removed_delta_files_are_never_opened(tmp_path: Path) -> None:
    """Nor is a file that no version lists, in a folder of a partition."""
    write_deltalake(tmp_path, arrow_table(ROWS), partition_by=["city"])
    before = {*delta_reader.read_version(tmp_path, 0).paths}
    DeltaTable(tmp_path).delete("city = 'Bern'")
    (gone,) = before - {*delta_reader.read_version(tmp_path, 1).paths}
    gone.write_bytes(b"secret")
    pq.write_table(arrow_table(ROWS), gone.with_name("orphan.parquet"))
    assert city_totals(tmp_path) == expected_totals([row for row in ROWS if row["city"] != "Bern"])
    assert "secret" not in str(assert_refused(tmp_path, "another size", 0))
    DeltaTable(tmp_path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    gone.unlink(missing_ok=True)
    assert "VACUUM" in assert_refused(tmp_path, "do not exist any more", 0).fix


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"path": "s3://bucket/t", "format": "delta"}, "DP-SCHEMA-011"),
        ({"path": "t.parquet", "version": 1}, "DP-SCHEMA-014"),
        ({"path": "t", "format": "delta", "version": -1}, "DP-DECL-003"),
        ({"path": "t", "format": "delta", "version": "latest"}, "DP-DECL"),
        ({"path": "t", "format": "delta", "nulls": ["NA"]}, "DP-SCHEMA-014"),
        ({"path": "t", "format": "delta", "table": "x"}, "DP-SCHEMA-011"),
    ],
)
def test_wrong_delta_sources_are_refused(source: Row, code: str) -> None:
    with pytest.raises(DpReleaseError, match=code):
        declare(COLUMNS, source=source)
