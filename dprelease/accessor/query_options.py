"""The options of queries, and their text in `help`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

from dprelease.accessor.argument_checks import refusing_cells
from dprelease.errors import SessionError, UsageError
from dprelease.numerics.rounding import Number

Noise = str | Mapping[str, str | float | bool | Sequence[str]]
"""A mechanism by name, or by name and shape: {"name": "asymmetric_laplace", "k": 1.2}."""

Name = Literal[
    "count", "count_distinct", "sum", "mean", "variance", "stddev", "quantile", "median",
    "min", "max", "mode", "histogram", "value_counts", "crosstab", "describe", "tables", "sql",
]  # fmt: skip
QUESTIONS: tuple[str, ...] = get_args(Name)

Ask = TypeVar("Ask", bound=Callable[..., object])


class Price(TypedDict, total=False):
    """The options of every query; `TERMS` describes them."""

    epsilon: Number | None
    delta: Number
    rho: Number | None
    mechanism: Noise
    confidence: float
    private_keys: bool


class Terms(Price, total=False):
    """The options of a query that takes its own keys."""

    by: str | Sequence[str] | None


NUMBER = "int, float, str, Decimal or Fraction"
TERMS: dict[str, tuple[str, object, str, str]] = {
    "by": (
        "str | Sequence[str] | None",
        None,
        "str or a list of str, optional",
        "Key columns: an answer for each of their cells.",
    ),
    "epsilon": (
        "Number | None",
        None,
        NUMBER,
        "Price. A float stands for the decimal that it prints as, as in all numbers of a budget.",
    ),
    "delta": (
        "Number",
        0,
        f"{NUMBER}, default 0",
        "Of the price; some noise, and `private_keys`, need one.",
    ),
    "rho": (
        "Number | None",
        None,
        NUMBER,
        "Price where the session counts in rho; `delta` then only says where epsilon is told.",
    ),
    "mechanism": (
        "Noise",
        "auto",
        "str or mapping, default 'auto'",
        'A name, or one with its shape: `{"name": "asymmetric_laplace", "k": 1.2}`. "auto" leaves '
        "it to the plan.",
    ),
    "confidence": ("float", 0.95, "float, default 0.95", "Of the margins of error."),
    "private_keys": (
        "bool",
        False,
        "bool, default False",
        "Whether keys are found in the data; needs a delta.",
    ),
}
"""Annotation, default, type in words and description of every option, in the order of `help`."""

RAISES = """

Raises
------
QueryError
    If the question has no bounded meaning; nothing is charged.
BudgetError
    If the price does not fit; nothing is charged.
SessionError, UsageError, DataError
    If it can't be asked in this way, or of these rows; its message says whether it is charged."""


def parse_terms(terms: Mapping[str, object], *, by: bool = True) -> Terms:
    """Return the options of a query.

    `by`: whether the query accepts the option `by`.

    Raises
    ------
    UsageError
        DP-SESSION-012 for an unknown option: ignoring it would answer, and charge, another query.
    """
    known = [name for name in TERMS if by or name != "by"]
    for name in terms:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            nearest = f"; did you mean '{close[0]}'" if close else ""
            raise UsageError("DP-SESSION-012", name=name, nearest=nearest, known=", ".join(known))
    return cast("Terms", terms)


def term(terms: Mapping[str, Any], name: str) -> Any:
    """Return an option, or its default if it is missing or None, as in pandas."""
    value = terms.get(name)
    return TERMS[name][1] if value is None else value


def keys_of(terms: Terms) -> list[str]:
    """Return the keys of a query.

    Raises UsageError DP-SESSION-016 if `by` is neither a name nor a list, and SessionError
    DP-SESSION-008 for a list of anything but names.
    """
    by: object = terms.get("by")
    if by is None or isinstance(by, str):
        return [] if by is None else [by]
    if not isinstance(by, Iterable):
        wanted, kind = "a column name or a list of column names", type(by).__name__
        raise UsageError("DP-SESSION-016", name="by", wanted=wanted, kind=kind)
    keys = list(by)
    names = [key for key in keys if isinstance(key, str)]
    if len(names) < len(keys):
        raise SessionError("DP-SESSION-008", what="by", known="the names of columns, as texts")
    return names


def question(ask: Ask) -> Ask:
    """Decorate a query: list its options in signature and docstring, and refuse cells.

    Type checkers read the options from `Unpack`. `help`, notebooks and completion read the
    signature, which would only show `**terms`. Unknown options still reach the query, which raises
    its own error.
    """
    signature = inspect.signature(ask)
    own = list(signature.parameters.values())
    terms = {"Unpack[Terms]": list(TERMS), "Unpack[Price]": [n for n in TERMS if n != "by"]}
    names = terms[own.pop().annotation]
    shown = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default, *_) in TERMS.items()
        if name in names
    ]
    described: Any = refusing_cells(ask)
    described.__signature__ = signature.replace(parameters=[*own, *shown])
    described.__doc__ = _document_terms(inspect.getdoc(ask) or "", names)
    return cast("Ask", described)


def _document_terms(doc: str, names: Sequence[str]) -> str:
    """Return a numpydoc docstring with the options after its own parameters."""
    before, returns, after = doc.partition("\n\nReturns\n-------\n")
    if "\nParameters\n----------\n" not in before:
        before += "\n\nParameters\n----------"
    for name in names:
        *_, kind, meaning = TERMS[name]
        before += f"\n{name} : {kind}\n    {meaning}"
    return before + returns + after + RAISES
