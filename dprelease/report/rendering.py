"""Render the page: templates that escape, a policy that forbids scripts, and a size limit."""

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
from dprelease.report.localization import Words, words_in
from dprelease.report.safe_labels import LONGEST, Names, breakable
from dprelease.report.source import ReleaseFiles

if TYPE_CHECKING:
    from jinja2 import Environment

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
