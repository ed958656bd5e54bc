"""Ids are compared as in their source, or refused: sources and collations."""

from __future__ import annotations

import contextlib
import decimal
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dprelease.errors import DataError, State
from dprelease.exact.duckdb import Engine
from dprelease.exact.postgres.server_types import StoredColumn
from dprelease.query import quoting
from dprelease.scaffold.sketch import sketch
from dprelease.schema.source_types.registry import SOURCE_TYPES, source_type
from dprelease.schema.source_types.source_type import ALIKE, OTHER
from dprelease.statements.values.source_equality import (
    EXACT,
    RELATION,
    SPARK_NOTE,
    engine_collations,
)
from tests.exact.build import ask, declare, exact
from tests.exact.iceberg_catalogue import FolderCatalogue

RULES = {
    kind: rules for kind in (*SOURCE_TYPES, RELATION) if (rules := source_type(kind).comparisons)
}
"""All comparisons that differ from ours, by the source type and its name for them."""

ID = "p id"
"""The column of ids: SQL has to quote it."""

SPELLINGS = {
    "COLLATE NOCASE": ("X1", "x1"),
    "COLLATE RTRIM": ("X1", "X1  "),
    "COLLATE NOACCENT": ("é", "e"),
    "COLLATE NOCASE.NOACCENT": ("É", "e"),
    "COLLATE NOACCENT.NOCASE": ("É", "e"),
    "COLLATE NFC": ("\u00e9", "e\u0301"),
}
"""By collation, two texts that are equal by it alone."""

MEANT = {"persons": {"count_distinct": ID}, "rows": {"count": "*"}}
ONE_ROW = {"id": ID, "max_groups": 1, "max_rows_per_group": 1}

Source = dict[str, Any]
Texts = list[str]


def into_sqlite(file: Path, collation: str, texts: Texts) -> Source:
    with closing(sqlite3.connect(file)) as link, link:
        link.create_collation("MINE", lambda one, other: (one > other) - (one < other))
        link.execute(f"CREATE TABLE t ({quoting.identifier(ID)} TEXT {collation})")
        link.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
    return {"path": str(file), "table": "t"}


def into_duckdb(file: Path, collation: str, texts: Texts) -> Source:
    with duckdb.connect(str(file)) as link:
        link.execute(f"CREATE TABLE t ({quoting.identifier(ID)} VARCHAR {collation})")
        for text in texts:
            link.execute("INSERT INTO t VALUES (?)", [text])
    return {"path": str(file), "table": "t"}


INTO: dict[str, Callable[[Path, str, Texts], Source]] = {
    "sqlite": into_sqlite,
    "duckdb": into_duckdb,
}
OWN = {"sqlite": "COLLATE MINE", "duckdb": "COLLATE NFC.NOCASE"}
"""Collations that are in no table."""

CASES = [(kind, comparison) for kind in INTO for comparison in RULES[kind]]


def write_source(folder: Path, kind: str, comparison: str, texts: Texts | None = None) -> Source:
    """Return a source that compares ids like this: one person, in two spellings."""
    texts = [*SPELLINGS.get(comparison, ("X1", "X2"))] if texts is None else texts
    collation = OWN[kind] if comparison is OTHER else comparison
    return INTO[kind](folder / f"t.{kind}", collation, texts)


def assert_refused_by_collation(
    kind: str, comparison: str, use: str, caught: pytest.ExceptionInfo[DataError]
) -> None:
    """Assert that a column was refused by its collation, with SQL that helps."""
    error, rule = caught.value, RULES[kind][comparison]
    assert (error.code, error.state) == ("DP-DATA-026", State.NOTHING)
    assert f"the {use} '{ID}' by {comparison}: {rule.equal} in the source" in error.cause
    assert rule.spelled.format(column=f'"{ID}"') in error.fix


