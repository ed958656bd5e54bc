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
from types import MappingProxyType
from typing import Any, TypeVar, cast

from dprelease.errors.error_tree import UsageError
from dprelease.errors.printable import count_text
from dprelease.errors.state import RunState
from dprelease.errors.suggestions import nearest

INSTEAD = {
    "where": "select rows first, as in df.dp.where('age >= 18').count(epsilon=0.1)",
    "filter": "select rows first, as in df.dp.where('age >= 18').count(epsilon=0.1)",
    "bins": "call histogram for counts between edges",
    "values": "call agg with several keys, and pivot its answer",
    "aggfunc": "call agg with several keys, and pivot its answer",
    "percentiles": "call quantile for other quantiles",
    "ascending": "sort the answer, which costs nothing",
    "dropna": "declare `fill` of the column, a value under which missing values count",
    "observed": "drop rows of the answer, which has all declared values",
    "level": "name the keys in by",
}
"""What to do instead of arguments of pandas, by their names."""

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def checked_methods(kind: Class) -> Class:
    """Decorate a class: its constructor and public methods are decorated by `checked_arguments`."""
    for name, member in list(vars(kind).items()):
        # Methods that are wrapped already have checks of their own.
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and inspect.isfunction(member) and not hasattr(member, "__wrapped__"):
            setattr(kind, name, checked_arguments(member))
    return kind


def checked_arguments(function: Function) -> Function:
    """Decorate a public function: arguments of other types than annotated raise DP-SESSION-016.

    Missing, surplus and unknown arguments raise the errors of `arguments_by_name`. Annotations with
    types that are not in `TYPES` are not checked, because the function does so. Nor are `frames`,
    for which the function names the tables.
    """
    signature = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    types: dict[str, tuple[str, ...]] = {}
    others: tuple[str, ...] = ()
    for name, one in signature.parameters.items():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation))
        if options is None:
            parameters.append(one)
            types[name] = types_in(one.annotation)
            others = types[name] if one.kind is inspect.Parameter.VAR_KEYWORD else ()
            continue
        for key, kind in function.__globals__[options[1]].__annotations__.items():
            parameters.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None))
            types[key] = types_in(kind.__forward_arg__)
    signature = signature.replace(parameters=parameters)

    @wraps(function)
    def checked(*arguments: object, **named: object) -> object:
        """Check the arguments, then call the function."""
        values = arguments_by_name(signature, function, arguments, named)
        refuse_wrong_types(values, dict.fromkeys(values, others) | types)
        return function(*arguments, **named)

    return cast("Function", checked)


def arguments_by_name(
    signature: inspect.Signature,
    function: Callable[..., object],
    arguments: Sequence[object],
    named: Mapping[str, object],
) -> dict[str, object]:
    """Return the arguments of a call by their names, without those of a parameter `*arguments`.

    Raises UsageError DP-SESSION-012 for an unknown name, and DP-SESSION-022 for an argument that is
    missing, surplus or passed twice.
    """
    try:
        signature.bind(*arguments, **named)
    except TypeError:
        raise _wrong_call(signature, function, arguments, named) from None
    return {**dict(zip(signature.parameters, arguments, strict=False)), **named}


def _wrong_call(
    signature: inspect.Signature,
    function: Callable[..., object],
    arguments: Sequence[object],
    named: Mapping[str, object],
) -> UsageError:
    """Return the error of a call that doesn't fit the signature of its function."""
    own = [
        one.replace(annotation=inspect.Parameter.empty)
        for name, one in signature.parameters.items()
        if name != "self"
    ]
    number = len(arguments) - (len(signature.parameters) - len(own))
    names = [one.name for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
    first = [one.name for one in own if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    missing = [
        one.name for one in own if one.default is one.empty and one.name not in first[:number]
    ]
    for name in named:
        if name not in names and len(names) == len(own):
            known = ", ".join(names) or "no argument"
            advice = f"{INSTEAD[name]}; or " if name in INSTEAD else ""
            close = nearest(name, names)
            advice = "" if close else advice
            return UsageError(
                "DP-SESSION-012", name=name, nearest=close, known=known, advice=advice
            )
    twice = [name for name in first[:number] if name in named]
    if twice:
        problem = f"gets `{twice[0]}` twice"
    elif number > len(first):
        most = count_text(len(first), "argument", "arguments")
        problem = f"takes {most} without a name, and gets {number}"
    else:
        problem = f"needs `{next(name for name in missing if name not in named)}`"
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    rule = ", those after * by their names" if len(first) < len(own) else ""
    known = f"{called}{inspect.Signature(own)}{rule}"
    return UsageError("DP-SESSION-022", call=called, problem=problem, known=known)


def refuse_wrong_types(
    values: Mapping[str, object],
    types: Mapping[str, Sequence[str]],
    words: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise UsageError DP-SESSION-016 for an argument of another type than those in `types`.

    `words`: descriptions of arguments, instead of those of their types.
    """
    for name, value in values.items():
        known = () if name == "frames" else types.get(name, ())
        if known and not any(TYPES[one][1](value) for one in known):
            wanted = " or ".join(filter(None, (_type_text(one, known) for one in known)))
            raise wrong_argument(name, words.get(name, wanted), value)


def wrong_argument(name: str, wanted: str, value: object) -> UsageError:
    """Return the error of an argument of another type than the wanted one."""
    return UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=wrong_kind(value))


def wrong_kind(value: object) -> str:
    """Return the type of a value; for a list, it names the types of its items, and no value."""
    kind = type(value).__name__
    if not isinstance(value, list | tuple):
        return kind
    # Types alone: a value in a wrong argument may come from the data.
    items = sorted({type(one).__name__ for one in value})
    return f"a {kind} of {', '.join(items)}" if items else f"an empty {kind}"


def types_in(annotation: str) -> tuple[str, ...]:
    """Return the types in an annotation; empty if any of them is unknown."""
    names = tuple(re.split(r" \| (?![^\[]*\])", str(annotation)))
    return names if all(name in TYPES for name in names) else ()


def _type_text(name: str, known: Sequence[str]) -> str:
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
    "Condition": (
        'a condition in SQL as one text, such as "age >= 18"',
        lambda value: isinstance(value, str),
    ),
    "Path": ("a path", lambda value: isinstance(value, PathLike)),
    # By the name of the type, so that NumPy's booleans fit without importing NumPy.
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
    "ColumnDeclaration": (
        'a declaration, such as {"expression": "age >= 18", "type": "boolean"}',
        lambda value: isinstance(value, Mapping),
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
