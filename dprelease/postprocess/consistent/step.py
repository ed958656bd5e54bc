"""Tables that agree, as a step over a family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dprelease.errors import DpReleaseError
from dprelease.postprocess.consistent.family_columns import agreed_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.findings import all_findings
from dprelease.postprocess.consistent.outputs import all_outputs
from dprelease.postprocess.consistent.record import family_record
from dprelease.postprocess.consistent.second_check import second_check
from dprelease.postprocess.consistent.values import family_values, is_dense
from dprelease.postprocess.families import (
    Batch,
    FamilyStep,
    FamilyTable,
    NoisedTable,
    Output,
    Placer,
)
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.consistent import ConsistentSpec
from dprelease.system.ahead import Spread, in_threads


@dataclass(frozen=True)
class Consistent:
    """Estimates and whole tables of one query; see `FamilyStep`."""

    query: str
    spec: ConsistentSpec

    @property
    def name(self) -> str:
        """Return the word of the release file."""
        return "consistent"

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        """See `FamilyStep.findings`."""
        shape = Shape.of(tables)
        yield from all_findings(shape, agreed_columns(shape), self.spec, place)

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        """See `FamilyStep.outputs`."""
        shape = Shape.of(tables)
        return tuple(all_outputs(self.query, shape, agreed_columns(shape), self.spec, is_dense))

    def record(self, tables: Sequence[FamilyTable]) -> dict[str, Any]:
        """See `FamilyStep.record`."""
        shape = Shape.of(tables)
        return family_record(self.query, shape, agreed_columns(shape), self.spec)

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        """See `FamilyStep.values`."""
        shape = Shape.of([held.table for held in noised])
        yield from family_values(self.query, agreed_columns(shape), self.spec, noised, spread)

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        """See `FamilyStep.problems`."""
        shape = Shape.of([held.table for held in noised])
        yield from second_check(self.query, agreed_columns(shape), self.spec, noised, published)


def make_step(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for a query whose tables have to agree."""
    return None if spec.consistent is None else Consistent(name, spec.consistent)