@pytest.mark.parametrize(("kind", "comparison"), CASES)
def test_ids_with_a_collation_are_refused(kind: str, comparison: str, tmp_path: Path) -> None:
    """Before rows are read, also in an empty table."""
    for texts in (None, []):
        folder = tmp_path / str(texts)
        folder.mkdir()
        source = write_source(folder, kind, comparison, texts)
        for declared in ("text", "integer"):
            columns = {ID: {"type": declared}}
            table = declare(columns, source=source, privacy_unit=ONE_ROW)
            for asked in MEANT.items():
                with pytest.raises(DataError) as caught:
                    exact(ask(table, dict([asked])), None)
                assert_refused_by_collation(kind, comparison, "id", caught)
                assert caught.value.place.key.startswith("columns")


@pytest.mark.parametrize(("kind", "comparison"), CASES)
def test_sketch_of_an_id_with_a_collation_is_refused(
    kind: str, comparison: str, tmp_path: Path
) -> None:
    write_source(tmp_path, kind, comparison)
    with pytest.raises(DataError) as caught:
        sketch(tmp_path / f"t.{kind}", ID)
    assert_refused_by_collation(kind, comparison, "id", caught)
    assert f'"{ID}"' in sketch(tmp_path / f"t.{kind}")


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("kind", "comparison"), CASES)
@pytest.mark.parametrize("side", ["own", "public", "people"])
def test_join_keys_with_a_collation_are_refused(
    side: str, kind: str, comparison: str, tmp_path: Path
) -> None:
    columns: dict[str, Any] = {ID: {"type": "text"}}
    plain = {"path": str(tmp_path / "plain.parquet")}
    pq.write_table(pa.table({ID: ["X1"]}), plain["path"])
    collated = write_source(tmp_path, kind, comparison)
    own, other = (collated, plain) if side == "own" else (plain, collated)
    unit: Any = {"privacy_unit": ONE_ROW} if side == "people" else {"public": True}
    right = declare(columns, table="o", source=other, **unit)
    mine: Any = {"privacy_unit": ONE_ROW} if side == "people" else {}
    left = declare(columns, source=own, **mine)
    on: Any = {"on_unit": True} if side == "people" else {"on": {ID: ID}}
    bounds = {"max_groups": 1, "max_rows_per_group": 1} if side == "people" else {}
    join = {"table": "o", **on, **bounds}
    query = ask(left, {"rows": {"count": "*"}}, other=right, join=join)
    with pytest.raises(DataError) as caught:
        exact(query, None)
    assert_refused_by_collation(kind, comparison, "id" if side == "people" else "join key", caught)


@pytest.mark.parametrize(("kind", "comparison"), CASES)
def test_other_columns_ignore_collations(kind: str, comparison: str, tmp_path: Path) -> None:
    """In groups, conditions and computed columns, in any order of rows."""
    first, second = SPELLINGS.get(comparison, ("X1", "X2"))
    known = {"type": "category", "values": [first.rstrip(), second.rstrip() or "-"]}
    if first.rstrip() == second.rstrip():
        known["values"] = [first.rstrip(), "-"]
    columns = {ID: known, "low": {"type": "text", "expression": f'lower("{ID}")'}}
    shorter = quoting.text(first)
    for place, texts in enumerate(([first, second, second], [second, first, second])):
        (tmp_path / str(place)).mkdir()
        table = declare(
            columns, source=write_source(tmp_path / str(place), kind, comparison, texts)
        )
        meant = {
            "by": [texts.count(value) for value in known["values"]],
            f'"{ID}" = {shorter}': [texts.count(first)],
            f"low = {shorter}": [[text.lower() for text in texts].count(first)],
        }
        rows = {"rows": {"count": "*"}}
        queries = [
            ask(table, rows, [ID]) if how == "by" else ask(table, rows, where=how) for how in meant
        ]
        with Engine.open(table, queries=queries) as engine:
            found = [engine.run(query).vector("rows").tolist() for query in queries]
        assert found == list(meant.values())


