"""Rows that count for the persons whom a correspondence table names, in every kind of source."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.auditing.claims import largest_share_of_claim
from dprelease.errors import DataError, DpReleaseError
from dprelease.exact.duckdb import Engine
from dprelease.exact.engines import refuse_frame_about_people
from dprelease.exact.inputs import Input
from dprelease.exact.reading import person_lookups
from dprelease.query.resolve import Query
from dprelease.query.unread import unreadable_table_errors
from dprelease.schema.load import Declared, read_declaration, table_from_mapping
from dprelease.schema.source_types.row_places import have_common_rows, places_of
from dprelease.statements.layers import SOURCE
from tests.covering import examples
from tests.exact.build import ask, declare

Row = tuple[str | None, str | None, int]
"""An id, a drug and a number of packs."""
Line = tuple[str | None, str | None]
"""An id and a person."""

DRUGS = ("x", "y")
COLUMNS: dict[str, Any] = {
    "patient": {"type": "text"},
    "insurance": {"type": "text"},
    "drug": {"type": "category", "values": [*DRUGS]},
    "packs": {"type": "integer", "lower": 0, "upper": 3},
}
UNIT = {"max_groups": 1, "max_rows_per_group": 2}


def numbers(texts: list[str | None]) -> list[int | None]:
    return [None if text is None else int(text) for text in texts]


def table_of(names: list[str], rows: list[tuple[Any, ...]], kind: str) -> pa.Table:
    """Return rows with the ids in the first columns as texts, or as integers."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    types = [pa.string() if name == "drug" else pa.int64() for name in names]
    for i, name in enumerate(names):
        if name in ("insurance", "patient") and kind == "text":
            types[i] = pa.string()
        elif name in ("insurance", "patient"):
            columns[i] = numbers(columns[i])
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def in_csv(table: pa.Table, path: Path) -> dict[str, Any]:
    file = path.with_suffix(".csv")
    lines = [",".join("" if cell is None else str(cell) for cell in r.values()) for r in table.to_pylist()]  # fmt: skip
    file.write_text("\n".join([",".join(table.column_names), *lines]) + "\n")
    return {"path": file.name}


def in_parquet(table: pa.Table, path: Path) -> dict[str, Any]:
    pq.write_table(table, path.with_suffix(".parquet"))
    return {"path": path.with_suffix(".parquet").name}


def in_duckdb(table: pa.Table, path: Path) -> dict[str, Any]:
    """Both tables are in one file."""
    with duckdb.connect(str(path.with_name("both.duckdb"))) as link:
        link.register("held", table)
        link.execute(f"CREATE TABLE {path.name} AS SELECT * FROM held")
    return {"path": "both.duckdb", "table": path.name}


def in_own_duckdb(table: pa.Table, path: Path) -> dict[str, Any]:
    with duckdb.connect(str(path.with_suffix(".duckdb"))) as link:
        link.register("held", table)
        link.execute("CREATE TABLE t AS SELECT * FROM held")
    return {"path": path.with_suffix(".duckdb").name, "table": "t"}


def in_sqlite(table: pa.Table, path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(path.with_suffix(".sqlite"))) as link, link:
        link.execute(f"CREATE TABLE t ({', '.join(table.column_names)})")
        marks = ", ".join("?" * table.num_columns)
        rows = [tuple(row.values()) for row in table.to_pylist()]
        link.executemany(f"INSERT INTO t VALUES ({marks})", rows)
    return {"path": path.with_suffix(".sqlite").name, "table": "t"}


def renamed(table: pa.Table, path: Path) -> dict[str, Any]:
    """Several files, whose columns have other names."""
    other = table.rename_columns([f"{name}_2" for name in table.column_names])
    in_csv(table.slice(0, 1), path)
    in_parquet(other.slice(1), path)
    names = {name: f"{name}_2" for name in table.column_names}
    files = [
        {"path": path.with_suffix(".csv").name},
        {"path": path.with_suffix(".parquet").name, "columns": names},
    ]
    return {"files": files}


