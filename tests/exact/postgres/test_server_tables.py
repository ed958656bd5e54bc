"""Tables of a real PostgreSQL server give the same results as the same rows elsewhere."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dprelease.errors import DataError, State
from dprelease.exact.postgres.server_link import open_servers
from dprelease.exact.postgres.server_rows import server_rows
from dprelease.exact.postgres.server_types import LONGEST_TEXT_BYTES
from dprelease.release.runs.pipeline import run
from dprelease.scaffold.server_sketch import server_sketch
from dprelease.schema.load import read_declaration
from dprelease.schema.source_types.postgres_type import Postgres
from dprelease.schema.source_types.source_type import OTHER
from tests.exact.build import ask, declare, exact
from tests.exact.postgres.server import Server
from tests.exact.test_column_type_changes import (
    ODD,
    ROWS,
    STORED,
    answers,
    line_vectors,
    vectors_of_all_rows,
)

pytestmark = pytest.mark.audit

ROWS_IN_ALL = {"rows": {"count": "*"}}
NUMBER = itertools.count()

TEXTS = dict.fromkeys(STORED, "text")
STORES: dict[str, dict[str, str]] = {
    "texts": TEXTS,
    "narrow": {
        **TEXTS, "id": "int4", "code": "int2", "padded": "char(5)", "word": "varchar(9)",
        "age": "int2", "pay": "int4", "part": "real", "flag": "int2", "truth": "bool",
        "day": "date", "at": "timestamp", "digits": "int4",
    },
    "wide": {
        **TEXTS, "id": "int8", "code": "numeric(5,2)", "padded": "citext", "word": "name",
        "age": "float8", "pay": "numeric", "part": "numeric(6,3)", "flag": "numeric",
        "truth": "a_truth", "day": "timestamptz", "at": "timestamptz", "digits": "int8",
    },
}  # fmt: skip
"""By store, the types of the columns that hold the same rows."""


@pytest.fixture(scope="module", autouse=True)
def types(postgres: Server) -> None:
    postgres.do(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE DOMAIN short AS varchar(9)",
        "CREATE DOMAIN shorter AS short CHECK (VALUE <> 'never')",
        "CREATE TYPE a_truth AS ENUM ('True', 'False')",
    )


def create_source(server: Server, kinds: dict[str, str], lines: list[list[str]]) -> dict[str, str]:
    """Return the source of a new table of these lines."""
    table = f"t{next(NUMBER)}"
    columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    rows = ", ".join(f"({', '.join(map(literal, line))})" for line in lines)
    filled = [f"INSERT INTO {table} VALUES {rows}"] if lines else []
    server.do("SET timezone = 'UTC'", f"CREATE TABLE {table} ({columns})", *filled)
    return server.source(table)


def literal(text: str) -> str:
    return f"'{text}'" if text else "NULL"


@pytest.mark.parametrize("store", STORES)
def test_server_rows_give_the_same_results_as_a_frame(store: str, server: Server) -> None:
    source: Any = create_source(server, STORES[store], [line.split(",") for line in ROWS])
    found = {name: vector.tolist() for name, vector in answers(None, {}, source).items()}
    assert found == {name: v.tolist() for name, v in vectors_of_all_rows("plain", False).items()}


@pytest.mark.parametrize("odd", ODD)
def test_odd_row_changes_only_its_own_cells(odd: str, server: Server) -> None:
    """Texts are read as in a CSV file, whatever is in other rows."""
    lines = [*(line.split(",") for line in ROWS), ODD[odd].split(",")]
    source: Any = create_source(server, TEXTS, lines)
    before, own = vectors_of_all_rows("plain", False), line_vectors(ODD[odd], False)
    after = answers(None, {}, source)
    assert {name: (v - before[name]).tolist() for name, v in after.items()} == {
        name: v.tolist() for name, v in own.items()
    }


NUMBERS = {"type": "number", "lower": -8, "upper": 8, "step": 1}
WHOLE = {"type": "integer", "lower": -8, "upper": 8}
DAY = {"type": "date", "lower": "2020-01-01", "upper": "2020-01-02"}
SEX = {"type": "category", "values": ["F", "M"]}
ENDS = "'infinity' '-infinity' '0044-03-15 BC' '99999-01-01'"
LONG = f"repeat('x',{LONGEST_TEXT_BYTES}) repeat('x',{LONGEST_TEXT_BYTES + 1}) repeat('é',{LONGEST_TEXT_BYTES}) 'F'"
IDENTITY = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
MEANT: dict[str, tuple[str, str, dict[str, Any], str, list[int]]] = {
    # by a name: the type, literals, what is declared, what is asked, and what is found
    "NaN says nothing": ("float8", "'NaN' 3 NULL", NUMBERS, "count", [1]),
    "the ends of floats are clamped": ("float8", "'Infinity' '-Infinity' 3", NUMBERS, "sum", [3]),
    "single NaN says nothing": ("real", "'NaN' 3", NUMBERS, "count", [1]),
    "numeric NaN says nothing": ("numeric", "'NaN' 3", NUMBERS, "count", [1]),
    "numeric ends are clamped": ("numeric", "'Infinity' '-Infinity' 3", NUMBERS, "sum", [3]),
    "an endless numeric is clamped": ("numeric", "1e999 -1e999 3", NUMBERS, "sum", [3]),
    "a numeric below all floats": ("numeric", "1e-9999 3", NUMBERS, "sum", [3]),
    "a scaled numeric is whole": ("numeric(9,4)", "3.0000 2.5", WHOLE, "sum", [3]),
    "a numeric without a scale": ("numeric", "3.000 2.5 'NaN'", WHOLE, "sum", [3]),
    "the ends of whole numbers": ("int8", f"{2**63 - 1} {1 - 2**63} 3", WHOLE, "sum", [3]),
    "days beyond": ("date", f"{ENDS} '2020-01-02'", DAY, "by", [0, 1]),
    "instants beyond": ("timestamp", f"{ENDS} '2020-01-01T23:59'", DAY, "by", [1, 0]),
    "zoned instants beyond": ("timestamptz", f"{ENDS} '2020-01-02T00:30+01'", DAY, "by", [1, 0]),
    "blanks at the end of char(n)": ("char(4)", "'F' 'M\u00a0' ' F' 'FM' ''", SEX, "by", [1, 0]),
    "a text without its case": ("citext", "'f' 'F' 'M'", SEX, "by", [1, 1]),
    "a domain over a domain": ("shorter", "'F' 'M' 'M'", SEX, "by", [1, 2]),
    "one byte": ('"char"', "'F' 'M' 'M'", SEX, "by", [1, 2]),
    "a text as long as one may be": ("text", LONG, {"type": "text"}, "count", [2]),
    "identifiers": (
        "uuid",
        f"'{IDENTITY.upper()}' NULL",
        {"type": "category", "values": [IDENTITY]},
        "by",
        [1],
    ),
    "NaN is no code": (
        "numeric",
        "'NaN' 1.0 NULL",
        {"type": "category", "values": ["NaN", "1"]},
        "by",
        [0, 1],
    ),
    "truth values": ("bool", "true false NULL true", {"type": "boolean"}, "by", [1, 2]),
}
"""Literals have no blanks but between them, or in quotes before a sign: `CASES` splits them."""


def split(literals: str) -> list[str]:
    """Return the literals of a case."""
    return [one.replace("~", " ") for one in literals.replace(" BC'", "~BC'").split(" ")]


@pytest.mark.parametrize("case", MEANT)
def test_server_values_are_read_by_declared_type(case: str, server: Server) -> None:
    """Together and one by one: no value changes how another is read, or stops a run."""
    kind, literals, column, asked, wanted = MEANT[case]
    values = split(literals.replace("' F'", "'~F'"))
    columns = {"n": {"count": "*"}} if asked == "by" else {"n": {asked: "v"}}
    by = ["v"] if asked == "by" else []

    def total(some: list[str]) -> list[int]:
        table = f"t{next(NUMBER)}"
        server.do(
            f"CREATE TABLE {table} (v {kind})",
            *(f"INSERT INTO {table} VALUES ({value})" for value in some),
        )
        declared = declare({"v": column}, source=server.source(table))
        return list(exact(ask(declared, columns, by), None)["n"].tolist())

    assert total(values) == wanted
    each = [total([value]) for value in values]
    assert [sum(cells) for cells in zip(*each, strict=True)] == wanted


REFUSED_TYPES = {
    "bytea": "bytea", "json": "json", "jsonb": "jsonb", "text[]": "_text", "interval": "interval",
    "time": "time", "money": "money", "inet": "inet", "int4range": "int4range", "oid": "oid",
    "xml": "xml", "bit(3)": "bit", "a_pair": "a_pair", "names": "_text",
}  # fmt: skip
"""Types of which no value is read, and as what they are told: a domain as the type behind it."""


def test_unsupported_server_types_are_refused(server: Server) -> None:
    """The table is empty, so only the type decides. Undeclared columns may have any type."""
    server.do("CREATE TYPE a_pair AS (a int, b int)", "CREATE DOMAIN names AS text[]")
    for kind, told in REFUSED_TYPES.items():
        table = f"t{next(NUMBER)}"
        server.do(f"CREATE TABLE {table} (v {kind}, n int)")
        source = server.source(table)
        for column in ({"type": "text"}, WHOLE, {"type": "boolean"}):
            with pytest.raises(DataError, match=f"DP-DATA-004.*stored as {told}, "):
                exact(ask(declare({"v": column}, source=source), ROWS_IN_ALL), None)
        assert exact(ask(declare({"n": WHOLE}, source=source), ROWS_IN_ALL), None)["rows"] == [0]


LOSING: dict[str, tuple[str, dict[str, Any], str]] = {
    "a text in whole numbers": ("int4", {"type": "text"}, "DP-DATA-004"),
    "a text in exact numbers": ("numeric", {"type": "text"}, "DP-DATA-004"),
    "codes that are one number": (
        "numeric(2,0)",
        {"type": "category", "values": ["1", "01"]},
        "DP-DATA-004",
    ),
    "large whole numbers in floats": ("float8", {"type": "integer"}, "DP-DATA-015"),
    "a day in a truth value": ("bool", {"type": "text"}, "DP-DATA-004"),
}


@pytest.mark.parametrize("case", LOSING)
def test_lossy_server_types_are_refused(case: str, server: Server) -> None:
    kind, column, code = LOSING[case]
    table = f"t{next(NUMBER)}"
    server.do(f"CREATE TABLE {table} (v {kind})")
    declared = declare({"v": column}, source=server.source(table))
    with pytest.raises(DataError, match=code):
        exact(ask(declared, {"n": {"count": "v"}}), None)


def test_float_ids_on_a_server_are_refused(server: Server) -> None:
    table = f"t{next(NUMBER)}"
    server.do(f"CREATE TABLE {table} (v float8)")
    unit = {"privacy_unit": {"id": "v", "max_groups": 1, "max_rows_per_group": 1}}
    declared = declare({"v": WHOLE}, source=server.source(table), **unit)
    with pytest.raises(DataError, match="DP-DATA-005"):
        exact(ask(declared, ROWS_IN_ALL), None)


RELATIONS: dict[str, tuple[list[str], str]] = {
    "a view": (["CREATE VIEW {} AS SELECT 1 AS n"], "DP-DATA-014"),
    "a stored view": (["CREATE MATERIALIZED VIEW {} AS SELECT 1 AS n"], "DP-DATA-014"),
    "a computed column": (
        ["CREATE TABLE {} (m int, n int GENERATED ALWAYS AS (m * 2) STORED)"],
        "DP-DATA-014",
    ),
    "a table elsewhere": (
        [
            "CREATE EXTENSION IF NOT EXISTS file_fdw",
            "CREATE SERVER IF NOT EXISTS files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE {} (n int) SERVER files OPTIONS (filename '/dev/null')",
        ],
        "DP-DATA-014",
    ),
    "a part that is elsewhere": (
        [
            "CREATE TABLE {} (n int) PARTITION BY LIST (n)",
            "CREATE FOREIGN TABLE {}_part PARTITION OF {} FOR VALUES IN (1) SERVER files "
            "OPTIONS (filename '/dev/null')",
        ],
        "DP-DATA-014",
    ),
    "a sequence": (["CREATE SEQUENCE {}"], "DP-DATA-014"),
    "nothing": ([], "DP-DATA-001"),
    "another schema": (["CREATE SCHEMA {}", "CREATE TABLE {}.{} (n int)"], "DP-DATA-001"),
    "rows that policies hide": (
        [
            "CREATE TABLE {} (n int)",
            "ALTER TABLE {} ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY p ON {} USING (n > (SELECT avg(n) FROM {}))",
            "GRANT SELECT ON {} TO reader",
        ],
        "DP-DATA-024.*policies",
    ),
    "no right to read it": (["CREATE TABLE {} (n int)"], "DP-DATA-024.*permission"),
    "columns that differ by case": (
        ['CREATE TABLE {} (n int, "N" int)', "GRANT SELECT ON {} TO reader"],
        "DP-DATA-003",
    ),
}


@pytest.mark.parametrize("case", RELATIONS)
def test_views_and_foreign_tables_are_refused(case: str, server: Server) -> None:
    statements, code = RELATIONS[case]
    table = f"t{next(NUMBER)}"
    server.do(*(statement.replace("{}", table) for statement in statements))
    reader = "hide" in case or "right" in case or "case" in case
    source = server.source(table, user="reader" if reader else "keeper")
    with pytest.raises(DataError, match=f"(?s){code}"):
        exact(ask(declare({"n": WHOLE}, source=source), ROWS_IN_ALL), None)


PARTED = {
    "INHERITS": ("", "CREATE TABLE {}_b () INHERITS ({})"),
    "PARTITION": ("PARTITION BY LIST (n)", "CREATE TABLE {}_b PARTITION OF {} DEFAULT"),
}


@pytest.mark.parametrize("case", PARTED)
def test_all_partitions_of_a_table_are_read(case: str, server: Server, tmp_path: Path) -> None:
    """All rows count, in statistics and in tables of rows."""
    kind, more = PARTED[case]
    table = f"t{next(NUMBER)}"
    server.do(
        f"CREATE TABLE {table} (n int) {kind}",
        more.replace("{}", table),
        f"INSERT INTO {table}_b VALUES (3), (4)",
    )
    declared = declare({"n": WHOLE}, source=server.source(table))
    assert exact(ask(declared, {"n": {"sum": "n"}}), None)["n"].tolist() == [7]
    held = json.dumps({"table": "t", "source": server.source(table), "columns": COLUMNS_OF_ONE})
    (tmp_path / "t.yaml").write_text(held)
    (tmp_path / "r.yaml").write_text(ONE_BY_ONE)
    run(read_declaration(tmp_path / "r.yaml"), output=tmp_path / "out")
    assert pq.read_table(tmp_path / "out/t.parquet").num_rows == 2


COLUMNS_OF_ONE = {"n": {**WHOLE, "fill": 0}}
ONE_BY_ONE = """
title: one by one
mode: local
tables: [t.yaml]
budget: {epsilon: 1, neighbours: replace}
records: {t: {from: t, columns: {n: {}}}}
output: out
"""


def test_names_on_a_server_are_quoted(server: Server) -> None:
    name, table = 'a "b"; -- \'', 'x "; %s'
    quoted = [f'"{one.replace(chr(34), chr(34) * 2)}"' for one in (table, name)]
    server.do(f"CREATE TABLE {quoted[0]} ({quoted[1]} int)", f"INSERT INTO {quoted[0]} VALUES (3)")
    declared = declare({name: WHOLE}, source=server.source(table))
    assert exact(ask(declared, {"n": {"sum": name}}), None)["n"].tolist() == [3]


def test_functions_in_the_search_path_are_not_called(server: Server) -> None:
    """A role's search path and operators that shadow built-in ones change nothing."""
    table = f"t{next(NUMBER)}"
    server.do(
        f"CREATE TABLE {table} (v text)",
        f"INSERT INTO {table} VALUES ('F')",
        "CREATE SCHEMA traps",
        "CREATE FUNCTION traps.never(int, int) RETURNS bool LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR traps.<= (LEFTARG = int, RIGHTARG = int, FUNCTION = traps.never)",
        "ALTER ROLE keeper SET search_path = traps, pg_catalog, public",
    )
    try:
        declared = declare({"v": SEX}, source=server.source(table))
        assert exact(ask(declared, ROWS_IN_ALL, ["v"]), None)["rows"].tolist() == [1, 0]
    finally:
        server.do("ALTER ROLE keeper RESET search_path")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_dates_out_of_range_are_missing(kind: str, server: Server) -> None:
    """Drivers read them differently, so the server sends missing values."""
    table = f"t{next(NUMBER)}"
    server.do(
        f"CREATE TABLE {table} (v {kind})",
        *(f"INSERT INTO {table} VALUES ({value})" for value in split(ENDS)),
    )
    declared = declare({"v": DAY}, source=server.source(table))
    with open_servers([declared]) as servers:
        rows = server_rows(declared, servers).reader().read_all()
    assert rows["v"].to_pylist() == [None] * 4


