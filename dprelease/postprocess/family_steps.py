"""The list of post-processing steps for families, and the families of the columns of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from dprelease.mechanisms.randomizer import Randomizer
from dprelease.postprocess.families import Family, FamilyStep, FamilyTable
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.release import QuerySpec

StepFactory = Callable[[str, QuerySpec], FamilyStep | None]


def consistent(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for consistent tables, whose module is loaded at first use."""
    if spec.consistent is None:
        return None
    from dprelease.postprocess.consistent.step import make_step

    return make_step(name, spec)


def summaries(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for summaries, whose module is loaded at first use."""
    if not spec.summaries:
        return None
    from dprelease.postprocess.summaries.step import make_step

    return make_step(name, spec)


FAMILY_STEPS: list[StepFactory] = [consistent, summaries]
"""For each kind of step, a function from name and declaration of a query to the step or None."""


def step_of(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step that a query declares, the first of the list; None for most queries."""
    return next(
        (
            step
            for make_step_if_declared in FAMILY_STEPS
            if (step := make_step_if_declared(name, spec)) is not None
        ),
        None,
    )


class NoisyColumn(Protocol):
    """A measurement of a query with its noise, as a plan has it."""

    @property
    def query(self) -> Query:
        """Return the query of the measurement."""
        ...

    @property
    def measurement(self) -> Measurement:
        """Return the measurement."""
        ...

    @property
    def mechanism(self) -> Randomizer:
        """Return the mechanism of the noise."""
        ...


def families_of(columns: Iterable[NoisyColumn]) -> tuple[Family, ...]:
    """Return the families of all columns of a release, in declared order."""
    by_family: dict[str, dict[str, FamilyTable]] = {}
    for column in columns:
        query = column.query
        tables = by_family.setdefault(query.family or query.name, {})
        known = tables[query.name].mechanisms if query.name in tables else {}
        tables[query.name] = FamilyTable(
            query, {**known, column.measurement.name: column.mechanism}
        )
    return tuple(_family(name, tuple(tables.values())) for name, tables in by_family.items())


def _family(name: str, tables: tuple[FamilyTable, ...]) -> Family:
    """Return a family of tables with its declared post-processing step."""
    declared = tables[0].query.declared_family
    if declared is None:  # records, and answers in memory
        return Family(name, tables)
    consistent_spec = declared.consistent
    partition = None if consistent_spec is None else consistent_spec.publish.partition
    return Family(name, tables, step_of(name, declared), partition)
