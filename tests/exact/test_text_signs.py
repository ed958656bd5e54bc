"""Values with signs (%, *, r): each is read equally from every stored type."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dprelease.errors import DpReleaseError
from dprelease.schema.columns import TextColumn
from dprelease.schema.public_values.text_signs import stripped
from tests.exact.build import ask, declare, exact

SUM = {"n": {"sum": "x"}}
WHOLE: dict[str, Any] = {"type": "number", "lower": -99999, "upper": 99999, "step": 0.01}
SIGNS = {
    "strip": ["%", "$", "*", " and over", "(c)", "+", "\u20ac"],
    "marks": {"r": "revised", "[e]": "estimated"},
    "negative": ["(1)", "1-", "\u22121", "\u20131"],
}
READ = {
    "27.79%": 27.79, "1235*": 1235, "12 r": 12, "12r*": 12, "(123)": -123, "($5.5)": -5.5, "-$5": -5,
    "$-5": -5, "123-": -123, "\u22125": -5, "\u20135": -5, "$\u20135": -5, "2\u20135": None, "85+": 85, "90 and over": 90, "\u00a012\u202f": 12,
    "(5 %)": -5, "12 [e]": 12, "+5": 5, "1e2": 100, "-7": -7, "(c)": None, "..": None, "r": None,
    "5 x": None, "--5": None, "(-5)": None, "": None, "r5": 5, "5-%": -5,
}  # fmt: skip


def total(cells: list[Any], column: dict[str, Any], path: Path | None = None, **source: Any) -> Any:
    """Return the sum of the column x, from a file with these texts, or from a frame."""
    given = {"source": {"path": str(path), **source}} if path else {}
    table = declare({"x": column}, **given)
    frame = None if path else pa.table({"x": cells})
    found = exact(ask(table, SUM), frame)["n"][0]
    return Fraction(int(found), 100 if column["type"] == "number" else 1)


@pytest.mark.parametrize("cell", READ)
def test_signs_around_numbers_are_removed(cell: str) -> None:
    assert total([cell], WHOLE | SIGNS) == Fraction(str(READ[cell] or 0))


def test_separators_of_a_file_apply_with_signs(tmp_path: Path) -> None:
    """The source declares the separators, and both apostrophes are equal."""
    path = tmp_path / "t.csv"
    cells = ["1.235,5 r", "(1.000)", "7,25 %", "8.5", "-2.000-"]
    path.write_text("x;k\n" + "".join(f"{cell};\n" for cell in cells))
    found = total([], WHOLE | SIGNS, path, decimal=",", thousands=".", delimiter=";")
    assert found == Fraction("1235.5") - 1000 + Fraction("7.25")
    path.write_text("x\n1'234\n1\u2019234 r\n12\u2019\n")
    assert total([], WHOLE | SIGNS, path, thousands="\u2019") == 2468


STORED = [3, -3, 0, 1000, -12]


@pytest.mark.share(0.4)
@pytest.mark.parametrize("sign", ["-", "1", "3", "-12", "e", "0", "t", "."])
@pytest.mark.parametrize("kind", ["integer", "number", "category", "text"])
def test_values_with_signs_are_equal_in_every_type(kind: str, sign: str) -> None:
    """For all signs: a sign is removed only from texts that are no numbers."""
    values = ["3", "-3", "1000", "12", "2"]
    columns: dict[str, dict[str, Any]] = {
        "integer": {"type": "integer", "lower": -9999, "upper": 9999, "strip": [sign]},
        "number": {**WHOLE, "strip": [sign]},
        "category": {
            "type": "category",
            "values": [value for value in values if stripped(value, [sign]) == value],
            "strip": [sign],
            "others": "drop",
        },
        "text": {"type": "text", "strip": [sign]},
    }
    asked: dict[str, Any] = {"n": {"count": "*"}} if kind in ("category", "text") else SUM
    by = ["x"] if kind == "category" else []
    where = "x = '3'" if kind == "text" else None
    texts = pa.array([str(number) for number in STORED])
    arrays = [texts, texts.dictionary_encode()]
    if kind != "text":
        arrays += [pa.array(STORED, one) for one in (pa.int16(), pa.int64(), pa.float64())]
    found = []
    for array in arrays:
        query = ask(declare({"x": columns[kind]}), asked, by, where)
        found.append(exact(query, pa.table({"x": array}))["n"])
    assert all(np.array_equal(found[0], one) for one in found), found


def test_ids_are_equal_without_their_signs() -> None:
    """One person with three spellings counts once, as text and as number."""
    for kind in ("integer", "text"):
        table = declare(
            {"p": {"type": kind, "strip": "#", "marks": {"r": "revised"}}},
            privacy_unit={"id": "p", "max_groups": 1, "max_rows_per_group": 1},
        )
        frame = pa.table({"p": ["7", "#7", "7 r", "8", " #8"]})
        assert exact(ask(table, {"n": {"count": "*"}}), frame)["n"][0] == 2


def test_signs_alone_are_a_missing_id() -> None:
    """Otherwise, unrelated rows would be one person, of which limits keep one."""
    unit = {"id": "p", "max_groups": 1, "max_rows_per_group": 1}
    column = {"type": "category", "values": ["a", "b", "c"]}
    table = declare({"p": {"type": "text", "strip": "*"}, "k": column}, privacy_unit=unit)
    frame = pa.table({"p": ["*", "* *", "p"], "k": ["a", "b", "c"]})
    for rows in (frame, frame.slice(1)):
        assert list(exact(ask(table, {"n": {"count": "*"}}, ["k"]), rows)["n"]) == [0, 0, 1]


def test_signs_around_categories_are_removed() -> None:
    table = declare(
        {"x": {"type": "category", "values": ["A", "B"], "strip": "*", "missing": "9", "fill": "B"}}
    )
    frame = pa.table({"x": ["A*", " A", "B", "9*", "**", "C*"]})
    assert list(exact(ask(table, {"n": {"count": "*"}}, ["x"]), frame)["n"]) == [2, 3]


@pytest.mark.parametrize(
    "column",
    [
        {"type": "category", "values": ["A*"], "strip": "*"},
        {"type": "integer", "strip": ""},
        {"type": "integer", "marks": {"": "none"}},
        {"type": "integer", "negative": "<1>"},
        {"type": "integer", "expression": "y + 1", "strip": "%"},
    ],
)
def test_wrong_signs_are_refused(column: dict[str, Any]) -> None:
    with pytest.raises(DpReleaseError, match="DP-DECL"):
        declare({"x": column, "y": {"type": "integer"}})


@pytest.mark.parametrize("text", ["A*", "  B r", "x%y", "**", "r r", "", "\u00a0r\ufeff", "*a*"])
def test_python_strips_like_duckdb(text: str) -> None:
    column = TextColumn(type="text", strip=("%", "*"), marks={"r": "revised"})
    table = declare({"x": column.model_dump()})
    value = stripped(text, column.signs)
    where = f"x = '{value}'" if value else "x IS NULL"
    query = ask(table, {"n": {"count": "*"}}, where=where)
    assert exact(query, pa.table({"x": [text, "other"]}))["n"][0] == 1


DAYS = {
    "days since 1899-12-30": ("45292", "45292.75", "2024-01-01"),
    "days since 1960-01-01": ("23376", "23376.5", "2024-01-01"),
    "seconds since 1582-10-14": ("13923446400", "13923446401.5", "2024-01-01"),
    "milliseconds since 1970-01-01": ("1704067200000", "1704067200001", "2024-01-01"),
    "%Y%m%d": ("20240101", "20240101", "2024-01-01"),
}


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize("layout", DAYS)
def test_day_numbers_are_read(layout: str, kind: str) -> None:
    """In every stored type, at the bounds, and for texts that are no numbers."""
    column = {"type": kind, "format": layout, "lower": "2024-01-01", "upper": "2024-01-01"}
    if kind == "timestamp":
        column["upper"] = "2024-01-01 23:59:59"
    query = ask(declare({"x": column}), {"n": {"count": "x"}})
    first, second, iso = DAYS[layout]
    odd = ["nan", "inf", "1e30", "-1e30", "x", "", None]
    assert exact(query, pa.table({"x": [first, second, iso, *odd]}))["n"][0] == 3
    assert exact(query, pa.table({"x": [float(first), float("nan"), 1e300]}))["n"][0] == 1
    assert exact(query, pa.table({"x": [int(first), 2**62, -(2**62)]}))["n"][0] == 1


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize("text", ["2024-1-1", "2024-01-1", "2024-1-01 ", "2024-1-1 0:00:00"])
def test_dates_without_leading_zeros_are_read(text: str, kind: str) -> None:
    column = {"type": kind, "lower": "2024-01-01", "upper": "2024-01-01"}
    query = ask(declare({"x": column}), {"n": {"count": "x"}})
    assert exact(query, pa.table({"x": [text, "2024-1", "2024-13-1"]}))["n"][0] == 1


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_code_lists_with_encodings_and_separators(end: str, tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_bytes(
        end.join(["code;name", "K\u00f6ln;Stadt", '"A;B";', ""]).encode("latin-1")
    )
    spec = {"file": str(tmp_path / "codes.csv"), "column": "code", "delimiter": ";"}
    column = {"type": "category", "values_from": {**spec, "encoding": "latin-1"}}
    query = ask(declare({"x": column}), {"n": {"count": "*"}}, ["x"])
    assert list(exact(query, pa.table({"x": ["K\u00f6ln", "A;B", "A;B"]}))["n"]) == [1, 2]
    with pytest.raises(DpReleaseError, match="DP-SCHEMA-004"):
        declare({"x": {"type": "category", "values_from": spec}})


FLAGS = {"type": "category", "values": ["normal", "revised", "estimated"], "marks_of": "x"}
FLAGGED = {
    "1.000,5 r": "revised", "3 [e]": "estimated", "r": "revised", "(7 r)": "revised", "[e] 8": "estimated",
    "9 r [e]": "revised", "5": "normal", "1e2": "normal", "6 %": "normal",
    "": None, "x": None, "%": None, "x %": None,
}  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx", "jsonl"])
def test_flags_are_read_as_a_separate_column(ending: str, tmp_path: Path) -> None:
    """Each row counts at the mark of its own text, with its own number; or without both as missing."""
    path, cells = tmp_path / f"t.{ending}", [*FLAGGED]
    separators = {"decimal": ",", "thousands": "."} if ending in ("csv", "xlsx") else {}
    if not separators:
        cells = [cell.replace(".", "").replace(",", ".") for cell in cells]
    frame = pd.DataFrame({"x": cells, "k": "a"})
    if ending == "csv":
        frame.to_csv(path, sep=";", index=False)
        separators["delimiter"] = ";"
    elif ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_excel(path, index=False)
    columns = {"x": WHOLE | SIGNS, "f": FLAGS}
    table = declare(columns, source={"path": str(path), **separators})
    found = exact(ask(table, {"n": {"count": "*"}, "s": {"sum": "x"}}, ["f"]), None)
    assert list(found["n"]) == [[*FLAGGED.values()].count(v) for v in FLAGS["values"]]
    assert list(found["s"] / 100) == [5 + 100 + 6, 1000.5 - 7 + 9, 3 + 8]
    alone = exact(ask(table, {"n": {"count": "*"}}, where="f = 'estimated'"), None)
    assert list(alone["n"]) == [2]
    missing = columns | {"f": FLAGS | {"unallocated": "none"}}
    table = declare(missing, source={"path": str(path), **separators})
    found = exact(ask(table, {"n": {"count": "*"}, "s": {"count": "x"}}, ["f"]), None)
    assert list(found["n"]) == [3, 4, 2, 4]
    assert list(found["s"]) == [3, 3, 2, 0]


@pytest.mark.parametrize(
    "flags",
    [
        {"values": ["revised", "estimated"]},
        {"values": ["normal", "revised"]},
        {"values": ["normal", "other", "revised", "estimated"]},
        {"marks_of": "y"},
        {"marks_of": "f"},
        {"expression": "x"},
    ],
)
def test_wrong_flag_columns_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(DpReleaseError):
        declare({"x": WHOLE | SIGNS, "f": FLAGS | flags}, source="t.csv")


@pytest.mark.parametrize("file", ["t.duckdb", "t.sqlite"])
def test_marks_in_databases_are_refused_with_a_way_out(file: str) -> None:
    with pytest.raises(DpReleaseError, match="separate column"):
        declare({"x": WHOLE | SIGNS, "f": FLAGS}, source={"path": file, "table": "t"})
