"""YAML is read as plain text, mappings and lists, with places, under limits (V65)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DeclarationError
from dprelease.schema.yaml_text.reader import parse_yaml

HERE = Path("file.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "1e-9",
        "010",
        "1_0",
        "12:30",
        "no",
        "on",
        "NO",
        "1.10",
        "08",
        "0x10",
        "9007199254740993.0",
        ".inf",
        "2024-01-01",
        "~x",
    ],
)
def test_scalars_stay_text(text: str) -> None:
    assert parse_yaml(f"a: {text}\n", HERE).values == {"a": text}


def test_empty_and_quoted_empty_scalars() -> None:
    assert parse_yaml("a:\nb: ''\nc: null\nd: 'null'\n", HERE).values == {
        "a": None,
        "b": "",
        "c": None,
        "d": "null",
    }


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x [1]\nb: *x\n", "DP-YAML-004"),
        ("a: &x 1\n", "DP-YAML-004"),
        ("a: !!python/object/apply:os.system ['true']\n", "DP-YAML-004"),
        ("a: !!str 1\n", "DP-YAML-004"),
        ("a: {<<: {b: 1}}\n", "DP-YAML-004"),
        ("[a, b]\n", "DP-YAML-007"),
        ("text\n", "DP-YAML-007"),
        ("", "DP-YAML-007"),
        ("a: 1\n---\nb: 2\n", "DP-YAML-007"),
        ("? [a]\n: b\n", "DP-YAML-007"),
        ("a: [", "DP-YAML-003"),
        ("a: \x00\n", "DP-YAML-003"),
        ("a:\n\t- b\n", "DP-YAML-003"),
        ("a: " + "[" * 2000 + "]" * 2000, "DP-YAML-006"),
        ("".join(" " * i + "a:\n" for i in range(1200)), "DP-YAML-006"),
        ("a: [" + "1," * 200_001 + "]", "DP-YAML-006"),
        (
            "a: &a ["
            + "x," * 9
            + "]\n"
            + "".join(
                f"{c}: &{c} [" + f"*{p}," * 9 + "]\n"
                for p, c in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "DP-YAML-004",
        ),
    ],
)
def test_yaml_features_beyond_plain_text_are_refused(text: str, code: str) -> None:
    with pytest.raises(DeclarationError, match=code):
        parse_yaml(text, HERE)


@pytest.mark.parametrize(
    ("text", "told", "values"),
    [
        ("a: 1\na: 2\n", ["DP-YAML-005 2 a"], {"a": "1"}),
        ("a: {b: 1, b: 2}\n", ["DP-YAML-005 1 a.b"], {"a": {"b": "1"}}),
        ("a: 1\na: {b: [c, {d: 2}], e:}\nf: 3\n", ["DP-YAML-003 2 "], None),
        ("a: 1\na: {b: [c, {d: 2}], e: }\nf: 3\n", ["DP-YAML-005 2 a"], {"a": "1", "f": "3"}),
        ("a:\nb: 1\n", ["DP-YAML-010 1 a"], {"a": None, "b": "1"}),
        ("a:\n  - b\n  -\n", ["DP-YAML-010 3 a[1]"], {"a": ["b", None]}),
        ("a: {b: 0,5}\n", ["DP-YAML-010 1 a.5"], {"a": {"b": "0", "5": None}}),
        ("a: x${Y}\nb:\n", ["DP-YAML-008 1 a", "DP-YAML-010 2 b"], {"a": "x${Y}", "b": None}),
        ("a: null\nb: ~\nc: ''\n", [], {"a": None, "b": None, "c": ""}),
    ],
)
def test_yaml_errors_keep_the_other_values(text: str, told: list[str], values: object) -> None:
    """Findings that leave the rest to be read; nothing is taken for a value that is not written."""
    found: object = None
    try:
        document = parse_yaml(text, HERE)
        errors = list(document.findings.values())
        found = document.values
    except DeclarationError as error:
        errors = [error]
    assert [f"{e.code} {e.place.line} {e.place.key}" for e in errors] == told
    assert found == values


BROKEN = {
    "title:People\ntables:\n  - a\n": (1, "a space is missing after the colon"),
    "a: 1\nb:2\n": (2, "a space is missing after the colon"),
    "a:\n  b:2\n\n  c: 3\n": (2, "a space is missing after the colon"),
    "a:\n  count: *\n": (2, "can't start with \\*"),
    "a: {b: %d/%m}\n": (1, "can't start with %"),
    "a: @b\n": (1, "can't start with @"),
    "a: > 5\n": (1, "can't start with >"),
    "a: , b\n": (1, "can't start with ,"),
    "a: [b, @c]\n": (1, "can't start with @"),
    "a: {b: c, %d: e}\n": (1, "can't start with %"),
    "a: [b,, c]\n": (1, "a comma has no value before it"),
    "a:\n- [, b]\n": (2, "a comma has no value before it"),
    "a: 'F' = sex\n": (1, "more text follows"),
    'a: "age" >= 18\nb: 1\n': (1, "more text follows"),
    "a: [b\nc: 1\nd: 2\n": (1, "the bracket that opens here"),
    "a: {b: 1\nc: 1\n": (1, "the brace that opens here"),
    "a: {b: 1 c: 2}\n": (1, "a comma is missing"),
    "a: People: all\n": (1, "a colon followed by a space"),
    "a: 'x\nb: 1\n": (1, "the quote that opens here"),
    'a: "C:\\data"\n': (1, "contains a backslash"),
    "a:\n    b: 1\n   c: 2\n": (3, "not indented like"),
    "a:\n  b: 1\n    c: 2\n": (3, "indented deeper"),
    "a:\n  - b\n  c: 1\n": (3, "a key is among list items"),
    "a:\n  c: 1\n  - b\n": (3, "a list item is among keys"),
    "a: 1\nb\nc: 2\n": (2, "the line has no key"),
    "title P\ntables: [a]\nb: 1\n": (1, "the line has no key"),
    "a:\n  b\n\n  c: 1\n": (2, "the line has no key"),
    "a: {lower: - 5, u: 1}\n": (1, "a dash followed by a space"),
    "a: - 5\n": (1, "a dash followed by a space"),
    "a: b]\nc: [a]]\n": (2, "more text after the end"),
    "a: {epsilon:}\n": (1, "a key has no value"),
    "a:\n  b: 1\n\tc: 2\n": (3, "with a tab"),
    "a:\n\u00a0\u00a0b: 1\n  c: 2\n": (2, "a special space character"),
    "a: 1\nb: \x07\n": (2, "a control character"),
    "a: 1\r\nb:2\r\nc: 3\r\n": (2, "a space is missing"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_syntax_errors_name_the_line_to_fix(text: str) -> None:
    line, words = BROKEN[text]
    with pytest.raises(DeclarationError, match=words) as caught:
        parse_yaml(text, HERE)
    assert (caught.value.code, caught.value.place.line) == ("DP-YAML-003", line)
    assert "expected" not in str(caught.value)  # no words of the parser's


def test_places_of_values() -> None:
    document = parse_yaml("a:\n  b:\n    - x\n    - {c: 1}\n", HERE)
    place = document.place("a", "b", 1, "c")
    assert str(place) == "file.yaml:4  a.b[1].c"
    assert document.place("a", "zz").line == 1


PLAIN = st.recursive(
    st.text(
        st.characters(
            codec="utf-8",
            exclude_characters="\x00\x7f\ufeff",
            exclude_categories=("Cc", "Cs", "Cn", "Co"),
        ),
        max_size=8,
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abcde", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abcde", min_size=1, max_size=3), PLAIN, min_size=1, max_size=4))
def test_plain_documents_read_back(values: dict[str, object]) -> None:
    text = yaml.safe_dump(values, allow_unicode=True, default_style='"')
    text = text.replace("!!str ", "")
    assert parse_yaml(text, HERE).values == values
