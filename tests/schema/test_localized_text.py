"""Texts for readers: characters that can't be shown are refused with their location."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dprelease.errors import DpReleaseError, Findings
from dprelease.schema.languages import localized_texts_in
from dprelease.schema.load import Declaration, read_declaration
from dprelease.schema.localized_text import ANY_OF_THEM, NO_TEXT, display_problem

TABLE: dict[str, Any] = {
    "table": "people",
    "source": "people.csv",
    "columns": {
        "sex": {"type": "category", "values": {"F": "Female", "M": "Male"}, "label": "Sex"},
        "town": {"type": "category", "values_from": {"file": "towns.csv", "column": "town", "labels": "name"}, "within": "canton"},
        "canton": {"type": "category", "values": ["BE", "ZH"], "description": "Of residence."},
        "part": {"type": "category", "within": "canton", "values": {"BE": {"b1": "North", "b2": "South"}, "ZH": ["z1"]}},
        "age": {"type": "integer", "lower": 0, "upper": 99, "labels": {99: "99 or more"}, "decimals": 0},
        "adult": {"type": "boolean", "labels": {True: "Adult", False: "Child"}, "footnotes": "From 18."},
        "band": {"cut": "age", "edges": [0, 18, 100], "labels": {"young": "Young", "old": "Old"}},
    },
}  # fmt: skip
RELEASE: dict[str, Any] = {
    "title": "People",
    "about": {
        "publisher": "Office", "contact": "info@office.example", "licence": "CC-BY-4.0",
        "period": "2024", "area": "Somewhere", "version": "1", "replaces": "people-2023",
        "methodology": "https://office.example/methods?of=people#noise", "description": "All.",
        "notes": ["First.", "Second."], "languages": ["en", "fr"], "title": "People of 2024",
    },
    "tables": ["people.yaml"],
    "budget": {"epsilon": 1},
    "queries": {
        "q": {
            "from": "people",
            "label": "People",
            "description": "By sex.",
            "footnotes": ["One.", "Two."],
            "marginals": [["sex"], ["canton", "sex"]],
            "tables": {"q_sex": {"label": "By sex alone", "description": "d", "footnotes": "f"}},
            "histogram": {"column": "age", "edges": [0, 50, 100], "label": "Half"},
            "columns": {"n": {"count": "*", "label": "Persons", "description": "d", "decimals": 0,
                              "footnotes": ["f"]}},
        }
    },
    "output": "out",
}  # fmt: skip
TOWNS = "town,canton,name,nom\nBern,BE,Berne,Berne\nUster,ZH,,\n"

Path_ = tuple[str | int, ...]


def write_files(folder: Path, release: Any, table: Any, towns: str = TOWNS) -> Path:
    (folder / "towns.csv").write_text(towns, encoding="utf-8")
    for name, values in (("people.yaml", table), ("release.yaml", release)):
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=10_000)
        (folder / name).write_text(text.replace("true:", '"true":').replace("false:", '"false":'))
    return folder / "release.yaml"


def read_files(folder: Path, release: Any = RELEASE, table: Any = TABLE) -> Declaration:
    return read_declaration(write_files(folder, release, table))


def codes(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(DpReleaseError) as caught:
        read_declaration(path)
    error = caught.value
    several = error.errors if isinstance(error, Findings) else (error,)
    assert all(one.place.line for one in several), str(error)
    return sorted((one.code, one.place.key) for one in several)


def at(values: Any, path: Path_) -> Any:
    for key in path:
        values = values[key]
    return values


def with_value(values: Any, path: Path_, value: Any) -> Any:
    import copy

    values = copy.deepcopy(values)
    at(values, path[:-1])[path[-1]] = value
    return values


QUERY: Path_ = ("queries", "q")
PLACES: dict[str, list[Path_]] = {
    "release": [
        *(("about", name) for name in ("title", "description")),
        ("about", "notes", 1),
        *((*QUERY, name) for name in ("label", "description")),
        (*QUERY, "footnotes", 0),
        *((*QUERY, "tables", "q_sex", name) for name in ("label", "description", "footnotes")),
        (*QUERY, "histogram", "label"),
        *((*QUERY, "columns", "n", name) for name in ("label", "description")),
        (*QUERY, "columns", "n", "footnotes", 0),
    ],
    "table": [
        ("columns", "sex", "label"),
        ("columns", "sex", "values", "M"),
        ("columns", "canton", "description"),
        ("columns", "part", "values", "BE", "b2"),
        ("columns", "age", "labels", 99),
        ("columns", "adult", "labels", True),
        ("columns", "adult", "footnotes"),
        ("columns", "band", "labels", "old"),
    ],
}
LINES: list[Path_] = [
    ("about", name)
    for name in ("publisher", "contact", "licence", "area", "version", "replaces", "methodology")
]
"""Texts that are no language's own."""