@pytest.mark.parametrize("first", ["SMITH", "smith"])
def test_spelling_of_private_keys_is_not_merged(first: str, tmp_path: Path) -> None:
    """DuckDB returns any of equal texts, so that one person's spelling would be published."""
    texts = [first, *["Smith"] * 9]
    source = write_source(tmp_path, "duckdb", "COLLATE NOCASE", texts)
    table = declare({ID: {"type": "text"}}, source=source)
    query = ask(table, {"rows": {"count": "*"}}, [ID], private_keys=True)
    with Engine.open(table, queries=[query]) as engine:
        found = engine.partitions(query)
    assert found.names == sorted({f"5:{first}", "5:Smith"})


def merged_ids(file: Path, kind: str, spelled: str) -> Source:
    """Store the ids that a message proposes: equal spellings, in a column without collation."""
    column = quoting.identifier(ID)
    sql = (
        f"CREATE TABLE s ({column} {'TEXT' if kind == 'sqlite' else 'VARCHAR'})",
        f"INSERT INTO s SELECT {spelled.format(column=column)} FROM t",
    )
    if kind == "sqlite":
        with closing(sqlite3.connect(file)) as link, link:
            link.create_collation("MINE", lambda one, other: 0)
            for statement in sql:
                link.execute(statement)
    else:
        with duckdb.connect(str(file)) as link:
            for statement in sql:
                link.execute(statement)
    return {"path": str(file), "table": "s"}


@pytest.mark.parametrize(("kind", "comparison"), CASES)
def test_proposed_sql_merges_the_same_ids_as_the_source(
    kind: str, comparison: str, tmp_path: Path
) -> None:
    texts = [*SPELLINGS.get(comparison, ("X1", "x1" if kind == "duckdb" else "X2"))]
    write_source(tmp_path, kind, comparison, texts)
    for spelled in {RULES[kind][comparison].spelled, ALIKE}:
        file = tmp_path / f"t.{kind}"
        table = declare(
            {ID: {"type": "text"}},
            source=merged_ids(file, kind, spelled),
            privacy_unit=ONE_ROW,
        )
        found = exact(ask(table, MEANT), None)
        assert {name: vector.tolist() for name, vector in found.items()} == {
            "persons": [1],
            "rows": [1],
        }
        with closing(sqlite3.connect(file)) if kind == "sqlite" else duckdb.connect(file) as link:
            link.execute("DROP TABLE s")
            link.commit()


