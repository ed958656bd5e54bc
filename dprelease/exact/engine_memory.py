"""The memory limit of the engine, and the memory that text files need before any row is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import duckdb

from dprelease.errors import DataError
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import CSV_BUFFER, source_fields

SHORT_OF_MEMORY = (MemoryError, duckdb.OutOfMemoryException)
"""Exceptions for exhausted memory, which are no error of a source."""

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")

JSON_BUFFER = 32 << 20
"""Bytes of a JSON lines file that a thread reads at once: the engine's own value."""

BESIDE = 2 << 20
"""Bytes that a file or a thread takes in addition to its buffers."""


def memory_limit(link: duckdb.DuckDBPyConnection) -> int | None:
    """Return how many bytes the engine may use, as it rounds them; None if it has no limit."""
    (limit,) = link.sql("SELECT current_setting('memory_limit')").fetchall()[0]
    told = re.fullmatch(r"([0-9.]+) (bytes|[KMGTP]iB)", limit)
    return None if told is None else int(float(told[1]) * 1024 ** UNITS.index(told[2]))


def threads_of(link: duckdb.DuckDBPyConnection) -> int:
    """Return the engine's number of threads."""
    (threads,) = link.sql("SELECT current_setting('threads')").fetchall()[0]
    return int(threads)


def refuse_little(link: duckdb.DuckDBPyConnection, inputs: Iterable[Input]) -> None:
    """Raise DP-ENGINE-005 if the buffers of text files alone exceed the engine's memory limit.

    Otherwise it would fail with the first row, after the budget is charged. The engine's needs were
    measured, with an error of a few MiB. Compressed files are assumed not to shrink when they are
    decompressed.
    """
    for given in inputs:
        if given.opened is not None and given.kind in ("csv", "json_lines"):
            limit = memory_limit(link)
            taken = _memory_for_text_files(given.kind, given.opened.sizes, threads_of(link))
            if limit is not None and taken > limit:
                raise DataError("DP-ENGINE-005", **source_fields(given.declared), format=given.kind)


def _memory_for_text_files(kind: str, sizes: Sequence[int], threads: int) -> int:
    """Return the least number of bytes for reading text files of these sizes."""
    if kind == "csv":  # a thread reads a whole file: one buffer, and the next
        shares = sorted(min(size, 2 * CSV_BUFFER) + BESIDE for size in sizes)
        return sum(shares[-threads:])
    # Two threads share the parts of a file that fill a buffer each, and one more waits for them.
    parts = sum(2 * -(-size // JSON_BUFFER) for size in sizes)
    readers = min(threads, parts)
    waiting = readers > 1 and max(sizes) > JSON_BUFFER
    return (readers + waiting) * (JSON_BUFFER + BESIDE)
