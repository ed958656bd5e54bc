"""Fixed-width files: declared places, all lines, and no line affects others."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.query.resolve import resolve
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import read_declaration, read_table
from tests.exact.build import ask, declare, exact

PLACES = {"p": [1, 3], "k": [4, 7], "x": [8, 12]}
COLUMNS: dict[str, Any] = {
    "p": {"type": "integer"},
    "k": {"type": "category", "values": ["Köln", "Rom"]},
    "x": {"type": "number", "lower": -1000, "upper": 1000, "step": 0.5},
}
UNIT = {"id": "p", "max_groups": 1, "max_rows_per_group": 1}
LINES = ["  1Köln  1,5", "  2Rom  20  ", "  3Köln   .5", "  4RomI    ", "  2Rom  30"]


def read(path: Path, by: list[str] | None = None, **source: Any) -> dict[str, list[int]]:
    """Return the counts of rows and the sums of x, in steps, by key."""
    given = {"path": str(path), "format": "fixed_width", "columns": PLACES, **source}
    table = declare(COLUMNS, source=given)
    found = exact(ask(table, {"n": {"count": "*"}, "s": {"sum": "x"}}, by), None)
    return {name: list(map(int, found[name])) for name in ("n", "s")}


def test_places_count_characters_in_any_encoding(tmp_path: Path) -> None:
    """Short lines lack their last fields; an unreadable field is missing, and its row counts."""
    text = "\n".join([*LINES, "", "   ", "  5"])
    for name, content in {
        "utf.dat": text.encode(),
        "mark.dat": b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        "latin.dat": text.replace("\n", "\r").encode("latin-1"),
        "packed.dat.gz": gzip.compress(text.encode("utf-16")),
    }.items():
        encoding = {"latin.dat": "latin-1", "packed.dat.gz": "utf-16"}.get(name, "utf-8")
        (tmp_path / name).write_bytes(content)
        assert read(tmp_path / name, encoding=encoding, decimal=",") == {"n": [6], "s": [103]}, name
        found = read(tmp_path / name, ["k"], encoding=encoding, decimal=",", nulls=["30"])
        assert found == {"n": [2, 2], "s": [3, 40]}, name


def test_comments_and_footers_of_fixed_width_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text("\n".join(["PPPKKKKXXXXX", "* note", *LINES[1:], "* more", "END 2024"]))
    assert read(path, skip=1, comment="*", until="END")["n"] == [4]
    assert read(path, skip=2, footer=2)["n"] == [4]
    # Quotes are characters like others, so no row decides whether a line below it is a comment.
    path.write_text("\n".join(['"', *LINES[1:], 'x,"', "* more", 'y, "', "* more", "END 2024"]))
    assert read(path, skip=0, comment="*", until="END")["n"] == [7]


@pytest.mark.share(0.5)
@pytest.mark.parametrize("line", ['  9Rom "', "  9\x01", "'", '  9"Köl', "\\", "  9Rom 1e999"])
def test_odd_fixed_width_line_changes_no_other_row(line: str, tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    for place in range(len(LINES)):
        path.write_text("\n".join([*LINES[:place], line, *LINES[place:]]))
        found = read(path)["n"][0]
        assert found in (len(LINES), len(LINES) + 1)
        assert sum(read(path, ["k"])["n"]) - ("Rom" in line) == len(LINES) - 1


def test_fixed_width_ids_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_text("\n".join([*LINES, "02 Rom", "+2 Rom", "2  Rom"]))
    source = {"path": str(path), "format": "fixed_width", "columns": PLACES}
    table = declare(COLUMNS, source=source, privacy_unit=UNIT)
    assert exact(ask(table, {"n": {"count": "*"}}), None)["n"][0] == 4


def test_fixed_width_from_sketch_to_release(tmp_path: Path) -> None:
    """Blank columns separate the fields, until the places of a data dictionary are declared."""
    lines = [f"{i:4}  {'FM'[i % 2]}  {20 + i:3}  2024-01-{1 + i % 28:02}" for i in range(40)]
    file = tmp_path / "survey.fwf"
    file.write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(cli.app, ["init", str(file)])
    assert done.exit_code == 0, done.output
    schema = yaml.safe_load(done.stdout)
    assert schema["source"]["columns"] == {
        "column_1": [3, 4], "column_2": [7, 7], "column_3": [11, 12], "column_4": [15, 24],
    }  # fmt: skip
    assert [column["type"] for column in schema["columns"].values()] == [
        "integer", "text", "integer", "date",
    ]  # fmt: skip
    (tmp_path / "survey.yaml").write_text(done.stdout)
    (tmp_path / "release.yaml").write_text(
        "title: t\ntables: [survey.yaml]\nbudget: {epsilon: 50}\noutput: out\nqueries:\n"
        "  q: {from: survey, where: \"column_4 >= '2024-01-01' and column_3 > 0\", "
        "columns: {n: {count: '*'}}}\n"
    )
    declaration = read_declaration(tmp_path / "release.yaml")
    assert int(exact(resolve(declaration)[0], None)["n"][0]) == len(lines)
    folder = run(declaration)
    assert pq.read_table(folder / "q.parquet")["n"].to_pylist() == [len(lines)]
    assert dprelease.verify(folder).ok


@pytest.mark.parametrize("above", ["", "\n"])
@pytest.mark.parametrize("below", ["", "Total   40\n", "Total   40\n\nSource: an office\n\n"])
def test_sketch_of_fixed_width_leaves_out_names_and_notes(
    above: str, below: str, tmp_path: Path
) -> None:
    lines = [f"{i:4}  {'FM'[i % 2]}  {20 + i:3}  2024-01-{1 + i % 28:02}" for i in range(40)]
    (tmp_path / "t.fwf").write_text(
        f"{above}  id sex  age  day\n" + "\n".join(lines) + f"\n{below}"
    )
    done = CliRunner().invoke(cli.app, ["init", str(tmp_path / "t.fwf")])
    schema = yaml.safe_load(done.stdout)
    assert {name: one["type"] for name, one in schema["columns"].items()} == {
        "id": "integer", "sex": "text", "age": "integer", "day": "date",
    }  # fmt: skip
    (tmp_path / "t.yaml").write_text(done.stdout)
    query = ask(read_table(tmp_path / "t.yaml"), {"n": {"count": "*"}})
    assert exact(query, None)["n"][0] == len(lines)
    texts = ["Ada Bern", "Eve Chur", "Ida Bern"]  # the first of them may be a person
    (tmp_path / "t.fwf").write_text("\n".join(texts))
    assert "Ada" not in CliRunner().invoke(cli.app, ["init", str(tmp_path / "t.fwf")]).stdout


@pytest.mark.parametrize(
    "columns", [{}, {"p": [0, 3]}, {"p": [4, 3]}, {"p": [1, 2], "P": [3, 4]}, {"p": [1]}, {"p": 1}]
)
def test_wrong_places_are_refused(columns: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DpReleaseError, match="DP-DECL"):
        read(tmp_path / "t.dat", columns=columns)
