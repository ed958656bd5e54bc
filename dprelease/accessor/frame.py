"""`df.dp`: queries over a registered frame; each query is charged before it is answered.

The module defines the methods of registered rows: all queries, and methods that filter or extend
the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

import pandas as pd

from dprelease.accessor.answer_libraries import Library, is_changeable, library_of
from dprelease.accessor.argument_checks import refuse_data_arguments, to_plain
from dprelease.accessor.frame_notes import TOKEN, is_answer, note_of, set_note
from dprelease.accessor.groups import Aggregated, GroupBy
from dprelease.accessor.query_options import key_names
from dprelease.accessor.questions import NAMES, Name, query_method, unavailable
from dprelease.accessor.row_comparison import refuse_other_rows
from dprelease.accessor.row_questions import RowQuestions
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.session import Session, session_of
from dprelease.errors import SessionError, UsageError
from dprelease.errors.argument_types import checked_arguments, checked_methods, wrong_argument
from dprelease.errors.printable import count_text
from dprelease.exact.reading.frames import attempt, is_eager, kind_of_object
from dprelease.exact.reading.streams import is_relation, is_streamed
from dprelease.numerics.rounding import Number

Condition = str
ColumnDeclaration = Mapping[str, object]


@checked_methods
class Questions(RowQuestions):
    """All queries, and the methods that select rows and add columns before a query."""

    __slots__ = ()

    @property
    def session(self) -> Session:
        """Return the session of these rows; raise SessionError DP-SESSION-001 without one."""
        return self._selection().session

    def where(self, predicate: Condition) -> SelectedRows:
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
        return SelectedRows(replace(rows, predicates=(*rows.predicates, predicate)))

    def derive(self, **columns: ColumnDeclaration) -> SelectedRows:
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
        refuse_data_arguments(self, {"by": by})
        keys = tuple(key_names(by))
        rows = self._selection()
        # The shapes of groups are made with pandas.
        in_pandas = SelectedRows(replace(rows, library="pandas"))  # groups convert their answers
        return GroupBy(in_pandas, keys, as_index, rows.library)

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
            if not isinstance(question, str):
                raise wrong_argument("question", "the name of a query method", question)
            if question not in NAMES:
                raise unavailable(question, NAMES)
            dry = SelectedRows(replace(rows, dry=True))
            explained: pd.DataFrame = getattr(dry, question)(*arguments, **named)
            return explained


class SelectedRows(Questions):
    """The registered rows that satisfy all predicates, with the derived columns."""

    __slots__ = ("_rows",)

    def __init__(self, rows: RowSelection) -> None:
        self._rows = rows

    def __repr__(self) -> str:
        parts = [f"rows of table {self._rows.session.table.name!r}"]
        number = len(self._rows.predicates)
        parts += [count_text(number, "condition", "conditions")] if number else []
        parts += [f"computed columns {', '.join(self._rows.derived)}"] if self._rows.derived else []
        return f"<dp: {'; '.join(parts)}>"

    def _selection(self) -> RowSelection:
        """Return the selection of rows."""
        return self._rows

    def _library(self) -> Library:
        """Return the library whose frames the answers are."""
        return self._rows.library


@pd.api.extensions.register_dataframe_accessor("dp")
@checked_methods
class DpAccessor(Questions):
    """`df.dp`: register a frame once with `use`, then run queries on it.

    A frame is a frame of pandas or polars, or any other object that `dp` accepts.
    """

    __slots__ = ("_frame",)

    def __init__(self, frame: object) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        token = note_of(self._frame, TOKEN)
        if not isinstance(token, str):
            return "<dp: a frame without a session, which `use(session)` gives it>"
        try:
            return f"<dp: {session_of(token)!r}>"
        except SessionError:
            return "<dp: a frame whose session no longer exists>"

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
        token = self._token()
        if token is not None and session_of(token) is not session:
            raise SessionError("DP-SESSION-003")
        if token is None or row_wise:
            made = session._register(self._frame, vouched=row_wise)
            if made is not None:
                set_note(self._frame, TOKEN, made)
                return
        # Queries read the registered snapshot, so changes after the registration have no effect.
        known = token or session._first_token
        self._refuse_changed_rows(session, known)
        set_note(self._frame, TOKEN, known)

    def _token(self) -> str | None:
        """Return the id of the registered rows of this frame; None if there are none.

        Raises SessionError DP-SESSION-020 for the answer of a query.
        """
        if is_answer(self._frame):
            raise SessionError("DP-SESSION-020")
        token = note_of(self._frame, TOKEN)
        return token if isinstance(token, str) else None

    def _library(self) -> Library:
        """Return the library whose frames the answers are."""
        return library_of(self._frame)

    def _selection(self) -> RowSelection:
        """Return all registered rows of the frame; raise SessionError if there are none."""
        token = self._token()
        if token is None:
            raise SessionError("DP-SESSION-001")
        session = session_of(token)
        # A pandas or polars frame may have been changed or filtered in place since it was
        # registered.
        if is_changeable(self._frame):
            self._refuse_changed_rows(session, token)
        return RowSelection(session, token, library=self._library())

    def _refuse_changed_rows(self, session: Session, token: str) -> None:
        """Raise unless the frame holds the registered rows; columns may be missing from it.

        Otherwise the answer might not be about the registered people: after a filter, a join, a
        sort, or a change of a declared column, a row may depend on several rows.
        """
        known, frame = session._snapshot(token), self._frame
        attempt(session.declared, lambda: refuse_other_rows(frame, known, session.declared.rows))


def register_with_polars() -> None:
    """Register `frame.dp` for the frames of polars, if polars is imported."""
    api = getattr(sys.modules.get("polars"), "api", None)
    # Polars warns if a namespace is registered twice. It is not imported here, because that takes
    # long.
    if api is not None and not hasattr(sys.modules["polars"].LazyFrame, "dp"):
        api.register_dataframe_namespace("dp")(DpAccessor)
        api.register_lazyframe_namespace("dp")(DpAccessor)


register_with_polars()


@overload
def dp(frame: pd.DataFrame) -> DpAccessor: ...
@overload
def dp(frame: object) -> Any: ...
@checked_arguments
def dp(frame: object) -> Any:
    """Return `frame.dp`, for all kinds of frames; type checkers and editors know its type.

    Parameters
    ----------
    frame : frame
        A frame of pandas or polars, also a lazy one; a table, a dataset or a reader of Arrow; a
        DuckDB relation; an Ibis table; or any other object with `__arrow_c_stream__`.

    Returns
    -------
    DpAccessor
        The queries over this frame. Queries on frames of polars return frames of polars, those on
        objects of Arrow return Arrow tables, and all others return frames of pandas.

    Raises
    ------
    UsageError
        DP-SESSION-016 for an object that is not a frame.
    """
    register_with_polars()
    if not (is_eager(frame) or is_relation(frame) or is_streamed(frame)):
        kind = kind_of_object(frame)
        raise UsageError("DP-SESSION-016", name="frame", wanted=FRAMES, kind=kind)
    return DpAccessor(frame)


FRAMES = "a frame of pandas, polars or Arrow, a DuckDB relation or an Ibis table"
