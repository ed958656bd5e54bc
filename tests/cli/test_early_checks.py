"""Commands report everything that can be checked before rows are read, and what was not checked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DeclarationError
from dprelease.ledger.ledger import Ledger
from dprelease.release.accounts import account_of
from dprelease.schema.load import table_from_mapping
from tests.release import test_joins

RELEASE = """\
title: Members
tables: [people.yaml]
budget: {epsilon: 1}
queries:
  q: {from: people, group_by: [%s], columns: {rows: {count: "*"}}}
output: out
"""
SCHEMA = """\
table: people
owner: office
source: %s
columns:
  member: {type: boolean}
  adult: {type: boolean, expression: "age >= 18"}
  other: {type: boolean}
  age: {type: integer, lower: 0, upper: 99}
"""


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    return done.exit_code, done.stdout + done.stderr


def write(folder: Path, source: str, key: str = "member", more: str = "") -> Path:
    (folder / "people.yaml").write_text(SCHEMA % source)
    (folder / "release.yaml").write_text(RELEASE % key + more)
    return folder / "release.yaml"


@pytest.mark.parametrize(
    ("source", "key", "told"),
    [
        ("people.csv", "member", ["people.member"]),
        ("people.csv", "adult", []),
        ("people.xlsx", "member", ["people.member"]),
        ("{path: a.sqlite, table: t}", "member, other", ["people.member", "people.other"]),
        ("people.parquet", "member", []),
        ("people.jsonl", "member", []),
        ("{frame: people}", "member", []),
    ],
)
def test_check_names_booleans_read_from_texts(
    source: str, key: str, told: list[str], tmp_path: Path
) -> None:
    """Yes and No are none, and their rows have no cell: nothing but the declaration tells so."""
    path = write(tmp_path, source, key)
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert json.loads(out)["truths_from_texts"] == told
    assert ("such as Yes" in call("check", path)[1]) == bool(told)


@pytest.mark.parametrize(("kind", "told"), [("text", ["people.card"]), ("integer", [])])
def test_check_names_ids_that_are_looked_up_as_texts(
    kind: str, told: list[str], tmp_path: Path
) -> None:
    """Another spelling in the correspondence table would cost the row, without a word."""
    unit = "\nprivacy_unit: {id: who, lookup: {source: ids.csv, on: card}, max_rows: 1}"
    path = write(tmp_path, "people.csv" + unit, "other")
    with (tmp_path / "people.yaml").open("a") as file:
        file.write(f"  who: {{type: text}}\n  card: {{type: {kind}}}\n")
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert json.loads(out)["looked_up_texts"] == told


CATEGORIES = """\
  sex: {type: category, values: [f, m, other], others: other, fill: f}
  band: {cut: age, edges: [0, 50, 100], fill: 0-49}
