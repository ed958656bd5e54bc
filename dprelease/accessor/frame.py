"""`df.dp`: queries over a registered frame; each query is charged before it is answered.

The module defines the methods of registered rows: all queries, and methods that filter or extend
the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import pandas as pd

from dprelease.accessor.argument_checks import (
    refuse_data_arguments,
    to_plain,
    without_numpy_scalars,
)
from dprelease.accessor.groups import Aggregated, GroupBy
from dprelease.accessor.questions import NAMES, Name, query_method
from dprelease.accessor.row_questions import RowQuestions
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.session import Session, session_of
from dprelease.errors import DataError, SessionError, UsageError
from dprelease.exact.reading.arrow import decode_dictionary, to_readable_type
from dprelease.exact.reading.cell_texts import TextReading
from dprelease.exact.reading.frames import (
    arrow_cells,
    attempt,
    column_labels,
    holds_python_objects,
    is_sparse,
    kind_of_object,
)
from dprelease.exact.reading.sources import stored_columns
from dprelease.numerics.rounding import Number

CONDITION = 'a condition in SQL as one text, such as "age >= 18"'


class Questions(RowQuestions):
    """All queries, and the methods that select rows and add columns before a query."""

    __slots__ = ()

    @property
    def session(self) -> Session:
        """Return the session of these rows; raise SessionError DP-SESSION-001 without one."""
        return self._selection().session

    def where(self, predicate: str) -> SelectedRows:
        """Return the rows that also satisfy a predicate.

        Parameters
        ----------
        predicate : str
            An SQL condition on single rows. Any other condition is refused when a query is run, by
            a QueryError DP-WHERE-*.

        Raises
        ------
        UsageError
            DP-SESSION-016 for anything but a string: a function or a boolean column may depend on
            other rows.

        Returns
        -------
        Rows
            The filtered rows, with all queries as methods.
        """
        rows = self._selection()
        condition: object = predicate
        if not isinstance(condition, str):
            kind = type(condition).__name__
            raise UsageError("DP-SESSION-016", name="predicate", wanted=CONDITION, kind=kind)
        return SelectedRows(replace(rows, predicates=(*rows.predicates, condition)))

    def derive(self, **columns: Mapping[str, object]) -> SelectedRows:
        """Return the rows with additional columns, each computed from its own row.

        Parameters
        ----------
        **columns
            Names and declarations as in a table schema, such as `age_group={"cut": "age", "edges":
            [0, 18, 65, 116]}` or `yearly={"expression": "monthly * 12", "type": "number", "lower":
            0, "upper": 1e6}`.

        Returns
        -------
        Rows
            The extended rows, with all queries as methods.
        """
        rows = self._selection()
        refuse_data_arguments(self, columns)
        more = {name: to_plain(declared) for name, declared in columns.items()}
        return SelectedRows(replace(rows, derived={**rows.derived, **more}))

    @overload
    def groupby(
        self, by: str | Sequence[str], *, as_index: Literal[True] = True
    ) -> GroupBy[pd.Series]: ...
    @overload
    def groupby(
        self, by: str | Sequence[str], *, as_index: Literal[False]
    ) -> GroupBy[pd.DataFrame]: ...
    def groupby(
        self, by: str | Sequence[str], *, as_index: bool = True
    ) -> GroupBy[pd.Series] | GroupBy[pd.DataFrame]:
        """Return the rows grouped by declared keys, as pandas does.

        Parameters
        ----------
        by : str or a list of str
            The keys.
        as_index : bool, default True
            Whether the keys become the index of the answers; otherwise they are columns.

        Returns
        -------
        Grouped
            The groups, whose methods aggregate one column or several.
        """
        given: object = by
        refuse_data_arguments(self, {"by": by})
        as_index = without_numpy_scalars(as_index)
        for name, value, wanted, fits in (
            ("by", given, "a column name or a list of column names", isinstance(given, Iterable)),
            ("as_index", as_index, "True or False", isinstance(as_index, bool)),
        ):
            if not fits:
                kind = type(value).__name__
                raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
        keys = (by,) if isinstance(by, str) else tuple(by)
        return GroupBy(SelectedRows(self._selection()), keys, as_index)

    @query_method
    def agg(
        self,
        aggregates: Aggregated | None = None,
        *,
        by: str | Sequence[str] | None = None,
        margins: bool = False,
        epsilon: Number | None = None,
        **named: object,
    ) -> pd.DataFrame:
        """Return several aggregates, charged together; they share measurements."""
        groups = self.groupby([] if by is None else by, as_index=False)
        return groups.agg(aggregates, margins=margins, epsilon=epsilon, **named)

    def explain(self, question: Name, *arguments: object, **named: object) -> pd.DataFrame:
        """Return the measurements, noise, error and privacy cost of a query; spends nothing.

        Parameters
        ----------
        question : str
            The name of a query method.
        *arguments, **named
            The arguments of that method, as in `explain("mean", "income", by="state",
            epsilon=0.1)`.

        Returns
        -------
        pandas.DataFrame
            A row for each measurement, then one for each column that is computed from several. With
            a ledger, `attrs["dprelease_answer"]["ledger"]` holds its remaining budget.
        """
        with self._one_query() as rows:
            refuse_data_arguments(self, {"question": question})
            if question not in NAMES:
                raise SessionError("DP-SESSION-008", what=question, known=", ".join(NAMES))
            dry = SelectedRows(replace(rows, dry=True))
            explained: pd.DataFrame = getattr(dry, question)(*arguments, **named)
            return explained


class SelectedRows(Questions):
    """The registered rows that satisfy all predicates, with the derived columns."""

    __slots__ = ("_rows",)

    def __init__(self, rows: RowSelection) -> None:
        self._rows = rows

    def _selection(self) -> RowSelection:
        """Return the selection of rows."""
        return self._rows


TOKEN = "dprelease"
"""Key in `DataFrame.attrs`; its value is an opaque id and not a session, because pandas copies
attrs."""


AS_READ = TextReading(decodes_bytes=True)


@pd.api.extensions.register_dataframe_accessor("dp")
class DpAccessor(Questions):
    """`df.dp`: register a frame once with `use`, then run queries on it."""

    __slots__ = ("_frame",)

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def use(self, session: Session, *, row_wise: bool = False) -> None:
        """Register this frame as the rows of the session's table.

        The first frame that is registered provides the rows of the session. Any other frame must
        hold the same rows: the same index, and every declared column of the first frame, unchanged.
        Queries on such a frame read the rows of the first one, even if either frame was changed in
        between.

        Parameters
        ----------
        session : Session
            The table and its budget. Keep it in a variable as long as you run queries.
        row_wise : bool, default False
            Set this to vouch that every row of another frame comes from exactly one row of the
            first frame, and no two from the same one. The session then also answers queries about
            these rows, under the same budget.

        Raises
        ------
        SessionError
            DP-SESSION-002 for other rows without `row_wise`, DP-SESSION-010 for a declared column
            that the session has not seen, DP-SESSION-003 if the frame belongs to another session,
            DP-SESSION-019 for anything but a session.
        """
        if not isinstance(session, Session):
            raise SessionError("DP-SESSION-019", kind=kind_of_object(session))
        token = self._frame.attrs.get(TOKEN)
        if token is not None and session_of(token) is not session:
            raise SessionError("DP-SESSION-003")
        if token is None or row_wise:
            made = session.register(self._frame, vouched=row_wise)
            if made is not None:
                self._frame.attrs[TOKEN] = made
                return
        # Queries read the registered snapshot, so changes after the registration have no effect.
        known = token or session.first_token
        self._refuse_changed_rows(session, known)
        self._frame.attrs[TOKEN] = known

    def _selection(self) -> RowSelection:
        """Return all registered rows of the frame; raise SessionError if there are none."""
        token = self._frame.attrs.get(TOKEN)
        if token is None:
            raise SessionError("DP-SESSION-001")
        session = session_of(token)
        self._refuse_changed_rows(session, token)
        return RowSelection(session, token)

    def _refuse_changed_rows(self, session: Session, token: str) -> None:
        """Raise unless the frame holds the registered rows; columns may be missing from it.

        Otherwise the answer might not be about the registered people: after a filter, a join, a
        sort, or a change of a declared column, a row may depend on several rows.
        """
        known, frame = session.snapshot(token), self._frame
        attempt(session.declared, lambda: _refuse_other_rows(frame, known, session))


def _refuse_other_rows(frame: pd.DataFrame, known: pd.DataFrame, session: Session) -> None:
    """Raise unless a frame has the index and the column values of the registered rows."""
    if not _same_index(frame.index, known.index):
        raise SessionError("DP-SESSION-002")
    names, registered = column_labels(frame), column_labels(known)
    for name in stored_columns(session.declared):
        if max(names.count(name), registered.count(name)) > 1:
            raise DataError("DP-DATA-003", table=session.table.name, column=name)
        if name not in names:
            continue
        if name not in registered:
            raise SessionError("DP-SESSION-010", column=name)
        positions = (names.index(name), registered.index(name))
        if not _same_cells(frame.iloc[:, positions[0]].array, known.iloc[:, positions[1]].array):
            raise SessionError("DP-SESSION-002")


def _same_index(one: pd.Index, other: pd.Index) -> bool:
    """Return whether two indexes have equal values, where NaN equals NaN."""
    if one is other:
        return True
    if isinstance(one, pd.MultiIndex) and isinstance(other, pd.MultiIndex):
        return one.nlevels == other.nlevels and all(
            _same_index(one.get_level_values(level), other.get_level_values(level))
            for level in range(one.nlevels)
        )
    if isinstance(one, pd.MultiIndex) or isinstance(other, pd.MultiIndex):
        return False
    if isinstance(one, pd.RangeIndex) and isinstance(other, pd.RangeIndex):
        return one.equals(other)
    arrays = (one.array, other.array)
    if _same_type(*arrays):
        return _same_cells(*arrays)
    numpy = pd.arrays.NumpyExtensionArray
    numbers = all(type(array) is numpy and not holds_python_objects(array) for array in arrays)
    return numbers and one.equals(other)


def _same_cells(one: Any, other: Any) -> bool:
    """Return whether two pandas arrays have the same type and equal values, where NaN equals NaN.

    Columns of a type that no query can read are compared only if pandas holds them as numbers.
    """
    if len(one) != len(other) or not _same_type(one, other):
        return False
    if not _is_readable_type(one):
        arrays = pd.arrays
        held = (arrays.IntervalArray, arrays.PeriodArray, arrays.TimedeltaArray)
        return type(one) not in held or one.equals(other)
    if _same_numbers(one, other) or (_is_fast_type(one) and one.equals(other)):
        return True
    mine, others = (arrow_cells(each, AS_READ) for each in (one, other))
    return _same_arrow(mine, others)


def _is_readable_type(array: Any) -> bool:
    """Return whether queries can read arrays of this type."""
    cells = arrow_cells(array[:0], AS_READ)
    return cells is not None and to_readable_type(cells) is not None


def _is_fast_type(array: Any) -> bool:
    """Return whether pandas compares arrays of this type fast, without calling Python objects."""
    arrays = pd.arrays
    return type(array) in (
        arrays.ArrowExtensionArray, arrays.ArrowStringArray, arrays.DatetimeArray,
    )  # fmt: skip


def _same_type(one: Any, other: Any) -> bool:
    """Return whether two pandas arrays have the same type, so that their values can be compared."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.Categorical):
        return _same_type(one.categories.array, other.categories.array)
    if is_sparse(one):
        return bool(one.dtype.subtype == other.dtype.subtype)
    return not _is_readable_type(one) or bool(one.dtype == other.dtype)


