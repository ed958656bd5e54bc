"""Partitions that occur in the data, before any of them is selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np

from dprelease.exact.results.true_table import Integers


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Partitions:
    """Texts of partitions, which ascend, and how many units each has.

    Not even their number may be told: it can't be printed, copied or pickled.
    """

    names: list[str]
    units: Integers

    @classmethod
    def of(cls, names: Sequence[str], units: Integers) -> Self:
        """Return partitions in whatever order they were found: that of rows can't matter.

        Which draw becomes whose noise would else depend on the rows, and on the engine's threads.
        """
        order = sorted(range(len(names)), key=names.__getitem__)
        return cls([names[i] for i in order], units[np.array(order, dtype=np.int64)])

    def __repr__(self) -> str:
        return "<Partitions>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true partitions can't be pickled or copied")