"""


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("sex = 'm' AND adult", []),
        ("sex = 'other'", ["sex with 'other'"]),
        ("'f' <> sex OR (age > 3 AND sex IN ('m', 'other'))", ["sex with 'f'", "sex with 'other'"]),
        ("sex = 'other' AND NOT sex = 'other'", ["sex with 'other'"]),
        ("band IN ('0-49', '50-99')", ["band with '0-49'"]),
        ("band = '50-99' AND sex IS NULL", []),
    ],
)
def test_check_names_cells_outside_of_conditions(
    where: str, told: list[str], tmp_path: Path
) -> None:
    """What is compared is stored: rows that `others` or `fill` bring into a cell are not met."""
    path = write(tmp_path, "people.parquet")
    schema = tmp_path / "people.yaml"
    schema.write_text(schema.read_text() + CATEGORIES)
    path.write_text(
        path.read_text().replace("{from: people,", f'{{from: people, where: "{where}",')
    )
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert sorted(json.loads(out)["compared_cells"]) == told
    assert ("compares stored values" in " ".join(call("check", path)[1].split())) == bool(told)


@pytest.mark.parametrize(
    ("where", "derive", "told", "compared"),
    [
        ("sex = 'm' AND sex IN ('f', 'm')", "{}", [], ["sex with 'f'"]),
        ("length(sex) > 2", "{}", ["sex in `where`"], []),
        ("left(sex, 1) = 'f' AND sex = 'other'", "{}", ["sex in `where`"], ["sex with 'other'"]),
        ("adult", "{d: {expression: sex, type: text}}", ["sex in d"], []),
        ("sex IS NULL", '{d: {expression: "upper(band)", type: text}}', [], []),
        ("adult", "{d: {expression: \"CASE WHEN sex = 'f' THEN 1 END\", type: number}}", [], []),
    ],
)
def test_check_names_categories_compared_by_code(
    where: str, derive: str, told: list[str], compared: list[str], tmp_path: Path
) -> None:
    """Of codes that are not declared an expression sees that they are others, and no more."""
    path = write(tmp_path, "people.parquet")
    schema = tmp_path / "people.yaml"
    schema.write_text(schema.read_text() + CATEGORIES)
    asked = f'{{from: people, where: "{where}", derive: {derive},'
    path.write_text(path.read_text().replace("{from: people,", asked))
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert json.loads(out)["codes_read"] == told
    assert json.loads(out)["compared_cells"] == compared
    assert ("Codes read:" in call("check", path)[1]) == bool(told)


@pytest.mark.parametrize(
    ("column", "listed"),
    [
        ("{type: category, values: [a, b]}", []),
        ("{type: category, values_from: codes.csv}", ["code has 2 values from 'codes.csv'"]),
        ("{type: category, values_from: {file: codes.csv, column: A}}", []),
    ],
)
def test_check_names_values_that_may_be_unintended(
    column: str, listed: list[str], tmp_path: Path
) -> None:
    """Of a file without a line of names the first value is lost, and nothing else can tell."""
    path = write(tmp_path, "people.parquet")
    (tmp_path / "codes.csv").write_text("A\nB\nC\n")
    schema = tmp_path / "people.yaml"
    schema.write_text(f"{schema.read_text()}  code: {column}\n")
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert json.loads(out)["listed_below_headings"] == listed
    words = call("check", path)[1]
    assert ("is the column name" in " ".join(words.split())) == bool(listed)


BETWEEN = "band is named by whole numbers; values between them are in the band"
OUT = "leaves out declared values of"


@pytest.mark.parametrize(
    ("name", "edges", "more", "told"),
    [
        ("w", "[0, 50, 101]", "", [f"{BETWEEN} below"]),
        ("w", "[-1, 50, 100]", ", closed: right", [f"{BETWEEN} above"]),
        ("w", "[0, 50.5, 101]", "", []),
        ("w", "[0, 50, 101]", ", labels: [low, high]", []),
        ("w", "[0, 50.5, 100]", "", [f"band {OUT} w at the upper end"]),
        ("w", "[0, 50.5, 99]", ", others: '[0, 50.5)'", []),
        (
            "w",
            "[0, 50.5, 99]",
            ", closed: right",
            [f"band {OUT} w at the lower and the upper end"],
        ),
        ("age", "[0, 50, 101]", "", []),
        ("age", "[1, 50, 101]", "", [f"band {OUT} age at the lower end"]),
    ],
)
def test_check_explains_bands(
    name: str, edges: str, more: str, told: list[str], tmp_path: Path
) -> None:
    """4.5 is in the band that is called 0-4, and 100 in none: the counts alone don't tell so."""
    path = write(tmp_path, "people.parquet", "band")
    schema = tmp_path / "people.yaml"
    number = f"  {name}: {{type: number, lower: 0, upper: 100}}\n" if name != "age" else ""
    band = f"  band: {{cut: {name}, edges: {edges}{more}}}\n"
    schema.write_text(schema.read_text() + number + band)
    code, out = call("check", path, "--json")
    assert code == 0, out
    assert json.loads(out)["bands"] == told
    assert ("Bands: " in call("check", path)[1]) == bool(told)


