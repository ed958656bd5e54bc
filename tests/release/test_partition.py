"""Partitioned tables, a file per area of a level: the same rows, verified, read by other tools."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease
from dprelease.documents.encoding import canonical, sha256_of
from dprelease.errors import DpReleaseError, Findings
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent import normal_equations as published_module
from dprelease.postprocess.consistent.normal_equations import CellNumbers
from dprelease.postprocess.partition import Parts
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.tables import formats
from dprelease.tables.family_tables import split_into_parts
from tests.covering import spread
from tests.manifest_files import with_digest
from tests.release.area_family import TOWNS, publish_family, read_family
from tests.release.test_levels import AT_TOWNS

WHOLE = "non_negative: true, publish: {partition: state"
PARTED = {"consistent": f"{{{WHOLE}}}}}"}
WITH_RECORDS = {"consistent": f"{{{WHOLE}, records: true}}}}"}
CASES = {
    "parts": PARTED,
    "estimates alone": {"consistent": "{publish: {partition: state}}"},
    "other tables at a level": {**PARTED, "asked": AT_TOWNS},
    "records": WITH_RECORDS,
    "down to states": {"consistent": f"{{{WHOLE}, down_to: state}}}}"},
}
NAMES = [f"state={state}/part-{i:05d}.parquet" for i, state in enumerate(TOWNS)]


def without_partition(asked: dict[str, str]) -> dict[str, str]:
    """Return the same case with one file per table."""
    return {key: text.replace("partition: state, ", "").replace("partition: state", "")
            for key, text in asked.items()}  # fmt: skip


def rows_of(path: Path) -> pa.Table:
    """Return the rows of a table, of parts one after the other."""
    files = [path] if path.is_file() else [path / name for name in NAMES]
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files)


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("small", "what"), spread(list(product([False, True], CASES)), 0.6))
def test_parts_have_the_rows_of_one_file(
    what: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit and in order, for any piece size; each row is in the part of its state."""
    one = publish_family(tmp_path / "one", **without_partition(CASES[what]))
    if small:
        monkeypatch.setattr("dprelease.tables.family_tables.PIECE_ROWS", 4)
        monkeypatch.setattr("dprelease.postprocess.consistent.values.DENSE", 3)
        monkeypatch.setattr("dprelease.postprocess.consistent.second_check.DENSE", 3)
        one = publish_family(tmp_path / "one", **without_partition(CASES[what]))
    several = publish_family(tmp_path / "several", **CASES[what])
    report = dprelease.verify(several)
    assert report.ok, [str(finding) for finding in report.findings]
    state_of = {town: state for state, some in TOWNS.items() for town in some}
    for path in sorted(one.rglob("*.parquet")):
        same = several / path.relative_to(one)
        assert rows_of(same).equals(rows_of(path))
        assert same.is_dir() is ("town" in pq.read_schema(path).names)
        for part in same.rglob("*.parquet") if same.is_dir() else ():
            towns = pq.ParquetFile(part).read()["town"].to_pylist()
            assert {f"state={state_of[town]}" for town in towns} <= {part.parent.name}


def test_other_tools_read_a_partitioned_table(tmp_path: Path) -> None:
    folder = publish_family(tmp_path, **PARTED)
    table = folder / "tables/pop_town_sex.parquet"
    held = rows_of(table).to_pandas().sort_values(["town", "sex"], ignore_index=True)
    state_of = {town: state for state, some in TOWNS.items() for town in some}
    for frame in (
        pd.read_parquet(table),
        duckdb.sql(f"FROM read_parquet('{table}/*/*.parquet', hive_partitioning = true)").df(),
    ):
        assert [state_of[town] for town in frame["town"]] == frame["state"].astype(str).tolist()
        found = frame[list(held)].sort_values(["town", "sex"], ignore_index=True)
        pd.testing.assert_frame_equal(found, held, check_dtype=False)


def test_manifest_lists_every_part(tmp_path: Path) -> None:
    """The digest of a table is that of the output of `sha256sum` for its parts."""
    folder = publish_family(tmp_path, **PARTED)
    record = json.loads((folder / "manifest.json").read_text())
    by_name = {file["name"]: file for file in record["files"]}
    told = by_name["measurements/pop_town_band_sex.parquet"]
    assert [part["name"] for part in told["parts"]] == NAMES
    assert [part["rows"] for part in told["parts"]] == [6 * len(some) for some in TOWNS.values()]
    assert told["rows"] == 36
    listed = "".join(f"{part['sha256']}  {part['name']}\n" for part in told["parts"])
    assert told["sha256"] == hashlib.sha256(listed.encode()).hexdigest()
    for part in told["parts"]:
        path = folder / told["name"] / part["name"]
        assert sha256_of(path) == part["sha256"]
    assert "parts" not in by_name["tables/pop_state_sex.parquet"]


