"""What a page does where there is little room: names of several parts break between these."""

from __future__ import annotations

from fractions import Fraction

import pytest
from markupsafe import Markup

from dprelease.documents.metadata import Metadata
from dprelease.report.words import Names, breakable, words_in

NAMES = Names(Metadata.__new__(Metadata), "en")  # names alone, of no labels


@pytest.mark.parametrize(
    ("cell", "broken"),
    [
        ("people.age", "people.<wbr>age"),
        (NAMES.name("symmetric_alpha"), "<bdi>symmetric_<wbr>alpha</bdi>"),
        ("0.25 of 1.5e3, e.g. x", "0.25 of 1.5e3, e.<wbr>g. x"),
        ("_x .y a_ b. c__d", "_x .y a_ b. c__d"),
        (NAMES.name('a_b<img src="x_y.png">'), "<bdi>a_<wbr>b&lt;img src=&#34;x_<wbr>y.<wbr>png&#34;&gt;</bdi>"),
        (Markup('<bdi lang="en_x.y">a_b</bdi>'), '<bdi lang="en_x.y">a_<wbr>b</bdi>'),
    ],
)  # fmt: skip
def test_names_break_between_parts(cell: str, broken: str) -> None:
    assert breakable(cell) == broken


@pytest.mark.parametrize(
    ("text", "set_"),
    [
        ("`bias` is the rest", "<bdi><code>bias</code> is the rest</bdi>"),
        ("a `b` and `<c>`", "<bdi>a <code>b</code> and <code>&lt;c&gt;</code></bdi>"),
        ("`cut", "<bdi>`cut</bdi>"),
        ("plain", "<bdi>plain</bdi>"),
        ("`" * 4, "<bdi><code></code><code></code></bdi>"),
    ],
)
def test_names_in_sentences_are_marked_up(text: str, set_: str) -> None:
    assert NAMES.sentence(text) == set_


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("200000", "200,000"), ("-1234567.5", "\u22121,234,567.5"), ("-0.5", "\u22120.5"),
        ("0", "0"), ("115", "115"), ("1e-9", "0.000000001"),
    ],
)  # fmt: skip
def test_declared_numbers_are_grouped(number: str, told: str) -> None:
    assert words_in("en").exactly(Fraction(number)) == told
