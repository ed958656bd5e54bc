"""What is computed from all noised tables of a family together, before anything of it is read.

A family is the tables that one declared query stands for (its marginals, a rollup, a hierarchy). Of
most, each table is published for itself, cell by cell. A step takes all of them: their noised
integers are published as they were drawn, as measurements, and what the step computes from these,
and from nothing else, is published beside them. So whoever has the release can run the step again,
and `verify` does.

A step is told of a family twice: first what is known before any row is read (keys, laws of the
noise), from which it says what it will publish; then the noised integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from dprelease.errors import DpReleaseError, Place
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Flags, Floats, Integers
from dprelease.postprocess.partition import Parts, parts_of
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.query.roles import Role
from dprelease.system.prefetch import Spread, in_threads

MEASURED = "measurements"
"""The folder of noised integers, inside that of the release."""

Placer = Callable[..., Place]


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """One table of a family, as it is known before any row is read.

    `laws`: the noise of each measurement, by name. A measurement's lattice step is its own; the
    law's mean, if it is not 0, is what is left after its nearest step was taken off.
    """

    query: Query
    laws: Mapping[str, Randomizer]

    @property
    def vectors(self) -> tuple[Measurement, ...]:
        """Return the measurements that are true integers with noise added, in declared order."""
        return tuple(
            measurement
            for measurement in self.query.measurements
            if measurement.is_vector and isinstance(self.laws[measurement.name], Mechanism)
        )

    @property
    def measurements_name(self) -> str:
        """Return the name of its measurements among what is published."""
        return f"{MEASURED}/{self.query.name}"


@dataclass(frozen=True, slots=True)
class NoisedTable:
    """One table with its noised integers, which can be read as often as a step needs.

    `pieces`: those of one measurement by name, lattice steps within 2^62, piece after piece in key
    order. They come from the file that was published: in memory is what a step holds of them.
    """

    table: FamilyTable
    pieces: Callable[[str], Iterator[Integers]]

    def vector(self, measurement: str) -> Integers:
        """Return the (cells,) noised integers of one measurement: 8 bytes a cell."""
        vector: Integers = np.concatenate(list(self.pieces(measurement)))
        return vector


@dataclass(frozen=True, slots=True)
class Lattice:
    """Whole multiples of a step, given as 64-bit integers, published exactly."""

    step: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Real:
    """Floats; NaN and infinities are published as missing."""


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


Rows = Literal["cells", "some cells", "people"]
"""What a published table has rows for."""


RARE = 1e-9
"""How often noise is farther from 0 than is counted with where bytes are foretold."""


@lru_cache(maxsize=64)
def reach_of(law: Mechanism) -> int:
    """Return within how many lattice steps of 0 noise lies, but for one in 10^9."""
    return law.half_width(1 - RARE)


@dataclass(frozen=True, slots=True)
class NearCounts:
    """Published integers near to the true ones of a measurement.

    But for one in 10^9 they lie within `steps` of 0, or beyond by no more than what they and the
    true ones count of people: these `more` in all, at most, than there are.
    """

    measurement: Measurement
    steps: int
    more: int


@dataclass(frozen=True, slots=True)
class Output:
    """One table that a step publishes, as it is known before any row is read.

    `name`: that of its file, without an extension; it may have a folder, as "tables/persons".
    `columns`: what stands beside the keys, by name, and how each is `computed`, in words. `note`:
    what the file itself says of its rows, as metadata. `roles`: of columns that stand beside
    another one, what they are and which one that is; the others are values, or flags. `rows`: one
    for each cell, for some of them, or for each person. `near`: columns that lie near to counts, by
    which it is foretold how many bytes they have.
    """

    name: str
    keys: KeySpace
    columns: Mapping[str, Lattice | Real | Flag]
    computed: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    roles: Mapping[str, tuple[Role, str]] = field(default_factory=dict)
    rows: Rows = "cells"
    near: Mapping[str, NearCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a published table: numbers of cells among its keys, rising, and their values.

    The batches of a table rise as well. Cells may be left out, or stand there several times, for a
    reason that the noised integers give.
    """

    cells: Integers
    values: Mapping[str, Integers | Floats | Flags]


class FamilyStep(Protocol):
    """What is computed from a family: a pure function of the declaration, the laws, the integers.

    It computes the same bits everywhere, or `verify` finds other values than were published, and
    is total: whatever integers within 2^62 it is given, it raises nothing.
    """

    @property
    def name(self) -> str:
        """Return what the manifest calls it."""
        ...

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        """Yield why it can't be had of these tables; `place` gives places inside the query."""
        ...

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        """Return what it publishes beside the measurements."""
        ...

    def record(self, tables: Sequence[FamilyTable]) -> dict[str, Any]:
        """Return what the manifest says of it, JSON values that follow from the declaration."""
        ...

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        """Yield rows of the outputs, each batch with its output's name, in any order of these.

        `spread`: who does what can be done part by part, from measurements alone. All files are
        open at once, so that what is computed part by part (an area with all that lies in
        it) is written so. Batches of one output ascend. In memory are some rows of each
        output, and what the step holds itself. No byte of a file depends on the batches.
        """
        ...

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        """Yield what a second check, by another way, finds wrong; nothing for a sound release.

        `published`: for each output by name, the Arrow batches of its file, once for each call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Family:
    """The tables of one declared query, and the step that publishes them, if there is one.

    `partition`: the level of areas by which tables of those below are published in parts.
    """

    name: str
    tables: tuple[FamilyTable, ...]
    step: FamilyStep | None = None
    partition: str | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Return what the step publishes beside the measurements; nothing without one."""
        return () if self.step is None else self.step.outputs(self.tables)

    @property
    def published_names(self) -> list[str]:
        """Return the names of all that is published, in the order of the manifest."""
        if self.step is None:
            return [table.query.name for table in self.tables]
        return [
            *(table.measurements_name for table in self.tables),
            *(output.name for output in self.outputs),
        ]

    @property
    def parts(self) -> Mapping[str, Parts]:
        """Return the parts of what is published in parts, by name."""
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
