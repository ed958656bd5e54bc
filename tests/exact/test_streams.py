"""Frames of polars, Arrow and Ibis give the same vectors, and no error contains a cell."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, DpReleaseError, FrameError
from dprelease.exact.duckdb import Engine
from dprelease.exact.reading import streams
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from tests.exact.build import ask, declare, exact
from tests.exact.test_sources import EXPECTED, FRAME, query_of, vectors
from tests.release.build import ROWS, write
from tests.replay import Keyed

TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


class Exported:
    """An object of an unknown library, which exports a stream once."""

    def __init__(self, table: pa.Table) -> None:
        self._reader = table.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "chunks": lambda table: pa.Table.from_batches(table.to_batches(max_chunksize=3), table.schema),
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "dataset": ds.dataset,
    "ibis": ibis.memtable,
    "ibis of polars": lambda table: ibis.polars.connect({"t": pl.from_arrow(table)}).table("t"),
    "unknown": Exported,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_vectors(kind: str, tmp_path: Path) -> None:
    assert vectors(query_of(None, tmp_path), KINDS[kind](TABLE)) == EXPECTED


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_rows_of_every_kind_of_frame(kind: str) -> None:
    query = ask(declare({"k": {"type": "boolean"}}), {"rows": {"count": "*"}})
    assert exact(query, KINDS[kind](pa.table({"other": range(5)})))["rows"].tolist() == [5]
    if kind != "batch":
        assert exact(query, KINDS[kind](pa.table({"k": pa.nulls(0, pa.bool_())})))[
            "rows"
        ].tolist() == [0]


def test_lazy_scans_of_polars_and_arrow_are_read(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    for frame in (pl.scan_parquet(tmp_path / "t.parquet"), ds.dataset(tmp_path / "t.parquet")):
        assert vectors(query_of(None, tmp_path), frame) == EXPECTED


def test_only_the_declared_columns_of_a_lazy_frame_are_computed() -> None:
    """A column that fails is not computed, and names are not patterns."""
    columns = {"^a.*$": {"type": "boolean"}, "nothing": {"type": "boolean"}}
    query = ask(declare(columns), {"n": {"count": "^a.*$"}})
    frame = pl.LazyFrame({"^a.*$": [True, None], "ab": [1, 2]})
    odd = frame.with_columns(odd=pl.col("ab").cast(pl.String).str.to_date("%Y"))
    assert exact(query, odd)["n"].tolist() == [1]


def test_streams_are_read_only_once() -> None:
    """The second time it would be empty, so it is refused, also after an error."""
    query = ask(declare({"k": {"type": "boolean"}}), {"rows": {"count": "*"}})
    table = pa.table({"k": [True, False]})
    for stream in (table.to_reader(), Exported(table)):
        assert exact(query, stream)["rows"].tolist() == [2]
        with pytest.raises(FrameError, match="DP-DATA-021"):
            exact(query, stream)
    wrong = pa.table({"x": [1]}).to_reader()
    for code in ("DP-DATA-002", "DP-DATA-021"):
        with pytest.raises(DataError, match=code):
            exact(ask(declare({"k": {"type": "boolean"}}), {"n": {"count": "k"}}), wrong)
    del stream, wrong
    gc.collect()
    assert not [held for held in streams._READ if isinstance(held(), Exported)]


def failing_frame(column: pl.Expr) -> pl.LazyFrame:
    return pl.LazyFrame({"n": [1, 2], "s": ["1", "SECRET-4711"]}).with_columns(n=column)


FAILING: dict[str, Callable[[], Any]] = {
    "a cast": lambda: failing_frame(pl.col("s").cast(pl.Int64)),
    "a function": lambda: failing_frame(
        pl.col("s").map_batches(lambda texts: raise_secret(), return_dtype=pl.Int64)
    ),
    "a reader": lambda: pa.RecordBatchReader.from_batches(
        pa.schema({"n": pa.int64()}), (raise_secret() for _ in range(1))
    ),
}


def raise_secret() -> Any:
    raise RuntimeError("SECRET-4711")


@pytest.mark.parametrize("what", FAILING)
def test_errors_of_frames_contain_no_cell(what: str) -> None:
    query = ask(declare({"n": {"type": "integer", "lower": 0, "upper": 9}}), {"n": {"sum": "n"}})
    with pytest.raises(DataError, match="DP-DATA-006") as caught:
        exact(query, FAILING[what]())
    problem: BaseException | None = caught.value
    while problem is not None:
        assert "SECRET" not in str(problem)
        problem = problem.__cause__ or problem.__context__


def test_panics_of_rust_become_errors() -> None:
    """Rust's panics are no instances of `Exception`."""

    class PanicException(BaseException):
        pass

    def panic() -> Any:
        raise PanicException("SECRET-4711")

    with pytest.raises(OSError, match=r"^$"):
        streams._Guarded(panic).next_batch()
    with pytest.raises(KeyboardInterrupt):
        streams._Guarded(lambda: (_ for _ in iter(interrupt, None))).next_batch()


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (lambda: pl.LazyFrame({"n": [1]}).select("there is none"), "DP-DATA-027"),
        (lambda: ibis.table({"n": "int64"}, name="unbound"), "DP-DATA-027"),
        (lambda: pl.LazyFrame({"n": [1], "N": [1]}), "DP-DATA-003"),
        (lambda: pl.DataFrame({"n": [1], "N": [1]}), "DP-DATA-003"),
        (lambda: pl.LazyFrame({"m": [1]}), "DP-DATA-002"),
        (lambda: pl.Series([1]), "DP-DATA-017"),
        (lambda: pa.chunked_array([[1]]), "DP-DATA-017"),
        (lambda: ibis.memtable(pa.table({"n": [1]})).n, "DP-DATA-017"),
    ],
)
def test_unreadable_frames_are_refused(frame: Callable[[], Any], code: str) -> None:
    query = ask(declare({"n": {"type": "integer", "lower": 0, "upper": 9}}), {"n": {"sum": "n"}})
    with pytest.raises(DpReleaseError, match=code):
        exact(query, frame())


