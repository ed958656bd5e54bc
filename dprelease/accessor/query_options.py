"""The options of all queries: budget, keys, noise, margins of error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from dprelease.errors.argument_types import wrong_argument
from dprelease.numerics.rounding import Number

Noise = str | Mapping[str, str | float | bool | Sequence[str]]
"""A mechanism by its name, or its name and parameters: {"name": "asymmetric_laplace", "k": 1.2}."""


class SharedOptions(TypedDict, total=False):
    """The options of every query except `private_keys`; `OPTIONS` describes them."""

    epsilon: Number | None
    delta: Number
    rho: Number | None
    mechanism: Noise
    confidence: float


class Options(SharedOptions, total=False):
    """The options of every query but `sql`, whose `private_keys` may also be names."""

    private_keys: bool


class RowOptions(Options, total=False):
    """The options of a query on rows, which also has the option `by`."""

    by: str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Option:
    """An option as `help` shows it: annotation, default, type as text, and description."""

    annotation: str
    default: object
    kind: str
    meaning: str


NUMBER = "int, float, str, Decimal or Fraction"
OPTIONS: dict[str, Option] = {
    "by": Option(
        "str | Sequence[str] | None",
        None,
        "str or a list of str, optional",
        "The key columns; the answer has a row for each of their cells.",
    ),
    "epsilon": Option(
        "Number | None",
        None,
        NUMBER,
        "The privacy cost of the query. A float stands for the decimal number that it prints as, "
        "as in all numbers of a budget.",
    ),
    "delta": Option(
        "Number",
        0,
        f"{NUMBER}, default 0",
        "The delta of the privacy cost; some mechanisms, and `private_keys`, need a delta above 0.",
    ),
    "rho": Option(
        "Number | None",
        None,
        NUMBER,
        "The privacy cost of the query, if the session counts in rho; `delta` is then only the "
        "delta at which the answer reports its epsilon.",
    ),
    "mechanism": Option(
        "Noise",
        "auto",
        "str or mapping, default 'auto'",
        'The name of a mechanism, or its name and parameters: `{"name": "asymmetric_laplace", '
        '"k": 1.2}`. With "auto" the plan selects the mechanism.',
    ),
    "confidence": Option(
        "float", 0.95, "float, default 0.95", "The confidence of the margins of error."
    ),
    "private_keys": Option(
        "bool",
        False,
        "bool, default False",
        "Whether the keys are found in the data; this needs a delta above 0. In `sql`, also the "
        "names of keys: then those of each GROUP BY with one of these names are found.",
    ),
}
"""All options, in the order in which `help` lists them."""


def option_value(options: Mapping[str, Any], name: str) -> Any:
    """Return the value of an option; its default if it is missing or None, as in pandas."""
    value = options.get(name)
    return OPTIONS[name].default if value is None else value


def keys_of(options: RowOptions) -> list[str]:
    """Return the keys of a query; see `key_names`."""
    by = options.get("by")
    return [] if by is None else key_names(by)


NAMES = "a column name or a list of column names"


def key_names(by: object) -> list[str]:
    """Return a key, or a list of keys, as a list.

    Raises UsageError DP-SESSION-016 if `by` is neither a name nor a list of names.
    """
    if isinstance(by, str):
        return [by]
    if not isinstance(by, Iterable):
        raise wrong_argument("by", NAMES, by)
    keys = list(by)
    names = [key for key in keys if isinstance(key, str)]
    if len(names) < len(keys):
        raise wrong_argument("by", NAMES, keys)
    return names
