"""Rows with the codes of all keys and all values that several tables need, each computed once."""

from __future__ import annotations

from dprelease.query import quoting
from dprelease.query.expressions.used_columns import Predicate
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.scans.shared_sources import SharedSource
from dprelease.statements.compiled_statements import KeyTable
from dprelease.statements.compiler import Compiler
from dprelease.statements.values.row_values import row_value, same_values


class CodedRelation:
    """Names the columns of a relation `coded` as they are requested, and renders it."""

    def __init__(self, compiler: Compiler, sources: SharedSource) -> None:
        self._compiler, self._columns = compiler, sources.columns
        self._codes: dict[tuple[str, bool], str] = {}
        self._coded: dict[str, str] = {}
        self._read: dict[object, str] = {}
        self._values: dict[str, str] = {}
        self._flags: dict[str, str] = {}

    @property
    def key_tables(self) -> tuple[KeyTable, ...]:
        """Return the tables of key values that the statement reads."""
        return tuple(self._compiler.key_tables)

    def cell(self, space: KeySpace, kind: str = "BIGINT") -> str:
        """Return the cell of a row, in a type that can hold it; NULL for rows without one."""
        terms = (
            f"CAST({self._code(key)} AS {kind}) * {stride}"
            for key, stride in zip(space.keys, space.strides, strict=True)
        )
        return " + ".join(terms) or f"0::{kind}"

    def value(self, measurement: Measurement) -> str | None:
        """Return the column of a row's contribution to a measurement; None if rows are alike."""
        if not measurement.aggregate.reads_values:
            return None
        aggregate = measurement.aggregate
        read = same_values(aggregate) if measurement.is_choice else aggregate
        if read not in self._read:  # rendering a value may need another key table
            value = row_value(self._compiler, aggregate)
            self._read[read] = self._values.setdefault(value, f"v{len(self._values)}")
            self._coded[self._values[value]] = value
        return self._read[read]

    def where(self, condition: Predicate | None, expression: str) -> str:
        """Return an expression for the rows that meet a condition; NULL for others."""
        if condition is None:
            return expression
        name = self._flags.setdefault(condition.sql, f"w{len(self._flags)}")
        self._coded[name] = f"typed.{self._unused_name(name)}"
        return f"CASE WHEN {name} THEN {expression} END"

    def column(self, name: str, expression: str) -> str:
        """Return the name of a new column of the typed rows."""
        self._coded[name] = expression
        return name

    def statement(self, last: str) -> str:
        """Return a SELECT over `coded` with all that it needs."""
        typed = self._compiler.typed_layer()
        if self._flags:  # next to key tables, names in a condition could be ambiguous
            flags = ", ".join(
                f"({sql}) AS {self._unused_name(name)}" for sql, name in self._flags.items()
            )
            typed = f"SELECT *, {flags} FROM ({typed})"
        columns = ", ".join(f"{code} AS {name}" for name, code in self._coded.items())
        coded = f"SELECT {columns or '1 AS one'} FROM typed {' '.join(self._compiler.joins)}"
        return f"WITH typed AS (\n  {typed}\n),\ncoded AS (\n  {coded}\n)\n{last}"

    def _code(self, key: Key) -> str:
        """Return the column of a key's codes: one for tables that drop rows, one for others."""
        which = key.column, key.rest
        if which not in self._codes:
            self._codes[which] = f"k{len(self._codes)}"
            self._coded[self._codes[which]] = self._compiler.code(key)
        return self._codes[which]

    def _unused_name(self, name: str) -> str:
        """Return a name that no column of the table has."""
        start = "dp_"
        while any(column.casefold().startswith(start) for column in self._columns):
            start += "_"
        return quoting.identifier(start + name)