HEADERS: dict[str, tuple[str, str | None]] = {
    "a semicolon": ("code;label\nF;Female\nM;Male\n", None),
    "a tab": ("code\tlabel\nF\tFemale\n", "code"),
    "a bar": ("code|label\nF|Female\n", "code"),
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("is_large", [False, True])
def test_key_file_without_commas_is_refused(
    case: str, is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines would be values as they stand, in silence; one column that is called so may be."""
    from dprelease.schema.public_values import large_files

    if is_large:
        monkeypatch.setattr(large_files, "MOST_LISTED", 0)
    text, column = HEADERS[case]
    (tmp_path / "k.csv").write_text(text)
    told = {"file": "k.csv", **({} if column is None else {"column": column})}
    columns = {"sex": {"type": "category", "values_from": told}}
    with pytest.raises(DeclarationError, match=f"DP-SCHEMA-004[^$]*{case}"):
        table_from_mapping({"table": "t", "columns": columns}, tmp_path)
    header = text.split("\n")[0]
    columns = {"sex": {"type": "category", "values_from": {"file": "k.csv", "column": header}}}
    assert table_from_mapping({"table": "t", "columns": columns}, tmp_path).table.columns["sex"]


def test_ledger_with_other_privacy_unit_is_explained(tmp_path: Path) -> None:
    path = write(tmp_path, "people.csv", more="ledger: ledger.sqlite\n")
    account = account_of("office/people", "person", "add_remove", "7", "0", None)
    Ledger(tmp_path / "ledger.sqlite").open_account(account)
    (tmp_path / "people.csv").write_text("member,age\ntrue,3\n")
    code, told = call("run", path)
    assert code != 0
    told = " ".join(told.split())
    assert "DP-LEDGER-008" in told
    assert "no `--unit` if each row is a privacy unit" in told


def test_verify_notes_missing_ledger_check(tmp_path: Path) -> None:
    """What a manifest says of its ledger is believed by nobody who was not told so."""
    ledger = tmp_path / "ledger.sqlite"
    for paid in (True, False):
        folder = tmp_path / str(paid)
        folder.mkdir()
        path = write(folder, "people.csv", more="ledger: ../ledger.sqlite\n" if paid else "")
        (folder / "people.csv").write_text("member,age\ntrue,3\n")
        if paid:
            Ledger(ledger).open_account(
                account_of("office/people", None, "add_remove", "7", "0", None)
            )
        made = dprelease.read_release(path).run()
        notes = dprelease.verify(made).notes
        assert any("no ledger was checked" in note for note in notes) == paid
        if paid:
            assert dprelease.verify(made, ledger=ledger).notes == []
            assert "no ledger was checked" in " ".join(call("verify", made)[1].split())


def csv(folder: Path, names: list[str]) -> Path:
    (folder / "t.csv").write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    return folder / "t.csv"


def parquet(folder: Path, names: list[str]) -> Path:
    table = pa.Table.from_arrays([pa.array([1]) for _ in names], names=names)
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def excel(folder: Path, names: list[str]) -> Path:
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(names)
    book.active.append([1] * len(names))
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def json_lines(folder: Path, names: list[str]) -> Path:
    (folder / "t.jsonl").write_text(json.dumps(dict.fromkeys(names, 1)) + "\n")
    return folder / "t.jsonl"


@pytest.mark.each
@pytest.mark.parametrize("into", [csv, parquet, excel, json_lines])
@pytest.mark.parametrize(
    "names", [["id", "age", "age"], ["Age", "id", "age"], ["id", "age"]], ids=str
)
def test_init_refuses_duplicate_columns(into: object, names: list[str], tmp_path: Path) -> None:
    """Two columns of one name, or of one but for its case, are found before the draft is written.

    A text file declares its names, so that equal ones can be numbered.
    """
    assert callable(into)
    path = into(tmp_path, names)
    code, told = call("init", path, "--output", tmp_path / "t.yaml")
    kept = json.loads(path.read_text()) if into is json_lines else names
    if into is csv or len({name.lower() for name in kept}) == len(kept):
        assert code == 0, told
        numbered = f'names: ["{names[0]}", "{names[1]}", "age_2"]'
        assert (numbered in (tmp_path / "t.yaml").read_text()) is (len(kept) > 2)
        return
    assert code != 0
    assert re.search("DP-DATA-0(03|10|24)", told)
    assert not (tmp_path / "t.yaml").exists()


UNREAD = {
    "{path: 's3a://bucket/people', format: parquet}": ("duckdb", "a path with another scheme"),
    "'https://office.example/people.parquet'": ("spark", "on a web server"),
    "{table: db.people}": ("duckdb", "a table of Spark's catalogue"),
    "people.parquet": ("", ""),
    "people.csv.gz": ("", ""),
    "{frame: people}": ("", ""),
    "{path: people.duckdb, table: people}": ("spark", "a DuckDB file"),
    "{path: people.sqlite, table: people}": ("spark", "a SQLite file"),
    "people.xlsx": ("spark", "a workbook"),
    "{path: 'postgresql://office@127.0.0.1/db', table: people}": (
        "spark", "a table of a PostgreSQL server",
    ),
}  # fmt: skip
"""Sources, the engine that can't read them, and what they are."""

CODES = {"duckdb": "DP-SPARK-006", "spark": "DP-SPARK-001"}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("source", UNREAD)
def test_sources_unreadable_by_the_engine_are_reported_early(source: str, tmp_path: Path) -> None:
    """By `check` and `plan`, in words and JSON; of the engine that reads it nothing is told."""
    refusing, kind = UNREAD[source]
    for engine, code_of in CODES.items():
        release = write(tmp_path, source, "member", f"engine: {engine}\n")
        found = []
        for command in ("check", "plan"):
            code, words = call(command, release)
            assert code == 0, words
            found.append("unless a frame is passed" in words and code_of in words)
            found.append(kind in words and kind != "")
            answer = json.loads(call(command, release, "--json")[1])
            found.append([told["code"] for told in answer["unread"]] == [code_of])
        assert set(found) == {engine == refusing}, found


JOINED = {
    ("stations", "people.xlsx"): [],  # public: read by the driver, and sent to the tasks
    ("visits", "visits.xlsx"): ["visits"],
    ("people", "people.xlsx"): ["people"],
    ("people", "people.csv"): [],
}


@pytest.mark.parametrize(("table", "source"), JOINED)
def test_joined_sources_unreadable_by_spark_are_reported(
    table: str, source: str, tmp_path: Path
) -> None:
    release = test_joins.write(tmp_path)
    release.write_text(release.read_text() + "engine: spark\n")
    declared = tmp_path / f"{table}.yaml"
    declared.write_text(declared.read_text().replace(f"source: {table}.csv", f"source: {source}"))
    code, words = call("check", release, "--json")
    assert code == 0, words
    told = json.loads(words)["unread"]
    assert [one["code"] for one in told] == ["DP-SPARK-001"] * len(JOINED[table, source])
    assert all(f"'{name}'" in words for name in JOINED[table, source])


def test_reported_sources_are_refused_by_run(tmp_path: Path) -> None:
    """With no row read and nothing spent; a frame in the place of the source is published."""
    release = write(tmp_path, "{path: 's3a://bucket/people', format: parquet}")
    code, words = call("run", release)
    assert code != 0
    assert "DP-SPARK-006" in words
    assert "no row was read, no budget was spent" in words
    people = pa.table({"member": [True, False], "other": [True, True], "age": [30, 40]})
    dprelease.read_release(release).run(frames={"people": people})
    assert pq.read_table(tmp_path / "out" / "q.parquet").num_rows == 2
