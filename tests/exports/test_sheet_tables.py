"""Sheets of workbooks: all tables of a query, areas above areas, quality, languages, estimates."""

from __future__ import annotations

import importlib
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openpyxl import load_workbook

from dprelease.documents.metadata import CodeList, Role
from dprelease.exports.export import PublishedRelease
from dprelease.exports.workbooks.book import GREY
from dprelease.exports.workbooks.excel import EXPORT
from dprelease.exports.workbooks.sheet_tables import sheet_tables
from dprelease.exports.workbooks.words import workbook_words
from dprelease.query.quality import AT_BOUND, BLANKS, CODES, SIGNS, TO_AVOID
from tests.exports.build import column, handmade_release, key, release_with_all_metadata

TEXT, WHOLE, REAL = pa.string(), pa.int64(), pa.float64()
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pt")


def release_by_hand(folder: Path, tables: Any, wide: Any = (), **about: Any) -> PublishedRelease:
    """Return a release of handmade tables, with a manifest that has all texts."""
    made = handmade_release(folder, tables, wide, **about)
    said = release_with_all_metadata(folder / "other").record
    return replace(made, record=said.model_copy(update={"files": made.record.files}))


def rows_of(release: PublishedRelease, folder: Path, *, name: str = "release") -> list[list[Any]]:
    """Return the cells of the first table of a workbook, heads first."""
    EXPORT.write(release, folder)
    sheet = load_workbook(folder / f"excel/{name}.xlsx")["Table 1"]
    first, last = next(iter(sheet.tables.values())).ref.split(":")
    return [[cell.value for cell in row] for row in sheet[first:last]]


def text_below(sheet: Any) -> str:
    """Return the texts of the first column of a sheet, whose lines are in cells of their own."""
    return " ".join(str(cell.value) for cell in sheet["A"])


def area(name: str, level: int, values: list[str], parents: list[int]) -> Any:
    """Return a level of areas as a key."""
    return column(name, TEXT, Role.KEY, codes=CodeList(values, {}, level, parents))


def hierarchy(folder: Path, wide: Any = ()) -> PublishedRelease:
    """Return a release of two states with three counties, by sex, with all totals."""
    state = area("state", 1, ["A", "B"], [0, 0])
    county = area("county", 2, ["z", "a", "m"], [0, 0, 1])
    sex, n = key("sex", TEXT, ["M", "F"]), column("n", WHOLE)
    tables = []
    for place, codes in ((None, [""]), (state, ["A", "B"]), (county, ["z", "a", "m"])):
        for by_sex in (False, True):
            keys = [*([place] if place else []), *([sex] if by_sex else [])]
            cells = [(code, one) for code in codes for one in ("MF" if by_sex else " ")]
            rows = {
                **({place.name: [code for code, _ in cells]} if place else {}),
                **({"sex": [one for _, one in cells]} if by_sex else {}),
                "n": [10 * (codes.index(code) + 1) + "MF ".index(one) for code, one in cells],
            }
            name = f"tables/q_{'_'.join(one.name for one in keys) or 'total'}"
            tables.append((name, pa.table(rows), [*keys, n]))
    made = release_by_hand(folder, tables, wide)
    named = tuple(replace(table, query="q") for table in made.metadata.tables)
    return replace(made, metadata=replace(made.metadata, tables=named))


def test_areas_are_listed_below_their_parent_areas(tmp_path: Path) -> None:
    """Totals come first; each county has its state, in the declared order of areas."""
    heads, *rows = rows_of(hierarchy(tmp_path), tmp_path)
    assert heads == ["state", "county", "sex", "n"]
    places = [
        ("Total", "Total"),
        ("A", "Total"),
        ("A", "z"),
        ("A", "a"),
        ("B", "Total"),
        ("B", "m"),
    ]
    assert [tuple(row[:3]) for row in rows] == [
        (*place, sex) for place in places for sex in ("Total", "M", "F")
    ]
    numbers = {tuple(row[:3]): row[3] for row in rows}
    assert numbers["A", "a", "F"] == 21
    assert numbers["B", "m", "Total"] == 32
    assert numbers["Total", "Total", "M"] == 10


