"""Grouped rows with the interface of pandas' `groupby`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack, cast, overload

from dprelease.accessor import frame_shapes
from dprelease.accessor.argument_checks import refuse_cells, simple
from dprelease.accessor.grouped_columns import Groups, SelectedColumns
from dprelease.accessor.query_options import Price, Terms, question
from dprelease.errors import UsageError

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
        return cast("SelectedColumns[One]", self._of(columns, single=isinstance(columns, str)))

    def _of(self, columns: object, *, single: bool = False) -> SelectedColumns[pd.DataFrame]:
        refuse_cells(self.rows, {"columns": columns})
        names = [columns] if isinstance(columns, str) else frame_shapes.list_or_none(columns)
        if names is None or not all(isinstance(name, str) for name in names) or not names:
            kind = "an empty list" if names == [] else type(columns).__name__
            wanted = "a column name or a list of at least one column name"
            raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
        return SelectedColumns(self.rows, self.by, self.as_index, tuple(names), single)

    @question
    def size(self, **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy counts of rows.

        Returns
        -------
        pandas.DataFrame
            The column `size`.
        """
        with self.rows._asking() as chosen:
            return self._aggregate(chosen, {"size": ("*", "size")}, terms)

    def agg(
        self,
        aggregates: Aggregated | None = None,
        *,
        margins: bool = False,
        epsilon: object = None,
        **named: object,
    ) -> pd.DataFrame:
        """Return several aggregates, charged together; measurements that they share are made once.

        Parameters
        ----------
        aggregates : mapping, optional
            As in pandas: `{"income": ["mean", "median"]}` gives columns in two levels,
            `{"income": "mean"}` columns named like their source. Aggregates: count, size, nunique,
            sum, mean, var, std, median, min, max, mode.
        margins : bool, default False
            Whether to add `<name>_moe` next to each column that has a margin of error.
        epsilon : Number
            Privacy cost; `delta`, `rho`, `mechanism`, `confidence` and `private_keys` as for
            `size`.
        **named
            Result columns of any name, as in `pay=("income", "mean")`.

        Returns
        -------
        pandas.DataFrame
            A column for each aggregate.
        """
        with self.rows._asking() as chosen:
            refuse_cells(self.rows, {"aggregates": aggregates, "epsilon": epsilon, **named})
            aggregates, epsilon, named = simple((aggregates, epsilon, named))
            terms = {key: named.pop(key) for key in list(named) if key in Terms.__annotations__}
            if not isinstance(aggregates, Mapping | None):
                raise UsageError("DP-SESSION-014", kind=type(aggregates).__name__)
            wanted = frame_shapes.aggregates(aggregates, named)
            beside = [f"{name}{frame_shapes.MARGIN}" for name in named] if margins else []
            frame_shapes.refuse_twins([*(() if self.as_index else self.by), *named, *beside])
            # checked together with the other options
            asked = cast("Terms", {**terms, "epsilon": epsilon})
            return self._aggregate(chosen, wanted, asked, margins=margins)

    @question
    def count(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy counts of the rows in which a column is not missing.

        Parameters
        ----------
        columns : str or a list of str
            Declared columns.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).count(**terms)

    @question
    def count_distinct(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values.

        Parameters
        ----------
        columns : str or a list of str
            The id of the privacy unit, or columns with declared values.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).count_distinct(**terms)

    @question
    def sum(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy sums.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).sum(**terms)

    @question
    def mean(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy means.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).mean(**terms)

    @question
    def variance(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy sample variances (ddof 1).

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).variance(**terms)

    @question
    def stddev(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy sample standard deviations (ddof 1).

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).stddev(**terms)

    @question
    def median(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy medians.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).median(**terms)

    @question
    def min(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return values near the smallest ones.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).min(**terms)

    @question
    def max(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return values near the largest ones.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).max(**terms)

    @question
    def mode(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return the most frequent declared values, or nearly the most frequent.

        Parameters
        ----------
        columns : str or a list of str
            Columns with declared values.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names.
        """
        return self._of(columns).mode(**terms)

    @question
    def quantile(
        self,
        columns: str | Sequence[str],
        q: float | Sequence[float] = 0.5,
        **terms: Unpack[Price],
    ) -> pd.DataFrame:
        """Return noisy quantiles.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.
        q : float or a list of floats, default 0.5
            From 0 to 1.

        Returns
        -------
        pandas.DataFrame
            The columns, by the same names; several quantiles are listed below each other.
        """
        return self._of(columns).quantile(q, **terms)

    @question
    def value_counts(
        self, column: str, *, sort: bool = True, **terms: Unpack[Price]
    ) -> pd.DataFrame:
        """Return noisy counts of every declared value, as `df.dp.value_counts` with `by`.

        Parameters
        ----------
        column : str
            A column with declared values.
        sort : bool, default True
            Whether to sort by descending count within each group; otherwise values are in declared
            order.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`.
        """
        return self._of(column, single=True).value_counts(sort=sort, **terms)

    @question
    def histogram(
        self, column: str, bins: Sequence[float], *, closed: str = "left", **terms: Unpack[Price]
    ) -> pd.DataFrame:
        """Return noisy counts of values between edges, as `df.dp.histogram` with `by`.

        Parameters
        ----------
        column : str
            A column of numbers.
        bins : a list of floats
            The edges, ascending.
        closed : {'left', 'right'}
            The side on which intervals are closed.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`.
        """
        return self._of(column, single=True).histogram(bins, closed=closed, **terms)

    @question
    def describe(self, columns: str | Sequence[str], **terms: Unpack[Price]) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max of columns, as `df.dp.describe`.

        Parameters
        ----------
        columns : str or a list of str
            Numbers with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The statistics of each column, next to each other.
        """
        return self._of(columns).describe(**terms)

    nunique = count_distinct
    var = variance
    std = stddev
