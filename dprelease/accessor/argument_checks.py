"""Check the arguments of queries: names and numbers are accepted, columns and frames are not.

An error message quotes an unknown name. If a caller passed a column instead of a column name, as
pandas allows, the message would quote values of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from dprelease.errors import UsageError
from dprelease.errors.argument_types import wrong_argument, wrong_kind
from dprelease.numerics.rounding import plain_text
from dprelease.schema.aggregate_keywords import LEVELS, level_of
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    from dprelease.accessor.row_selection import RowSelection

LIBRARIES = frozenset({"pandas", "numpy", "pyarrow", "polars"})
"""Names of libraries whose list-like objects are columns and frames."""

NUMBERS = ("bins", "q")
"""Arguments that may be an array of numbers."""

NAMES = ("by", "columns")
"""Arguments that may be an index or an array, such as `df.columns`, if all are column names."""

FRAMES = "frames"
"""The argument with frames of public tables."""

BUDGET = ("epsilon", "delta", "rho", "confidence")
"""Arguments that are one number."""

WANTED = "column names, such as 'state' or ['state', 'sex']"


def without_numpy_scalars(value: Any) -> Any:
    """Return a value with NumPy scalars converted to Python scalars, also in lists and mappings.

    All other values are returned unchanged. A float of lower precision becomes the decimal number
    that it prints as, like all floats.
    """
    if isinstance(value, Mapping):
        return {
            without_numpy_scalars(key): without_numpy_scalars(part) for key, part in value.items()
        }
    if isinstance(value, list):
        return [without_numpy_scalars(part) for part in value]
    if isinstance(value, tuple):
        parts = [without_numpy_scalars(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if not _is_scalar(value) or kind not in ("b", "i", "u", "f", "M"):
        return value
    # Nanoseconds would become an integer, because Python has no finer times than microseconds.
    if kind == "M":  # the item of finer units than microseconds would be an integer
        return value.astype("M8[us]").item()
    # The item of np.float32(0.1) is 0.10000000149011612.
    return float(str(value)) if kind == "f" else value.item()


NORMALIZE = ("index", "columns", "all")


def function_name(function: object) -> str:
    """Return the name of a function of `agg`; a function such as np.mean stands for its name.

    Raises UsageError DP-SESSION-016 for anything else, such as a function of the caller.
    """
    if isinstance(function, str):
        return function
    name = getattr(function, "__name__", None)
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    if isinstance(name, str) and callable(function) and module in ("numpy", "builtins"):
        return name
    wanted = "the names of functions, such as 'mean'"
    raise wrong_argument("functions", wanted, function)


def quantile_levels(q: object) -> tuple[list[Any] | None, list[str]]:
    """Return the list of quantiles, None for one quantile; and the texts of their fractions.

    Raises UsageError DP-SESSION-016 for anything but different fractions of quantiles.
    """
    several = isinstance(q, Iterable) and not isinstance(q, str | Mapping)
    levels: list[Any] = list(q) if several else [q]  # type: ignore[call-overload]
    found = [level_of(level) for level in levels]
    texts = ["/" if level is None else plain_text(level) for level in found]  # 1/3 is no decimal
    if not levels or len(set(texts)) < len(texts) or any("/" in text for text in texts):
        wanted = f"a {LEVELS}, or a list of different ones"
        is_number = levels and all(isinstance(level, int | float) for level in levels)
        kind = "other numbers" if is_number else wrong_kind(q)
        raise UsageError("DP-SESSION-016", name="q", wanted=wanted, kind=kind)
    return levels if several else None, texts


def normalize_argument(value: object) -> str:
    """Return what shares of a table of two keys are parts of; empty for no shares.

    Raises UsageError DP-SESSION-016 for anything but a boolean or one of `NORMALIZE`.
    """
    value = without_numpy_scalars(value)
    if isinstance(value, bool):
        return "all" if value else ""
    if not isinstance(value, str) or value not in NORMALIZE:
        wanted = f"True, False or one of {', '.join(map(repr, NORMALIZE))}"
        kind = "another text" if isinstance(value, str) else type(value).__name__
        raise UsageError("DP-SESSION-016", name="normalize", wanted=wanted, kind=kind)
    return value


def to_plain(value: object) -> Plain:
    """Return a declaration as if parsed from YAML: every value in it becomes a string."""
    value = without_numpy_scalars(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def weighted_aggregate(keyword: str, column: str, weight: str | None) -> tuple[str, Plain]:
    """Return the keyword and declaration of an aggregate, whose rows have weights if named."""
    if weight is None:
        return keyword, column
    return f"weighted_{keyword}", {"of": column, "weight": weight}


def with_max_sum(max_sum: object) -> dict[str, Plain]:
    """Return the limit of a privacy unit's sum as in a release file; empty for None."""
    return {} if max_sum is None else {"max_sum": to_plain(max_sum)}


