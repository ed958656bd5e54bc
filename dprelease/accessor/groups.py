"""Grouped rows with the interface of pandas' `groupby`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from dprelease.accessor import frame_shapes
from dprelease.accessor.argument_checks import refuse_data_arguments
from dprelease.accessor.grouped_columns import Groups, SelectedColumns
from dprelease.accessor.query_options import OPTIONS, Options
from dprelease.accessor.questions import query_method
from dprelease.errors import UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.numerics.rounding import Number

if TYPE_CHECKING:
    import pandas as pd

Aggregated = Mapping[str, str | Sequence[str]] | Mapping[str, tuple[str, str]]
One = TypeVar("One")
Arguments = ParamSpec("Arguments")
Ask = Callable[Concatenate["GroupBy[Any]", str | Sequence[str], Arguments], "pd.DataFrame"]
"""A query method of groups, whose first argument names the columns."""


def _of_columns(
    method: Callable[Concatenate[SelectedColumns[Any], Arguments], object],
    kind: str = "str | Sequence[str]",
) -> Ask[Arguments]:
    """Return a query method of selected columns as one of groups, which names the columns first.

    `kind`: the annotation of the columns; one column has the name `column`.
    """
    query: Any = method
    signature = inspect.signature(query.__wrapped__)  # without the options, which are added below
    own, *others = signature.parameters.values()
    name = "column" if kind == "str" else "columns"
    named = inspect.Parameter(name, own.kind, annotation=kind)

    @wraps(query.__wrapped__)
    def ask(self: GroupBy[Any], *arguments: Any, **options: Any) -> pd.DataFrame:
        selected, *more = [options.pop(name)] if name in options else arguments
        answer: pd.DataFrame = query(self._select(selected, single=kind == "str"), *more, **options)
        return answer

    ask.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, named, *others], return_annotation="pd.DataFrame"
    )
    return cast("Ask[Arguments]", query_method(ask))


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
            wanted = "a column name or a list of at least one column name"
            raise wrong_argument("columns", wanted, columns if names is None else names)
        return SelectedColumns(self, tuple(names), single)

    @query_method
    def size(self, **options: Unpack[Options]) -> One:
        """Return noisy counts of rows, as pandas does.

        Returns
        -------
        pandas.Series or pandas.DataFrame
            A Series with the name `size`; with `as_index=False`, a frame with the column `size`.
        """
        selected: SelectedColumns[One] = SelectedColumns(self, ("size",), single=True)
        return selected.size(**options)

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
            if not isinstance(aggregates, Mapping | None):
                raise UsageError("DP-SESSION-014", kind=type(aggregates).__name__)
            wanted = frame_shapes.aggregates_by_label(aggregates, named)
            if not wanted:
                raise UsageError("DP-SESSION-014", kind="nothing")
            endings = frame_shapes.COMPANIONS if margins else ()
            companions = [f"{name}{ending}" for name in named for ending in endings]
            frame_shapes.refuse_duplicate_labels(
                [*(() if self.as_index else self.by), *named, *companions]
            )
            return self._aggregate(rows, wanted, options, margins=margins)

    count = _of_columns(SelectedColumns.count)
    count_distinct = nunique = _of_columns(SelectedColumns.count_distinct)
    sum = _of_columns(SelectedColumns.sum)
    mean = _of_columns(SelectedColumns.mean)
    weighted_count = _of_columns(SelectedColumns.weighted_count)
    effective_size = _of_columns(SelectedColumns.effective_size)
    variance = var = _of_columns(SelectedColumns.variance)
    stddev = std = _of_columns(SelectedColumns.stddev)
    median = _of_columns(SelectedColumns.median)
    min = _of_columns(SelectedColumns.min)
    max = _of_columns(SelectedColumns.max)
    mode = _of_columns(SelectedColumns.mode)
    quantile = _of_columns(SelectedColumns.quantile)
    describe = _of_columns(SelectedColumns.describe)
    cov = _of_columns(SelectedColumns.cov, "Sequence[str]")
    corr = _of_columns(SelectedColumns.corr, "Sequence[str]")
    value_counts = _of_columns(SelectedColumns.value_counts, "str")
    histogram = _of_columns(SelectedColumns.histogram, "str")
