"""True aggregates; what is printed of them is their shape, never a value."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray


class ExactTable:
    """One vector of true integers for each measure, over every cell in key order.

    It can't be printed, iterated, copied or pickled; `release/perturb.py` is its only reader.
    """

    __slots__ = ("_vectors", "name", "size")

    def __init__(self, name: str, size: int, vectors: dict[str, NDArray[np.int64]]) -> None:
        self.name, self.size = name, size
        self._vectors = vectors

    def vector(self, measure: str) -> NDArray[np.int64]:
        """Return the (size,) true integers of one measure, lattice steps."""
        return self._vectors[measure]

    def __repr__(self) -> str:
        return f"<ExactTable {self.name}: {self.size} cells, {len(self._vectors)} measures>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("true aggregates can't be pickled or copied")