class HasSelection(Protocol):
    """An object with the selection of the rows that a query reads, such as `df.dp`."""

    def _selection(self) -> RowSelection:
        """Return the selection of rows."""
        ...


def refuse_data_arguments(rows: HasSelection, arguments: Mapping[str, object]) -> None:
    """Raise UsageError DP-SESSION-016 for a column or a frame in place of a name or a number.

    Only `frames` may have frames, of public tables. Texts that UTF-8 can't encode are refused, too.
    `arguments`: the arguments of a query by name.
    """
    for name, value in arguments.items():
        if _contains_invalid_text(value):
            kind, wanted = "one with half of a surrogate pair", "a text that UTF-8 can encode"
            raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
        fits = (
            name == FRAMES
            or (name in NUMBERS and _is_numeric_array(value))
            or (name in NAMES and _is_array(value) and _are_column_names(value, rows))
        )
        cells = None if fits else _contained_column(value)
        if cells is not None:
            wanted = "a list of numbers" if name in NUMBERS else WANTED
            wanted = "a single number, such as 0.1" if name in BUDGET else wanted
            raise wrong_argument(name, wanted, cells)


def _contained_column(value: object) -> object | None:
    """Return the column or frame that an argument is or contains; None if there is none."""
    if isinstance(value, Mapping):
        return _first_contained_column(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return _first_contained_column(value)
    return value if _is_column(value) else None


def _contains_invalid_text(value: object) -> bool:
    """Return whether an argument is or contains a text that UTF-8 can't encode."""
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, Mapping):
        return any(_contains_invalid_text(part) for pair in value.items() for part in pair)
    return isinstance(value, list | tuple) and any(map(_contains_invalid_text, value))


def _first_contained_column(parts: Any) -> object | None:
    """Return the first column or frame in any of several values; None if there is none."""
    each = (_contained_column(part) for part in parts)
    return next((cells for cells in each if cells is not None), None)


def _is_column(value: object) -> bool:
    """Return whether the value is list-like and from one of the libraries; scalars are not."""
    # Also of a subclass, such as a frame of geopandas.
    kinds = type(value).__mro__
    known = any(kind.__module__.partition(".")[0] in LIBRARIES for kind in kinds)
    return known and hasattr(value, "__len__") and not _is_scalar(value)


def _is_scalar(value: object) -> bool:
    """Return whether a value is a NumPy scalar."""
    return any(kind.__name__ == "generic" for kind in type(value).__mro__)


def _is_array(value: object) -> bool:
    """Return whether a value is a pandas index or a NumPy array."""
    return any(kind.__name__ in ("Index", "ndarray") for kind in type(value).__mro__)


def _are_column_names(names: Any, rows: HasSelection) -> bool:
    """Return whether all names are columns of the table; any other value may come from the data."""
    selection = rows._selection()
    known = {*selection.session.table.columns, *selection.derived}
    flat = getattr(names, "ndim", 0) == 1
    return flat and all(isinstance(name, str) and name in known for name in names.tolist())


def _is_numeric_array(value: object) -> bool:
    """Return whether a value is an array or a column of integers or floats."""
    return getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u", "f")
