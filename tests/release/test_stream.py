"""A table published in batches equals the table published at once, with far less memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.exact.engines import open_engines
from dprelease.noise import noised_vectors as perturb
from dprelease.noise.noised_answers import answer_query
from dprelease.planning.prepare import prepare
from dprelease.release.runs import family_run as stream
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.tables.formats import write_table
from dprelease.tables.published_tables import schema_of, to_arrow
from tests import processes
from tests.replay import Keyed
from tests.wide import release_of

SCHEMA = """\
table: people
source: people.csv
columns:
  city: {type: category, values: [Bern, Oslo, Rome], fill: drop, others: Rome}
  day: {type: date, lower: "2024-01-01", upper: "2024-01-05"}
  level: {type: integer, lower: -3, upper: 4}
  ok: {type: boolean}
  age: {type: integer, lower: 0, upper: 115}
  pay: {type: number, lower: 0, upper: 5000, step: 0.5}
"""
RELEASE = """\
title: Batches
tables: [people.yaml]
budget: {epsilon: 40, delta: 1e-6}
mechanism: discrete_gaussian
queries:
  many:
    from: people
    group_by: [city, level, day, ok]
    columns:
      rows: {count: "*", margin: true, suppress_below: 2, suppress_above: 30 %}
      pay: {sum: pay, mechanism: laplace, margin: true, round_to: 5}
      top: {sum: age, bottom_code: 0, top_code: 300, labels: true}
      share: {ratio: [age, pay], margin: true}
      typical: {mean: pay, margin: true}
      spread: {stddev: age, margin: true}
      middle: {median: age}
      high: {quantile: {of: age, at: 0.9}}
      usual: {mode: city}
  hidden:
    from: people
    group_by: [city]
    private_keys: true
    columns:
      rows: {count: "*"}
output: out/people
"""
BATCHES = (1, 63, 64, 100, 239, 240, 1000)


def declaration(folder: Path) -> Declaration:
    """Return the release above, over rows that fill 240 cells unevenly."""
    rows = (
        f"{('Bern', 'Oslo', 'Rome')[i % 3]},2024-01-0{i % 5 + 1},{i % 7 - 3},{'tf'[i % 2]},"
        f"{i % 90},{i * 13 % 4000}.25\n"
        for i in range(900)
    )
    (folder / "people.csv").write_text("city,day,level,ok,age,pay\n" + "".join(rows))
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "release.yaml").write_text(RELEASE)
    return read_declaration(folder / "release.yaml")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perturb, "CHUNK", 64)


def stream_batches(
    given: Declaration, name: str, most: int, key: str = "batches"
) -> list[pa.Table]:
    """Return the batches of one query."""
    queries, plan = prepare(given)
    with (
        open_engines(queries, {}, given.spec) as engines,
        stream.streaming(engines[name], plan.of_query(name), Keyed(key), most) as tables,
    ):
        return list(tables)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ["many", "hidden"])
def test_batches_add_up_to_the_whole_table(name: str, tmp_path: Path) -> None:
    """Every value, margin, label and flag is the same for every size of a batch."""
    given = declaration(tmp_path)
    queries, plan = prepare(given)
    with open_engines(queries, {}, given.spec) as engines:
        whole = to_arrow(answer_query(engines[name], plan.of_query(name), Keyed("batches")))
    (query,) = (query for query in queries if query.name == name)
    assert schema_of(query) == [(field.name, str(field.type)) for field in whole.schema]
    for most in BATCHES:
        found = stream_batches(given, name, most)
        assert {part.schema for part in found} == {whole.schema}
        assert pa.concat_tables(found).equals(whole), most
        sizes = [len(part) for part in found]
        assert name == "hidden" or sizes == [min(most, 240 - i) for i in range(0, 240, most)]
    assert not pa.concat_tables(stream_batches(given, "many", 64, "other")).equals(whole)


CHUNKS = ([12], [5, 5, 2], [1, 0, 11], [3] * 4)


@pytest.mark.parametrize("most", [1, 4, 5, 12, 100])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_noised_chunks_are_cut_into_batches(chunks: list[int], most: int) -> None:
    """For all chunk sizes; no more chunks are read than a batch needs."""
    asked = []

    def coming() -> Iterator[dict[str, Any]]:
        first = 0
        for size in chunks:
            asked.append(size)
            yield {"n": np.arange(first, first + size), "m": -np.arange(first, first + size)}
            first += size

    made = []
    for batch in perturb.change_batch_size(coming(), 12, most):
        made.append(batch)
        done = sum(one.size for one in made)
        assert done == 12 or sum(asked) - asked[-1] < max(done, 1)
    assert [batch.size for batch in made] == [min(most, 12 - i) for i in range(0, 12, most)]
    whole = {name: np.concatenate([batch.columns[name] for batch in made]) for name in ("n", "m")}
    assert whole["n"].tolist() == list(range(12)) == (-whole["m"]).tolist()


@pytest.mark.parametrize("sizes", [[], [0], [11], [5, 6], [13], [12, 1], [5, 5, 3]], ids=str)
@pytest.mark.parametrize("most", [4, 12, 100])
def test_wrong_numbers_of_cells_are_refused(sizes: list[int], most: int) -> None:
    coming = ({"n": np.zeros(size, np.int64)} for size in sizes)
    with pytest.raises(LookupError):
        list(perturb.change_batch_size(coming, 12, most))


@pytest.mark.parametrize("held", [1000, 100_000], ids=["on disk", "in memory"])
def test_vectors_on_disk_give_the_same_table(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = declaration(tmp_path)
    whole = stream_batches(given, "many", 1000)
    monkeypatch.setattr("dprelease.exact.table_reader.MANY_CELLS", 0)
    monkeypatch.setattr("dprelease.exact.results.vectors.MOST_HELD_BYTES", held)
    assert pa.concat_tables(stream_batches(given, "many", 64)).equals(whole[0])


def test_file_of_batches_equals_file_of_table(tmp_path: Path) -> None:
    """Row groups of one size, no statistics, no schema of Arrow's: the same bytes."""
    table = pa.table({"n": pa.array(range(3 * 2**20 + 5), pa.int64())})
    write_table(table, tmp_path / "whole.parquet")
    parts = (table.slice(i, 2**20) for i in range(0, len(table), 2**20))
    assert write_table(parts, tmp_path / "parts.parquet") == len(table)
    whole, found = (tmp_path / f"{name}.parquet" for name in ("whole", "parts"))
    assert whole.read_bytes() == found.read_bytes()
    held = pq.ParquetFile(found)
    assert held.metadata.metadata is None
    assert held.metadata.num_row_groups == 4
    assert held.metadata.row_group(0).column(0).statistics is None