def test_text_ids_of_unknown_backends_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The backend may compare them differently, so that one person could be two."""
    unit = {"privacy_unit": {"id": "id", "max_groups": 1, "max_rows_per_group": 1}}
    columns = {"id": {"type": "text"}, "n": {"type": "integer", "lower": 0, "upper": 9}}
    query = ask(declare(columns, **unit), {"n": {"sum": "n"}})
    frame = ibis.memtable(pa.table({"id": ["a", "A"], "n": [1, 2]}))
    assert exact(query, frame)["n"].tolist() == [3]
    monkeypatch.setattr(streams, "EXACT_BACKENDS", ())
    with pytest.raises(DataError, match="DP-DATA-026"):
        exact(query, frame)


def test_release_of_each_kind_of_frame(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    first = run(read_declaration(path), bits=Keyed("x"), output=tmp_path / "a")
    lines = pl.scan_csv(tmp_path / "people.csv", infer_schema=False)
    for name, frame in {"lazy": lines, "reader": lines.collect().to_arrow().to_reader()}.items():
        other = run(
            read_declaration(path), bits=Keyed("x"), output=tmp_path / name,
            frames={"people": frame},
        )  # fmt: skip
        for table in first.glob("*.parquet"):
            assert pq.read_table(table).equals(pq.read_table(other / table.name))


def test_lazy_frame_is_read_once(tmp_path: Path) -> None:
    runs: list[int] = []

    def count(batch: pl.Series) -> pl.Series:
        runs.append(len(batch))
        return batch

    columns = {"n": {"type": "integer", "lower": 0, "upper": 9}}
    frame = pl.LazyFrame({"n": range(5)}).with_columns(
        pl.col("n").map_batches(count, return_dtype=pl.Int64)
    )
    query = ask(declare(columns), {"n": {"sum": "n"}})
    with Engine.open(query.declared, frame) as engine:
        engine.compile(query)
        assert not runs
        engine.run(query)
        engine.run(query)
    assert sum(runs) == 5
