"""Check the types of arguments of public functions, before anything is read or charged."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import wraps
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar, cast

from dprelease.errors.error_tree import UsageError
from dprelease.errors.state import RunState

Function = TypeVar("Function", bound=Callable[..., Any])


def checked_arguments(function: Function) -> Function:
    """Decorate a public function: arguments of other types than annotated raise DP-SESSION-016.

    Annotations with types that are not in `TYPES` are not checked, because the function does so.
    Nor are `frames`, for which the function names the tables.
    """
    parameters = inspect.signature(function).parameters
    types: dict[str, tuple[str, ...]] = {}
    others: tuple[str, ...] = ()
    for name, one in parameters.items():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
        if options is not None:
            listed = function.__globals__[options[1]].__annotations__
            types |= {key: _types_in(kind.__forward_arg__) for key, kind in listed.items()}
        elif one.kind is inspect.Parameter.VAR_KEYWORD:
            others = _types_in(str(one.annotation))
        else:
            types[name] = _types_in(str(one.annotation))

    @wraps(function)
    def checked(*arguments: object, **named: object) -> object:
        """Check the arguments, then call the function."""
        for name, value in {**dict(zip(parameters, arguments, strict=False)), **named}.items():
            known = () if name == "frames" else types.get(name, others)
            if known and not any(TYPES[one][1](value) for one in known):
                wanted = " or ".join(filter(None, (_wanted(one, known) for one in known)))
                kind = type(value).__name__
                raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
        return function(*arguments, **named)

    return cast("Function", checked)


def _types_in(annotation: str) -> tuple[str, ...]:
    """Return the types in an annotation; empty if any of them is unknown."""
    names = tuple(re.split(r" \| (?![^\[]*\])", annotation))
    return names if all(name in TYPES for name in names) else ()


def _wanted(name: str, known: Sequence[str]) -> str:
    """Return the description of a type; a text that may be a path is described by the path."""
    return "" if name == "str" and "Path" in known else TYPES[name][0]


def _is_sequence_of(value: object, *types: type) -> bool:
    """Return whether a value is a list, an array or a column of values of some types."""
    if isinstance(value, str | bytes) or not (
        isinstance(value, Sequence) or hasattr(value, "tolist")
    ):
        return False
    parts: Any = value
    return getattr(value, "ndim", 1) == 1 and all(isinstance(part, types) for part in parts)


def _is_finite(number: Real) -> bool:
    """Return whether a number is finite, also as a float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "None": ("", lambda value: value is None),
    "str": ("a text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, PathLike)),
    "bool": ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    "int": (
        "a whole number below 2^62",
        lambda value: isinstance(value, Integral) and abs(int(value)) < 2**62,
    ),
    "float": (
        "a finite number",
        lambda value: isinstance(value, Real) and _is_finite(value),
    ),
    "Number": (
        "a number",
        lambda value: isinstance(value, str | Decimal | Real) and not isinstance(value, bool),
    ),
    "Sequence[str]": ("a list of texts", lambda value: _is_sequence_of(value, str)),
    "Sequence[str | Path]": (
        "a list of paths",
        lambda value: _is_sequence_of(value, str, PathLike),
    ),
    "Schemas": (
        "the path of a table schema, or a list of paths",
        lambda value: (
            isinstance(value, str | PathLike)
            or (_is_sequence_of(value, str, PathLike) and len(cast("Any", value)) > 0)
        ),
    ),
    "Mapping[str, object]": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Mapping[str, str | float]": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Library": (
        "'pandas', 'polars' or 'pyarrow'",
        lambda value: isinstance(value, str) and value in ("pandas", "polars", "pyarrow"),
    ),
    "ComparableRelease": (
        "a PublishedRelease",
        lambda value: hasattr(value, "path") and hasattr(value, "change"),
    ),
    "IfPublished": ("'fail' or 'skip'", lambda value: isinstance(value, str)),
    "RunState": ("a RunState", lambda value: isinstance(value, RunState)),
    "SigningKey": (
        "a key of `signing_key`",
        lambda value: hasattr(value, "sign") and hasattr(value, "public"),
    ),
}
"""The description of each type that is checked, and its check, by the type's annotation."""
