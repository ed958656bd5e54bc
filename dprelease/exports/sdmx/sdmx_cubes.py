"""What of a release is a cube: its dimensions, its measure and the attributes of its cells.

One observation is a number in a cell: the columns of a table that hold numbers are the codes of a
dimension `MEASURE`, and `OBS_VALUE` is the number. So that each has a status of its own, and what
reads SDMX 2.1 reads it too. A column of chosen labels, such as a mode, is a cube by itself, whose
`OBS_VALUE` is a code. Invented persons are no cube.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.exports.sdmx.identifiers import cube_id
from dprelease.postprocess.consistent.outputs import RECORDS

NUMBERS = ("int64", "double", "decimal128")
UNRELIABLE = "_unreliable"
"""How the name of the flag of `flag_above` ends: it is a status, and no attribute of its own."""

BESIDE = {
    "MARGIN_OF_ERROR": Role.MARGIN,
    "STANDARD_ERROR": Role.STANDARD_ERROR,
    "LOWER_BOUND": Role.LOWER,
    "UPPER_BOUND": Role.UPPER,
    "VALUE_LABEL": Role.LABEL,
}
"""The attributes that hold what stands beside a value, by its role."""


@dataclass(frozen=True)
class Cube:
    """A table's numbers, or one of its columns of labels.

    `time`: the period that all of it is about, in the standard's writing; None if none is declared.
    """

    table: TableMetadata
    values: tuple[ColumnMetadata, ...]
    labels: bool
    time: str | None

    @property
    def id(self) -> str:
        """Return the identifier of its dataflow and of its structure."""
        return cube_id(self.table.name, self.values[0].name if self.labels else "")

    @cached_property
    def beside(self) -> dict[str, dict[str, ColumnMetadata]]:
        """Return the columns of each attribute by the value they stand beside; none is empty."""
        found: dict[str, dict[str, ColumnMetadata]] = {}
        for attribute, role in BESIDE.items():
            for value in self.values:
                column = self.table.companion_of(value.name, role)
                if column is not None:
                    found.setdefault(attribute, {})[value.name] = column
        for flag in self._flags(unreliable=False):
            attribute = flag.name.removeprefix(f"{flag.of}_").upper()
            found.setdefault(attribute, {})[flag.of] = flag
        return found

    @cached_property
    def unreliable(self) -> dict[str, ColumnMetadata]:
        """Return the flags of unreliable cells by the value they stand beside."""
        return {flag.of: flag for flag in self._flags(unreliable=True)}

    def _flags(self, *, unreliable: bool) -> Iterator[ColumnMetadata]:
        names = {value.name for value in self.values}
        for flag in self.table.of_role(Role.FLAG):
            if flag.of in names and (flag.name == flag.of + UNRELIABLE) == unreliable:
                yield flag

    @property
    def confidence(self) -> dict[str, str]:
        """Return the confidence of what stands beside a value, where any is told."""
        columns = [column for held in self.beside.values() for column in held.values()]
        return {column.of: column.confidence for column in columns if column.confidence}

    @property
    def units(self) -> bool:
        """Return whether any of its values has a unit."""
        return any(value.unit for value in self.values)

    @property
    def decimals(self) -> bool:
        """Return whether of any of its values it is declared how many decimals are shown."""
        return any(value.decimals is not None for value in self.values)


def cubes(metadata: Metadata, time: str | None) -> Iterator[Cube]:
    """Yield the cubes of all tables that are published to be read, in order."""
    for table in metadata.read:
        if table.name.startswith(f"{RECORDS}/"):
            continue  # invented persons: nothing names a row
        numbers = tuple(value for value in table.values if not is_label(value))
        if numbers:
            yield Cube(table, numbers, labels=False, time=time)
        for value in table.values:
            if is_label(value):
                yield Cube(table, (value,), labels=True, time=time)


def is_label(value: ColumnMetadata) -> bool:
    """Return whether a column's values are chosen labels, whatever they are written with."""
    return value.codes is not None or not value.kind.startswith(NUMBERS)
