"""SQL that converts stored values: one function for each declared type and stored type family.

A stored value is read as its text would be read, so it means the same in every type that can hold
it. No row of a source can change how another row is read by changing the type of the column. The
toolkit refuses combinations of types without an entry in `CONVERSIONS`, and stored types that can't
hold the declared values exactly, whatever the data is.

Every SQL expression of this module is total: no value of any type can make it fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dprelease.errors import DataError
from dprelease.errors.catalogue.data_errors import (
    CONVERT,
    DAYS,
    DECODE,
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
    TextColumn,
    TimestampColumn,
    is_stored,
)
from dprelease.statements.values.categories import (
    category_sql,
    same_meaning_pair,
)
from dprelease.statements.values.lossy_types import NUMBER_FAMILIES, is_inexact, loses_spelling
from dprelease.statements.values.missing_codes import missing_code_sql
from dprelease.statements.values.physical import (
    DECLARED_AS,
    EXACT_FLOATS,
    FAMILY_OF,
    FLOATS,
    INTEGERS,
    OBJECTS,
    SMALL_INTEGERS,
    TEXTS,
    ZONED,
    are_bytes,
    base_type,
)
from dprelease.statements.values.spelling import (
    UTC,
    boolean_of_text_sql,
    double_sql,
    instant_sql,
    instant_within_bounds_sql,
    integer_of_text_sql,
    number_of_float_sql,
    number_of_text_sql,
    reads_integers,
    text_sql,
    timestamp_of_text_sql,
    valid_date_sql,
)
from dprelease.statements.values.written_texts import stripped_sql

LARGEST_HUGEINT = "170141183460469231731687303715884105727"


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
        return text_sql(self.source, self.stored)


Conversion = Callable[[PhysicalColumn], str | None]
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
        source, stored = instant_sql(source, stored, zone), "TIMESTAMP"
    if isinstance(column, CategoryColumn | TextColumn) and stored in FAMILY_OF:
        stripped = stripped_sql(text_sql(source, stored), column)
        read = (source, stored) if stripped is None else (f"({stripped})", "VARCHAR")
        sql = _meaning_sql(PhysicalColumn(*read, column, zone, known))
    else:
        read = source, stored
        sql = _meaning_sql(PhysicalColumn(*read, column, zone, known))
        stripped = stripped_sql(text_sql(source, stored), column) if stored in TEXTS else None
        if stripped is not None:
            other = _meaning_sql(PhysicalColumn(f"({stripped})", "VARCHAR", column, zone, known))
            sql = f"coalesce({sql}, {other})"
    if sql is None or (is_stored(column) and loses_spelling(column, stored)):
        method = _remedy_text(name, column, stored)
        raise DataError(
            "DP-DATA-004", column=name, physical=stored, declared=column.type, way=method
        )
    if is_stored(column) and is_inexact(column, stored):  # a computed value is a float anyway
        bits = {"FLOAT": 32, "DOUBLE": 64}[stored]
        most = f"2^{EXACT_FLOATS[stored].bit_length() - 1}"
        raise DataError("DP-DATA-015", column=name, bits=bits, most=most)
    missing = missing_code_sql(sql, *read, column, zone)
    return sql if missing is None else f"CASE WHEN {missing} THEN NULL ELSE {sql} END"


def _meaning_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a stored column's values; None if none of them can be read as declared."""
    kind = getattr(physical.column, "type", "")
    meaning = CONVERSIONS.get((kind, FAMILY_OF.get(physical.stored, "")))
    return None if meaning is None else meaning(physical)


