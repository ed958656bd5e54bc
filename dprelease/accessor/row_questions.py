"""The query methods of rows; most return one value per cell, some have the shapes of pandas."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Unpack

from dprelease.accessor import frame_shapes
from dprelease.accessor.answer import answer_query, answer_sql, answer_unique
from dprelease.accessor.answer_libraries import Library
from dprelease.accessor.argument_checks import (
    normalize_argument,
    quantile_levels,
    weighted_aggregate,
    with_max_sum,
)
from dprelease.accessor.joint_questions import JointQuestions
from dprelease.accessor.query_options import Options, RowOptions, SharedOptions, keys_of
from dprelease.accessor.questions import query_method, state_of_query
from dprelease.accessor.row_selection import RowSelection
from dprelease.errors import UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.numerics.rounding import Number
from dprelease.release.question import without_explain
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.accessor.tables import Tables

COUNT_ROWS: dict[str, dict[str, Plain]] = {"count": {"count": "*"}}


class RowQuestions(JointQuestions):
    """Queries with one row for each cell of the declared keys, empty cells included, in order.

    The session is charged before an answer is drawn. `attrs["dprelease_answer"]` of an answer holds
    its guarantee, margins of error and mechanisms.
    """

    __slots__ = ()

    @abstractmethod
    def _selection(self) -> RowSelection:
        """Return the rows to query; raise SessionError if they can't be queried."""

    @abstractmethod
    def _library(self) -> Library:
        """Return the library whose frames the answers are."""

    @contextmanager
    def _one_query(self) -> Iterator[RowSelection]:
        """Yield the rows for one query; an exception from the block gets the state of the query."""
        state = state_of_query()
        with state.add_state_to_errors():
            yield replace(self._selection(), state=state)

    def _answer_one_aggregate(
        self,
        keyword: str,
        spec: Plain,
        options: RowOptions,
        more: Mapping[str, Plain] = MappingProxyType({}),
    ) -> pd.DataFrame:
        """Return the answer to a query with one aggregate, as `value` and its companions.

        `more`: further keys of the aggregate, as in a release file.
        """
        with self._one_query() as rows:
            keys = keys_of(options)
            return answer_query(
                rows, keyword, {"answer": {keyword: spec, **more}}, keys, options,
                lambda answer, _: frame_shapes.with_named_columns(answer, keys, "value"),
            )  # fmt: skip

    @query_method
    def count(self, column: str = "*", **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy counts of rows, or of rows where a column is not missing."""
        return self._answer_one_aggregate("count", column, options)

    @query_method
    def size(self, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy counts of rows."""
        return self._answer_one_aggregate("count", "*", options)

    @query_method
    def count_distinct(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values."""
        return self._answer_one_aggregate("count_distinct", column, options)

    @query_method
    def sum(
        self,
        column: str,
        *,
        weight: str | None = None,
        max_sum: Number | None = None,
        **options: Unpack[RowOptions],
    ) -> pd.DataFrame:
        """Return noisy sums, in the column's unit, or noisy sums of weighted values."""
        keyword, spec = weighted_aggregate("sum", column, weight)
        return self._answer_one_aggregate(keyword, spec, options, with_max_sum(max_sum))

    @query_method
    def mean(
        self, column: str, *, weight: str | None = None, **options: Unpack[RowOptions]
    ) -> pd.DataFrame:
        """Return noisy means, from a sum around the middle of the bounds and a count."""
        return self._answer_one_aggregate(*weighted_aggregate("mean", column, weight), options)

    @query_method
    def weighted_count(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy sums of the weights of rows: what a weighted table counts."""
        return self._answer_one_aggregate("weighted_count", column, options)

    @query_method
    def effective_size(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return effective sample sizes of weighted rows: (sum of w)^2 / sum of w^2 (Kish)."""
        return self._answer_one_aggregate("effective_size", column, options)

    @query_method
    def variance(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy sample variances (ddof 1), as pandas' `var`."""
        return self._answer_one_aggregate("variance", column, options)

    @query_method
    def stddev(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy sample standard deviations (ddof 1), as pandas' `std`."""
        return self._answer_one_aggregate("stddev", column, options)

    @query_method
    def median(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return noisy medians by the exponential mechanism, in the column's unit."""
        return self._answer_one_aggregate("median", column, options)

    @query_method
    def min(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return values near the smallest ones, in the column's unit."""
        return self._answer_one_aggregate("min", column, options)

    @query_method
    def max(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return values near the largest ones, in the column's unit."""
        return self._answer_one_aggregate("max", column, options)

    @query_method
    def mode(self, column: str, **options: Unpack[RowOptions]) -> pd.DataFrame:
        """Return the most frequent declared values, or nearly so, by permute-and-flip."""
        return self._answer_one_aggregate("mode", column, options)

    nunique = count_distinct
    var = variance
    std = stddev

    @query_method
    def quantile(
        self, column: str, q: float | Sequence[float] = 0.5, **options: Unpack[RowOptions]
    ) -> pd.DataFrame:
        """Return noisy quantiles by the exponential mechanism, in the column's unit.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, its interval from `lower` to `upper`, and `quality`. Several
            quantiles give these columns each, named by the quantile, ascending in each cell.
        """
        levels, each = quantile_levels(q)
        if levels is None:
            return self._answer_one_aggregate("quantile", {"of": column, "at": each[0]}, options)
        specs = {f"q{i}": frame_shapes.quantile_aggregate(column, at) for i, at in enumerate(each)}
        with self._one_query() as rows:
            return answer_query(
                rows, "quantiles", specs, keys_of(options), options,
                lambda answer, names: frame_shapes.several_quantiles(answer, names, levels),
            )  # fmt: skip

    @query_method
    def value_counts(
        self,
        column: str,
        *,
        sort: bool = True,
        normalize: bool = False,
        **options: Unpack[RowOptions],
    ) -> pd.DataFrame:
        """Return noisy counts of every declared value, or its shares, computed from the counts."""
        with self._one_query() as rows:
            keys = [*keys_of(options), column]
            return answer_query(
                rows, "value_counts", COUNT_ROWS, keys, options,
                lambda answer, _: frame_shapes.value_counts(answer, keys, sort=sort),
                margins=not normalize,
                shape_with_noise=partial(frame_shapes.proportions, keys=keys, sort=sort)
                if normalize else None,
            )  # fmt: skip

    @query_method
    def histogram(
        self,
        column: str,
        bins: Sequence[float],
        *,
        closed: str = "left",
        **options: Unpack[RowOptions],
    ) -> pd.DataFrame:
        """Return noisy counts of the values between declared edges."""
        with self._one_query() as rows:
            ends = frame_shapes.list_or_none(bins)
            odd = bins if ends is None else next((e for e in ends if isinstance(e, date)), None)
            if ends is None or odd is not None:
                raise UsageError("DP-SESSION-013", kind=type(odd).__name__)
            if closed not in ("left", "right"):
                kind, wanted = "another text", "'left' or 'right'"
                raise UsageError("DP-SESSION-016", name="closed", wanted=wanted, kind=kind)
            edges = [str(edge) for edge in ends]
            band: dict[str, Plain] = {"cut": column, "edges": list(edges), "closed": closed}
            name, keys = rows.free_column(f"{column}_band"), keys_of(options)
            banded = replace(rows, derived={**rows.derived, name: band})
            return answer_query(
                banded, "histogram", COUNT_ROWS, [*keys, name], options,
                lambda answer, _: frame_shapes.histogram(answer, keys, column, edges, closed),
            )  # fmt: skip

    @query_method
    def describe(
        self, columns: str | Sequence[str] | None = None, **options: Unpack[RowOptions]
    ) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max of columns, as pandas does."""
        names = None if columns is None else _column_names(columns)
        with self._one_query() as rows:
            described = rows.numeric_columns() if names is None else names
            rows.refuse_non_numeric(described)
            keys = keys_of(options)
            specs = frame_shapes.summary_aggregates(described)
            return answer_query(
                rows, "describe", specs, keys, options,
                lambda answer, held: frame_shapes.describe(answer, keys, described, held),
                margins=False,
            )  # fmt: skip

    @query_method
    def unique(self, columns: str | Sequence[str], **options: Unpack[Options]) -> pd.DataFrame:
        """Return the values of a key, or the combinations of several keys.

        Declared values are public: no row is read, and nothing is charged. With `private_keys`, the
        values that enough people have are found in the data, which is charged.

        Parameters
        ----------
        columns : str or a list of str
            The keys.

        Returns
        -------
        pandas.DataFrame
            The keys, one row for each value or combination.
        """
        with self._one_query() as rows:
            return answer_unique(rows, _column_names(columns), options)

    @query_method
    def crosstab(
        self,
        index: str,
        columns: str,
        *,
        normalize: bool | str = False,
        totals: bool = False,
        **options: Unpack[Options],
    ) -> pd.DataFrame:
        """Return noisy counts for the combinations of two keys, or their shares.

        Parameters
        ----------
        index : str
            The key whose values become rows.
        columns : str
            The key whose values become columns.
        normalize : bool or {'index', 'columns', 'all'}, default False
            Whether to return shares in their row, in their column, or in the total (`True` or
            `'all'`). They are computed from the noisy counts.
        totals : bool, default False
            Whether to add the sums of rows and columns, named `All`.

        Returns
        -------
        pandas.DataFrame
            The counts or shares, both keys in declared order.
        """
        shares = normalize_argument(normalize)
        with self._one_query() as rows:
            return answer_query(
                rows, "crosstab", COUNT_ROWS, [index, columns], options,
                lambda answer, _: frame_shapes.crosstab(
                    answer, index, columns, margins=totals, normalize=shares
                ),
                margins=False,
            )  # fmt: skip

    @query_method
    def tables(
        self,
        columns: Mapping[str, Mapping[str, object]] | None = None,
        *,
        marginals: Sequence[Sequence[str]] | None = None,
        cube: Sequence[str] | None = None,
        rollup: Sequence[str] | None = None,
        hierarchy: Sequence[str] | None = None,
        marginals_at: Mapping[str, Sequence[Sequence[str]]] | None = None,
        consistent: bool | Mapping[str, object] = False,
        **options: Unpack[Options],
    ) -> Tables:
        """Return several tables of the rows, charged together.

        Parameters
        ----------
        columns : mapping, optional
            Aggregates by name, as declared in a release file: `{"income": {"sum": "income"}}`. By
            default rows are counted, as `count`.
        marginals : list of lists of str, optional
            The keys of each table; an empty list is the table without keys.
        cube, rollup : list of str, optional
            `cube`: all subsets of these keys. `rollup`: all prefixes of these keys, from the left.
        hierarchy : list of str, optional
            Levels of areas, coarsest first. With `consistent`, combined with the marginals.
        marginals_at : mapping of lists of lists of str, optional
            The keys of each table for some of these levels, instead of the marginals. For groupings
            of consistent tables: the tables that are measured.
        consistent : bool or mapping, default False
            Whether all tables are made consistent; `{"non_negative": True}` returns integer tables.

        Returns
        -------
        Tables
            Frames by name, coarsest first.
        """
        from dprelease.accessor.tables import answer_tables  # this module loads slowly

        with self._one_query() as rows:
            lists = {"marginals": marginals, "cube": cube, "rollup": rollup, "hierarchy": hierarchy}
            return answer_tables(rows, columns, lists, marginals_at, consistent, options)

    @query_method
    def sql(
        self,
        statement: str,
        *,
        params: Mapping[str, object] | Sequence[object] | None = None,
        margins: bool = False,
        private_keys: bool | str | Sequence[str] = False,
        frames: Mapping[str, object] | None = None,
        **options: Unpack[SharedOptions],
    ) -> pd.DataFrame:
        """Return the noisy answer of one SELECT from the session's tables, by their names.

        Aggregates over declared keys are bounded and noised; everything around them is computed
        from the noised values, and charged once. EXPLAIN SELECT ... returns the plan.

        Parameters
        ----------
        statement : str
            The SELECT statement; parts without a bounded sensitivity are refused.
        params : Mapping or Sequence, optional
            The values of the parameters: of `$name` by name, or of `?` in order.
        margins : bool
            Whether margins of error and intervals follow the columns that are aggregates, or
            sums, differences, products and quotients of aggregates.
        frames : Mapping, optional
            Frames that replace the sources of the session's public tables, by table name or by the
            name in `source: {frame: name}`.

        Returns
        -------
        pandas.DataFrame
            The selected columns.
        """
        with self._one_query() as rows:
            if rows.dry:
                statement = f"EXPLAIN {without_explain(statement)[0]}"
            return answer_sql(
                rows, statement, options, params,
                margins=margins, private_keys=private_keys, frames={} if frames is None else frames,
            )  # fmt: skip


def _column_names(columns: object) -> list[str]:
    """Return column names without duplicates; raise UsageError DP-SESSION-016 for anything else."""
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str | bytes | Mapping)
    parts: list[object] = list(columns) if is_list else [columns]  # type: ignore[call-overload]
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        raise wrong_argument("columns", "a name of a column, or a list of names", columns)
    return list(dict.fromkeys(names))
