"""SQL that converts values to texts and texts to values, equally for all stored types.

Every SQL expression of this module is total: no value can make it fail. A text is an integer if its
number is an integer, in any spelling: '34', '34.0' and '+034' are the same number, because programs
convert a column of integers to floats once one of its values is missing.
"""

from __future__ import annotations

import re
from datetime import date

from dprelease.query import quoting
from dprelease.schema.columns import Column, TimestampColumn
from dprelease.schema.field_types import UNITS_OF_TIME, counted_time
from dprelease.statements.values.physical import EXACT_FLOATS, FAMILY_OF, ZONED, ZONED_MS

WHOLE_TEXT = r"[\s\v]*[+-]?0*[0-9]{1,38}(\.0*)?[\s\v]*"
NUMBER_TEXT = r"(?i)[\s\v]*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)[\s\v]*"
"""The pattern of numbers, with all white space that parsers of numbers skip.

The engine's own class of white space lacks the vertical tab."""

FRACTION_TEXT = r"[\s\v]*[+-]?[0-9]*\.[0-9]*[1-9][0-9]*[\s\v]*"
"""The pattern of texts with a fraction, which are no integers although their float may be one.

As decimals they are no integers, either."""

BEYOND_HUGE = 2.0**127
"""The smallest float that is too large for 128-bit integers."""

WORDS_FOR_DAYS = r"(?i)[\s\v]*([+-]?infinity|epoch)[\s\v]*"
"""The words that the engine accepts as a timestamp in any format, and reads as 1900-01-01."""

_DAY = r"(?i)\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[ t][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?\s?"
_FAR = r"(z|[+-][0-9]{2}(:?[0-9]{2})?)"
ISO_TEXT = rf"{_DAY}({_TIME}{_FAR}?)?\s*"
"""The pattern of the part of ISO 8601 that all programs share: date, time, offset from UTC.

Months, days and hours may lack their zero, as in 2024-1-1."""

FAR_TEXT = rf"{_DAY}{_TIME}{_FAR}\s*"
"""The pattern of ISO 8601 texts with an offset from UTC."""

UTC = "UTC"

DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "y": 2, "j": 3}
"""The number of digits of each part of a format that is an integer of a fixed length."""

FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"
MIDNIGHT = " 00:00:00"


def matches_sql(text: str, regex: str) -> str:
    """Return the SQL condition that a pattern matches a whole text."""
    return f"regexp_full_match({text}, {quoting.text(regex)})"


def text_sql(source: str, stored: str) -> str:
    """Return SQL of the text of a stored value, which is NULL where the value is missing.

    Integral floats and decimals are spelled as integers, timestamps at midnight as dates.
    """
    match FAMILY_OF[stored]:
        case "texts":
            return source if stored == "VARCHAR" else f"CAST({source} AS VARCHAR)"
        case "floats":
            return _float_text_sql(source, stored)
        case "decimals":
            integer_text = f"CAST(TRY_CAST({source} AS HUGEINT) AS VARCHAR)"
            # The engine writes .5 where a type has no digits before the point, and 0.5 elsewhere.
            rest = f"rtrim(CAST({source} AS VARCHAR), '0')"
            rest = rf"regexp_replace({rest}, '^(-?)[.]', '\1' || '0.')"
            return f"CASE WHEN {source} = trunc({source}) THEN {integer_text} ELSE {rest} END"
        case "days":
            return f"CAST({valid_date_sql(source)} AS VARCHAR)"
        case "instants":
            text = f"CAST({instant_sql(source, stored)} AS VARCHAR)"
            at_midnight = f"ends_with({text}, {quoting.text(MIDNIGHT)})"
            return f"CASE WHEN {at_midnight} THEN left({text}, 10) ELSE {text} END"
    return f"CAST({source} AS VARCHAR)"


def _float_text_sql(source: str, stored: str) -> str:
    """Return the SQL of the text of a float: digits without a point if it is whole."""
    value = double_sql(source, stored)
    kinds = (f"TRY_CAST({value} AS BIGINT)", f"TRY_CAST({value} AS HUGEINT)", value)
    texts = ", ".join(f"CAST({kind} AS VARCHAR)" for kind in kinds)
    return (
        f"CASE WHEN isnan({value}) THEN NULL WHEN {value} = trunc({value}) THEN coalesce({texts}) "
        f"ELSE CAST({source} AS VARCHAR) END"
    )


def double_sql(source: str, stored: str) -> str:
    """Return SQL of a float as a DOUBLE."""
    return source if stored == "DOUBLE" else f"CAST({source} AS DOUBLE)"


def number_of_float_sql(source: str, stored: str) -> str:
    """Return SQL of the number that a float stands for, as a DOUBLE.

    A 32-bit float stands for the shortest decimal number that is stored as this float: the cast of
    0.7 to a DOUBLE would be 0.699999988079071. The SQL tries short decimals first, because
    converting the float to a text takes ten times as long.
    """
    if stored == "DOUBLE":
        return source
    value = double_sql(source, stored)
    arms = [f"WHEN abs({value}) < {EXACT_FLOATS[stored]} AND {value} = trunc({value}) THEN {value}"]
    for power in (10, 100, 1000, 10_000):
        near = f"round({value} * {power}) / {power}"
        # TRY_CAST: the rounded number may be outside of the 32-bit range, and no value may fail.
        is_it = f"abs({value}) < {EXACT_FLOATS[stored]} AND TRY_CAST({near} AS {stored}) = {source}"
        arms.append(f"WHEN {is_it} THEN {near}")
    return f"CASE {' '.join(arms)} ELSE TRY_CAST(CAST({source} AS VARCHAR) AS DOUBLE) END"


