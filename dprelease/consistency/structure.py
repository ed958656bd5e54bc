"""The declared structure: attributes, a public tree, and the tables measured at each level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction

from dprelease.consistency.algebra import Table, residual_spaces
from dprelease.consistency.fixed_point import Whole, value_bits
from dprelease.consistency.tree import Ranges, Tree


@dataclass(frozen=True)
class NoiseMoments:
    """The mean and variance of the noise in the cells of a measured table, in steps.

    - `variance`: the exact variance, or an upper bound; margins hold for every smaller variance
      too. 0 means that true values are published (an invariant).
    - `mean`: the mean of the noise, which is subtracted from measurements.
    """

    variance: Fraction
    mean: Fraction = Fraction(0)


@dataclass(frozen=True)
class MeasuredGrouping:
    """Measured tables of a grouping, which divides the leaves in another way than the tree.

    - `groups`: the group of each leaf.
    - `size`: the number of groups.
    - `noise_moments`: the measured tables, if any, each with the moments of its noise.
    """

    groups: Whole
    size: int
    noise_moments: Mapping[Table, NoiseMoments]


class Structure:
    """Everything that is known of a family of tables before data is read.

    - `sizes`: the number of values of each attribute.
    - `tree`: the areas.
    - `noise_moments`: for each level of the tree, the measured tables (attributes in ascending
      order), each with the moments of its noise.
    - `largest`: a public, conservative bound of every count or sum, noise included; the unit of
      values follows from it.
    - `groupings`: groupings of the leaves whose tables are measured as well. A grouping counts as a
      further level after those of the tree, with its groups as areas.

    Raises ValueError if there is not one set of measured tables for each level, a table is not an
    ascending set of attributes, or a variance is negative. `Variances` raises ValueError if a
    grouping measures a residual space that the last level does not measure.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        tree: Tree,
        noise_moments: Sequence[Mapping[Table, NoiseMoments]],
        largest: int = 1 << 29,
        groupings: Sequence[MeasuredGrouping] = (),
    ) -> None:
        self.sizes = tuple(sizes)
        self.tree = tree
        self.largest = largest
        self.noise_moments = [dict(level) for level in noise_moments]
        self.groupings = tuple(groupings)
        if len(self.noise_moments) != tree.levels:
            raise ValueError("every level of the tree has its own set of measured tables")
        for table, moments in self._tables_and_mechanisms():
            if (
                list(table) != sorted(set(table) & set(range(len(self.sizes))))
                or moments.variance < 0
            ):
                raise ValueError("a table is a rising set of attributes, its variance at least 0")
        self.spaces = residual_spaces(
            self.sizes, (table for table, _law in self._tables_and_mechanisms())
        )
        self.bits = value_bits(self.sizes, largest)
        if self.bits < 0:
            raise ValueError("the declared largest number leaves no room for 64-bit arithmetic")

    def limit(self, space: Table) -> int:
        """Return an upper bound of the contrasts of a residual space, in units of values."""
        return self.largest << (self.bits + len(space))

    def part(self, level: int, ranges: Ranges) -> Structure:
        """Return the structure of some areas and all areas below them (`Tree.part`)."""
        found = copy(self)
        found.tree = self.tree.part(level, ranges)
        found.noise_moments = self.noise_moments[level:]
        return found

    def moments_at(self, level: int) -> Mapping[Table, NoiseMoments]:
        """Return the measured tables of a level of the tree, or of a grouping; perhaps none."""
        tables = [*self.noise_moments, *(one.noise_moments for one in self.groupings)]
        return tables[level] if level < len(tables) else {}

    def _tables_and_mechanisms(self) -> Iterator[tuple[Table, NoiseMoments]]:
        for level in (*self.noise_moments, *(one.noise_moments for one in self.groupings)):
            yield from level.items()
