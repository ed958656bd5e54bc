"""Field types of the documents: exact numbers, names, and rules for missing values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, ValidationError, WithJsonSchema
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from dprelease.errors.local_paths import URI_CODE, uri_fields
from dprelease.errors.suggestions import nearest
from dprelease.numerics.rounding import exact, exact_of, plain_text

DROP = "drop"
UNUSABLE = re.compile("[\0\ud800-\udfff]")
LONGEST_TEXT, LONGEST_EXPRESSION = 1000, 10_000
NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
RESERVED = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{i}" for port in ("com", "lpt") for i in range(10)}
)
"""The file names that some operating systems reserve for devices."""


LEAST, LARGEST = Fraction(1, 10**100), Fraction(10**100)
"""The range of the absolute values of declared numbers other than zero."""


def refuse(code: str, **fields: object) -> NoReturn:
    """Raise the error `code` at the value that is being validated."""
    raise PydanticCustomError(code, "finding", fields)


def errors_of_checks(*checks: Callable[[], None]) -> list[PydanticCustomError]:
    """Run independent checks, each of which may raise one error, and return the errors."""
    found = []
    for check in checks:
        try:
            check()
        except PydanticCustomError as problem:
            found.append(problem)
    return found


# A validator can raise only one PydanticCustomError; of a ValidationError, pydantic takes over
# every line.
def refuse_all(found: Sequence[PydanticCustomError]) -> None:
    """Raise several errors together at the value that is being validated, if there are any."""
    if found:
        lines = [InitErrorDetails(type=problem, input=None) for problem in found]
        raise ValidationError.from_exception_data("findings", lines)


NO_TEXTS = {
    type(None): "an empty value (null)",
    bool: "true or false",
    float: "a float",
    list: "a list",
    tuple: "a list",
}


def _found_text(value: object) -> str:
    """Return words for the type of a value that is neither a text nor a number."""
    return NO_TEXTS.get(
        type(value), "a mapping" if isinstance(value, dict) else "an object of another type"
    )


def to_fraction(value: object) -> Fraction:
    """Return the exact number of a decimal text or a Python number."""
    try:
        return exact_of(value)
    except ValueError:
        text = f"'{str(value)[:60]}' is not one"
        problem = text if isinstance(value, str | float) else f"it is {_found_text(value)}"
        refuse("DP-DECL-004", problem=problem)


def to_exact(value: object) -> Fraction:
    """Return the exact number of a decimal text or a Python number, within the supported range.

    Products and ratios of several such numbers still fit into floats.
    """
    number = to_fraction(value)
    if number and not LEAST <= abs(number) <= LARGEST:
        refuse("DP-DECL-004", problem=f"'{str(value)[:60]}' {_range_problem(number)}")
    return number


def _range_problem(number: Fraction) -> str:
    """Return why a number is out of range, in words."""
    return "is larger than 1e100" if abs(number) > 1 else "is closer to zero than 1e-100"


def to_int(value: object) -> int:
    """Return the integer of a text or a Python number."""
    number = to_exact(value)
    if number.denominator != 1:
        refuse("DP-DECL-003", problem="it must be a whole number")
    return number.numerator


def to_bool(value: object) -> bool:
    """Return the boolean of `true` or `false`; no other value is accepted."""
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    refuse("DP-DECL-003", problem="it must be true or false")


def to_text(value: object) -> str:
    """Return a text; a Python int becomes its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        refuse("DP-DECL-003", problem=f"it must be a text, not {_found_text(value)}")
    return _checked_text(value, LONGEST_TEXT)


def to_expression(value: object) -> str:
    """Return the text of an expression or a condition, which may be longer than other texts."""
    return _checked_text(value, LONGEST_EXPRESSION) if isinstance(value, str) else to_text(value)


def _checked_text(value: str, most: int) -> str:
    if len(value) > most or UNUSABLE.search(value):
        problem = f"it must be a text of at most {most} characters without NUL"
        refuse("DP-DECL-003", problem=problem)
    return value


