"""Grouped rows with the interface of pandas' `groupby`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack, cast, overload

from dprelease.accessor import frame_shapes
from dprelease.accessor.argument_checks import boolean_argument, refuse_data_arguments
from dprelease.accessor.grouped_columns import Groups, SelectedColumns
from dprelease.accessor.query_options import OPTIONS, Options
from dprelease.accessor.questions import query_method
from dprelease.errors import UsageError
from dprelease.numerics.rounding import Number

if TYPE_CHECKING:
    import pandas as pd

Aggregated = Mapping[str, str | Sequence[str]] | Mapping[str, tuple[str, str]]
One = TypeVar("One")


class GroupBy(Groups, Generic[One]):
    """Rows grouped by declared keys; `["income"]` and `[["income", "age"]]` select columns.

    Answers have one row for each declared cell, with the keys as index or as columns. Each answer
    is charged as one query with these keys. `attrs["dprelease_answer"]` holds its guarantee,
    margins of error and mechanisms.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, columns: str) -> SelectedColumns[One]: ...
    @overload
    def __getitem__(self, columns: list[str]) -> SelectedColumns[pd.DataFrame]: ...
    def __getitem__(
        self, columns: str | list[str]
    ) -> SelectedColumns[One] | SelectedColumns[pd.DataFrame]:
        """Return one column, or a list of columns, of the groups."""
        return cast("SelectedColumns[One]", self._select(columns, single=isinstance(columns, str)))

    def _select(self, columns: object, *, single: bool = False) -> SelectedColumns[pd.DataFrame]:
        """Return the columns; raise UsageError DP-SESSION-016 for anything but names."""
        refuse_data_arguments(self.rows, {"columns": columns})
        names = [columns] if isinstance(columns, str) else frame_shapes.list_or_none(columns)
        if names is None or not all(isinstance(name, str) for name in names) or not names:
            kind = "an empty list" if names == [] else type(columns).__name__
            wanted = "a column name or a list of at least one column name"
            raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
        return SelectedColumns(self, tuple(names), single)

    @query_method
    def size(self, **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy counts of rows.

        Returns
        -------
        pandas.DataFrame
            The column `size`.
        """
        with self.rows._one_query() as rows:
            return self._aggregate(rows, {"size": ("*", "size")}, options)

    @query_method
    def agg(
        self,
        aggregates: Aggregated | None = None,
        *,
        margins: bool = False,
        epsilon: Number | None = None,
        **named: object,
    ) -> pd.DataFrame:
        """Return several aggregates, charged together; they share measurements."""
        more = {name: named.pop(name) for name in OPTIONS if name in named}
        options = cast("Options", {"epsilon": epsilon, **more})  # `ask` checks their types
        with self.rows._one_query() as rows:
            margins = boolean_argument("margins", margins)
            if not isinstance(aggregates, Mapping | None):
                raise UsageError("DP-SESSION-014", kind=type(aggregates).__name__)
            wanted = frame_shapes.aggregates_by_label(aggregates, named)
            endings = frame_shapes.COMPANIONS if margins else ()
            companions = [f"{name}{ending}" for name in named for ending in endings]
            frame_shapes.refuse_duplicate_labels(
                [*(() if self.as_index else self.by), *named, *companions]
            )
            return self._aggregate(rows, wanted, options, margins=margins)

    @query_method
    def count(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy counts of the rows in which a column is not missing."""
        return self._select(columns).count(**options)

    @query_method
    def count_distinct(
        self, columns: str | Sequence[str], **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values."""
        return self._select(columns).count_distinct(**options)

    @query_method
    def sum(
        self,
        columns: str | Sequence[str],
        *,
        weight: str | None = None,
        max_sum: Number | None = None,
        **options: Unpack[Options],
    ) -> pd.DataFrame:
        """Return noisy sums, or noisy sums of weighted values."""
        return self._select(columns).sum(weight=weight, max_sum=max_sum, **options)

    @query_method
    def mean(
        self,
        columns: str | Sequence[str],
        *,
        weight: str | None = None,
        **options: Unpack[Options],
    ) -> pd.DataFrame:
        """Return noisy means."""
        return self._select(columns).mean(weight=weight, **options)

    @query_method
    def weighted_count(
        self, columns: str | Sequence[str], **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy sums of the weights of rows."""
        return self._select(columns).weighted_count(**options)

    @query_method
    def effective_size(
        self, columns: str | Sequence[str], **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return effective sample sizes of weighted rows."""
        return self._select(columns).effective_size(**options)

    @query_method
    def variance(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy sample variances (ddof 1)."""
        return self._select(columns).variance(**options)

    @query_method
    def stddev(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy sample standard deviations (ddof 1)."""
        return self._select(columns).stddev(**options)

    @query_method
    def median(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy medians."""
        return self._select(columns).median(**options)

    @query_method
    def min(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return values near the smallest ones."""
        return self._select(columns).min(**options)

    @query_method
    def max(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return values near the largest ones."""
        return self._select(columns).max(**options)

    @query_method
    def mode(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return the most frequent declared values, or nearly the most frequent."""
        return self._select(columns).mode(**options)

    @query_method
    def cov(self, columns: Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy matrices of sample covariances (ddof 1), as pandas' `cov` of groups.

        Parameters
        ----------
        columns : list of str
            Two or more columns of numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            A matrix for each cell; its rows are the last level of the index.
        """
        return self._select(columns).cov(**options)

    @query_method
    def corr(self, columns: Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy matrices of correlations, as pandas' `corr` of groups.

        Parameters
        ----------
        columns : list of str
            Two or more columns of numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            A matrix for each cell; its rows are the last level of the index.
        """
        return self._select(columns).corr(**options)

    nunique = count_distinct
    var = variance
    std = stddev

    @query_method
    def quantile(
        self,
        columns: str | Sequence[str],
        q: float | Sequence[float] = 0.5,
        **options: Unpack[Options],
    ) -> pd.DataFrame:
        """Return noisy quantiles; several of them are listed below each other."""
        return self._select(columns).quantile(q, **options)

    @query_method
    def value_counts(
        self, column: str, *, sort: bool = True, normalize: bool = False, **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy counts or shares of every declared value, as `df.dp.value_counts`."""
        selected = self._select(column, single=True)
        return selected.value_counts(sort=sort, normalize=normalize, **options)

    @query_method
    def histogram(
        self,
        column: str,
        bins: Sequence[float],
        *,
        closed: str = "left",
        **options: Unpack[Options],
    ) -> pd.DataFrame:
        """Return noisy counts of values between edges, as `df.dp.histogram` with `by`."""
        return self._select(column, single=True).histogram(bins, closed=closed, **options)

    @query_method
    def describe(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max of columns, as `df.dp.describe`."""
        return self._select(columns).describe(**options)
