"""Stack one side of many pairs in one table, with the number of the pair as an additional column.

The queries of the release get this number as an additional key. So thousands of pairs need only two
runs of the engine, one for each side. A stack does not show whether a unit changes which rows of
another unit are counted; pairs that are queried one by one show this (`exact_pairs.exact_sides`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dprelease.auditing.neighbours.situations import Row, Rows, Situation
from dprelease.auditing.neighbours.stored_values import AS_DECLARED, REVERSED, stored_array
from dprelease.auditing.pairs import Pair, Tables
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.grouping.private_keys import PrivateKeys
from dprelease.query.resolve import Query
from dprelease.schema.columns import Column, IntegerColumn, TextColumn, is_stored
from dprelease.schema.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

PAIR = "dp_pair"
"""The name of the column with the number of the pair."""

IDS_PER_PAIR = 64
"""The number of ids that each pair of a stack has for its units."""

REPLACEMENT = IDS_PER_PAIR - 1
"""The position of the id of a unit's replacement among the ids of a pair."""


@dataclass(frozen=True, slots=True)
class StackRow:
    """A row of a stack, with the number of its pair, and the number of its unit in the pair.

    `id_format` is the format in which the id of the unit is written, if ids are stored as texts.
    """

    pair: int
    member: int
    id_format: str
    row: Row


def stacked_queries(queries: Sequence[Query], pairs: int) -> tuple[Query, ...]:
    """Return the queries for a stack of pairs, which have the number of the pair as first key."""
    spaces: dict[int, KeySpace] = {}
    number = IntegerColumn(type="integer", lower=0, upper=pairs - 1)
    key = Key(PAIR, "integer", range(pairs))
    stacked = []
    for query in queries:
        finest = query.finest
        if finest is not None:  # all tables of a family of consistent tables share this object
            finest = spaces.setdefault(id(finest), KeySpace((key, *finest.keys)))
        private = query.private
        if private is not None:
            private = PrivateKeys(((PAIR, "integer"), *private.columns))
        declared = replace(query.declared, table=with_pair_number(query.declared.table, number))
        keys = query.keys if private is not None else KeySpace((key, *query.keys.keys))
        stacked.append(
            replace(
                query,
                declared=declared,
                keys=keys,
                finest=finest,
                private=private,
                view=with_pair_number(query.table, number),
            )
        )
    return tuple(stacked)


def with_pair_number(table: Table, number: IntegerColumn) -> Table:
    """Return the schema of a table with the number of the pair as its first column."""
    return table.model_copy(update={"columns": {PAIR: number, **table.columns}})


def stack_side(
    tables: Mapping[str, Table], situations: Sequence[Situation], *, first: bool, storage: str
) -> dict[str, pa.Table]:
    """Return one side of all situations as tables with the number of the pair, by name.

    `first` selects the side that has the unit. `tables` are the schemas of the tables about people.
    """
    arrow_tables = {}
    for name, table in tables.items():
        stack_rows = _order_rows(_stack_rows(situations, name, first=first), storage)
        numbers = [one.pair for one in stack_rows]
        arrow_tables[name] = _arrow_table(table, stack_rows, storage).add_column(
            0, PAIR, [pair_number_array(numbers)]
        )
    return arrow_tables


def pair_number_array(numbers: Sequence[int]) -> pa.Array:
    """Return the numbers of pairs as an Arrow column."""
    import pyarrow as pa

    return pa.array(numbers, pa.int64())


def situation_pair(
    tables: Mapping[str, Table],
    situation: Situation,
    public: Tables,
    storages: tuple[str, str] = (AS_DECLARED, AS_DECLARED),
) -> Pair:
    """Return a situation as a pair of tables; `storages` has the way of storing of each side."""
    sides = []
    for first, storage in zip((True, False), storages, strict=True):
        rows_by_table = {
            name: _order_rows(_stack_rows([situation], name, first=first), storage)
            for name in tables
        }
        sides.append(
            {
                **public,
                **{n: _arrow_table(tables[n], rows, storage) for n, rows in rows_by_table.items()},
            }
        )
    description = (
        situation.description
        if storages[0] == storages[1]
        else f"{situation.description}, stored {storages[0]}"
    )
    return Pair(description, sides[0], sides[1], next(iter(situation.one), next(iter(tables))))


def _stack_rows(situations: Iterable[Situation], table: str, *, first: bool) -> Iterator[StackRow]:
    """Yield the rows of a table on one side of each situation, with the numbers of their units."""
    for pair, one in enumerate(situations):
        units: list[tuple[int, Rows]] = [*enumerate(one.other_units, 1)]
        units.insert(len(units) // 2, (0, one.one) if first else (REPLACEMENT, one.other))
        for member, rows in units:
            for i, row in enumerate(rows.get(table, ())):
                id_format = one.id_formats[i % len(one.id_formats)] if member == 0 else "{}"
                yield StackRow(pair, member, id_format, row)


def _order_rows(stack_rows: Iterable[StackRow], storage: str) -> list[StackRow]:
    """Return the rows in the order of the storage, which may be reversed."""
    return [*stack_rows][::-1] if storage == REVERSED else [*stack_rows]


def _arrow_table(table: Table, stack_rows: Sequence[StackRow], storage: str) -> pa.Table:
    """Return an Arrow table with all stored columns of some rows."""
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    for name, column in table.columns.items():
        if not is_stored(column):
            continue
        if name == table.unit.id:
            ids = [_id_value(column, one, storage) for one in stack_rows]
            arrays[name] = stored_array(ids, name, column, storage, is_id=True)
        else:
            arrays[name] = stored_array(
                [one.row.get(name) for one in stack_rows], name, column, storage
            )
    return pa.table(arrays) if arrays else pa.table({"dp_row": pa.nulls(len(stack_rows))})


LARGE_IDS = 2**60
"""The first id of columns without a lower bound: some larger ids are equal as floats."""

NO_ID = "no id"
"""The key in a row that says that the id of the row is missing."""


def _id_value(column: Column, stack_row: StackRow, storage: str) -> object:
    """Return the id of a row, which no other unit of the stack has; None if the id is missing."""
    if stack_row.row.get(NO_ID):
        return None
    number = stack_row.pair * IDS_PER_PAIR + stack_row.member + 1
    if isinstance(column, TextColumn):
        return f"person {number:010}"
    low = getattr(column, "lower", None)
    number += LARGE_IDS if low is None else max(low, 0)
    if stack_row.id_format == "{}" or storage != "as texts":
        return number
    return stack_row.id_format.format(number)
