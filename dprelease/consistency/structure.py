"""The declaration: attributes, a public tree, and the tables measured at each level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction

from dprelease.consistency.algebra import Table, residual_spaces
from dprelease.consistency.fixed_point import value_bits
from dprelease.consistency.tree import Ranges, Tree


@dataclass(frozen=True)
class Law:
    """The first two moments of the noise of a measured table's cells, on their lattice.

    Parameters
    ----------
    variance
        Exact, or a bound from above: the margins hold for every smaller one. 0 means that true
        values are published (an invariant).
    mean
        Of the noise; it is subtracted.
    """

    variance: Fraction
    mean: Fraction = Fraction(0)


class Structure:
    """A family of tables: everything known before data is read.

    Parameters
    ----------
    sizes
        The number of values of each attribute.
    tree
        The areas.
    distributions
        For each level of the tree, the measured tables (attributes in rising order) with their
        noise.
    largest
        A public, conservative bound of every count or sum, noise included; it sets the lattice of
        values.

    Raises
    ------
    ValueError
        If there is not one set of distributions for each level, a table is not a rising set of
        attributes, or a variance is negative.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        tree: Tree,
        laws: Sequence[Mapping[Table, Law]],
        largest: int = 1 << 29,
    ) -> None:
        self.sizes = tuple(sizes)
        self.tree = tree
        self.largest = largest
        self.laws = [dict(level) for level in laws]
        if len(self.laws) != tree.levels:
            raise ValueError("every level of the tree has its own set of measured tables")
        for table, law in self._tables_and_mechanisms():
            if list(table) != sorted(set(table) & set(range(len(self.sizes)))) or law.variance < 0:
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
        """Return the declaration of some areas and all areas below them (`Tree.part`)."""
        found = copy(self)
        found.tree = self.tree.part(level, ranges)
        found.laws = self.laws[level:]
        return found

    def _tables_and_mechanisms(self) -> Iterator[tuple[Table, Law]]:
        for level in self.laws:
            yield from level.items()
