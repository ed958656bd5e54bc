"""PX files: a small reader of the format finds every cell, text and language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given

from dprelease.documents.metadata import Role, code_text
from dprelease.exports.px.px_files import EXPORT
from dprelease.exports.px.px_values import unique_texts
from dprelease.query.quality import FEW_PEOPLE, SIGNS, UNDEFINED
from tests.exports import full_release
from tests.exports.build import (
    HOSTILE,
    OTHER,
    column,
    handmade_release,
    key,
    publish,
    release_with_all_metadata,
)
from tests.exports.test_json_stat import cubes

TOKEN = re.compile(r'\s*("[^"]*"|[^\s",;=()\[\]]+|[",;=()\[\]])')


@dataclass
class PxFile:
    """The keywords of a file by keyword, language and names in parentheses; and its cells."""

    keywords: dict[tuple[str, str, tuple[str, ...]], list[str]]
    cells: list[str]

    def values(self, keyword: str, *names: str, language: str = "") -> list[str]:
        return self.keywords[keyword, language, names]

    def variables(self, language: str = "") -> list[str]:
        stub = self.keywords.get(("STUB", language, ()), [])
        return [*stub, *self.values("HEADING", language=language)]

    def rows(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield each cell with the codes of its values."""
        lists = [self.values("CODES", name) for name in self.variables()]
        assert len(self.cells) == prod(map(len, lists))
        yield from zip(product(*lists), self.cells, strict=True)


def read(path: Path) -> PxFile:
    """Read a file by its specification, and check rules for all files."""
    raw = path.read_bytes()
    text = raw.decode("utf-8")
    assert not raw.startswith(b"\xef\xbb\xbf")
    head, _, data = text.partition("\nDATA=\n")
    assert data.endswith(";\n")
    assert data[-3] not in " \n"
    for line in head.split("\n"):  # what is in parentheses can't be broken
        assert len(re.sub(r"\(.*\)=$|\(.*\)(?==)", "", line)) <= 256, line
    assert all(len(line) <= 256 or len(line.split()) == 1 for line in data.split("\n"))
    found = PxFile(dict(_entries(head)), re.findall(r'"\.+"|\S+', data.removesuffix(";\n")))
    for keyword in ("CONTENTS", "TITLE", "UNITS", "SUBJECT-AREA", "SUBJECT-CODE", "MATRIX"):
        assert found.values(keyword)[0], keyword
    assert (found.values("CHARSET"), found.values("CODEPAGE")) == (["ANSI"], ["utf-8"])
    assert found.values("CONTVARIABLE") == found.values("HEADING")
    assert len(found.values("MATRIX")[0]) <= 20
    assert len(found.values("SUBJECT-CODE")[0]) <= 20
    decimals = int(found.values("DECIMALS")[0])
    assert int(found.values("SHOWDECIMALS")[0]) <= min(6, decimals) <= 15
    for language in ["", *(found.keywords.get(("LANGUAGES", "", ()), [])[1:])]:
        names = found.variables(language)
        assert len({*names}) == len(names) == len(found.variables())
        for name, main in zip(names, found.variables(), strict=True):
            texts = found.values("VALUES", name, language=language)
            codes = found.values("CODES", name, language=language)
            assert len({*texts}) == len(texts) == len(codes)
            for keyword in ("CODES", "VARIABLECODE"):
                assert found.values(keyword, name, language=language) == found.values(keyword, main)
            assert all(0 < len(text) <= 256 for text in texts)
    return found


def _entries(head: str) -> Iterator[tuple[tuple[str, str, tuple[str, ...]], list[str]]]:
    """Yield the keywords of a file with their values; texts in several lines are joined."""
    tokens, seen = TOKEN.findall(head), set()
    assert "".join(tokens) == re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", head)
    while tokens:
        keyword, language, names, values = tokens.pop(0), "", list[str](), [""]
        if tokens[0] == "[":
            _, language, _ = (tokens.pop(0) for _ in range(3))
        if tokens[0] == "(":
            while (token := tokens.pop(0)) != ")":
                names += [token[1:-1]] if token[0] == '"' else []
        assert tokens.pop(0) == "="
        while (token := tokens.pop(0)) != ";":
            if token == ",":
                values.append("")
            else:
                values[-1] += token.strip('"')
        entry = (keyword, language, tuple(names))
        assert entry not in seen, entry
        seen.add(entry)
        yield entry, values


