"""Messy files from `init` to a verified release, without losing a row."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dprelease import cli
from dprelease.errors import DpReleaseError
from dprelease.exact.sources.csv_reader import READER
from dprelease.exact.sources.json_lines_reader import detect_json_lines_format
from dprelease.scaffold.proposals import peeked_sketch
from dprelease.scaffold.sketch import sketch
from dprelease.schema.load import CONFIRM, PEEKED, read_table

RUN = CliRunner()
REGIONS = ["Kärnten", "Niederösterreich", "Wien"]
CANARY = "Œdipus-7391"
RELEASE = """\
title: Visits by region
tables: [visits.yaml]
budget: {epsilon: 100}
queries:
  by_region:
    from: visits
    group_by: [Region]
    columns:
      visits: {count: "*"}
      cost: {sum: Kosten}
      pieces: {sum: Menge}
      admitted: {count: Aufnahme}
      discharged: {count: Entlassung}
      billed: {count: Verrechnet}
output: out
"""


def rows_of(n: int) -> list[list[str]]:
    draw = random.Random(7)
    rows = []
    for i in range(n):
        day, month = draw.randint(1, 28), draw.randint(1, 12)
        cost = f"{draw.randint(0, 4)}.{draw.randint(0, 999):03},{draw.randint(0, 99):02}"
        name = f'{CANARY}; "{i}"' if i % 3 else "Ünal"
        rows.append([
            f"P{i % (n // 4)}", REGIONS[i * i % 3], f"{day:02}.{month:02}.2024",
            f"{month:02}/{day:02}/2024", f"2024-{month:02}-{day:02}", cost,
            str(draw.randint(0, 9)), name,
        ])  # fmt: skip
    return rows


def write_messy(path: Path, rows: list[list[str]]) -> None:
    """Semicolons, latin letters, Windows line ends, points and commas, three formats of days."""
    head = ["Patient", "Region", "Aufnahme", "Entlassung", "Verrechnet", "Kosten", "Menge", "Name"]
    quoted = [
        [c if ";" not in c else '"' + c.replace('"', '""') + '"' for c in row] for row in rows
    ]
    text = "\r\n".join(";".join(row) for row in [head, *quoted]) + "\r\n"
    path.write_bytes(text.encode("cp1252"))


def complete_schema(sketch_of_it: str) -> str:
    """Return the schema as its keeper completes it, from what everybody may know."""
    bounds = {"Aufnahme": "2024-01-01, upper: 2024-12-31", "Entlassung": "2024-01-01, upper: "
              "2024-12-31", "Kosten": "0, upper: 5000, step: 0.01", "Menge": "0, upper: 9"}  # fmt: skip
    text = sketch_of_it
    for name, range_ in bounds.items():
        text = re.sub(rf"(  {name}: {{[^}}]*)}}", rf"\1, lower: {range_}}}", text)
    text = re.sub(
        r"  Region: {type: text}", f"  Region: {{type: category, values: {REGIONS}}}", text
    )
    return text.replace("# max_groups: FILL IN", "max_groups: 2  #").replace(
        "# max_rows_per_group: FILL IN", "max_rows_per_group: 4  #"
    )


def test_messy_file_from_init_to_verified_release(tmp_path: Path) -> None:
    rows = rows_of(400)
    write_messy(tmp_path / "visits.csv", rows)
    target = tmp_path / "visits.yaml"
    init = ["init", str(tmp_path / "visits.csv"), "--unit", "Patient", "--output", str(target)]
    assert RUN.invoke(cli.app, init).exit_code == 0
    text = target.read_text()
    assert not [cell for row in rows for cell in row if len(cell) > 3 and cell in text]
    target.write_text(complete_schema(text))
    (tmp_path / "release.yaml").write_text(RELEASE)
    done = RUN.invoke(cli.app, ["run", str(tmp_path / "release.yaml")])
    assert done.exit_code == 0, done.output
    assert RUN.invoke(cli.app, ["verify", str(tmp_path / "out")]).exit_code == 0

    found = pq.read_table(tmp_path / "out" / "by_region.parquet").to_pylist()
    # Noise beyond these distances occurs less than once in 10^10 runs.
    counts = Counter(row[1] for row in rows)
    money = Counter[str]()
    pieces = Counter[str]()
    for row in rows:
        money[row[1]] += int(re.sub("[.,]", "", row[5]))
        pieces[row[1]] += int(row[6])
    for cell in found:
        region = cell["Region"]
        for name in ("visits", "admitted", "discharged", "billed"):
            assert abs(cell[name] - counts[region]) <= 14, name
        assert abs(cell["pieces"] - pieces[region]) <= 14 * 9
        assert abs(float(cell["cost"]) * 100 - money[region]) <= 14 * 500_000


FILES: dict[str, tuple[str, str, dict[str, Any], dict[str, str]]] = {
    "plain": ("a,b\n1,2.5\n3,4\n", "utf-8", {}, {"a": "integer", "b": "number"}),
    "a mark": ("a;b\n1;x\n", "utf-8-sig", {"delimiter": ";"}, {"a": "integer", "b": "text"}),
    "UTF-16": ("a\tb\n1\té\n", "utf-16", {"encoding": "utf-16", "delimiter": "\t"},
               {"a": "integer", "b": "text"}),
    "UTF-16 without its mark": ("a,b\n1,x\n", "utf-16-le", {"encoding": "utf-16-le"},
                                {"a": "integer", "b": "text"}),
    "latin-1": ("a,b\n1,é\n", "latin-1", {"encoding": "latin-1"}, {"a": "integer", "b": "text"}),
    "Windows": ("a,b\n1,5 €\n", "cp1252", {"encoding": "cp1252"}, {"a": "integer", "b": "integer"}),
    "decimal commas": ("a;b\n1;2,5\n3;12\n", "utf-8", {"delimiter": ";", "decimal": ","},
                       {"a": "integer", "b": "number"}),
    "thousands": ('a,b\n1,"1,234.5"\n3,"12"\n', "utf-8", {"thousands": ","},
                  {"a": "integer", "b": "number"}),
    "spaces": ("a;b\n1;1\u00a0234,5\n3;12\n", "utf-8",
               {"delimiter": ";", "decimal": ",", "thousands": " "},
               {"a": "integer", "b": "number"}),
    "single quotes": ("a,b\n1,'x, y'\n2,'z'\n", "utf-8", {"quote": "'"},
                      {"a": "integer", "b": "text"}),
    "points with semicolons": ("a;b\n1.234;x\n", "utf-8",
                               {"delimiter": ";", "decimal": ",", "thousands": "."},
                               {"a": "integer", "b": "text"}),
    "codes": ("a,b\n01,007\n", "utf-8", {}, {"a": "text", "b": "text"}),
    "days": ("a,b\n31/12/2024,01/02/2024\n", "utf-8", {"date_format": "%d/%m/%Y"},
             {"a": "date", "b": "date"}),
    "several days": ("a,b\n31/12/2024,2024-01-01\n", "utf-8", {}, {"a": "date", "b": "date"}),
    "instants": ("a\n2024-01-01T10:00:00Z\n", "utf-8", {}, {"a": "timestamp"}),
    "times": ("a,b\n31.12.2024 10:00,x\n", "utf-8", {"timestamp_format": "%d.%m.%Y %H:%M"},
              {"a": "timestamp", "b": "text"}),
    "missing": ("a,b,c\nNA,,true\n1,,FALSE\n", "utf-8", {"nulls": ["", "NA"]},
                {"a": "integer", "b": "text", "c": "boolean"}),
    "missing among texts": ("a,b,c\nNA,1,-\nX,n/a,31.12.2024\n", "utf-8",
                            {"nulls": ["", "-", "n/a"], "date_format": "%d.%m.%Y"},
                            {"a": "text", "b": "integer", "c": "date"}),
    "missing among codes": ("a,b\n01,x\n02,y\n-,NA\n", "utf-8", {"nulls": ["", "-"]},
                            {"a": "text", "b": "text"}),
    "missing among numbers, and other texts": (
        "a,b\n1,x\n2,y\nN/A,?\n.,z\n3,NA\nabroad,-\n", "utf-8",
        {"nulls": ["", ".", "N/A"]}, {"a": "text", "b": "text"}),
    "missing among few numbers": ("a\n1\nx\ny\nNA\n\n", "utf-8", {}, {"a": "text"}),
    "missing in several spellings": (
        'a,b,c\n1,2024-01-01,true\nNULL,\\N,Unknown\n--,?,nan\n"(null)","n.a.",NaN\n', "utf-8",
        {"nulls": ["", "(null)", "--", "?", "NULL", "NaN", "Unknown", "\\N", "n.a.", "nan"]},
        {"a": "integer", "b": "date", "c": "boolean"}),
    "spellings that are nobody's": ("a\n1\n2\nnUlL\nRefused\n3\n", "utf-8", {}, {"a": "text"}),
    "ids": ("a,b\n3f2b8a10-0000-4000-8000-000000000001,1e5\n", "utf-8", {},
            {"a": "text", "b": "number"}),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst", "unnamed"])
def test_csv_format_is_detected_from_first_bytes(case: str, packed: str, tmp_path: Path) -> None:
    text, codec, source, columns = FILES[case]
    data = text.replace("\n", "\r\n").encode(codec)
    expected = dict(source)
    if packed == ".zst":
        data = pa.Codec("zstd").compress(data, asbytes=True)
    elif packed:
        data = gzip.compress(data)
    if packed == "unnamed":
        packed, expected["compression"] = "", "gzip"
    path = tmp_path / f"t.csv{packed}"
    path.write_bytes(data)
    found = READER.form(path)
    assert found.source == expected
    assert {name: kind.name for name, kind in found.columns.items()} == columns


def test_sketch_asks_which_number_is_the_day(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n01/02/2024,31/01/2024\n")
    lines: dict[str, Any] = dict(
        line.strip().split(": ", 1) for line in sketch(tmp_path / "t.csv").splitlines()[-2:]
    )
    assert "the day or the month?" in lines["a"]
    assert "the day or the month?" not in lines["b"]


def test_sketch_suggests_encoding_for_long_ascii_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 300_000 + "2,é\n".encode("latin-1"))
    assert "declare `encoding`" in sketch(path)
    path.write_bytes(b"a,b\n1,x\n")
    assert "declare `encoding`" not in sketch(path)


LINES: dict[str, tuple[str, str, dict[str, Any], dict[str, str]]] = {
    "plain": ('{"a": 1, "b": 2.5, "c": true, "d": "x"}\n{"a": 2, "b": 3}\n', "utf-8", {},
              {"a": "integer", "b": "number", "c": "boolean", "d": "text"}),
    "days": ('{"a": "31.12.2024", "b": "2024-01-01T10:00:00Z"}\n', "utf-8",
             {"date_format": "%d.%m.%Y"}, {"a": "date", "b": "timestamp"}),
    "decimal commas": ('{"a": "2,5"}\n{"a": "1 234,5"}\n', "latin-1",
                       {"decimal": ",", "thousands": " "}, {"a": "number"}),
    "accents": ('{"é": "ü"}\n', "latin-1", {"encoding": "latin-1"}, {"é": "text"}),
    "UTF-16": ('{"a": "é"}\n', "utf-16", {"encoding": "utf-16"}, {"a": "text"}),
    "nested": ('{"a": 1, "b": [1], "c": {"d": 1}}\n', "utf-8", {},
               {"a": "integer", "b": "nested", "c": "nested"}),
    "a name of few": ('{"a": 1}\n' * 3 + f'{{"a": 1, "{CANARY}": 3}}\n', "utf-8", {},
                      {"a": "integer"}),
    "missing": ('{"a": null}\n{"a": "NA"}\n{"a": 7}\n', "utf-8", {}, {"a": "integer"}),
    "a broken line": ('{"a": 7}\n{"a": \n[3]\n{"a": 8}\n', "utf-8", {}, {"a": "integer"}),
    "codes": ('{"a": "01"}\n', "utf-8", {}, {"a": "text"}),
    "nothing": ("", "utf-8", {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("packed", [False, True])
def test_json_format_is_detected_from_first_lines(case: str, packed: bool, tmp_path: Path) -> None:
    text, codec, source, columns = LINES[case]
    data = text.encode(codec)
    path = tmp_path / ("t.jsonl.gz" if packed else "t.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    found = detect_json_lines_format(path)
    assert found.source == source
    assert {name: kind.name for name, kind in found.columns.items()} == columns


@pytest.mark.parametrize("peek", [False, True])
def test_json_lines_from_sketch_to_release(peek: bool, tmp_path: Path) -> None:
    rows = [
        {"id": i, "day": f"{1 + i % 28:02}.01.2024", "pay": i % 7, "name": f"{CANARY} {i}"}
        for i in range(300)
    ]
    path, target = tmp_path / "visits.jsonl", tmp_path / "visits.yaml"
    path.write_text("".join(json.dumps({**row, "tags": [1]}) + "\n" for row in rows))
    init = ["init", str(path), "--output", str(target)]
    assert RUN.invoke(cli.app, [*init, *["--peek"] * peek]).exit_code == 0
    text = target.read_text()
    assert CANARY not in text
    assert "# tags: left out, lists and objects can't be used" in text
    if peek:
        assert "pay: {type: integer, lower: 0, upper: 6}  # PEEKED" in text
        return
    text = text.replace("pay: {type: integer}", "pay: {type: integer, lower: 0, upper: 6}")
    target.write_text(text)
    (tmp_path / "release.yaml").write_text(LINES_RELEASE)
    assert RUN.invoke(cli.app, ["run", str(tmp_path / "release.yaml")]).exit_code == 0
    assert RUN.invoke(cli.app, ["verify", str(tmp_path / "out")]).exit_code == 0
    (found,) = pq.read_table(tmp_path / "out" / "all.parquet").to_pylist()
    assert all(abs(found[name] - 300) <= 10 for name in ("rows", "days"))
    assert abs(found["pay"] - sum(int(row["pay"]) for row in rows)) <= 60


LINES_RELEASE = """\
title: Visits
tables: [visits.yaml]
budget: {epsilon: 100}
queries:
  all: {from: visits, columns: {rows: {count: "*"}, days: {count: day}, pay: {sum: pay}}}
