"""All notes on a release, in the order in which `check` tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dprelease.planning.notes.bands import BANDS, told_bands
from dprelease.planning.notes.codes import CODES_READ, COMPARED_CELLS, codes_read, compared_cells
from dprelease.planning.notes.truths_from_texts import TRUTHS_FROM_TEXTS, truths_from_texts
from dprelease.planning.notes.value_notes import (
    HEADINGS,
    SPACES,
    listed_below_headings,
    with_spaces,
)
from dprelease.query.resolve import Query


@dataclass(frozen=True, slots=True)
class Note:
    """What was found, of which there may be none, and the words that have a place for it."""

    name: str
    """As `check --json` has it."""
    words: str
    found: list[str]

    def __str__(self) -> str:
        """Return the note in words."""
        return self.words.format("; ".join(self.found))


def notes(queries: Sequence[Query]) -> list[Note]:
    """Return the notes on the queries of a release."""
    return [
        Note("truths_from_texts", TRUTHS_FROM_TEXTS, truths_from_texts(queries)),
        Note("compared_cells", COMPARED_CELLS, compared_cells(queries)),
        Note("codes_read", CODES_READ, codes_read(queries)),
        Note("bands", BANDS, told_bands(queries)),
        Note("listed_below_headings", HEADINGS, listed_below_headings(queries)),
        Note("with_spaces", SPACES, with_spaces(queries)),
    ]