STORES: dict[str, Callable[[pa.Table, Path], dict[str, Any]]] = {
    "csv": in_csv, "parquet": in_parquet, "duckdb": in_duckdb, "own duckdb": in_own_duckdb,
    "sqlite": in_sqlite, "files": renamed,
}  # fmt: skip
RENAMED = frozenset({"own duckdb", "sqlite"})
"""The stores whose correspondence tables have other names of columns, one of which is misleading."""
FRAMES: dict[str, Callable[[pa.Table], object]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "relation": lambda table: duckdb.from_arrow(table),
    "stream": lambda table: table.to_reader(),
}
PAIRS = [*product(STORES, STORES), *product(FRAMES, ("csv", "parquet"))]


@contextmanager
def held(
    rows: list[Row], lines: list[Line], store: str = "csv", others: str = "csv",
    kinds: tuple[str, str] = ("text", "text"), **unit: Any,
) -> Iterator[tuple[Declared, object | None]]:  # fmt: skip
    """Yield the declared table of rows in these stores, and their frame if they are in none."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = table_of(["insurance", "drug", "packs"], rows, kinds[0])
        found = table_of(["insurance", "patient"], lines, kinds[0])
        persons = table_of(["patient"], [line[1:] for line in lines], kinds[1])
        found = found.set_column(1, "patient", persons["patient"]) if lines else found
        frame = FRAMES[store](table) if store in FRAMES else None
        source = None if store in FRAMES else STORES[store](table, folder / "held")
        lookup: dict[str, Any] = {"source": {}, "on": "insurance"}
        if others in RENAMED:
            found = found.rename_columns(["number", "insurance"])
            lookup |= {"on": {"insurance": "number"}, "id": "insurance"}
        lookup["source"] = STORES[others](found, folder / "ids")
        columns = {**COLUMNS, "insurance": {"type": kinds[0]}, "patient": {"type": kinds[1]}}
        schema: dict[str, Any] = {
            "table": "t",
            "privacy_unit": {"id": "patient", "lookup": lookup, **(unit or UNIT)},
            "columns": columns,
        }
        schema |= {} if source is None else {"source": source}
        yield table_from_mapping(schema, folder), frame


def persons_of(rows: list[Row], lines: list[Line], kind: str = "text") -> Counter[Any]:
    """Return the rows of each person, by the slow way."""
    found: Counter[Any] = Counter()
    for number, drug, packs in rows:
        named = [person for own, person in lines if own == number and None not in (own, person)]
        read = numbers(named) if kind == "integer" else named
        found[min(read) if read else None, drug, packs] += 1  # type: ignore[type-var]
    return found


def rows_read(declared: Declared, frame: object | None) -> Counter[Any]:
    """Return the rows of each person, as the engine reads them."""
    statement = f"SELECT patient, drug, packs FROM {SOURCE}"
    with Engine.open(declared, frame) as engine:
        rows = engine._read_rows(lambda link: link.execute(statement).fetchall())
    return Counter((person, drug, None if packs is None else int(packs)) for person, drug, packs in rows)  # fmt: skip


IDS = st.sampled_from([None, "1", "2", "10"])
ROWS = st.lists(st.tuples(IDS, st.sampled_from(DRUGS), st.integers(0, 3)), max_size=6)
LINES = st.lists(st.tuples(IDS, IDS), max_size=6)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("store", "others"), PAIRS)
def test_rows_count_for_the_smallest_person(store: str, others: str) -> None:
    rows: list[Row] = [(n, drug, i) for i, (n, drug) in enumerate(product(["1", "2", "10", None], DRUGS))]  # fmt: skip
    lines: list[Line] = [("1", "2"), ("1", "10"), ("1", "10"), ("2", None), (None, "1"), ("10", "2"), ("7", "1")]  # fmt: skip
    for kinds in product(("text", "integer"), repeat=2):
        with held(rows, lines, store, others, kinds) as (declared, frame):
            assert rows_read(declared, frame) == persons_of(rows, lines, kinds[1])


@examples(10, in_audits=1000)
@given(rows=ROWS, lines=LINES, kind=st.sampled_from(["text", "integer"]), store=st.sampled_from([*STORES, *FRAMES]), others=st.sampled_from([*STORES]))  # fmt: skip
def test_small_tables(rows: list[Row], lines: list[Line], kind: str, store: str, others: str) -> None:  # fmt: skip
    with held(rows, lines, store, others, (kind, kind)) as (declared, frame):
        assert rows_read(declared, frame) == persons_of(rows, lines, kind)


def test_order_and_repeated_lines_change_nothing() -> None:
    rows: list[Row] = [("1", "x", 1), ("2", "y", 2), ("2", "y", 2)]
    lines: list[Line] = [("1", "b"), ("1", "a"), ("2", "c")]
    for several in ([*lines, *lines], lines[::-1], [*lines[::-1], lines[0]]):
        with held(rows, several) as (declared, frame):
            assert rows_read(declared, frame) == persons_of(rows, lines)


AGGREGATES: dict[str, dict[str, Any]] = {
    "rows": {"count": "*"},
    "persons": {"count_distinct": "patient"},
    "ids": {"count": "insurance"},
    "sum": {"sum": "packs"},
    "spread": {"variance": "packs"},
    "share": {"share": "*"},
    "clipped": {"sum": "packs", "max_sum": 4},
}
STAYS = declare(
    {"patient": {"type": "text"}, "ward": {"type": "category", "values": ["u", "v"]}},
    table="stays",
    privacy_unit={"id": "patient", **UNIT},
)
JOIN = {"table": "stays", "on_unit": True, "max_groups": 2, "max_rows_per_group": 2}


def vectors(query: Query, frame: object | None, stays: list[Line]) -> dict[str, np.ndarray]:
    """Return all true vectors of a query over the rows, and over stays that it may join."""
    other = None if query.join is None else query.join.declared
    columns = [list(column) for column in zip(*stays, strict=True)] or [[], []]
    names = zip(("patient", "ward"), columns, strict=True)
    joined = None if other is None else pa.table({n: pa.array(c, pa.string()) for n, c in names})
    with Engine.open(query.declared, frame, other, joined, queries=[query]) as engine:
        found = engine.run(query)
    return {m.name: found.vector(m.name).astype(int) for m in query.measurements}


WARDS = st.lists(st.tuples(IDS, st.sampled_from(["u", "v"])), max_size=4)


@pytest.mark.parametrize("join", [None, JOIN, {"table": "stays", "on_unit": True, "max_rows": 3}])
@examples(8, in_audits=1000)
@given(rows=ROWS, lines=LINES, stays=WARDS, person=st.sampled_from(["1", "2", "10"]))
def test_one_person_changes_what_the_limits_allow(
    join: Any, rows: list[Row], lines: list[Line], stays: list[Line], person: str
) -> None:
    """Without her lines, the rows that count for her, and her rows in another table."""
    owners = {own: min(p for o, p in lines if o == own and p) for own, p in lines if own and p}
    rest = [row for row in rows if row[0] is None or owners.get(row[0]) != person]
    others = [line for line in lines if line[1] != person]
    left = [stay for stay in stays if stay[0] != person]
    found = []
    for there, named, stayed in ((rows, lines, stays), (rest, others, left)):
        limits = (
            {} if join is not None else {"max_groups": 2, "max_rows_per_group": 2, "max_rows": 3}
        )
        with held(there, named, **limits) as (declared, frame):
            asked = {name: one for name, one in AGGREGATES.items() if not join or name != "share"}
            more = {} if join is None else {"join": join}
            query = ask(declared, asked, by=["drug"], other=STAYS, **more)
            found.append(vectors(query, frame, stayed))
    for measurement in query.measurements:
        moved = found[0][measurement.name] - found[1][measurement.name]
        assert largest_share_of_claim(moved.tolist(), measurement.sensitivity).holds


def test_distinct_ids_of_persons_are_persons() -> None:
    rows: list[Row] = [("1", "x", 1), ("2", "x", 1), ("3", "x", 1), ("4", "x", 1)]
    with held(rows, [("1", "a"), ("2", "a"), ("3", "b")]) as (declared, frame):
        query = ask(declared, {"c": AGGREGATES["persons"]}, by=["drug"])
        (vector,) = vectors(query, frame, []).values()
    assert vector.tolist() == [2, 0]


def changed(lookup: Any, **more: Any) -> Declared:
    unit = {"id": "patient", "lookup": lookup, **UNIT}
    schema = {"table": "t", "source": "held.csv", "privacy_unit": unit, "columns": COLUMNS}
    return table_from_mapping({**schema, **more}, Path())


IDS_CSV = {"source": "ids.csv", "on": "insurance"}


@pytest.mark.parametrize(
    ("lookup", "more", "words"),
    [
        ({"source": "ids.csv", "on": "patient"}, {}, "another column"),
        ({"source": "ids.csv", "on": "number"}, {}, "'number' is not a stored column"),
        ({"source": "ids.csv", "on": "drug"}, {}, "'drug' is not a stored column"),
        ({"source": {"frame": "ids"}, "on": "insurance"}, {}, "a frame"),
        ({"source": {"table": "ids"}, "on": "insurance"}, {}, "catalogue"),
        ({"source": {"path": "ids/", "format": "delta"}, "on": "insurance"}, {}, "version"),
        ({"source": {"path": "i.csv", "constants": {"patient": "1"}}, "on": "insurance"}, {}, "is an id"),
        ({"source": {"path": "i.csv", "codes": {"insurance": {"1": "2"}}}, "on": "insurance"}, {}, "is an id"),
        ({"source": {"path": "i.csv", "columns": {"insurance": None}}, "on": "insurance"}, {}, "must have the id"),
        ({"source": "i.csv", "on": {"insurance": "n", "drug": "d"}}, {}, "one column"),
        ({"source": "i.csv", "on": {}}, {}, "one column"),
        ({"source": "i.csv", "on": ["insurance"]}, {}, "must be a column, or"),
        ({"source": "i.csv", "on": {"insurance": "n"}, "id": "n"}, {}, "another column"),
        ({"source": "i.csv", "on": {"insurance": "patient"}}, {}, "another column"),
        (IDS_CSV, {"privacy_unit": {"lookup": IDS_CSV}}, "without `id`"),
        (IDS_CSV, {"public": True}, "public"),
        (IDS_CSV, {"source": {"path": "a.csv", "columns": {"patient": "person"}}}, "'patient'"),
        (IDS_CSV, {"source": {"path": "a.csv", "codes": {"insurance": {"1": "2"}}}}, "is an id"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(lookup: Any, more: Any, words: str) -> None:
    with pytest.raises(DpReleaseError) as refused:
        changed(lookup, **more)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("insurance,person\n1,a\n", "DP-DATA-024"),
        ("number,patient\n1,a\n", "DP-DATA-024"),
        ("insurance;patient\n1;a\n", "DP-DATA-024"),
        ("insurance,patient,patient\n1,a,b\n", "DP-DATA-003"),
        (None, "DP-DATA-001"),
    ],
)
def test_wrong_lines_are_refused_at_their_place(
    tmp_path: Path, lines: str | None, code: str
) -> None:
    (tmp_path / "held.csv").write_text("insurance,drug,packs\n1,x,1\n")
    if lines is not None:
        (tmp_path / "ids.csv").write_text(lines)
    schema = changed(IDS_CSV)
    declared = table_from_mapping(schema.document.values, tmp_path)
    with pytest.raises(DataError) as refused, Engine.open(declared):
        pass
    assert refused.value.code == code
    assert "lookup" in str(refused.value.place) or code == "DP-DATA-003"
    assert "no row was read" in str(refused.value)


def test_rows_without_ids_are_refused(tmp_path: Path) -> None:
    (tmp_path / "held.csv").write_text("patient,drug,packs\n1,x,1\n")
    (tmp_path / "ids.csv").write_text("insurance,patient\n1,a\n")
    declared = table_from_mapping(changed(IDS_CSV).document.values, tmp_path)
    with pytest.raises(DataError, match=r"DP-DATA-002.*'insurance'"), Engine.open(declared):
        pass


def test_own_persons_of_rows_are_not_read(tmp_path: Path) -> None:
    """A column of the rows with the name of the id is another column."""
    (tmp_path / "held.csv").write_text("patient,insurance,drug,packs\nz,1,x,1\nz,2,x,1\n")
    (tmp_path / "ids.csv").write_text("insurance,patient\n1,a\n")
    declared = table_from_mapping(changed(IDS_CSV).document.values, tmp_path)
    assert rows_read(declared, None) == {("a", "x", 1): 1, (None, "x", 1): 1}


@pytest.mark.parametrize(
    ("side", "name"), [("rows", "insurance"), ("lines", "insurance"), ("lines", "patient")]
)
def test_ids_that_are_floats_or_compared_otherwise_are_refused(
    tmp_path: Path, side: str, name: str
) -> None:
    """Also those of the lines, whose two columns are both ids."""
    stored = {"rows": ["insurance", "drug", "packs"], "lines": ["insurance", "patient"]}
    refused_types = {
        "DOUBLE": "DP-DATA-005", "VARCHAR COLLATE NOCASE": "DP-DATA-026", "BLOB": "DP-DATA-004",
    }  # fmt: skip
    for kind, code in refused_types.items():
        path = tmp_path / f"{kind[:3]}.duckdb"
        with duckdb.connect(str(path)) as link:
            for table, names in stored.items():
                types = [kind if (table, n) == (side, name) else "VARCHAR" for n in names]
                columns = ", ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
                link.execute(f"CREATE TABLE {table} ({columns})")
        source = {"path": str(path), "table": "lines"}
        rows = {"path": str(path), "table": "rows"}
        declared = changed({"source": source, "on": "insurance"}, source=rows)
        with pytest.raises(DataError) as refused, Engine.open(declared):
            pass
        assert refused.value.code == code
        assert ("lookup" in str(refused.value.place)) == (side == "lines")


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_large_floats_in_cells_are_no_ids(tmp_path: Path, kind: str) -> None:
    """In SQLite, a float above 2^53 may stand for several ids."""
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.execute("CREATE TABLE held (insurance, drug, packs)")
        link.execute("CREATE TABLE ids (insurance, patient)")
        link.executemany("INSERT INTO held VALUES (?, 'x', 1)", [(2**53 + 1,), (5,), (6.0,)])
        lines = [(2.0**53 + 2, 1), (2**53 + 1, 2.0**53 + 2), (5, 7), (6, 8.0)]
        link.executemany("INSERT INTO ids VALUES (?, ?)", lines)
    lookup = {"source": {"path": "t.sqlite", "table": "ids"}, "on": "insurance"}
    schema = dict(changed(lookup, source={"path": "t.sqlite", "table": "held"}).document.values)
    schema["columns"] = {**COLUMNS, "insurance": {"type": kind}, "patient": {"type": "integer"}}
    found = rows_read(table_from_mapping(schema, tmp_path), None)
    wanted = {(None, "x", 1): 1, (7, "x", 1): 1, (8, "x", 1): 1}
    assert found == wanted


@pytest.mark.parametrize("others", ["csv", "parquet"])
def test_nan_stays_a_missing_value(tmp_path: Path, others: str) -> None:
    """Statistics of Parquet files do not include NaN."""
    packs = pa.array([1.0, float("nan"), 3.0])
    held = pa.table({"insurance": ["1", "1", "2"], "drug": ["x", "x", "y"], "packs": packs})
    pq.write_table(held, tmp_path / "held.parquet")
    ids = pa.table({"insurance": ["1", "2"], "patient": ["a", "b"]})
    lookup = {"source": STORES[others](ids, tmp_path / "ids"), "on": "insurance"}
    values = changed(lookup, source="held.parquet").document.values
    declared = table_from_mapping(values, tmp_path)
    query = ask(declared, {"n": {"count": "packs"}}, by=["drug"], where="packs < 9")
    assert vectors(query, None, [])["n"].tolist() == [1, 1]


def test_a_changed_correspondence_is_refused() -> None:
    with held([("1", "x", 1)], [("1", "a")]) as (declared, frame):
        query = ask(declared, {"c": {"count": "*"}})
        with Engine.open(declared, frame, queries=[query]) as engine:
            engine.compile(query)
            (declared.folder / "ids.csv").write_text("insurance,patient\n1,b\n2,a\n")
            with pytest.raises(DataError, match="DP-DATA-007"):
                engine.run(query)


def test_lines_are_rows_about_people(tmp_path: Path) -> None:
    """No public table may read them."""
    (tmp_path / "ids.csv").write_text("insurance,patient\n1,a\n")
    declared = table_from_mapping(changed(IDS_CSV).document.values, tmp_path)
    public = {"table": "p", "public": True, "source": "ids.csv", "columns": {"a": {"type": "text"}}}
    assert have_common_rows(places_of(table_from_mapping(public, tmp_path)), places_of(declared))


def test_public_frames_may_not_have_the_ids_of_rows() -> None:
    declared = changed(IDS_CSV)
    columns = {"drug": {"type": "text"}}
    public = table_from_mapping({"table": "p", "public": True, "columns": columns}, Path())
    for name in ("insurance", "patient"):
        frames = {"p": pa.table({"drug": ["x"], name: ["1"]})}
        with pytest.raises(DpReleaseError, match=f"DP-JOIN-003.*'{name}'"):
            refuse_frame_about_people(public.table, [declared.table], frames)


def test_spark_refuses_lookups(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(json.dumps(changed(IDS_CSV).document.values))
    release = {
        "title": "t", "tables": ["t.yaml"], "budget": {"epsilon": 1}, "output": "o", "engine": "spark",
        "queries": {"q": {"from": "t", "columns": {"n": {"count": "*"}}}},
    }  # fmt: skip
    (tmp_path / "r.yaml").write_text(json.dumps(release))
    declaration = read_declaration(tmp_path / "r.yaml")
    from dprelease.query.resolve import resolve

    (refused,) = unreadable_table_errors(declaration, resolve(declaration))
    assert refused.code == "DP-SPARK-005"


PERSONS = ("a", "b")
SMALL: list[Row] = [("1", "x", 1), ("1", "y", 1), ("1", "y", 1), ("2", "x", 2), (None, "x", 1)]
SMALL_LINES: list[Line] = [*product(("1", "2"), ("a", "b", None)), ("1", "a"), (None, "a")]


def breaches() -> int:
    """Return in how many tables removing one person changes rows of others, or rows multiply."""
    found, link = 0, duckdb.connect()
    for size in range(4):
        for some in combinations(SMALL_LINES, size):
            lines = [*some]
            owner = {
                own: min(p for o, p in lines if o == own and p) for own, p in lines if own and p
            }
            whole = read_small(link, SMALL, lines)
            found += whole.total() != len(SMALL)
            for person in PERSONS:
                rest = [row for row in SMALL if owner.get(row[0] or "") != person]
                without = read_small(link, rest, [line for line in lines if line[1] != person])
                wanted = Counter({row: n for row, n in whole.items() if row[0] != person})
                found += without != wanted
    link.close()
    return found


def read_small(link: duckdb.DuckDBPyConnection, rows: list[Row], lines: list[Line]) -> Counter[Any]:
    """Return the rows of each person by the statement of the module alone, which is fast."""
    declared = changed(IDS_CSV)
    own, lookup = declared.rows, declared.lookup
    assert lookup is not None
    texts = {"insurance": "VARCHAR", "drug": "VARCHAR", "packs": "BIGINT"}
    parts = [
        Input(own, "own", arrow=0, physical=texts),
        Input(lookup, "ids", arrow=0, physical={"insurance": "VARCHAR", "patient": "VARCHAR"}),
    ]
    relation = person_lookups.rows_of_persons(Input(declared, SOURCE, parts=parts, has_lookup=True))
    link.register("own", table_of(["insurance", "drug", "packs"], rows, "text"))
    link.register("ids", table_of(["insurance", "patient"], lines, "text"))
    return Counter(link.execute(f"SELECT patient, drug, packs FROM {relation}").fetchall())


def test_a_person_changes_no_rows_of_others_and_no_row_is_doubled() -> None:
    assert breaches() == 0


@pytest.mark.share(0.4)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(dp_person)", "any_value(dp_person)"),
        ("min(dp_person)", "CASE WHEN count(DISTINCT dp_person) = 1 THEN min(dp_person) END"),
        ("min(dp_person)", "(SELECT min(patient) FROM ids)"),
        ("LEFT JOIN", "JOIN"),
        ("GROUP BY dp_key", "GROUP BY ALL"),
    ],
)
def test_other_rules_are_found_out(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line; ids of several persons left out; lines of other ids; rows dropped, doubled."""
    rule = person_lookups.rows_of_persons

    def another(given: Input) -> str:
        relation = rule(given)
        assert old in relation
        relation = relation.replace(old, new)
        return relation.replace("min(dp_person)", "dp_person") if "ALL" in new else relation

    monkeypatch.setattr(person_lookups, "rows_of_persons", another)
    assert breaches() > 0
