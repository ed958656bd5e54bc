"""Public group keys: complete, ordered, and independent of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, cast

from dprelease.query.grouping.places import Places
from dprelease.schema.columns import (
    BooleanColumn,
    CategoryColumn,
    Column,
    CutColumn,
    DateColumn,
    IntegerColumn,
)
from dprelease.schema.field_types import DROP, to_bool, to_date, to_int
from dprelease.schema.public_values.key_files import KeyValues

NONE = Places(())

KeyKind = Literal["text", "integer", "boolean", "date"]


@dataclass(frozen=True, slots=True)
class Key:
    """One key column: its cells in declared order, and where rows without a cell go.

    `nulls` and `others` are positions in `values`, or None: such rows are dropped. `rest`: they are
    kept in an additional last cell instead, for tables that are summed over this key.

    `level`: the level in a hierarchy of areas, from 1 on below the whole; 0 for every other key.
    `parents`: for each area of a level, the position of the area that contains it, one level up;
    all 0 at the first level. They ascend: the parts of an area are adjacent. `leaf`: the column of
    the last level, the only one that is read from rows: a row lies where its leaf lies.
    `ancestors`: for each leaf, the position of the area of this level that contains it; they ascend
    as well.
    """

    column: str
    kind: KeyKind
    values: Sequence[str] | Sequence[int] | Sequence[bool] | Sequence[date]
    nulls: int | None = None
    others: int | None = None
    rest: bool = False
    level: int = 0
    parents: Places = NONE
    leaf: str = ""
    ancestors: Places = NONE

    @property
    def read_from(self) -> str:
        """Return the column that is read from the rows."""
        return self.leaf or self.column

    @property
    def size(self) -> int:
        """Return the number of cells, including the one for rows without a cell, if it exists."""
        return len(self.values) + self.rest

    @property
    def texts(self) -> KeyValues:
        """Return the values as texts."""
        own_values = self.values
        return own_values if isinstance(own_values, KeyValues) else KeyValues(map(str, own_values))

    @property
    def whole(self) -> Sequence[int]:
        """Return the values of an integer or boolean key, as numbers."""
        return cast("Sequence[int]", self.values)

    @property
    def days(self) -> Sequence[date]:
        """Return the values of a key of dates."""
        return cast("Sequence[date]", self.values)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The full cross product of the keys; cells are numbered with the first key slowest."""

    keys: tuple[Key, ...]

    @property
    def size(self) -> int:
        """Return the number of cells; 1 without keys."""
        return math.prod(key.size for key in self.keys)

    @property
    def strides(self) -> tuple[int, ...]:
        """Return how far one step of each key moves the cell number."""
        sizes = [key.size for key in self.keys]
        return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def key_of(name: str, column: Column) -> Key | str:
    """Return the key of a column, or the reason why it can't be one."""
    match column:
        case CategoryColumn() | CutColumn():
            values = column.values or ()
            return Key(
                name,
                "text",
                values,
                nulls=_position(values, column.nulls),
                others=_position(values, column.others),
            )
        case BooleanColumn():
            nulls = None if column.nulls == DROP else int(to_bool(column.nulls))
            return Key(name, "boolean", (False, True), nulls=nulls)
        case IntegerColumn(lower=int() as low, upper=int() as high):
            nulls = None if column.nulls == DROP else to_int(column.nulls) - low
            return Key(name, "integer", range(low, high + 1), nulls=nulls)
        case DateColumn(lower=date() as first, upper=date() as last):
            days = tuple(first + timedelta(days=i) for i in range((last - first).days + 1))
            nulls = None if column.nulls == DROP else (to_date(column.nulls) - first).days
            return Key(name, "date", days, nulls=nulls)
        case IntegerColumn() | DateColumn():
            return "it has no bounds, so its values are not public"
    return f"a column of type {column.type} has no public values"


def _position(values: Sequence[str], cell: str) -> int | None:
    return None if cell == DROP else values.index(cell)
