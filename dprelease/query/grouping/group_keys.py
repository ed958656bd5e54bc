"""Public keys of groups: complete and ordered lists that do not depend on the data."""

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

NO_POSITIONS = Places(())

KeyKind = Literal["text", "integer", "boolean", "date"]


@dataclass(frozen=True, slots=True)
class Key:
    """One key column: its values in declared order, and the cells of missing and other values.

    `nulls` and `others` are the positions in `values` that replace missing and undeclared values,
    or None if rows with such values are dropped. If `rest` is true, these rows are kept in an
    additional last cell instead, for tables that are summed over this key.

    The other fields describe a level of areas. `level` is the number of the level in a hierarchy,
    from 1 on, or 0 for every other key. `parents` has, for each area of the level, the position of
    the area one level up that contains it, or 0 at the first level. These positions ascend, because
    the parts of an area are adjacent. `leaf` is the column of the last level, which is the only
    column that is read from the rows. `ancestors` has, for each area of the last level, the
    position of the area of this level that contains it; these positions ascend as well.
    """

    column: str
    kind: KeyKind
    values: Sequence[str] | Sequence[int] | Sequence[bool] | Sequence[date]
    nulls: int | None = None
    others: int | None = None
    rest: bool = False
    level: int = 0
    parents: Places = NO_POSITIONS
    leaf: str = ""
    ancestors: Places = NO_POSITIONS

    @property
    def read_from(self) -> str:
        """The column that is read from the rows."""
        return self.leaf or self.column

    @property
    def leaves_out_rows(self) -> bool:
        """Whether rows with some missing, undeclared or outside value belong to no cell."""
        covered = self.kind == "boolean" or (self.kind == "text" and self.others is not None)
        return self.nulls is None or not covered

    @property
    def size(self) -> int:
        """The number of cells, including the additional last cell if `rest` is true."""
        return len(self.values) + self.rest

    @property
    def texts(self) -> KeyValues:
        """The values as texts."""
        own_values = self.values
        return own_values if isinstance(own_values, KeyValues) else KeyValues(map(str, own_values))

    @property
    def whole(self) -> Sequence[int]:
        """The values of an integer or boolean key, as integers."""
        return cast("Sequence[int]", self.values)

    @property
    def days(self) -> Sequence[date]:
        """The values of a key of dates."""
        return cast("Sequence[date]", self.values)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """All combinations of the values of several keys; the first key varies slowest."""

    keys: tuple[Key, ...]

    @property
    def size(self) -> int:
        """Return the number of cells; 1 without keys."""
        return math.prod(key.size for key in self.keys)

    @property
    def strides(self) -> tuple[int, ...]:
        """The difference in cell numbers between neighbouring values of each key."""
        sizes = [key.size for key in self.keys]
        return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


ID_AS_KEY = (
    "it names the privacy unit, so its groups would show who is in the data",
    "group by another column, and count the privacy units of each group: COUNT(DISTINCT id) in "
    "SQL, `count_distinct` in a release file, nunique in pandas; a mean for each unit is a "
    "quotient such as COUNT(*) / COUNT(DISTINCT id)",
)
"""Why the id of the privacy unit can't be a key, and what to do instead."""

DECLARE = (
    "group by a category, a boolean, a cut, or an integer or date with both bounds; with "
    "`private_keys` and a delta, its values are found in the data"
)
COARSEN = (
    "group by a `cut` of numbers, or by the day or month of times: date_trunc('month', t) in SQL, "
    "a column with such an `expression` in a schema"
)
"""What to do instead of grouping by other columns."""


def key_of(name: str, column: Column) -> Key | str:
    """Return the key of a column, or the reason why the column can't be a key."""
    match column:
        case CategoryColumn() | CutColumn():
            values = column.values or ()
            return Key(
                name,
                "text",
                values,
                nulls=_position(values, column.fill),
                others=_position(values, column.others),
            )
        case BooleanColumn():
            nulls = None if column.fill == DROP else int(to_bool(column.fill))
            return Key(name, "boolean", (False, True), nulls=nulls)
        case IntegerColumn(lower=int() as low, upper=int() as high):
            nulls = None if column.fill == DROP else to_int(column.fill) - low
            return Key(name, "integer", range(low, high + 1), nulls=nulls)
        case DateColumn(lower=date() as first, upper=date() as last):
            days = tuple(first + timedelta(days=i) for i in range((last - first).days + 1))
            nulls = None if column.fill == DROP else (to_date(column.fill) - first).days
            return Key(name, "date", days, nulls=nulls)
        case IntegerColumn() | DateColumn():
            return "it has no bounds, so its values are not public"
    return f"a column of type {column.type} has no public values"


def _position(values: Sequence[str], cell: str) -> int | None:
    """Return the index of a value; None if its rows are dropped."""
    return None if cell == DROP else values.index(cell)
