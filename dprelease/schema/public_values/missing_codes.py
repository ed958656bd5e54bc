"""Missing values of a column: the codes that stand for them, and the value that replaces them.

A code such as 9, 99 or "k.A." means that there is no answer. A source stores it like any other
value, so only a declaration says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from dprelease.numerics.rounding import exact, plain_text
from dprelease.schema.field_types import DROP, Text, counted_time, refuse, to_text
from dprelease.schema.localized_text import Documented
from dprelease.schema.model import THIS_COLUMN, shorten

MOST_CODES = 100
LONGEST_ID = 20
"""The length up to which a declared code may be a number with zeros in front."""

ISO_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]|$)"
TRUTHS = frozenset({"true", "false", "t", "f"})
_CODE_SCHEMA = {"type": ["string", "number"]}


def _to_code(value: object) -> str:
    """Return a code as text; a Python float becomes its shortest decimal."""
    # YAML has no floats here, because scalars stay texts; declarations in Python have them.
    return repr(value) if isinstance(value, float) else to_text(value)


def _to_codes(value: object) -> object:
    """Return a list of different codes; a single code may be written without a list."""
    codes = value if isinstance(value, list | tuple) else [value]
    texts = [_to_code(code) for code in codes]
    if len(set(texts)) < len(texts):
        refuse("DP-DECL-003", problem="a code is listed twice")
    return texts


Codes = Annotated[
    tuple[Text, ...],
    BeforeValidator(_to_codes),
    Field(max_length=MOST_CODES),
    WithJsonSchema(
        {"anyOf": [_CODE_SCHEMA, {"type": "array", "items": _CODE_SCHEMA, "maxItems": MOST_CODES}]}
    ),
]
"""The codes for missing values; a single code may be written without a list."""


class WithMissing(Documented):
    """A column in which some codes may stand for missing values."""

    missing: Codes = ()


class Filled(Documented):
    """A column whose missing values may be replaced by a value, `fill`; `drop` leaves out rows."""

    fill: Text = DROP

    @model_validator(mode="before")
    @classmethod
    def _rename_nulls(cls, raw: Any) -> Any:
        """Read `nulls`, the name of `fill` before version 0.2; `check` warns about it."""
        if not isinstance(raw, Mapping) or "nulls" not in raw:
            return raw
        if "fill" in raw:
            refuse("DP-RELEASE-008", found="nulls and fill", key="nulls")
        return {"fill" if key == "nulls" else key: value for key, value in raw.items()}


def number_of(code: str) -> Fraction | None:
    """Return the number that a code is; None for other texts."""
    try:
        return exact(code.strip())
    except ValueError:
        return None


def numbers_of(codes: Sequence[str]) -> list[Fraction]:
    """Return the numbers among codes, each once: 9, 09 and 9.0 are the same number."""
    return list(dict.fromkeys(number for code in codes if (number := number_of(code)) is not None))


def check_number_codes(codes: Sequence[str], fill: str) -> None:
    """Refuse codes of a column of numbers that are misspelled numbers, and a code as `fill`."""
    for code in codes:
        if number_of(code) is None and any(character.isdigit() for character in code):
            _refuse_unreadable(
                code, "a number, such as 99 or 9.9, with a point before the decimals"
            )
    if fill != DROP and number_of(fill) in numbers_of(codes):
        refuse("DP-MISSING-003", key="fill", column=THIS_COLUMN, text=shorten(fill))


def check_truth_codes(codes: Sequence[str]) -> None:
    """Refuse codes that a column of booleans reads as true or false."""
    for code in codes:
        if code.strip().lower() in TRUTHS or number_of(code) in (0, 1):
            _refuse_declared(code, code)


def check_category_codes(codes: Sequence[str], values: Sequence[str]) -> None:
    """Refuse codes that are declared values: the same text, or the same integer."""
    for code in codes:
        number = number_of(code)
        spellings = {code}
        if number is not None and number.denominator == 1:
            digits = plain_text(number)
            spellings |= {digits} | {digits.zfill(width) for width in range(LONGEST_ID)}
        known = next((one for one in sorted(spellings) if one in values), None)
        if known is not None:
            _refuse_declared(code, known)


def check_date_codes(codes: Sequence[str], layout: str, name: str, fill: str = DROP) -> None:
    """Refuse codes of a column of dates or timestamps that are misspelled dates.

    A text such as 99.99.9999 is no date in any spelling, so it is missing in any case.
    """
    for code in codes:
        if counted_time(layout) is not None and number_of(code) is not None:
            continue
        day = day_of(code, layout)
        # Codes of days consist of nines or zeros; any other text with digits looks like a
        # misspelled day.
        if day is None and not {c for c in code if c.isdigit()} <= {"0", "9"}:
            _refuse_unreadable(code, f"a date in the format {layout} or 2024-12-31", name)
        if day is not None and day.isoformat() == fill:
            refuse("DP-MISSING-003", spot=("columns", name, "fill"), column=name, text=fill)


def day_of(code: str, layout: str) -> date | None:
    """Return the date of a text in a format or in ISO 8601; None for other texts."""
    text = code.strip()
    try:
        return datetime.strptime(text, layout).date()
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).date() if re.match(ISO_DAY, text) else None
    except ValueError:
        return None


def _refuse_declared(code: str, value: str) -> NoReturn:
    """Raise DP-MISSING-001 for a code that a column declares as a value."""
    fields = {"text": shorten(code), "value": shorten(value)}
    refuse("DP-MISSING-001", key="missing", column=THIS_COLUMN, **fields)


def _refuse_unreadable(code: str, wanted: str, name: str = THIS_COLUMN) -> NoReturn:
    """Raise DP-MISSING-002 for a code that a column could never find."""
    spot: dict[str, object] = {"key": "missing"}
    if name != THIS_COLUMN:
        spot = {"spot": ("columns", name, "missing")}
    refuse("DP-MISSING-002", **spot, column=name, text=shorten(code), wanted=wanted)
