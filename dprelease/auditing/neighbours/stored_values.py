"""Invented values as a source may store them: one column in several physical types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dprelease.errors import DataError
from dprelease.schema.columns import CategoryColumn, Column, CutColumn
from dprelease.statements.meanings import typed

if TYPE_CHECKING:
    import pyarrow as pa

AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED = (
    "as declared", "as texts", "as floats", "as decimals", "packed",
)  # fmt: skip
WAYS = (AS_DECLARED, TEXTS, FLOATS, DECIMALS, PACKED)
"""How all columns of a table are stored, where their declared types can be read of it."""

ALIKE = (TEXTS, FLOATS, PACKED)
"""Ways in which every usual value is the same as in `AS_DECLARED`: neighbours may differ in them,
as one row with a letter turns a column of numbers into texts."""

DIGITS = 6
"""Of decimals."""


def stored(
    values: Sequence[object], name: str, column: Column, way: str, *, is_id: bool = False
) -> pa.Array:
    """Return values as a column of a source, in the physical type of a way.

    Where that type could not be read as declared, or not as an id, it is the declared one. What a
    type can't hold is missing.
    """
    import pyarrow as pa

    kind = "text" if isinstance(column, CategoryColumn | CutColumn) else column.type
    made = _types()[way].get(kind)
    if made is not None and ((is_id and way == FLOATS) or not _is_read(name, column, made[0])):
        made = None
    _, type_, held = made or _types()[AS_DECLARED][kind]
    if way == TEXTS and made is not None:
        form = getattr(column, "format", "")
        return pa.array([_text(value, form) for value in values], pa.string())
    return pa.array([held(value) for value in values], type_)


def _is_read(name: str, column: Column, physical: str) -> bool:
    try:
        typed(name, column, physical)
    except DataError:
        return False
    return True


def _types() -> dict[str, dict[str, tuple[str, Any, Any]]]:
    """Return the engine's name of a type, Arrow's, and how values get it, by way and kind."""
    import pyarrow as pa

    text = ("VARCHAR", pa.string(), _as_text)
    packed = ("VARCHAR", pa.dictionary(pa.int32(), pa.string()), _as_text)
    decimal = (f"DECIMAL(38,{DIGITS})", pa.decimal128(38, DIGITS), _decimal)
    kinds = ("integer", "number", "boolean", "date", "timestamp", "text")
    return {
        AS_DECLARED: {
            "integer": ("BIGINT", pa.int64(), _whole),
            "number": ("DOUBLE", pa.float64(), _float),
            "boolean": ("BOOLEAN", pa.bool_(), _truth),
            "date": ("DATE", pa.date32(), _day),
            "timestamp": ("TIMESTAMP", pa.timestamp("us"), _instant),
            "text": text,
        },
        TEXTS: dict.fromkeys(kinds, text),
        FLOATS: {
            "integer": ("DOUBLE", pa.float64(), _float),
            "boolean": ("DOUBLE", pa.float64(), _float),
        },
        DECIMALS: {"integer": decimal, "number": decimal},
        PACKED: {"text": packed, "boolean": ("TINYINT", pa.int8(), _small)},
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


def _whole(value: object) -> int | None:
    if isinstance(value, float | bool):
        return int(value) if float(value).is_integer() and abs(value) < 2**63 else None
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _small(value: object) -> int | None:
    return int(value) if isinstance(value, int) and -128 <= value < 128 else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _decimal(value: object) -> Decimal | None:
    if not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 10**30:
        return None
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-DIGITS))


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _day(value: object) -> date | None:
    return value if isinstance(value, date) and not isinstance(value, datetime) else None


def _instant(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None