def test_a_wide_sheet_has_totals_in_columns_and_rows(tmp_path: Path) -> None:
    heads, *rows = rows_of(hierarchy(tmp_path, ["sex"]), tmp_path)
    assert heads == ["state", "county", "n: total", "n: M", "n: F"]
    assert rows[0] == ["Total", "Total", 12, 10, 11]
    assert rows[3] == ["A", "a", 22, 20, 21]
    assert len(rows) == 6


def test_marginals_without_a_joint_table_share_a_sheet(tmp_path: Path) -> None:
    """No table has both keys, so each row is a total over one of them."""
    a, b, n = key("a", TEXT, ["x"]), key("b", WHOLE, [7, 3]), column("n", WHOLE)
    tables = [
        ("q_a", pa.table({"a": ["x"], "n": [1]}), [a, n]),
        ("q_b", pa.table({"b": [7, 3], "n": [2, 3]}), [b, n]),
    ]
    _, *rows = rows_of(release_by_hand(tmp_path, tables), tmp_path)
    assert rows == [["Total", 7, 2], ["Total", 3, 3], ["x", "Total", 1]]


def test_contents_lead_to_the_first_row_of_every_table(tmp_path: Path) -> None:
    """The contents list each table, although all tables are on one sheet."""
    a, b, n = key("a", TEXT, ["x"]), key("b", WHOLE, [7, 3]), column("n", WHOLE)
    tables = [
        ("q", pa.table({"n": [6]}), [n]),
        ("q_a", pa.table({"a": ["x"], "n": [1]}), [a, n]),
        ("q_b", pa.table({"b": [7, 3], "n": [2, 3]}), [b, n]),
    ]
    EXPORT.write(release_by_hand(tmp_path, tables), tmp_path)
    book = load_workbook(tmp_path / "excel/release.xlsx")
    words, sheet = workbook_words("en"), book["Table 1"]
    lines = [row for row in book["Contents"].iter_rows() if row[0].value == "Table 1"]
    firsts = [row[0].hyperlink.location.partition("!A")[2] for row in lines]
    assert [row[2].value for row in lines] == firsts
    found = [[cell.value for cell in sheet[int(first)]] for first in firsts]
    assert found == [["Total", "Total", 6], ["x", "Total", 1], ["Total", 7, 2]]
    parts = [words.say("in_all"), words.say("by", keys="a"), words.say("by", keys="b")]
    for part, row in zip(parts, lines, strict=True):
        assert row[1].value.endswith(part)
        assert part in sheet["A1"].value


def release_with_qualities(folder: Path, **about: Any) -> PublishedRelease:
    """Return a release with a number of each quality."""
    table = pa.table(
        {
            "k": list(range(len(CODES))),
            "pay": [None if code in BLANKS else 1234.5 for code in CODES],
            "pay_moe": pa.array([None if code in BLANKS else 1.0 for code in CODES], REAL),
            "pay_quality": list(CODES),
        }
    )
    codes = CodeList(CODES, {code: {"en": f"Label of {code}"} for code in CODES})
    columns = [
        key("k", WHOLE, range(len(CODES))),
        column("pay", REAL, unit="CHF", decimals=1),
        column("pay_moe", REAL, Role.MARGIN, "pay", unit="CHF", confidence="0.95"),
        replace(column("pay_quality", TEXT, Role.QUALITY, "pay"), codes=codes),
    ]
    return release_by_hand(folder, [("q", table, columns)], **about)


