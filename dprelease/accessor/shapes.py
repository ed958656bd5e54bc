"""Answers in the shapes that pandas gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dprelease.errors import SessionError
from dprelease.schema.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

FUNCTIONS: dict[str, str] = {
    "count": "count",
    "size": "size",
    "nunique": "count_distinct",
    "sum": "sum",
    "mean": "mean",
    "var": "variance",
    "std": "stddev",
    "median": "median",
    "min": "min",
    "max": "max",
    "mode": "mode",
}
"""pandas' names of aggregates, and ours."""

STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def single(found: pd.DataFrame) -> pd.DataFrame:
    """Return an answer of one column as `value` and, if it has one, `moe`."""
    names = {"answer": "value", "answer_moe": "moe"}
    renamed: dict[str, str] = {}
    for old, new in names.items():
        while new in found.columns:
            new += "_"  # a key has that name
        renamed[old] = new
    return found.rename(columns=renamed)


def value_counts(found: pd.DataFrame, column: str, *, sort: bool) -> pd.DataFrame:
    """Return counts indexed by their value."""
    shown = found.set_index(column).rename(columns={"count_moe": "moe"})
    return shown.sort_values("count", ascending=False, kind="stable") if sort else shown


def crosstab(found: pd.DataFrame, index: str, columns: str) -> pd.DataFrame:
    """Return counts with one key in rows and one in columns, both in declared order."""
    rows, heads = found[index].unique(), found[columns].unique()
    shown = found.pivot(index=index, columns=columns, values="count").loc[rows, heads]
    shown.attrs = found.attrs
    return shown


def histogram(
    found: pd.DataFrame, keys: list[str], column: str, bins: Sequence[float], closed: str
) -> pd.DataFrame:
    """Return counts indexed by keys and intervals."""
    import pandas as pd

    intervals = pd.IntervalIndex.from_breaks(list(bins), closed=closed, name=column)  # type: ignore[call-overload]
    repeated = len(found) // len(intervals)
    shown = found.drop(columns=f"{column}_band").rename(columns={"count_moe": "moe"})
    shown[column] = intervals.to_list() * repeated
    shown = shown.set_index([*keys, column] if keys else column)
    if not keys:
        shown.index = intervals
    return shown


def summary(column: str) -> list[tuple[str, dict[str, Plain]]]:
    """Return the aggregates of `describe`, by place."""
    quartiles = [quantile(column, at) for at in ("0.25", "0.5", "0.75")]
    asked: list[dict[str, Plain]] = [
        {"count": column}, {"mean": column}, {"stddev": column}, {"min": column},
        *quartiles, {"max": column},
    ]  # fmt: skip
    return [(str(i), spec) for i, spec in enumerate(asked)]


def quantile(column: str, at: str) -> dict[str, Plain]:
    """Return a quantile as a release file has it."""
    part: dict[str, Plain] = {"of": column, "at": at}
    return {"quantile": part}


def describe(found: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return statistics in rows and columns in columns."""
    import pandas as pd

    data = {
        name: [float(found[f"c{i}_{j}"].iloc[0]) for j in range(len(STATISTICS))]
        for i, name in enumerate(columns)
    }
    shown = pd.DataFrame(data, index=list(STATISTICS))
    shown.attrs = found.attrs
    return shown


def spec_of(column: str, function: str) -> dict[str, Plain]:
    """Return an aggregate as a release file has it.

    Raises
    ------
    SessionError
        DP-SESSION-008 for one that has no bounded meaning here.
    """
    kind = FUNCTIONS.get(function)
    if kind is None:
        raise SessionError("DP-SESSION-008", what=function, known=", ".join(FUNCTIONS))
    return {"count": "*"} if kind == "size" else {kind: column}


def aggregates(
    given: Mapping[str, object] | None, named: Mapping[str, object]
) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]] | None]:
    """Return (column, function) by result name, and the same as levels if there are lists."""
    wanted: dict[str, tuple[str, str]] = {}
    for column, functions in (given or {}).items():
        listed = isinstance(functions, list | tuple)
        for function in functions if isinstance(functions, list | tuple) else [functions]:
            wanted[f"{column}_{function}" if listed else column] = (column, str(function))
    for name, pair in named.items():
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise SessionError("DP-SESSION-008", what=name, known='name=("column", "function")')
        wanted[name] = (str(pair[0]), str(pair[1]))
    several = any(isinstance(functions, list | tuple) for functions in (given or {}).values())
    return wanted, dict(wanted) if several and not named else None


def grouped(
    found: pd.DataFrame, by: list[str], names: list[str], *, margins: bool, as_index: bool
) -> pd.DataFrame:
    """Return aggregates by key, in the index or not."""
    renamed = {f"a{i}": name for i, name in enumerate(names)}
    renamed |= {f"a{i}_moe": f"{name}_moe" for i, name in enumerate(names)}
    kept = [c for c in found.columns if c in by or margins or not str(c).endswith("_moe")]
    shown = found[kept].rename(columns=renamed)
    return shown.set_index(by) if as_index and by else shown


def with_levels(shown: pd.DataFrame, levels: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return columns in two levels, as pandas gives lists of functions."""
    import pandas as pd

    names = dict(levels)
    names |= {f"{name}_moe": (pair[0], f"{pair[1]}_moe") for name, pair in levels.items()}
    pairs = [names.get(str(name), (str(name), "")) for name in shown.columns]
    found = shown.set_axis(pd.MultiIndex.from_tuples(pairs), axis=1)
    found.attrs = shown.attrs
    return found
