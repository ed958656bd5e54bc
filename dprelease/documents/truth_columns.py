"""What columns of a truth are called: no name of ours is that of a published column or a key.

A rehearsal writes them and a report reads them, each from the published columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

TRUE, UNBOUNDED, OFF, ROWS, TOLD = "true_", "unbounded_", "off_", "true_rows", "is_published"
"""What a truth has beside the published columns: the exact value within the contribution bounds and
without them, by how many rows a choice is off, the rows of the cell, and whether it is told."""


@dataclass(frozen=True, slots=True)
class TruthColumns:
    """Names of a truth's columns, no two the same; by published column where each has its own."""

    true: Mapping[str, str]
    unbounded: Mapping[str, str]
    off: Mapping[str, str]
    rows: str
    told: str


def truth_columns(keys: Iterable[str], published: Iterable[str]) -> TruthColumns:
    """Return the names beside a table's keys and other published columns, in whatever order.

    A name that is taken, in upper or lower case, gets an underscore.
    """
    columns = sorted(published)
    taken = {name.casefold() for name in (*keys, *columns)}

    def free(name: str) -> str:
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        return name

    true, unbounded, off = (
        {name: free(prefix + name) for name in columns} for prefix in (TRUE, UNBOUNDED, OFF)
    )
    return TruthColumns(true, unbounded, off, free(ROWS), free(TOLD))
