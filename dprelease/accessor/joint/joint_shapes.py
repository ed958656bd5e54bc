"""Aggregates of several columns, and the shapes of their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from dprelease.accessor.frame_shapes import with_named_columns
from dprelease.errors import UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.errors.printable import count_text
from dprelease.schema.model import unused_name
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

Specs = dict[str, dict[str, Plain]]
INTERCEPT = "intercept"
"""The name of the constant of a regression in answers."""


def column_list(name: str, columns: object, least: int, most: int | None = None) -> list[str]:
    """Return a list of `least` to `most` different column names.

    Raises UsageError DP-SESSION-016 for anything else.
    """
    parts: list[object] = [columns]
    if isinstance(columns, Iterable) and not isinstance(columns, str | bytes | Mapping):
        parts = list(columns)
    names = [one for one in parts if isinstance(one, str)]
    number = f"at least {least}" if most is None else f"{least} to {most}"
    wanted = f"a list of {number} different column names"
    if len(names) < len(parts):
        raise wrong_argument(name, wanted, columns)
    if len(set(names)) < len(names):
        raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind="names that repeat")
    if not least <= len(names) <= (most or len(names)):
        kind = count_text(len(names), "name", "names")
        raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
    return names


def pair_aggregates(keyword: str, columns: Sequence[str]) -> Specs:
    """Return the aggregate of each pair of columns."""
    pairs = combinations(columns, 2)
    return {f"p{i}": {keyword: list(pair)} for i, pair in enumerate(pairs)}


def matrix_aggregates(keyword: str, columns: Sequence[str]) -> Specs:
    """Return the aggregates of a matrix: those of all pairs, and variances for covariances."""
    found = pair_aggregates(keyword, columns)
    if keyword == "covariance":
        found |= {f"v{i}": {"variance": column} for i, column in enumerate(columns)}
    return found


def regression_aggregates(outcome: str, predictors: Sequence[str]) -> Specs:
    """Return the intercept and all slopes of a linear regression."""
    found: Specs = {}
    for i, on in enumerate([predictors[0], *predictors]):
        controls: list[Plain] = [one for one in predictors if one != on]
        keyword = "slope" if i else INTERCEPT
        found[f"t{i}"] = {keyword: {"of": outcome, "on": on, "controls": controls}}
    return found


def below_each_other(
    answer: pd.DataFrame, keys: list[str], names: Sequence[str], heads: dict[str, list[str]]
) -> pd.DataFrame:
    """Return values below each other: the keys, the columns `heads`, and each value's companions.

    `heads` has a name of each value in each of its columns. Cells are in declared order.
    """
    import pandas as pd

    tables = []
    for i, name in enumerate(names):
        values = answer.columns[len(keys) :]
        own = [c for c in values if c == name or str(c).startswith(f"{name}_")]
        one = with_named_columns(answer[[*keys, *own]].copy(), keys, "value", heads)
        for place, (head, labels) in enumerate(heads.items()):
            one.insert(len(keys) + place, unused_name(head, keys), labels[i])
        tables.append(one)
    stacked = pd.concat(tables, ignore_index=True)
    order = np.arange(len(stacked)).reshape(len(tables), len(answer)).T.ravel()
    found = stacked.iloc[order].reset_index(drop=True)
    found.attrs = answer.attrs
    return found


def with_standard_errors(found: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return coefficients with their standard errors, computed from their intervals.

    A standard error is half of the interval over the normal quantile of its confidence. It is
    missing where the interval has an open end.
    """
    attrs, places = found.attrs, [str(c) for c in found.columns]
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = (
        next(i for i, c in enumerate(places) if c.strip("_") == e) for e in ("lower", "upper")
    )
    halves = (found.iloc[:, high] - found.iloc[:, low]).astype(float) / 2
    errors = halves.where(np.isfinite(halves)) / quantile
    found.insert(low, unused_name("standard_error", places), errors)
    found.attrs = attrs
    return found


def matrices(
    answer: pd.DataFrame, keys: list[str], columns: Sequence[str], names: Sequence[str]
) -> pd.DataFrame:
    """Return a matrix for each cell, as pandas does, with its rows in a last level of the index.

    `names`: the values of all pairs, and then the variances for covariances.
    """
    import pandas as pd

    cells, size = len(answer), len(columns)
    # The correlation of a column with itself is 1; covariances overwrite the diagonal.
    values = np.ones((cells, size, size))
    pairs = list(combinations(range(size), 2))
    for (i, j), name in zip(pairs, names[: len(pairs)], strict=True):
        values[:, i, j] = values[:, j, i] = answer[name].astype(float)
    for i, name in enumerate(names[len(pairs) :]):
        values[:, i, i] = answer[name].astype(float)
    levels: list[Any] = [answer[key].repeat(size) for key in keys]
    index = pd.MultiIndex.from_arrays([*levels, list(columns) * cells], names=[*keys, None])
    found = pd.DataFrame(values.reshape(cells * size, size), index, list(columns))
    found.attrs = answer.attrs
    return found
