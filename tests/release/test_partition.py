"""Tables in parts, a file for each area of a level: the same rows, verified, read by others."""

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
from dprelease.postprocess.consistent import published as published_module
from dprelease.postprocess.consistent.published import CellNumbers
from dprelease.postprocess.partition import Parts
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.tables import formats
from dprelease.tables.partitioned_writer import split_into_parts
from tests.covering import spread
from tests.manifest_files import with_digest
from tests.release.families_of_areas import TOWNS, declared, published
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


def plain(asked: dict[str, str]) -> dict[str, str]:
    """Return what is asked, of tables in one file each."""
    return {key: text.replace("partition: state, ", "").replace("partition: state", "")
            for key, text in asked.items()}  # fmt: skip


def rows_of(path: Path) -> pa.Table:
    """Return the rows of a table, of parts one after the other."""
    files = [path] if path.is_file() else [path / name for name in NAMES]
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files)


@pytest.mark.share(0.15)
@pytest.mark.parametrize(("small", "what"), spread(list(product([False, True], CASES)), 0.6))
def test_parts_hold_the_rows_of_one_file(
    what: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit and in order, whatever pieces they are written in; each lies with its state."""
    one = published(tmp_path / "one", **plain(CASES[what]))
    if small:
        monkeypatch.setattr("dprelease.tables.family_tables.PIECE_ROWS", 4)
        monkeypatch.setattr("dprelease.postprocess.consistent.values.DENSE", 3)
        monkeypatch.setattr("dprelease.postprocess.consistent.second_check.DENSE", 3)
        one = published(tmp_path / "one", **plain(CASES[what]))
    several = published(tmp_path / "several", **CASES[what])
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


def test_others_read_the_folder_of_a_table_as_one(tmp_path: Path) -> None:
    folder = published(tmp_path, **PARTED)
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


def test_the_manifest_lists_every_part(tmp_path: Path) -> None:
    """Its digest is that of the list which `sha256sum` prints of the parts."""
    folder = published(tmp_path, **PARTED)
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


def exchanged(folder: Path) -> None:
    table = folder / "tables/pop_town_sex.parquet"
    one, other = table / NAMES[0], table / NAMES[1]
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)


def missing(folder: Path) -> None:
    (folder / "measurements/pop_town.parquet" / NAMES[2]).unlink()


def more(folder: Path) -> None:
    table = folder / "estimates/pop_town.parquet"
    shutil.copy(table / NAMES[0], table / "state=ZH/part-00007.parquet")


def moved(folder: Path) -> None:
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
    "exchanged": (exchanged, "DP-VERIFY-012"),
    "missing": (missing, "DP-VERIFY-006"),
    "more": (more, "DP-VERIFY-012"),
    "moved": (moved, "DP-VERIFY-012"),
}


def resealed(folder: Path) -> None:
    """Write down what is there: of every part that the manifest lists its digest and rows."""
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
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("parted"), **PARTED)


@pytest.mark.parametrize("what", FAULTS)
def test_parts_that_are_not_those_published_are_found(
    what: str, parted: Path, tmp_path: Path
) -> None:
    """By their digests; and by whoever seals a manifest of what is there."""
    change, code = FAULTS[what]
    folder = shutil.copytree(parted, tmp_path / "copy")
    change(folder)
    found = {finding.code for finding in dprelease.verify(folder).findings}
    assert {"DP-VERIFY-004", "DP-VERIFY-005"} & found
    resealed(folder)
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
def test_one_cell_of_one_part_is_found_by_the_name_of_its_file(
    table: str, column: str, part: int, parted: Path, tmp_path: Path
) -> None:
    """By its digest; and by running the step again, where somebody seals what is there."""
    folder = shutil.copytree(parted, tmp_path / "copy")
    name = f"{table}.parquet/{NAMES[part]}"
    _other_cell(folder / name, column)
    by_digest = [one for one in dprelease.verify(folder).findings if one.code == "DP-VERIFY-004"]
    assert [f"'{name}'" in one.cause for one in by_digest] == [True]
    resealed(folder)
    found = dprelease.verify(folder).findings
    assert {one.code for one in found} == {"DP-VERIFY-012"}
    if table.startswith("measurements"):  # all that follows from it, from the first part on
        name = f"estimates/pop_town_band_sex.parquet/{NAMES[0]}"
        assert any(f"'{name}'" in one.cause for one in found)
    else:
        assert [f"'{name}'" in one.cause for one in found] == [True]


def test_no_file_is_read_once_for_each_table(parted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What verification takes follows from cells, and not from how many tables they are in."""
    read, times = formats.PUBLISHED_FORMAT.batches, Counter[str]()

    def counted(path: Path, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        times[path.relative_to(parted).as_posix()] += 1
        yield from read(path, columns)

    monkeypatch.setattr(formats.PUBLISHED_FORMAT, "batches", counted)
    assert dprelease.verify(parted).ok
    finest = times["tables/pop_town_band_sex.parquet"]
    assert finest == 4, times  # compared; its margins, sums and possible cells


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("size", [10, 5000])
def test_cells_of_rows_are_found_in_windows(
    size: int, rising: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch, with gaps; and all values of a key are not looked through for each."""
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


def test_areas_are_added_up_from_parts(parted: Path, tmp_path: Path) -> None:
    one = published(tmp_path, **plain(PARTED))
    districts = {"leaf": ["Uster", "Thun", "Bern"], "area": ["east", "west", "west"]}
    frames = [dprelease.areas(folder, pd.DataFrame(districts)) for folder in (one, parted)]
    pd.testing.assert_frame_equal(*frames)


def test_formats_and_reports_are_made_of_parts(tmp_path: Path) -> None:
    formats = {"more": "formats: [csv, datapackage, dcat, report]\n"}
    one = published(tmp_path / "one", **plain(PARTED), **formats)
    several = published(tmp_path / "several", **PARTED, **formats)
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
def test_what_is_no_level_to_part_by(what: str, tmp_path: Path) -> None:
    asked = {"asked": "cube: [sex, band]"} if what == "no areas" else {}
    with pytest.raises(DpReleaseError) as refused:
        prepare(declared(tmp_path, consistent=WRONG[what], **asked))
    error = refused.value
    (found,) = error.errors if isinstance(error, Findings) else (error,)
    assert found.code == "DP-CONSIST-013"
    assert "partition" in str(found)


def test_rows_of_a_part_list_the_texts_that_stand_there() -> None:
    """As they first occur, whatever the whole table lists: the file is that of texts alone."""
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
