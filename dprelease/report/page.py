"""Write the report as one HTML file: self-contained, without scripts, of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.report.accuracy.quality import quality_of
from dprelease.report.accuracy.quality_part import quality_section
from dprelease.report.accuracy.totals import agreeing_queries, disagreements
from dprelease.report.accuracy.true_errors import simulated_errors
from dprelease.report.facts import Facts
from dprelease.report.localization import Words
from dprelease.report.numbers.example import example_of
from dprelease.report.numbers.numbers_section import numbers_section, read_tables
from dprelease.report.privacy_section import label_of
from dprelease.report.provenance_section import provenance_section
from dprelease.report.rendering import render_page
from dprelease.report.safe_labels import Names
from dprelease.report.section_context import Context
from dprelease.report.source import Checks, ReleaseFiles, Truth

PARTS = ("numbers", "label", "quality", "made")
"""Names of the sections of the page in order; each is a template."""


def page_of(
    release: ReleaseFiles,
    *,
    language: str | None = None,
    checks: Checks | None = None,
    truth: Truth | None = None,
) -> bytes:
    """Return the report on a release: the same bytes for the same release.

    - `release`: a verified release of tables; its manifest is trusted.
    - `language`: the language of labels, one of those of the metadata; by default the first one.
      The report's own texts are in English if they don't exist in this language.
    - `checks`: the results of `verify`.
    - `truth`: the true values of a rehearsal.
    """
    facts = Facts(release.record)
    columns = list(quality_of(release, facts))
    totals = disagreements(release, facts)
    read = read_tables(release, facts)
    errors = None if truth is None else simulated_errors(release, truth, columns)

    def fill_page(words: Words, names: Names, most: int) -> Mapping[str, Any]:
        """Return the parts of the page by name."""
        context = Context(facts, words, names, most)
        return {
            "parts": PARTS,
            "numbers": numbers_section(context, read, agreeing_queries(totals[0])),
            "label": label_of(facts, words, names),
            "example": example_of(context, read),
            "quality": quality_section(context, columns, totals, errors),
            "made": provenance_section(context, checks),
            "shortened": len(columns) > most,
            "rehearsed": truth is not None,
        }

    return render_page(release, language, fill_page)
