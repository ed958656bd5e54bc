"""Convert answers to the shapes that pandas returns."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.accessor.argument_checks import function_name
from dprelease.errors import SessionError
from dprelease.errors.argument_types import wrong_argument
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import exact
from dprelease.postprocess.margins import margin_factor, share_estimates
from dprelease.query.measurement import WITH_COMPANIONS
from dprelease.schema.column_spec import QUANTILES
from dprelease.schema.columns import CutColumn
from dprelease.schema.model import normalized_name, unused_name
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

COMPANIONS = WITH_COMPANIONS[1:]
"""The endings of the names of companion columns, such as that of the margin of error."""

Label = str | tuple[str, str]
"""Label of a column, with one level or with two levels."""

STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def list_or_none(value: object) -> list[Any] | None:
    """Return the members of a list or an array as a list; None for a number or a string."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else None


def names_of_answers(wanted: Sequence[str], keys: Iterable[str]) -> list[str]:
    """Return column names of an answer; neither a name nor that of a companion is that of a key."""
    taken = {normalized_name(key) for key in keys}
    return [unused_name(name, taken, WITH_COMPANIONS) for name in wanted]


def with_named_columns(
    answer: pd.DataFrame, keys: Collection[str], name: str, taken: Iterable[str] = ()
) -> pd.DataFrame:
    """Rename the value after the keys to `name`, and its companions to their endings, in place.

    If a key or one of the names `taken` is the same, `_` is appended until the name is unique. The
    frame is changed in place, because pandas' `rename` would copy its attributes several times.
    """
    import pandas as pd

    value, *others = map(str, answer.columns[len(keys) :])
    names = [name, *(other.removeprefix(f"{value}_") for other in others)]
    free = [unused_name(name, [*keys, *taken]) for name in names]
    answer.columns = pd.Index([*answer.columns[: len(keys)], *free])
    return answer


def without_interval(spec: Mapping[str, Plain]) -> dict[str, Plain]:
    """Return an aggregate without the interval of a quantile, whose budget the value then has.

    It is for shapes that don't show companion columns.
    """
    return {**spec, "interval": "false"} if QUANTILES & spec.keys() else dict(spec)


def value_counts(answer: pd.DataFrame, keys: list[str], *, sort: bool) -> pd.DataFrame:
    """Return counts indexed by keys; the last key is the column whose values are counted.

    Within each group, the counts are in descending order if `sort` is set.
    """
    group = _group_numbers(answer, keys[:-1])
    shown = with_named_columns(answer, keys, "count").set_index(keys if len(keys) > 1 else keys[0])
    return _sorted_in_groups(shown, group) if sort else shown


def _group_numbers(answer: pd.DataFrame, keys: list[str]) -> Integers:
    """Return the number of the group of each row."""
    if not keys:
        return np.zeros(len(answer), np.int64)
    groups = answer.groupby(keys, sort=False, dropna=False).ngroup()
    return groups.to_numpy().astype(np.int64)


def _sorted_in_groups(shown: pd.DataFrame, group: Integers) -> pd.DataFrame:
    """Return the rows in descending order of their first column in each group."""
    # `lexsort` is stable: equal counts stay in declared order, which says nothing about the data.
    return shown.iloc[np.lexsort((-shown.iloc[:, 0].to_numpy(), group))]


def proportions(
    answer: pd.DataFrame, noise: Randomizer | None, *, keys: list[str], sort: bool
) -> pd.DataFrame:
    """Return the shares of counts in their group, with their 95 % intervals, indexed by keys.

    Counts below 0 count as 0. A share is missing if the total of its group is not clearly above 0.
    Without the noise of all counts, the intervals are from 0 to 1.
    """
    import pandas as pd

    group = _group_numbers(answer, keys[:-1])
    counts = answer.iloc[:, len(keys)].to_numpy().astype(np.float64)
    # Selected private keys are those with large counts, so the noise of the published ones is
    # biased.
    factor = math.inf if noise is None else margin_factor(noise)
    found = share_estimates(counts, group, factor)
    numbers = {"proportion": found.values, "lower": found.lower, "upper": found.upper}
    shown = pd.concat([answer[keys], pd.DataFrame(numbers, index=answer.index)], axis=1)
    shown.columns = pd.Index([*keys, *(unused_name(name, keys) for name in numbers)])
    shown = shown.set_index(keys if len(keys) > 1 else keys[0])
    # pandas drops the attributes when it joins columns.
    shown.attrs = answer.attrs
    return _sorted_in_groups(shown, group) if sort else shown


