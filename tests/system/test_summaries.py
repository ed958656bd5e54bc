"""Plans, releases, sessions and tables show themselves as short tables, without exact fractions."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import dprelease
from dprelease.system.summaries import MOST_ROWS, Summarized, Summary
from tests.accessor.test_queries import SCHEMA, frame
from tests.release.build import write


class Shown(Summarized):
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def _summary(self) -> Summary:
        return "<b>a\x1b[31m\n", ("name", "&"), self.rows


class Cells(HTMLParser):
    """The texts and the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_texts_in_summaries_are_escaped() -> None:
    shown = Shown([("<script>", 1), ("b\tc", 2)])
    cells = Cells(shown._repr_html_())
    assert "script" not in cells.tags
    assert {"<script>", "1", "b\\tc", "2", "&"} <= set(cells.texts)
    assert "\x1b" not in repr(shown) + shown._repr_html_()
    assert len(repr(shown).splitlines()) == 5


@pytest.mark.parametrize("number", [0, 1, MOST_ROWS, MOST_ROWS + 7])
def test_long_tables_are_cut(number: int) -> None:
    shown = Shown([(f"row {i}", i) for i in range(number)])
    for text in (repr(shown), shown._repr_html_()):
        assert text.count("row ") == min(number, MOST_ROWS)
        assert ("and 7 more" in text) == (number > MOST_ROWS)


def test_summaries_of_plans_sessions_and_tables(tmp_path: Path) -> None:
    session = dprelease.Session(SCHEMA, epsilon="9.8")
    df = frame()
    df.dp.use(session)
    release = dprelease.read_release(write(tmp_path))
    plan, tables = release.plan(), df.dp.tables(cube=["state", "sex"], epsilon=1)
    assert repr(session.remaining) == "<Spending: epsilon 8.8, delta 0>"
    for column in plan.columns:
        assert column.measurement.name in repr(plan)
    assert set(tables) <= set(repr(tables).split())
    for shown in (session, release, plan, tables):
        assert shown._repr_html_().startswith("<table>")
        assert "Fraction" not in repr(shown) + shown._repr_html_()
        assert len(repr(shown)) < 2000