def test_every_quality_is_visible(tmp_path: Path) -> None:
    """Unreliable numbers have another style, empty cells a sign, and a legend explains them."""
    EXPORT.write(release_with_qualities(tmp_path), tmp_path)
    sheet = load_workbook(tmp_path / "excel/release.xlsx")["Table 1"]
    heads, *rows = sheet["A3" : f"D{3 + len(CODES)}"]
    assert [cell.value for cell in heads] == [
        "k", "pay (CHF)", "pay_quality", "pay_moe (95 %, CHF)"
    ]  # fmt: skip
    for code, (_, value, quality, margin) in zip(CODES, rows, strict=True):
        assert quality.value == SIGNS.get(code, code)
        weak = bool(value.font.italic) and value.font.color.rgb.endswith(GREY[1:])
        assert weak == (code in TO_AVOID) == bool(quality.font.italic)
        if code in BLANKS:
            assert (value.value, margin.value) == (SIGNS[code], SIGNS[code])
            assert value.alignment.horizontal == "right"
        else:
            assert value.value == 1234.5
            assert value.number_format.startswith("#,##0.0")
            assert (SIGNS[AT_BOUND] in value.number_format) == (code == AT_BOUND)
    below = {row[0].value for row in sheet.iter_rows(min_row=4 + len(CODES))}
    assert {f"{SIGNS.get(code, code)}: Label of {code}." for code in CODES} <= below


def test_legend_has_only_codes_that_occur(tmp_path: Path) -> None:
    release = release_with_qualities(tmp_path)
    table = pa.table({"k": [0], "pay": [1.5], "pay_moe": [0.1], "pay_quality": ["B"]})
    from dprelease.tables.formats import write_table

    write_table(table, release.folder / release.metadata.tables[0].file)
    EXPORT.write(release, tmp_path)
    sheet = load_workbook(tmp_path / "excel/release.xlsx")["Table 1"]
    below = [row[0].value or "" for row in sheet.iter_rows(min_row=5)]
    assert "B: Label of B." in below
    assert not [line for line in below if any(f"Label of {one}." in line for one in "ACD")]


def test_estimates_of_integer_tables_have_their_own_file(tmp_path: Path) -> None:
    """Estimates of a query without integer tables are its official figures."""
    keys, n = key("k", TEXT, ["a"]), column("n", WHOLE)
    table, real = pa.table({"k": ["a"], "n": [1]}), pa.table({"k": ["a"], "n": [1.25]})
    tables = [
        ("estimates/p", real, [keys, column("n", REAL)]),
        ("tables/p", table, [keys, n]),
        ("estimates/q", real, [keys, column("n", REAL)]),
    ]
    made = release_by_hand(tmp_path, tables)
    named = tuple(replace(one, query=one.name.rpartition("/")[2]) for one in made.metadata.tables)
    release = replace(made, metadata=replace(made.metadata, tables=named))
    official = [one.main.name for one in sheet_tables(release.metadata, estimates=False)]
    assert sorted(official) == ["estimates/q", "tables/p"]
    names = EXPORT.write(release, tmp_path)
    assert names == ["excel/release.xlsx", "excel/estimates.xlsx"]
    assert rows_of(release, tmp_path, name="estimates")[1] == ["a", 1.25]


@pytest.mark.parametrize("language", [*LANGUAGES, "de-CH", "und", "ru"])
def test_workbook_texts_exist_in_every_language(language: str) -> None:
    """Every language has the texts of English, with the same places."""
    known = language[:2] if language[:2] in LANGUAGES else "en"
    words, english = workbook_words(language), workbook_words("en")
    module = importlib.import_module(f"dprelease.exports.workbooks.words.{known}")
    assert words.sentences is module.WORDS
    assert list(words.sentences) == list(english.sentences)
    for name, text in words.sentences.items():
        places = [
            {one[1] for one in string.Formatter().parse(of)}
            for of in (text, english.sentences[name])
        ]
        assert places[0] == places[1], name
    if known != "en":
        same = [name for name, text in words.sentences.items() if text == english.sentences[name]]
        assert len(same) < 8, same


@pytest.mark.parametrize(
    ("text", "shown"), [("0.99954", "0,9996"), ("1", "1"), ("0.000000001", "0,000000001")]
)
def test_privacy_parameters_are_rounded_up(text: str, shown: str) -> None:
    words = workbook_words("de")
    assert words.parameter(text) == shown
    assert words.bound(0.73101) == "73,2"
    assert words.percent("0.95") == "95"


