"""The tables of a report, and its pictures of beliefs, of one margin and of shares of classes.

Places in pictures are in percent of their width, so that pictures fit any screen and paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.documents.release_manifest import ReadingRecord
from dprelease.report.words import Words


@dataclass(frozen=True)
class PageTable:
    """A table of the page: caption, heads and rows; the first `keys` cells of a row are heads."""

    caption: Markup
    heads: list[Markup]
    rows: list[list[Markup]]
    keys: int = 1


@dataclass(frozen=True, slots=True)
class BeliefRow:
    """How far a belief can rise: its texts, and its places in percent of a scale up to 100 %."""

    text: str
    before: str
    after: str
    width: str


@dataclass(frozen=True, slots=True)
class IntervalPicture:
    """One number and its interval on a line: texts of both ends and of the value, and its place.

    `anchor`: the part of the value's text that is at its place, so that long texts stay inside.
    """

    title: str
    alt: str
    value: str
    low: str
    high: str
    place: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a stacked bar: its quality class, its place and width, and its text."""

    code: str
    start: str
    width: str
    text: str


def place_text(part: float) -> str:
    """Return a share of the width in percent, with two decimals at most."""
    return f"{100.0 * part:.2f}".rstrip("0").rstrip(".") + "%"


def belief_rows(words: Words, reading: ReadingRecord) -> list[BeliefRow]:
    """Return how much an attacker's belief can rise, for several beliefs before the release."""
    rows = []
    for row in reading.largest_posterior:
        prior, posterior = row.prior, row.posterior
        says = {"prior": words.percent(prior), "posterior": words.percent(posterior, up=True)}
        ends = place_text(prior), place_text(posterior), place_text(posterior - prior)
        rows.append(BeliefRow(words.plain("belief.row", **says), *ends))
    return rows


LEFT, RIGHT = 0.15, 0.85
"""Places of the ends of an interval in its picture."""


def interval_picture(
    words: Words, title: str, value: float, ends: tuple[float, float], number: Callable[..., str]
) -> IntervalPicture:
    """Return the picture of one number and its margin, with texts at both ends."""
    low, high = ends
    part = (value - low) / (high - low) if high > low else 0.5
    place = place_text(LEFT + (RIGHT - LEFT) * min(max(part, 0.0), 1.0))
    says = {"value": number(value), "low": number(low), "high": number(high)}
    alt = f"{title}: {words.plain('margin.alt', **says)}"
    anchor = "start" if part < 0.25 else "end" if part > 0.75 else "middle"
    return IntervalPicture(title, alt, says["value"], says["low"], says["high"], place, anchor)


def shares_of(counts: Sequence[tuple[str, int]], words: Words) -> list[Share]:
    """Return the parts of a stacked bar, from numbers of cells by quality class."""
    whole, start, shares = sum(count for _, count in counts), 0, []
    for code, count in counts:
        if count:
            text = words.plain("quality.share", code=code, number=words.number(count))
            shares.append(Share(code, place_text(start / whole), place_text(count / whole), text))
        start += count
    return shares
