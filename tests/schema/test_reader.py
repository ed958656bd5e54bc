"""YAML is read as plain text, mappings and lists, with places, under limits (V65)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import DeclarationError
from dprelease.schema.reader import parse

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
    assert parse(f"a: {text}\n", HERE).values == {"a": text}


def test_nothing_is_null_and_quoted_nothing_is_empty() -> None:
    assert parse("a:\nb: ''\nc: null\nd: 'null'\n", HERE).values == {
        "a": None,
        "b": "",
        "c": None,
        "d": "null",
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x [1]\nb: *x\n", "DP-YAML-004"),
        ("a: &x 1\n", "DP-YAML-004"),
        ("a: !!python/object/apply:os.system ['true']\n", "DP-YAML-004"),
        ("a: !!str 1\n", "DP-YAML-004"),
        ("a: {<<: {b: 1}}\n", "DP-YAML-004"),
        ("a: 1\na: 2\n", "DP-YAML-005"),
        ("a: {b: 1, b: 2}\n", "DP-YAML-005"),
        ("[a, b]\n", "DP-YAML-007"),
        ("text\n", "DP-YAML-007"),
        ("", "DP-YAML-007"),
        ("a: 1\n---\nb: 2\n", "DP-YAML-007"),
        ("? [a]\n: b\n", "DP-YAML-007"),
        ("a: [", "DP-YAML-003"),
        ("a: \x00\n", "DP-YAML-003"),
        ("a:\n\t- b\n", "DP-YAML-003"),
        ("a: " + "[" * 2000 + "]" * 2000, "DP-YAML-006"),
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
def test_what_is_not_plain_is_refused(text: str, code: str) -> None:
    with pytest.raises(DeclarationError, match=code):
        parse(text, HERE)


def test_places() -> None:
    document = parse("a:\n  b:\n    - x\n    - {c: 1}\n", HERE)
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
    assert parse(text, HERE).values == values