def with_facts(release: Any, folder: Path) -> Any:
    """Return a release made by hand, with a guarantee and a declaration."""
    record = release_with_all_metadata(folder / "facts").record
    return replace(release, record=record.model_copy(update={"files": release.record.files}))


def checked_value(cell: str) -> Decimal | None:
    return None if cell.startswith('"') else Decimal(cell)


@given(cubes())
def test_px_keeps_every_number(cube: tuple[pa.Table, list[Any]]) -> None:
    table, columns = cube
    with TemporaryDirectory() as name:
        folder = Path(name)
        release = with_facts(handmade_release(folder, [("cube", table, columns)]), folder)
        assume(not list(EXPORT.problems(release.metadata)))
        assert EXPORT.write(release, folder) == ["px/cube.px"]
        found = read(folder / "px/cube.px")
    keys = [one.name for one in columns if one.role == Role.KEY]
    codes = {
        one.name: dict(zip(_codes(one, table), found.values("CODES", one.name), strict=False))
        for one in columns
        if one.role == Role.KEY
    }
    wanted = {
        tuple(codes[name][code_text(row[name])] for name in keys): row for row in table.to_pylist()
    }
    numbers = [name for name in table.column_names if name not in keys]
    assert found.values("CODES", "Measure") == numbers
    for (*cell, measure), text in found.rows():
        row = wanted.get(tuple(cell))
        if row is None:
            assert text == '"."'
        elif row[measure] is None:
            assert text == '".."'
        else:
            exact = repr(row[measure]) if isinstance(row[measure], float) else row[measure]
            assert Decimal(text) == Decimal(exact)
            assert "e" not in text.lower()


def _codes(one: Any, table: pa.Table) -> list[str]:
    """Return the values of a key as text, in their order."""
    values = table[one.name].unique().to_pylist() if one.codes is None else one.codes.values
    return [code_text(value) for value in values]


def test_px_has_margins_quality_labels_and_notes(tmp_path: Path) -> None:
    """Each number has a margin and a quality; keys have labels; notes explain them."""
    folder = publish(tmp_path, "formats: [px]\n")
    found = read(folder / "px/cells_city_sex.px")
    table = pq.read_table(folder / "cells_city_sex.parquet")
    rated: Mapping[str, str] = {code: str(i) for i, code in enumerate("ABCD", 1)}
    wanted = []
    for row in table.to_pylist():
        for name in table.column_names[2:]:
            value = row[name]
            wanted.append(rated[value] if name.endswith("_quality") else value)
    for cell, value in zip(found.cells, wanted, strict=True):
        assert checked_value(cell) == Decimal(repr(value) if isinstance(value, float) else value)
    (moe,) = (t for t in found.values("VALUES", "Measure") if t.startswith("people, margin"))
    assert found.values("UNITS", moe) == ["person"]
    (notes,) = found.values("NOTEX")
    assert "Random noise was added" in notes
    assert "Margin of error: with 95 %" in notes
    (note,) = found.values("NOTE")
    assert "epsilon = " in note
    assert "at most 2 rows per cell" in note
    (quality,) = found.values("VALUENOTE", "Measure", "people, quality")
    assert "1 = A: may be quoted" in quality
    assert "4 = D" in quality
    assert found.values("AGGREGALLOWED") == ["NO"]


