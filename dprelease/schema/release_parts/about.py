"""Metadata of a release as a whole: who publishes it, about which period and place."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dprelease.schema.field_types import TEXT_SCHEMA, ShortForm, refuse
from dprelease.schema.localized_text import Label, Language, Line, Prose, Texts
from dprelease.schema.model import Model

UNDETERMINED = "und"
"""The BCP 47 tag of an undetermined language."""

MOST_LANGUAGES = 24
_PART = r"([0-9]{4})(?:-([0-9]{2}))?(?:-([0-9]{2}))?"
_LINK = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:[/?#][!-~]*)?")


def to_period(text: str) -> str:
    """Return a reference period as one day, or as the first and the last day with a slash.

    The input is in ISO 8601: a day, a month, a year, or two of these separated by a slash.
    """
    parts = [re.fullmatch(_PART, part) for part in text.split("/")]
    try:
        days = [_first_and_last_day(*part.groups()) for part in parts if part is not None]
    except ValueError:
        # Of a month or a day that does not exist.
        days = []
    if len(days) != len(parts) or len(days) > 2 or days[0][0] > days[-1][1]:
        problem = "it must be a period such as 2024, 2024-03, 2024-03-31 or 2023-07/2024-06"
        refuse("DP-DECL-003", problem=problem)
    first, last = days[0][0], days[-1][1]
    return f"{first}" if first == last else f"{first}/{last}"


def _first_and_last_day(year: str, month: str | None, day: str | None) -> tuple[date, date]:
    """Return the first and the last day of a year, a month or a day."""
    if month is None:
        return date(int(year), 1, 1), date(int(year), 12, 31)
    if day is None:
        last = monthrange(int(year), int(month))[1] if 1 <= int(month) <= 12 else 0
        return date(int(year), int(month), 1), date(int(year), int(month), last)
    full_date = date(int(year), int(month), int(day))
    return full_date, full_date


def to_link(text: str) -> str:
    """Return a link that is safe in a web page: http or https, without characters that end it."""
    if _LINK.fullmatch(text) is None or any(mark in text for mark in "\"'<>`"):
        refuse("DP-DECL-003", problem="it must be a link such as https://example.org/methods")
    return text


def _as_list(value: object) -> object:
    """Return a list with a single text, or the list as it is."""
    return [value] if isinstance(value, str) else value


Period = Annotated[Line, AfterValidator(to_period)]
Link = Annotated[Line, AfterValidator(to_link)]


class AboutSpec(Model):
    """Texts for the readers of a release; all of them are public, and none changes a number.

    `languages`: the tags of the languages of labels, descriptions and notes; the first one is the
    fallback. `period`: the reference period of the tables. `replaces`: the identifier of the
    release that this one replaces. `title`: the release's title by language, if one title is not
    enough.
    """

    title: Label | None = None
    description: Prose | None = None
    publisher: Line | None = None
    contact: Line | None = None
    licence: Line | None = None
    period: Period | None = None
    area: Line | None = None
    version: Line | None = None
    replaces: Line | None = None
    methodology: Link | None = None
    notes: Texts = ()
    languages: Annotated[
        tuple[Language, ...],
        BeforeValidator(_as_list),
        Field(min_length=1, max_length=MOST_LANGUAGES),
        ShortForm(TEXT_SCHEMA),
    ] = (UNDETERMINED,)

    @model_validator(mode="after")
    def _refuse_repeated_languages(self) -> Self:
        """Refuse a language that is listed twice."""
        for i, tag in enumerate(self.languages):
            if tag in self.languages[:i]:
                problem = "is listed twice"
                refuse("DP-LABEL-004", spot=("languages", i), found=tag, problem=problem)
        return self
