"""Columns of grouped rows, and the shapes of their aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, overload

from dprelease.accessor import frame_shapes
from dprelease.accessor.answer import ask
from dprelease.accessor.query_options import Options, RowOptions
from dprelease.accessor.questions import FUNCTIONS, question
from dprelease.accessor.row_questions import RowQuestions
from dprelease.accessor.row_selection import RowSelection
from dprelease.errors import SessionError, UsageError
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd

Aggregates = Mapping[frame_shapes.Label, tuple[str, str]]
"""Columns and functions by the label of the result."""

Shape = TypeVar("Shape")


class Groups:
    """Rows, and the declared keys by which they are grouped."""

    __slots__ = ("as_index", "by", "rows")

    def __init__(self, rows: RowQuestions, by: tuple[str, ...], as_index: bool) -> None:
        self.rows, self.by, self.as_index = rows, by, as_index

    def _aggregate(
        self, rows: RowSelection, aggregates: Aggregates, options: Options, *, margins: bool = False
    ) -> pd.DataFrame:
        """Return aggregates in the shape of these groups."""
        specs = {f"a{i}": _spec(rows, *pair) for i, pair in enumerate(aggregates.values())}

        def shaped(answer: pd.DataFrame, names: list[str]) -> pd.DataFrame:
            labels = dict(zip(names, aggregates, strict=True))
            return frame_shapes.shape_groups(
                answer, list(self.by), labels, margins=margins, as_index=self.as_index
            )

        return ask(rows, "groupby", specs, self.by, options, shaped)


def _spec(rows: RowSelection, column: str, function: str) -> dict[str, Plain]:
    """Return an aggregate as declared in a release file.

    Raises SessionError DP-SESSION-009 for an unknown column, and DP-SESSION-008 for a function that
    has no bounded sensitivity here.
    """
    table = rows.session.table
    if column != "*" and column not in {**table.columns, **rows.derived}:
        raise SessionError("DP-SESSION-009", **unknown_column(table, column))
    keyword = FUNCTIONS.get(function)
    if keyword is None:
        raise SessionError("DP-SESSION-008", what=function, known=", ".join(FUNCTIONS))
    return {"count": "*"} if keyword == "size" else {keyword: column}


class SelectedColumns(Groups, Generic[Shape]):
    """One grouped column, whose answers are Series, or several, whose answers are frames.

    With `as_index=False` all answers are frames, as in pandas.
    """

    __slots__ = ("columns", "single")

    def __init__(self, groups: Groups, columns: tuple[str, ...], single: bool) -> None:
        super().__init__(groups.rows, groups.by, groups.as_index)
        self.columns, self.single = columns, single

    def _each(self, function: str, options: Options) -> Shape:
        """Return one aggregate of every column."""
        with self.rows._one_query() as rows:
            frame_shapes.refuse_twins(self.columns)
            aggregates: Aggregates = {column: (column, function) for column in self.columns}
            return self._in_shape(self._aggregate(rows, aggregates, options))

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

    def _with_keys(self, options: Options) -> RowOptions:
        return {**options, "by": list(self.by)}

    @overload
    def agg(self, functions: str, **options: Unpack[Options]) -> Shape: ...
    @overload
    def agg(self, functions: list[str], **options: Unpack[Options]) -> pd.DataFrame: ...
    @question
    def agg(self, functions: str | list[str], **options: Unpack[Options]) -> Shape | pd.DataFrame:
        """Return one or several aggregates of every column, charged together.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            With a list, one column per function, below each source column if there are several.
        """
        if isinstance(functions, str):
            return self._each(functions, options)
        with self.rows._one_query() as rows:
            names = frame_shapes.list_or_none(functions)
            if not names or isinstance(functions, Mapping):
                kind, wanted = type(functions).__name__, "the name of a function or a list of names"
                raise UsageError("DP-SESSION-016", name="functions", wanted=wanted, kind=kind)
            frame_shapes.refuse_twins(self.columns)
            if not self.single:
                aggregates = frame_shapes.aggregates(dict.fromkeys(self.columns, names), {})
                return self._aggregate(rows, aggregates, options)
            frame_shapes.refuse_twins([str(name) for name in names])
            return self._aggregate(
                rows, {str(name): (self.columns[0], str(name)) for name in names}, options
            )

    @question
    def count(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of the rows in which a column is not missing."""
        return self._each("count", options)

    @question
    def size(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of rows.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            Of one column a Series with its name, else a frame with the column `size`.
        """
        label = self.columns[0] if self.single and self.as_index else "size"
        with self.rows._one_query() as rows:
            return self._in_shape(self._aggregate(rows, {label: ("*", "size")}, options))

    @question
    def count_distinct(self, **options: Unpack[Options]) -> Shape:
        """Return noisy counts of distinct ids, or of distinct declared values."""
        return self._each("count_distinct", options)

    @question
    def sum(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sums."""
        return self._each("sum", options)

    @question
    def mean(self, **options: Unpack[Options]) -> Shape:
        """Return noisy means."""
        return self._each("mean", options)

    @question
    def variance(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sample variances (ddof 1)."""
        return self._each("variance", options)

    @question
    def stddev(self, **options: Unpack[Options]) -> Shape:
        """Return noisy sample standard deviations (ddof 1)."""
        return self._each("stddev", options)

    @question
    def median(self, **options: Unpack[Options]) -> Shape:
        """Return noisy medians."""
        return self._each("median", options)

    @question
    def min(self, **options: Unpack[Options]) -> Shape:
        """Return values near the smallest ones."""
        return self._each("min", options)

    @question
    def max(self, **options: Unpack[Options]) -> Shape:
        """Return values near the largest ones."""
        return self._each("max", options)

    @question
    def mode(self, **options: Unpack[Options]) -> Shape:
        """Return the most frequent declared values, or nearly the most frequent."""
        return self._each("mode", options)

    nunique = count_distinct
    var = variance
    std = stddev

    @question
    def quantile(self, q: float | Sequence[float] = 0.5, **options: Unpack[Options]) -> Shape:
        """Return noisy quantiles.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            Each column by its name. Several quantiles are listed in ascending order, in a last
            level of the index or a column `q`.
        """
        levels = frame_shapes.list_or_none(q)
        with self.rows._one_query() as rows:
            frame_shapes.refuse_twins(self.columns)
            specs = {
                f"a{i}_{j}": frame_shapes.quantile(column, str(at))
                for i, column in enumerate(self.columns)
                for j, at in enumerate([q] if levels is None else levels)
            }
            answer = ask(
                rows, "groupby", specs, self.by, options,
                lambda answer, names: frame_shapes.quantiles(
                    answer, list(self.by), self.columns, names, levels
                ),
            )  # fmt: skip
            return self._in_shape(self._flat(answer))

    @question
    def value_counts(self, *, sort: bool = True, **options: Unpack[Options]) -> pd.DataFrame:
        """Return noisy counts of every declared value, as `df.dp.value_counts` with `by`."""
        keys = self._with_keys(options)
        return self._flat(self.rows.value_counts(self._one(), sort=sort, **keys))

    @question
    def histogram(
        self, bins: Sequence[float], *, closed: str = "left", **options: Unpack[Options]
    ) -> pd.DataFrame:
        """Return noisy counts of values between edges, as `df.dp.histogram` with `by`."""
        keys = self._with_keys(options)
        return self._flat(self.rows.histogram(self._one(), bins, closed=closed, **keys))

    @question
    def describe(self, **options: Unpack[Options]) -> pd.DataFrame:
        """Return count, mean, std, min, quartiles and max, as `df.dp.describe` with `by`."""
        answer = self.rows.describe(list(self.columns), **self._with_keys(options))
        one = self.columns[0]
        shown = frame_shapes.below(answer, one, self.by) if self.single else answer
        return self._flat(shown)
