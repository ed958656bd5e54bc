"""A step for tests: it makes the tables of a rollup add up from the top, in whole numbers.

The last part of each whole takes the remainder. Of the finest table only cells that are
not 0 are published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.errors import DpReleaseError, QueryError
from dprelease.numerics.lattice import Integers
from dprelease.postprocess.families import (
    Batch,
    FamilyStep,
    FamilyTable,
    Flag,
    Lattice,
    NoisedTable,
    Output,
    Placer,
    Real,
)
from dprelease.schema.release import QuerySpec
from dprelease.system.prefetch import Spread, in_threads

QUERY = "adding"
LARGEST = 2**40
"""Beyond it values are cut, so that no sum wraps."""


class AddingUp:
    """Do what `consistent` does for a tree, in a few lines."""

    name = "adding_up"

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        for table in tables:
            if len(table.vectors) > 1:
                problem = "it adds up one column"
                yield QueryError(
                    "DP-QUERY-013",
                    place=place("columns"),
                    query=QUERY,
                    step=self.name,
                    problem=problem,
                )

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        return tuple(self._output(table) for table in tables)

    def _output(self, table: FamilyTable) -> Output:
        (measured,) = table.vectors
        columns = {measured.name: Lattice(measured.step), "se": Real(), "moved": Flag()}
        words = {measured.name: "made to add up from the top"}
        return Output(f"tables/{table.query.name}", table.query.keys, columns, words)

    def record(self, tables: Sequence[FamilyTable]) -> dict[str, Any]:
        return {"rule": "the last part takes the rest", "levels": len(tables)}

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        above: Integers | None = None
        for held in noised:
            (measured,) = held.table.vectors
            drawn = np.clip(held.vector(measured.name), -LARGEST, LARGEST)
            found = drawn.copy()
            if above is not None:
                parts = found.reshape(len(above), -1)
                parts[:, -1] += above - parts.sum(axis=1)
            above = found
            for batch in self._batches(held, drawn, found, finest=held is noised[-1]):
                yield f"tables/{held.table.query.name}", batch

    def _batches(
        self, held: NoisedTable, drawn: Integers, found: Integers, *, finest: bool
    ) -> Iterator[Batch]:
        (measured,) = held.table.vectors
        kept = np.flatnonzero(found) if finest else np.arange(len(found))
        error = held.table.mechanisms[measured.name].standard_deviation
        for cells in np.split(kept, range(2, len(kept), 2)):  # batches of two cells
            values = {
                measured.name: found[cells],
                "se": np.full(len(cells), error * float(measured.step)),
                "moved": found[cells] != drawn[cells],
            }
            yield Batch(cells, values)

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        (measured,) = noised[0].table.vectors
        sums = {
            name: sum(pa.Table.from_batches(read())[measured.name].to_pylist())
            for name, read in published.items()
        }
        if len(set(sums.values())) > 1:
            yield "totals differ"


def step_for_query(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for queries of one name."""
    return AddingUp() if name == QUERY else None
