"""SQL that converts stored values: one function for each declared type and stored type family.

A value has the meaning of its text, so it has the same meaning in every type that can hold it. No
row of a source can change how another row is read by changing the type of the column. The toolkit
refuses combinations of types without an entry in `MEANINGS`, and stored types that can't hold the
declared values exactly, whatever the data is.

Every SQL expression of this module is total: no value of any type can make it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dprelease.errors import DataError
from dprelease.errors.words.data_words import (
    CONVERT,
    DAYS,
    EQUAL_NUMBERS,
    MIXED_OBJECTS,
    NUMBERED,
    SPELLED,
)
from dprelease.query import quoting
from dprelease.schema.columns import (
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
    TextColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.statements.values.categories import (
    EXACT,
    category,
    is_beyond_floats,
    same_meaning_pair,
)
from dprelease.statements.values.physical import (
    DECLARED_AS,
    EXACT_FLOATS,
    FAMILY_OF,
    FLOATS,
    INTEGERS,
    OBJECTS,
    SMALL_INTEGERS,
    ZONED,
    base_type,
)
from dprelease.statements.values.spelling import (
    UTC,
    boolean_of_text_sql,
    double_sql,
    instant,
    integer_of_text_sql,
    loses_digits,
    number_of_float_sql,
    number_of_text_sql,
    reads_integers,
    text_of,
    timestamp_of_text_sql,
    valid_date_sql,
)

NUMBERS = ("integers", "floats", "decimals")
"""The families of stored types that hold numbers."""

HUGE = "170141183460469231731687303715884105727"


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """A stored column: its name as SQL, the engine's type without parameters, its declaration."""

    source: str
    stored: str
    column: Column
    zone: str = UTC
    """The time zone of the column's timestamps."""
    known: str = ""
    """A SELECT of the declared values of a category, if a table of them exists."""

    @property
    def text(self) -> str:
        """SQL of the text of a stored value."""
        return text_of(self.source, self.stored)


Meaning = Callable[[PhysicalColumn], str | None]
"""A function that returns SQL of a stored column's values in the declared type, or None."""


def typed_value_sql(
    name: str,
    column: Column,
    physical: str,
    zone: str = UTC,
    known: str = "",
    source: str = "",
) -> str:
    """Return SQL of a column's value in its declared type; the SQL is NULL for a missing value.

    Parameters
    ----------
    name, column
        The name of the column, and its declaration.
    physical
        The engine's type of the stored column.
    zone
        The local time zone of the source's timestamps and of their dates.
    known
        A SELECT of a category's declared values, if a table of them exists.
    source
        The SQL name of the stored value, if it is not the column's name.

    Raises
    ------
    DataError
        DP-DATA-004 if no value of the stored type can be read as declared; DP-DATA-015 if one float
        may stand for several declared values.
    """
    source, stored = quoting.identifier(source or name), base_type(physical)
    if isinstance(column, CutColumn):
        raise TypeError("a cut has no stored column")
    if stored in ZONED and zone != UTC:
        source, stored = instant(source, stored, zone), "TIMESTAMP"
    meaning = MEANINGS.get((column.type, FAMILY_OF.get(stored, "")))
    sql = None if meaning is None else meaning(PhysicalColumn(source, stored, column, zone, known))
    if sql is None or (is_stored(column) and _is_respelled(column, stored)):
        method = _fix_for(name, column, stored)
        raise DataError(
            "DP-DATA-004", column=name, physical=stored, declared=column.type, way=method
        )
    if is_stored(column) and _is_inexact(column, stored):  # a computed value is a float anyway
        bits = {"FLOAT": 32, "DOUBLE": 64}[stored]
        most = f"2^{EXACT_FLOATS[stored].bit_length() - 1}"
        raise DataError("DP-DATA-015", column=name, bits=bits, most=most)
    return sql


