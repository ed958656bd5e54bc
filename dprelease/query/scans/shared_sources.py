"""Group queries that read the same sources, and use the same names for the same columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dprelease.query.expressions.used_columns import Formula, Predicate
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column
from dprelease.schema.model import normalized_name


@dataclass
class SharedSource:
    """Queries whose rows can be read by one statement, with all keys and columns that it reads."""

    queries: list[Query] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    formulas: dict[str, Formula] = field(default_factory=dict)
    _normalized_names: set[str] = field(default_factory=set)
    """The names of all columns, in a form that is equal for names that the engine confuses."""

    def admits(self, query: Query) -> bool:
        """Return whether a query reads the same sources, and uses all names in the same meaning.

        The engine ignores case in names, so that it would use one of two columns whose names differ
        only in case for both of them.
        """
        if not self.queries:
            return True
        first = self.queries[0]
        if query.declared is not first.declared or _are_different(query.join, first.join):
            return False
        new = query.table.columns.keys() - self.columns.keys()
        if any(normalized_name(name) in self._normalized_names for name in new):
            return False
        pairs = (
            (self.columns, query.table.columns),
            (self.formulas, query.formulas),
            (self.keys, _by_column(query)),
        )
        return not any(
            _are_different(known.get(name, one), one)
            for known, new in pairs
            for name, one in new.items()
        )

    def add(self, query: Query) -> None:
        """Add a query for which `admits` is true."""
        self.queries.append(query)
        self.keys |= _by_column(query)
        new = query.table.columns.keys() - self.columns.keys()
        self._normalized_names |= {normalized_name(name) for name in new}
        self.columns |= query.table.columns
        self.formulas |= query.formulas

    def query(self, measurements: Iterable[Measurement]) -> Query:
        """Return one query that reads the columns and the rows of all the queries."""
        predicates = [query.predicate for query in self.queries]
        conditions = {condition.sql: condition for condition in predicates if condition is not None}
        predicate = None
        if conditions:
            everything = ["TRUE"] if None in predicates else []
            sql = " OR ".join([*(f"({sql})" for sql in conditions), *everything])
            read = dict.fromkeys(n for one in conditions.values() for n in one.columns)
            predicate = Predicate(sql, tuple(read))
        first = self.queries[0]
        return replace(
            first,
            predicate=predicate,
            keys=KeySpace(tuple(self.keys.values())),
            measurements=tuple(measurements),
            columns=(),
            view=first.table.model_copy(update={"columns": self.columns}),
            formulas=self.formulas,
        )


def _by_column(query: Query) -> dict[str, Key]:
    return {key.column: key for key in query.keys.keys}


def _are_different(left: object, right: object) -> bool:
    """Return whether two declarations differ; usually they are the same object."""
    return left is not right and left != right
