"""Queries about several columns at once: their aggregates, and the shapes of their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from dprelease.accessor.answer import answer_query
from dprelease.accessor.argument_checks import to_plain
from dprelease.accessor.frame_shapes import with_named_columns
from dprelease.accessor.pricing import confidence_of
from dprelease.accessor.query_options import RowOptions, keys_of
from dprelease.accessor.questions import QueryMethods, query_method
from dprelease.accessor.row_selection import RowSelection
from dprelease.errors import UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.errors.printable import count_text
from dprelease.numerics.rounding import Number
from dprelease.schema.aggregate_keywords import MOST_CONTROLS
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


MOST_PREDICTORS = MOST_CONTROLS + 1


class JointQuestions(QueryMethods, ABC):
    """Covariances, correlations and regressions, a row for each statistic; and design errors."""

    __slots__ = ()

    @abstractmethod
    def _one_query(self) -> AbstractContextManager[RowSelection]:
        """Return a context with the rows for one query."""

    def _answer_pairs(
        self, keyword: str, columns: Sequence[str], options: RowOptions
    ) -> pd.DataFrame:
        """Return one aggregate of each pair of columns."""
        with self._one_query() as rows:
            names = column_list("columns", columns, 2)
            first, second = zip(*combinations(names, 2), strict=True)
            heads, keys = {"column": list(first), "other": list(second)}, keys_of(options)
            return answer_query(
                rows, keyword, pair_aggregates(keyword, names), keys, options,
                lambda answer, held: below_each_other(answer, keys, held, heads),
            )  # fmt: skip

    @query_method
    def cov(self, columns: Sequence[str], **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy sample covariances (ddof 1) of each pair of columns.

        Returns
        -------
        pandas.DataFrame
            The keys, `column`, `other`, `value`, `lower` and `upper`, the ends of its interval, and
            `quality`. A row counts for a pair only if neither of the two values is missing.
        """
        return self._answer_pairs("covariance", columns, options)

    @query_method
    def corr(self, columns: Sequence[str], **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy correlations (Pearson) of each pair of columns.

        Returns
        -------
        pandas.DataFrame
            The keys, `column`, `other`, `value`, `lower` and `upper`, the ends of its interval, and
            `quality`. A value is NaN where the variation of a column is not clearly above 0.
        """
        return self._answer_pairs("correlation", columns, options)

    @query_method
    def regression(
        self, outcome: str, predictors: Sequence[str], **options: Unpack[RowOptions]
    ) -> pd.DataFrame:
        """Return the noisy coefficients of a linear regression by least squares.

        Parameters
        ----------
        outcome : str
            The column that the others predict.
        predictors : list of str
            One to five columns of numbers with declared bounds, or booleans.

        Returns
        -------
        pandas.DataFrame
            The keys, `term`, `value`, `standard_error`, `lower` and `upper`, the ends of the
            interval, and `quality`. Standard errors and intervals cover the noise alone, and no
            sampling error. A value is NaN where the noisy moments of the predictors are not clearly
            positive definite.
        """
        with self._one_query() as rows:
            names = column_list("predictors", predictors, 1, MOST_PREDICTORS)
            keys = keys_of(options)
            heads, confidence = {"term": [INTERCEPT, *names]}, confidence_of(options)

            def shape(answer: pd.DataFrame, held: list[str]) -> pd.DataFrame:
                """Return a row for each coefficient of each cell."""
                found = below_each_other(answer, keys, held, heads)
                return with_standard_errors(found, float(confidence))

            specs = regression_aggregates(outcome, names)
            return answer_query(rows, "regression", specs, keys, options, shape)

    @query_method
    def design_error(
        self,
        weight: str,
        replicates: str | Sequence[str],
        scale: Number | str,
        *,
        column: str | None = None,
        max_difference: Number | None = None,
        **options: Unpack[RowOptions],
    ) -> pd.DataFrame:
        """Return standard errors of weighted counts or sums under the sampling design.

        Parameters
        ----------
        weight : str
            The column with the weight of each row, which has declared bounds of 0 or more.
        replicates : str or list of str
            The columns with the replicate weights, or the first and the last of them, as in
            'w1-w80'.
        scale : int, float, str, Decimal or Fraction
            The factor of the sum of squared differences that the survey publishes, such as '4/80'.
        column : str, optional
            The column whose weighted sum has the standard error; by default the weighted count.
        max_difference : int, float, str, Decimal or Fraction, optional
            The size to which the difference between a replicate weight and the weight of a row is
            clamped, which needs less noise. A multiple of the weights' steps.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, `lower` and `upper`, the ends of its interval, and `quality`.
            Intervals cover the noise alone. A value is NaN where the variance is not clearly above
            0.
        """
        with self._one_query() as rows:
            names = replicates
            if not isinstance(names, str):
                names = column_list("replicates", replicates, 1)
            spec = {"weight": weight, "replicates": names, "scale": scale}
            more = {"of": column, "max_difference": max_difference}
            spec |= {key: value for key, value in more.items() if value is not None}
            keys, aggregate = keys_of(options), {"design_error": to_plain(spec)}
            return answer_query(
                rows, "design_error", {"answer": aggregate}, keys, options,
                lambda answer, _: with_named_columns(answer, keys, "value"),
            )  # fmt: skip