output: out
"""


def test_proposed_nulls_must_be_confirmed(tmp_path: Path) -> None:
    """NA may be a country code: the sketch is refused until somebody decides."""
    (tmp_path / "t.csv").write_text("country,n,m\nNA,1,7\nAT,NA,8\nAT,2,Refused\n")
    text = sketch(tmp_path / "t.csv")
    (line,) = (line for line in text.splitlines() if "nulls:" in line)
    assert line.startswith(f'  nulls: ["", "NA"]  {CONFIRM}')
    assert "occur among other texts, where they may be values. Columns:\n# country\n" in text
    assert "m: {type: text}" in text
    assert "most of its first cells are numbers" in text
    assert "Refused" not in text
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(DpReleaseError, match="DP-PEEK-002"):
        read_table(tmp_path / "t.yaml")
    (tmp_path / "t.yaml").write_text(text.replace(f"  {CONFIRM}", "  #"))
    source = read_table(tmp_path / "t.yaml").table.source
    assert source is not None
    assert source.nulls == ("", "NA")
    (tmp_path / "t.csv").write_text("country,n\nNA,1\nAT,2\n")
    assert "nulls" not in sketch(tmp_path / "t.csv")


def test_peek_treats_proposed_nulls_as_missing(tmp_path: Path) -> None:
    """Numbers get bounds, lists of values leave them out, and codes keep leading zeros."""
    path = tmp_path / "t.csv"
    path.write_text("age,code,land,note\n34,01,NA,\n.,02,AT,x\n7,NA,AT,y\n")
    text = peeked_sketch(path)
    for line in (
        "age: {type: integer, lower: 7, upper: 34}",
        'code: {type: category, values: ["01", "02"]}',
        'land: {type: category, values: ["AT"]}',
        'note: {type: category, values: ["x", "y"]}',
    ):
        assert f"  {line}  {PEEKED}" in text
