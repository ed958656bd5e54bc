"""Vectors of many cells have the same sums in memory, on disk, narrow and wide."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pytest

from dprelease.errors import DataError
from dprelease.exact import duckdb as engine_module
from dprelease.exact import table_reader
from dprelease.exact.duckdb import Engine
from dprelease.exact.results import vectors
from dprelease.statements.compiled_statements import CompiledQuery, ProfileSql
from tests.exact.build import ask, declare, exact

ROWS = "SELECT i * i % 7 AS cell, i % 5 - 2 AS m0, i % 3 * 1000 AS m1 FROM range(5000) t(i)"
MOST = {"small": 2, "large": 2000}
WAYS = {
    "narrow": ({"MOST_HELD_BYTES": 2**30}, [4, 4]),
    "widened": ({"RANGE_OF_32_BITS": 3_000_000, "BATCH_ROWS": 1024}, [4, 8]),
    "in two passes": ({"MOST_HELD_BYTES": 7 * 8}, [0, 0]),
    "in seven passes": ({"MOST_HELD_BYTES": 16, "BATCH_ROWS": 1024}, [0, 0]),
}
"""What is replaced, and the bytes a cell that vectors in memory end with."""


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_equal_for_all_vector_types(way: str, tmp_path: Path) -> None:
    replaced, widths = WAYS[way]
    if way == "in two passes":
        replaced = {**replaced, "RANGE_OF_32_BITS": 1}
    with duckdb.connect() as link, mock.patch.multiple(vectors, **replaced):
        found = vectors.sum_rows(link, ROWS, MOST, 7, tmp_path)
    assert found is not None
    i = np.arange(5000)
    for name, added in (("small", i % 5 - 2), ("large", i % 3 * 1000)):
        expected = np.bincount(i * i % 7, weights=added, minlength=7)
        assert found[name][:].tolist() == expected.tolist()
        assert found[name][2:5].tolist() == expected[2:5].tolist()
    ends = [getattr(getattr(found[name], "dtype", None), "itemsize", 0) for name in MOST]
    assert ends == widths
    assert list(tmp_path.iterdir()) == []  # files on disk have no name


def test_wide_vector_replaces_a_narrow_one(tmp_path: Path) -> None:
    sql = "SELECT i * i % 7 AS cell, i % 3 * 1000 AS m0 FROM range(5000) t(i)"
    replaced = {"RANGE_OF_32_BITS": 3_000_000, "BATCH_ROWS": 1024, "MOST_HELD_BYTES": 7 * 8 + 1}
    with duckdb.connect() as link, mock.patch.multiple(vectors, **replaced):
        found = vectors.sum_rows(link, sql, {"n": 2000}, 7, tmp_path)
    assert found is not None
    assert isinstance(found["n"], np.ndarray)
    assert found["n"].dtype == np.int64
    assert int(found["n"].sum()) == sum(i % 3 * 1000 for i in range(5000))


def test_complete_cells_are_read_in_batches(tmp_path: Path) -> None:
    sql = "SELECT i * 2 AS cell, i AS m0 FROM range(3000) t(i)"
    with (
        duckdb.connect() as link,
        mock.patch.multiple(vectors, MOST_HELD_BYTES=20_000, BATCH_ROWS=1024),
    ):
        found = vectors.read_vectors(link, sql, ["n"], 6000, tmp_path)["n"]
    assert found[:][::2].tolist() == list(range(3000))
    assert not found[:][1::2].any()


def test_count_type_follows_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows decides, not the cells."""
    monkeypatch.setattr(vectors, "BATCH_ROWS", 1024)
    sql = "SELECT CAST(range % 7 AS INTEGER) AS place FROM range(20000)"
    wanted = [20000 // 7 + (i < 20000 % 7) for i in range(6)]  # the last place is for other rows
    for narrow, kind in ((2**31, np.int32), (20001, np.int32), (20000, np.int64), (1, np.int64)):
        monkeypatch.setattr(vectors, "RANGE_OF_32_BITS", narrow)
        with duckdb.connect() as link:
            found = vectors.count_pairs(link, ProfileSql("", sql, 2), 3)
        assert found.dtype == kind
        assert found.tolist() == wanted


def test_full_disk_is_an_engine_error(tmp_path: Path) -> None:
    """Charged as any other engine failure if there is a ledger."""
    query = ask(declare({"n": {"type": "integer", "lower": 0, "upper": 9}}), {"n": {"sum": "n"}})
    with (
        mock.patch.object(vectors, "MOST_HELD_BYTES", 1),
        mock.patch.object(table_reader, "MANY_CELLS", 0),
        mock.patch.object(vectors.StoredVector, "append", side_effect=OSError(28, "No space left")),
        pytest.raises(DataError, match="DP-DATA-006"),
    ):
        exact(query, pa_table())


def test_errors_after_a_batch_contain_no_values(tmp_path: Path) -> None:
    """DuckDB raises another class from its batches; its text is not shown."""
    failing = (
        "SELECT 0 AS cell, CASE WHEN i > 2500000 THEN CAST('SECRET' AS BIGINT) ELSE 1 END AS m0"
    )
    sql = f"{failing} FROM range(3000000) t(i)"
    query = ask(declare({"n": {"type": "integer", "lower": 0, "upper": 9}}), {"n": {"sum": "n"}})
    with Engine.open(query.declared, pa_table()) as engine:
        broken = CompiledQuery(sql, (), ("n",), {}, sql)
        with (
            mock.patch.object(table_reader, "MANY_CELLS", 0),
            mock.patch.object(engine_module, "compile_query", return_value=broken),
            pytest.raises(DataError, match="DP-DATA-006") as caught,
        ):
            engine.run(query)
    assert "SECRET" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


def pa_table() -> object:
    """Return three rows."""
    import pyarrow as pa

    return pa.table({"n": [1, 2, 3]})
