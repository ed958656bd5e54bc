"""The report as one HTML file: self-contained, without scripts, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.report.accuracy.quality import quality_of
from dprelease.report.accuracy.quality_part import Told, quality_part
from dprelease.report.accuracy.totals import disagreements
from dprelease.report.accuracy.true_errors import simulated_errors
from dprelease.report.facts import Facts
from dprelease.report.label_part import label_of
from dprelease.report.made_part import made_part
from dprelease.report.margin_part import example_of
from dprelease.report.named import Names
from dprelease.report.pictures import Gallery
from dprelease.report.rendering import page
from dprelease.report.source import Checks, Published, Truth
from dprelease.report.spoken import Words

PARTS = ("label", "margin", "quality", "made")
"""Sections of the page, each a template, in order."""


def page_of(
    release: Published,
    *,
    language: str | None = None,
    checks: Checks | None = None,
    truth: Truth | None = None,
) -> bytes:
    """Return the report on a release: the same bytes for the same release.

    Parameters
    ----------
    release
        Verified: what its manifest says is taken for true. A release of tables, not of records.
    language
        That of labels, one of its metadata; by default the first one. The report's own words are in
        English where there are none in this language.
    checks
        What `verify` has checked.
    truth
        True values of a rehearsal.
    """
    facts = Facts(release.record)
    columns = list(quality_of(release, facts))
    totals = disagreements(release, facts)
    errors = None if truth is None else simulated_errors(release, truth, columns)

    def fill_page(words: Words, names: Names, most: int) -> Mapping[str, Any]:
        told = Told(facts, words, names, Gallery(words), most)
        return {
            "parts": PARTS,
            "label": label_of(facts, words, names, told.gallery),
            "example": example_of(release, facts, words, names, told.gallery),
            "quality": quality_part(told, columns, totals, errors),
            "made": made_part(told, checks),
            "shortened": len(columns) > most,
            "rehearsed": truth is not None,
        }

    return page(release, language, fill_page)
