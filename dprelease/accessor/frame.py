"""`df.dp`: questions to a registered frame, each charged first and answered once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dprelease.accessor.answer import Noise, Question, answer, answer_sql
from dprelease.accessor.session import Number, Session, session_of
from dprelease.errors import SessionError

if TYPE_CHECKING:
    import pandas as pd

TOKEN = "dprelease"
"""Key in `DataFrame.attrs`; the value is an opaque id, never a session: pandas copies attrs."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The registered rows that satisfy every predicate; asks the session's questions."""

    session: Session
    token: str
    predicates: tuple[str, ...] = ()

    def where(self, predicate: str) -> Rows:
        """Return the rows that also satisfy a row-wise SQL predicate.

        Raises QueryError DP-WHERE-* (when a question is asked) if it is not row-wise.
        """
        return replace(self, predicates=(*self.predicates, predicate))

    def count(
        self,
        column: str = "*",
        *,
        by: str | Sequence[str] = (),
        epsilon: Number,
        delta: Number = 0,
        mechanism: Noise = "auto",
        confidence: float = 0.95,
    ) -> pd.DataFrame:
        """Return noisy counts of rows, or of rows where `column` is not missing.

        The result has one row for each cell of the declared keys in `by`, empty cells included, in
        declared order: the keys, `value` (integer), and `moe`, the margin of error at `confidence`.
        The session is charged before the answer is drawn. `mechanism` is a name, or a mapping of a
        name and its shape such as {"name": "asymmetric_laplace", "k": 1.2}.

        Raises
        ------
        QueryError
            If the question has no bounded meaning; nothing is charged.
        BudgetError
            If the price does not fit; nothing is charged.
        """
        return self._ask({"count": column}, by, epsilon, delta, mechanism, confidence)

    def count_distinct(
        self,
        column: str,
        *,
        by: str | Sequence[str] = (),
        epsilon: Number,
        delta: Number = 0,
        mechanism: Noise = "auto",
        confidence: float = 0.95,
    ) -> pd.DataFrame:
        """Return noisy counts of distinct ids, or of distinct declared values; as `count`."""
        return self._ask({"count_distinct": column}, by, epsilon, delta, mechanism, confidence)

    def sum(
        self,
        column: str,
        *,
        by: str | Sequence[str] = (),
        epsilon: Number,
        delta: Number = 0,
        mechanism: Noise = "auto",
        confidence: float = 0.95,
    ) -> pd.DataFrame:
        """Return noisy sums of a column with declared bounds, in its unit; as `count`.

        `value` is an integer if the column's step is one, else a float.
        """
        return self._ask({"sum": column}, by, epsilon, delta, mechanism, confidence)

    def sql(
        self,
        statement: str,
        *,
        epsilon: Number,
        delta: Number = 0,
        mechanism: Noise = "auto",
    ) -> pd.DataFrame:
        """Return the noisy answer of one SELECT from the session's table, by its declared name.

        COUNT, COUNT(DISTINCT ...), SUM and AVG over declared keys are bounded and noised;
        arithmetic on them, HAVING, ORDER BY and LIMIT are computed from the noised values. The
        whole statement is charged once. `attrs["dprelease_answer"]` holds its guarantee and margins
        of error.

        Raises
        ------
        QueryError
            DP-SQL-001 to 007 for what has no bounded meaning; nothing is charged.
        BudgetError
            If the price does not fit; nothing is charged.
        """
        frame = self.session.snapshot(self.token)
        return answer_sql(
            self.session, frame, statement, self.predicates, mechanism, epsilon, delta
        )

    def _ask(
        self,
        aggregate: dict[str, str],
        by: str | Sequence[str],
        epsilon: Number,
        delta: Number,
        mechanism: Noise,
        confidence: float,
    ) -> pd.DataFrame:
        question = Question(
            aggregate=aggregate,
            by=(by,) if isinstance(by, str) else tuple(by),
            predicates=self.predicates,
            mechanism=mechanism,
            confidence=confidence,
        )
        return answer(self.session, self.session.snapshot(self.token), question, epsilon, delta)


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

    def where(self, predicate: str) -> Rows:
        """Return the rows that satisfy a row-wise SQL predicate, to ask about."""
        return self._rows().where(predicate)

    def __getattr__(self, name: str) -> object:
        # The questions are those of `Rows`; one list of them is enough.
        if name in ("count", "count_distinct", "sql", "sum"):
            return getattr(self._rows(), name)
        raise AttributeError(f"'dp' has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return ["count", "count_distinct", "session", "sql", "sum", "use", "where"]

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
