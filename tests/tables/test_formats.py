"""Files of tables: read piece after piece, whole or in parts, in a memory of their pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dprelease.tables.formats import PUBLISHED_FORMAT, part_files

GROUPS, ROWS = 24, 1 << 16


def test_read_batches_are_not_kept_in_memory(tmp_path: Path) -> None:
    """Of a file, and of each part of a table, a group of rows at a time and no more."""
    rng = np.random.default_rng(1)
    table = pa.table({"n": rng.integers(0, 2**60, ROWS)})  # nothing that could be compressed
    for name in ("one.parquet", "two.parquet/a=1/part-00000.parquet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with PUBLISHED_FORMAT.writer(path, table.schema) as writer:
            for _ in range(GROUPS):
                writer.write(table)
    for name in ("one.parquet", "two.parquet"):
        before, most, rows = pa.total_allocated_bytes(), 0, 0
        for batch in PUBLISHED_FORMAT.batches(tmp_path / name, ["n"]):
            most = max(most, pa.total_allocated_bytes() - before)
            rows += batch.num_rows
        assert rows == GROUPS * ROWS
        assert most < GROUPS * table.nbytes / 2


def test_parts_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    """However their areas are called, and above 99,999 of them."""
    table = tmp_path / "t.parquet"
    names = ["a=z/part-00000", "a=y/part-00002", "a=x/part-99999", "a=b/part-100000"]
    for name in names:
        path = table / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        path.touch()
    (table / "a=z/other.parquet").touch()
    (table / "part-00001.parquet").touch()
    assert [str(p.relative_to(table).with_suffix("")) for p in part_files(table)] == names
    assert part_files(table / "a=z/other.parquet") == [table / "a=z/other.parquet"]
    (tmp_path / "empty.parquet").mkdir()
    with pytest.raises(FileNotFoundError):
        part_files(tmp_path / "empty.parquet")
