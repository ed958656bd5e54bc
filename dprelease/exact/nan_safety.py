"""Columns of floats that an engine may be asked for: the engine's statistics leave NaN out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dprelease.query.resolve import Query
from dprelease.statements.layers import needed_columns, needed_joined
from dprelease.statements.values.physical import FLOATS, base_type

Types = Mapping[str, str]

WITHOUT = "SET disabled_optimizers = 'statistics_propagation'"
"""Statistics of Parquet files say nothing of NaN, and from them the engine takes isnan to be false:
whether a row's value is missing would depend on others."""


@dataclass(frozen=True, slots=True)
class FloatColumns:
    """By the types that a table's columns are stored as, and those of the table joined to it.

    Where none is asked for, the engine may use statistics: it reads nothing that they don't tell.
    """

    tables: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, physical: Sequence[Types], queries: Sequence[Query] | None) -> FloatColumns:
        """Return the columns of floats that these queries read: all, where they are not known."""
        stored = [frozenset(_floats(types, types)) for types in physical]
        if queries is None or not any(stored):
            return cls(tuple(stored))
        asked = [columns_to_read(query) for query in queries]
        return cls(
            tuple(
                frozenset(name for names in asked for name in _floats(names[i], types))
                for i, types in enumerate(physical)
            )
        )

    @property
    def settings(self) -> tuple[str, ...]:
        """Return the statements that are needed before one of them is read."""
        return (WITHOUT,) if any(self.tables) else ()

    def refuse_others(self, query: Query, physical: Sequence[Types]) -> None:
        """Raise for a query that reads other floats than the engine was opened for.

        Raises
        ------
        AssertionError
            If it does: an engine is opened for all that it will be asked.
        """
        for names, types, asked in zip(columns_to_read(query), physical, self.tables, strict=False):
            if not asked.issuperset(_floats(names, types)):
                raise AssertionError("the engine was opened for other queries")


def columns_to_read(query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stored columns that a query reads: of its table, and of the joined one."""
    return needed_columns(query), needed_joined(query)


def _floats(names: Iterable[str], types: Types) -> list[str]:
    return [name for name in names if base_type(types.get(name, "")) in FLOATS]