TOTAL = "All"
"""The label of totals in a table of two keys, as in pandas."""


def crosstab(
    answer: pd.DataFrame, index: str, columns: str, *, margins: bool = False, normalize: str = ""
) -> pd.DataFrame:
    """Return counts with one key as rows and another key as columns, both in declared order.

    `margins`: whether to add the sums of rows and columns. `normalize`: whether to return shares in
    their row ("index"), in their column ("columns") or in the total ("all"), in which counts below
    0 count as 0.
    """
    rows, heads = answer[index].unique(), answer[columns].unique()
    counts = next(name for name in answer.columns if name not in (index, columns))
    # `loc` would use boolean keys as a mask, and would drop the false ones.
    shown = answer.pivot(index=index, columns=columns, values=counts)
    shown = shown.reindex(index=rows, columns=heads).rename_axis(index=index, columns=columns)
    if normalize:
        shown = shown.clip(lower=0).astype(float)
    if margins:
        shown = _with_totals(shown)
    if normalize:
        shown = _shares_of(shown, len(rows), normalize, totals=margins)
    shown.attrs = answer.attrs
    return shown


def _shares_of(shown: pd.DataFrame, rows: int, normalize: str, *, totals: bool) -> pd.DataFrame:
    """Return the shares of numbers in their row, in their column or in all, or NaN.

    `totals`: whether the last row, after `rows` others, and the last column are sums.
    """
    numbers = shown.to_numpy()
    inner = numbers[:rows, : numbers.shape[1] - totals]
    if normalize == "all":
        sums = inner.sum(keepdims=True)
    else:
        sums = numbers.sum(axis=1 if normalize == "index" else 0, keepdims=True)
        sums = sums / (1 + totals)  # each sum is one over the cells and over their own sum
    found = shown.copy()
    found.loc[:, :] = numbers / np.where(sums > 0, sums, np.nan)
    return found


