"""Interface and list of post-processing steps that use all noisy tables of a family together.

A family is the set of tables of one declared query (its marginals, a rollup, a hierarchy). Most
families publish each table separately, cell by cell. A step processes all tables of a family. The
noisy integers are published unchanged, as measurements; the step computes further tables only from
these, and they are published in addition. So anybody who has the release can run the step again, as
`verify` does.

A step gets a family in two stages: first everything that is known before any row is read (keys and
noise), from which the step returns the list of outputs; then the noisy integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from dprelease.errors import DpReleaseError, Place
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.partition import Parts, parts_of
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement, Role
from dprelease.query.quality import Codes
from dprelease.query.resolve import Query
from dprelease.schema.release import QuerySpec
from dprelease.system.prefetch import Spread, in_threads

if TYPE_CHECKING:
    from dprelease.schema.document_part import Part


MEASURED = "measurements"
"""The folder of noisy integers inside the folder of the release."""

Placer = Callable[..., Place]


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """One table of a family, before any row is read.

    `mechanisms`: the noise of each measurement by name, in lattice steps of the measurement. If the
    mean of the noise is not 0, its nearest whole step is subtracted; the rest remains as its mean.
    """

    query: Query
    mechanisms: Mapping[str, Randomizer]

    @property
    def vectors(self) -> tuple[Measurement, ...]:
        """Return the measurements that are true integers with noise added, in declared order."""
        return tuple(
            measurement
            for measurement in self.query.measurements
            if measurement.is_vector and isinstance(self.mechanisms[measurement.name], Mechanism)
        )

    @property
    def measurements_name(self) -> str:
        """Return the published name of the table's measurements."""
        return f"{MEASURED}/{self.query.name}"


@dataclass(frozen=True, slots=True)
class NoisedTable:
    """One table with its noisy integers, which a step may read repeatedly.

    `pieces`: the integers of one measurement by name, lattice steps within 2^62, in pieces in key
    order. They are read from the published file: only what the step holds is in memory.
    """

    table: FamilyTable
    pieces: Callable[[str], Iterator[Integers]]

    def vector(self, measurement: str) -> Integers:
        """Return the (cells,) noisy integers of one measurement, 8 bytes per cell."""
        vector: Integers = np.concatenate(list(self.pieces(measurement)))
        return vector


@dataclass(frozen=True, slots=True)
class Lattice:
    """Whole multiples of a step, stored as 64-bit integers, published exactly."""

    step: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Real:
    """Floats; NaN and infinities are published as missing."""


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class QualityCodes:
    """Positions in `dprelease.query.quality.CODES`, published as the texts of these codes."""


Kind = Lattice | Real | Flag | QualityCodes
"""How the values of a published column are stored."""

Rows = Literal["cells", "some cells", "people"]
"""The meaning of a row of a published table."""


RARE = 1e-9
"""Probability that noise exceeds the range assumed by size estimates."""


@lru_cache(maxsize=64)
def reach_of(mechanism: Mechanism) -> int:
    """Return the largest absolute noise in steps, which is exceeded with probability 10^-9."""
    return mechanism.half_width(1 - RARE)


@dataclass(frozen=True, slots=True)
class NearCounts:
    """Published integers near the true ones of a measurement, for estimating file sizes.

    With probability 1 - 10^-9 the integers lie within `steps` of 0, or exceed this by no more than
    the number of people counted. In total they count at most `more` people more than there are.
    """

    measurement: Measurement
    steps: int
    more: int


@dataclass(frozen=True, slots=True)
class Output:
    """One table that a step publishes, before any row is read.

    `name`: the file name without extension; it may have a folder, as "tables/persons". `columns`:
    the columns after the keys, by name; `computed`: a text on how each is computed. `note`: a note
    on the rows in the metadata of the file. `roles`: for companion columns, their role and the
    column that they belong to; other columns are values or flags. `rows`: one for each cell, for
    some cells, or for each person. `near`: columns near counts, for estimating their bytes.
    `summed`: the table of the family of which it has sums, if it has not the cells of a table.
    """

    name: str
    keys: KeySpace
    columns: Mapping[str, Kind]
    computed: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    roles: Mapping[str, tuple[Role, str]] = field(default_factory=dict)
    rows: Rows = "cells"
    near: Mapping[str, NearCounts] = field(default_factory=dict)
    summed: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a published table: the ascending indices of their cells, and their values.

    The batches of a table ascend as well. Cells may be omitted or repeated, if this depends only on
    the noisy integers.
    """

    cells: Integers
    values: Mapping[str, Integers | Floats | Flags | Codes]


class FamilyStep(Protocol):
    """A post-processing step: a pure function of the declaration, the noise and the integers.

    It must compute the same bits on all machines, otherwise `verify` finds other values than were
    published. It must be total: for any integers within 2^62 it raises no error.
    """

    @property
    def name(self) -> str:
        """Return the name of the step in the manifest."""
        ...

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        """Yield errors that make the step impossible; `place` returns locations in the query."""
        ...

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        """Return the tables that the step publishes in addition to the measurements."""
        ...

    def record(self, tables: Sequence[FamilyTable]) -> Part | dict[str, Any]:
        """Return the step's entry in the manifest, which follows from the declaration."""
        ...

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        """Yield batches of rows with the name of their output, in any order of outputs.

        `spread`: the map function for parts that can be computed separately from measurements. All
        files are open at once, so that results of one part (an area with everything in it) are
        written together. Batches of one output ascend. Memory holds some rows of each output, and
        the data of the step. The bytes of a file don't depend on the batches.
        """
        ...

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        """Yield problems found by a second, independent check; none for a correct release.

        `published`: for each output by name, the Arrow batches of its file, once for each call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """The tables of one declared query, and its post-processing step, if any.

    `partition`: the level of areas by which tables of lower levels are partitioned.
    """

    name: str
    tables: tuple[FamilyTable, ...]
    step: FamilyStep | None = None
    partition: str | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Return the outputs of the step; none without a step."""
        return () if self.step is None else self.step.outputs(self.tables)

    @property
    def published_names(self) -> list[str]:
        """Return the names of all published tables, in the order of the manifest."""
        if self.step is None:
            return [table.query.name for table in self.tables]
        return [
            *(table.measurements_name for table in self.tables),
            *(output.name for output in self.outputs),
        ]

    @property
    def parts(self) -> Mapping[str, Parts]:
        """Return the parts of partitioned tables, by name."""
        if self.step is None or self.partition is None:
            return {}
        keys = {table.measurements_name: table.query.keys for table in self.tables}
        keys |= {output.name: output.keys for output in self.outputs}
        found: dict[int, Key] = {
            key.level: key for space in keys.values() for key in space.keys if key.level
        }
        levels = [found[level] for level in sorted(found)]
        parts = {name: parts_of(space, self.partition, levels) for name, space in keys.items()}
        return {name: one for name, one in parts.items() if one is not None}


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