def _same_numbers(one: Any, other: Any) -> bool:
    """Return whether NumPy arrays of numbers are equal, where NaN equals NaN.

    False is inconclusive: the slower comparison decides then.
    """
    import numpy as np

    if not isinstance(one, pd.arrays.NumpyExtensionArray) or holds_python_objects(one):
        return False
    mine, others = np.asarray(one), np.asarray(other)
    return np.array_equal(mine, others, equal_nan=mine.dtype.kind == "f")


def _same_arrow(one: Any, other: Any) -> bool:
    """Return whether Arrow arrays hold equal values, where NaN equals NaN, unlike in Arrow."""
    import numpy as np
    import pyarrow as pa

    one, other = (
        pa.chunked_array([each]) if isinstance(each, pa.Array) else each for each in (one, other)
    )
    if one.type == other.type and one.equals(other):
        return True
    one, other = (
        decode_dictionary(e) if pa.types.is_dictionary(e.type) else e for e in (one, other)
    )
    if pa.types.is_floating(one.type):
        missing = np.array_equal(one.is_null().to_numpy(), other.is_null().to_numpy())
        return missing and np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True)
    equal: bool = one.equals(other)
    return equal


def dp(frame: pd.DataFrame) -> DpAccessor:
    """Return `frame.dp` with its type, because type checkers and editors don't know the accessor.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame whose accessor is returned.

    Returns
    -------
    DpAccessor
        The same object as `frame.dp`, with its type.
    """
    return DpAccessor(frame)
