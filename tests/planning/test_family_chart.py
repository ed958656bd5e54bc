"""The chart of a family: a row for each table of each level, marks that stand where the errors are."""

from __future__ import annotations

from fractions import Fraction
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from dprelease.consistency.expected import expected_errors
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from dprelease.errors import OutputError
from dprelease.planning.families import family_errors
from dprelease.planning.families.family_errors import draw_family_errors

LEVELS = ["the $whole$", "_county"]
TABLES = {(): "total", (0,): "sex", (0, 1): r"sex x $\age$"}
SVG = "{http://www.w3.org/2000/svg}"

CASES = {  # variances of measured tables, by level
    "all measured": [{(): 2, (0, 1): 5}, {(0, 1): 9}],
    "one exact": [{(): 0, (0, 1): 5}, {(0, 1): 9}],
    "all exact": [{(0, 1): 0}, {(0, 1): 0}],
    "some unknown": [{(0, 1): 5}, {(0,): 9}],
    "nothing known": [{(1,): 5}, {}],
}


def rows_of(case):
    laws = [{t: NoiseMoments(Fraction(v)) for t, v in level.items()} for level in CASES[case]]
    tree = Tree(1, [np.zeros(3, np.int64)])
    known = Variances(Structure((2, 3), tree, laws))
    return expected_errors(known, [list(TABLES)] * 2, 1.96)


@pytest.mark.parametrize("case", CASES)
def test_every_row_of_the_family_chart_is_named(case, tmp_path):
    path = tmp_path / "errors.svg"
    rows = rows_of(case)
    with matplotlib.rc_context({"svg.fonttype": "path"}):  # each text is a comment, then outlines
        draw_family_errors(rows, LEVELS, TABLES, path)
    written = [
        node.text.strip()
        for node in ElementTree.parse(path, ElementTree.XMLParser(target=_with_comments())).iter()
        if node.tag is ElementTree.Comment
    ]
    for name in TABLES.values():
        assert written.count(name) == 2
    assert f"{LEVELS[0]} (1 area)" in written
    assert f"{LEVELS[1]} (3 areas)" in written
    errors = [row.standard_error.median for row in rows]
    assert written.count("exact") == errors.count(0.0)
    assert written.count("not estimable") == errors.count(float("inf"))
    for error in errors:
        if 0 < error < float("inf"):
            assert f"{error:.3g}" in written


def _with_comments():
    return ElementTree.TreeBuilder(insert_comments=True)


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_family_chart_marks_errors(step, monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(family_errors, "save_chart", lambda figure, path: figures.append(figure))
    rows = rows_of("all measured")
    draw_family_errors(rows, LEVELS, TABLES, tmp_path / "errors.svg", step=step, unit="US$")
    assert figures[0].axes[0].get_xlabel() == "standard error of a cell (US$)"
    lines = figures[0].axes[0].get_lines()
    marks = [
        (float(x), line.get_markerfacecolor() == "white")
        for line in lines
        for x in line.get_xdata()
        if line.get_marker() == "o"
    ]
    errors = [row.standard_error for row in rows]
    assert sorted(x for x, ring in marks if ring) == sorted(step * r.summed**0.5 for r in rows)
    assert sorted(x for x, ring in marks if not ring) == sorted(step * e.median for e in errors)
    spans = [tuple(map(float, line.get_xdata())) for line in lines if line.get_marker() != "o"]
    assert sorted(spans) == sorted((step * e.least, step * e.greatest) for e in errors)
    ends = figures[0].axes[0].get_xlim()
    assert all(ends[0] < x < ends[1] for x, _ in marks)


def test_unwritable_chart_is_refused(tmp_path):
    with pytest.raises(OutputError, match="DP-OUTPUT-002"):
        draw_family_errors(
            rows_of("all measured"), LEVELS, TABLES, tmp_path / "none" / "errors.svg"
        )
