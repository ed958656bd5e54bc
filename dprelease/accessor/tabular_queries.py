"""Queries that return tables: counts by value, and statistics of columns.

Most have one value for each cell: counts, sums, means, quantiles and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from dprelease.accessor import frame_shapes
from dprelease.accessor.answer import answer_sql
from dprelease.accessor.query_options import QUESTIONS, Price, Terms, keys_of, parse_terms, question
from dprelease.accessor.row_selection import Asking
from dprelease.errors import SessionError, UsageError
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd


class Aggregates(Asking):
    """One row for each cell of the declared keys, empty cells included, in declared order.

    `attrs["dprelease_answer"]` of an answer holds its guarantee, margins of error and mechanisms.
    The session is charged before an answer is drawn.
    """

    __slots__ = ()

    @question
    def count(self, column: str = "*", **terms: Unpack[Terms]) -> pd.DataFrame:
        """Return noisy counts of rows, or of rows where a column is not missing.

        Parameters
        ----------
        column : str, default '*'
            A declared column; by default all rows are counted.

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
            The keys, and `value`; several quantiles give one column each, named by the quantile,
            ascending in each cell.
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
        """Return the most frequent declared values, or nearly so, by permute-and-flip.

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


class TabularQueries(Aggregates):
    """Adds queries that answer in the shapes that pandas has for them.

    `attrs["dprelease_answer"]` of an answer holds its guarantee, margins of error and mechanisms.
    The session is charged before an answer is drawn.
    """

    __slots__ = ()

    @question
    def value_counts(
        self, column: str, *, sort: bool = True, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy counts of every declared value.

        Parameters
        ----------
        column : str
            A column with declared values.
        sort : bool, default True
            Whether to sort by descending count within each cell of `by`; otherwise values are in
            declared order.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`, indexed by the value; with `by`, its keys come first in the index.
        """
        with self._asking() as chosen:
            keys = [*keys_of(parse_terms(terms)), column]
            answer = chosen.counts(keys, terms, "value_counts")
            return answer if chosen.dry else frame_shapes.value_counts(answer, keys, sort=sort)

    @question
    def crosstab(self, index: str, columns: str, **terms: Unpack[Price]) -> pd.DataFrame:
        """Return noisy counts for the combinations of two keys.

        Parameters
        ----------
        index : str
            The key whose values become rows.
        columns : str
            The key whose values become columns.

        Returns
        -------
        pandas.DataFrame
            The counts, both keys in declared order.
        """
        with self._asking() as chosen:
            answer = chosen.counts([index, columns], parse_terms(terms, by=False), "crosstab")
            return answer if chosen.dry else frame_shapes.crosstab(answer, index, columns)

    @question
    def histogram(
        self, column: str, bins: Sequence[float], *, closed: str = "left", **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return noisy counts of the values between declared edges.

        Parameters
        ----------
        column : str
            A column of numbers.
        bins : a list of floats
            The edges, ascending; they are never computed from the data.
        closed : {'left', 'right'}
            The side on which intervals are closed.

        Returns
        -------
        pandas.DataFrame
            `count` and `moe`, indexed by intervals; with `by`, its keys come first in the index.
        """
        with self._asking() as chosen:
            ends = frame_shapes.list_or_none(bins)
            if ends is None:
                raise UsageError("DP-SESSION-013", kind=type(bins).__name__)
            edges = [str(edge) for edge in ends]
            band: dict[str, Plain] = {"cut": column, "edges": list(edges), "closed": closed}
            name, keys = chosen.free_column(f"{column}_band"), keys_of(parse_terms(terms))
            asked = replace(chosen, derived={**chosen.derived, name: band})
            answer = asked.counts([*keys, name], terms, "histogram")
            return (
                answer if asked.dry else frame_shapes.histogram(answer, keys, column, edges, closed)
            )

    @question
    def describe(
        self, columns: str | Sequence[str] | None = None, **terms: Unpack[Terms]
    ) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max of columns, as pandas does.

        Parameters
        ----------
        columns : str or a list of str, optional
            Numbers with declared bounds; by default all of them. All are charged together.

        Returns
        -------
        pandas.DataFrame
            Statistics as rows and columns as columns. With `by`, a row for each group, and the
            statistics of each column next to each other.
        """
        given: object = columns
        parts = [*given] if isinstance(given, list | tuple) else []
        odd = next((part for part in parts if isinstance(part, list | tuple | dict)), given)
        if not isinstance(given, Iterable | None) or odd is not given:
            kind, wanted = type(odd).__name__, "a name of a column, or a list of names"
            raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
        with self._asking() as chosen:
            named = [columns] if isinstance(columns, str) else columns
            names = list(dict.fromkeys(named)) if named is not None else chosen.numbers()
            chosen.refuse_others(names)
            keys = keys_of(parse_terms(terms))
            summaries = [frame_shapes.summary(name) for name in names]
            asked = {
                f"c{i}_{j}": spec
                for i, summary in enumerate(summaries)
                for j, spec in enumerate(summary)
            }
            held = frame_shapes.names_of_answers(list(asked), keys)
            answer = chosen.ask(dict(zip(held, asked.values(), strict=True)), terms, "describe")
            return answer if chosen.dry else frame_shapes.describe(answer, keys, names, held)

    @question
    def sql(self, statement: str, **terms: Unpack[Price]) -> pd.DataFrame:
        """Return the noisy answer of one SELECT from the session's table, by its declared name.

        Aggregates over declared keys are bounded and noised; arithmetic on them, HAVING, ORDER BY
        and LIMIT are computed from the noised values. The whole statement is charged once.

        Parameters
        ----------
        statement : str
            The SELECT statement; parts without a bounded sensitivity are refused.

        Returns
        -------
        pandas.DataFrame
            The selected columns.
        """
        with self._asking() as chosen:
            if chosen.dry:
                raise SessionError("DP-SESSION-008", what="sql", known=", ".join(QUESTIONS[:-1]))
            return answer_sql(
                chosen.session,
                chosen.token,
                statement,
                chosen.predicates,
                chosen.derived,
                parse_terms(terms, by=False),
                chosen.state,
            )
