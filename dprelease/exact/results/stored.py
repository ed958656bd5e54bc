"""Store a vector in a file of the scratch folder: it is written in order, and read by ranges."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np

from dprelease.exact.results.true_table import Integers

BYTES_PER_CELL = 8


class StoredVector:
    """A vector of true integers on disk; `vector[cells]` reads a range of its cells.

    The file is unlinked as soon as it is open, so nothing of it remains, even if the process is
    killed. Reads use the system's cache, and not the memory of the process.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        self._file = path.open("x+b")
        path.unlink()
        weakref.finalize(self, self._file.close)
        self._length = 0

    def append(self, values: Integers) -> None:
        """Write the next cells; raises OSError if the disk is full."""
        self._file.write(values.data)
        self._file.flush()
        self._length += len(values)

    def __getitem__(self, cells: slice) -> Integers:
        first, last, _ = cells.indices(self._length)
        integers: Integers = np.empty(max(last - first, 0), dtype=np.int64)
        left, place = integers.data.cast("B"), first * BYTES_PER_CELL
        while len(left):  # the system reads at most 2 GB at once
            read = os.preadv(self._file.fileno(), [left], place)
            if read == 0:
                raise OSError("a scratch file is shorter than it was")
            left, place = left[read:], place + read
        return integers

    def __repr__(self) -> str:
        return f"<StoredVector of {self._length} cells>"