def _remedy_text(name: str, column: Column, stored: str) -> str:
    """Return the sentence that tells what to do if a stored type can't be read as declared."""
    if stored == OBJECTS:
        return MIXED_OBJECTS.format(column=name)
    if are_bytes(stored):
        return DECODE.format(column=name)
    if stored not in FAMILY_OF:
        return CONVERT
    if isinstance(column, TextColumn):
        return SPELLED.format(column=name)
    if isinstance(column, DateColumn | TimestampColumn) and loses_spelling(column, stored):
        return DAYS.format(column=name, layout=column.format)
    if isinstance(column, DateColumn | TimestampColumn) and FAMILY_OF[stored] in NUMBER_FAMILIES:
        return NUMBERED.format(layout=column.format)
    same = (
        same_meaning_pair(column.allocated_values) if isinstance(column, CategoryColumn) else None
    )
    if same is None:
        return CONVERT
    return EQUAL_NUMBERS.format(column=name, first=same[0], second=same[1])


def _text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a column as a text."""
    return physical.text


def _category_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a category column as one of its values."""
    values = (
        physical.column.allocated_values if isinstance(physical.column, CategoryColumn) else None
    )
    return category_sql(physical.source, physical.stored, values or (), physical.known)


def _null_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a column whose stored values are all missing."""
    return f"CAST(NULL AS {DECLARED_AS[getattr(physical.column, 'type', '')]})"


def _unchanged_sql(physical: PhysicalColumn) -> str | None:
    """Return the column itself: its values are read without a cast."""
    return physical.source


def _integer_of_boolean_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a boolean as 0 or 1."""
    return f"CAST({physical.source} AS INTEGER)"


def _integer_of_integer_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a stored integer as at most 128 signed bits; larger values are clamped."""
    if physical.stored in SMALL_INTEGERS or physical.stored == "HUGEINT":
        return physical.source
    if physical.stored == "UBIGINT":
        return f"CAST({physical.source} AS HUGEINT)"
    clamped = f"CAST(least({physical.source}, {LARGEST_HUGEINT}::UHUGEINT) AS HUGEINT)"
    # a missing value must not become a bound
    return f"CASE WHEN {physical.source} IS NOT NULL THEN {clamped} END"


def _integer_of_float_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a float as an integer; NULL if it is not whole."""
    value = double_sql(physical.source, physical.stored)
    # TRY_CAST, because a whole float may be too large for 128 bits, and must not stop the
    # statement.
    is_whole = f"isfinite({value}) AND {value} = trunc({value})"
    return f"CASE WHEN {is_whole} THEN TRY_CAST({value} AS HUGEINT) END"


def _integer_of_decimal_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a decimal as an integer; NULL if it is not whole."""
    value = physical.source
    return f"CASE WHEN {value} = trunc({value}) THEN TRY_CAST({value} AS HUGEINT) END"


def _integer_of_text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a text as an integer; NULL if it contains none."""
    return integer_of_text_sql(physical.text)


def _number_of_integer_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a stored integer as a number."""
    if physical.stored in INTEGERS - SMALL_INTEGERS or physical.stored == "BIGINT":
        # conditions and cuts compare the value that a float column would hold
        return f"CAST({physical.source} AS DOUBLE)"
    return physical.source


def _number_of_float_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a float as a number; NULL for NaN."""
    # NaN is the largest float for the engine: clamped, it would count as the upper bound.
    return f"nullif({number_of_float_sql(physical.source, physical.stored)}, 'nan'::DOUBLE)"


def _number_of_decimal_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a decimal as a float."""
    return f"CAST({physical.source} AS DOUBLE)"


def _number_of_text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a text as a number; NULL if it contains none."""
    return number_of_text_sql(physical.text)


def _boolean_of_number_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a number as a boolean; NULL if it is neither 0 nor 1."""
    is_whole = physical.stored in INTEGERS
    value = (
        physical.source if is_whole else f"CAST({physical.source} AS DOUBLE)"
    )  # 1 may not fit a decimal
    return f"CASE WHEN {value} = 1 THEN TRUE WHEN {value} = 0 THEN FALSE END"


def _boolean_of_text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a text as a boolean; NULL if it contains none."""
    return boolean_of_text_sql(physical.text)