@pytest.mark.parametrize(
    ("kind", "collation"),
    [("sqlite", ""), ("sqlite", "COLLATE BINARY"), ("duckdb", "")]
    + [("duckdb", f"COLLATE {name}") for name in EXACT],
)
def test_collations_that_only_order_are_accepted(kind: str, collation: str, tmp_path: Path) -> None:
    texts = [*itertools.chain.from_iterable(SPELLINGS.values()), "X1"]
    source = INTO[kind](tmp_path / f"t.{kind}", collation, texts)
    table = declare({ID: {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    assert exact(ask(table, MEANT), None)["rows"].tolist() == [len(set(texts))]


def test_tables_with_different_collations_are_joined(tmp_path: Path) -> None:
    """DuckDB itself refuses to compare texts of two collations."""
    columns = {ID: {"type": "text"}, "a": {"type": "integer", "lower": 0, "upper": 9}}
    for name, collation in (("one", '"binary"'), ("other", "POSIX")):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as link:
            link.execute(f'CREATE TABLE t ("{ID}" VARCHAR COLLATE {collation}, a INTEGER)')
            link.execute("INSERT INTO t VALUES ('X1', 1), ('x1', 2)")
    sources = [{"path": str(tmp_path / f"{n}.duckdb"), "table": "t"} for n in ("one", "other")]
    left = declare(columns, source=sources[0])
    right = declare({ID: columns[ID]}, table="o", source=sources[1], public=True)
    join = {"table": "o", "on": {ID: ID}}
    assert exact(ask(left, {"n": {"sum": "a"}}, other=right, join=join), None)["n"].tolist() == [3]


NOCASE_ELSEWHERE = {
    "foreign key": (
        "CREATE TABLE p (id TEXT PRIMARY KEY COLLATE NOCASE)",
        'CREATE TABLE t ("{id}" TEXT REFERENCES p(id), a INTEGER)',
    ),
    "foreign key to the primary key": (
        "CREATE TABLE p (n INTEGER, id TEXT COLLATE NOCASE, PRIMARY KEY (n, id))",
        'CREATE TABLE t (a INTEGER, "{id}" TEXT, FOREIGN KEY (a, "{id}") REFERENCES p)',
    ),
    "primary key": (
        'CREATE TABLE t (a INTEGER, "{id}" TEXT, PRIMARY KEY (a, "{id}" COLLATE NOCASE)) '
        "WITHOUT ROWID",
    ),
    "unique index": (
        'CREATE TABLE t ("{id}" TEXT, a INTEGER)',
        'CREATE UNIQUE INDEX i ON t ("{id}" COLLATE NOCASE, a)',
    ),
}


@pytest.mark.parametrize("where", NOCASE_ELSEWHERE)
def test_ids_with_a_collation_in_an_index_are_refused(where: str, tmp_path: Path) -> None:
    """SQLite treats two spellings as equal there, whatever the collation of the column is."""
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as link:
        for statement in NOCASE_ELSEWHERE[where]:
            link.execute(statement.format(id=ID))
        link.commit()
    source = {"path": str(path), "table": "t"}
    with pytest.raises(DataError) as caught:
        exact(
            ask(declare({ID: {"type": "text"}}, source=source, privacy_unit=ONE_ROW), MEANT), None
        )
    assert_refused_by_collation("sqlite", "COLLATE NOCASE", "id", caught)


def test_indexes_without_collations_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE p (id TEXT PRIMARY KEY)")
        link.execute(f'CREATE TABLE t ("{ID}" TEXT REFERENCES p, b TEXT REFERENCES none)')
        link.execute(f'CREATE UNIQUE INDEX i ON t ("{ID}", b COLLATE NOCASE)')
        link.execute("CREATE UNIQUE INDEX j ON t (lower(b))")
        link.execute("INSERT INTO t VALUES ('X1', 'a'), ('x1', 'b')")
        link.commit()
    source = {"path": str(path), "table": "t"}
    table = declare({ID: {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    assert exact(ask(table, MEANT), None)["rows"].tolist() == [2]


# Relations of a caller's connection: by the collation of a column, or by its own default.


@contextmanager
def relation(default: str, expression: str) -> Iterator[duckdb.DuckDBPyRelation]:
    with duckdb.connect() as link:
        link.execute("CREATE TABLE t (plain VARCHAR, i INTEGER, nocase VARCHAR COLLATE NOCASE)")
        link.execute("INSERT INTO t VALUES ('X1', 1, 'X1'), ('x1', 1, 'x1')")
        link.execute(f"SET default_collation = '{default}'")
        yield link.sql(f'SELECT {expression} AS "{ID}" FROM t')


@pytest.mark.parametrize(
    ("default", "expression", "persons"),
    [
        ("", "plain", 2),
        ("", "nocase", None),
        ("", "nocase COLLATE C", 2),
        ("NOCASE", "plain", None),
        ("NOCASE", "nocase", None),
        ("NOCASE", "i", 1),
        ("NOCASE", RULES[RELATION][OTHER].spelled.format(column="plain"), 1),
        ("", RULES[RELATION][OTHER].spelled.format(column="nocase"), 1),
    ],
)
def test_ids_of_relations_with_collations_are_refused(
    default: str, expression: str, persons: int | None
) -> None:
    kind = "integer" if expression == "i" else "text"
    table = declare({ID: {"type": kind}}, privacy_unit=ONE_ROW)
    with relation(default, expression) as frame:
        if persons is not None:
            assert exact(ask(table, MEANT), frame)["rows"].tolist() == [persons]
            return
        with pytest.raises(DataError) as caught:
            exact(ask(table, MEANT), frame)
        assert_refused_by_collation(
            RELATION, "COLLATE NOCASE" if expression == "nocase" else OTHER, "id", caught
        )


def test_manual_lists_every_collation_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "databases.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|")]
    names = {"sqlite": "SQLite", "duckdb": "DuckDB file", "postgres": "PostgreSQL"}
    for kind, rules in RULES.items():
        own = [line for line in lines if line.startswith(f"| {names.get(kind, 'Parquet')}")]
        for words, rule in () if kind == RELATION else rules.items():
            name = "" if words is OTHER else words.removeprefix("COLLATE ")
            spelled = f"`{rule.spelled.format(column='id')}`"
            assert [line for line in own if f"{name}`" in line and spelled in line], words


def test_collations_are_unknown_if_all_compare_equal() -> None:
    assert engine_collations(["a", "b"], lambda _: True) == {"a": OTHER, "b": OTHER}


# What Spark notes in Parquet files.


def spark_schema(field: dict[str, Any]) -> bytes:
    return json.dumps({"type": "struct", "fields": [{"name": "w", "metadata": {}}, field]}).encode()


NOTES = {
    spark_schema(
        {"name": ID, "metadata": {"__COLLATIONS": {ID: "spark.UTF8_LCASE"}}}
    ): "UTF8_LCASE",
    spark_schema({"name": ID, "metadata": {"__COLLATIONS": {ID: "icu.UNICODE_CI"}}}): OTHER,
    spark_schema({"name": ID, "metadata": {"__COLLATIONS": ["of another version"]}}): OTHER,
    spark_schema({"name": ID, "metadata": {}}): None,
    spark_schema({"name": "another", "metadata": {"__COLLATIONS": {"another": "icu.de"}}}): None,
    b"{}": None,
    b"[" * 100_000: None,
    b"\xff": None,
}


@pytest.mark.each
@pytest.mark.parametrize("note", NOTES, ids=lambda note: note[:99].decode("latin-1"))
@pytest.mark.parametrize("place", [0, 1])
def test_ids_with_a_spark_collation_are_refused(place: int, note: bytes, tmp_path: Path) -> None:
    """In any of several files; other metadata changes nothing."""
    for i, texts in enumerate((["X1"], ["x1"])):
        held = pa.table({ID: texts})
        if i == place:
            held = held.replace_schema_metadata({SPARK_NOTE: note})
        pq.write_table(held, tmp_path / f"{i}.parquet")
    source = {"path": str(tmp_path / "*.parquet")}
    table = declare({ID: {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    comparison = NOTES[note]
    if comparison is None:
        assert exact(ask(table, MEANT), None)["rows"].tolist() == [2]
        return
    with pytest.raises(DataError) as caught:
        exact(ask(table, MEANT), None)
    assert_refused_by_collation(
        "parquet", OTHER if comparison is OTHER else f"COLLATE {comparison}", "id", caught
    )


# PostgreSQL: what a server does with it, tests/exact/postgres tries.


@pytest.mark.parametrize(
    ("kind", "origin", "is_exact", "comparison"),
    [
        ("citext", "citext", True, "citext"),
        ("text", "pg_catalog", True, ""),
        ("int8", "pg_catalog", True, ""),
        ("text", "pg_catalog", False, OTHER),
        ("bpchar", "pg_catalog", False, OTHER),
    ],
)
def test_collations_of_server_columns(
    kind: str, origin: str, is_exact: bool, comparison: str
) -> None:
    assert StoredColumn("v", kind, "b", origin, False, is_exact).comparison == comparison


# Sources without collations: characters, or whole numbers.


def as_csv(file: Path, texts: Texts) -> Source:
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    file.write_text("\n".join([ID, *quoted]), "utf-8")
    return {"path": str(file), "format": "csv"}


def as_json(file: Path, texts: Texts) -> Source:
    file.write_text("\n".join(json.dumps({ID: text}) for text in texts))
    return {"path": str(file), "format": "json_lines"}


def as_parquet(file: Path, texts: Texts) -> Source:
    pq.write_table(pa.table({ID: texts}), file)
    return {"path": str(file), "format": "parquet"}


def as_excel(file: Path, texts: Texts) -> Source:
    book = openpyxl.Workbook()
    assert book.active is not None
    for text in [ID, *texts]:
        book.active.append([text])
    book.save(file)
    return {"path": str(file), "format": "excel"}


def as_delta(file: Path, texts: Texts) -> Source:
    write_deltalake(file, pa.table({ID: texts}))
    return {"path": str(file), "format": "delta"}


def as_iceberg(file: Path, texts: Texts) -> Source:
    catalogue = FolderCatalogue(file)
    catalogue.create(pa.schema([(ID, pa.string())])).append(pa.table({ID: texts}))
    return {"path": catalogue.current, "format": "iceberg"}


FILES: dict[str, Callable[[Path, Texts], Source]] = {
    "iceberg": as_iceberg,
    "delta": as_delta,
    "csv": as_csv,
    "json lines": as_json,
    "parquet": as_parquet,
    "excel": as_excel,
    "sqlite": lambda file, texts: into_sqlite(file, "", texts) | {"format": "sqlite"},
    "duckdb": lambda file, texts: into_duckdb(file, "", texts) | {"format": "duckdb"},
}
FRAMES: dict[str, Callable[[Texts], object]] = {
    "pandas texts": lambda texts: pd.DataFrame({ID: texts}),
    "pandas categories": lambda texts: pd.DataFrame({ID: pd.Categorical(texts)}),
    "pandas ordered": lambda texts: pd.DataFrame({ID: pd.Categorical(texts, ordered=True)}),
    "arrow": lambda texts: pa.table({ID: texts}),
    "arrow codes": lambda texts: pa.table({ID: pa.array(texts).dictionary_encode()}),
    "arrow, codes of one text": lambda texts: pa.table(
        {ID: pa.DictionaryArray.from_arrays([*range(len(texts))], texts)}
    ),
}
PAIRS = [
    ("X1", "x1"), ("X1", "X1 "), ("\u00e9", "e\u0301"), ("X1", "X1"), ("1", "01"), ("1", "1.0"),
    ("1", " 1"), ("0", "-0"), ("1", "true"), ("1", "2"), ("9007199254740992", "9007199254740993"),
]  # fmt: skip
PERSONS = {"text": len(set(itertools.chain.from_iterable(PAIRS))), "integer": 5}
"""Texts that differ are people who do; as whole numbers there are 0, 1, 2 and two beyond 2^53."""


@pytest.mark.parametrize("source", [*FILES, *FRAMES])
def test_ids_are_texts_or_integers_in_every_source(source: str, tmp_path: Path) -> None:
    texts = list(itertools.chain.from_iterable(PAIRS))
    frame = FRAMES[source](texts) if source in FRAMES else None
    told: Any = {"source": FILES[source](tmp_path / "t", texts)} if source in FILES else {}
    for kind, persons in PERSONS.items():
        table = declare({ID: {"type": kind}}, privacy_unit=ONE_ROW, **told)
        found = exact(ask(table, MEANT), frame)
        assert [vector.tolist() for vector in found.values()] == [[persons]] * 2


@pytest.mark.parametrize("kind", [*PERSONS])
def test_ids_among_python_objects_are_refused(kind: str) -> None:
    """Numbers among them may have lost zeros or digits."""
    table = declare({ID: {"type": kind}}, privacy_unit=ONE_ROW)
    frame = pd.DataFrame({ID: pd.Series(["X1", "x1"], dtype=object)})
    with pytest.raises(DataError, match="DP-DATA-004"):
        exact(ask(table, MEANT), frame)


EQUAL: list[tuple[Any, ...]] = [
    (1, 1.0),
    (1, True),
    (1, 1.0, True),
    (0, -0.0, False),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    (1, decimal.Decimal("1.000")),
]
"""Cells that Python, and so pandas, holds equal."""


@pytest.mark.each
@pytest.mark.parametrize("cells", EQUAL, ids=str)
@pytest.mark.parametrize("ordered", [None, False, True])
def test_equal_cells_of_pandas_are_one_person_or_refused(
    cells: tuple[Any, ...], ordered: bool | None
) -> None:
    """pandas merges equal categories; objects are refused."""
    series = pd.Series([*cells], dtype=object)
    held = series if ordered is None else pd.Categorical(series.to_list(), ordered=ordered)
    for kind in ("integer", "text"):
        table = declare({ID: {"type": kind}}, privacy_unit=ONE_ROW)
        with contextlib.suppress(DataError):  # as a type that has lost how a text was spelled
            found = exact(ask(table, MEANT), pd.DataFrame({ID: held}))
            assert found["persons"].tolist() == [1]


@pytest.mark.parametrize("kind", ["sqlite", "excel"])
def test_number_and_equal_text_are_one_person(kind: str, tmp_path: Path) -> None:
    """If the source distinguishes 1 and "1", two people are merged, but nobody is split."""
    cells: list[Any] = [1, "1", 1.0]
    file = tmp_path / f"t.{'xlsx' if kind == 'excel' else 'sqlite'}"
    source: Source = {"path": str(file)}
    if kind == "excel":
        book = openpyxl.Workbook()
        assert book.active is not None
        for cell in [ID, *cells]:
            book.active.append([cell])
        book.save(file)
    else:
        with closing(sqlite3.connect(file)) as link, link:
            link.execute(f'CREATE TABLE t ("{ID}")')
            link.executemany("INSERT INTO t VALUES (?)", [(c,) for c in [*cells, b"1"]])
        source["table"] = "t"
    for declared in ("text", "integer"):
        table = declare({ID: {"type": declared}}, source=source, privacy_unit=ONE_ROW)
        found = exact(ask(table, MEANT), None)
        assert [vector.tolist() for vector in found.values()] == [[1], [1]]


def test_json_number_ids_are_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(f'{{"{ID}": {cell}}}' for cell in ("1", '"1"', "1.0")))
    for declared, persons in (("text", 2), ("integer", 1)):
        table = declare({ID: {"type": declared}}, source=str(file), privacy_unit=ONE_ROW)
        assert exact(ask(table, MEANT), None)["persons"].tolist() == [persons]


def test_uuid_ids_are_lower_case_texts() -> None:
    one = UUID("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")
    table = declare({ID: {"type": "text"}}, privacy_unit=ONE_ROW)
    for frame in (
        pa.table({ID: pa.array([one.bytes, one.bytes], pa.uuid())}),
        pa.table({ID: [str(one), str(one)]}),
    ):
        assert exact(ask(table, MEANT), frame)["persons"].tolist() == [1]
    shouted = pd.DataFrame({ID: [str(one), str(one).upper()]})
    assert exact(ask(table, MEANT), shouted)["persons"].tolist() == [2]


def test_ids_are_refused_at_the_first_query(tmp_path: Path) -> None:
    """Also if the engine was opened for all queries and read no row yet."""
    source = write_source(tmp_path, "duckdb", "COLLATE NOCASE")
    table = declare({ID: {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    query = ask(table, MEANT)
    with Engine.open(table, queries=[query]) as engine, pytest.raises(DataError) as caught:
        engine.compile(query)
    assert_refused_by_collation("duckdb", "COLLATE NOCASE", "id", caught)