def test_px_in_two_languages_with_hostile_texts(tmp_path: Path) -> None:
    """Texts have no quotation marks, labels stay unique, and cells without numbers have dots."""
    EXPORT.write(release_with_all_metadata(tmp_path), tmp_path)
    found = read(tmp_path / "px/tables/pay.px")
    plain = HOSTILE.replace('"', "'")
    assert found.values("LANGUAGES") == ["en", "fr"]
    assert (found.variables(), found.variables("fr")) == (
        [plain, "age_group", "Measure"],
        [OTHER, "age_group", "Indicateur"],
    )
    assert found.values("VALUES", plain) == [plain, f"{plain} (2)"]
    assert found.values("VALUES", OTHER, language="fr") == [OTHER, f"{OTHER} (2)"]
    assert found.values("VALUES", "age_group", language="fr") == ["0 à 14", "15"]
    assert found.values("CODES", "age_group") == ["0", "15"]
    measures = found.values("CODES", "Measure")
    assert measures == ["pay", "pay_moe", "pay_new", "pay_label", "pay_quality"]
    cells = [found.cells[i : i + 5] for i in range(0, 20, 5)]
    assert cells == [
        ["1.00", "0.5", "1", "1", "4"],
        ['"....."', "1.5", "0", "2", '"....."'],
        ["-3.00", "2.5", "0", "3", "1"],
        ["4.00", '".."', "1", "4", "5"],
    ]
    texts = found.values("VALUES", "Indicateur", language="fr")
    (note,) = found.values("VALUENOTE", "Indicateur", texts[3], language="fr")
    assert note.endswith("1 = 1 or less##2 = +1##3 = @SUM(A1)##4 =  -1")
    assert found.values("DATASYMBOL5", language="fr") == [SIGNS[FEW_PEOPLE]]
    assert found.values("DATASYMBOL2") == [SIGNS[UNDEFINED]]
    assert found.values("PRECISION", "Measure", "pay_moe") == ["2"]
    assert found.values("SHOWDECIMALS") == ["0"]
    assert found.values("SOURCE", language="fr") == ["Office & Söhne"]
    assert found.values("CONTACT", "pay_moe") == ["desk@office.example"]
    (note,) = found.values("NOTE", language="fr")
    assert "##Note##" in note
    assert "Publié par : Office & Söhne" in note
    assert found.values("VALUENOTE", "Indicateur", texts[0], language="fr")[0].endswith("##Seul")


def test_px_estimates_and_integer_tables_are_linked(tmp_path: Path) -> None:
    """Each states which of the two to quote; negative numbers are explained where they occur."""
    release = full_release.publish_release(tmp_path)
    EXPORT.write(release, tmp_path / "x")
    notes = {}
    for folder in ("estimates", "tables"):
        found = read(tmp_path / f"x/px/{folder}/agreed_3.px")
        (notes[folder],) = found.values("NOTEX", language="de")
        count = found.values("VALUES", "Kennzahl", language="de")[0]
        assert found.values("UNITS", count, language="de") == ["Zeilen"]
        below_zero = any(cell.startswith("-") for cell in found.cells)
        assert ("Zahlen unter 0" in notes[folder]) is below_zero
    assert "tables/agreed_3.px" in notes["estimates"]
    assert "estimates/agreed_3.px" in notes["tables"]


def test_px_limits_labels_and_fills_empty_tables(tmp_path: Path) -> None:
    """A value has at most 256 characters; a variable of a table without rows has one value."""
    long = ["x" * 300, "x" * 299, "x" * 256]
    columns = [key("k", pa.string(), long), column("n", pa.int64())]
    some = pa.table({"k": long, "n": [1, 2, 3]})
    private = [key("word", pa.string(), None), column("n", pa.int64())]
    none = pa.table({"word": pa.array([], pa.string()), "n": pa.array([], pa.int64())})
    release = handmade_release(tmp_path, [("some", some, columns), ("none", none, private)])
    EXPORT.write(with_facts(release, tmp_path), tmp_path)
    assert read(tmp_path / "px/some.px").cells == ["1", "2", "3"]
    assert read(tmp_path / "px/none.px").cells == ['"."']
    assert unique_texts(["a", "", "a", "a (2)", '"']) == ["a", "-", "a (2)", "a (2) (2)", "'"]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ([key("a", pa.string(), None), key("b", pa.string(), ["x"])], "only the run finds"),
        ([key(name, pa.int64(), range(50_000)) for name in "ab"], "2,147,483,647"),
        ([], "no table has readable numbers"),
    ],
)
def test_incomplete_cubes_are_refused_for_px(keys: list[Any], problem: str, tmp_path: Path) -> None:
    values = [column("n", pa.int64())] if keys else [column("word", pa.string())]
    arrays = {one.name: pa.array([], one.kind) for one in [*keys, *values]}
    release = handmade_release(tmp_path, [("t", pa.table(arrays), [*keys, *values])])
    (found,) = EXPORT.problems(release.metadata)
    assert problem in found.message
