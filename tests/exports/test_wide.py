"""Wide tables: a key as columns, with only the published totals."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.documents.metadata import Role
from dprelease.exports import layout
from dprelease.exports.csv_tables.csv_files import EXPORT
from dprelease.exports.layout import equal_batches, layout_of, refused_wide_keys
from tests.exports.build import column, handmade_release, key


def cells(name: str, *sizes: int, first: int = 0, lost: int = 0) -> tuple[str, pa.Table, list]:
    """Return a table with a row for each cell, without some at the end; numbers identify cells."""
    rows = list(product(*(range(size) for size in sizes)))
    rows = rows[: len(rows) - lost]
    arrays = [pa.array([f"v{row[i]}" for row in rows], pa.string()) for i in range(len(sizes))]
    numbers = pa.array(range(first, first + len(rows)), pa.int64())
    told = [
        key(f"k{i}", pa.string(), [f"v{j}" for j in range(size)]) for i, size in enumerate(sizes)
    ]
    told += [column("n", pa.int64()), column("n_moe", pa.int64(), Role.MARGIN, "n")]
    names = [one.name for one in told]
    return name, pa.Table.from_arrays([*arrays, numbers, numbers], names=names), told


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"csv/{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=4).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.integers(0, len(sizes) - 1))
    ),
    st.integers(1, 30),
)
def test_wide_tables_have_every_cell_in_its_place(shape: tuple[list[int], int], most: int) -> None:
    """For each pivot key and batch size."""
    sizes, turned = shape
    name, table, told = cells("cells", *sizes)
    before = layout.ROWS
    layout.ROWS = most
    try:
        with TemporaryDirectory() as folder:
            release = handmade_release(Path(folder), [(name, table, told)], wide=[f"k{turned}"])
            EXPORT.write(release, Path(folder))
            found = read(Path(folder), name)
    finally:
        layout.ROWS = before
    others = [i for i in range(len(sizes)) if i != turned]
    by_keys = {tuple(row[f"k{i}"] for i in others): row for row in found}
    assert len(by_keys) == len(found) == len(table) // sizes[turned]
    for row in table.to_pylist():
        wide = by_keys[tuple(row[f"k{i}"] for i in others)]
        assert int(wide[f"n.{row[f'k{turned}']}"]) == row["n"]
        assert int(wide[f"n_moe.{row[f'k{turned}']}"]) == row["n_moe"]
    assert list(by_keys) == [
        tuple(f"v{j}" for j in cell) for cell in product(*(range(sizes[i]) for i in others))
    ]


def test_wide_tables_have_only_published_totals(tmp_path: Path) -> None:
    """Of the same query, by the same other keys; otherwise there is no total column."""
    both, totals = cells("q_both", 2, 3), cells("q_k0", 2, first=100)
    for tables, heads in (([both, totals], ["n", "n_moe"]), ([both], [])):
        release = handmade_release(tmp_path, tables, wide=["k1"])
        EXPORT.write(release, tmp_path)
        found = read(tmp_path, "q_both")
        assert [name for name in found[0] if "." not in name] == ["k0", *heads]
        if heads:
            assert [(row["n"], row["n.v0"]) for row in found] == [("100", "0"), ("101", "3")]
    other = ("other_k0", *cells("", 2, first=100)[1:])
    told = handmade_release(tmp_path, [both, other], wide=["k1"]).metadata
    laid = layout_of(told.tables[0], told)
    assert laid.pivot_key is not None
    assert laid.totals is None


@pytest.mark.parametrize(
    ("table", "wide"),
    [
        (cells("q", 2, 3, lost=1), ["k1"]),
        (cells("q", 3), ["k0"]),
        (
            (
                "q",
                pa.table({"k0": ["a"], "k1": ["b"], "n": [1]}),
                [
                    key("k0", pa.string(), None),
                    key("k1", pa.string(), None),
                    column("n", pa.int64()),
                ],
            ),
            ["k1"],
        ),
    ],
    ids=["rows are missing", "no other key", "keys that are not public"],
)
def test_tables_that_can_not_be_wide_stay_long(
    table: tuple, wide: Sequence[str], tmp_path: Path
) -> None:
    release = handmade_release(tmp_path, [table], wide=wide)
    EXPORT.write(release, tmp_path)
    assert list(read(tmp_path, "q")[0]) == table[1].column_names
    assert [name for name, _ in refused_wide_keys(release.metadata)] == wide


def test_unknown_wide_key_suggests_the_nearest(tmp_path: Path) -> None:
    release = handmade_release(tmp_path, [cells("q", 2, 3)], wide=["K1", "k0"])
    assert list(refused_wide_keys(release.metadata)) == [
        ("K1", "no table has such a key (did you mean 'k1'?)")
    ]


def test_batches_have_equal_sizes() -> None:
    batches = [
        pa.record_batch({"n": list(range(at, at + size))})
        for at, size in ((0, 3), (3, 0), (3, 5), (8, 1))
    ]
    parts = [part.column(0).to_pylist() for part in equal_batches(iter(batches), 4)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
