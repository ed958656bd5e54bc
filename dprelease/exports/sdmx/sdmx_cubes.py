"""Find the cubes of a release: their dimensions, measure and attributes.

One observation is a number in a cell: the names of a table's numeric columns are the codes of a
dimension `MEASURE`, and `OBS_VALUE` is the number. So each number has its own status, and readers
of SDMX 2.1 can read it. A column of labels, such as a mode, is a separate cube whose `OBS_VALUE` is
a code. Synthetic persons have no cube.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dprelease.documents.metadata import ColumnMetadata, Metadata, Role, TableMetadata
from dprelease.exports.sdmx.identifiers import cube_id
from dprelease.postprocess.consistent.outputs import RECORDS
from dprelease.query import quality

# Set the status and the confidentiality of an observation.
#
# Codes and meanings come from the cross-domain lists CL_OBS_STATUS 2.2 and CL_CONF_STATUS 1.3 of
# SDMX; only the codes that a release needs are defined.

NORMAL, UNRELIABLE, SUPPRESSED, MISSING = "A", "U", "Q", "O"
FREE, WITHHELD = "F", "N"

OBS_STATUS: Final = {
    NORMAL: ("Normal value", "The noised value, as the release declares it."),
    UNRELIABLE: (
        "Low reliability",
        "The quality is D or at_bound: the value should not be quoted.",
    ),
    SUPPRESSED: (
        "Missing value; suppressed",
        "Left empty by a rule that the release declares, or not defined; the true value decides "
        "nothing.",
    ),
    MISSING: (
        "Missing value",
        "Not defined, such as a mean whose noised count is not clearly above 0.",
    ),
}
"""Name and meaning of each observation status."""

CONF_STATUS: Final = {
    FREE: ("Free (free for publication)", "Published."),
    WITHHELD: (
        "Not for publication, restricted for internal use only",
        "Withheld by the rule that the release declares; no other table may tell it.",
    ),
}
"""Name and meaning of each confidentiality status."""


BY_QUALITY: Final = {
    **dict.fromkeys(quality.RELIABLE, (NORMAL, FREE)),
    **dict.fromkeys(quality.TO_AVOID, (UNRELIABLE, FREE)),
    quality.UNSURE_DIVISOR: (MISSING, FREE),
    quality.SUPPRESSED: (SUPPRESSED, FREE),
    quality.FEW_PEOPLE: (SUPPRESSED, WITHHELD),
    quality.UNDEFINED: (MISSING, FREE),
}
"""Observation status and confidentiality status of every quality code."""


def status_of(value: str | None, code: str | None, may_be_empty: bool) -> tuple[str, str]:
    """Return the observation status and the confidentiality status of an observation.

    `value`: the value as it is written; None if the cell is empty. `code`: its quality; None if the
    release publishes none. `may_be_empty`: whether the release declares that small values of the
    column are suppressed.
    """
    if code is not None:
        return BY_QUALITY[code]
    if value is None:
        return (SUPPRESSED, WITHHELD) if may_be_empty else (MISSING, FREE)
    return NORMAL, FREE


QUALITY = "QUALITY"
"""The attribute with the quality code, which also decides the status of an observation."""

ATTRIBUTES_BY_ROLE = {
    "MARGIN_OF_ERROR": Role.MARGIN,
    "STANDARD_ERROR": Role.STANDARD_ERROR,
    "LOWER_BOUND": Role.LOWER,
    "UPPER_BOUND": Role.UPPER,
    "VALUE_LABEL": Role.LABEL,
    QUALITY: Role.QUALITY,
}
"""The attributes of a value, by the role of the column that holds them."""


@dataclass(frozen=True)
class Cube:
    """A cube: the numeric columns of a table, or one of its columns of labels.

    `time`: the reference period of the whole cube in the standard's notation; None if it is not
    declared.
    """

    table: TableMetadata
    values: tuple[ColumnMetadata, ...]
    labels: bool
    time: str | None

    @property
    def id(self) -> str:
        """Return the identifier of the cube's dataflow and structure."""
        return cube_id(self.table.name, self.values[0].name if self.labels else "")

    @cached_property
    def attribute_columns(self) -> dict[str, dict[str, ColumnMetadata]]:
        """Return, for each attribute, its columns by the name of the value that they describe.

        Attributes without a column are left out.
        """
        found: dict[str, dict[str, ColumnMetadata]] = {}
        for attribute, role in ATTRIBUTES_BY_ROLE.items():
            for value in self.values:
                column = self.table.companion_of(value.name, role)
                if column is not None:
                    found.setdefault(attribute, {})[value.name] = column
        names = {value.name for value in self.values}
        for flag in self.table.of_role(Role.FLAG):
            if flag.of in names:
                attribute = flag.name.removeprefix(f"{flag.of}_").upper()
                found.setdefault(attribute, {})[flag.of] = flag
        return found

    @property
    def quality_columns(self) -> dict[str, ColumnMetadata]:
        """Return the columns of quality by the value that they describe."""
        return self.attribute_columns.get(QUALITY, {})

    @property
    def confidence(self) -> dict[str, str]:
        """Return the confidence level of the attributes, if any."""
        columns = [column for held in self.attribute_columns.values() for column in held.values()]
        return {column.of: column.confidence for column in columns if column.confidence}

    @property
    def has_units(self) -> bool:
        """Return whether any value of the cube has a unit."""
        return any(value.unit for value in self.values)

    @property
    def has_declared_decimals(self) -> bool:
        """Return whether the displayed decimals of any value are declared."""
        return any(value.decimals is not None for value in self.values)


def cubes_of(metadata: Metadata, time: str | None) -> Iterator[Cube]:
    """Yield the cubes of all published tables for readers, in order."""
    for table in metadata.tables_for_readers:
        if table.name.startswith(f"{RECORDS}/"):
            continue  # no key identifies a row of synthetic persons
        numbers = tuple(value for value in table.values if not is_label(value))
        if numbers:
            yield Cube(table, numbers, labels=False, time=time)
        for value in table.values:
            if is_label(value):
                yield Cube(table, (value,), labels=True, time=time)


def is_label(value: ColumnMetadata) -> bool:
    """Return whether the values of a column are labels, whatever their type."""
    return value.codes is not None or not value.is_number
