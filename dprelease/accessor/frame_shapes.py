"""Answers in the shapes that pandas gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.errors import SessionError
from dprelease.numerics.rounding import exact
from dprelease.schema.column_words import WORDS
from dprelease.schema.columns import CutColumn
from dprelease.schema.field_types import Text
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

PANDAS: dict[str, str] = {
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

FUNCTIONS: dict[str, str] = PANDAS | {
    kind: kind
    for kind, word in WORDS.items()
    if word.kind is Text and not word.with_k and kind not in PANDAS.values()
}
"""All functions of one column: what pandas has no name for is called as it is declared."""

STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def listed(given: object) -> list[Any] | None:
    """Return the members of a list, an array or the like; None for a number or a text."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else None


def single(answer: pd.DataFrame) -> pd.DataFrame:
    """Name the column of an answer `value` and, if it has one, its margin `moe`; return it.

    In place: pandas' `rename` copies all that an answer tells of itself, several times.
    """
    import pandas as pd

    names = {"answer": "value", "answer_moe": "moe"}
    renamed: dict[str, str] = {}
    for old, new in names.items():
        while new in answer.columns:
            new += "_"  # a key has that name
        renamed[old] = new
    answer.columns = pd.Index([renamed.get(name, name) for name in answer.columns])
    return answer


def value_counts(answer: pd.DataFrame, keys: list[str], column: str, *, sort: bool) -> pd.DataFrame:
    """Return counts indexed by keys and values; in descending order, within each group."""
    shown = answer.set_index([*keys, column] if keys else column)
    shown = shown.rename(columns={"count_moe": "moe"})
    if not sort:
        return shown
    if not keys:
        return shown.sort_values("count", ascending=False, kind="stable")
    group = answer.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    return shown.iloc[np.lexsort((-answer["count"].to_numpy(), group))]


def crosstab(answer: pd.DataFrame, index: str, columns: str) -> pd.DataFrame:
    """Return counts with one key in rows and one in columns, both in declared order."""
    rows, heads = answer[index].unique(), answer[columns].unique()
    # Not `loc`, which takes truth values for a mask and leaves the false ones out.
    shown = answer.pivot(index=index, columns=columns, values="count")
    shown = shown.reindex(index=rows, columns=heads).rename_axis(index=index, columns=columns)
    shown.attrs = answer.attrs
    return shown


def histogram(
    answer: pd.DataFrame, keys: list[str], column: str, edges: Sequence[str], closed: str
) -> pd.DataFrame:
    """Return counts indexed by keys and intervals.

    Each row's interval is that of its own label: of private keys not every band is there.
    """
    import pandas as pd

    ends = tuple(exact(edge) for edge in edges)
    band, side = f"{column}_band", "right" if closed == "right" else "left"
    labels = CutColumn.model_validate({"cut": column, "edges": ends, "closed": side}).values
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", edge) for edge in edges)
    breaks = [int(end) if whole else float(end) for end in ends]
    intervals = pd.IntervalIndex.from_breaks(breaks, closed=side)  # type: ignore[call-overload]
    places = {label: i for i, label in enumerate(labels)}
    held = intervals.take([places[label] for label in answer[band]])
    name = band if column in keys else column
    shown = answer.drop(columns=band).set_index(keys) if keys else answer.drop(columns=band)
    shown = shown.rename(columns={"count_moe": "moe"})
    if not keys:
        return shown.set_axis(held.rename(name), axis=0)
    shown[name] = held.to_list()
    return shown.set_index(name, append=True)


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