def spots() -> Iterator[tuple[str, Path_]]:
    for document, paths in PLACES.items():
        yield from ((document, path) for path in paths)


def key_of(path: Path_) -> str:
    words = [str(part).lower() if isinstance(part, bool) else part for part in path]
    text = ""
    for word in words:
        text += f"[{word}]" if word in (0, 1) else f".{word}" if text else f"{word}"
    return text


def put(folder: Path, document: str, path: Path_, value: Any) -> Path:
    release = with_value(RELEASE, path, value) if document == "release" else RELEASE
    table = with_value(TABLE, path, value) if document == "table" else TABLE
    return write_files(folder, release, table)


def test_every_place_of_a_text_is_tested(tmp_path: Path) -> None:
    """What the tables below go through is all that there is: a place more is tried too."""
    declaration = read_files(tmp_path)
    table = declaration.tables["people"].table
    found = {key_of(keys) for keys, _ in localized_texts_in(declaration.spec)}
    found |= {key_of(keys) for keys, _ in localized_texts_in(table)}
    beyond = {"about.notes[0]", "columns.sex.values.F", "columns.part.values.BE.b1"}
    beyond |= {"columns.adult.labels.false", "columns.band.labels.young"}
    beyond |= {"columns.town.values_from.labels", "queries.q.footnotes[1]"}
    single = {"columns.adult.footnotes[0]", "queries.q.tables.q_sex.footnotes[0]"}
    tried = {key_of(path) for _, path in spots()}
    assert found - beyond == (tried - {key[:-3] for key in single}) | single


BAD = {
    "two lines": "One\ntwo",
    "a tab": "One\ttwo",
    "a bell": "One\x07",
    "overridden": "One \u202eowt\u202c",
    "isolated": "One \u2066two\u2069",
    "hidden": "O\u200bne",
    "a tag": "One\U000e0041",
    "no character": "One\ufffe",
    "private": "One\ue000",
    "too long": "x" * 1001,
    "empty": "  ",
    "a list": ["One"],
}
GOOD = {
    "a formula": '=HYPERLINK("https://example.org")',
    "a script": "<script>alert(1)</script>",
    "Persian, with a joiner": "می\u200cخواهم",
    "Hebrew, with a mark": "אב\u200f (2024)",
    "an emoji": "👩\u200d👩\u200d👧 \u2764\ufe0f",
    "quotes": "L’“âge” d'or & <b>",
    "of white ends": "  One \n",
}


@pytest.mark.share(0.25)
@pytest.mark.parametrize("what", BAD)
def test_undisplayable_texts_are_refused(what: str, tmp_path: Path) -> None:
    for document, path in [*spots(), *(("release", line) for line in LINES)]:
        if what == "a list" and (path[-1] in (0, 1) or path[-1] == "footnotes"):
            continue  # of texts a list is one
        found = codes(put(tmp_path, document, path, BAD[what]))
        assert found == [("DP-LABEL-001", key_of(path))], (document, path)


@pytest.mark.parametrize("what", GOOD)
def test_displayable_texts_are_accepted(what: str, tmp_path: Path) -> None:
    for document, path in spots():
        read_declaration(put(tmp_path, document, path, GOOD[what]))


