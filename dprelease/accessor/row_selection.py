"""The registered rows that a query reads, and the state of its run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dprelease.accessor import frame_shapes
from dprelease.accessor.answer import Question, answer, explain_plan, plan_question
from dprelease.accessor.query_options import Price, Terms, keys_of, parse_terms
from dprelease.accessor.session import Session
from dprelease.errors import RunState, UsageError
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.model import free_name, same_name
from dprelease.schema.yaml_text.reader import Plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows of a session that satisfy every predicate, with the columns computed for the query."""

    session: Session
    token: str
    predicates: tuple[str, ...] = ()
    derived: Mapping[str, Plain] = field(default_factory=dict)
    dry: bool = False
    """Whether queries are only planned."""
    state: RunState = field(default_factory=RunState)
    """What the query has done so far."""

    def ask(
        self, columns: Mapping[str, Mapping[str, Plain]], terms: Terms, what: str
    ) -> pd.DataFrame:
        """Return the answer to several aggregates by name, or only their plan if `dry`."""
        _, asked = parse_terms(terms), Question(columns, self.predicates, self.derived, what)
        if self.dry:
            return explain_plan(self.session, *plan_question(self.session, asked, terms))
        return answer(self.session, self.token, asked, terms, self.state)[0]

    def single(self, spec: Mapping[str, Plain], terms: Terms) -> pd.DataFrame:
        """Return the answer to one aggregate, with columns `value` and `moe`."""
        keys = keys_of(terms)
        (name,) = frame_shapes.names_of_answers(["answer"], keys)
        frame = self.ask({name: spec}, terms, next(iter(spec)))
        return frame if self.dry else frame_shapes.with_named_columns(frame, keys, ("value", "moe"))

    def counts(self, keys: Sequence[str], terms: Price, what: str) -> pd.DataFrame:
        """Return counts of rows by keys, with any margins; or only their plan if `dry`."""
        (name,) = frame_shapes.names_of_answers(["count"], keys)
        return self.ask({name: {"count": "*"}}, {**terms, "by": list(keys)}, what)

    def free_column(self, wanted: str) -> str:
        """Return a name for a computed column that no column of the table has."""
        names = (*self.session.table.columns, *self.derived)
        return free_name(wanted, {same_name(name) for name in names})

    def numbers(self) -> list[str]:
        """Return the declared numeric columns with bounds, without the id."""
        table = self.session.table
        return [
            name
            for name, column in table.columns.items()
            if isinstance(column, IntegerColumn | NumberColumn)
            and column.lattice is not None
            and name != table.unit.id
        ]

    def refuse_others(self, names: Iterable[str]) -> None:
        """Raise UsageError DP-SESSION-016 for declared columns that are not numbers with bounds."""
        table, numbers = self.session.table, self.numbers()
        for name in names:
            if name in table.columns and name not in numbers and name not in self.derived:
                column = table.columns[name]
                kind = f"'{name}', a {getattr(column, 'type', 'cut')} without such bounds"
                kind = f"'{name}', the id" if name == table.unit.id else kind
                known = ", ".join(numbers) or "this table has none"
                wanted = f"numeric columns with declared bounds ({known})"
                raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)


class Asking(ABC):
    """An object with query methods."""

    __slots__ = ()

    @abstractmethod
    def _selection(self) -> RowSelection:
        """Return the rows to query; raise SessionError if they can't be queried."""

    @contextmanager
    def _asking(self) -> Iterator[RowSelection]:
        """Yield the rows for one query; an exception from the block reports its state."""
        state = RunState()
        with state.add_state_to_errors():
            yield replace(self._selection(), state=state)