def _with_totals(shown: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the sums of its rows and of its columns."""
    label = unused_name(TOTAL, [str(name) for name in (*shown.index, *shown.columns)])
    names: Any = (shown.index.name, shown.columns.name)
    shown = shown.set_axis(shown.columns.astype(object), axis=1)
    shown = shown.set_axis(shown.index.astype(object), axis=0)
    shown[label] = shown.sum(axis=1)
    shown.loc[label] = shown.sum(axis=0)
    found: pd.DataFrame = shown.rename_axis(index=names[0], columns=names[1])
    return found


def histogram(
    answer: pd.DataFrame, keys: list[str], column: str, edges: Sequence[str], closed: str
) -> pd.DataFrame:
    """Return counts indexed by keys and intervals, with the intervals as the last level.

    Intervals are looked up by label, because some of them may be missing with private keys.
    """
    import pandas as pd

    ends = tuple(exact(edge) for edge in edges)
    side = "right" if closed == "right" else "left"
    bands = str(answer.columns[len(keys)])
    labels = CutColumn.model_validate({"cut": column, "edges": ends, "closed": side}).values
    whole = all(re.fullmatch(r"[+-]?[0-9]{1,18}", edge) for edge in edges)
    # pandas makes intervals of integers, such as [0, 18), only from integers.
    breaks = [int(end) if whole else float(end) for end in ends]
    intervals = pd.IntervalIndex.from_breaks(breaks, closed=side)  # type: ignore[call-overload]
    positions = {label: i for i, label in enumerate(labels)}
    held = intervals.take([positions[label] for label in answer[bands]])
    names = [*keys, bands if column in keys else column]
    levels = [*(answer[key] for key in keys), held]
    shown = with_named_columns(answer, [*keys, bands], "count", names)
    shown = shown.iloc[:, len(names) :]
    index = pd.MultiIndex.from_arrays(levels, names=names) if keys else held.rename(names[0])
    return shown.set_axis(index, axis=0)


SHORT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
"""Names of columns to which an ending can be added to make the name of a published column."""


def summary_aggregates(columns: Sequence[str]) -> dict[str, dict[str, Plain]]:
    """Return the aggregates that `describe` shows, by names such as `income_mean`."""
    every: dict[str, dict[str, Plain]] = {}
    for i, column in enumerate(columns):
        start = column if SHORT_NAME.fullmatch(column) else f"column_{i + 1}"
        quartiles = {f"q{at}": quantile_aggregate(column, f"0.{at}") for at in (25, 50, 75)}
        aggregates: dict[str, dict[str, Plain]] = {
            "count": {"count": column}, "mean": {"mean": column}, "std": {"stddev": column},
            "min": {"min": column}, **quartiles, "max": {"max": column},
        }  # fmt: skip
        for ending, spec in aggregates.items():
            taken = {normalized_name(name) for name in every}
            name = unused_name(f"{start}_{ending}", taken, WITH_COMPANIONS)
            every[name] = without_interval(spec)
    return every


def quantile_aggregate(column: str, at: str) -> dict[str, Plain]:
    """Return a quantile aggregate as declared in a release file."""
    part: dict[str, Plain] = {"of": column, "at": at}
    return {"quantile": part}


def several_quantiles(
    answer: pd.DataFrame, names: Sequence[str], levels: Sequence[Any]
) -> pd.DataFrame:
    """Return quantiles and their companions, named by the quantiles."""
    labels = dict(zip(names, levels, strict=True))
    labels |= {
        f"{name}{ending}": f"{level}{ending}"
        for name, level in zip(names, levels, strict=True)
        for ending in COMPANIONS
    }
    return answer.rename(columns=labels)


def describe(
    answer: pd.DataFrame, keys: list[str], columns: list[str], names: Sequence[str]
) -> pd.DataFrame:
    """Return a table with a row for each statistic, and a column for each described column.

    With keys, the table has a row for each group, and a column for each statistic of each described
    column. `names`: the names of all statistics in the answer, column by column.
    """
    import pandas as pd

    if keys:
        pairs = [(column, statistic) for column in columns for statistic in STATISTICS]
        shown = answer.set_index(keys)[list(names)].astype(float)
        shown = shown.set_axis(pd.MultiIndex.from_tuples(pairs), axis=1)
    else:
        (values,) = answer[list(names)].astype(float).to_numpy()
        table = values.reshape(len(columns), len(STATISTICS)).T
        shown = pd.DataFrame(table, index=list(STATISTICS), columns=list(columns))
    shown.attrs = answer.attrs
    return shown


def aggregates_by_label(
    columns: Mapping[str, Any] | None, named: Mapping[str, object]
) -> dict[Label, tuple[str, str]]:
    """Return the column and function of each aggregate by the label of its result.

    If several functions of a column are listed, each label is a pair of column and function.
    """
    wanted: list[tuple[Label, tuple[str, str]]] = []
    columns = {} if columns is None else columns
    levels = not named and any(isinstance(value, list | tuple) for value in columns.values())
    for column, value in columns.items():
        if not isinstance(column, str):
            raise wrong_argument("aggregates", "the names of columns as its keys", column)
        is_list = isinstance(value, list | tuple)
        for function in value if is_list else [value]:
            pair = (column, function_name(function))
            label = f"{column}_{pair[1]}" if is_list else column
            wanted.append((pair if levels else label, pair))
    wanted += [(name, _column_and_function(name, pair)) for name, pair in named.items()]
    refuse_duplicate_labels([label for label, _ in wanted])
    return dict(wanted)


def _column_and_function(name: str, pair: object) -> tuple[str, str]:
    """Return the column and function from `name=("column", "function")` or pandas' NamedAgg."""
    if hasattr(pair, "column") and hasattr(pair, "aggfunc"):
        pair = (pair.column, pair.aggfunc)
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
        wanted = '("column", "function"), such as ("age", "mean")'
        if name in ("max_sum", "weight"):
            wanted += f"; as an option, {name} belongs to sum(...) and the like, and not to agg"
        raise wrong_argument(name, wanted, pair)
    return pair[0], function_name(pair[1])


def refuse_duplicate_labels(labels: Sequence[Label]) -> None:
    """Raise SessionError DP-SESSION-017 for a duplicate label."""
    for i, label in enumerate(labels):
        if label in labels[:i]:
            name = label if isinstance(label, str) else ", ".join(label)
            raise SessionError("DP-SESSION-017", name=name)


def shape_groups(
    answer: pd.DataFrame, by: list[str], names: Mapping[str, Label], *, margins: bool,
    as_index: bool,
) -> pd.DataFrame:  # fmt: skip
    """Return aggregates with the keys in the index or as columns; `names` maps columns to labels.

    If a label equals that of a key or of another column of the result, `_` is appended until it is
    unique.
    """
    import pandas as pd

    levels = not all(isinstance(label, str) for label in names.values())
    keys: list[Label] = [(key, "") if levels else key for key in by]
    kept = [c for c in answer.columns if c in by or c in names or margins]
    shown = answer[kept].set_index(by) if as_index and by else answer[kept]
    taken = set(names.values()) | (set() if as_index else set(keys))
    labels: dict[str, Label] = {} if as_index else dict(zip(by, keys, strict=True))
    for name, label in names.items():
        labels[name] = _unique_label(label, taken) if label in labels.values() else label
        taken.add(labels[name])
    for name in names:
        for ending in COMPANIONS:
            if f"{name}{ending}" in shown.columns:
                label = _unique_label(_label_with_suffix(labels[name], ending), taken)
                labels[f"{name}{ending}"] = label
                taken.add(label)
    heads: Any = [labels[name] for name in shown.columns]
    shown = shown.set_axis(pd.MultiIndex.from_tuples(heads) if levels else heads, axis=1)
    shown.attrs = answer.attrs
    return shown


def _label_with_suffix(label: Label, ending: str) -> Label:
    """Return a label with a suffix at its end, or at the end of its second level."""
    return f"{label}{ending}" if isinstance(label, str) else (label[0], f"{label[1]}{ending}")


def _unique_label(label: Label, taken: Collection[Label]) -> Label:
    """Return a label, with as many `_` appended as make it differ from the labels in use."""
    while label in taken:
        label = _label_with_suffix(label, "_")
    return label


def columns_of_first_level(shown: pd.DataFrame, column: str, keys: Collection[str]) -> pd.DataFrame:
    """Return the columns whose first level is `column`, under names that differ from all keys."""
    column_below: Any = shown[column]
    names = [unused_name(name, keys) for name in column_below.columns]
    column_below = column_below.set_axis(names, axis=1)
    column_below.attrs = shown.attrs
    return column_below  # type: ignore[no-any-return]


def quantiles(
    answer: pd.DataFrame,
    keys: list[str],
    columns: Sequence[str],
    names: Sequence[str],
    parts: Sequence[Any] | None,
) -> pd.DataFrame:
    """Return quantiles by key; several quantiles become a last level of the index.

    `names`: the names of all columns of quantiles in the answer.
    """
    import pandas as pd

    shown, several = answer.set_index(keys), 1 if parts is None else len(parts)
    tables = [
        shown[list(names[j::several])].set_axis(list(columns), axis=1) for j in range(several)
    ]
    if parts is None:
        (stacked,) = tables
    else:
        heads = pd.Index(list(parts), name=unused_name("q", [*keys, *columns]))
        levels = range(1, len(keys) + 1)
        stacked = pd.concat(tables, keys=heads).reorder_levels([*levels, 0])
        # Cells in declared order; within each cell, the quantiles in the order of the arguments.
        order = np.arange(len(stacked)).reshape(len(tables), len(shown)).T.ravel()
        stacked = stacked.iloc[order]
    stacked.attrs = answer.attrs
    return stacked