LANGUAGES = {
    "both": ({"en": "One", "fr": "Un"}, None),
    "in another order and case": ({"FR": "Un", "En": "One"}, None),
    "one lacks": ({"en": "One"}, "DP-LABEL-002"),
    "one more": ({"en": "One", "fr": "Un", "de": "Eins"}, "DP-LABEL-002"),
    "no tag": ({"en": "One", "french": "Un"}, "DP-LABEL-004"),
    "twice": ({"en": "One", "EN": "One", "fr": "Un"}, "DP-LABEL-004"),
    "empty in one": ({"en": "One", "fr": ""}, "DP-LABEL-001"),
    "two lines in one": ({"en": "One\ntwo", "fr": "Un"}, "DP-LABEL-001"),
    "none": ({}, "DP-LABEL-001"),
    "languages in a language": ({"en": {"fr": "Un"}, "fr": "Un"}, "DP-LABEL-001"),
}


@pytest.mark.parametrize("what", LANGUAGES)
def test_texts_are_in_the_languages_of_the_release(what: str, tmp_path: Path) -> None:
    value, code = LANGUAGES[what]
    for document, path in spots():
        file = put(tmp_path, document, path, value)
        if code is None:
            read_declaration(file)
            continue
        ((found, key),) = codes(file)
        assert found == code
        assert key.startswith(key_of(path)), (key, path)


def test_undeclared_languages_are_refused(tmp_path: Path) -> None:
    """A text in one language needs that it is declared; one without a language needs nothing."""
    release = {name: value for name, value in RELEASE.items() if name != "about"}
    read_files(tmp_path, release)
    for document, path in spots():
        if path[0] == "about":
            continue
        both = {"release": release, "table": TABLE}
        both[document] = with_value(both[document], path, {"en": "One"})
        ((code, key),) = codes(write_files(tmp_path, both["release"], both["table"]))
        assert (code, key.removesuffix("[0]")) == ("DP-LABEL-002", key_of(path).removesuffix("[0]"))


