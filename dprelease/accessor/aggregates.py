"""Questions with one value for each cell: counts, sums, means, quantiles and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from dprelease.accessor import frame_shapes
from dprelease.accessor.chosen import Asking
from dprelease.accessor.terms import Terms, keys_of, question

if TYPE_CHECKING:
    import pandas as pd


class Aggregates(Asking):
    """One row for each cell of the declared keys, empty ones too, in declared order.

    Answers tell in `attrs["dprelease_answer"]` their guarantee, margins of error and mechanisms.
    The session is charged before an answer is drawn.
    """

    __slots__ = ()

    @question
    def count(self, column: str = "*", **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of rows, or of rows where a column is not missing.

        Parameters
        ----------
        column : str, default '*'
            A declared column; without one, all rows count.

        Returns
        -------
        pandas.DataFrame
            The keys, `value` (integer), and `moe`, the margin of error.
        """
        with self._asking() as chosen:
            return chosen.single({"count": column}, terms)

    @question
    def count_distinct(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values.

        Parameters
        ----------
        column : str
            The id of the privacy unit, or a column with declared values.

        Returns
        -------
        pandas.DataFrame
            The keys, `value` (integer), and `moe`, the margin of error.
        """
        with self._asking() as chosen:
            return chosen.single({"count_distinct": column}, terms)

    @question
    def sum(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sums, in the column's unit.

        Parameters
        ----------
        column : str
            A number with declared bounds; values are clamped to them.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, an integer if the column's step is one, else a float, and `moe`, the
            margin of error.
        """
        with self._asking() as chosen:
            return chosen.single({"sum": column}, terms)

    @question
    def mean(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy means, from a sum around the middle of the bounds and a count.

        Parameters
        ----------
        column : str
            A number with declared bounds; values are clamped to them.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, NaN where the noised count is below 1, and `moe`, the margin of
            error.
        """
        with self._asking() as chosen:
            return chosen.single({"mean": column}, terms)

    @question
    def variance(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sample variances (ddof 1), as pandas' `var`.

        Parameters
        ----------
        column : str
            A number with declared bounds; values are clamped to them.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, NaN below two noised rows, and `moe`, the margin of error.
        """
        with self._asking() as chosen:
            return chosen.single({"variance": column}, terms)

    @question
    def stddev(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy sample standard deviations (ddof 1), as pandas' `std`.

        Parameters
        ----------
        column : str
            A number with declared bounds; values are clamped to them.

        Returns
        -------
        pandas.DataFrame
            The keys, `value`, NaN below two noised rows, and `moe`, the margin of error.
        """
        with self._asking() as chosen:
            return chosen.single({"stddev": column}, terms)

    @question
    def quantile(
        self, column: str, q: float | Sequence[float] = 0.5, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy quantiles by the exponential mechanism, in the column's unit.

        Parameters
        ----------
        column : str
            A number with declared bounds.
        q : float or a list of floats, default 0.5
            From 0 to 1.

        Returns
        -------
        pandas.DataFrame
            The keys, and `value`; of several quantiles a column each, named by it, ascending in
            each cell.
        """
        with self._asking() as chosen:
            parts = frame_shapes.list_or_none(q)
            if parts is None:
                return chosen.single(frame_shapes.quantile(column, str(q)), terms)
            wanted = [f"q{i}" for i in range(len(parts))]
            names = frame_shapes.names_of_answers(wanted, keys_of(terms))
            specs = [frame_shapes.quantile(column, str(at)) for at in parts]
            answer = chosen.ask(dict(zip(names, specs, strict=True)), terms, "quantiles")
            shown = dict(zip(names, parts, strict=True))
            return answer if chosen.dry else answer.rename(columns=shown)

    @question
    def median(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy medians by the exponential mechanism, in the column's unit.

        Parameters
        ----------
        column : str
            A number with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The keys, and `value`.
        """
        with self._asking() as chosen:
            return chosen.single({"median": column}, terms)

    @question
    def min(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return values near the smallest ones, in the column's unit.

        Parameters
        ----------
        column : str
            A number with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The keys, and `value`.
        """
        with self._asking() as chosen:
            return chosen.single({"min": column}, terms)

    @question
    def max(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return values near the largest ones, in the column's unit.

        Parameters
        ----------
        column : str
            A number with declared bounds.

        Returns
        -------
        pandas.DataFrame
            The keys, and `value`.
        """
        with self._asking() as chosen:
            return chosen.single({"max": column}, terms)

    @question
    def mode(self, column: str, **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return the declared values that most rows have, or nearly, by permute-and-flip.

        Parameters
        ----------
        column : str
            A column with declared values.

        Returns
        -------
        pandas.DataFrame
            The keys, and `value`.
        """
        with self._asking() as chosen:
            return chosen.single({"mode": column}, terms)
