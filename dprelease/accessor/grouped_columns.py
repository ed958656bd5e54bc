"""Columns of grouped rows, and the shapes of their aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

from dprelease.accessor import frame_shapes
from dprelease.accessor.query_options import Price, Terms, parse_terms, question
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.tabular_queries import TabularQueries
from dprelease.errors import SessionError, UsageError
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

Shape = TypeVar("Shape")


class Groups:
    """Rows, and the declared keys by which they are grouped."""

    __slots__ = ("as_index", "by", "rows")

    def __init__(self, rows: TabularQueries, by: tuple[str, ...], as_index: bool) -> None:
        self.rows, self.by, self.as_index = rows, by, as_index

    def _aggregate(
        self,
        chosen: RowSelection,
        wanted: Mapping[frame_shapes.Label, tuple[str, str]],
        terms: Price,
        *,
        margins: bool = False,
    ) -> pd.DataFrame:
        """Return (column, function) aggregates by result label, in the shape of these groups."""
        asked: Terms = {**parse_terms(terms, by=False), "by": self.by}
        names = frame_shapes.names_of_answers([f"a{i}" for i in range(len(wanted))], self.by)
        specs = [_spec(chosen, *pair) for pair in wanted.values()]
        answer = chosen.ask(dict(zip(names, specs, strict=True)), asked, "groupby")
        labels = dict(zip(names, wanted, strict=True))
        return frame_shapes.shape_groups(
            answer, list(self.by), labels, margins=margins, as_index=self.as_index
        )


def _spec(chosen: RowSelection, column: str, function: str) -> dict[str, Plain]:
    declared = chosen.session.table
    if column != "*" and column not in {**declared.columns, **chosen.derived}:
        raise SessionError("DP-SESSION-009", **unknown_column(declared, column))
    return frame_shapes.spec_of(column, function)


class SelectedColumns(Groups, Generic[Shape]):
    """One grouped column, whose answers are Series, or several, whose answers are frames.

    With `as_index=False` all answers are frames, as in pandas.
    """

    __slots__ = ("columns", "single")

    def __init__(
        self,
        rows: TabularQueries,
        by: tuple[str, ...],
        as_index: bool,
        columns: tuple[str, ...],
        single: bool,
    ) -> None:
        super().__init__(rows, by, as_index)
        self.columns, self.single = columns, single

    def _ask(self, function: str, terms: Price) -> Shape:
        with self.rows._asking() as chosen:
            return self._in_shape(self._all(chosen, function, terms))

    def _all(self, chosen: RowSelection, function: str, terms: Price) -> pd.DataFrame:
        frame_shapes.refuse_twins(self.columns)
        wanted: dict[frame_shapes.Label, tuple[str, str]] = {
            column: (column, function) for column in self.columns
        }
        return self._aggregate(chosen, wanted, terms)

    def _in_shape(self, answer: pd.DataFrame) -> Shape:
        """Return a frame, or its only column as a Series."""
        if not (self.single and self.as_index):
            return cast("Shape", answer)
        column: Any = answer[self.columns[0]]
        column.attrs = answer.attrs
        return cast("Shape", column)

    def _flat(self, answer: pd.DataFrame) -> pd.DataFrame:
        """Return an answer indexed by keys; turn the keys into columns if `as_index` is False."""
        if self.as_index:
            return answer
        flat = answer.reset_index()
        flat.attrs = answer.attrs
        return flat

    def _one(self) -> str:
        if not self.single or len(self.columns) > 1:
            kind, wanted = "several", 'one column, as in ["state"]'
            raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
        return self.columns[0]

    @overload
    def agg(self, functions: str, **terms: Unpack[Price]) -> Shape: ...
    @overload
    def agg(self, functions: list[str], **terms: Unpack[Price]) -> pd.DataFrame: ...
    @question
    def agg(self, functions: str | list[str], **terms: Unpack[Price]) -> Shape | pd.DataFrame:
        """Return one or several aggregates of every column, charged together.

        Parameters
        ----------
        functions : str or a list of str
            count, size, nunique, sum, mean, var, std, median, min, max or mode.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            With a list, one column per function, below each source column if there are several.
        """
        if isinstance(functions, str):
            return self._ask(functions, terms)
        with self.rows._asking() as chosen:
            names = frame_shapes.list_or_none(functions)
            if not names or isinstance(functions, Mapping):
                kind, wanted = type(functions).__name__, "the name of a function or a list of names"
                raise UsageError("DP-SESSION-016", name="functions", wanted=wanted, kind=kind)
            frame_shapes.refuse_twins(self.columns)
            if self.single:
                frame_shapes.refuse_twins([str(name) for name in names])
                one: dict[frame_shapes.Label, tuple[str, str]] = {
                    str(name): (self.columns[0], str(name)) for name in names
                }
                return self._aggregate(chosen, one, terms)
            asked = frame_shapes.aggregates(dict.fromkeys(self.columns, names), {})
            return self._aggregate(chosen, asked, terms)

    @question
    def count(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy counts of the rows in which a column is not missing.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("count", terms)

    @question
    def count_distinct(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy counts of distinct ids, or of distinct declared values.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("nunique", terms)

    @question
    def sum(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy sums.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("sum", terms)

    @question
    def mean(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy means.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("mean", terms)

    @question
    def variance(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy sample variances (ddof 1).

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("var", terms)

    @question
    def stddev(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy sample standard deviations (ddof 1).

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("std", terms)

    @question
    def median(self, **terms: Unpack[Price]) -> Shape:
        """Return noisy medians.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("median", terms)

    @question
    def min(self, **terms: Unpack[Price]) -> Shape:
        """Return values near the smallest ones.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("min", terms)

    @question
    def max(self, **terms: Unpack[Price]) -> Shape:
        """Return values near the largest ones.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("max", terms)

    @question
    def mode(self, **terms: Unpack[Price]) -> Shape:
        """Return the most frequent declared values, or nearly the most frequent.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names.
        """
        return self._ask("mode", terms)

    @question
    def quantile(self, q: float | Sequence[float] = 0.5, **terms: Unpack[Price]) -> Shape:
        """Return noisy quantiles.

        Parameters
        ----------
        q : float or a list of floats, default 0.5
            From 0 to 1.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            The column, or columns, by the same names. Several quantiles are listed in ascending
            order, in a last level of the index or a column `q`.
        """
        with self.rows._asking() as chosen:
            parts = frame_shapes.list_or_none(q)
            frame_shapes.refuse_twins(self.columns)
            asked = {
                f"a{i}_{j}": frame_shapes.quantile(column, str(at))
                for i, column in enumerate(self.columns)
                for j, at in enumerate([q] if parts is None else parts)
            }
            names = frame_shapes.names_of_answers(list(asked), self.by)
            wanted: Terms = {**parse_terms(terms, by=False), "by": self.by}
            specs = dict(zip(names, asked.values(), strict=True))
            answer = chosen.ask(specs, wanted, "groupby")
            answer = frame_shapes.quantiles(answer, list(self.by), self.columns, names, parts)
            return self._in_shape(self._flat(answer))

    @question
    def value_counts(self, *, sort: bool = True, **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy counts of every declared value, as `df.dp.value_counts` with `by`.

        Parameters
        ----------
        sort : bool, default True
            Whether to sort by descending count within each group; otherwise values are in declared
            order.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`.
        """
        asked = self._with_keys(terms)
        return self._flat(self.rows.value_counts(self._one(), sort=sort, **asked))

    @question
    def histogram(
        self, bins: Sequence[float], *, closed: str = "left", **terms: Unpack[Price]
    ) -> pd.DataFrame:
        """Return noisy counts of values between edges, as `df.dp.histogram` with `by`.

        Parameters
        ----------
        bins : a list of floats
            The edges, ascending.
        closed : {'left', 'right'}
            The side on which intervals are closed.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`.
        """
        asked = self._with_keys(terms)
        return self._flat(self.rows.histogram(self._one(), bins, closed=closed, **asked))

    @question
    def describe(self, **terms: Unpack[Price]) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max, as `df.dp.describe` with `by`.

        Returns
        -------
        pandas.DataFrame
            The statistics, below each column if there are several.
        """
        answer = self.rows.describe(list(self.columns), **self._with_keys(terms))
        one = self.columns[0]
        shown = frame_shapes.below(answer, one, self.by) if self.single else answer
        return self._flat(shown)

    def _with_keys(self, terms: Price) -> Terms:
        return {**parse_terms(terms, by=False), "by": list(self.by)}

    nunique = count_distinct
    var = variance
    std = stddev
