"""Whole releases on neighbouring tables, with the same bits: nothing else may differ.

With integer noise that is drawn independently of the values, out(A) - out(B) is exactly the difference
of the true integers. So at most the claimed cells differ, by at most the claimed steps, and everything
else is equal to the byte.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.release.build import ROWS, publish
from tests.replay import repeatable

POISON = [
    "7,,,\n",
    "7,Oslo,-5,1e999\n",
    "7,Oslo,NaN,nan\n",
    '7,"=1+1; DROP TABLE",999999999999999999999999,-inf\n',
    "7,Bern," + "9" * 50 + ",5e-324\n",
    "7,Oslo,40,not a number\n",
    "7,Rome,41\n",
    "7,Rome,41,1,2,3\n",
]
CHANGES = {
    "one person more": (
        [*ROWS, "1000,Oslo,40,123.5\n", "1000,Bern,40,5000\n", "1000,Oslo,41,9\n"],
        1000,
    ),
    "one person less": ([row for row in ROWS if not row.startswith("13,")], 13),
    "a heavy person": (
        [*ROWS, *(f"77777,{city},50,5000\n" for city in ("Bern", "Oslo", "Rome") * 300)],
        77777,
    ),
    "a poisonous person": ([*ROWS, *(line.replace("7,", "7777,", 1) for line in POISON)], 7777),
    "a person without a name": ([*ROWS, ",Oslo,40,3\n"], None),
}


def tables(folder: Path) -> dict[str, Any]:
    return {path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}


def manifest_without_digests(folder: Path) -> dict[str, Any]:
    record = json.loads((folder / "manifest.json").read_text())
    del record["digest"]
    for file in record["files"]:
        del file["sha256"]
    return record


@pytest.mark.parametrize("name", CHANGES)
def test_neighbouring_releases_differ_only_in_claimed_cells(name: str, tmp_path: Path) -> None:
    rows, _ = CHANGES[name]
    (one, first), (other, second) = publish(tmp_path / "a"), publish(tmp_path / "b", rows)
    assert first.drawn == second.drawn
    assert sorted(p.name for p in one.iterdir()) == sorted(p.name for p in other.iterdir())
    record = manifest_without_digests(one)
    assert record == manifest_without_digests(other)
    ours, theirs = tables(one), tables(other)
    for measurement in record["measurements"]:
        a, b = (t[measurement["query"]][measurement["column"]].to_pylist() for t in (ours, theirs))
        step = float(measurement["step"])
        moved = np.array([abs(float(x - y)) / step for x, y in zip(a, b, strict=True)])
        claim = measurement["sensitivity"]
        assert (moved > 0).sum() <= claim["slots"] * max(m["cells"] for m in claim["moves"])
        assert moved.max() <= max(m["shift"] for m in claim["moves"])
        if name == "a person without a name":
            assert moved.max() == 0
    for query, table in ours.items():
        measured = {m["column"] for m in record["measurements"] if m["query"] == query}
        for column in set(table.column_names) - measured:
            assert table[column].equals(theirs[query][column])
        assert table.schema.equals(theirs[query].schema, check_metadata=True)


def test_two_persons_move_more_than_claimed(tmp_path: Path) -> None:
    """So the test above can fail."""
    rows = [*ROWS, *(f"{i},Oslo,40,5000\n" for i in (1000, 1000, 1001, 1001))]
    (one, _), (other, _) = publish(tmp_path / "a"), publish(tmp_path / "b", rows)
    a, b = (tables(folder)["by_city"]["people"].to_pylist() for folder in (one, other))
    assert max(abs(x - y) for x, y in zip(a, b, strict=True)) == 2


def test_row_order_changes_no_byte(tmp_path: Path) -> None:
    (one, _), (other, _) = publish(tmp_path / "a"), publish(tmp_path / "b", ROWS[::-1])
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


def test_each_run_draws_new_noise(tmp_path: Path) -> None:
    from dprelease.release.runs.pipeline import run
    from dprelease.schema.load import read_declaration
    from tests.release.build import write

    declaration = read_declaration(write(tmp_path))
    with repeatable.system_words():
        folders = [run(declaration, output=tmp_path / name) for name in ("a", "b")]
    first, second = (tables(folder)["by_city"]["pay"].to_pylist() for folder in folders)
    assert first != second


def test_noise_of_cells_is_uncorrelated(tmp_path: Path) -> None:
    """10^5 empty cells have distinct, uncorrelated noise (V19)."""
    from dprelease.release.runs.pipeline import run
    from dprelease.schema.load import read_declaration
    from tests.release.build import RELEASE, SCHEMA, write
    from tests.replay import Keyed

    path = write(tmp_path)
    (tmp_path / "people.yaml").write_text(
        SCHEMA + "  key: {type: integer, lower: 1, upper: 100000}\n"
    )
    (tmp_path / "people.csv").write_text("person,city,age,pay,key\n")
    path.write_text(RELEASE.replace("group_by: [city]", "group_by: [key]"))
    found = tables(run(read_declaration(path), bits=Keyed("cells")))["by_city"]["pay"].to_pylist()
    noise = np.array([float(x) for x in found])
    assert len(set(found)) > 60_000
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 6 / len(noise) ** 0.5
