"""Texts that a source treats as equal although their characters differ, by its own rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OTHER = "another collation"
"""The name of an unlisted collation, by which any texts may be equal."""

ALIKE = "min({column}) OVER (PARTITION BY {column})"
"""SQL that gives one spelling to all texts of a table that its source treats as equal."""


@dataclass(frozen=True, slots=True)
class EqualityRule:
    """Texts that a source treats as equal, and SQL of the source that gives them one spelling."""

    equal: str
    spelled: str = ALIKE


CASE = "'X1' and 'x1' are equal"
BLANKS = "'X1' and 'X1 ' are equal"
ACCENTS = "'é' and 'e' are equal"
FORMS = "the two Unicode forms of 'é' are equal"
ANY = "texts that differ may be equal"

BY_CHARACTERS: Mapping[str, EqualityRule] = {}
"""The comparisons of a source without collations, which compares texts by their characters."""
