"""Columns that may be stored, and signs around their texts that are no part of the value: %, $."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.schema.field_types import Expression, Text, refuse, to_text
from dprelease.schema.localized_text import Documented
from dprelease.schema.model import shorten

MOST_SIGNS = 100

BLANKS = r"[\s\x0b\x{a0}\x{2009}\x{202f}\x{feff}]"
"""The white space around signs, as the engine's regular expressions write it."""


def to_texts(value: object) -> object:
    """Return a list of texts, none of which is empty; a single text needs no list."""
    texts = value if isinstance(value, list | tuple) else [value]
    if not all(to_text(text).strip() for text in texts):
        refuse("DP-DECL-003", problem="it must be a text that is not empty, such as '%'")
    return texts


_LISTED = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

Signs = Annotated[
    tuple[Text, ...],
    BeforeValidator(to_texts),
    Field(max_length=MOST_SIGNS),
    WithJsonSchema(_LISTED),
]

NegativeForm = Literal["(1)", "1-", "\u22121", "\u20131"]
"""How a negative number is written: in brackets, with the sign behind it, or with another sign."""

MINUS_SIGNS = "\u2212", "\u2013"
"""The signs that stand for a minus if their form is declared: the minus sign, and the en dash."""


def _to_forms(value: object) -> object:
    """Return a list of forms; a single form needs no list."""
    return value if isinstance(value, list | tuple) else [value]


NegativeForms = Annotated[
    tuple[NegativeForm, ...],
    BeforeValidator(_to_forms),
    WithJsonSchema({"anyOf": [{"enum": [*get_args(NegativeForm)]}, {"type": "array"}]}),
]


class Computable(Documented):
    """A column that a source stores or, with an `expression`, one computed from other columns.

    `strip`: signs that stored texts may have before and after the value. `marks`: signs such as r,
    each with its meaning, such as revised.
    """

    expression: Expression | None = None
    strip: Signs = ()
    marks: Annotated[dict[Text, Text], Field(max_length=MOST_SIGNS)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _refuse_useless_signs(self) -> Self:
        """Refuse empty marks, and signs of a column that is not stored."""
        if not all(mark.strip() for mark in self.marks):
            refuse("DP-DECL-003", problem="a mark must not be empty", key="marks")
        if self.expression is not None and self.signs:
            problem = "only stored columns have signs, and this one has an expression"
            refuse("DP-DECL-003", problem=problem, key="strip" if self.strip else "marks")
        return self

    @property
    def signs(self) -> tuple[str, ...]:
        """All signs that are removed, the longest first."""
        # Otherwise `r` would be removed from `rev`, and leave `ev`.
        return tuple(sorted({*self.strip, *self.marks}, key=lambda sign: (-len(sign), sign)))


class WithNegativeForms(Computable):
    """A column of numbers, whose negative numbers may be written in other forms than -1."""

    negative: NegativeForms = ()


def stripped(text: str, signs: Sequence[str]) -> str:
    """Return a text without the signs, and the white space, around it."""
    # The same white space as `BLANKS`, in the spelling of Python's patterns.
    blank = r"[\s\x0b\u00a0\u2009\u202f\ufeff]"
    either = "|".join([blank, *map(re.escape, signs)])
    return re.sub(f"^(?:{either})+|(?:{either})+$", "", text)


def check_stripped_values(values: Sequence[str], signs: Sequence[str]) -> None:
    """Refuse a declared value that no stripped text can be equal to."""
    lost = next((one for one in values if signs and (not one or stripped(one, signs) != one)), None)
    if lost is not None:
        problem = f"without these signs, no text is the declared value '{shorten(lost)}'"
        refuse("DP-DECL-003", problem=problem, key="strip")
