"""Draw the pictures of a report, with a caption and an alternative text for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from dprelease.documents.release_manifest import ReadingRecord
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.trade_off import Pairs, least_missed
from dprelease.report.dots import LOOKS, PictureRow, PictureScale, rows_of_dots
from dprelease.report.localization import Words, round_up_to_three_digits
from dprelease.report.safe import printable_text
from dprelease.report.sheet import BLUE, PALE, Axis, DotStyle, Sheet

ALARMS = (0.01, 0.05, 0.1)
"""False alarm rates for which the text gives the rate of missed detections."""

UPRIGHT = 1.9
"""Height in inches of a drawing that does not consist of rows."""


@dataclass(frozen=True)
class PageTable:
    """A table of the page: caption, heads and rows; the first cell of a row is the row's head."""

    caption: Markup
    heads: list[Markup]
    rows: list[list[Markup]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of the page, with its id, its title, its alternative text and its caption."""

    drawing: Sheet
    name: str
    title: str
    description: str
    caption: Markup


@dataclass
class Gallery:
    """The pictures of one page, with unique ids."""

    words: Words
    drawn: int = 0

    def picture(
        self, sheet: Sheet, kind: str, alt: str, title: Mapping[str, Any] | None = None
    ) -> Picture:
        """Return a drawing as a picture with the title and the caption of its kind."""
        self.drawn += 1
        name = printable_text(self.words.plain(f"{kind}.title", **(title or {})), None)
        caption = Markup("<strong>{}.</strong> {}").format(
            printable_text(name), self.words.say(f"{kind}.caption")
        )
        return Picture(sheet, f"p{self.drawn}", name, printable_text(alt, None), caption)

    def picture_of_rows(
        self,
        kind: str,
        rows: Sequence[PictureRow],
        scale: PictureScale,
        key: Sequence[tuple[str, str]] = (),
        title: Mapping[str, Any] | None = None,
    ) -> Picture:
        """Return a picture of rows; its alternative text lists each row."""
        description = ". ".join(
            self.words.plain("errors.alt.row", name=row.name, told=row.note) for row in rows
        )
        alt = self.words.plain("errors.alt", rows=description)
        return self.picture(rows_of_dots(rows, scale, key), kind, alt, title)


def belief_picture(gallery: Gallery, reading: ReadingRecord) -> Picture:
    """Return the picture of how much an attacker's belief can rise."""
    words, percent = gallery.words, gallery.words.percent
    rows, alt = [], []
    for row in reading.largest_posterior:
        prior, posterior = row.prior, row.posterior
        says = {"prior": percent(prior), "posterior": percent(posterior, up=True)}
        rows.append(
            PictureRow(
                words.plain("belief.row", **says),
                words.plain("belief.told", **says),
                ((prior, "ring"), (posterior, "dot")),
                (prior, posterior),
            )
        )
        alt.append(words.plain("belief.alt", **says))
    scale = PictureScale(
        words.plain("belief.axis"), percent, (0.0, 1.0), (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    key = (
        ("ring", words.plain("belief.before")),
        ("dot", words.plain("belief.after")),
    )
    return gallery.picture(rows_of_dots(rows, scale, key), "belief", " ".join(alt))


def trade_off_picture(gallery: Gallery, pairs: Pairs, *, replace: bool) -> Picture:
    """Return the picture of an attacker's missed detections by false alarms.

    `pairs`: epsilons and deltas of the release.
    """
    words, percent = gallery.words, gallery.words.percent
    sheet = Sheet(UPRIGHT, Axis(0.0, 1.0), Axis(0.0, 1.0), left=0.5, above=0.26)
    ticks = [(part, percent(part)) for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    sheet.scale(ticks, words.plain("trade.x"))
    for part, text in ticks:
        sheet.line([(0.0, part), (1.0, part)])
        sheet.write(0.0, part, text, "end", "middle", offset=(-3, 0), colour=PALE)
    alarms = np.linspace(0.0, 1.0, 101)
    missed = least_missed(pairs, alarms).tolist()
    sheet.line([(0.0, 1.0), (1.0, 0.0)], PALE, 1.0, "4 3")
    sheet.line(zip(alarms.tolist(), missed, strict=True), BLUE, 1.8)
    sheet.write(0.62, 0.41, words.plain("trade.blind"), "start", "bottom", colour=PALE)
    # The text is below the line if there is space, otherwise between it and the dashed line.
    roomy = missed[20] > 0.25
    x, y = (0.04, 0.06) if roomy else (0.35, (missed[35] + 0.65) / 2.0)
    sheet.write(x, y, words.plain("trade.this"), "start", "bottom", colour=BLUE, bold=True)
    sheet.write(0.0, 1.0, words.plain("trade.y"), "start", "bottom", offset=(-28, 7))
    description = " ".join(
        words.plain("trade.alt", alarms=percent(part), missed=percent(share))
        for part, share in zip(ALARMS, least_missed(pairs, np.array(ALARMS)).tolist(), strict=True)
    )
    return gallery.picture(sheet, "trade_replace" if replace else "trade", description)


def interval_picture(
    gallery: Gallery, name: str, value: float, ends: tuple[float, float], number: Callable[..., str]
) -> Picture:
    """Return the picture of one number and its margin, on a scale that shows both ends."""
    words = gallery.words
    low, high = ends
    room = 0.18 * ((high - low) or max(abs(value), 1.0))
    sheet = Sheet(0.42, Axis(low - room, high + room), Axis(0.0, 1.0), left=0.1, right=0.1)
    sheet.scale([(low, number(low)), (high, number(high))], name)
    sheet.line([(low, 0.38), (high, 0.38)], BLUE, 1.8)
    for end in ends:
        sheet.line([(end, 0.24), (end, 0.52)], BLUE, 1.8)
    sheet.dot(value, 0.38, DotStyle(7.0, BLUE, BLUE))
    sheet.write(value, 0.6, number(value), "middle", "bottom", bold=True, size=10.0)
    fields = {"value": number(value), "low": number(low), "high": number(high)}
    return gallery.picture(sheet, "margin", words.plain("margin.alt", **fields))


PARTS = (0.5, 0.2, 0.05, 0.02, 0.01, 0.005, 0.002)
"""Shares of cells with a larger error, at which the distribution of the noise is drawn."""


def noise_picture(
    gallery: Gallery, mechanism: Mechanism, step: float, name: str, unit: str
) -> Picture | None:
    """Return the picture of the share of cells with larger errors.

    Returns None if no finite number describes the share.
    """
    words, percent, number = gallery.words, gallery.words.percent, gallery.words.number
    widths = [
        (part, round_up_to_three_digits(mechanism.half_width(1.0 - part) * step)) for part in PARTS
    ]
    farthest = widths[-1][1]
    if not 0.0 < farthest < math.inf:
        return None
    x, y = Axis(0.0, farthest), Axis(PARTS[-1], 1.0, is_log=True)
    sheet = Sheet(1.25, x, y, left=0.5, right=0.12, above=0.26)
    width = dict(widths)
    ticks = [(0.0, number(0)), (width[0.5], number(width[0.5]))]
    ticks += [(width[part], number(width[part])) for part in (0.05, 0.005)]
    sheet.scale(ticks, words.plain("noise.axis", unit=unit))
    for part in (1.0, 0.5, 0.05, 0.005):
        sheet.line([(0.0, part), (farthest, part)])
        sheet.write(0.0, part, percent(part), "end", "middle", offset=(-3, 0), colour=PALE)
    sheet.line([(0.0, 1.0), *((error, part) for part, error in widths)], BLUE, 1.6)
    for part in (0.5, 0.05, 0.005):
        sheet.dot(width[part], part, LOOKS["dot"])
    sheet.write(0.0, 1.0, words.plain("noise.axis.y"), "start", "bottom", offset=(-28, 7))
    alt = words.plain(
        "noise.alt", half=number(width[0.5]), margin=number(width[0.05]), far=number(width[0.01])
    )
    title = {"mechanism": name, "margin": number(width[0.05]), "unit": unit}
    return gallery.picture(sheet, "noise", alt, title)
