"""The registered rows that a query reads, and the state of its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dprelease.accessor.answer_libraries import Library
from dprelease.accessor.session import Session
from dprelease.errors import RunState, SessionError, UsageError
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.schema.columns import IntegerColumn, NumberColumn
from dprelease.schema.model import normalized_name, unused_name
from dprelease.schema.yaml_text.reader import Plain


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows of a session that satisfy all predicates, with columns computed for a query."""

    session: Session
    token: str
    """Opaque id of the registered rows."""
    predicates: tuple[str, ...] = ()
    derived: Mapping[str, Plain] = field(default_factory=dict)
    """Declarations of computed columns, as in a table schema."""
    join: Mapping[str, Plain] | None = None
    """The join with a public table, as in a release file."""
    dry: bool = False
    """Whether queries are only planned, not answered."""
    library: Library = "pandas"
    """The library whose frames the answers are."""
    state: RunState = field(default_factory=RunState)
    """The state of the query: whether rows were read, and what is charged."""

    def free_column(self, wanted: str) -> str:
        """Return a name for a computed column that no column of the table has."""
        names = (*self.session.table.columns, *self.derived)
        return unused_name(wanted, {normalized_name(name) for name in names})

    def numeric_columns(self) -> list[str]:
        """Return the names of declared numeric columns with bounds, except the id."""
        table = self.session.table
        return [
            name
            for name, column in table.columns.items()
            if isinstance(column, IntegerColumn | NumberColumn)
            and column.lattice is not None
            # Statistics of ids mean nothing, and would cost budget.
            and name != table.unit.id
        ]

    def refuse_non_numeric(self, names: Iterable[str]) -> None:
        """Raise for columns that are not declared as numbers with bounds.

        Raises
        ------
        UsageError
            DP-SESSION-016 for other declared columns.
        SessionError
            DP-SESSION-009 for unknown columns.
        """
        table, numeric_columns = self.session.table, self.numeric_columns()
        for name in names:
            if name not in table.columns and name not in self.derived:
                raise SessionError("DP-SESSION-009", **unknown_column(table, name))
            if name in table.columns and name not in numeric_columns and name not in self.derived:
                column = table.columns[name]
                kind = f"'{name}', a {getattr(column, 'type', 'cut')}"
                kind += " without bounds" * isinstance(column, IntegerColumn | NumberColumn)
                kind = f"'{name}', the id" if name == table.unit.id else kind
                known = ", ".join(numeric_columns) or "this table has none"
                wanted = f"numeric columns with declared bounds ({known})"
                raise UsageError("DP-SESSION-016", name="columns", wanted=wanted, kind=kind)
