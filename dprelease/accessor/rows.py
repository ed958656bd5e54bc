"""What can be asked of registered rows, and how they are chosen before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, overload

from dprelease.accessor.chosen import Chosen
from dprelease.accessor.given import plain, refuse_cells, simple
from dprelease.accessor.groups import Grouped
from dprelease.accessor.session import Session
from dprelease.accessor.systems import Systems
from dprelease.accessor.terms import QUESTIONS, Name
from dprelease.errors import SessionError, UsageError

if TYPE_CHECKING:
    import pandas as pd

CONDITION = 'a condition in SQL as one text, such as "age >= 18"'


class Questions(Systems):
    """Every question, and the ways to choose rows and columns before one is asked."""

    __slots__ = ()

    @property
    def session(self) -> Session:
        """Return the session of these rows; raise SessionError DP-SESSION-001 without one."""
        return self._selection().session

    def where(self, predicate: str) -> Rows:
        """Return the rows that also satisfy a predicate.

        Parameters
        ----------
        predicate : str
            A condition in SQL about each row by itself. One that is not is refused when a question
            is asked, by a QueryError DP-WHERE-*.

        Raises
        ------
        UsageError
            DP-SESSION-016 for anything but a text: a function or a column of truth values may have
            looked at other rows.

        Returns
        -------
        Rows
            To be asked every question.
        """
        chosen = self._selection()
        given: object = predicate
        if not isinstance(given, str):
            kind = type(given).__name__
            raise UsageError("DP-SESSION-016", name="predicate", wanted=CONDITION, kind=kind)
        return Rows(replace(chosen, predicates=(*chosen.predicates, predicate)))

    def derive(self, **columns: Mapping[str, object]) -> Rows:
        """Return the rows with further columns, each computed from its row.

        Parameters
        ----------
        **columns
            Names, and declarations as in a table schema, such as
            `age_group={"cut": "age", "edges": [0, 18, 65, 116]}` or
            `yearly={"expression": "monthly * 12", "type": "number", "lower": 0, "upper": 1e6}`.

        Returns
        -------
        Rows
            To be asked every question.
        """
        chosen = self._selection()
        refuse_cells(self, columns)
        more = {name: plain(declared) for name, declared in columns.items()}
        return Rows(replace(chosen, derived={**chosen.derived, **more}))

    @overload
    def groupby(
        self, by: str | Sequence[str], *, as_index: Literal[True] = True
    ) -> Grouped[pd.Series]: ...
    @overload
    def groupby(
        self, by: str | Sequence[str], *, as_index: Literal[False]
    ) -> Grouped[pd.DataFrame]: ...
    def groupby(
        self, by: str | Sequence[str], *, as_index: bool = True
    ) -> Grouped[pd.Series] | Grouped[pd.DataFrame]:
        """Return the rows in groups of declared keys, as pandas does.

        Parameters
        ----------
        by : str or a list of str
            The keys.
        as_index : bool, default True
            Whether keys are the index of answers; else they are columns.

        Returns
        -------
        Grouped
            To be asked for aggregates of columns, or for several at once.
        """
        given: object = by
        refuse_cells(self, {"by": by})
        as_index = simple(as_index)
        for name, value, wanted, fits in (
            ("by", given, "a column or a list of columns", isinstance(given, Iterable)),
            ("as_index", as_index, "True or False", isinstance(as_index, bool)),
        ):
            if not fits:
                kind = type(value).__name__
                raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
        keys = (by,) if isinstance(by, str) else tuple(by)
        return Grouped(Rows(self._selection()), keys, as_index)

    def explain(self, question: Name, *arguments: object, **named: object) -> pd.DataFrame:
        """Return what a question would measure, with which noise, error and price; spends nothing.

        Parameters
        ----------
        question : str
            The name of one.
        *arguments, **named
            Its own, as in `explain("mean", "income", by="state", epsilon=0.1)`.

        Returns
        -------
        pandas.DataFrame
            A row for each measurement, then one for each column that is computed from several.
            With a ledger, `attrs["dprelease_answer"]["ledger"]` tells what it has left.
        """
        with self._asking() as chosen:
            refuse_cells(self, {"question": question})
            if question not in QUESTIONS:
                raise SessionError("DP-SESSION-008", what=question, known=", ".join(QUESTIONS))
            dry = Rows(replace(chosen, dry=True))
            explained: pd.DataFrame = getattr(dry, question)(*arguments, **named)
            return explained


class Rows(Questions):
    """The registered rows that satisfy every predicate, with the columns that were derived."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Chosen) -> None:
        self._rows = rows

    def _selection(self) -> Chosen:
        return self._rows
