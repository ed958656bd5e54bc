"""`df.dp`: questions to a registered frame, each charged first and answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.accessor.rows import QUESTIONS, Rows
from dprelease.accessor.session import Session, session_of
from dprelease.errors import SessionError

if TYPE_CHECKING:
    import pandas as pd

WAYS = ("where", "derive", "groupby", "explain")
"""How rows are chosen before a question, or looked at without one."""

TOKEN = "dprelease"
"""Key in `DataFrame.attrs`; the value is an opaque id, never a session: pandas copies attrs."""


class DpAccessor:
    """`df.dp`: register a frame once with `use`, then ask."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def use(self, session: Session, *, row_wise: bool = False) -> None:
        """Register this frame as the rows of the session's table.

        With `row_wise=True` the caller vouches that every row of a derived frame comes from one row
        of the registered one alone; it then takes that frame's place, under the same budget.

        Raises
        ------
        SessionError
            DP-SESSION-002 for a derived frame without `row_wise`, DP-SESSION-003 if the frame
            belongs to another session.
        """
        token = self._frame.attrs.get(TOKEN)
        if token is not None:
            if session_of(token) is not session:
                raise SessionError("DP-SESSION-003")
            if not row_wise:
                self._same_rows(session, token)
        self._frame.attrs[TOKEN] = session.register(self._frame)

    @property
    def session(self) -> Session:
        """Return the session of this frame; raise SessionError DP-SESSION-001 if it has none."""
        return self._rows().session

    def __getattr__(self, name: str) -> object:
        # The questions are those of `Rows`; one list of them is enough.
        if name in (*QUESTIONS, *WAYS):
            return getattr(self._rows(), name)
        raise AttributeError(f"'dp' has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*QUESTIONS, *WAYS, "session", "use"})

    def _rows(self) -> Rows:
        token = self._frame.attrs.get(TOKEN)
        if token is None:
            raise SessionError("DP-SESSION-001")
        session = session_of(token)
        self._same_rows(session, token)
        return Rows(session, token)

    def _same_rows(self, session: Session, token: str) -> None:
        """Return if the frame holds the registered rows, whatever it adds or leaves out of columns.

        Only then is the answer one about the registered people: a filter, a join, a sort or a
        changed column may have looked at several rows at once.
        """
        known, frame = session.snapshot(token), self._frame
        if not frame.columns.is_unique or not frame.index.equals(known.index):
            raise SessionError("DP-SESSION-002")
        for name in session.table.columns:
            if name in frame.columns and name in known.columns:
                mine, registered = frame[name], known[name]
                if mine.dtype != registered.dtype or not mine.equals(registered):
                    raise SessionError("DP-SESSION-002")