def integer_of_text_sql(text: str) -> str:
    """Return SQL of the exact integer of a text, as a HUGEINT."""
    return f"CASE {_whole_number_branches_sql(text)} {_truth_branches_sql(text)} END"


def _whole_number_branches_sql(text: str) -> str:
    """Return the branches of a CASE that read a text as a whole number; NULL for fractions."""
    # The cast of the text is exact where its double is not, so that two ids remain different.
    exact, value = f"TRY_CAST(trim({text}) AS HUGEINT)", f"TRY_CAST(trim({text}) AS DOUBLE)"
    is_whole = f"abs({value}) < {BEYOND_HUGE!r} AND {value} = trunc({value})"
    integer_text = f"coalesce({exact}, TRY_CAST({value} AS HUGEINT))"  # 0e9999999999 is no HUGEINT
    return (
        f"WHEN {matches_sql(text, WHOLE_TEXT)} THEN {exact} "
        f"WHEN {matches_sql(text, FRACTION_TEXT)} THEN NULL "
        f"WHEN {matches_sql(text, NUMBER_TEXT)} THEN CASE WHEN {is_whole} THEN {integer_text} END"
    )


def number_of_text_sql(text: str) -> str:
    """Return SQL of the number of a text, as a DOUBLE."""
    return (
        f"CASE WHEN {matches_sql(text, NUMBER_TEXT)} THEN TRY_CAST(trim({text}) AS DOUBLE) "
        f"{_truth_branches_sql(text)} END"
    )


def _truth_branches_sql(text: str) -> str:
    """Return the CASE branches that convert the texts of booleans to the numbers 1 and 0."""
    truth = f"lower(trim({text}))"
    return f"WHEN {truth} = 'true' THEN 1 WHEN {truth} = 'false' THEN 0"


def boolean_of_text_sql(text: str) -> str:
    """Return SQL of the boolean of a text."""
    truth, value = f"lower(trim({text}))", f"TRY_CAST(trim({text}) AS DOUBLE)"
    return (
        f"CASE WHEN {truth} IN ('true', 't', '1') THEN TRUE "
        f"WHEN {truth} IN ('false', 'f', '0') THEN FALSE "
        f"WHEN NOT {matches_sql(text, NUMBER_TEXT)} THEN NULL "
        f"WHEN {value} = 1 THEN TRUE WHEN {value} = 0 THEN FALSE END"
    )


def timestamp_of_text_sql(text: str, layout: str, zone: str = UTC, pivot: int | None = None) -> str:
    """Return SQL of the TIMESTAMP of a text in the declared format, or otherwise in ISO 8601.

    The timestamp is in local time: a text with an offset from UTC is converted to the time zone.
    `pivot`: the latest year that the two digits of a year can mean, if the format has such years.
    """
    counted = counted_time(layout)
    if counted is not None:
        declared = _counted_sql(text, *counted)
    else:
        width = _digit_count(layout)
        padded = text if width is None else _zero_padded_sql(text, width)
        instant = f"try_strptime({padded}, {quoting.text(layout)})"
        if pivot is not None:
            instant = _pivoted_sql(instant, layout, pivot)
        declared = f"CASE WHEN NOT {matches_sql(padded, WORDS_FOR_DAYS)} THEN {instant} END"
    if misreads_iso_dates(layout):
        return declared
    # The cast to TIMESTAMPTZ accepts no blanks around a text, but the pattern does.
    trimmed = f"trim({text})"
    iso = f"WHEN {matches_sql(text, ISO_TEXT)} THEN {instant_sql(trimmed, 'TIMESTAMPTZ')}"
    if zone != UTC:
        local = instant_sql(trimmed, "TIMESTAMPTZ", zone)
        iso = f"WHEN {matches_sql(text, FAR_TEXT)} THEN {local} {iso}"
    return f"coalesce({declared}, CASE {iso} END)"


def _counted_sql(text: str, unit: str, first: date) -> str:
    """Return SQL of a TIMESTAMP from the number of units since the beginning of a day."""
    microseconds = UNITS_OF_TIME[unit]
    epoch = (first - date(1970, 1, 1)).days * UNITS_OF_TIME["days"]
    least, most = (
        ((end - date(1970, 1, 1)).days * UNITS_OF_TIME["days"] - epoch) // microseconds
        for end in (date.min, date.max)
    )
    number = number_of_text_sql(text)
    # `make_timestamp` fails outside of its range, and so would the cast of the number.
    inside = f"{number} BETWEEN {least} AND {most}"
    count = f"CAST(round({number} * {microseconds}) AS BIGINT) + {epoch}"
    return f"CASE WHEN {inside} THEN make_timestamp({count}) END"


