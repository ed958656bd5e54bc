"""The query methods of rows about several columns at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from typing import TYPE_CHECKING, Unpack

from dprelease.accessor.answer import answer_query
from dprelease.accessor.argument_checks import to_plain
from dprelease.accessor.frame_shapes import with_named_columns
from dprelease.accessor.joint import joint_shapes
from dprelease.accessor.pricing import confidence_of
from dprelease.accessor.query_options import RowOptions, keys_of
from dprelease.accessor.questions import QueryMethods, query_method
from dprelease.accessor.row_selection import RowSelection
from dprelease.numerics.rounding import Number
from dprelease.schema.aggregate_keywords import MOST_CONTROLS

if TYPE_CHECKING:
    import pandas as pd

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
            names = joint_shapes.column_list("columns", columns, 2)
            first, second = zip(*combinations(names, 2), strict=True)
            heads, keys = {"column": list(first), "other": list(second)}, keys_of(options)
            return answer_query(
                rows, keyword, joint_shapes.pair_aggregates(keyword, names), keys, options,
                lambda answer, held: joint_shapes.below_each_other(answer, keys, held, heads),
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
            names = joint_shapes.column_list("predictors", predictors, 1, MOST_PREDICTORS)
            keys = keys_of(options)
            heads, confidence = {"term": [joint_shapes.INTERCEPT, *names]}, confidence_of(options)

            def shape(answer: pd.DataFrame, held: list[str]) -> pd.DataFrame:
                """Return a row for each coefficient of each cell."""
                found = joint_shapes.below_each_other(answer, keys, held, heads)
                return joint_shapes.with_standard_errors(found, float(confidence))

            specs = joint_shapes.regression_aggregates(outcome, names)
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
                names = joint_shapes.column_list("replicates", replicates, 1)
            spec = {"weight": weight, "replicates": names, "scale": scale}
            more = {"of": column, "max_difference": max_difference}
            spec |= {key: value for key, value in more.items() if value is not None}
            keys, aggregate = keys_of(options), {"design_error": to_plain(spec)}
            return answer_query(
                rows, "design_error", {"answer": aggregate}, keys, options,
                lambda answer, _: with_named_columns(answer, keys, "value"),
            )  # fmt: skip
