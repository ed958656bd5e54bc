"""Singular and plural of sentences."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import dprelease
from dprelease.errors.printable import count_text
from dprelease.report.words.en import SENTENCES

NUMBERS = ("number", "cells", "pairs")
"""Places of sentences in which a number of things stands that may be 1."""

FIXED = {"quality.margin.rows", "quality.totals.of", "page.more", "label.cost.part"}
"""Sentences in which it never is, or of no thing that is named."""

ALWAYS_MANY = re.compile(
    r"\b1 (?:more )?(?!of\b|in\b|as\b|below\b|above\b)[a-z]+s\b|\b1 [a-z ]*\bare\b"
)
SOURCES = sorted(Path(dprelease.__file__).parent.rglob("*.py"))
COUNTED = re.compile(r"\{len\([^{}]*\)(?::,)?\} (?:more )?[a-z]+s\b")
KNOWN = {
    "localized_text.py": "a text that is too long has many letters",
    "guarantees.py": "a number that is cut off is long",
    "plan_text.py": "a text that is cut off is long",
    "check_text.py": "a release has many noised numbers, or they are listed",
    "plan_parts.py": "few files are named",
    "true_records.py": "it is for who develops it",
}
"""Files in which a number that is always large stands before a noun, and why it is."""


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name}


@pytest.mark.parametrize("name", [n for n, s in SENTENCES.items() if places(s) & {*NUMBERS}])
def test_singular_sentences(name: str) -> None:
    """It is said as one: by its own sentence, or by one without a noun that is counted."""
    if name in FIXED:
        return
    one = SENTENCES.get(f"{name}.one", SENTENCES[name])
    says = {place: "1" if place in NUMBERS else "x" for place in places(one)}
    assert not ALWAYS_MANY.search(one.format(**says)), one
    assert places(one) <= places(SENTENCES[name.removesuffix(".one")])


def test_messages_use_count_text() -> None:
    found = {path.name for path in SOURCES if COUNTED.search(path.read_text(encoding="utf-8"))}
    assert found == {*KNOWN}
    assert [count_text(n, "file", "files") for n in (0, 1, 2, 1000)] == [
        "0 files",
        "1 file",
        "2 files",
        "1,000 files",
    ]
    assert [count_text(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
