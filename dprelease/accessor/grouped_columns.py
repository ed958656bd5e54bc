"""Columns of grouped rows, and the shapes of their aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

from dprelease.accessor import frame_shapes
from dprelease.accessor.answer import answer_query
from dprelease.accessor.answer_libraries import Library
from dprelease.accessor.argument_checks import (
    function_name,
    quantile_levels,
    weighted_aggregate,
    with_max_sum,
)
from dprelease.accessor.joint_questions import column_list, matrices, matrix_aggregates
from dprelease.accessor.query_options import Options, RowOptions
from dprelease.accessor.questions import FUNCTIONS, QueryMethods, query_method, unavailable
from dprelease.accessor.row_questions import RowQuestions
from dprelease.accessor.row_selection import RowSelection
from dprelease.errors import SessionError, UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.numerics.rounding import Number
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

Aggregates = Mapping[frame_shapes.Label, tuple[str, str]]
"""The column and the function of each aggregate, by the label of the result."""

Shape = TypeVar("Shape")


class Groups(QueryMethods):
    """Rows, and the declared keys by which they are grouped."""

    __slots__ = ("as_index", "by", "library", "rows")

    def __init__(
        self, rows: RowQuestions, by: tuple[str, ...], as_index: bool, library: Library
    ) -> None:
        self.rows, self.by, self.as_index, self.library = rows, by, as_index, library

    def __repr__(self) -> str:
        columns = getattr(self, "columns", ())
        selected = f", columns {', '.join(columns)}" if columns else ""
        return f"<{type(self).__name__}: by {', '.join(self.by)}{selected}; {self.rows!r}>"

    def _queried_rows(self) -> RowQuestions:
        """Return the rows of the queries."""
        return self.rows

    def _library(self) -> Library:
        """Return the library whose frames the answers are."""
        return self.library

    def _aggregate(
        self,
        rows: RowSelection,
        aggregates: Aggregates,
        options: Options,
        more: Mapping[str, Plain] = MappingProxyType({}),
        *,
        weight: str | None = None,
        margins: bool = False,
    ) -> pd.DataFrame:
        """Return aggregates, each with the keys `more`, in the shape of these groups."""
        specs = {
            f"a{i}": {**_aggregate_spec(rows, *pair, weight), **more}
            for i, pair in enumerate(aggregates.values())
        }
        if not margins:
            specs = {name: frame_shapes.without_interval(spec) for name, spec in specs.items()}

        def shape_answer(answer: pd.DataFrame, names: list[str]) -> pd.DataFrame:
            """Return the answer with the labels of the aggregates as column names."""
            labels = dict(zip(names, aggregates, strict=True))
            return frame_shapes.shape_groups(
                answer, list(self.by), labels, margins=margins, as_index=self.as_index
            )

        return answer_query(rows, "groupby", specs, self.by, options, shape_answer, margins=margins)


def _aggregate_spec(
    rows: RowSelection, column: str, function: str, weight: str | None
) -> dict[str, Plain]:
    """Return an aggregate as declared in a release file; `weight` names the weights of rows.

    Raises SessionError DP-SESSION-009 for an unknown column, and 023 for a function that
    is not available, because it has no bounded sensitivity.
    """
    table = rows.session.table
    keyword = FUNCTIONS.get(function)
    weighted, spec = weighted_aggregate(str(keyword), column, weight)
    for name in (column, *([] if weight is None else [weight])):
        if name != "*" and name not in {**table.columns, **rows.derived}:
            raise SessionError("DP-SESSION-009", **unknown_column(table, name))
    if keyword is None:
        raise unavailable(function, list(FUNCTIONS))
    return {"count": "*"} if keyword == "size" else {weighted: spec}


class SelectedColumns(Groups, Generic[Shape]):
    """One grouped column, whose answers are Series, or several columns, whose answers are frames.

    With `as_index=False` all answers are frames, as in pandas.
    """

    __slots__ = ("columns", "single")

    def __init__(self, groups: Groups, columns: tuple[str, ...], single: bool) -> None:
        super().__init__(groups.rows, groups.by, groups.as_index, groups.library)
        self.columns, self.single = columns, single

    def _aggregate_columns(
        self,
        function: str,
        options: Options,
        more: Mapping[str, Plain] = MappingProxyType({}),
        weight: str | None = None,
    ) -> Shape:
        """Return one aggregate of every selected column, with further keys `more`."""
        with self.rows._one_query() as rows:
            frame_shapes.refuse_duplicate_labels(self.columns)
            aggregates: Aggregates = {column: (column, function) for column in self.columns}
            answer = self._aggregate(rows, aggregates, options, more, weight=weight)
            return self._as_frame_or_series(answer)

    def _as_frame_or_series(self, answer: pd.DataFrame) -> Shape:
        """Return an answer as a frame, or its only column as a Series."""
        if not (self.single and self.as_index):
            return cast("Shape", answer)
        column: Any = answer[self.columns[0]]
        column.attrs = answer.attrs
        return cast("Shape", column)

    def _keys_as_index_or_columns(self, answer: pd.DataFrame) -> pd.DataFrame:
        """Return an answer indexed by keys, or with the keys as columns if `as_index` is False."""
        if self.as_index:
            return answer
        flat = answer.reset_index()
        flat.attrs = answer.attrs
        return flat

    def _only_column(self) -> str:
        """Return the selected column; raise UsageError DP-SESSION-016 for several."""
        if not self.single or len(self.columns) > 1:
            kind, wanted = "several", 'one column, as in ["state"]'
            raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
        return self.columns[0]

    def _options_with_keys(self, options: Options) -> RowOptions:
        """Return the options of a query with the keys of the groups."""
        return {**options, "by": list(self.by)}

    @overload
    def agg(self, functions: str, **options: Unpack[Options]) -> Shape: ...
    @overload
    def agg(self, functions: list[str], **options: Unpack[Options]) -> pd.DataFrame: ...
    @query_method
    def agg(self, functions: str | list[str], **options: Unpack[Options]) -> Shape | pd.DataFrame:
        """Return one or several aggregates of every column, charged together.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            With a list, one column per function, below each source column if there are several.
        """
        if isinstance(functions, str) or callable(functions):
            return self._aggregate_columns(function_name(functions), options)
        with self.rows._one_query() as rows:
            names = frame_shapes.list_or_none(functions)
            if not names or isinstance(functions, Mapping):
                wanted = "the name of a function or a list of names"
                raise wrong_argument("functions", wanted, functions)
            frame_shapes.refuse_duplicate_labels(self.columns)
            if not self.single:
                aggregates = frame_shapes.aggregates_by_label(
                    dict.fromkeys(self.columns, names), {}
                )
                return self._aggregate(rows, aggregates, options)
            known = [function_name(name) for name in names]
            frame_shapes.refuse_duplicate_labels(known)
            return self._aggregate(rows, {name: (self.columns[0], name) for name in known}, options)

    @query_method
    def count(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of the rows in which a column is not missing."""
        return self._aggregate_columns("count", options)

    @query_method
    def size(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of rows.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            Of one column a Series with its name, else a frame with the column `size`.
        """
        label = self.columns[0] if self.single and self.as_index else "size"
        with self.rows._one_query() as rows:
            return self._as_frame_or_series(self._aggregate(rows, {label: ("*", "size")}, options))

    @query_method
    def count_distinct(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of distinct ids, or of distinct declared values."""
        return self._aggregate_columns("count_distinct", options)

    @query_method
    def sum(
        self,
        *,
        weight: str | None = None,
        max_sum: Number | None = None,
        **options: Unpack[Options],
    ) -> Shape:
        """Return noisy sums, or noisy sums of weighted values."""
        return self._aggregate_columns("sum", options, with_max_sum(max_sum), weight)

    @query_method
    def mean(self, *, weight: str | None = None, **options: Unpack[Options]) -> Shape:
        """Return noisy means."""
        return self._aggregate_columns("mean", options, weight=weight)

    @query_method
    def weighted_count(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sums of the weights of rows."""
        return self._aggregate_columns("weighted_count", options)

    @query_method
    def effective_size(self, **options: Unpack[Options]) -> Shape:
        """Return effective sample sizes of weighted rows."""
        return self._aggregate_columns("effective_size", options)

    @query_method
    def variance(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sample variances (ddof 1)."""
        return self._aggregate_columns("variance", options)

    @query_method
    def stddev(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sample standard deviations (ddof 1)."""
        return self._aggregate_columns("stddev", options)

    @query_method
    def median(self, **options: Unpack[Options]) -> Shape:
        """Return noisy medians."""
        return self._aggregate_columns("median", options)

    @query_method
    def min(self, **options: Unpack[Options]) -> Shape:
        """Return values near the smallest ones."""
        return self._aggregate_columns("min", options)

    @query_method
    def max(self, **options: Unpack[Options]) -> Shape:
        """Return values near the largest ones."""
        return self._aggregate_columns("max", options)

    @query_method
    def mode(self, **options: Unpack[Options]) -> Shape:
        """Return the most frequent declared values, or nearly the most frequent."""
        return self._aggregate_columns("mode", options)

    def _matrices(self, keyword: str, options: Options) -> pd.DataFrame:
        """Return a matrix of one aggregate of all pairs of the selected columns for each cell."""
        with self.rows._one_query() as rows:
            columns = column_list("columns", list(self.columns), 2)
            answer = answer_query(
                rows, keyword, matrix_aggregates(keyword, columns), self.by, options,
                lambda answer, names: matrices(
                    answer, list(self.by), columns, names
                ),
                margins=False,
            )  # fmt: skip
            return self._keys_as_index_or_columns(answer)

    @query_method
    def cov(self, **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy matrices of sample covariances (ddof 1), as pandas' `cov` of groups.

        Returns
        -------
        pandas.DataFrame
            A matrix for each cell; its rows are the last level of the index.
        """
        return self._matrices("covariance", options)

    @query_method
    def corr(self, **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy matrices of correlations, as pandas' `corr` of groups.

        Returns
        -------
        pandas.DataFrame
            A matrix for each cell; its rows are the last level of the index.
        """
        return self._matrices("correlation", options)

    nunique = count_distinct
    var = variance
    std = stddev

    @query_method
    def quantile(self, q: float | Sequence[float] = 0.5, **options: Unpack[Options]) -> Shape:
        """Return noisy quantiles.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            Each column by its name. Several quantiles are listed in ascending order, in a last
            level of the index or a column `q`.
        """
        levels, each = quantile_levels(q)
        with self.rows._one_query() as rows:
            frame_shapes.refuse_duplicate_labels(self.columns)
            specs = {
                f"a{i}_{j}": frame_shapes.without_interval(
                    frame_shapes.quantile_aggregate(column, at)
                )
                for i, column in enumerate(self.columns)
                for j, at in enumerate(each)
            }
            answer = answer_query(
                rows, "groupby", specs, self.by, options,
                lambda answer, names: frame_shapes.quantiles(
                    answer, list(self.by), self.columns, names, levels
                ),
            )  # fmt: skip
            return self._as_frame_or_series(self._keys_as_index_or_columns(answer))

    @query_method
    def value_counts(
        self, *, sort: bool = True, normalize: bool = False, **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy counts or shares of every declared value, as `df.dp.value_counts`."""
        keys, column = self._options_with_keys(options), self._only_column()
        answer = self.rows.value_counts(column, sort=sort, normalize=normalize, **keys)
        return self._keys_as_index_or_columns(answer)

    @query_method
    def histogram(
        self, bins: Sequence[float], *, closed: str = "left", **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy counts of values between edges, as `df.dp.histogram` with `by`."""
        keys = self._options_with_keys(options)
        return self._keys_as_index_or_columns(
            self.rows.histogram(self._only_column(), bins, closed=closed, **keys)
        )

    @query_method
    def describe(self, **options: Unpack[Options]) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max, as `df.dp.describe` with `by`."""
        answer = self.rows.describe(list(self.columns), **self._options_with_keys(options))
        one = self.columns[0]
        shown = frame_shapes.columns_of_first_level(answer, one, self.by) if self.single else answer
        return self._keys_as_index_or_columns(shown)