def to_local_path(value: object) -> str:
    """Return the text of a local path."""
    text = to_text(value)
    fields = uri_fields(text)
    if fields is not None:
        refuse(URI_CODE, **fields)
    return text


def as_list(value: object) -> object:
    """Return a list with a single text, or the list as it is; refuse a list without brackets."""
    if isinstance(value, str) and "," in value:  # a comma means a list without brackets
        refuse("DP-DECL-003", problem=A_LIST)
    return [value] if isinstance(value, str) else value


def to_name(value: object) -> str:
    """Return a name that is safe as a file name and as a column name."""
    text = to_text(value)
    if not re.fullmatch(NAME, text) or text.casefold() in RESERVED:
        refuse("DP-DECL-005")
    return text


def to_date(value: object) -> date:
    """Return the date of an ISO text (year-month-day)."""
    if isinstance(value, date):
        return value
    text = to_text(value)
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        refuse("DP-DECL-003", problem="it must be a date such as 2024-12-31")
    try:
        return date.fromisoformat(text)
    except ValueError:
        refuse("DP-DECL-003", problem="this date does not exist")


def to_instant(value: object) -> datetime:
    """Return the instant of an ISO text, to the second; a date is its midnight."""
    if isinstance(value, datetime) and not value.microsecond and value.tzinfo is None:
        return value
    # Microseconds and a time zone stay in the text, which the pattern below then refuses.
    text = to_text(str(value) if isinstance(value, date) else value)
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?", text):
        refuse("DP-DECL-003", problem="it must be a time such as 2024-12-31 23:59:59")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        refuse("DP-DECL-003", problem="this time does not exist")


def to_time_format(value: object) -> str:
    """Return a strptime format of year, month, day, hour, minute, second and its fractions."""
    text = to_text(value)
    if counted_time(text) is not None:
        return text
    if not re.fullmatch(r"(%[YmdHIMSfyjbBp]|[^%])+", text) or not re.search("%[Yy]", text):
        problem = (
            "it must be a format such as %d/%m/%Y, where %Y is the year, %m the month and %d the "
            "day, or such as days since 1899-12-30"
        )
        refuse("DP-DECL-003", problem=problem)
    return text


UNITS_OF_TIME = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "milliseconds": 1000,
}
"""The microseconds of each unit in which dates and timestamps may be counted."""


def counted_time(layout: str) -> tuple[str, date] | None:
    """Return the unit and the first day of a format such as `days since 1899-12-30`; or None."""
    found = re.fullmatch(r"([a-z]+) since ([0-9]{4}-[0-9]{2}-[0-9]{2})", layout)
    if found is None or found[1] not in UNITS_OF_TIME:
        return None
    try:
        return found[1], date.fromisoformat(found[2])
    except ValueError:
        return None


def has_two_digit_years(layout: str) -> bool:
    """Return whether a format has years of two digits, whose century is not in the text."""
    return "%y" in layout


def refuse_two_digit_years(layout: str, pivot: int | None, column: str, *spot: str) -> None:
    """Raise DP-YEAR-001 at `spot` for years of two digits without a pivot."""
    if has_two_digit_years(layout) and pivot is None:
        year = date.today().year
        ends = {"short": f"{year % 100:02}", "next": f"{(year + 1) % 100:02}", "before": year - 99}
        refuse("DP-YEAR-001", spot=spot, column=column, layout=layout, year=year, **ends)


class ShortForm:
    """Adds a short form, which a validator expands, to a field's JSON Schema."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return a JSON Schema that accepts any of the short forms, or the long form."""
        return {"anyOf": [*self._forms, handler(schema)]}


TEXT_SCHEMA = {"type": "string"}
NUMBER_SCHEMA = {"type": ["number", "string"], "description": "an exact decimal number"}

