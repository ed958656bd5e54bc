"""The report as one HTML file: self-contained, without scripts, of bounded size."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dprelease.errors import InternalError
from dprelease.report.accuracy.quality import quality_of
from dprelease.report.accuracy.quality_part import Told, quality_part
from dprelease.report.accuracy.totals import disagreements
from dprelease.report.accuracy.true_errors import simulated
from dprelease.report.facts import Facts
from dprelease.report.label_part import label_of
from dprelease.report.made_part import made_part
from dprelease.report.margin_part import example_of
from dprelease.report.named import Names
from dprelease.report.pictures import Gallery
from dprelease.report.source import Checks, Published, Truth
from dprelease.report.spoken import Words, words_in
from dprelease.report.svg import same_everywhere

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 1_000_000
"""Bytes of a report."""

ROWS = (80, 30, 10, 3)
"""Rows that tables of a page may have: fewer are tried where a page gets too large."""

TEMPLATES = "dprelease.report.templates"


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
    asked = language or release.metadata.language
    words, names = words_in(asked), Names(release.metadata, asked)
    facts, about = Facts(release.record), release.metadata.about
    columns = list(quality_of(release, facts))
    totals = disagreements(release, facts)
    errors = None if truth is None else simulated(release, truth, columns)
    with same_everywhere():
        for most in ROWS:
            told = Told(facts, words, names, Gallery(words), most)
            page = _rendered(
                words,
                {
                    "record": release.record,
                    "about": about,
                    "title": names.text(about.titles, about.title),
                    "plain_title": names.plain(about.titles, about.title),
                    "names": names,
                    "label": label_of(facts, words, names, told.gallery),
                    "example": example_of(release, facts, words, names, told.gallery),
                    "quality": quality_part(told, columns, totals, errors),
                    "made": made_part(told, checks),
                    "tables": words.number(sum(1 for _ in release.metadata.read)),
                    "shortened": len(columns) > most,
                    "rehearsed": truth is not None,
                },
            )
            if len(page) <= LARGEST:
                return page
    raise InternalError("DP-INTERNAL-001", check=f"a report is at most {LARGEST} bytes")


def _rendered(words: Words, values: Mapping[str, Any]) -> bytes:
    style = _file("style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = _environment().get_template("page.html")
    text = template.render(
        **values, say=words.say, lang=words.language, style=Markup(style), style_digest=digest
    )  # fmt: skip
    return (text.rstrip("\n") + "\n").encode()


@cache
def _file(name: str) -> str:
    return resources.files(TEMPLATES).joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