ABOUT = {
    "period": {
        "2024": "2024-01-01/2024-12-31", "2024-02": "2024-02-01/2024-02-29",
        "2024-02-29": "2024-02-29", "2023-07/2024-06": "2023-07-01/2024-06-30",
        "2024-03-01/2024-03-01": "2024-03-01",
        "2024-13": None, "2023-02-29": None, "2025/2024": None, "spring": None, "2024/": None,
        "2024/2025/2026": None, "0000": None,
    },
    "methodology": {
        "http://a.example": "http://a.example", "https://[::1]:80/a%20b?c=d&e=f#g": "https://[::1]:80/a%20b?c=d&e=f#g",
        "javascript:alert(1)": None, "https://a.example/\"onclick=": None, "a.example": None,
        "https://a.example/<b>": None, "file:///etc/passwd": None, "https://": None, "https://a b": None,
    },
    "languages": {
        "en": ("en",), "ZH-hant-tw": ("zh-Hant-TW",), "de-1996": None, "de-CH-1996a": ("de-CH-1996a",), "x": None, "en_GB": None,
        "english": None, "": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ABOUT)
def test_metadata_of_a_release(name: str, tmp_path: Path) -> None:
    release = with_value(RELEASE, ("about",), {})
    for text, wanted in ABOUT[name].items():
        file = write_files(tmp_path, with_value(release, ("about", name), text), TABLE)
        if wanted is None:
            code = "DP-LABEL-004" if name == "languages" else "DP-DECL-003"
            ((found, key),) = codes(file)
            assert (found, key.partition("[")[0]) == (code, f"about.{name}"), text
        else:
            about = read_declaration(file).spec.about
            assert getattr(about, name) == wanted, text


FILES = {
    "a label for each": ("town,canton,name\nBern,BE,Berne\nUster,ZH,Ustre\n", "name", None),
    "of some": ("town,canton,name\nBern,BE,Berne\nUster,ZH, \n", "name", None),
    "by language": (TOWNS, {"en": "name", "fr": "nom"}, None),
    "in one language of two": (TOWNS.replace(",Berne\n", ",\n"), {"en": "name", "fr": "nom"}, "DP-LABEL-002"),
    "hidden": (TOWNS.replace("Berne", "Be\u200brne"), "name", "DP-LABEL-001"),
    "of two lines": (TOWNS.replace("Berne", '"Be\nrne"'), "name", "DP-LABEL-001"),
    "too long": (TOWNS.replace("Berne", "x" * 201), "name", "DP-LABEL-001"),
    "no such column": (TOWNS, "title", "DP-SCHEMA-004"),
    "a column twice": (TOWNS.replace("nom", "name"), "name", "DP-SCHEMA-004"),
    "a line that a spreadsheet left": (TOWNS + ",,,\n", "name", "DP-SCHEMA-004"),
    "a language that is not declared": (TOWNS, {"en": "name", "de": "nom"}, "DP-LABEL-002"),
    "no text": (TOWNS, ["name"], "DP-LABEL-001"),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_labels_in_files_of_values(what: str, tmp_path: Path) -> None:
    towns, labels, code = FILES[what]
    table = with_value(TABLE, ("columns", "town", "values_from", "labels"), labels)
    file = write_files(tmp_path, RELEASE, table, towns)
    if code is None:
        column = read_declaration(file).tables["people"].table.columns["town"]
        assert column.values == ("Bern", "Uster")
        assert column.value_labels["Bern"].texts(("en", "fr")) == {"en": "Berne", "fr": "Berne"}
        assert ("Uster" in column.value_labels) is (what == "a label for each")
        return
    ((found, key),) = codes(file)
    assert found == code
    assert key.startswith("columns.town.values_from")


NO_VALUES = {
    "a number beyond": (("columns", "age", "labels"), {100: "Old"}),
    "a number spelt otherwise": (("columns", "age", "labels"), {"+9": "Nine"}),
    "no truth value": (("columns", "adult", "labels"), {"yes": "Adult"}),
    "too few cells": (("columns", "band", "labels"), {"young": "Young"}),
    "no bounds": (("columns", "age"), {"type": "integer", "labels": {9: "Nine"}}),
}


@pytest.mark.parametrize("what", NO_VALUES)
def test_labels_of_unknown_values_are_refused(what: str, tmp_path: Path) -> None:
    path, value = NO_VALUES[what]
    (found, *_) = codes(put(tmp_path, "table", path, value))
    assert found[0] == ("DP-SCHEMA-006" if what == "too few cells" else "DP-LABEL-003")
    assert found[1].startswith(key_of(path))


def test_values_by_area_need_their_area(tmp_path: Path) -> None:
    values = {"BE": ["b1"], "ZH": ["z1"]}
    file = put(tmp_path, "table", ("columns", "sex", "values"), values)
    assert codes(file) == [("DP-DECL-003", "columns.sex.values")]


def test_refused_characters_are_named() -> None:
    """Each mark that is refused has words; the largest set has all of them."""
    for words, marks in NO_TEXT:
        for code in range(0x110000):
            if marks.match(chr(code)):
                assert ANY_OF_THEM.match(chr(code))
                problem = display_problem(f"a{chr(code)}b", 10)
                assert problem is not None
                assert f"U+{code:04X}" in problem
                break
        else:
            raise AssertionError(words)


def test_bad_label_hides_no_other_error(tmp_path: Path) -> None:
    """The column is what it was: what is asked of it is looked at all the same."""
    from dprelease.schema.mistakes.partial_validation import valid_parts

    table = with_value(TABLE, ("columns", "sex", "label"), "One\ntwo")
    left = valid_parts(write_files(tmp_path, RELEASE, table)).declaration
    assert left is not None
    assert left.spec.queries["q"].table_keys == (("sex",), ("canton", "sex"))