Exact = Annotated[Fraction, BeforeValidator(to_exact), WithJsonSchema(NUMBER_SCHEMA)]
Amount = Annotated[Fraction, BeforeValidator(to_fraction), WithJsonSchema(NUMBER_SCHEMA)]
"""A number in a budget, which is checked against other limits."""
Whole = Annotated[int, BeforeValidator(to_int), WithJsonSchema({"type": ["integer", "string"]})]
Flag = Annotated[bool, BeforeValidator(to_bool), WithJsonSchema({"type": "boolean"})]
Text = Annotated[str, BeforeValidator(to_text), WithJsonSchema({"type": ["string", "integer"]})]
Expression = Annotated[
    str, BeforeValidator(to_expression), WithJsonSchema({"type": ["string", "integer"]})
]
"""An expression or a condition over one row."""
LocalPath = Annotated[
    str, BeforeValidator(to_local_path), WithJsonSchema({"type": ["string", "integer"]})
]
Name = Annotated[str, BeforeValidator(to_name), WithJsonSchema({"type": "string", "pattern": NAME})]
Day = Annotated[
    date, BeforeValidator(to_date), WithJsonSchema({"type": "string", "format": "date"})
]
Instant = Annotated[
    datetime, BeforeValidator(to_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Pivot = Annotated[Whole, Field(ge=100, le=9999)]
"""The latest year that the two digits of a year can mean."""

TimeFormat = Annotated[str, BeforeValidator(to_time_format), WithJsonSchema({"type": "string"})]


def refuse_substitute_outside_bounds(
    fill: str, low: Fraction | None, high: Fraction | None
) -> None:
    """Raise DP-SCHEMA-005 for a substitute for missing values that does not lie in the bounds."""
    if fill == DROP:
        return
    if low is None or high is None:
        refuse_substitute("fill", fill, "allowed without `lower` and `upper`")
    try:
        inside = low <= exact(fill) <= high
    except ValueError:
        inside = False
    if not inside:
        bounds = f"{plain_text(low)} to {plain_text(high)}"
        refuse_substitute("fill", fill, f"a number within the bounds, {bounds}")


def refuse_substitute(key: str, written: str, allowed: str, known: Iterable[str] = ()) -> NoReturn:
    """Raise DP-SCHEMA-005 for a substitute `written` under a key, with the allowed values."""
    close = nearest(written, [DROP, *known])
    fields = {"found": written, "allowed": allowed, "nearest": close}
    refuse("DP-SCHEMA-005", key=key, column="this column", **fields)


def refuse_undeclared_substitutes(fill: str, others: str, values: Sequence[str]) -> None:
    """Refuse substitutes for missing or undeclared values that are not declared values."""
    for key, cell in (("fill", fill), ("others", others)):
        if cell != DROP and cell not in values:
            values = list(dict.fromkeys(values))
            shown = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
            refuse_substitute(key, cell, f"a declared value ({shown})", values)


A_LIST = "it must be a list, such as [a, b]"
A_MAPPING = "it must be a mapping of keys to values"
A_TEXT = "it must be a text"

WORDS = {
    "tuple_type": A_LIST,
    "list_type": A_LIST,
    "dict_type": A_MAPPING,
    "mapping_type": A_MAPPING,
    "model_type": A_MAPPING,
    "model_attributes_type": A_MAPPING,
    "is_instance_of": A_MAPPING,
    "string_type": A_TEXT,
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "too_short": "it needs at least {min_length}, but has {actual_length}",
    "too_long": "it can have at most {max_length}, but has {actual_length}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than_equal": "it must be at most {le}",
}
"""The texts by pydantic's error type; the fields come from the error's context."""


def validation_text(kind: str, context: Mapping[str, Any], otherwise: str) -> str:
    """Return the text of an error; for unlisted types, pydantic's message `otherwise`."""
    template = WORDS.get(kind)
    if template is None:
        return otherwise.removeprefix("Value error, ").lower()
    if context.get("actual_length") == 0:
        context = {**context, "actual_length": "none"}
    return template.format(**context)
