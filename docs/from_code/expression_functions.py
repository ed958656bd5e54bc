"""The functions of expressions, and what each of them returns."""

from __future__ import annotations

from docs.from_code.markdown import table
from dprelease.query.expressions.scalar import ALLOWED, CHOICES, FUNCTIONS

OTHERS = {
    "trim": ("a text", "a text", "without blanks at both ends"),
    "substr": (
        "a text, whole numbers",
        "a text",
        "`substr(x, 2, 3)`: three characters",
    ),
    "left": ("a text, a whole number", "a text", "`left(x, 2)`: the first 2 characters"),
    "starts_with": ("two texts", "a truth value", ""),
    "date_diff": (
        "two dates",
        "a number",
        "`date_diff('day', start, end)`: days between dates; of timestamps also 'hour', 'minute', "
        "'second'",
    ),
    "date_trunc": (
        "a unit, a date",
        "a date",
        "`date_trunc('month', d)`: the first day of the year, quarter, month or week; also 'day'",
    ),
    "strftime": ("a date, a format", "a text", "`strftime(d, '%Y-%m')`: parts of the date"),
    "make_date": ("three numbers", "a date", "year, month, day; missing if there is no such day"),
    "nullif": ("two values of one kind", "that kind", "missing if both are equal, else the first"),
    "if": ("a truth value, two values", "their kind", "the second or the third argument"),
}
"""Arguments, result and meaning of the functions that have no line of their own in the code."""

MEANINGS = {
    "coalesce": "the first value that is not missing",
    "greatest": "the largest value; missing values are skipped",
    "least": "the smallest value; missing values are skipped",
    "isodow": "1 for Monday to 7 for Sunday",
    "length": "the number of characters",
    "week": "the number of the ISO week, from 1 to 53",
    "round": "to a whole number; `round(x, 2)`: to two decimals",
    "sqrt": "the square root; missing for numbers below 0",
    "ln": "the natural logarithm; missing for numbers that are not above 0",
    "log": "the logarithm to the base 10; missing for numbers that are not above 0",
    "epoch": "the seconds since 1970-01-01 00:00:00",
}


def functions() -> str:
    """Return a table of all functions, in the order in which messages list them."""
    by_name = {name: (str(kind), str(result)) for name, kind, result in FUNCTIONS.values()}
    chosen = dict.fromkeys(CHOICES.values(), ("values of one kind", "that kind"))
    rows = []
    for name in ALLOWED.split(", "):
        known = by_name.get(name) or chosen.get(name)
        parts = OTHERS[name] if known is None else (*known, MEANINGS.get(name, ""))
        rows.append((f"`{name}`", *parts))
    return table(("function", "of", "returns", "meaning"), rows)
