"""Divide sources into pieces, and rows into partitions, by the size of the data.

Neither Spark's number of shuffle partitions nor its number of files is used: a task with few rows
costs more than its rows, and one with too many runs out of memory.
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
"""Tasks of equal size per core, so that a late core costs little."""

ASSUMED_CORES = 16
"""Number of cores if Spark does not report it."""

LEAST_ROWS, MOST_ROWS = 2**17, 2**22
"""Minimum and maximum rows of a piece; fewer rows are read faster than a task is started."""

LEAST_FRAME_ROWS = 2**13
"""Minimum rows of a caller's frame that are sent to a task; the maximum is `LEAST_ROWS`."""

LEAST_BYTES, MOST_BYTES = 2**22, 2**27
"""Minimum and maximum bytes of a piece of text files."""

BYTES_A_ROW = 64
"""Approximate bytes of a row of text."""

MOST_BUCKET_ROWS = 2**20
"""Maximum rows of units that are bounded in one task, about 100 MB."""

MOST_BUCKETS = 2**15

MOST_TASK_BLOCKS = 64
"""Maximum blocks of cells to which one task adds noise. There are several, because reading the
description of a table takes a task longer than drawing the noise of a block."""


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time, as far as it reports that."""
    if is_classic(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    return ASSUMED_CORES


def divide_into_pieces(
    lengths: Sequence[int], cores: int, *, whole: bool
) -> list[tuple[Range, ...]]:
    """Return the ranges of rows that each task reads, in the order of the files.

    `lengths`: the number of rows of each file. `whole`: whether files can't be divided.
    """
    size = _piece_size(sum(lengths), cores, LEAST_ROWS, MOST_ROWS)
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


def group_files(sizes: Sequence[int], cores: int) -> list[tuple[int, ...]]:
    """Return, for each task, the indices of the files that the task reads; `sizes`: file sizes."""
    most = _piece_size(sum(sizes), cores, LEAST_BYTES, MOST_BYTES)
    pieces: list[tuple[int, ...]] = []
    held: list[int] = []
    for place, size in enumerate(sizes):
        if held and sum(sizes[i] for i in held) + size > most:
            pieces.append(tuple(held))
            held = []
        held.append(place)
    return [*pieces, tuple(held)] if held else pieces


def bucket_count(rows: int, cores: int) -> int:
    """Return the number of partitions by which rows are grouped by privacy unit."""
    return min(
        MOST_BUCKETS, math.ceil(rows / _piece_size(rows, cores, LEAST_ROWS, MOST_BUCKET_ROWS)) or 1
    )


def noise_task_count(blocks: int, cores: int) -> int:
    """Return the number of tasks that add noise to this many blocks of cells."""
    return max(min(blocks, cores * TASKS_A_CORE), math.ceil(blocks / MOST_TASK_BLOCKS))


def frame_piece_rows(rows: int, cores: int) -> int:
    """Return the number of rows per piece of a frame."""
    return _piece_size(rows, cores, LEAST_FRAME_ROWS, LEAST_ROWS)


def _piece_size(total: int, cores: int, least: int, most: int) -> int:
    """Return the size of a piece such that each core gets several pieces."""
    return max(least, min(most, math.ceil(total / (cores * TASKS_A_CORE))))