def _pivoted_sql(instant: str, layout: str, pivot: int) -> str:
    """Return SQL of a timestamp moved by centuries into the 100 years that end with `pivot`.

    The SQL is NULL for a day that this year does not have: 1900 and 2100 have no 29 February.
    """
    year = f"{pivot} - (({pivot} - year({instant})) % 100 + 100) % 100"
    centuries = f"to_years(CAST({year} - year({instant}) AS INTEGER))"
    if "%j" in layout:  # the number of a day stays the same, not the day of a month
        first = f"date_trunc('year', {instant})"
        moved = f"({first} + {centuries} + ({instant} - {first}))"
        return f"CASE WHEN year({moved}) = {year} THEN {moved} END"
    moved = f"({instant} + {centuries})"
    return f"CASE WHEN day({moved}) = day({instant}) THEN {moved} END"


def misreads_iso_dates(layout: str) -> bool:
    """Return whether a format misreads ISO 8601 dates, because its month comes after the day."""
    return layout.startswith("%Y-%d")


def reads_integers(layout: str, beyond: int = 0) -> bool:
    """Return whether a format's texts are integers, some above `beyond`: 20241231 in %Y%m%d."""
    if counted_time(layout) is not None:  # the numbers of all days are exact floats
        return beyond == 0
    width = _digit_count(layout)
    return width is not None and 10**width > beyond


def loses_digits(layout: str) -> bool:
    """Return whether texts of a format may lose digits if stored as numbers: 10.2020 as 10.202."""
    number = re.sub("%[YmdHIMSfyj]", "0", layout)
    return not reads_integers(layout) and re.fullmatch(NUMBER_TEXT, number, re.ASCII) is not None


def _digit_count(layout: str) -> int | None:
    """Return the length of a format's texts if they consist of digits alone; None otherwise."""
    if not re.fullmatch(f"(%[{''.join(DIGITS)}])+", layout):
        return None
    return sum(DIGITS[part] for part in layout[1::2])


def _zero_padded_sql(text: str, width: int) -> str:
    """Return SQL of an integer's digits with the leading zeros that a stored number has lost."""
    number = f"CASE {_whole_number_branches_sql(text)} END"
    inside = f"{number} BETWEEN 0 AND {10**width - 1}"
    return f"CASE WHEN {inside} THEN lpad(CAST({number} AS VARCHAR), {width}, '0') ELSE {text} END"


def valid_date_sql(day: str) -> str:
    """Return SQL of a DATE in the years 1 to 9999, which is NULL outside of these years."""
    return f"CASE WHEN {day} BETWEEN DATE '{FIRST_DAY}' AND DATE '{LAST_DAY}' THEN {day} END"


def instant_within_bounds_sql(instant: str, column: Column) -> str:
    """Return the SQL of a timestamp that becomes NULL outside of the declared bounds."""
    if not isinstance(column, TimestampColumn) or column.lower is None or column.upper is None:
        return instant
    lower, upper = (quoting.instant(end) for end in (column.lower, column.upper))
    inside = f"{instant} >= {lower} AND {instant} < {upper} + INTERVAL 1 SECOND"
    return f"CASE WHEN {inside} THEN {instant} END"


def instant_sql(source: str, stored: str, zone: str = UTC) -> str:
    """Return SQL of a TIMESTAMP in the years 1 to 9999, which is NULL outside of these years.

    Outside of these years casts can fail. A timestamp with an offset from UTC is converted to the
    local time of the time zone.
    """
    first, last = f"{FIRST_DAY} 00:00:00", f"{LAST_DAY} 23:59:59.999999"
    if stored in ZONED or stored == "TIMESTAMPTZ":
        wide = _whole_microseconds_sql(source, stored, "TIMESTAMPTZ")
        inside = f"{wide} BETWEEN TIMESTAMPTZ '{first}+00' AND TIMESTAMPTZ '{last}+00'"
        local = f"{wide} AT TIME ZONE {quoting.text(zone)}"
        if zone != UTC:  # the local time may lie in another year
            inside += f" AND {local} BETWEEN TIMESTAMP '{first}' AND TIMESTAMP '{last}'"
        return f"CASE WHEN {inside} THEN {local} END"
    wide = _whole_microseconds_sql(source, stored, "TIMESTAMP")
    inside = f"{wide} BETWEEN TIMESTAMP '{first}' AND TIMESTAMP '{last}'"
    return f"CASE WHEN {inside} THEN {wide} END"


def _whole_microseconds_sql(source: str, stored: str, kind: str) -> str:
    """Return SQL of a timestamp, rounded down to microseconds, as texts and objects are."""
    if stored == ZONED_MS:  # the session's own time zone is UTC
        source = f"TRY_CAST({source} AS TIMESTAMP)"
    near = f"TRY_CAST({source} AS {kind})"
    if "_NS" not in stored:
        return near
    later = f"TRY_CAST({near} AS {kind}_NS) > {source}"  # the cast rounds to the nearest
    return f"CASE WHEN {later} THEN {near} - INTERVAL 1 MICROSECOND ELSE {near} END"
