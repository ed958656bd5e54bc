"""Names of the columns with true values, which differ from all published columns and keys.

A rehearsal writes these columns and a report reads them. Both derive the names from the published
columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TRUE, UNBOUNDED, OFF, ROWS, TOLD = "true_", "unbounded_", "off_", "true_rows", "is_published"
"""Names or prefixes of columns with true values: the exact value within the contribution limits
and without them, the number of rows by which a selected value is off, the number of rows of the
cell, and whether the cell is published."""


@dataclass(frozen=True, slots=True)
class TruthColumns:
    """Unique names of the columns with true values, by published column if each has its own."""

    true: Mapping[str, str]
    unbounded: Mapping[str, str]
    off: Mapping[str, str]
    rows: str
    told: str


def truth_columns(keys: Iterable[str], published: Iterable[str]) -> TruthColumns:
    """Return the names of the columns with true values for a table's keys and published columns.

    The order of the columns does not matter. A name that is already used, in upper or lower case,
    gets an underscore.
    """
    columns = sorted(published)
    # Readers of Parquet, such as DuckDB, find columns without regard to case.
    taken = {name.casefold() for name in (*keys, *columns)}

    def unused_name(name: str) -> str:
        """Return an unused name, and mark it as used."""
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        return name

    true, unbounded, off = (
        {name: unused_name(prefix + name) for name in columns} for prefix in (TRUE, UNBOUNDED, OFF)
    )
    return TruthColumns(true, unbounded, off, unused_name(ROWS), unused_name(TOLD))
