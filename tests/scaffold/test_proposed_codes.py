"""What `init` proposes about missing values, years of two digits and odd characters, with a mark."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dprelease.errors import DpReleaseError
from dprelease.scaffold.proposals import peeked_sketch
from dprelease.scaffold.sketch import sketch
from dprelease.schema.columns import DateColumn, IntegerColumn, NumberColumn
from dprelease.schema.load import CONFIRM, read_table

CANARY = "somebody"

CODED: dict[str, tuple[list[Any], list[int]]] = {
    "no answer among ages": ([*range(18, 90), *[99] * 5], [99]),
    "nines without a gap": ([*range(0, 99), *[99] * 5], [99]),
    "a scale": ([1, 2, 3, 4, 5] * 9 + [8, 9] * 4, [8, 9]),
    "yes, no, no answer": ([1, 2] * 9 + [9] * 4, [9]),
    "all digits": (list(range(10)) * 9, []),
    "below zero": ([0, 1, 2, 5] * 9 + [-1] * 5 + [-9] * 3, [-9, -1]),
    "temperatures": ([-12, -9, -1, 3, 8] * 9, []),
    "both": ([10, 20, 30, 50] * 9 + [-1] * 3 + [999] * 3, [-1, 999]),
    "a person who is 99": ([*range(18, 90), 99], []),
    "with decimals": ([1.5, 2.5, 3.25] * 9 + [999] * 4, [999]),
    "incomes": ([1200, 3400, 52000, 9999] * 9, []),
    "nothing but codes": ([99] * 9, []),
}


@pytest.mark.parametrize("case", CODED)
def test_missing_value_codes_are_proposed(case: str, tmp_path: Path) -> None:
    """From a fixed list, with a mark; a peek has bounds without them."""
    numbers, codes = CODED[case]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["v,t", *(f"{n},{CANARY}" for n in numbers), ""]))
    text = sketch(path)
    (line,) = (line for line in text.splitlines() if line.startswith("  v: "))
    assert (f"missing: [{', '.join(map(str, codes))}]}}  {CONFIRM}" in line) == bool(codes)
    assert "FILL IN lower" in line
    assert CANARY not in text
    (tmp_path / "t.yaml").write_text(text)
    if codes:
        with pytest.raises(DpReleaseError, match="DP-PEEK-002"):
            read_table(tmp_path / "t.yaml")
    peeked = peeked_sketch(path)
    (tmp_path / "t.yaml").write_text(peeked.replace("# PEEKED", "#").replace(CONFIRM, "#"))
    column = read_table(tmp_path / "t.yaml").table.columns["v"]
    assert isinstance(column, IntegerColumn | NumberColumn)
    assert column.missing == tuple(map(str, codes))
    if case == "no answer among ages":
        assert (column.lower, column.upper) == (18, 89)


def test_numbers_with_signs_among_texts_are_named(tmp_path: Path) -> None:
    """The texts are not shown; codes that end in letters are no numbers with signs."""
    path = tmp_path / "t.csv"
    path.write_text("v,t\n" + "".join(f"{n}.5 %,{n}b\n{CANARY},x\n{n} %,{n}b\n" for n in range(9)))
    text = sketch(path)
    assert CANARY not in text
    notes = [line for line in text.splitlines() if "most of its first cells are numbers" in line]
    assert [note.split(":")[0] for note in notes] == ["  v"]


def test_missing_texts_in_json_are_proposed_by_column(tmp_path: Path) -> None:
    """A source of JSON has no `nulls`; texts among texts may be values, and are not named."""
    rows = [{"a": 5, "b": "2024-01-01", "c": True, "d": "NA"}] * 5
    rows += [{"a": "k.A.", "b": ".", "c": "unknown", "d": CANARY}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = sketch(tmp_path / "t.jsonl")
    (tmp_path / "t.yaml").write_text(text.replace(CONFIRM, "#"))
    columns = read_table(tmp_path / "t.yaml").table.columns
    found = {name: getattr(column, "missing", None) for name, column in columns.items()}
    assert found == {"a": ("k.A.",), "b": (".",), "c": ("unknown",), "d": ()}
    assert text.count(CONFIRM) == 3


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_pivot_is_proposed_for_two_digit_years(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{kind}"
    cells = ["31.12.99", "01.02.03", "30.06.26"]
    lines = ["d", *cells] if kind == "csv" else [json.dumps({"d": cell}) for cell in cells]
    path.write_text("\n".join([*lines, ""]))
    text = sketch(path)
    (line,) = (line for line in text.splitlines() if "pivot:" in line)
    year = date.today().year
    assert line.startswith(f"  pivot: {year}  {CONFIRM}")
    assert f"{year % 100:02} is {year}, and {(year + 1) % 100:02} is {year - 99}" in line
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(DpReleaseError, match="DP-PEEK-002"):
        read_table(tmp_path / "t.yaml")
    (tmp_path / "t.yaml").write_text(text.replace(CONFIRM, "#"))
    column = read_table(tmp_path / "t.yaml").table.columns["d"]
    assert isinstance(column, DateColumn)
    assert (column.format, column.pivot) == ("%d.%m.%y", year)


def test_odd_characters_of_peeked_values_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("c,d\nBern\u00a0,x\nB\u0435rn,y\nBern,x\n", encoding="utf-8")
    text = peeked_sketch(tmp_path / "t.csv")
    (line,) = (line for line in text.splitlines() if line.startswith("  c: "))
    assert "U+00A0 NO-BREAK SPACE" in line
    assert "U+0435 CYRILLIC SMALL LETTER IE, which looks like e" in line
    assert "look like" not in next(line for line in text.splitlines() if line.startswith("  d: "))
