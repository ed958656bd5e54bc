"""`dprelease init`: a schema that reads, from names, types and forms; no value is told."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.schema.load import read_table
from tests.exact.build import ask, exact
from tests.release.build import write

RUN = CliRunner()
CANARY = "CANARY-7391"


def init(*words: str) -> tuple[int, str]:
    done = RUN.invoke(cli.app, ["init", *words])
    return done.exit_code, done.stdout + done.stderr


def fill_in(schema: Path) -> Path:
    """Say how much a unit may contribute, which no sketch does."""
    text = schema.read_text().replace("# max_groups: FILL IN", "max_groups: 1  #")
    schema.write_text(text.replace("# max_rows_per_group: FILL IN", "max_rows_per_group: 1  #"))
    return schema


def parquet(folder: Path) -> Path:
    table = pa.table(
        {
            "person id": pa.array([314159], pa.int64()),
            "city": pa.array([CANARY]),
            "kind": pa.array([CANARY]).dictionary_encode(),
            "age": pa.array([42], pa.uint8()),
            "pay": pa.array([Decimal("271828.18")]),
            "share": pa.array([0.57721]),
            "born": pa.array([date(1907, 1, 2)]),
            "seen": pa.array([datetime(2001, 2, 3)]),
            "ok": pa.array([True]),
            "tags": pa.array([[CANARY]]),
            "null": pa.array([1]),
            "1e5": pa.array([1]),
        }
    )
    path = folder / "2024 people.parquet"
    pq.write_table(table, path)
    return path


def test_sketch_of_a_parquet_file(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    target = tmp_path / "people.yaml"
    code, words = init(str(path), "--unit", "person id", "--output", str(target))
    assert (code, "complete the marked lines" in words) == (0, True)
    text = target.read_text()
    for value in (CANARY, "314159", "42", "271828", "57721", "1907", "2001"):
        assert value not in text
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-013"):
        read_table(target)
    table = read_table(fill_in(target)).table
    assert table.unit.id == "person id"
    types = {name: getattr(column, "type", None) for name, column in table.columns.items()}
    assert types == {
        "person id": "integer", "city": "text", "kind": "text", "age": "integer", "pay": "number",
        "share": "number", "born": "date", "seen": "timestamp", "ok": "boolean", "null": "integer",
        "1e5": "integer",
    }  # fmt: skip
    assert "# tags: left out" in text
    assert init(str(path), "--output", str(target))[0] == 2  # never over a file that is there


@pytest.mark.parametrize(
    ("zones", "zone"),
    [
        (["Europe/Vienna", None], "Europe/Vienna"),
        (["Europe/Vienna", "Europe/Vienna"], "Europe/Vienna"),
        (["Europe/Vienna", "UTC"], "UTC"),
        ([None], "UTC"),
        (["UTC"], "UTC"),
        (["+02:00"], "UTC"),
    ],
)
def test_time_zone_of_a_parquet_file(zones: list[str | None], zone: str, tmp_path: Path) -> None:
    """Where its columns name one alone; without one, hours are those of UTC."""
    arrays = [pa.array([datetime(2001, 2, 3)], pa.timestamp("us", one)) for one in zones]
    path = tmp_path / "seen.parquet"
    pq.write_table(pa.table(dict(zip("abc", arrays, strict=False))), path)
    target = tmp_path / "seen.yaml"
    assert init(str(path), "--output", str(target))[0] == 0
    assert read_table(target).table.time_zone == zone


def test_sketch_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"person,city,age\n1,{CANARY},42\n")
    code, text = init(str(path))
    assert code == 0
    assert CANARY not in text
    assert "Every row is a privacy unit" in text
    (tmp_path / "people.yaml").write_text(text)
    assert list(read_table(tmp_path / "people.yaml").table.columns) == ["person", "city", "age"]


def test_unclosed_quote_shows_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f'person,"city\n1,{CANARY}\n')
    assert CANARY not in init(str(path))[1]


@pytest.mark.parametrize(
    ("name", "content", "words", "code"),
    [
        ("none.parquet", None, (), "DP-DATA-018"),
        ("broken.parquet", b"PAR1 no", (), "DP-DATA-010"),
        ("empty.csv", b"", (), "DP-DATA-010"),
        ("people.json", b"{}", (), "DP-DATA-010"),
        ("lines.csv", b'{"a":' * 40_000, (), "DP-DATA-010"),  # a cell too long for a header
        ("people.csv", b"a,b\n1,2\n", ("--unit", "c"), "DP-DATA-011"),
    ],
)
def test_unusable_files_are_refused(
    tmp_path: Path, name: str, content: bytes | None, words: tuple[str, ...], code: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    status, text = init(str(tmp_path / name), *words)
    assert status == 2
    assert code in text


@pytest.mark.parametrize("peek", [(), ("--peek",)])
def test_column_names_not_utf8(peek: tuple[str, ...], tmp_path: Path) -> None:
    """A run leaves such a column alone, and nobody can declare it; in a Parquet file none is read."""
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as link, link:
        link.executescript(
            "CREATE TABLE t (k TEXT, zzzz TEXT, n INT); INSERT INTO t VALUES (1, 2, 3)"
        )
    pq.write_table(pa.table({"k": ["a"], "zzzz": ["b"]}), tmp_path / "t.parquet")
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes().replace(b"zzzz", b"z\xff\xfez"))
    status, text = init(str(tmp_path / "t.sqlite"), *peek)
    assert status == 0
    assert '  # "z\\udcff\\udcfez": left out' in text
    assert "None" not in text
    schema = text[text.index("table: t") :]
    assert set(yaml.safe_load(schema)["columns"]) == {"k", "n"}
    status, text = init(str(tmp_path / "t.parquet"), *peek)
    assert status == 2
    assert "DP-DATA-024" in text
    assert "the name of a column is not UTF-8" in text


def test_too_long_column_names(tmp_path: Path) -> None:
    long = "z" * 1001
    pq.write_table(pa.table({"k": ["a"], long: ["b"], long[1:]: ["c"]}), tmp_path / "t.parquet")
    status, text = init(str(tmp_path / "t.parquet"))
    assert status == 0
    assert set(yaml.safe_load(text)["columns"]) == {"k", long[1:]}


def test_peeked_proposals_are_marked(tmp_path: Path) -> None:
    """Every proposal has its mark, a marked schema is refused, and without marks it reads."""
    path = tmp_path / "people.parquet"
    rows = 200
    table = pa.table(
        {
            "person": pa.array(range(rows)),
            "city": pa.array(["Oslo", 'say "hi": #1'] * (rows // 2)),
            "name": pa.array([f"{CANARY}-{i}" for i in range(rows)]),
            "age": pa.array([17, 99] * (rows // 2)),
            "debt": pa.array([-1234.5, float("nan")] * (rows // 2)),
            "pay": pa.array([Decimal("271828.18"), None] * (rows // 2)),
            "born": pa.array([date(1907, 3, 2), date(1999, 5, 5)] * (rows // 2)),
            "ok": pa.array([True] * rows),
            "none": pa.array([None] * rows, pa.int64()),
        }
    )
    pq.write_table(table, path)
    target = tmp_path / "people.yaml"
    done = RUN.invoke(
        cli.app, ["init", str(path), "--unit", "person", "--peek", "--output", str(target)]
    )
    assert done.exit_code == 0
    assert "VOID THE GUARANTEE" in done.stderr
    text = target.read_text()
    assert "THIS FILE HOLDS VALUES FROM THE DATA" in text
    assert CANARY not in text  # a long list of values is no list of keys
    marked = [line for line in text.splitlines() if "# PEEKED" in line]
    assert [line.split(":")[0].strip() for line in marked] == ["city", "age", "debt", "pay", "born"]
    with pytest.raises(DpReleaseError) as caught:
        read_table(fill_in(target))
    assert str(caught.value).count("DP-PEEK-001") == 5
    assert "people.yaml:" in str(caught.value)
    target.write_text(target.read_text().replace("# PEEKED", "#"))
    columns = read_table(target).table.columns
    bounds = {
        name: (getattr(c, "lower", None), getattr(c, "upper", None)) for name, c in columns.items()
    }
    assert bounds["age"] == (17, 99)
    assert bounds["debt"] == (-1300, -1200)
    assert bounds["pay"] == (270000, 280000)
    assert bounds["born"] == (date(1907, 1, 1), date(1999, 12, 31))
    assert bounds["person"] == bounds["none"] == (None, None)
    assert getattr(columns["city"], "values", ()) == ("Oslo", 'say "hi": #1')


def test_peek_at_text_files_and_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("person,city,age\n1,Oslo,42\n2,Rome,7\n")
    code, text = init(str(path), "--peek")
    assert code == 0
    assert 'values: ["Oslo", "Rome"]' in text
    assert "lower: 7, upper: 42" in text
    path.write_bytes(f"person,city\n1,{CANARY}\n".encode() + b'2,"' + b"x" * 2**21)
    code, text = init(str(path), "--peek")
    assert (code, "DP-DATA-013" in text, CANARY in text) == (2, True, False)
    assert "rows were read" in text


def test_marked_schema_is_refused(tmp_path: Path) -> None:
    release = write(tmp_path)
    schema = tmp_path / "people.yaml"
    schema.write_text(schema.read_text().rstrip() + "  # PEEKED: from the data\n")
    assert "DP-PEEK-001" in RUN.invoke(cli.app, ["check", str(release)]).stderr


def people(folder: Path, ending: str) -> Path:
    """Return a file of two tables, or sheets, one of which has people."""
    path = folder / f"app.{ending}"
    names = ["person id", "city", "age", "born"]
    rows = [[i, CANARY if i % 2 else "Oslo", 17 + i % 60, "1990-05-17"] for i in range(90)]
    if ending == "sqlite":
        with closing(sqlite3.connect(path)) as link, link:
            link.execute('CREATE TABLE people ("person id" INT, city TEXT, age INT, born DATE)')
            link.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
            link.execute("CREATE TABLE other (n)")
        return path
    if ending == "duckdb":
        with duckdb.connect(path) as engine:
            engine.execute("CREATE TYPE place AS ENUM ('Oslo', 'INT', '" + CANARY + "')")
            engine.execute('CREATE TABLE people ("person id" INT, city place, age INT, born DATE)')
            engine.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
            engine.execute("CREATE TABLE other (n INT[], s STRUCT(a INT), t INTERVAL, d DECIMAL)")
            engine.execute("CREATE VIEW looked AS SELECT * FROM people")
        return path
    book = openpyxl.Workbook()
    for row in [names, *rows]:
        book.create_sheet("people").append(row) if row is names else book["people"].append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("ending", ["duckdb", "sqlite", "xlsx"])
def test_tables_of_databases_and_sheets_of_workbooks(ending: str, tmp_path: Path) -> None:
    """One of several is named; what is written reads, and no cell is in it without --peek."""
    path, target = people(tmp_path, ending), tmp_path / "people.yaml"
    status, text = init(str(path))
    assert (status, "DP-DATA-024" in text, "people" in text) == (2, True, True)
    words = (str(path), "--table", "people", "--unit", "person id", "--output", str(target))
    status, text = init(*words)
    assert status == 0, text
    assert CANARY not in target.read_text() + text
    declared = read_table(fill_in(target))
    assert (declared.table.name, list(declared.table.columns)) == (
        "people",
        ["person id", "city", "age", "born"],
    )
    status, text = init(str(path), "--table", "people", "--peek")
    assert status == 0
    assert "city: {type: category, values: [" in text
    assert "age: {type: integer, lower: 17, upper: 76}" in text
    assert "born: {type: date, lower: 1990-01-01, upper: 1990-12-31}" in text


def test_unsupported_duckdb_types_in_a_sketch(tmp_path: Path) -> None:
    path = people(tmp_path, "duckdb")
    status, text = init(str(path), "--table", "other")
    assert status == 0
    columns = [line.strip() for line in text.partition("columns:\n")[2].splitlines()]
    assert columns == [
        '# "n": left out, list columns can\'t be used',
        "# s: left out, struct columns can't be used",
        "# t: left out, interval columns can't be used",
        "d: {type: number}  # FILL IN lower, upper and step, to sum it",
    ]
    status, text = init(str(path), "--table", "looked")  # a view, which no release may read
    assert (status, "DP-DATA-010" in text) == (2, True)
    path.write_bytes(b"DUCK" + CANARY.encode())
    status, text = init(str(path))
    assert (status, "DP-DATA-010" in text, CANARY in text) == (2, True, False)


def test_sketch_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written names all of them, and reads."""
    monkeypatch.chdir(tmp_path)
    for year in (2024, 2025):
        (tmp_path / f"visits_{year}.csv").write_text("id;amount\n1;2,5\n2;3,5\n")
        (tmp_path / "visits" / f"year={year}").mkdir(parents=True)
        held = pa.table({"id": [1, 2], "amount": [2.5, 3.5]})
        pq.write_table(held, tmp_path / "visits" / f"year={year}" / "part.parquet")
    for asked, path, first in (
        ("visits_*.csv", "visits_*.csv", "visits_2024.csv"),
        ("visits", "visits/", "part.parquet"),
        ("visits/*/*.parquet", "visits/*/*.parquet", "part.parquet"),
    ):
        target = tmp_path / "made" / "schema.yaml"
        target.parent.mkdir()
        assert init(asked, "--unit", "id", "--output", str(target))[0] == 0
        assert f"the first of its files, {first}:" in target.read_text()
        declared = read_table(fill_in(target))
        assert declared.table.source is not None
        assert (declared.table.name, declared.table.source.path) == ("visits", f"../{path}")
        status, text = init(asked)
        assert (status, yaml.safe_load(text)["table"]) == (0, "visits")
        source = yaml.safe_load(text)["source"]
        assert path == (source if isinstance(source, str) else source["path"])
        status, text = init(asked, "--peek")
        assert (status, "reads only one file" in text) == (2, True)
        shutil.rmtree(target.parent)
    status, text = init("nothing_*.csv")
    assert (status, "DP-DATA-018" in text) == (2, True)


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("postgresql://me:hidden-4711@host/db", "DP-SCHEMA-020"),
        ("postgres:///db?passfile=/hidden-4711", "DP-SCHEMA-021"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--peek"]])
def test_addresses_with_secrets_are_refused(address: str, code: str, more: list[str]) -> None:
    """It is refused before any connection, and nothing of it is told."""
    done, told = init(address, "--table", "people", *more)
    assert done != 0
    assert code in told
    assert "hidden-4711" not in told


def titled_workbook(path: Path, names: list[str | None], rows: int = 40) -> Path:
    """Write a workbook with two rows of titles, an empty row, names in row 4, and values."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Answers"], ["as of 2026"], [], names):
        sheet.append(row)
    for one in range(rows):
        sheet.append([f"{CANARY}{one}", ["north", "south"][one % 2], f"{CANARY}", one % 7])
    book.save(path)
    return path


def test_header_below_titles_is_found(tmp_path: Path) -> None:
    path = titled_workbook(tmp_path / "answers.xlsx", ["name", "region", "sex", "children"])
    target = tmp_path / "answers.yaml"
    status, text = init(str(path), "--output", str(target))
    assert status == 0, text
    assert CANARY not in target.read_text() + text
    declared = read_table(fill_in(target))
    assert declared.table.source.header == 4
    assert list(declared.table.columns) == ["name", "region", "sex", "children"]


@pytest.mark.parametrize(
    ("names", "rows"),
    [([], 40), (["name"], 40), (["name", "north", "sex", "children"], 40), (["a", "b", "c"], 5)],
    ids=["no names", "one name", "a name that is a value", "few rows"],
)
def test_values_are_not_taken_for_a_header(
    names: list[str | None], rows: int, tmp_path: Path
) -> None:
    """The draft then has the title as its only column, and says which key is missing."""
    path = titled_workbook(tmp_path / "answers.xlsx", names, rows)
    target = tmp_path / "answers.yaml"
    status, text = init(str(path), "--output", str(target))
    assert status == 0, text
    written = target.read_text()
    assert CANARY not in written + text
    assert "header" in written
    assert "Answers:" in written


ROWS_OF_VALUES = {
    "a number": [f"{CANARY};17;south", "b;18;north"],
    "a day": [f"{CANARY};2024-01-31", "b;2024-02-01"],
    "a value that occurs again": [f"{CANARY};south", "b;south", "c;north"],
    "a year": [f"{CANARY};1985", "b;1986"],
    "a code": [f"{CANARY};P-0001/1951", "b;Q-0002/52"],
    "no known delimiter": [f"{CANARY}~W~1951~7.5", "B-1~M~1952~12.5"],
}


@pytest.mark.parametrize("case", ROWS_OF_VALUES)
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_the_first_row_of_a_file_without_a_header_is_not_shown(
    case: str, ending: str, tmp_path: Path
) -> None:
    path, lines = tmp_path / f"t.{ending}", ROWS_OF_VALUES[case]
    if ending == "csv":
        path.write_text("\n".join([*lines, ""]))
    else:
        book = openpyxl.Workbook()
        for line in lines:
            book.active.append([int(cell) if cell.isdigit() else cell for cell in line.split(";")])
        book.save(path)
    target = tmp_path / "t.yaml"
    status, text = init(str(path), "--output", str(target))
    assert CANARY not in text
    assert "south" not in text
    assert (status == 0) == (ending == "csv"), text
    if ending == "csv":
        assert CANARY not in target.read_text()
        declared = read_table(fill_in(target))
        assert next(iter(declared.table.columns)) == "column_1"
        found = exact(ask(declared, {"n": {"count": "*"}}), None)
        assert list(found["n"]) == [len(lines)]


def test_lines_of_fixed_width_are_no_names(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text(f"{CANARY} W1951  7.5\nAnna-Lena B M1952 12.5\n")
    text = init(str(path))[1]
    assert CANARY not in text + init(str(path), "--unit", "x")[1]
    assert "format: fixed_width" in text


def test_totals_and_texts_of_numbers_of_a_sheet_are_declared(tmp_path: Path) -> None:
    path, target = tmp_path / "t.xlsx", tmp_path / "t.yaml"
    book = openpyxl.Workbook()
    notes: list[list[object]] = [["Total", None, 6], [], [None, "Source: office"]]
    for line in [["id", "area", "stays"], [1, "1,5", 2], [2.5, "2,5", "4'000"], *notes]:
        book.active.append(line)
    book.save(path)
    assert init(str(path), "--output", str(target))[0] == 0
    declared = read_table(fill_in(target))
    assert declared.table.source.footer == 2
    assert {column.type for column in declared.table.columns.values()} == {"integer", "number"}
    found = exact(ask(declared, {name: {"count": name} for name in declared.table.columns}), None)
    assert [found[name][0] for name in declared.table.columns] == [2, 2, 2]


def test_header_of_two_rows(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    lines = [["area ", None, "stays"], ["code", " name", "2019"], ["a1", "x", "7"]]
    for line in lines:
        book.active.append(line)
    book.save(tmp_path / "t.xlsx")
    (tmp_path / "t.csv").write_text("\n".join(";".join(c or "" for c in line) for line in lines))
    for ending in ("csv", "xlsx"):
        path = str(tmp_path / f"t.{ending}")
        columns = yaml.safe_load(init(path, "--header", "1, 2")[1])["columns"]
        assert list(columns) == ["area_code", "area_name", "stays_2019"]
        assert init(path, "--header", "2,1")[0] == 2
    book.active.append(["a1", "a1", "8"])
    book.save(tmp_path / "t.xlsx")
    status, text = init(str(tmp_path / "t.xlsx"), "--header", "4")
    assert (status, "has a name twice" in text) == (2, True)


def test_row_of_units_is_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id;age;pay\n;years;per hour\na1;7;1.5\nb2;8;2.5\n")
    assert "skip: [2]" in init(str(path))[1]
    path.write_text("id;age;pay\na1;years;per hour\nb1;7;1.5\nb2;8;2.5\n")
    assert "skip: [2]" not in init(str(path))[1]


def test_names_of_years_are_names(tmp_path: Path) -> None:
    """`--header 0` says that there are none, and `--header 1` that there are."""
    path = tmp_path / "t.csv"
    path.write_text("area;2019;2020\nBern;1;2\n")
    assert '"2020"' in init(str(path))[1]
    assert '"2020"' not in init(str(path), "--header", "0")[1]
    path.write_text("area;7\nBern;1\n")
    assert '"7"' not in init(str(path))[1]
    assert '"7"' in init(str(path), "--header", "1")[1]
    path.write_text("id;Q1;age2019\nP17;a;7\nQ18;b;8\n")
    assert {"id", "Q1", "age2019"} == set(yaml.safe_load(init(str(path))[1])["columns"])
