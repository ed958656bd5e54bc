"""Store synthetic values in the physical types in which a source might store a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn
from dprelease.schema.field_types import UNITS_OF_TIME, counted_time
from dprelease.statements.meanings import typed_value_sql

if TYPE_CHECKING:
    import pyarrow as pa

AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED = (
    "as declared", "as texts", "as floats", "as decimals", "packed",
)  # fmt: skip
STORAGES = (AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED)
"""The ways to store the columns whose declared types can be read from the physical types."""

REVERSED = "in another order"
"""The way to store columns as declared, but with the rows in reverse order."""

FLOAT_IDS = "with ids as floats"
"""The way to store columns as declared, but with ids as floats, which make many ids equal.

Engines must refuse ids of this type.
"""

EQUAL_STORAGES = (TEXTS, FLOATS, PACKED)
"""The ways in which every usual value is equal to the value that is stored as declared.

The two sides of a pair may be stored in different ways among them, because a single row with a
letter turns a column of numbers into texts.
"""

DECIMAL_DIGITS = 6
"""The number of decimal places of decimals."""

MOST_CODE_DIGITS = 9
"""The number of digits below which codes are stored as numbers."""


OTHER_CODE = 900_017
"""The undeclared number that replaces undeclared texts if codes are stored as numbers."""


def stored_array(
    values: Sequence[object], name: str, column: Column, storage: str, *, is_id: bool = False
) -> pa.Array:
    """Return values as an Arrow column, in the physical type of a way of storing.

    If this physical type can't be read as the declared type, or as an id, then the values are
    stored as declared. Values that the physical type can't represent are missing.
    """
    import pyarrow as pa

    if is_id and storage == FLOAT_IDS and isinstance(column, IntegerColumn):
        return pa.array([_to_float(value) for value in values], pa.float64())
    storage = (
        AS_DECLARED
        if storage in (REVERSED, FLOAT_IDS) or (is_id and storage == FLOATS)
        else storage
    )

    kind: str = "text" if isinstance(column, CategoryColumn | CutColumn) else column.type
    if isinstance(column, CategoryColumn) and _are_codes(column.values or ()):
        kind = "codes"
    conversion = _physical_types()[storage].get(kind)
    if conversion is not None and not _is_readable(name, column, conversion[0]):
        conversion = None
    _, type_, stored_form = conversion or _physical_types()[AS_DECLARED][kind]
    if storage == TEXTS and conversion is not None:
        form = getattr(column, "format", "")
        return pa.array([_format_text(value, form) for value in values], pa.string())
    return pa.array([stored_form(value) for value in values], type_)


def _are_codes(values: Sequence[str]) -> bool:
    """Return whether all values of a category are numbers, so that a source may store numbers."""
    numbers = [_number_in_text(value) for value in values]
    return None not in numbers and OTHER_CODE not in numbers


def _number_in_text(text: str) -> int | None:
    """Return the number that a text of digits writes; None for other or long texts."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < MOST_CODE_DIGITS else None


def _code_of_text(value: object) -> int | None:
    """Return the number of a code in a text; texts that are not codes share one number."""
    if not isinstance(value, str) or not value:
        return None
    number = _number_in_text(value.strip())
    return OTHER_CODE if number is None else number


def _is_readable(name: str, column: Column, physical: str) -> bool:
    """Return whether a declared column may be stored in a physical type."""
    try:
        typed_value_sql(name, column, physical)
    except DataError:
        return False
    return True


def _physical_types() -> dict[str, dict[str, tuple[str, Any, Any]]]:
    """Return the physical types by way of storing and kind of column.

    Each physical type has its name in SQL, its Arrow type, and the function that converts values.
    """
    import pyarrow as pa

    text = ("VARCHAR", pa.string(), _to_text)
    packed = ("VARCHAR", pa.dictionary(pa.int32(), pa.string()), _to_text)
    decimal = (f"DECIMAL(38,{DECIMAL_DIGITS})", pa.decimal128(38, DECIMAL_DIGITS), _to_decimal)
    kinds = ("integer", "number", "boolean", "date", "timestamp", "text", "codes")
    return {
        AS_DECLARED: {
            "integer": ("BIGINT", pa.int64(), _to_integer),
            "number": ("DOUBLE", pa.float64(), _to_float),
            "boolean": ("BOOLEAN", pa.bool_(), _to_boolean),
            "date": ("DATE", pa.date32(), _to_day),
            "timestamp": ("TIMESTAMP", pa.timestamp("us"), _to_timestamp),
            "text": text,
            "codes": text,
        },
        TEXTS: dict.fromkeys(kinds, text),
        FLOATS: {
            "integer": ("DOUBLE", pa.float64(), _to_float),
            "boolean": ("DOUBLE", pa.float64(), _to_float),
            "codes": ("DOUBLE", pa.float64(), lambda value: _to_float(_code_of_text(value))),
        },
        DECIMALS: {
            "integer": decimal,
            "number": decimal,
            "codes": (*decimal[:2], lambda value: _to_decimal(_code_of_text(value))),
        },
        PACKED: {
            "text": packed,
            "boolean": ("TINYINT", pa.int8(), _to_small_integer),
            "codes": ("INTEGER", pa.int32(), _code_of_text),
        },
    }


def _format_text(value: object, form: str) -> str | None:
    """Return a value as a text, dates in a declared format; None for a missing value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, date) and (counted := counted_time(form)) is not None:
        return _count_text(value, *counted)
    if isinstance(value, date) and form:
        shown = value.strftime(form)
        return shown.replace("%Y", f"{value.year:04}") if "%Y" in shown else shown
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _count_text(value: date, unit: str, first: date) -> str:
    """Return a date or a timestamp as the number of units since a day."""
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    microseconds = (moment - datetime.combine(first, time())) // timedelta(microseconds=1)
    whole, rest = divmod(microseconds, UNITS_OF_TIME[unit])
    return str(whole) if not rest else repr(microseconds / UNITS_OF_TIME[unit])


def _to_text(value: object) -> str | None:
    """Return a text; None for other values."""
    return value if isinstance(value, str) else None


def _to_integer(value: object) -> int | None:
    """Return a whole number of at most 64 bits; None for other values."""
    if isinstance(value, float | bool):
        return int(value) if float(value).is_integer() and abs(value) < 2**63 else None
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _to_small_integer(value: object) -> int | None:
    """Return an integer of at most 8 bits; None for other values."""
    return int(value) if isinstance(value, int) and -128 <= value < 128 else None


def _to_float(value: object) -> float | None:
    """Return a number as a float; None for other values."""
    return float(value) if isinstance(value, int | float) else None


def _to_decimal(value: object) -> Decimal | None:
    """Return a finite number as a decimal; None for large numbers and other values."""
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 10**30:
        return None
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-DECIMAL_DIGITS))


def _to_boolean(value: object) -> bool | None:
    """Return a boolean; None for other values."""
    return value if isinstance(value, bool) else None


def _to_day(value: object) -> date | None:
    """Return a date without a time; None for other values."""
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def _to_timestamp(value: object) -> datetime | None:
    """Return a date with a time; None for other values."""
    return value if isinstance(value, datetime) else None
