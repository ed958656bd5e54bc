"""The order of rows in a source reaches no table, message, answer or local record."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import dprelease
from dprelease.exact.results.true_records import ExactRecords
from dprelease.mechanisms.randomized_response import RandomizedResponse
from dprelease.noise import noised_vectors
from dprelease.noise.noised_vectors import perturb_records
from dprelease.numerics.entropy import BitSource
from dprelease.planning.local_plan import LocalColumn, prepare_local
from dprelease.release import execute
from dprelease.release.run_options import with_party
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.verification.verify import verify
from tests.exact.iceberg_catalogue import FolderCatalogue
from tests.replay import Keyed, Replay

ROWS = 400
FAR = 6.5
"""Standard deviations that a correlation of ranks exceeds less than once in 10^9 runs."""

RELEASE = """\
title: People
mode: local
tables: [people.yaml]
budget: {epsilon: 100, neighbours: replace}
records:
  people: {from: people, columns: {income: {}, high: {}}}
  again: {from: people, columns: {income: {}, high: {}}}
output: out
"""


def declared(folder: Path, source: dict[str, str] | None) -> Path:
    table = {
        "table": "people",
        **({} if source is None else {"source": source}),
        "columns": {
            "income": {"type": "integer", "lower": 0, "upper": 1000 * ROWS, "fill": 0},
            "high": {"type": "boolean", "fill": False},
        },
    }
    (folder / "people.yaml").write_text(json.dumps(table))
    (folder / "release.yaml").write_text(RELEASE)
    return folder / "release.yaml"


def people(incomes: Sequence[int]) -> pa.Table:
    high = [income > 500 * ROWS for income in incomes]
    return pa.table({"income": pa.array(incomes, pa.int64()), "high": pa.array(high)})


def into_sqlite(create: str) -> Callable[[Path, pa.Table], dict[str, str]]:
    def write(folder: Path, rows: pa.Table) -> dict[str, str]:
        with closing(sqlite3.connect(folder / "people.sqlite")) as link, link:
            link.execute(create)
            values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            link.executemany("INSERT INTO people VALUES (?, ?)", values)
        return {"path": str(folder / "people.sqlite"), "table": "people"}

    return write


def into_duckdb(folder: Path, rows: pa.Table) -> dict[str, str]:
    with duckdb.connect(str(folder / "people.duckdb")) as link:
        link.register("rows", rows)
        link.execute("CREATE TABLE people AS SELECT * FROM rows")
    return {"path": str(folder / "people.duckdb"), "table": "people"}


def into_parquet(folder: Path, rows: pa.Table) -> dict[str, str]:
    pq.write_table(rows.slice(0, 150), folder / "people1.parquet", row_group_size=20)
    pq.write_table(rows.slice(150), folder / "people2.parquet", row_group_size=20)
    return {"path": str(folder / "people*.parquet")}


def into_csv(folder: Path, rows: pa.Table) -> dict[str, str]:
    rows.to_pandas().to_csv(folder / "people.csv", index=False)
    return {"path": str(folder / "people.csv")}


def into_json(folder: Path, rows: pa.Table) -> dict[str, str]:
    lines = "".join(json.dumps(row) + "\n" for row in rows.to_pylist())
    (folder / "people.jsonl").write_text(lines)
    return {"path": str(folder / "people.jsonl")}


def into_excel(folder: Path, rows: pa.Table) -> dict[str, str]:
    rows.to_pandas().to_excel(folder / "people.xlsx", index=False)
    return {"path": str(folder / "people.xlsx")}


def into_delta(folder: Path, rows: pa.Table) -> dict[str, str]:
    write_deltalake(folder / "people", rows.slice(0, 150), partition_by=["high"])
    write_deltalake(folder / "people", rows.slice(150), mode="append")
    return {"path": str(folder / "people"), "format": "delta"}


def into_iceberg(folder: Path, rows: pa.Table) -> dict[str, str]:
    catalogue = FolderCatalogue(folder / "people")
    table = catalogue.create(rows.schema, ("high",))
    table.append(rows.slice(0, 150))
    table.append(rows.slice(150))
    return {"path": catalogue.current, "format": "iceberg"}


SOURCES: dict[str, Callable[[Path, pa.Table], Any]] = {
    "sqlite": into_sqlite("CREATE TABLE people (income INTEGER PRIMARY KEY, high BOOLEAN)"),
    "sqlite without rowid": into_sqlite(
        "CREATE TABLE people (income INTEGER PRIMARY KEY, high BOOLEAN) WITHOUT ROWID"
    ),
    "duckdb": into_duckdb,
    "parquet": into_parquet,
    "delta": into_delta,
    "iceberg": into_iceberg,
    "csv": into_csv,
    "json lines": into_json,
    "excel": into_excel,
    "frame": lambda _folder, rows: rows.to_pandas(),
    "arrow": lambda _folder, rows: rows,
}


def publish_columns(folder: Path, store: str) -> dict[str, dict[str, np.ndarray]]:
    """Return the columns of both tables of a release of records that lie in rising order."""
    stored = SOURCES[store](folder, people([1000 * i for i in range(ROWS)]))
    source = stored if isinstance(stored, dict) else None
    frames = {} if source is not None else {"people": stored}
    out = run(read_declaration(declared(folder, source)), frames=frames, output=folder / "out")
    assert verify(out).ok
    tables = {name: pq.read_table(out / f"{name}.parquet") for name in ("people", "again")}
    return {
        name: {
            column: table[column].to_numpy(zero_copy_only=False) for column in table.schema.names
        }
        for name, table in tables.items()
    }


def deviations(one: np.ndarray, other: np.ndarray) -> float:
    """Return how many standard deviations the ranks of two columns correlate by."""
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1]) * math.sqrt(len(one) - 1)


def source_order(n: int, bits: BitSource) -> np.ndarray:
    """Return the planted mistake: random words are drawn, but the records stay in place."""
    bits.words(n)
    return np.arange(n)


@pytest.mark.share(0.5)
@pytest.mark.parametrize("store", SOURCES)
def test_source_order_is_not_published(store: str, tmp_path: Path) -> None:
    """Positions and values are not correlated, nor rows of two tables; columns of one table are."""
    tables = publish_columns(tmp_path, store)
    place = np.arange(ROWS)
    for table in tables.values():
        assert abs(deviations(place, table["income"])) < FAR
        assert deviations(table["high"], table["income"]) > 2 * FAR  # a record stays whole
    assert abs(deviations(tables["people"]["income"], tables["again"]["income"])) < FAR


def test_published_source_order_is_found(tmp_path: Path) -> None:
    """The other arm: without reordering, positions reveal values."""
    with mock.patch.object(noised_vectors, "random_order", source_order):
        tables = publish_columns(tmp_path, "sqlite")
    assert deviations(np.arange(ROWS), tables["people"]["income"]) > 2 * FAR


KEEPING, CHANGING = 7 << 61, 1 << 61
"""Words by which randomized response keeps a truth value, or changes it; of eight equal parts of
all words five do the one, and three the other."""

Record = tuple[int, ...]


def small_plan(folder: Path) -> list[LocalColumn]:
    """Return two boolean columns whose randomized responses keep a value with probability 5 / 8."""
    declared(folder, None)
    truth = {"type": "boolean", "fill": False}
    table = {"table": "people", "columns": {"a": truth, "b": truth}}
    (folder / "people.yaml").write_text(json.dumps(table))
    (folder / "release.yaml").write_text(RELEASE.replace("{income: {}, high: {}}", "[a, b]"))
    plan = prepare_local(read_declaration(folder / "release.yaml"))
    law = RandomizedResponse(1 / math.log(5 / 3), 2)
    return [replace(column, mechanism=law) for column in plan.of_records("people")]


def sequences(stored: Sequence[Record], columns: Sequence[LocalColumn]) -> Counter[Any]:
    """Return how likely each sequence of published records is, in parts of `3! 8^6`.

    Over all orders of three words, and all answers of randomized response.
    """
    found: Counter[Any] = Counter()
    a, b = (np.array(column, dtype=np.int64) for column in zip(*stored, strict=True))
    for order in itertools.permutations(range(3)):
        for noise in itertools.product((KEEPING, CHANGING), repeat=6):
            exact = ExactRecords("people", 3, {"a": a, "b": b})
            noisy = perturb_records(exact, columns, Replay([*order, *noise]))
            sequence = tuple(zip(noisy["a"].tolist(), noisy["b"].tolist(), strict=True))
            found[sequence] += math.prod(5 if word == KEEPING else 3 for word in noise)
    return found


def test_published_sequences_are_exchangeable(tmp_path: Path) -> None:
    """Exactly: no order of the stored records, nor of the published ones, is more likely.

    And by a record in the place of another one no sequence is more than (5/3)^2 times as likely.
    """
    columns = small_plan(tmp_path)
    records = ((0, 0), (0, 1), (1, 1))
    found = sequences(records, columns)
    assert found.total() == 6 * 8**6
    for stored in itertools.permutations(records):
        assert sequences(stored, columns) == found
    for sequence, parts in found.items():
        assert {found[other] for other in itertools.permutations(sequence)} == {parts}
    for other in itertools.product((0, 1), repeat=2):
        neighbour = sequences((other, *records[1:]), columns)
        for sequence, parts in found.items():
            assert 9 * parts <= 25 * neighbour[sequence]
            assert 9 * neighbour[sequence] <= 25 * parts


def test_unshuffled_sequences_are_not_exchangeable(tmp_path: Path) -> None:
    """Without reordering, the sequence reveals which record was stored first."""
    columns = small_plan(tmp_path)
    records = ((0, 0), (0, 1), (1, 1))
    with mock.patch.object(noised_vectors, "random_order", source_order):
        assert sequences(records, columns) != sequences(records[::-1], columns)


UNIT = {"id": "person", "max_groups": 2, "max_rows_per_group": 2}
TABLE = {
    "table": "people",
    "source": "people.csv",
    "privacy_unit": UNIT,
    "columns": {
        "person": {"type": "text"},
        "city": {"type": "category", "values": ["Bern", "Oslo", "Rome"]},
        "job": {"type": "text"},
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "pay": {"type": "number", "lower": 0, "upper": 100, "step": 0.5},
    },
}
SUMS = {"rows": {"count": "*"}, "pay": {"sum": "pay"}, "people": {"count_distinct": "person"}}
QUERIES: dict[str, Any] = {
    "sums": {"from": "people", "group_by": ["city"], "columns": SUMS},
    "choices": {
        "from": "people",
        "group_by": ["city"],
        "columns": {
            "mid": {"median": "age"},
            "top": {"top_k": "city", "k": 2},
            "mean": {"mean": "pay"},
            "ratio": {"ratio": ["pay", "age"]},
        },
    },
    "jobs": {"from": "people", "group_by": ["job"], "private_keys": True, "columns": SUMS},
}
PARTIES = {"federated": {"parties": 3, "honest": 2}, "queries": {"sums": QUERIES["sums"]}}
ANSWERS: dict[str, dict[str, Any]] = {
    "tables": {"queries": QUERIES, "formats": ["csv"], "mechanism": "discrete_laplace"},
    "messages": PARTIES,
}


def stored_rows() -> pd.DataFrame:
    """Return rows of people with several rows, of which bounds leave some out; some are equal."""
    i = np.arange(300)
    return pd.DataFrame(
        {
            "person": [f"p{n}" for n in i % 70],
            "city": np.array(["Bern", "Oslo", "Rome", "Bern"])[i % 4],
            "job": np.array(["baker", "poet", "smith"])[i % 3],
            "age": i * 7 % 100,
            "pay": i * 3 % 20 / 2,
        }
    )


ORDERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "as they are": lambda rows: rows,
    "backwards": lambda rows: rows[::-1],
    "by value": lambda rows: rows.sort_values(["pay", "age", "person"]),
}


@pytest.mark.share(0.4)
@pytest.mark.parametrize("kind", ANSWERS)
def test_row_order_changes_no_byte_of_releases(kind: str, tmp_path: Path) -> None:
    """With the same bits: tables with public and private keys, choices, exports and messages."""
    budget = {"epsilon": 20, "delta": "1e-6"}
    release = {"title": "T", "tables": ["people.yaml"], "budget": budget, **ANSWERS[kind]}
    made = []
    for order, ordered in ORDERS.items():
        folder = tmp_path / order
        folder.mkdir()
        ordered(stored_rows()).to_csv(folder / "people.csv", index=False)
        (folder / "people.yaml").write_text(json.dumps(TABLE))
        (folder / "release.yaml").write_text(json.dumps({**release, "output": "out"}))
        party = 1 if kind == "messages" else None
        asked = with_party(read_declaration(folder / "release.yaml"), party)
        out = run(asked, bits=Keyed("order"))
        made.append({file.name: file.read_bytes() for file in out.rglob("*") if file.is_file()})
    assert len(made[0]) > 1
    assert all(files == made[0] for files in made)


STATEMENT = "SELECT city, count(*) AS n, sum(pay) AS pay FROM people GROUP BY city ORDER BY n"


def test_row_order_changes_no_answer_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL, and a session over a frame."""
    monkeypatch.setattr(execute, "Entropy", lambda: Keyed("order"))
    (tmp_path / "people.yaml").write_text(json.dumps(TABLE))
    made = []
    for ordered in ORDERS.values():
        frame = ordered(stored_rows())
        frames = {"people": frame}
        told = dprelease.sql(STATEMENT, tmp_path / "people.yaml", epsilon=2, frames=frames)
        session = dprelease.Session(tmp_path / "people.yaml", epsilon=60, ledger=None)
        frame.dp.use(session)
        asked = frame.dp.groupby("city")
        made.append([told, asked.mean("pay", epsilon=2), asked.median("age", epsilon=2)])
    for answers in made[1:]:
        for one, other in zip(made[0], answers, strict=True):
            pd.testing.assert_frame_equal(one, other)
