"""Public keys of groups: complete and ordered lists that do not depend on the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Literal, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

AT_ONCE = 1 << 16
"""Number of positions that are converted to Python integers at a time."""


class Places(Sequence[int]):
    """An immutable sequence of positions, which are integers from 0 up.

    The hash is computed once, and sequences with equal positions are equal. An ascending sequence
    with many repeats, such as the areas that contain other areas, stores each different position
    once, with the index at which its run ends.
    """

    def __init__(self, places: Iterable[int] | NDArray[np.int64]) -> None:
        numbers = places if isinstance(places, np.ndarray) else np.fromiter(places, np.int64)
        stored = np.array(numbers, np.int64)
        moved = np.diff(stored)
        ends = np.append(np.flatnonzero(moved), len(stored) - 1) + 1
        self._ends: NDArray[np.int64] | None = None
        # The areas of a level repeat one position often; runs then take less memory.
        if len(stored) and (moved >= 0).all() and 2 * len(ends) <= len(stored):
            stored, self._ends = stored[ends - 1], ends
            self._ends.flags.writeable = False
        stored.flags.writeable = False
        self._held = stored

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        """Return one position, or the positions of a slice."""
        if isinstance(at, slice):
            found: list[int] = self.numbers[at].tolist()
            return found
        if self._ends is None:
            return int(self._held[at])
        place = range(len(self))[at]
        return int(self._held[np.searchsorted(self._ends, place, side="right")])

    def __len__(self) -> int:
        return len(self._held) if self._ends is None else int(self._ends[-1])

    def __iter__(self) -> Iterator[int]:
        numbers = self.numbers
        for first in range(0, len(numbers), AT_ONCE):
            yield from numbers[first : first + AT_ONCE].tolist()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Places) and self._bytes == other._bytes)

    def __hash__(self) -> int:
        """Return a hash that depends on the positions alone."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._bytes)

    @property
    def _bytes(self) -> tuple[bytes, bytes]:
        """Return the stored arrays as bytes."""
        ends = b"" if self._ends is None else self._ends.tobytes()
        return self._held.tobytes(), ends

    @cached_property
    def most_occurrences(self) -> int:
        """The number of occurrences of the most frequent position."""
        if self._ends is not None:
            return int(np.diff(self._ends, prepend=0).max())
        return int(np.unique(self._held, return_counts=True)[1].max(initial=0))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The positions as an array, which callers must not change."""
        if self._ends is None:
            return self._held
        found = np.repeat(self._held, np.diff(self._ends, prepend=0))
        found.flags.writeable = False
        return found

    def counts_below(self, limits: ArrayLike) -> NDArray[np.int64]:
        """Return how many of the ascending positions are below each limit."""
        found = np.searchsorted(self._held, limits)
        if self._ends is None:
            return found.astype(np.int64)
        return np.concatenate(([0], self._ends))[found]


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
    "`private_keys` and a delta, its values are found in the data; names of a public table are "
    "joined to the result by its key"
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
