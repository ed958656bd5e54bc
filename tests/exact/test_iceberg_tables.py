"""Iceberg tables: a snapshot has the rows of its manifests, or is refused before reading."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, IntegerType, LongType

from dprelease.errors import DataError, DpReleaseError, State
from dprelease.exact.lakes import avro
from dprelease.exact.sources import iceberg_reader
from tests.exact.build import ask, declare, exact
from tests.exact.iceberg_catalogue import FolderCatalogue

CITIES = ["Bern", "Oslo", "a/b = %C3é'\"", "100%", "ß ;|#?", None]
ROWS = [
    {"person": i, "city": CITIES[i % 6], "pay": i * 10, "day": date(2024, 1, 1 + i % 3)}
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


def arrow_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def city_totals(
    path: object, snapshot: int | None = None, pay: str = "pay"
) -> dict[str, list[int]]:
    """Return the rows and the pay of each city, as the engine reads them."""
    source = {"path": str(path), "format": "iceberg"}
    columns = {pay if name == "pay" else name: column for name, column in COLUMNS.items()}
    table = declare(columns, source=source | ({} if snapshot is None else {"snapshot": snapshot}))
    asked = {"rows": {"count": "*"}, "pay": {"sum": pay}, "days": {"count_distinct": "day"}}
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


def assert_refused(
    path: object, words: str, snapshot: int | None = None, code: str = "DP-DATA-024"
) -> DataError:
    with pytest.raises(DataError, match=words) as caught:
        city_totals(path, snapshot)
    assert (caught.value.code, caught.value.state) == (code, State.NOTHING)
    return caught.value


def current(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.share(0.3)
@pytest.mark.parametrize("codec", ["deflate", "null"])
@pytest.mark.parametrize("by", [(), ("city",), ("city", "day")], ids=str)
def test_every_iceberg_snapshot_has_its_rows(
    by: tuple[str, ...], codec: str, tmp_path: Path
) -> None:
    """Of appends, deletions and overwriting, as pyiceberg plans it; also in a copy of the folder."""
    folder, history = tmp_path / "people 100%", dict[int, list[Row]]()
    catalogue = FolderCatalogue(folder)
    more = {
        "write.avro.compression-codec": codec,
        "format-version": "1" if by == ("city",) else "2",
    }
    table = catalogue.create(SCHEMA, by, **more)
    table.append(arrow_table(ROWS[:20]))
    history[current(table)] = ROWS[:20]
    table.append(arrow_table(ROWS[20:]))
    history[current(table)] = ROWS
    table.delete("person >= 30")
    history[current(table)] = ROWS[:30]
    table.append(arrow_table(ROWS[:3]))
    history[current(table)] = [*ROWS[:30], *ROWS[:3]]
    table.overwrite(arrow_table(ROWS[5:9]), EqualTo("city", "Bern"))
    history[current(table)] = [
        *(row for row in [*ROWS[:30], *ROWS[:3]] if row["city"] != "Bern"), *ROWS[5:9],
    ]  # fmt: skip
    table.delete("person >= 0")
    history[current(table)] = []
    shutil.copytree(folder, tmp_path / "copy")
    for snapshot, rows in history.items():
        planned = {task.file.file_path for task in table.scan(snapshot_id=snapshot).plan_files()}
        paths = iceberg_reader.read_version(folder, snapshot).paths
        assert {*map(str, paths)} == planned
        assert (
            city_totals(folder, snapshot)
            == city_totals(catalogue.current, snapshot)
            == expected_totals(rows)
        )
        assert city_totals(tmp_path / "copy", snapshot) == expected_totals(rows)
    assert city_totals(catalogue.current) == expected_totals([])
    assert "catalogue" in assert_refused(folder, "only its catalogue knows").cause
    (folder / "metadata/version-hint.text").write_text(Path(catalogue.current).name)
    assert city_totals(folder) == expected_totals([])


def test_version_hint_names_the_iceberg_metadata(tmp_path: Path) -> None:
    """A hint names the current metadata file, as Hadoop writes it; later files are not committed."""
    catalogue = FolderCatalogue(tmp_path)
    table = catalogue.create(SCHEMA)
    table.append(arrow_table(ROWS[:20]))
    content = Path(catalogue.current).read_bytes()
    table.append(arrow_table(ROWS[20:]))
    metadata = tmp_path / "metadata"
    for name in ("v3.metadata.json", "v3.gz.metadata.json"):
        packed = gzip.compress(content) if "gz" in name else content
        (metadata / name).write_bytes(packed)
        (metadata / "version-hint.text").write_text("3\n")
        assert city_totals(tmp_path) == expected_totals(ROWS[:20])
        assert city_totals(metadata / name) == expected_totals(ROWS[:20])
        (metadata / name).unlink()
    assert_refused(tmp_path, "can't be opened", code="DP-DATA-001")
    (metadata / "version-hint.text").write_text("../../x")
    assert_refused(tmp_path, "can't be opened", code="DP-DATA-001")


def test_pipes_in_iceberg_folders_are_not_opened(tmp_path: Path) -> None:
    catalogue, table = simple(tmp_path)
    os.mkfifo(tmp_path / "metadata/99999-x.metadata.json")
    assert_refused(tmp_path, "can't be opened", current(table), code="DP-DATA-001")
    os.mkfifo(tmp_path / "metadata/version-hint.text")
    assert_refused(tmp_path, "can't be opened", code="DP-DATA-001")
    assert city_totals(catalogue.current) == expected_totals(ROWS)


def test_iceberg_columns_are_those_of_the_snapshot(tmp_path: Path) -> None:
    """By the ids of fields: renamed, added, dropped, swapped and widened columns."""
    catalogue = FolderCatalogue(tmp_path)
    table = catalogue.create(SCHEMA)
    table.append(arrow_table(ROWS[:20]))
    first = current(table)
    with table.update_schema() as update:
        update.rename_column("pay", "income")
        update.update_column("pay", LongType())
    with table.update_schema() as update:
        update.add_column("pay", IntegerType())
        update.add_column("extra", DoubleType())
    later = arrow_table(ROWS[20:]).rename_columns(["person", "city", "income", "day"])
    later = later.set_column(2, "income", later["income"].cast(pa.int64()))
    later = later.append_column("pay", pa.array([7] * 22, pa.int32()))
    table.append(later.append_column("extra", pa.array([0.5] * 22)))
    assert city_totals(tmp_path, first) == expected_totals(ROWS[:20])
    assert city_totals(tmp_path, current(table), "income") == expected_totals(ROWS)
    added = [row | {"pay": 7 if row["person"] >= 20 else None} for row in ROWS]
    assert city_totals(tmp_path, current(table)) == expected_totals(added)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("pay")
    with table.update_schema() as update:
        update.rename_column("income", "pay")
    assert city_totals(tmp_path, current(table)) == expected_totals(
        added
    )  # no snapshot has been written yet
    table.append(arrow_table(ROWS[:1]).set_column(2, "pay", pa.array([0], pa.int64())))
    assert city_totals(tmp_path, current(table)) == expected_totals([*ROWS, ROWS[0]])


def test_contribution_limits_hold_across_iceberg_files(tmp_path: Path) -> None:
    table = FolderCatalogue(tmp_path).create(SCHEMA, ("city",))
    for i in range(3):
        table.append(
            arrow_table([{"person": 1, "city": city, "pay": i} for city in ("Bern", "Oslo")])
        )
    unit = {"id": "person", "max_groups": 1, "max_rows_per_group": 2}
    source = {"path": str(tmp_path), "format": "iceberg", "snapshot": current(table)}
    declared = declare(COLUMNS, source=source, privacy_unit=unit)
    assert exact(ask(declared, {"rows": {"count": "*"}}, ["city"]), None)["rows"].sum() == 2


def simple(folder: Path, by: tuple[str, ...] = ()) -> tuple[FolderCatalogue, Table]:
    catalogue = FolderCatalogue(folder)
    table = catalogue.create(SCHEMA, by)
    table.append(arrow_table(ROWS))
    return catalogue, table


def test_removed_iceberg_files_are_never_opened(tmp_path: Path) -> None:
    _, table = simple(tmp_path, ("city",))
    first = current(table)
    before = {*iceberg_reader.read_version(tmp_path, first).paths}
    table.delete("city = 'Bern'")
    (gone,) = before - {*iceberg_reader.read_version(tmp_path, current(table)).paths}
    gone.write_bytes(b"secret")
    pq.write_table(arrow_table(ROWS), gone.with_name("orphan.parquet"))
    left = [row for row in ROWS if row["city"] != "Bern"]
    assert city_totals(tmp_path, current(table)) == expected_totals(left)
    assert "secret" not in str(assert_refused(tmp_path, "another size", first))
    gone.unlink()
    assert "expired" in assert_refused(tmp_path, "do not exist any more", first).fix
    assert_refused(tmp_path, "no snapshot 5", 5)


def edit_json(path: Path, change: Callable[[Row], object]) -> None:
    """Change a metadata file."""
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))


WRONG: dict[str, tuple[str, Callable[[Row], object]]] = {
    "a newer format": ("format version 3", lambda held: held.update({"format-version": 3})),
    "no snapshot": ("it has no snapshot", lambda held: held.update({"current-snapshot-id": -1})),
    "no schema of the snapshot": (
        "do not state with which columns",
        lambda held: (held["snapshots"][0].pop("schema-id"), held["schemas"].append(held["schemas"][0])),
    ),
    "a list elsewhere": (
        "outside of its folder",
        lambda held: held["snapshots"][0].update({"manifest-list": "/etc/passwd"}),
    ),
    "a list in a store": (
        "outside of its folder",
        lambda held: held["snapshots"][0].update({"manifest-list": "s3://bucket/snap.avro"}),
    ),
    "a list above": (
        "outside of its folder",
        lambda held: held["snapshots"][0].update({"manifest-list": f"{held['location']}/../x.avro"}),
    ),
    "a list that is gone": (
        "do not exist any more",
        lambda held: held["snapshots"][0].update({"manifest-list": f"{held['location']}/x.avro"}),
    ),
    "another location": ("outside of its folder", lambda held: held.update({"location": "/elsewhere"})),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_inexact_iceberg_tables_are_refused(case: str, tmp_path: Path) -> None:
    words, change = WRONG[case]
    catalogue, _ = simple(tmp_path / "t")
    assert city_totals(catalogue.current) == expected_totals(ROWS)
    if case == "another location":
        shutil.move(tmp_path / "t", tmp_path / "moved")
        path = tmp_path / "moved/metadata" / Path(catalogue.current).name
        assert city_totals(path) == expected_totals(ROWS)
    else:
        path = Path(catalogue.current)
    edit_json(path, change)
    assert_refused(path, words)


def test_damaged_iceberg_metadata_is_refused(tmp_path: Path) -> None:
    catalogue, table = simple(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = next(path for path in (tmp_path / "metadata").glob("*-m0.avro"))
    for path in (Path(catalogue.current), Path(snapshot.manifest_list), manifest):
        content = path.read_bytes()
        for text in (b"", b"secret", b"{}", b"[1]", content[:-20], content[:300], b"[" * 100_000):
            path.write_bytes(text)
            assert "secret" not in str(
                assert_refused(catalogue.current, "can't be opened", code="DP-DATA-001")
            )
        path.write_bytes(content)
    assert city_totals(catalogue.current) == expected_totals(ROWS)


def test_iceberg_delete_files_are_refused(tmp_path: Path) -> None:
    """Manifests of delete files, which pyiceberg does not write: the list says that it is one."""
    catalogue, table = simple(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    real = avro.read_records

    def with_deletes(path: Path) -> Any:
        for record in real(path):
            yield record | ({"content": 1} if "manifest_path" in record else {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iceberg_reader, "read_records", with_deletes)
        assert "rewrite_data_files" in assert_refused(catalogue.current, "delete files").fix
        patch.setattr(
            iceberg_reader, "read_records",
            lambda path: ({**one, "status": 2} for one in with_deletes(path)),
        )  # fmt: skip
        assert city_totals(catalogue.current) == expected_totals([])


def test_iceberg_files_without_field_ids_are_refused(tmp_path: Path) -> None:
    """Such as files of Hive that were added to a table; a partition column may be only in paths."""
    catalogue, table = simple(tmp_path)
    pq.write_table(arrow_table(ROWS), tmp_path / "added.parquet")
    table.add_files([str(tmp_path / "added.parquet")])
    assert_refused(catalogue.current, "have no ids")


def test_partition_columns_missing_in_files_are_refused(tmp_path: Path) -> None:
    """Their values are only in the manifest."""
    catalogue, table = simple(tmp_path, ("city",))
    for path in iceberg_reader.read_version(tmp_path, current(table)).paths:
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["city"]), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iceberg_reader, "find_data_files", lambda root, listed, advice: tuple(listed))
        assert_refused(catalogue.current, "'city' in a form that can't be read exactly")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"path": "s3://bucket/t", "format": "iceberg"}, "DP-SCHEMA-011"),
        ({"path": "t", "format": "delta", "snapshot": 1}, "DP-SCHEMA-014"),
        ({"path": "t", "format": "iceberg", "version": 1}, "DP-SCHEMA-014"),
        ({"path": "t", "format": "iceberg", "snapshot": 1 << 63}, "DP-DECL-003"),
    ],
)
def test_wrong_iceberg_sources_are_refused(source: Row, code: str) -> None:
    with pytest.raises(DpReleaseError, match=code):
        declare(COLUMNS, source=source)


def avro_integer(number: int) -> bytes:
    """Return an integer as Avro writes it."""
    left, found = (number << 1) ^ (number >> 63), b""
    while left >= 0x80:
        found += bytes([left & 0x7F | 0x80])
        left >>= 7
    return found + bytes([left])


def text(value: bytes) -> bytes:
    return avro_integer(len(value)) + value


FIELDS: list[tuple[Any, bytes, Any]] = [
    ("null", b"", None), ("boolean", b"\x01", True), ("long", avro_integer(-(2**63)), -(2**63)),
    ("int", avro_integer(2**31 - 1), 2**31 - 1), ("float", struct.pack("<f", 0.5), 0.5),
    ("double", struct.pack("<d", -1e300), -1e300), ("bytes", text(b"\xff"), b"\xff"),
    ("string", text("é".encode()), "é"), (["null", "long"], avro_integer(1) + avro_integer(5), 5),
    ({"type": "array", "items": "int"}, avro_integer(2) + avro_integer(1) + avro_integer(2) + avro_integer(0), [1, 2]),
    ({"type": "array", "items": "int"}, avro_integer(-1) + avro_integer(1) + avro_integer(3) + avro_integer(0), [3]),
    ({"type": "map", "values": "string"}, avro_integer(1) + text(b"a") + text(b"b") + avro_integer(0), {"a": "b"}),
    ({"type": "fixed", "name": "f", "size": 2}, b"ab", b"ab"), ("f", b"cd", b"cd"),
    ({"type": "enum", "name": "e", "symbols": ["x", "y"]}, avro_integer(1), "y"),
    ({"type": "long", "logicalType": "timestamp-micros"}, avro_integer(9), 9),
]  # fmt: skip


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_avro_files_are_read_or_refused(codec: str, tmp_path: Path) -> None:
    """Every type, in two blocks; truncated files and other codecs are refused."""
    fields = [{"name": f"c{i}", "type": kind} for i, (kind, _, _) in enumerate(FIELDS)]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    content, sync = b"".join(written for _, written, _ in FIELDS), os.urandom(16)
    deflated = zlib.compressobj(wbits=-15)
    block = {
        "deflate": deflated.compress(content * 2) + deflated.flush(),
        "zstandard": pa.compress(content * 2, "zstd", asbytes=True),
    }.get(codec, content * 2)
    header = b"Obj\x01" + avro_integer(2) + text(b"avro.schema") + text(schema)
    header += text(b"avro.codec") + text(codec.encode()) + avro_integer(0) + sync
    whole = header + (avro_integer(2) + text(block) + sync) * 2
    path = tmp_path / "t.avro"
    path.write_bytes(whole)
    if codec == "snappy":
        with pytest.raises(ValueError, match="codec"):
            list(avro.read_records(path))
        return
    records = list(avro.read_records(path))
    assert records == [{f"c{i}": value for i, (_, _, value) in enumerate(FIELDS)}] * 4
    ends = {len(header), len(header) + (len(whole) - len(header)) // 2}
    for end in {*range(0, len(whole), 7)} - ends:
        path.write_bytes(whole[:end])
        with pytest.raises((OSError, ValueError, LookupError, TypeError)):
            list(avro.read_records(path))
