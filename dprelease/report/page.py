"""Write the report as one HTML file: self-contained, without scripts, of bounded size."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dprelease.errors import InternalError
from dprelease.report.accuracy.doubtful_numbers import agreeing_queries, disagreements
from dprelease.report.accuracy.quality import quality_of
from dprelease.report.accuracy.quality_part import quality_section
from dprelease.report.accuracy.rehearsal_errors import simulated_errors
from dprelease.report.facts import Checks, Facts, ReleaseFiles, Truth
from dprelease.report.numbers.example import example_of
from dprelease.report.numbers.numbers_section import numbers_section, read_tables
from dprelease.report.privacy_section import label_of
from dprelease.report.provenance_section import provenance_section
from dprelease.report.section_context import Context
from dprelease.report.words import LONGEST, Names, Words, breakable, words_in

if TYPE_CHECKING:
    from jinja2 import Environment


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


MOST_BYTES = 1_000_000
"""Maximum bytes of a report."""

ROWS = (80, 30, 10, 3)
"""Maximum rows of a page's tables; a smaller number is tried if the page is too large."""

TEMPLATES = "dprelease.report.templates"

PageFiller = Callable[[Words, Names, int], Mapping[str, Any]]
"""Returns the parts of a page by name, for a maximum number of rows in its tables."""


def render_page(release: ReleaseFiles, language: str | None, filled: PageFiller) -> bytes:
    """Return a page about a release, with the longest tables that fit into the maximum size."""
    tag = language or release.metadata.language
    words, names = words_in(tag), Names(release.metadata, tag)
    about = release.metadata.about
    for most in ROWS:
        if most == ROWS[-1]:  # long notes are truncated only if the page is too large otherwise
            names = replace(names, longest_paragraph=LONGEST)
        head = {
            "record": release.record,
            "about": about,
            "title": names.text(about.titles, about.title),
            "plain_title": names.plain(about.titles, about.title),
            "names": names,
            "tables": words.number(sum(1 for _ in release.metadata.tables_for_readers)),
            "rehearsed": False,
            "shortened": False,
            "warning": "",
        }
        text = _render_html(words, {**head, **filled(words, names, most)})
        if len(text) <= MOST_BYTES:
            return text
    raise InternalError("DP-INTERNAL-001", check=f"a report is at most {MOST_BYTES} bytes")


def _render_html(words: Words, values: Mapping[str, Any]) -> bytes:
    """Return the page as HTML, with the policy that admits its style and nothing else."""
    style = _template_text("style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = _template_environment().get_template("page.html")
    text = template.render(
        **values, say=words.say, lang=words.language, style=Markup(style), style_digest=digest
    )  # fmt: skip
    return (text.rstrip("\n") + "\n").encode()


@cache
def _template_text(name: str) -> str:
    """Return the text of a template, or of the style."""
    return resources.files(TEMPLATES).joinpath(name).read_text(encoding="utf-8")


@cache
def _template_environment() -> Environment:
    """Return the environment of templates, which escapes all values."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_template_text),
        autoescape=True,
        # A template that names an unknown part fails, and does not leave out a sentence silently.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment
