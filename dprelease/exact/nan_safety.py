"""Protect queries over floats from the engine's statistics, which ignore NaN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dprelease.query.resolve import Query
from dprelease.statements.layers import needed_columns, needed_joined_columns
from dprelease.statements.values.physical import FLOATS, base_type

Types = Mapping[str, str]

DISABLE_STATISTICS = "SET disabled_optimizers = 'statistics_propagation'"
"""Statistics of Parquet files do not include NaN. From statistics the engine may conclude that
isnan is false for all rows, so whether a row's value is missing would depend on other rows."""


@dataclass(frozen=True, slots=True)
class FloatColumns:
    """The float columns that queries read: of a table, and of the table joined to it.

    If no query reads a float column, the engine may use statistics, because the statistics include
    all values of other columns.
    """

    tables: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, physical: Sequence[Types], queries: Sequence[Query] | None) -> FloatColumns:
        """Return the float columns that these queries read; all of them if `queries` is None."""
        stored = [frozenset(_float_columns(types, types)) for types in physical]
        if queries is None or not any(stored):
            return cls(tuple(stored))
        asked = [columns_to_read(query) for query in queries]
        return cls(
            tuple(
                frozenset(name for names in asked for name in _float_columns(names[i], types))
                for i, types in enumerate(physical)
            )
        )

    @property
    def has_any(self) -> bool:
        """Return whether there are any; statistics must be disabled before one of them is read."""
        return any(self.tables)

    def refuse_others(self, query: Query, physical: Sequence[Types]) -> None:
        """Refuse a query that reads other float columns than these.

        Raises AssertionError if the query reads other float columns: an engine must be opened for
        all its queries.
        """
        for names, types, asked in zip(columns_to_read(query), physical, self.tables, strict=False):
            if not asked.issuperset(_float_columns(names, types)):
                raise AssertionError("the engine was opened for other queries")


def columns_to_read(query: Query) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the stored columns that a query reads: of its table, and of the joined table."""
    return needed_columns(query), needed_joined_columns(query)


def _float_columns(names: Iterable[str], types: Types) -> list[str]:
    """Return the names of the columns whose stored type is a float."""
    return [name for name in names if base_type(types.get(name, "")) in FLOATS]
