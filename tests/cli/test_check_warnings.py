"""`check` warns, with code and line, about valid declarations that are probably wrong."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from dprelease.schema.public_values.odd_characters import (
    LATIN_LOOKALIKES,
    odd_characters,
    odd_texts,
)
from tests.cli.test_early_checks import call, write


def warnings_of(folder: Path, column: str, where: str = "true", derive: str = "{}") -> list[str]:
    """Return code, line and key of each warning about a column and a condition of a release."""
    path = write(folder, "people.parquet")
    schema = folder / "people.yaml"
    text = schema.read_text().replace("upper: 99}", "upper: 98}")
    schema.write_text(f"{text}  code: {column}\n", encoding="utf-8")
    text = path.read_text()
    asked = f"{{from: people, where: {json.dumps(where)}, derive: {derive},"
    path.write_text(text.replace("{from: people,", asked), encoding="utf-8")
    exit_code, out = call("check", path, "--json")
    assert exit_code == 0, out
    found = json.loads(out)["warnings"]
    words = " ".join(call("check", path)[1].split())
    assert all(f"{one['code']} " in words for one in found)
    lines = {one["file"]: (folder / one["file"]).read_text().splitlines() for one in found}
    for one in found:  # the line is that of the key
        names = [part for part in one["key"].replace("[", ".").split(".") if not part[0].isdigit()]
        assert any(name in lines[one["file"]][one["line"] - 1] for name in names[-2:])
    return [f"{one['code']} {one['key']}" for one in found]


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("{type: integer, lower: 0, upper: 99}", ["DP-MISSING-005 columns.code.upper"]),
        ("{type: number, lower: 0, upper: 9999}", ["DP-MISSING-005 columns.code.upper"]),
        ("{type: integer, lower: 0, upper: 99, missing: []}", []),
        ("{type: integer, lower: 0, upper: 99, missing: 99}", []),
        ("{type: integer, lower: 0, upper: 98}", []),
        ("{type: integer, lower: 0, upper: 9}", []),
        ("{type: integer}", []),
        ("{type: integer, lower: 0, upper: 98, nulls: 3}", ["DP-MISSING-004 columns.code.nulls"]),
        ("{type: boolean, nulls: true}", ["DP-MISSING-004 columns.code.nulls"]),
        ("{cut: age, edges: [0, 50], nulls: 0-49}", ["DP-MISSING-004 columns.code.nulls"]),
        ("{cut: age, edges: [0, 50], fill: 0-49}", []),
    ],
)
def test_warnings_about_bounds_and_keys(column: str, found: list[str], tmp_path: Path) -> None:
    assert warnings_of(tmp_path, column) == found


def test_warning_about_deprecated_key_in_a_query(tmp_path: Path) -> None:
    derive = "{old: {expression: age > 9, type: boolean, nulls: true}}"
    (found,) = warnings_of(tmp_path, "{type: text}", derive=derive)
    assert found.startswith("DP-MISSING-004 queries.")
    assert found.endswith(".derive.old.nulls")


ODD = {
    "no-break space": ("Sao\u00a0Paulo", "U+00A0 NO-BREAK SPACE"),
    "zero width": ("Z\u200burich", "U+200B ZERO WIDTH SPACE"),
    "byte order mark": ("\ufeffA1", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
    "soft hyphen": ("Grau\u00adbünden", "U+00AD SOFT HYPHEN"),
    "right to left": ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
    "control": ("a\tb", "U+0009 "),
    "leading": (" a", "U+0020 SPACE at an end"),
    "trailing": ("a ", "U+0020 SPACE at an end"),
    "decomposed": (unicodedata.normalize("NFD", "Zürich"), "DIAERESIS"),
    "Cyrillic": ("B\u0430sel", "U+0430 CYRILLIC SMALL LETTER A, which looks like a"),
    "Greek": ("\u0391B", "U+0391 GREEK CAPITAL LETTER ALPHA, which looks like A"),
    "filler": ("a\u3164", "U+3164 HANGUL FILLER"),
    "selector": ("a\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
}
FINE = ["Zürich", "Île-de-France", "Москва", "Αθήνα", "東京", "São Paulo", "μg", "a b", "", "É"]


@pytest.mark.parametrize("name", ODD)
def test_warning_about_invisible_and_lookalike_characters(name: str, tmp_path: Path) -> None:
    text, words = ODD[name]
    (found, *_) = odd_characters(text)
    assert words in found
    values = json.dumps([*FINE[:5], text])
    assert warnings_of(tmp_path, f"{{type: category, values: {values}}}") == [
        "DP-CHAR-001 columns.code.values[5]"
    ]
    assert not any(odd_characters(fine) for fine in FINE)


def test_odd_characters_are_found_in_declared_texts(tmp_path: Path) -> None:
    """In labels of cuts, missing codes, files of values and conditions, but not in words of SQL."""
    cases = {
        '{cut: age, edges: [0, 9, 99], labels: ["young\\u00a0", old]}': "labels[0]",
        '{type: integer, missing: ["k.\\u00a0A."]}': "missing",
        "{type: category, values_from: {file: codes.csv, column: A}}": "values",
        '{type: category, values: {"a\\u200b": A, b: B}}': "values.a\u200b",
        """{type: text, expression: "CASE WHEN age > 3 THEN 'x\\u00a0' END"}""": "expression",
    }
    for i, (column, key) in enumerate(cases.items()):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "codes.csv").write_text("A\nx\ny\u00ad\n", encoding="utf-8")
        (found,) = warnings_of(folder, column)
        assert found.startswith(f"DP-CHAR-001 columns.code.{key}")
    folder = tmp_path / "where"
    folder.mkdir()
    (found,) = warnings_of(folder, "{type: text}", "code = 'it''s\u00a0x' AND code <> 'y'")
    assert found.startswith("DP-CHAR-001 queries.")


def test_cyrillic_letter_is_odd_only_among_latin_texts() -> None:
    assert [text for text, _ in odd_texts(["A", "B", "\u0421"])] == ["\u0421"]
    assert not list(odd_texts(["\u0410", "\u0411", "\u0421"]))


def test_lookalikes_are_cyrillic_or_greek() -> None:
    for letter, latin in LATIN_LOOKALIKES.items():
        script = unicodedata.name(letter).split()[0]
        assert script in ("CYRILLIC", "GREEK")
        assert unicodedata.name(latin).startswith("LATIN ")
        assert letter.isupper() == latin.isupper()
