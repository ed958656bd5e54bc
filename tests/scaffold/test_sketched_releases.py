"""What `init` writes runs unchanged: the schema and the release of files of offices."""

from __future__ import annotations

import datetime
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration, read_table
from tests.exact.build import exact

RUN = CliRunner()
N = 40


def init(*words: str) -> str:
    done = RUN.invoke(cli.app, ["init", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


SIGNED = {
    "percent": lambda i: f"{i * 3}.5%",
    "marked": lambda i: f"1,{100 + i}{' r' if i % 9 == 0 else '*'}",
    "books": lambda i: f"({i})" if i % 2 else str(i),
    "dollars": lambda i: f"-${i}.10",
    "behind": lambda i: f"{i}-" if i % 3 else f"{i}",
    "minus": lambda i: f"\u2212{i}",
    "open": lambda i: f"{i}+" if i > 30 else f"{i}",
    "day": lambda i: f"2024{1 + i % 9:02}0{1 + i % 9}",
    "slack": lambda i: f"2024-{1 + i % 9}-{1 + i % 9}",
}
TEXTS = {"icd": lambda i: f"E{i}", "flat": lambda i: f"{i}b", "words": lambda i: "CANARY"}


def test_number_affixes_are_declared_and_read(tmp_path: Path) -> None:
    columns = SIGNED | TEXTS
    rows = [";".join(made(i) for made in columns.values()) for i in range(N)]
    file = tmp_path / "signed.csv"
    file.write_text("\n".join([";".join(columns), *rows, ""]))
    text = init(str(file))
    assert "CANARY" not in text
    (tmp_path / "signed.yaml").write_text(text)
    declared = read_table(tmp_path / "signed.yaml").table.columns
    assert all(getattr(declared[name], "type", "") == "text" for name in TEXTS)
    conditions = [f"{n} > -1000000" for n in SIGNED if n not in ("day", "slack")]
    conditions += ["day >= '2024-01-01'", "slack >= '2024-01-01'"]
    queries = "".join(
        f'  q{i}: {{from: signed, where: "{one}", columns: {{n: {{count: "*"}}}}}}\n'
        for i, one in enumerate(conditions)
    )
    (tmp_path / "release.yaml").write_text(
        f"title: t\ntables: [signed.yaml]\nbudget: {{epsilon: 9}}\nqueries:\n{queries}output: out\n"
    )
    found = resolve(read_declaration(tmp_path / "release.yaml"))
    assert [int(exact(query, None)["n"][0]) for query in found] == [N] * len(SIGNED)


def workbook(path: Path) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["Persons of 2024"], [], ["id", "sex", "born", "share", "age", "double"]):
        sheet.append(row)
    for i in range(N):
        born = datetime.date(1990, 1, 1 + i % 28)
        sheet.append(
            [f"p{i}", 9 if i % 5 == 0 else 1 + i % 2, born, f"{i}%", 20 + i, f"=E{i + 4}*2"]
        )
    book.save(path)
    return path


def test_types_dates_and_codes_of_a_workbook(tmp_path: Path) -> None:
    file = workbook(tmp_path / "people.xlsx")
    text = init(str(file))
    schema = yaml.safe_load(text.replace("# CONFIRM", "# x"))
    types = {name: column["type"] for name, column in schema["columns"].items()}
    assert types == {
        "id": "text", "sex": "text", "born": "date", "share": "integer", "age": "integer",
        "double": "text",
    }  # fmt: skip
    assert schema["source"]["header"] == 3
    assert schema["columns"]["sex"]["missing"] == [9]
    assert "if they are codes" in text or "for codes" in text
    assert "formulas count as missing: double." in text
    other = yaml.safe_load(init(str(file), "--header", "born").replace("# CONFIRM", "# x"))
    assert (other["source"]["header"], other["columns"]) == ("born", schema["columns"])


@pytest.mark.usefixtures("replayed_noise")
@pytest.mark.parametrize("unit", [False, True])
def test_sketched_release_runs(unit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With paths relative to the files that name them; with ids, the limits are filled in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in put").mkdir()
    workbook(tmp_path / "in put" / "people.xlsx")
    words = ["in put/people.xlsx", "--output", "people.yaml", "--release", "r 1.yaml"]
    said = init(*words, *(["--unit", "id"] if unit else []))
    assert "dprelease check 'r 1.yaml'" in said
    text = Path("people.yaml").read_text().replace("# CONFIRM", "# confirmed")
    text = text.replace("# max_groups: FILL IN", "max_groups: 1  #")
    Path("people.yaml").write_text(
        text.replace("# max_rows_per_group: FILL IN", "max_rows_per_group: 1  #")
    )
    assert RUN.invoke(cli.app, ["check", "r 1.yaml"]).exit_code == 0
    declaration = read_declaration(Path("r 1.yaml"))
    name = "people" if unit else "rows"
    (query,) = resolve(declaration)
    assert int(exact(query, None)[name][0]) == N
    folder = run(declaration)
    assert abs(pq.read_table(folder / "total.parquet")[name][0].as_py() - N) < 60
    assert dprelease.verify(folder).ok
    assert init("in put/people.xlsx").count('path: "in put/people.xlsx"') == 1
    assert RUN.invoke(cli.app, ["init", *words]).exit_code == 2


@pytest.mark.parametrize(("release", "schema"), [("r.yaml", "people.yaml"), ("people.yaml", "")])
def test_release_without_output_writes_the_schema_next_to_it(
    release: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    workbook(tmp_path / "people.xlsx")
    init("people.xlsx", "--release", f"out/{release}")
    (written,) = [path for path in Path("out").iterdir() if path.name != release]
    assert written.name == (schema or "people_schema.yaml")
    written.write_text(written.read_text().replace("# CONFIRM", "# confirmed"))
    (query,) = resolve(read_declaration(Path("out", release)))
    assert int(exact(query, None)["rows"][0]) == N


def test_file_without_a_valid_line(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("a,b\n1,CANARY,3,4\n")
    text = init(str(file))
    assert "NONE OF THE FIRST LINES FITS" in text
    assert "CANARY" not in text


def rows(count: int, by: str = ",") -> list[str]:
    return [by.join((str(i), f"C{i % 7}", f"{i}.5")) for i in range(count)]


LOST_BEFORE = {
    "stray quotes": [line.replace("C3", '"C3" in').replace("C4", '4" C') for line in rows(N)],
    "short rows": [line.rpartition(",")[0] if i % 3 else line for i, line in enumerate(rows(N))],
    "blank lines above notes": [*rows(N), ",,", "Total,,300.5", "Note: x,,", ",,"],
    "blank lines at the end": [*rows(N), *([",,"] * 200), ""],
    "apostrophes": [f"{line[:-2]}\u2019000.5" for line in rows(N)[1:]] + rows(1),
    "sentences as notes": [*rows(N), "Data as of 2024,,", "Made by unit 3,,"],
    "dashes for nothing": ["40,C1,\u2013", "41,C2,\u2014", *rows(N)[2:]],
    "superscripts": [f"{line}\u00b9" if i % 9 == 0 else line for i, line in enumerate(rows(N))],
    "en dashes": [line.replace(",C1,", ",C1,\u2013") for line in rows(N)],
}


@pytest.mark.parametrize("name", LOST_BEFORE)
def test_sketch_runs_unchanged_and_counts_every_row(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(["id,code,pay", *LOST_BEFORE[name], ""]))
    text = init("t.csv", "--output", "t.yaml", "--release", "r.yaml")
    assert "Wrote" in text
    Path("t.yaml").write_text(Path("t.yaml").read_text().replace("# CONFIRM", "# confirmed"))
    declared = read_table(Path("t.yaml"))
    assert getattr(declared.table.columns["pay"], "type", "") == "number"
    (query,) = resolve(read_declaration(Path("r.yaml")))
    assert [int(n) for n in exact(query, None)["rows"]] == [N]


@pytest.mark.parametrize("odd", ["1,C1", "Kept by hand", '1,"C" x,2', "1,C1,2,3"])
def test_sketch_says_that_lines_do_not_fit_the_header(odd: str, tmp_path: Path) -> None:
    """A line with few fields may be a note, and where fields are quoted, a stray quote is none."""
    lines = ["id,code,pay", '0,"C0",1', *rows(N), odd, "1,C1,2,3", ""]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    text = " ".join(init(str(tmp_path / "t.csv")).replace("#", " ").split())
    assert "lines don't fit the header" in text
    assert "quote:" not in text
    assert "ragged:" not in text
    (tmp_path / "t.csv").write_text("\n".join([*lines[:-3], "", "\x1a"]))
    assert "don't fit" not in init(str(tmp_path / "t.csv"))


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_sketch_names_a_second_row_of_names(ending: str, tmp_path: Path) -> None:
    """The names below merged cells are not taken for a row of values without a word."""
    head = [["id", "stays", "", "cost"], ["", 2019, 2020, ""]]
    table = [*head, *([i, 1, 2, i + 0.5] for i in range(N))]
    file = tmp_path / f"t.{ending}"
    if ending == "csv":
        file.write_text("".join(",".join(map(str, row)) + "\n" for row in table))
    else:
        book = openpyxl.Workbook()
        assert book.active is not None
        for row in table:
            book.active.append([None if cell == "" else cell for cell in row])
        book.save(file)
    text = init(str(file))
    assert "--header 1,2" in text
    assert "--header" not in init(str(file), "--header", "1,2")
    assert "  stays_2020: " in init(str(file), "--header", "1,2")


@pytest.mark.parametrize(
    "header",
    ["pay,pay,Pay", '"id\n1",code,pay', "a,b", "a,b,c,"],
    ids=["equal", "wrapped", "R", "end"],
)
def test_peeked_bounds_belong_to_their_columns(header: str, tmp_path: Path) -> None:
    """Also if the names of the draft are not those of the file."""
    end = "," * (header[-1] == ",")
    lines = [header, *(f"{i},{100 + i},{1000 + i}{end}" for i in range(N)), ""]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    columns = yaml.safe_load(init(str(tmp_path / "t.csv"), "--peek"))["columns"].values()
    assert [column["lower"] for column in columns] == [0, 100, 1000]  # upper bounds are rounded
