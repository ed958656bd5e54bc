"""Private keys: found in the data, and released only if enough people have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from dprelease.query.grouping.group_keys import Key, KeyKind, KeySpace
from dprelease.schema.columns import (
    BooleanColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    TimestampColumn,
)

COMPOSITE = ""
"""Name of the single key that stands for all of them; no declared column has it."""

UNKNOWN = 2**62
"""Stands for an unknown number of cells."""


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """The key columns. A partition is one text: each value's length, a colon, the value."""

    columns: tuple[tuple[str, KeyKind], ...]

    def values(self, partition: str) -> tuple[str, ...]:
        """Return the texts of one partition's key values."""
        texts, rest = [], partition
        for _ in self.columns:
            size, _, rest = rest.partition(":")
            texts.append(rest[: int(size)])
            rest = rest[int(size) :]
        return tuple(texts)

    def among(self, partitions: Iterable[str]) -> KeySpace:
        """Return the cells of these partitions, in the order of their values."""
        ordered = sorted(partitions, key=lambda text: tuple(map(_rank, *self._parts(text))))
        return KeySpace((Key(COMPOSITE, "text", tuple(ordered)),))

    def _parts(self, partition: str) -> tuple[tuple[KeyKind, ...], tuple[str, ...]]:
        return tuple(kind for _, kind in self.columns), self.values(partition)

    def keys(self, space: KeySpace) -> list[Key]:
        """Return the values of each key column, one for each cell."""
        (composite,) = space.keys
        rows = [self.values(str(text)) for text in composite.values]
        return [
            Key(name, kind, _parse_keys(kind, [row[i] for row in rows]))
            for i, (name, kind) in enumerate(self.columns)
        ]


def _rank(kind: KeyKind, text: str) -> tuple[int, str]:
    return (int(text), "") if kind == "integer" else (0, text)


def _parse_keys(
    kind: KeyKind, texts: Sequence[str]
) -> Sequence[str] | Sequence[int] | Sequence[date]:
    match kind:
        case "integer":
            return [int(text) for text in texts]
        case "boolean":
            return [text == "true" for text in texts]
        case "date":
            return [date.fromisoformat(text) for text in texts]
    return list(texts)


def private_kind(column: Column) -> KeyKind | None:
    """Return the kind of key of a column; None if its values hardly ever repeat."""
    match column:
        case NumberColumn() | TimestampColumn():
            return None
        case IntegerColumn():
            return "integer"
        case BooleanColumn():
            return "boolean"
        case DateColumn():
            return "date"
    return "text"
