"""Kinds of scalar values, and the operators and functions that can't fail for any value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from dprelease.query.expressions.nodes import ARITHMETIC, COMPARISONS


class Kind(StrEnum):
    """The kind of a value, for comparisons."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "a truth value"
    DATE = "a date"
    TIMESTAMP = "an instant"
    NULL = "null"


KIND_OF_TYPE = {
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
    "category": Kind.TEXT,
    "cut": Kind.TEXT,
    "text": Kind.TEXT,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
}
PHYSICAL = {
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
"""The engine's type of a computed value of each kind."""

READ_FROM = {
    "integer": {Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN},
    "number": {Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN},
    "boolean": {Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN},
    "date": {Kind.DATE, Kind.TIMESTAMP, Kind.TEXT},
    "timestamp": {Kind.TIMESTAMP},
    "category": {Kind.TEXT, Kind.BOOLEAN, Kind.DATE},
    "text": {Kind.TEXT, Kind.BOOLEAN, Kind.DATE},
}
"""The kinds of expressions that each declared type accepts.

Floats can't be keys, because their text for 3 is '3.0'."""


@dataclass(frozen=True, slots=True)
class Term:
    """A checked part of an expression: its SQL, and the kind of its value."""

    sql: str
    kind: Kind


COMPARISONS_OF_ROWS: dict[type[exp.Expression], str] = {
    **COMPARISONS,
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
ARITHMETIC_OF_ROWS: dict[type[exp.Expression], str] = {**ARITHMETIC, exp.Mod: "%"}
DIVISIONS = (exp.Div, exp.Mod)
FUNCTIONS: dict[type[exp.Expression], tuple[str, Kind, Kind]] = {
    exp.Lower: ("lower", Kind.TEXT, Kind.TEXT),
    exp.Upper: ("upper", Kind.TEXT, Kind.TEXT),
    exp.Length: ("length", Kind.TEXT, Kind.NUMBER),
    exp.Abs: ("abs", Kind.NUMBER, Kind.NUMBER),
    exp.Floor: ("floor", Kind.NUMBER, Kind.NUMBER),
    exp.Ceil: ("ceil", Kind.NUMBER, Kind.NUMBER),
    exp.Round: ("round", Kind.NUMBER, Kind.NUMBER),
    exp.Year: ("year", Kind.DATE, Kind.NUMBER),
    exp.Quarter: ("quarter", Kind.DATE, Kind.NUMBER),
    exp.Month: ("month", Kind.DATE, Kind.NUMBER),
    exp.Day: ("day", Kind.DATE, Kind.NUMBER),
    exp.DayOfWeekIso: ("isodow", Kind.DATE, Kind.NUMBER),
    exp.DayOfYear: ("dayofyear", Kind.DATE, Kind.NUMBER),
    exp.Week: ("week", Kind.DATE, Kind.NUMBER),
    exp.WeekOfYear: ("week", Kind.DATE, Kind.NUMBER),
    exp.Hour: ("hour", Kind.TIMESTAMP, Kind.NUMBER),
    exp.Minute: ("minute", Kind.TIMESTAMP, Kind.NUMBER),
    exp.Second: ("second", Kind.TIMESTAMP, Kind.NUMBER),
    exp.TimeToUnix: ("epoch", Kind.TIMESTAMP, Kind.NUMBER),
    exp.Sqrt: ("sqrt", Kind.NUMBER, Kind.NUMBER),
    exp.Ln: ("ln", Kind.NUMBER, Kind.NUMBER),
    exp.Log: ("log", Kind.NUMBER, Kind.NUMBER),
}
PARTIAL: dict[type[exp.Expression], str] = {exp.Sqrt: ">= 0", exp.Ln: "> 0", exp.Log: "> 0"}
"""The functions that are missing where their argument does not satisfy this condition."""

CHOICES: dict[type[exp.Expression], str] = {
    exp.Coalesce: "coalesce",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
"""Functions that return one of several values of the same kind, and skip missing values."""

TIME_KINDS = {
    "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMPNTZ": Kind.TIMESTAMP,
    "DATETIME": Kind.TIMESTAMP,
}
UNITS_OF_A_DAY = {"DAY": 1, "HOUR": 24, "MINUTE": 24 * 60, "SECOND": 24 * 3600}
"""The units of date_diff, and how many of them a day has; dates differ by days only."""

ALLOWED = (
    "lower, upper, trim, length, substr, left, starts_with, abs, floor, ceil, round, sqrt, "
    "ln, log, year, quarter, month, week, day, isodow, dayofyear, hour, minute, second, epoch, "
    "date_diff, coalesce, greatest, least, nullif, if, date_trunc, strftime, make_date"
)
LONGEST_PART = 10_000
"""Maximum position for substr and left."""


def common_kind(terms: list[Term]) -> Kind:
    """Return the common kind of several terms; NULL fits every kind."""
    return next((term.kind for term in terms if term.kind is not Kind.NULL), Kind.NULL)


def numbers_as_floats(terms: list[Term]) -> list[Term]:
    """Return the terms, with numbers converted to floats, because integers may exceed 2^53."""
    constant = r"NULL|\(?-?[0-9.e+]+(::DOUBLE)?\)?"
    if sum(not re.fullmatch(constant, term.sql) for term in terms) < 2:
        return terms
    return [Term(f"CAST({term.sql} AS DOUBLE)", term.kind) for term in terms]
