"""How a source is cut into pieces, and rows into partitions: by the size of the data.

Neither Spark's number of shuffle partitions nor that of its files decides it: a task of few rows
costs more than its rows, and one of too many has no room for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dprelease.exact.spark.executors.task_files import Range
from dprelease.exact.spark.sessions.spark_session import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_A_CORE = 2
"""Of equal size, so that a core that is late costs little."""

CORES = 16
"""Where Spark does not tell how many it has."""

LEAST_ROWS, MOST_ROWS = 2**17, 2**22
"""Rows of a piece: below, reading them takes less than the task."""

LEAST_SENT = 2**13
"""Rows of a frame that are sent to a task; at most as many as others have at least."""

LEAST_BYTES, MOST_BYTES = 2**22, 2**27
"""Bytes of a piece of text files."""

BYTES_A_ROW = 64
"""Of text, about."""

ROWS_TOGETHER = 2**20
"""Rows of units that are bounded in one task, about 100 MB."""

MOST_BUCKETS = 2**15

MOST_BLOCKS = 64
"""Blocks of cells that are noised in one task: what a task is told of a table takes longer to read
than a block to draw."""


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time, as far as it says so."""
    if is_classic(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    return CORES


def pieces_of(lengths: Sequence[int], cores: int, *, whole: bool) -> list[tuple[Range, ...]]:
    """Return ranges of rows of files of so many rows, in order: a task for each tuple of them.

    `whole`: files can't be cut.
    """
    size = _size(sum(lengths), cores, LEAST_ROWS, MOST_ROWS)
    pieces: list[tuple[Range, ...]] = []
    held: list[Range] = []
    room = size
    for file, length in enumerate(lengths):
        first = 0
        while first < length:
            end = length if whole else min(length, first + room)
            held.append(Range(file) if whole else Range(file, first, end))
            room -= end - first
            first = end
            if room <= 0:
                pieces.append(tuple(held))
                held, room = [], size
    return [*pieces, tuple(held)] if held else pieces


def files_together(sizes: Sequence[int], cores: int) -> list[tuple[int, ...]]:
    """Return the places of files of so many bytes that are read by one task each."""
    most = _size(sum(sizes), cores, LEAST_BYTES, MOST_BYTES)
    pieces: list[tuple[int, ...]] = []
    held: list[int] = []
    for place, size in enumerate(sizes):
        if held and sum(sizes[i] for i in held) + size > most:
            pieces.append(tuple(held))
            held = []
        held.append(place)
    return [*pieces, tuple(held)] if held else pieces


def buckets_of(rows: int, cores: int) -> int:
    """Return in how many partitions rows of units come together."""
    return min(MOST_BUCKETS, math.ceil(rows / _size(rows, cores, LEAST_ROWS, ROWS_TOGETHER)) or 1)


def tasks_of(blocks: int, cores: int) -> int:
    """Return how many tasks noise so many blocks of cells."""
    return max(min(blocks, cores * TASKS_A_CORE), math.ceil(blocks / MOST_BLOCKS))


def size_of(rows: int, cores: int) -> int:
    """Return how many rows a frame is sent by at a time."""
    return _size(rows, cores, LEAST_SENT, LEAST_ROWS)


def _size(total: int, cores: int, least: int, most: int) -> int:
    """Return the size of a piece, of which each core gets some."""
    return max(least, min(most, math.ceil(total / (cores * TASKS_A_CORE))))
