"""The reading guide of the page fits its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.report.accuracy.quality import official_figures, quality_of
from dprelease.report.facts import Facts
from dprelease.report.numbers.cells import Number
from dprelease.report.numbers.example import example_of
from dprelease.report.numbers.numbers_section import read_tables
from dprelease.report.section_context import Context
from dprelease.report.words import Names, words_in
from dprelease.report.words.en import SENTENCES
from tests.report.reading import parse_page, text_of
from tests.report.releases import read_release
from tests.report.test_numbers import articles, table_rows

FolderOf = Callable[[str], Path]
PageFor = Callable[[str], bytes]


@pytest.mark.parametrize("name", ["several", "family", "exact", "replaced"])
def test_example_is_a_number_on_the_page(name: str, folder_of: FolderOf, page_for: PageFor) -> None:
    release = read_release(folder_of(name))
    facts = Facts(release.record)
    context = Context(facts, words_in("en"), Names(release.metadata, "en"), 80)
    example = example_of(context, read_tables(release, facts))
    number = re.findall("<strong>(.*?)</strong>", str(example.sentences[0]))[0]
    found = {
        cell
        for one in articles(parse_page(page_for(name)))
        for row in table_rows(one)
        for cell in row
    }
    assert number in found
    low, high = re.findall("<strong>(.*?)</strong>", str(example.sentences[-3]))[-2:]
    amounts = [float(text.replace(",", "")) for text in (number, low, high)]
    even = SENTENCES["margin.uneven.whole" if name in ("family", "exact") else "margin.uneven"]
    if even not in example.sentences:  # the reader may subtract the margin, and add it
        assert amounts[0] - amounts[1] == pytest.approx(amounts[2] - amounts[0], 1e-4)


def test_quality_counts_official_figures_only(folder_of: FolderOf) -> None:
    """The estimates of a family with integer tables are not its published numbers twice."""
    for name, folders in (("family", {"tables"}), ("several", {""})):
        release = read_release(folder_of(name))
        columns = list(quality_of(release, Facts(release.record)))
        official = official_figures(columns)
        assert {one.table.name.rpartition("/")[0] for one in official} == folders
        assert (len(official) < len(columns)) == (name == "family")


@pytest.mark.parametrize("name", ["family", "replaced"])
def test_negative_numbers_are_explained(name: str, folder_of: FolderOf, page_for: PageFor) -> None:
    release = read_release(folder_of(name))
    columns = official_figures(list(quality_of(release, Facts(release.record))))
    below = any(one.counted.negative for one in columns)
    assert (SENTENCES["numbers.negative"] in page_for(name).decode()) == below
    assert below == (name == "replaced")


@pytest.mark.parametrize("name", ["family", "several"])
def test_integer_tables_explain_raised_numbers(
    name: str, folder_of: FolderOf, page_for: PageFor
) -> None:
    """Below each table whose numbers were raised to be 0 or more, and below no other table."""
    shown = [text_of(one) for one in articles(parse_page(page_for(name)))]
    noted = [SENTENCES["numbers.raised"] in text for text in shown]
    assert noted == [name == "family"] * len(shown)


@pytest.mark.parametrize(
    ("low", "high", "fills"), [(0.0, 60.0, True), (0.0, 59.0, False), (None, None, False)]
)
def test_range_as_wide_as_the_bounds_is_uninformative(
    low: float | None, high: float | None, fills: bool
) -> None:
    assert Number(3.0, None, low, high).fills((0.0, 60.0)) == fills
    assert not Number(3.0, None, low, high).fills(None)