def describe(answer: pd.DataFrame, keys: list[str], columns: list[str]) -> pd.DataFrame:
    """Return statistics in rows and columns in columns; by keys, groups in rows and both beside."""
    import pandas as pd

    places = [(i, j) for i in range(len(columns)) for j in range(len(STATISTICS))]
    if keys:
        pairs = [(columns[i], STATISTICS[j]) for i, j in places]
        shown = answer.set_index(keys)[[f"c{i}_{j}" for i, j in places]].astype(float)
        shown = shown.set_axis(pd.MultiIndex.from_tuples(pairs), axis=1)
    else:
        data = {
            name: [float(answer[f"c{i}_{j}"].iloc[0]) for j in range(len(STATISTICS))]
            for i, name in enumerate(columns)
        }
        shown = pd.DataFrame(data, index=list(STATISTICS))
    shown.attrs = answer.attrs
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
    given: object, named: Mapping[str, object]
) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]] | None]:
    """Return (column, function) by result name, and the same as levels if there are lists."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        known = '{"column": "function"}, or name=("column", "function")'
        raise SessionError("DP-SESSION-008", what="aggregates of no column", known=known)
    wanted: dict[str, tuple[str, str]] = {}
    asked: list[str] = []
    for column, functions in given.items():
        listed = isinstance(functions, list | tuple)
        for function in functions if isinstance(functions, list | tuple) else [functions]:
            asked.append(f"{column}_{function}" if listed else column)
            wanted[asked[-1]] = (column, str(function))
    for name, pair in named.items():
        column, function = _named(name, pair)
        asked.append(name)
        wanted[name] = (column, function)
    refuse_twins(asked)
    several = any(isinstance(functions, list | tuple) for functions in given.values())
    return wanted, dict(wanted) if several and not named else None


def _named(name: str, pair: object) -> tuple[str, str]:
    """Return what `name=("column", "function")` says, or pandas' NamedAgg."""
    if hasattr(pair, "column") and hasattr(pair, "aggfunc"):
        return str(pair.column), str(pair.aggfunc)
    if not (isinstance(pair, tuple) and len(pair) == 2):
        raise SessionError("DP-SESSION-008", what=name, known='name=("column", "function")')
    return str(pair[0]), str(pair[1])


def check_names(keys: Sequence[str], names: Sequence[str], *, margins: bool) -> None:
    """Raise SessionError DP-SESSION-017 if two columns of a result had the same name."""
    beside = [f"{name}_moe" for name in names] if margins else []
    refuse_twins([*keys, *names, *beside])


def refuse_twins(names: Sequence[str]) -> None:
    """Raise SessionError DP-SESSION-017 for a name that is there twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise SessionError("DP-SESSION-017", name=name)


def grouped(
    answer: pd.DataFrame, by: list[str], names: list[str], *, margins: bool, as_index: bool
) -> pd.DataFrame:
    """Return aggregates by key, in the index or not."""
    renamed = {f"a{i}": name for i, name in enumerate(names)}
    renamed |= {f"a{i}_moe": f"{name}_moe" for i, name in enumerate(names)}
    kept = [c for c in answer.columns if c in by or margins or not str(c).endswith("_moe")]
    shown = answer[kept].set_index(by) if as_index and by else answer[kept]
    return shown.rename(columns=renamed)


def with_levels(shown: pd.DataFrame, levels: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return columns in two levels, as pandas gives lists of functions."""
    import pandas as pd

    names = dict(levels)
    names |= {f"{name}_moe": (pair[0], f"{pair[1]}_moe") for name, pair in levels.items()}
    pairs = [names.get(str(name), (str(name), "")) for name in shown.columns]
    levelled = shown.set_axis(pd.MultiIndex.from_tuples(pairs), axis=1)
    levelled.attrs = shown.attrs
    return levelled


def below(shown: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what stands below one column of an answer in two levels."""
    column_below: Any = shown[column]
    column_below.attrs = shown.attrs
    return column_below  # type: ignore[no-any-return]


def quantiles(
    answer: pd.DataFrame, keys: list[str], columns: Sequence[str], parts: Sequence[Any] | None
) -> pd.DataFrame:
    """Return quantiles by key; several of them below each other, in a last level of the index."""
    import pandas as pd

    shown = answer.set_index(keys)
    tables = []
    for j in range(1 if parts is None else len(parts)):
        names = [f"a{i}_{j}" for i in range(len(columns))]
        tables.append(shown[names].set_axis(list(columns), axis=1))
    if parts is None:
        (stacked,) = tables
    else:
        heads = pd.Index(list(parts), name="q")
        stacked = pd.concat(tables, keys=heads).reorder_levels([*keys, "q"])
        # Cells in declared order, and in each the quantiles as they were asked for.
        order = np.arange(len(stacked)).reshape(len(tables), len(shown)).T.ravel()
        stacked = stacked.iloc[order]
    stacked.attrs = answer.attrs
    return stacked