def test_failing_writer_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, pieces: Iterator[object], *_: object) -> None:
        next(pieces)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dprelease.release.runs.family_run.write_pieces", full)
    monkeypatch.setattr(stream, "ROW_GROUP", 64)
    monkeypatch.setattr(stream.streaming.__wrapped__, "__defaults__", (64, stream.PublishedTables))
    with pytest.raises(Exception, match="no space left"):
        run(declaration(tmp_path))
    assert not [t for t in threading.enumerate() if t.name.startswith("dprelease-noise")]


def test_error_in_noise_thread_reaches_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    given = declaration(tmp_path)
    monkeypatch.setattr("dprelease.tables.published_tables.published_arrays", fails)
    with pytest.raises(MemoryError):
        stream_batches(given, "many", 64)


PEAK = """
import re, sys
from pathlib import Path
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
run(read_declaration(Path(sys.argv[1])))
held = Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", held)[1]) // 1024)
"""


def peak(release: Path) -> int:
    """Return the most memory, in MB, that a process holds which publishes a release.

    Not `getrusage`: there a child starts with the size of its parent.
    """
    root = Path(__file__).parents[2]
    done = processes.run(
        [sys.executable, "-c", PEAK, str(release)],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout.split()[-1])


def test_ten_million_cells_fit_in_600_mb(tmp_path: Path) -> None:
    """Made whole, the same table takes 870 MB."""
    assert peak(release_of(tmp_path, 10_000_000, 100_000)) < 600


@pytest.mark.audit
def test_hundred_million_cells_fit_in_1500_mb(tmp_path: Path) -> None:
    """With rows in most cells; one count takes about 800 MB, two vectors go to disk."""
    release = release_of(tmp_path, 100_000_000, 100_000_000)
    assert peak(release) < 1100
    text = release.read_text()
    total = '{count: "*"}\n      keys: {sum: level}'
    release.write_text(text.replace('{count: "*"}', total).replace("out/wide", "out/two"))
    assert peak(release) < 1500