def exchange_parts(folder: Path) -> None:
    table = folder / "tables/pop_town_sex.parquet"
    one, other = table / NAMES[0], table / NAMES[1]
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


def remove_part(folder: Path) -> None:
    (folder / "measurements/pop_town.parquet" / NAMES[2]).unlink()


def add_part(folder: Path) -> None:
    table = folder / "estimates/pop_town.parquet"
    shutil.copy(table / NAMES[0], table / "state=ZH/part-00007.parquet")


def move_row(folder: Path) -> None:
    """Move a row to the next part: all rows together are the same."""
    table = folder / "tables/pop_town_sex.parquet"
    first, second = (pq.ParquetFile(table / name).read() for name in NAMES[:2])
    last = first.slice(len(first) - 1)
    for name, rows in (
        (NAMES[0], first.slice(0, len(first) - 1)),
        (NAMES[1], pa.concat_tables([last, second])),
    ):
        with pq.ParquetWriter(
            table / name, rows.schema, compression="zstd", write_statistics=False
        ) as writer:
            writer.write_table(rows)


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "exchanged": (exchange_parts, "DP-VERIFY-012"),
    "missing": (remove_part, "DP-VERIFY-006"),
    "more": (add_part, "DP-VERIFY-012"),
    "moved": (move_row, "DP-VERIFY-012"),
}


def reseal(folder: Path) -> None:
    """Write the current digest and rows of every listed part into the manifest."""
    path = folder / "manifest.json"
    record = json.loads(path.read_text())
    record.pop("digest")
    for file in record["files"]:
        for part in file.get("parts", ()):
            at = folder / file["name"] / part["name"]
            if at.is_file():
                part["sha256"] = sha256_of(at)
                part["rows"] = pq.read_metadata(at).num_rows
        if file.get("parts"):
            listed = "".join(f"{part['sha256']}  {part['name']}\n" for part in file["parts"])
            file["sha256"] = hashlib.sha256(listed.encode()).hexdigest()
    path.write_bytes(canonical(with_digest(record)))


@pytest.fixture(scope="module")
def partitioned_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_family(tmp_path_factory.mktemp("parted"), **PARTED)


@pytest.mark.parametrize("what", FAULTS)
def test_changed_parts_are_found(what: str, partitioned_release: Path, tmp_path: Path) -> None:
    """By their digests, and after the manifest is resealed."""
    change, code = FAULTS[what]
    folder = shutil.copytree(partitioned_release, tmp_path / "copy")
    change(folder)
    found = {finding.code for finding in dprelease.verify(folder).findings}
    assert {"DP-VERIFY-004", "DP-VERIFY-005"} & found
    reseal(folder)
    assert code in {finding.code for finding in dprelease.verify(folder).findings}


def _other_cell(path: Path, column: str) -> None:
    """Change one cell of a column a little, the last one that is there."""
    held = pq.ParquetFile(path).read()
    values = held[column].to_pylist()
    values[-1] = not values[-1] if isinstance(values[-1], bool) else values[-1] + 1
    array = pa.array(values, held[column].type)
    place = held.column_names.index(column)
    changed = held.set_column(place, held.schema.field(column), array)
    with pq.ParquetWriter(
        path, changed.schema, compression="zstd", write_statistics=False
    ) as writer:
        writer.write_table(changed)


@pytest.mark.parametrize(
    ("table", "column", "part"),
    [
        ("measurements/pop_town_band_sex", "n", 2), ("estimates/pop_town", "n", 0),
        ("estimates/pop_town", "n_se", 2), ("tables/pop_town_band_sex", "n", 0),
        ("tables/pop_town_band_sex", "n_lower", 2), ("tables/pop_town_band_sex", "n_moe", 1),
        ("tables/pop_town_band_sex", "n_adjusted", 2),
    ],
)  # fmt: skip
def test_changed_cell_is_reported_with_the_file_of_its_part(
    table: str, column: str, part: int, partitioned_release: Path, tmp_path: Path
) -> None:
    """By the digest and, after resealing, by running the step again."""
    folder = shutil.copytree(partitioned_release, tmp_path / "copy")
    name = f"{table}.parquet/{NAMES[part]}"
    _other_cell(folder / name, column)
    by_digest = [one for one in dprelease.verify(folder).findings if one.code == "DP-VERIFY-004"]
    assert [f"'{name}'" in one.cause for one in by_digest] == [True]
    reseal(folder)
    found = dprelease.verify(folder).findings
    assert {one.code for one in found} == {"DP-VERIFY-012"}
    if table.startswith("measurements"):  # all that follows from it, from the first part on
        name = f"estimates/pop_town_band_sex.parquet/{NAMES[0]}"
        assert any(f"'{name}'" in one.cause for one in found)
    else:
        assert [f"'{name}'" in one.cause for one in found] == [True]