def _fix_for(name: str, column: Column, stored: str) -> str:
    """Return the sentence that tells what to do if a stored type can't be read as declared."""
    if stored == OBJECTS:
        return MIXED_OBJECTS.format(column=name)
    if stored not in FAMILY_OF:
        return CONVERT
    if isinstance(column, TextColumn):
        return SPELLED.format(column=name)
    if isinstance(column, DateColumn | TimestampColumn) and _is_respelled(column, stored):
        return DAYS.format(column=name, layout=column.format)
    if isinstance(column, DateColumn | TimestampColumn) and FAMILY_OF[stored] in NUMBERS:
        return NUMBERED.format(layout=column.format)
    same = same_meaning_pair(column.values or ()) if isinstance(column, CategoryColumn) else None
    if same is None:
        return CONVERT
    return EQUAL_NUMBERS.format(column=name, first=same[0], second=same[1])


def _is_respelled(column: Column, stored: str) -> bool:
    """Return whether a stored type loses a spelling that matters: 01 becomes 1, 34.0 becomes 34.

    One row with a letter turns such a column of numbers into texts, and then all other rows would
    be read differently.
    """
    if isinstance(column, DateColumn | TimestampColumn):
        return FAMILY_OF[stored] in NUMBERS and loses_digits(column.format)
    return isinstance(column, TextColumn) and FAMILY_OF[stored] not in (
        "texts",
        "identifiers",
        "nothing",
    )


def _is_inexact(column: Column, stored: str) -> bool:
    if isinstance(column, CategoryColumn):
        return is_beyond_floats(column.values or (), stored)
    if isinstance(column, DateColumn | TimestampColumn):
        return stored in FLOATS and reads_integers(column.format, beyond=EXACT_FLOATS[stored])
    return stored in FLOATS and is_any_integer(column, EXACT_FLOATS[stored])


def may_lose_values(column: Column, stored: str) -> bool:
    """Return whether the stored type of a column, or of one value, may lose the original value.

    A type loses values if several texts become the same value of the type, or several declared
    numbers the same float. The toolkit refuses such a type, because one row can change the type of
    all other rows, as a missing number turns integers into floats.
    """
    if isinstance(column, CategoryColumn) and same_meaning_pair(column.values or ()) is not None:
        return FAMILY_OF[stored] not in ("texts", "identifiers", "nothing")
    return _is_respelled(column, stored) or _is_inexact(column, stored)


def is_any_integer(column: Column, most: int = EXACT) -> bool:
    """Return whether an integer column may hold integers that floats can't distinguish.

    `most` is the number up to which the float type holds every integer.
    """
    if not isinstance(column, IntegerColumn):
        return False
    if column.lower is None or column.upper is None:  # without bounds, any integer may occur
        return True
    return max(abs(column.lower), abs(column.upper)) > most


def _text(physical: PhysicalColumn) -> str | None:
    return physical.text


def _category(physical: PhysicalColumn) -> str | None:
    values = physical.column.values if isinstance(physical.column, CategoryColumn) else None
    return category(physical.source, physical.stored, values or (), physical.known)


def _missing(physical: PhysicalColumn) -> str | None:
    return f"CAST(NULL AS {DECLARED_AS[getattr(physical.column, 'type', '')]})"


def _as_it_is(physical: PhysicalColumn) -> str | None:
    return physical.source


def _truth_number(physical: PhysicalColumn) -> str | None:
    return f"CAST({physical.source} AS INTEGER)"


def _whole_integer(physical: PhysicalColumn) -> str | None:
    if physical.stored in SMALL_INTEGERS or physical.stored == "HUGEINT":
        return physical.source
    if physical.stored == "UBIGINT":
        return f"CAST({physical.source} AS HUGEINT)"
    clamped = f"CAST(least({physical.source}, {HUGE}::UHUGEINT) AS HUGEINT)"
    # a missing value must not become a bound
    return f"CASE WHEN {physical.source} IS NOT NULL THEN {clamped} END"


def _whole_float(physical: PhysicalColumn) -> str | None:
    value = double_sql(physical.source, physical.stored)
    is_whole = f"isfinite({value}) AND {value} = trunc({value})"
    return f"CASE WHEN {is_whole} THEN TRY_CAST({value} AS HUGEINT) END"


def _whole_decimal(physical: PhysicalColumn) -> str | None:
    value = physical.source
    return f"CASE WHEN {value} = trunc({value}) THEN TRY_CAST({value} AS HUGEINT) END"


def _whole_text(physical: PhysicalColumn) -> str | None:
    return integer_of_text_sql(physical.text)