def test_server_rows_are_read_in_stored_order(server: Server) -> None:
    """An index that covers all columns would return them in the order of values."""
    table = f"t{next(NUMBER)}"
    server.do(
        f"CREATE TABLE {table} (n int, wide text)",
        f"INSERT INTO {table} SELECT (i * 7919) % 10007, repeat('x', 200) FROM generate_series(1, 9999) i",
        f"CREATE INDEX ON {table} (n)",
        f"VACUUM ANALYZE {table}",
    )
    declared = declare({"n": WHOLE}, source=server.source(table))
    with open_servers([declared]) as servers:
        rows = server_rows(declared, servers).reader().read_all()
    assert rows["n"].to_pylist() == [i * 7919 % 10007 for i in range(1, 10000)]


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII", "LATIN1", "LATIN2"])
def test_server_encodings_are_decoded_or_refused(encoding: str, server: Server) -> None:
    """Invalid bytes are missing; a database whose texts may not convert to UTF-8 is refused."""
    name = encoding.lower()
    server.do(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'")
    text = "chr(233)" if encoding != "SQL_ASCII" else "convert_from('\\xc3a9'::bytea, 'SQL_ASCII')"
    odd = ", (convert_from('\\xff', 'SQL_ASCII'))" if encoding == "SQL_ASCII" else ""
    server.do(
        "CREATE TABLE t (v text)", f"INSERT INTO t VALUES ({text}), ('F') {odd}", database=name
    )
    column = {"type": "category", "values": ["é", "F"]}
    declared = declare({"v": column}, source=server.source("t", database=name))
    if encoding == "LATIN2":
        with pytest.raises(DataError, match=r"DP-DATA-024.*encoding"):
            exact(ask(declared, ROWS_IN_ALL, ["v"]), None)
        return
    assert exact(ask(declared, ROWS_IN_ALL, ["v"]), None)["rows"].tolist() == [1, 1]
    assert exact(ask(declared, ROWS_IN_ALL), None)["rows"].tolist() == [3 if odd else 2]


ONE_ROW = {"id": "v", "max_groups": 1, "max_rows_per_group": 1}
COLLATED: dict[str, tuple[str, str, tuple[str, str]]] = {
    # by a name: the type, what it is told as, and two texts that the server holds equal
    "citext": ("citext", "citext", ("X1", "x1")),
    "a domain over citext": ("caseless", "citext", ("X1", "x1")),
    "letters alone": ("text COLLATE letters", OTHER, ("X1", "x1")),
    "letters of a domain": ("lettered", OTHER, ("X1", "x1")),
    "letters in char(n)": ("char(4) COLLATE letters", OTHER, ("X1", "x1")),
    "Unicode forms": ("varchar(9) COLLATE forms", OTHER, ("\u00e9", "e\u0301")),
}
EXACT = ["text", "varchar(9)", 'text COLLATE "C"', "text COLLATE germans", "name", "shorter"]
"""Of collations that are deterministic: an order of texts, by which those that differ stay two."""


@pytest.fixture(scope="module")
def collations(types: None, postgres: Server) -> None:
    icu = "CREATE COLLATION {} (provider = icu, locale = '{}', deterministic = {})"
    postgres.do(
        icu.format("letters", "und-u-ks-level2", "false"),
        icu.format("forms", "und", "false"),
        icu.format("germans", "de", "true"),
        "CREATE DOMAIN caseless AS citext",
        "CREATE DOMAIN lettered AS text COLLATE letters",
    )


def create_table(server: Server, kind: str, texts: tuple[str, ...]) -> str:
    table = f"t{next(NUMBER)}"
    values = ", ".join(f"('{text}')" for text in texts)
    server.do(f"CREATE TABLE {table} (v {kind})", f"INSERT INTO {table} VALUES {values}")
    return table


@pytest.mark.usefixtures("collations")
@pytest.mark.parametrize("case", COLLATED)
def test_ids_and_keys_with_collations_are_refused(case: str, server: Server) -> None:
    """The catalogue decides; the fix of the message makes one person of equal ids."""
    kind, comparison, texts = COLLATED[case]
    table, rule = create_table(server, kind, texts), Postgres.comparisons[comparison]
    source, column = server.source(table), {"v": {"type": "text"}}
    other = declare(column, table="o", source=source, public=True)
    plain = declare(column, source=server.source(create_table(server, "text", texts)))
    join: Any = {"table": "o", "on": {"v": "v"}}
    for query, use in (
        (ask(declare(column, source=source, privacy_unit=ONE_ROW), ROWS_IN_ALL), "id"),
        (ask(plain, ROWS_IN_ALL, other=other, join=join), "join key"),
    ):
        with pytest.raises(DataError) as caught:
            exact(query, None)
        assert (caught.value.code, caught.value.state) == ("DP-DATA-026", State.NOTHING)
        assert f"the {use} 'v' by {comparison}: {rule.equal} " in caught.value.cause
    spelled = rule.spelled.format(column='"v"')
    assert spelled in caught.value.fix
    with pytest.raises(DataError, match="DP-DATA-026"):
        server_sketch(source["path"], table, "v")
    assert "v: {type: text}" in server_sketch(source["path"], table)
    alike = f"a{table}"
    server.do(
        f"CREATE TABLE {alike} (v text)", f"INSERT INTO {alike} SELECT {spelled} FROM {table}"
    )
    declared = declare(column, source=server.source(alike), privacy_unit=ONE_ROW)
    assert exact(ask(declared, ROWS_IN_ALL), None)["rows"].tolist() == [1]
    keys = {"v": {"type": "category", "values": [*texts]}}  # elsewhere a text is its characters
    asked = ask(declare(keys, source=source), ROWS_IN_ALL, ["v"])
    assert exact(asked, None)["rows"].tolist() == [1, 1]


@pytest.mark.usefixtures("collations")
@pytest.mark.parametrize("kind", EXACT)
def test_ids_with_ordering_collations_are_accepted(kind: str, server: Server) -> None:
    texts = ("X1", "x1", "X1 ", "\u00e9", "e\u0301", "X1")
    source = server.source(create_table(server, kind, texts))
    declared = declare({"v": {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    assert exact(ask(declared, ROWS_IN_ALL), None)["rows"].tolist() == [len(set(texts))]


def test_trailing_blanks_of_char_n_ids_are_ignored(server: Server) -> None:
    """Neither PostgreSQL nor dprelease counts them as part of the value."""
    source = server.source(create_table(server, "char(4)", ("X1", "X1 ", "X1  ", "x1")))
    declared = declare({"v": {"type": "text"}}, source=source, privacy_unit=ONE_ROW)
    assert exact(ask(declared, ROWS_IN_ALL), None)["rows"].tolist() == [2]