def test_verify_reads_each_file_a_fixed_number_of_times(
    partitioned_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of verification depends on cells, not on the number of tables."""
    read, times = formats.PUBLISHED_FORMAT.batches, Counter[str]()

    def counted(path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        times[path.relative_to(partitioned_release).as_posix()] += 1
        yield from read(path, columns)

    monkeypatch.setattr(formats.PUBLISHED_FORMAT, "batches", counted)
    assert dprelease.verify(partitioned_release).ok
    finest = times["tables/pop_town_band_sex.parquet"]
    assert finest == 4, times  # compared; its margins, sums and possible cells


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("size", [10, 5000])
def test_cells_are_looked_up_in_windows(
    size: int, rising: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch, with gaps, without searching all values of a key for each batch."""
    monkeypatch.setattr(published_module, "AT_ONCE_KNOWN", 64)
    looked = []
    among = published_module._positions_among

    def counted(known: pa.Array, values: pa.Array) -> np.ndarray:
        looked.append(len(known))
        return among(known, values)

    monkeypatch.setattr(published_module, "_positions_among", counted)
    rng = np.random.default_rng(size)
    texts = tuple(f"area {i:05}" for i in range(size))
    keys = KeySpace((Key("area", "text", texts), Key("old", "boolean", (False, True)),
                     Key("age", "integer", range(3))))  # fmt: skip
    cells = np.sort(rng.choice(keys.size, keys.size // 3, replace=False))
    cells = cells[(cells < size) | (cells > 4 * size)]  # nothing in between
    found = CellNumbers(keys)
    shuffled = cells if rising else rng.permutation(cells)
    for at in range(0, len(cells), 100):
        some = shuffled[at : at + 100]
        batch = pa.record_batch({
            "area": pa.array(texts).take(pa.array(some // 6)),
            "old": pa.array(some // 3 % 2 == 1), "age": pa.array(some % 3),
        })  # fmt: skip
        assert found.of(batch).tolist() == some.tolist()
    assert not rising or sum(looked) < 40 * size + 10 * len(cells)


def test_areas_add_up_from_parts(partitioned_release: Path, tmp_path: Path) -> None:
    one = publish_family(tmp_path, **without_partition(PARTED))
    districts = {"leaf": ["Uster", "Thun", "Bern"], "area": ["east", "west", "west"]}
    frames = [
        dprelease.areas(folder, pd.DataFrame(districts)) for folder in (one, partitioned_release)
    ]
    pd.testing.assert_frame_equal(*frames)


def test_formats_and_reports_of_partitioned_tables(tmp_path: Path) -> None:
    formats = {"more": "formats: [csv, datapackage, dcat, report]\n"}
    one = publish_family(tmp_path / "one", **without_partition(PARTED), **formats)
    several = publish_family(tmp_path / "several", **PARTED, **formats)
    assert dprelease.verify(several).ok
    for path in (one / "csv").rglob("*.csv"):
        assert path.read_bytes() == (several / path.relative_to(one)).read_bytes()
    package = json.loads((several / "datapackage.json").read_text())
    paths = {tuple(r["path"]) for r in package["resources"] if isinstance(r["path"], list)}
    assert tuple(f"tables/pop_town.parquet/{name}" for name in NAMES) in paths


WRONG = {
    "the last level": "{publish: {partition: town}}",
    "no level": "{publish: {partition: city}}",
    "no areas": "{publish: {partition: state}}",
}


@pytest.mark.parametrize("what", WRONG)
def test_invalid_partition_levels_are_refused(what: str, tmp_path: Path) -> None:
    asked = {"asked": "cube: [sex, band]"} if what == "no areas" else {}
    with pytest.raises(DpReleaseError) as refused:
        prepare(read_family(tmp_path, consistent=WRONG[what], **asked))
    error = refused.value
    (found,) = error.errors if isinstance(error, Findings) else (error,)
    assert found.code == "DP-CONSIST-013"
    assert "partition" in str(found)


def test_dictionaries_of_parts_have_only_used_texts() -> None:
    """In the order of first occurrence; the file equals that of plain texts."""
    texts = ["c", "a", "a", "b", "c", "b", "d", "a"]
    listed = pa.array(["a", "b", "none", "c", "d"])
    codes = pa.array([listed.to_pylist().index(text) for text in texts], pa.int32())
    table = pa.table({"key": pa.DictionaryArray.from_arrays(codes, listed), "n": range(8)})
    edges = np.array([0, 3, 3, 6, 8])
    key = Key("state", "text", ("1", "2", "3", "4"))
    pieces = list(split_into_parts("t", iter([table]), Parts(key, edges)))
    assert [piece.part for piece in pieces] == [0, 2, 3]
    for piece, rows in zip(pieces, (texts[:3], texts[3:6], texts[6:]), strict=True):
        column = piece.rows["key"].combine_chunks()
        assert column.equals(pa.array(rows).dictionary_encode())
        assert column.dictionary.to_pylist() == list(dict.fromkeys(rows))