def _number_integer(physical: PhysicalColumn) -> str | None:
    if physical.stored in INTEGERS - SMALL_INTEGERS or physical.stored == "BIGINT":
        # conditions and cuts compare the value that a float column would hold
        return f"CAST({physical.source} AS DOUBLE)"
    return physical.source


def _number_float(physical: PhysicalColumn) -> str | None:
    return f"nullif({number_of_float_sql(physical.source, physical.stored)}, 'nan'::DOUBLE)"


def _number_decimal(physical: PhysicalColumn) -> str | None:
    return f"CAST({physical.source} AS DOUBLE)"


def _number_text(physical: PhysicalColumn) -> str | None:
    return number_of_text_sql(physical.text)


def _truth_of_number(physical: PhysicalColumn) -> str | None:
    is_whole = physical.stored in INTEGERS
    value = (
        physical.source if is_whole else f"CAST({physical.source} AS DOUBLE)"
    )  # 1 may not fit a decimal
    return f"CASE WHEN {value} = 1 THEN TRUE WHEN {value} = 0 THEN FALSE END"


def _truth_of_text(physical: PhysicalColumn) -> str | None:
    return boolean_of_text_sql(physical.text)


def _day(physical: PhysicalColumn) -> str | None:
    return _inside(physical.source, physical.column)


def _day_of_instant(physical: PhysicalColumn) -> str | None:
    return _inside(f"CAST({instant(physical.source, physical.stored)} AS DATE)", physical.column)


def _day_of_text(physical: PhysicalColumn) -> str | None:
    instant = _instant_of_text(physical)
    return None if instant is None else _inside(f"CAST({instant} AS DATE)", physical.column)


def _inside(day: str, column: Column) -> str:
    if not isinstance(column, DateColumn) or column.lower is None or column.upper is None:
        return valid_date_sql(day)
    bounds = f"{quoting.day(column.lower)} AND {quoting.day(column.upper)}"
    return f"CASE WHEN {day} BETWEEN {bounds} THEN {day} END"


def _instant(physical: PhysicalColumn) -> str | None:
    return instant(physical.source, physical.stored)


def _instant_of_text(physical: PhysicalColumn) -> str | None:
    if not isinstance(physical.column, DateColumn | TimestampColumn):
        raise TypeError("only days and instants have a format")
    if FAMILY_OF[physical.stored] != "texts" and not reads_integers(physical.column.format):
        # A frame whose dates are all missing has a float column of NaN; other numbers are no dates.
        return _missing(physical) if physical.stored in FLOATS else None
    return timestamp_of_text_sql(physical.text, physical.column.format, physical.zone)


MEANINGS: dict[tuple[str, str], Meaning] = {
    ("integer", "integers"): _whole_integer,
    ("integer", "floats"): _whole_float,
    ("integer", "decimals"): _whole_decimal,
    ("integer", "texts"): _whole_text,
    ("integer", "truth values"): _truth_number,
    ("number", "integers"): _number_integer,
    ("number", "floats"): _number_float,
    ("number", "decimals"): _number_decimal,
    ("number", "texts"): _number_text,
    ("number", "truth values"): _truth_number,
    ("boolean", "integers"): _truth_of_number,
    ("boolean", "floats"): _truth_of_number,
    ("boolean", "decimals"): _truth_of_number,
    ("boolean", "texts"): _truth_of_text,
    ("boolean", "truth values"): _as_it_is,
    ("date", "integers"): _day_of_text,
    ("date", "floats"): _day_of_text,
    ("date", "decimals"): _day_of_text,
    ("date", "texts"): _day_of_text,
    ("date", "days"): _day,
    ("date", "instants"): _day_of_instant,
    ("timestamp", "integers"): _instant_of_text,
    ("timestamp", "floats"): _instant_of_text,
    ("timestamp", "decimals"): _instant_of_text,
    ("timestamp", "texts"): _instant_of_text,
    ("timestamp", "days"): _instant,
    ("timestamp", "instants"): _instant,
    **{("category", family): _category for family in set(FAMILY_OF.values())},
    **{("text", family): _text for family in set(FAMILY_OF.values())},
    **{(kind, "nothing"): _missing for kind in DECLARED_AS},
}
"""The conversion for each declared type and family of stored types.

A float in a date column is a missing value, or a number such as 20241231."""
