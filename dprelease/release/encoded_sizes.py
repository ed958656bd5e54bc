"""How many bytes a column of a Parquet file has at most: values, indices, dictionaries.

Of each value a file has at most the value itself and what a dictionary that was begun and given up
leaves beside it; compression never adds more than a page's header. Much less is certain where

- values come in runs, as keys of cells in their order do: a run costs two begun groups of eight
  indices, and itself, however long it is;
- integers are near to counts of people. With noise within w steps of 0 and counts that sum to t in
  a row group, the integers there lie between -w and w or farther out than w by no more than their
  count: k different such ones need k^2 / 4 people on both sides together. So a group has at most
  2 w + 1 + 2 sqrt(t) different integers, and an index of the logarithm of that many bits. Square
  roots and logarithms are concave, so that groups of like shares are the worst (Jensen's
  inequality). A noise beyond w, one in 10^9, adds one entry to a dictionary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dprelease.tables.formats import ROW_GROUP

WIDTHS = {"bool": 1, "date32[day]": 4, "double": 8, "int64": 8, "int32": 4}
"""Bytes of a value; decimals have 16."""

BESIDE = 2.25
"""Bytes of a value's place in a dictionary, which holds no more than 2^18 of them."""

FLAG = 0.25
"""Bytes of true or false, and whether it is there: a bit of each."""

BEGUN = 1.25
"""Bits of an index beside its own, of runs and groups of eight that come in turn."""

RARE = 10**9
"""Of so many noises one is larger than is counted with."""

DICTIONARY = 1 << 20
"""Bytes from which on a dictionary is given up, and values are written one after the other."""

PAGE, GROUP = 64, 1 << 17
"""Bytes of a page's header with room to spare, and the least rows of a group but the last."""


@dataclass(frozen=True, slots=True)
class Near:
    """Integers near to counts: within `steps`, but for what people add, `people` in all."""

    steps: int
    people: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table at most, and the files that these are in."""

    number: int
    files: int = 1

    @property
    def groups(self) -> int:
        """Return the row groups at most: the first and the last one of a file may be short."""
        return self.number // GROUP + 2 * self.files


def value_bytes(kind: str, rows: Rows, near: Near | None = None) -> int:
    """Return the bytes of a column of values, of an Arrow type."""
    width, pages = WIDTHS.get(kind, 16), rows.groups * PAGE
    if kind == "bool":
        return math.ceil(rows.number * FLAG) + pages
    plain = math.ceil(rows.number * (width + BESIDE)) + pages
    if near is None or not rows.number:
        return plain
    largest = DICTIONARY // width
    spread = 2 * near.steps + 2
    if 2 * spread > largest:
        return plain
    in_group = min(1.0, ROW_GROUP / rows.number) * near.people
    bits = math.log2(spread + 2 * math.sqrt(in_group)) + 1 + BEGUN
    entries = spread + 2 * math.sqrt(near.people / rows.groups)
    given_up = min(rows.groups, 16 * near.people // largest**2)  # groups of so many people
    together = (
        rows.number * bits / 8
        + rows.groups * entries * width
        + rows.number // RARE * width
        + min(given_up * ROW_GROUP, rows.number) * width
    )
    return min(plain, math.ceil(together) + pages)


def key_bytes(each: int, several: int, changes: int, rows: Rows) -> int:
    """Return the bytes of a key column in rows of rising cells.

    Parameters
    ----------
    each
        Bytes of a value at most.
    several
        Different values in a row group at most.
    changes
        Runs of one value in the order of the cells, in the whole table.
    rows
        Of the table.
    """
    bits = max(1, (several - 1).bit_length())
    runs = min(rows.number, changes) + rows.groups
    indices = min(rows.number * (bits + BEGUN) / 8, runs * (2 * bits + 16))
    pages = rows.groups * PAGE
    listed = min(rows.groups * several, runs) * each  # each run begins one entry at most
    if several * each <= DICTIONARY:
        return math.ceil(indices) + listed + pages
    # A group gives its dictionary up after so many values, and there are only so many runs of them.
    given_up = min(rows.groups, runs * each // DICTIONARY + 1)
    plain = min(rows.number, given_up * ROW_GROUP)
    return math.ceil(indices) + listed + math.ceil(plain * (each + BESIDE)) + pages