def _date_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a stored date; NULL outside of the declared bounds."""
    return _date_within_bounds_sql(physical.source, physical.column)


def _date_of_timestamp_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of the date of a timestamp; NULL outside of the declared bounds."""
    return _date_within_bounds_sql(
        f"CAST({instant_sql(physical.source, physical.stored)} AS DATE)", physical.column
    )


def _date_of_text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a text as a date; None if the stored type has no dates."""
    instant = _timestamp_of_text_sql(physical)
    return (
        None
        if instant is None
        else _date_within_bounds_sql(f"CAST({instant} AS DATE)", physical.column)
    )


def _date_within_bounds_sql(day: str, column: Column) -> str:
    """Return the SQL of a date that becomes NULL outside of the declared bounds."""
    if not isinstance(column, DateColumn) or column.lower is None or column.upper is None:
        return valid_date_sql(day)
    bounds = f"{quoting.day(column.lower)} AND {quoting.day(column.upper)}"
    return f"CASE WHEN {day} BETWEEN {bounds} THEN {day} END"


def _timestamp_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a stored timestamp, in UTC if it has a time zone."""
    return instant_within_bounds_sql(instant_sql(physical.source, physical.stored), physical.column)


def _timestamp_of_text_sql(physical: PhysicalColumn) -> str | None:
    """Return the SQL of a text as a timestamp; None if the stored type has no dates."""
    if not isinstance(physical.column, DateColumn | TimestampColumn):
        raise TypeError("only days and instants have a format")
    if FAMILY_OF[physical.stored] != "texts" and not reads_integers(physical.column.format):
        # A frame whose dates are all missing has a float column of NaN; other numbers are no dates.
        return _null_sql(physical) if physical.stored in FLOATS else None
    column = physical.column
    instant = timestamp_of_text_sql(physical.text, column.format, physical.zone, column.pivot)
    return instant_within_bounds_sql(instant, column)


CONVERSIONS: dict[tuple[str, str], Conversion] = {
    ("integer", "integers"): _integer_of_integer_sql,
    ("integer", "floats"): _integer_of_float_sql,
    ("integer", "decimals"): _integer_of_decimal_sql,
    ("integer", "texts"): _integer_of_text_sql,
    ("integer", "truth values"): _integer_of_boolean_sql,
    ("number", "integers"): _number_of_integer_sql,
    ("number", "floats"): _number_of_float_sql,
    ("number", "decimals"): _number_of_decimal_sql,
    ("number", "texts"): _number_of_text_sql,
    ("number", "truth values"): _integer_of_boolean_sql,
    ("boolean", "integers"): _boolean_of_number_sql,
    ("boolean", "floats"): _boolean_of_number_sql,
    ("boolean", "decimals"): _boolean_of_number_sql,
    ("boolean", "texts"): _boolean_of_text_sql,
    ("boolean", "truth values"): _unchanged_sql,
    ("date", "integers"): _date_of_text_sql,
    ("date", "floats"): _date_of_text_sql,
    ("date", "decimals"): _date_of_text_sql,
    ("date", "texts"): _date_of_text_sql,
    ("date", "days"): _date_sql,
    ("date", "instants"): _date_of_timestamp_sql,
    ("timestamp", "integers"): _timestamp_of_text_sql,
    ("timestamp", "floats"): _timestamp_of_text_sql,
    ("timestamp", "decimals"): _timestamp_of_text_sql,
    ("timestamp", "texts"): _timestamp_of_text_sql,
    ("timestamp", "days"): _timestamp_sql,
    ("timestamp", "instants"): _timestamp_sql,
    **{("category", family): _category_sql for family in set(FAMILY_OF.values())},
    **{("text", family): _text_sql for family in set(FAMILY_OF.values())},
    **{(kind, "nothing"): _null_sql for kind in DECLARED_AS},
}
"""The conversion for each declared type and family of stored types.

A float in a date column is a missing value, or a number such as 20241231."""
