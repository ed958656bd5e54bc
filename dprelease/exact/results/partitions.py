"""Hold the partitions that occur in the data, before any of them is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np

from dprelease.exact.results.true_table import Integers


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Partitions:
    """The names of partitions, in ascending order, and the number of privacy units in each.

    Even the number of partitions is confidential, so the object can't be printed, copied or
    pickled.
    """

    names: list[str]
    units: Integers

    @classmethod
    def of(cls, names: Sequence[str], units: Integers) -> Self:
        """Return partitions, given in any order, sorted by name.

        Without sorting, the assignment of noise would depend on the order of the rows, and on the
        engine's threads.
        """
        order = sorted(range(len(names)), key=names.__getitem__)
        return cls([names[i] for i in order], units[np.array(order, dtype=np.int64)])

    def __repr__(self) -> str:
        return "<Partitions>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true partitions can't be pickled or copied")
