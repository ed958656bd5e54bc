"""What the page says about how to read its numbers is true of the numbers on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dprelease.report.accuracy.quality import official_figures, quality_of
from dprelease.report.facts import Facts
from dprelease.report.localization import words_in
from dprelease.report.numbers.example import example_of
from dprelease.report.numbers.numbers_section import read_tables
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context
from dprelease.report.words.en import SENTENCES
from tests.report.reading import parsed
from tests.report.releases import published
from tests.report.test_numbers import articles, table_rows

FolderOf = Callable[[str], Path]
PageFor = Callable[[str], bytes]


@pytest.mark.parametrize("name", ["several", "family", "exact", "replaced"])
def test_the_example_is_a_number_that_a_reader_sees(
    name: str, folder_of: FolderOf, page_for: PageFor
) -> None:
    release = published(folder_of(name))
    facts = Facts(release.record)
    context = Context(facts, words_in("en"), Names(release.metadata, "en"), 80)
    example = example_of(context, read_tables(release, facts))
    number = re.findall("<strong>(.*?)</strong>", str(example.sentences[0]))[0]
    found = {
        cell for one in articles(parsed(page_for(name))) for row in table_rows(one) for cell in row
    }
    assert number in found


def test_quality_counts_official_figures_alone(folder_of: FolderOf) -> None:
    """The estimates of a family with integer tables are not its published numbers twice."""
    for name, folders in (("family", {"tables"}), ("several", {""})):
        release = published(folder_of(name))
        columns = list(quality_of(release, Facts(release.record)))
        official = official_figures(columns)
        assert {one.table.name.rpartition("/")[0] for one in official} == folders
        assert (len(official) < len(columns)) == (name == "family")


@pytest.mark.parametrize("name", ["family", "replaced"])
def test_tables_with_numbers_below_0_say_what_these_are(
    name: str, folder_of: FolderOf, page_for: PageFor
) -> None:
    release = published(folder_of(name))
    columns = official_figures(list(quality_of(release, Facts(release.record))))
    below = any(one.counted.negative for one in columns)
    assert (SENTENCES["numbers.negative"] in page_for(name).decode()) == below
    assert below == (name == "replaced")
