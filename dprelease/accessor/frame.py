"""`df.dp`: questions to a registered frame, each charged first and answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.accessor.chosen import Chosen
from dprelease.accessor.rows import Questions
from dprelease.accessor.same_values import same_column, same_index
from dprelease.accessor.session import Session, session_of
from dprelease.errors import DataError, SessionError
from dprelease.exact.reading.frames import kind_of_object
from dprelease.exact.reading.sources import stored_columns

if TYPE_CHECKING:
    import pandas as pd

TOKEN = "dprelease"
"""Key in `DataFrame.attrs`; the value is an opaque id, never a session: pandas copies attrs."""


class DpAccessor(Questions):
    """`df.dp`: register a frame once with `use`, then ask."""

    __slots__ = ("_frame",)

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def use(self, session: Session, *, row_wise: bool = False) -> None:
        """Register this frame as the rows of the session's table.

        The first frame of a session is its rows. Any other one has to hold the same rows: the same
        index, and no declared column that differs from the first frame's, or that it lacks. Such a
        frame asks about the first one's rows, whatever became of it in between.

        Parameters
        ----------
        session : Session
            The table and its budget. Keep it in a variable for as long as questions are asked.
        row_wise : bool, default False
            The caller vouches that every row of another frame comes from one row of the first one
            alone, and no two from the same; its rows then stand beside the first ones, under the
            same budget.

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
        # Nothing that came after a registration is ever read: what is known is what is asked.
        known = token or session.first
        self._same_rows(session, known)
        self._frame.attrs[TOKEN] = known

    def _chosen(self) -> Chosen:
        token = self._frame.attrs.get(TOKEN)
        if token is None:
            raise SessionError("DP-SESSION-001")
        session = session_of(token)
        self._same_rows(session, token)
        return Chosen(session, token)

    def _same_rows(self, session: Session, token: str) -> None:
        """Return if the frame holds the registered rows, whatever it leaves out of columns.

        Only then is the answer one about the registered people: a filter, a join, a sort, a changed
        column or a declared one that came later may have looked at several rows at once.
        """
        known, frame = session.snapshot(token), self._frame
        if not same_index(frame.index, known.index):
            raise SessionError("DP-SESSION-002")
        for name in stored_columns(session.declared):
            if list(frame.columns).count(name) > 1:
                raise DataError("DP-DATA-003", table=session.table.name, column=name)
            if name in frame.columns:
                if name not in known.columns:
                    raise SessionError("DP-SESSION-010", column=name)
                if not same_column(frame[name], known[name]):
                    raise SessionError("DP-SESSION-002")


def dp(frame: pd.DataFrame) -> DpAccessor:
    """Return `frame.dp`, for type checkers and editors, which can't know of an accessor.

    Parameters
    ----------
    frame : pandas.DataFrame
        As it is asked as `frame.dp`.

    Returns
    -------
    DpAccessor
        The same as `frame.dp`, with its type.
    """
    return DpAccessor(frame)