def test_workbook_texts_are_in_its_language(tmp_path: Path) -> None:
    release = release_with_qualities(
        tmp_path, languages=("fr", "de"), titles={"fr": "Salaires", "de": "Löhne"}
    )
    assert EXPORT.write(release, tmp_path) == ["excel/release_fr.xlsx", "excel/release_de.xlsx"]
    for tag, sheets, title in (
        ("fr", ["Couverture", "Sommaire", "Notes", "Tableau 1", "Annexe"], "Salaires"),
        ("de", ["Titelblatt", "Inhalt", "Hinweise", "Tabelle 1", "Anhang"], "Löhne"),
    ):
        book = load_workbook(tmp_path / f"excel/release_{tag}.xlsx")
        assert book.sheetnames == sheets
        assert book.worksheets[0]["A1"].value == title
        assert int(book.worksheets[0].page_setup.fitToHeight) == 2


def test_different_labels_of_one_sheet_are_shown(tmp_path: Path) -> None:
    """Totals have other contribution limits than their parts; head and notes state both."""
    place, limits = key("a", TEXT, ["x"]), (3, 2)
    labels = [{"en": f"Stays, at most {most} per patient"} for most in limits]
    tables = [
        ("q_a", pa.table({"a": ["x"], "n": [1]}), [place, column("n", WHOLE, label=labels[0])]),
        ("q", pa.table({"n": [2]}), [column("n", WHOLE, label=labels[1])]),
    ]
    release = release_by_hand(tmp_path, tables)
    heads, *_ = rows_of(release, tmp_path)
    assert heads[-1] == "Stays, at most 3 per patient / at most 2 per patient"
    sheet = load_workbook(tmp_path / "excel/release.xlsx")["Table 1"]
    below = {row[0].value for row in sheet.iter_rows()}
    assert {
        "Stays, at most 3 per patient: a",
        "Stays, at most 2 per patient: Total",
    } <= below


@pytest.mark.parametrize("is_set", [False, True])
def test_flags_that_are_never_set_have_no_column(tmp_path: Path, is_set: bool) -> None:
    """If one is set, a note below the table says what it means."""
    columns = [
        key("a", TEXT, ["x", "y"]),
        column("n", WHOLE),
        column("n_adjusted", pa.bool_(), Role.FLAG, of="n"),
    ]
    rows = pa.table({"a": ["x", "y"], "n": [1, 2], "n_adjusted": [False, is_set]})
    release = release_by_hand(tmp_path, [("tables/q", rows, columns)])
    heads, *cells = rows_of(release, tmp_path)
    assert heads == ["a", "n", *["n_adjusted"] * is_set]
    assert cells == [["x", 1, *[False] * is_set], ["y", 2, *[True] * is_set]]
    sheet = load_workbook(tmp_path / "excel/release.xlsx")["Table 1"]
    note = workbook_words("en").say("adjusted", column="adjusted")
    assert (note in text_below(sheet)) == is_set


def test_both_workbooks_state_which_numbers_to_use(tmp_path: Path) -> None:
    """On the covers, and below the tables whose numbers are in both of them."""
    keys, n = key("k", TEXT, ["a"]), column("n", WHOLE)
    table, real = pa.table({"k": ["a"], "n": [1]}), pa.table({"k": ["a"], "n": [1.25]})
    tables = [
        ("estimates/p", real, [keys, column("n", REAL)]),
        ("tables/p", table, [keys, n]),
        ("q", table, [keys, n]),
    ]
    made = release_by_hand(tmp_path, tables)
    named = tuple(replace(one, query=one.name.rpartition("/")[2]) for one in made.metadata.tables)
    EXPORT.write(replace(made, metadata=replace(made.metadata, tables=named)), tmp_path)
    words = workbook_words("en")
    for name, other in (("official", "estimates"), ("estimates", "release")):
        file = "release" if name == "official" else name
        book = load_workbook(tmp_path / f"excel/{file}.xlsx")
        note = words.say(f"{name}_meaning", file=f"{other}.xlsx")
        there = [sheet.title for sheet in book.worksheets if note in text_below(sheet)]
        assert there == ["Cover", "Table 1"]
    sheet = load_workbook(tmp_path / "excel/release.xlsx")["Table 1"]
    assert words.say("raised") in text_below(sheet)
