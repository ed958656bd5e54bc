"""Store synthetic values as a source might store them: one column in several physical types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError
from dprelease.schema.columns import CategoryColumn, Column, CutColumn, IntegerColumn
from dprelease.statements.meanings import typed_value_sql

if TYPE_CHECKING:
    import pyarrow as pa

AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED = (
    "as declared", "as texts", "as floats", "as decimals", "packed",
)  # fmt: skip
WAYS = (AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED)
"""The ways to store all columns of a table, if their declared types can be read from it."""

TURNED = "in another order"
"""The way to store columns as declared, but with rows in reverse order."""

FLOAT_IDS = "with ids as floats"
"""The way to store columns as declared, but ids as floats, which make many ids equal. Engines must
refuse ids of that type."""

ALIKE = (TEXTS, FLOATS, PACKED)
"""Ways in which every usual value is equal to that in `AS_DECLARED`: neighbours may differ in them,
since one row with a letter turns a column of numbers into texts."""

DIGITS = 6
"""The number of digits of decimals."""

FEW_DIGITS = 9
"""The number of digits of codes that are stored as numbers."""


OTHER_CODE = 900_017
"""The undeclared number that replaces an undeclared text, if codes are stored as numbers."""


def stored_array(
    values: Sequence[object], name: str, column: Column, storage: str, *, is_id: bool = False
) -> pa.Array:
    """Return values as a column of a source, in the physical type of a way of storing.

    If that physical type can't be read as the declared type, or as an id, the declared type is used
    instead. Values that the physical type can't represent are missing.
    """
    import pyarrow as pa

    if is_id and storage == FLOAT_IDS and isinstance(column, IntegerColumn):
        return pa.array([_as_float(value) for value in values], pa.float64())
    storage = (
        AS_DECLARED if storage in (TURNED, FLOAT_IDS) or (is_id and storage == FLOATS) else storage
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
        return pa.array([_text(value, form) for value in values], pa.string())
    return pa.array([stored_form(value) for value in values], type_)


def _are_codes(values: Sequence[str]) -> bool:
    """Return whether all values of a category are numbers, which a source may store as numbers."""
    numbers = [_number_in_text(value) for value in values]
    return None not in numbers and OTHER_CODE not in numbers


def _number_in_text(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < FEW_DIGITS else None


def _code_of_text(value: object) -> int | None:
    """Return the code of a text; undeclared texts share one undeclared code."""
    if not isinstance(value, str) or not value:
        return None
    number = _number_in_text(value.strip())
    return OTHER_CODE if number is None else number


def _is_readable(name: str, column: Column, physical: str) -> bool:
    try:
        typed_value_sql(name, column, physical)
    except DataError:
        return False
    return True


def _physical_types() -> dict[str, dict[str, tuple[str, Any, Any]]]:
    """Return, by way of storing and kind of column, physical types and their conversions."""
    import pyarrow as pa

    text = ("VARCHAR", pa.string(), _as_text)
    packed = ("VARCHAR", pa.dictionary(pa.int32(), pa.string()), _as_text)
    decimal = (f"DECIMAL(38,{DIGITS})", pa.decimal128(38, DIGITS), _as_decimal)
    kinds = ("integer", "number", "boolean", "date", "timestamp", "text", "codes")
    return {
        AS_DECLARED: {
            "integer": ("BIGINT", pa.int64(), _as_integer),
            "number": ("DOUBLE", pa.float64(), _as_float),
            "boolean": ("BOOLEAN", pa.bool_(), _as_boolean),
            "date": ("DATE", pa.date32(), _as_day),
            "timestamp": ("TIMESTAMP", pa.timestamp("us"), _as_instant),
            "text": text,
            "codes": text,
        },
        TEXTS: dict.fromkeys(kinds, text),
        FLOATS: {
            "integer": ("DOUBLE", pa.float64(), _as_float),
            "boolean": ("DOUBLE", pa.float64(), _as_float),
            "codes": ("DOUBLE", pa.float64(), lambda value: _as_float(_code_of_text(value))),
        },
        DECIMALS: {
            "integer": decimal,
            "number": decimal,
            "codes": (*decimal[:2], lambda value: _as_decimal(_code_of_text(value))),
        },
        PACKED: {
            "text": packed,
            "boolean": ("TINYINT", pa.int8(), _as_small_integer),
            "codes": ("INTEGER", pa.int32(), _code_of_text),
        },
    }


def _text(value: object, form: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, date) and form:
        shown = value.strftime(form)
        return shown.replace("%Y", f"{value.year:04}") if "%Y" in shown else shown
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _as_integer(value: object) -> int | None:
    if isinstance(value, float | bool):
        return int(value) if float(value).is_integer() and abs(value) < 2**63 else None
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _as_small_integer(value: object) -> int | None:
    return int(value) if isinstance(value, int) and -128 <= value < 128 else None


def _as_float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _as_decimal(value: object) -> Decimal | None:
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 10**30:
        return None
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-DIGITS))


def _as_boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_day(value: object) -> date | None:
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def _as_instant(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
