"""The context of the sections of a report: the facts, words and names that they share."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from dprelease.report.facts import Facts
from dprelease.report.localization import Words
from dprelease.report.safe import printable_text
from dprelease.report.safe_labels import Names


@dataclass(frozen=True)
class Context:
    """What all parts of a section share; `most`: the maximum rows of a table or picture."""

    facts: Facts
    words: Words
    names: Names
    most: int

    def cells(self, *texts: object) -> list[Markup]:
        """Return texts as the cells of a table's row."""
        return [
            text if isinstance(text, Markup) else Markup.escape(printable_text(str(text)))
            for text in texts
        ]
