"""Private keys, which are found in the data and published only if enough people have them."""

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
"""The name of the single key that stands for all private keys; no column can have this name."""

UNKNOWN = 2**62
"""A number of cells that stands for an unknown number."""


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """The columns of private keys, by name and kind.

    A partition, one combination of key values, is a text: the length of each value, a colon, and
    the value.
    """

    columns: tuple[tuple[str, KeyKind], ...]

    def values(self, partition: str) -> tuple[str, ...]:
        """Return the key values of one partition, as texts."""
        texts, rest = [], partition
        for _ in self.columns:
            size, _, rest = rest.partition(":")
            texts.append(rest[: int(size)])
            rest = rest[int(size) :]
        return tuple(texts)

    def key_space_of(self, partitions: Iterable[str]) -> KeySpace:
        """Return a key space with one cell for each partition, in the order of the key values."""
        ordered = sorted(
            partitions, key=lambda text: tuple(map(_sort_key, *self._kinds_and_texts(text)))
        )
        return KeySpace((Key(COMPOSITE, "text", tuple(ordered)),))

    def _kinds_and_texts(self, partition: str) -> tuple[tuple[KeyKind, ...], tuple[str, ...]]:
        """Return the type and the text of each key of a partition."""
        return tuple(kind for _, kind in self.columns), self.values(partition)

    def keys(self, space: KeySpace) -> list[Key]:
        """Return the key columns, each with one value for each cell."""
        (composite,) = space.keys
        rows = [self.values(str(text)) for text in composite.values]
        return [
            Key(name, kind, _parse_keys(kind, [row[i] for row in rows]))
            for i, (name, kind) in enumerate(self.columns)
        ]


def _sort_key(kind: KeyKind, text: str) -> tuple[int, str]:
    """Return what a key is sorted by: integers by number, all else by text."""
    return (int(text), "") if kind == "integer" else (0, text)


def _parse_keys(
    kind: KeyKind, texts: Sequence[str]
) -> Sequence[str] | Sequence[int] | Sequence[date]:
    """Return the typed values of these texts."""
    match kind:
        case "integer":
            return [int(text) for text in texts]
        case "boolean":
            return [text == "true" for text in texts]
        case "date":
            return [date.fromisoformat(text) for text in texts]
    return list(texts)


def private_kind(column: Column) -> KeyKind | None:
    """Return the kind of key that a column can be; None if its values hardly ever repeat."""
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
