"""CSV files as offices publish them: from `init` to a verified release, to the last row."""

from __future__ import annotations

import bz2
import io
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.exact.detection.csv_layout import detect_csv_layout
from dprelease.exact.reading.line_selection import LineSelection
from dprelease.exact.sources.csv_reader import READER
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration
from dprelease.schema.source_types.source import Source
from tests.exact.build import ask, declare, exact

RUN = CliRunner()
HEADER = ["person", "age", "pay", "day"]
ROWS = [[f"p{i % 7}", str(i % 90), f"{i}.5", f"2024-0{1 + i % 9}-1{i % 9}"] for i in range(30)]


def text(
    rows: list[list[str]] = ROWS,
    header: list[str] | None = HEADER,
    by: str = ",",
    end: str = "",
    above: str = "",
    below: str = "",
) -> str:
    lines = [by.join(row) + end for row in ([header] if header else []) + rows]
    return above + "\n".join(lines) + "\n" + below


def zip_archive(*names: str, inner: str | bytes = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, inner or text())
    return packed.getvalue()


QUOTED = [[f'"{cell}"' for cell in [row[0] + ' \\"x\\" \\\\', *row[1:]]] for row in ROWS]
STRAY = [[row[0].replace("p1", '"p1').replace("p2", 'p"2'), *row[1:]] for row in ROWS]
LAYOUTS: dict[str, tuple[str, str | bytes, dict[str, Any]]] = {
    "titles": ("csv", text(above='Table 1\nby "age"\n\n', below="\nSource: x\n"), {"header": 4}),
    "padded": (
        "csv",
        text(above="Table 1,,,\n,,,\n", below="Total,9,8.5,\nNote: x,,,\n,,,\n\n"),
        {"header": 3, "footer": 3},
    ),
    "padded_apart": (
        "csv",
        text(above="Table 1,,,\n", below='Total,,8.5,\n\n"Note\nx",,,\n,"y\nz",,\n\n'),
        {"header": 2, "footer": 6},
    ),
    "title_of_three": ("csv", text(above="By sex, age and income, 2024\n"), {"header": 2}),
    "titles_alike": ("csv", text(above="Table 1, a, b\n\nOffice, a, c\n"), {"header": 4}),
    "title_and_names": (
        "csv",
        text([[f"r{i}", *row] for i, row in enumerate(ROWS)], above="Table 1\n"),
        {"header": 2, "names": ["dp_row", *HEADER]},
    ),
    "comments": (
        "csv",
        text(ROWS[:9], above="## a, b\n##\n", below=text(ROWS[9:], None, above="## c,1,2,3\n")),
        {"comment": "##"},
    ),
    "genome": ("tsv", text(above="##a\n##b\n", header=["#id", *HEADER[1:]], by="\t"), {"comment": "##"}),
    "sign": ("csv", text(above="sep=;\n", by=";"), {"skip": 1, "delimiter": ";"}),
    "ends": ("csv", text(header=[*HEADER, ""], end=""), {"ragged": "pad"}),
    "both": ("csv", text(header=[*HEADER], end=","), {}),
    "row_ends": ("csv", text(header=None, end=",", above=",".join(HEADER) + "\n"), {"ragged": "pad"}),
    "row_names": (
        "csv",
        text([[str(i), *row] for i, row in enumerate(ROWS)]),
        {"header": 1, "names": ["dp_row", *HEADER]},
    ),
    "wrapped": ("csv", text(header=["person", "age", "pay", '"da\ny"']), {}),
    "stray": ("tsv", text(STRAY, by="\t"), {"quote": "none"}),
    "dump": ("csv", text(QUOTED), {"escape": "\\"}),
    "returns": ("csv", text().replace("\n", "\r"), {}),
    "archive": ("csv.zip", zip_archive("a/people.csv", "__MACOSX/x"), {}),
    "unnamed": ("zip", zip_archive("people.csv"), {"format": "csv"}),
    "packed": ("csv.bz2", bz2.compress(text().encode()), {}),
    "plain": ("txt", text(by="\t"), {"delimiter": "\t"}),
    "bars": ("psv", text(by="|"), {}),
    "data": ("dat", text(by=";"), {"delimiter": ";"}),
    "tabs": ("tab", text(by="\t"), {}),
    "commas": ("tsv", text(), {"delimiter": ","}),
}  # fmt: skip


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each layout, its sketch, and a release of all of them."""
    folder = tmp_path_factory.mktemp("layouts")
    for name, (ending, content, _) in LAYOUTS.items():
        file = folder / f"{name}.{ending}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        done = RUN.invoke(cli.app, ["init", str(file), "--output", str(folder / f"{name}.yaml")])
        assert done.exit_code == 0, (name, done.output)
    return folder


def test_every_sketched_layout_runs_to_the_last_row(layouts: Path) -> None:
    """The sketch unchanged; conditions on typed columns find rows that are read otherwise."""
    where = "age >= 0 and pay > 0 and {day} >= '2024-01-01'"
    asked = "".join(
        f'  q_{name}: {{from: {name}, where: "{where.format(day="`da y`" if name == "wrapped" else "day")}"'
        ", columns: {n: {count: '*'}}}\n"
        for name in LAYOUTS
    ).replace("`", '\\"')
    (layouts / "release.yaml").write_text(
        f"title: t\ntables: [{', '.join(f'{name}.yaml' for name in LAYOUTS)}]\n"
        f"budget: {{epsilon: 100}}\nqueries:\n{asked}output: out\n"
    )
    declaration = read_declaration(layouts / "release.yaml")
    queries = resolve(declaration)
    counted = {query.name: int(exact(query, None)["n"][0]) for query in queries}
    assert counted == {f"q_{name}": len(ROWS) for name in LAYOUTS}
    folder = run(declaration)
    for name in LAYOUTS:
        assert abs(pq.read_table(folder / f"q_{name}.parquet")["n"][0].as_py() - len(ROWS)) <= 9
    assert dprelease.verify(folder).ok


def test_title_above_the_header_is_detected() -> None:
    """A header with a field less than the rows is one of R only if no names are below it."""
    text = "sex;amount\nm;2\nf;3\nm;4\n"
    assert detect_csv_layout(f"Title\n{text}", ";") == {"header": 2}
    assert detect_csv_layout(text, ";") == {}
    for row in ("f;NA", "f;1"):
        found = detect_csv_layout(f"amount\n{row}\nm;2\nd;3\n", ";")
        assert found == {"header": 1, "names": ["dp_row", "amount"]}


def test_rows_that_lack_fields_have_no_names_because_others_end_with_a_delimiter() -> None:
    """Otherwise the names would move by one column, and an id would be the name of another one."""
    rows = "1,m,2,\n2,f\n3,m,4,\n4\n"
    assert detect_csv_layout(f"person,sex,amount\n{rows}", ",") == {"ragged": "pad"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_sketch_declares_the_layout(name: str, layouts: Path) -> None:
    source = read_declaration_source(layouts / f"{name}.yaml")
    assert {key: value for key, value in source.items() if key != "path"} == LAYOUTS[name][2]


def read_declaration_source(file: Path) -> dict[str, Any]:
    import yaml

    source = yaml.safe_load(file.read_text())["source"]
    return {} if isinstance(source, str) else source


KEYS = [f"k{i}" for i in range(6)]


def rows_read(path: Path, **source: Any) -> list[int]:
    """Return how many rows of each key are read from a file of the columns k and n."""
    columns = {"k": {"type": "category", "values": KEYS}, "n": {"type": "integer"}}
    table = declare(columns, source={"path": str(path), **source})
    found: list[int] = exact(ask(table, {"rows": {"count": "*"}}, ["k"]), None)["rows"]
    return [int(number) for number in found]


NASTY = ["Source: me", "#k0", '"#\nSource", 1', '"k1"', "k,2", '"Total"" x",1', ",", "Source"]


@pytest.mark.parametrize("line", NASTY)
def test_added_line_adds_no_other_row(line: str, tmp_path: Path) -> None:
    """With a header below titles, comments and notes, at any place."""
    source = {"header": "k", "comment": ["#"], "until": "Source", "footer": 1}
    path = tmp_path / "t.csv"
    body = ["k0,1", "# c,1", "k1,2", '"k2",3', "k3,4", "Total,1"]
    for place in range(len(body)):
        lines = [*body[:place], line, *body[place:]]
        path.write_text("\n".join(["Title", "", "k,n", *lines, "Source,1", "Note,2", ""]))
        found = rows_read(path, **source)
        assert all(0 <= more <= 1 for more in (a - 1 for a in found[1:4])), (place, found)
        assert found[0] == 1
        assert found[4:] == [0, 0]


def test_comment_signs_in_quoted_texts_are_no_comments(tmp_path: Path) -> None:
    """Even with doubled quotes and other fields on the line."""
    path = tmp_path / "t.csv"
    path.write_text('k,n,t\n"k0",1,"a ""b""\n# no"\n# yes,1,2\nk1, "2", "\n#\n"\nk2,3,"#"\n')
    assert rows_read(path, comment="#") == [1, 1, 1, 0, 0, 0]


@pytest.mark.share(0.2)
@pytest.mark.parametrize("escape", ["", "\\"])
@pytest.mark.parametrize("opened", ["", '"\n'])
@pytest.mark.parametrize("signs", ['", x', '"\\, '])
def test_comments_are_found_between_rows_as_duckdb_reads_them(
    escape: str, opened: str, signs: str, tmp_path: Path
) -> None:
    """Otherwise, the row above would decide whether a line is a comment."""
    path = tmp_path / "t.csv"
    source = {"path": str(path), "comment": "#"} | ({"escape": escape} if escape else {})
    table = declare({"k": {"type": "text"}, "n": {"type": "text"}}, source=source)
    declared, selection = table.table.source, LineSelection.of(table.table.source or Source())
    assert declared is not None
    with duckdb.connect() as link:
        for size in range(1, 4):
            for line in map("".join, product(signs, repeat=size)):
                text = f"k,n\n{opened}{line}\n#0,1\n#1,2\n"
                path.write_text(text)
                plain = declared.model_copy(update={"comment": ()})
                call = READER.text_reader(table, plain, [path])
                read = {row[0] for row in link.execute(f"FROM {call.relation([path])}").fetchall()}
                left = b"".join(selection.rows(iter([text.encode()])))
                assert (b"#0" in left) == ("#0" not in read), (opened, line)


@pytest.mark.parametrize(
    ("source", "lines", "read"),
    [
        ({"skip": [2, 3]}, ["k,n", "Key,Number", "text,units", "k0,1"], 1),
        ({"skip": 2}, ["k5,5", "k5,6", "", "k,n", "k0,1"], 1),
        ({"names": ["k", "n"]}, ["k0,1", "k1,2"], 2),
        ({"names": ["k", "n"], "header": 1}, ["a,a", "k0,1"], 1),
        ({"footer": 1}, ["k,n", "k0,1", "k1,2", "", ""], 1),
        ({"footer": 1}, ["k,n", "k0,1", "k1,2", "\x1a"], 1),
        ({"footer": 1, "until": "So"}, ["k,n", "k0,1", "k1,2", "", "\x1a", "", "Source"], 1),
        ({"footer": 2}, ["k,n", "k0,1", "k1,2"], 0),
        ({"until": "k1"}, ["k,n", "k0,1", "k1,1", "k2,1", '"k1",2', "k3,1"], 3),
        ({"ragged": "pad"}, ["k,n", "k0", "k1,2", "k2,3,", "k3,4,5"], 3),
        ({"quote": "none", "escape": "\\", "delimiter": "\t"}, ["k\tn", 'k0\t"1', "k1\t2"], 2),
    ],
)  # fmt: skip
def test_layout_options_select_lines(
    source: dict[str, Any], lines: list[str], read: int, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([*lines, ""]))
    assert sum(rows_read(path, **source)) == read


def test_backslash_escapes_of_dumps_are_read(tmp_path: Path) -> None:
    r"""As PostgreSQL writes them: \N is missing where it is declared, and \\N is a text."""
    path = tmp_path / "t.tsv"
    written = [r"a\tb", r"\N", r"\\N", r"c\\d\n", "e\x01f", r"e\\f"]
    path.write_text("k\tt\n" + "".join(f"k{i}\t{one}\n" for i, one in enumerate(written)))
    values = ["a\tb", "c\\d\n", "e\x01f", "e\\f"]
    table = declare(
        {"k": {"type": "text"}, "t": {"type": "category", "values": values}},
        source={"path": str(path), "quote": "none", "escape": "\\", "nulls": ["\\N"]},
    )
    assert list(exact(ask(table, {"n": {"count": "*"}}, ["t"]), None)["n"]) == [1, 1, 1, 1]


def error_message(path: Path, **source: Any) -> str:
    with pytest.raises(DpReleaseError) as caught:
        rows_read(path, **source)
    return str(caught.value)


@pytest.mark.parametrize(
    "source", [{"skip": [4]}, {"skip": [2, 5]}, {"skip": [900]}, {"skip": [3], "names": ["k", "n"]}]
)
def test_options_that_skip_lines_below_a_row_are_refused(
    source: dict[str, Any], tmp_path: Path
) -> None:
    """Whose row it is would depend on the rows above it."""
    path = tmp_path / "t.csv"
    path.write_text("k,n\n" + "".join(f"k{i},{i}\n" for i in range(6)))
    assert "DP-DATA-009" in error_message(path, **source)


def test_error_of_wrong_row_width_names_both_widths(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("k,n\nk0,secret,3\nk1,secret,3\nk2,3,4,5\n")
    words = error_message(path)
    assert "DP-DATA-024" in words
    assert "has 2 fields" in words
    assert "have 3" in words
    assert "secret" not in words
    path.write_text("k,n\nk0,2,3\nk1,2,3\nk2,3\n")  # one row fits, and nothing is said
    assert rows_read(path) == [0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("w.csv", b"k,n\nk0,1,2,3\nk1,1,2,3\n", "the header of 'w.csv' has 2 fields"),
        ("two.csv.zip", zip_archive("a.csv", "b.csv"), "ZIP archive of one text file"),
        ("two.zip", zip_archive("a.csv", "b.csv"), "ZIP archive of one text file"),
        (
            "inner.csv.zip",
            zip_archive("a.xlsx", inner=zip_archive("a")),
            "ZIP archive of one text file",
        ),
        (
            "inner.zip",
            zip_archive("a.xlsx", inner=zip_archive("a")),
            "ZIP archive of one text file",
        ),
        (
            "inner.jsonl.zip",
            zip_archive("a.xlsx", inner=zip_archive("a")),
            "ZIP archive of one text file",
        ),
    ],
)
def test_sketches_of_unreadable_files_are_refused(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    """The error says why, and names the file and no temporary copy of it."""
    (tmp_path / name).write_bytes(content)
    done = RUN.invoke(cli.app, ["init", str(tmp_path / name)])
    shown = " ".join((done.stdout + done.stderr).split())
    assert done.exit_code == 2
    assert "DP-DATA-024" in shown
    assert words in shown
    assert f"'{name}'" in shown or shown.startswith(name)
    assert "/" not in shown.partition("Fix")[0]


def test_files_that_do_not_end_as_declared_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text([["k0", "1"]], ["k", "n"]))
    found = error_message(path, until="Source")
    assert "DP-DATA-024" in found
    assert "`until`" in found
    for names in ((), ("a.csv", "b.csv")):
        (tmp_path / "t.csv.zip").write_bytes(zip_archive(*names))
        assert "ZIP" in error_message(tmp_path / "t.csv.zip")
    assert "'salary'" in error_message(path, header="salary")
    path.write_text("k,n,x,X\n1,2,3,4\n")
    assert "equal" in error_message(path)
