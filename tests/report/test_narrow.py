"""What a page does where there is little room: numbers of a scale, names of several parts."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from markupsafe import Markup
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from dprelease.documents.metadata import Metadata
from dprelease.report.localization import words_in
from dprelease.report.safe_labels import Names, breakable
from dprelease.report.sheet import Axis, Sheet, ticks_between

NAMES = Names(Metadata.__new__(Metadata), "en")  # names alone, of no labels


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_numbers_of_a_scale_never_meet(is_log: bool, size: float) -> None:
    """However many digits they have: a line without its number is better than one over another."""
    low, high = 0.4 * size, 1.8 * size
    sheet = Sheet(0.4, Axis(low, high, is_log), Axis(0.0, 1.0))
    ticks = [(place, f"{place:,.0f}") for place in ticks_between(low, high)]
    sheet.scale(ticks, "error")
    # A page's font is not known: digits and commas are as wide as in a wide one, DejaVu Sans.
    font = FontProperties(family="DejaVu Sans", size=7.5)
    boxes = []
    for text in (one for one in sheet.texts if one.size == 7.5):
        wide = TextPath((0, 0), text.text, prop=font).get_extents().width
        start = float(text.x) - {"start": 0.0, "middle": 0.5, "end": 1.0}[text.anchor] * wide
        boxes.append((start, start + wide))
    assert 2 <= len(boxes) <= len(ticks)
    assert all(one[1] < other[0] for one, other in pairwise(boxes))
    assert len(boxes) == len(ticks) or size > 1e3 or not is_log


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
def test_names_break_where_their_parts_meet(cell: str, broken: str) -> None:
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
def test_names_in_sentences_are_set_as_such(text: str, set_: str) -> None:
    assert NAMES.sentence(text) == set_


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("200000", "200,000"), ("-1234567.5", "\u22121,234,567.5"), ("-0.5", "\u22120.5"),
        ("0", "0"), ("115", "115"), ("1e-9", "0.000000001"),
    ],
)  # fmt: skip
def test_declared_numbers_are_grouped_as_all_others_are(number: str, told: str) -> None:
    assert words_in("en").exactly(Fraction(number)) == told
