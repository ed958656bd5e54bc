"""Read the engine's memory limit, and check it against the memory that text files need."""

from __future__ import annotations

import re
from collections.abc import Iterable

import duckdb

from dprelease.errors import DataError
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import source_fields
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader

OUT_OF_MEMORY_ERRORS = (MemoryError, duckdb.OutOfMemoryException)
"""Exceptions for exhausted memory, which are not errors of a source."""

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory_limit(link: duckdb.DuckDBPyConnection) -> int | None:
    """Return the engine's memory limit in bytes, rounded by the engine; None if it has no limit."""
    (limit,) = link.sql("SELECT current_setting('memory_limit')").fetchall()[0]
    parts = re.fullmatch(r"([0-9.]+) (bytes|[KMGTP]iB)", limit)
    return None if parts is None else int(float(parts[1]) * 1024 ** UNITS.index(parts[2]))


def thread_count(link: duckdb.DuckDBPyConnection) -> int:
    """Return the engine's number of threads."""
    (threads,) = link.sql("SELECT current_setting('threads')").fetchall()[0]
    return int(threads)


def require_memory_for_text_files(link: duckdb.DuckDBPyConnection, inputs: Iterable[Input]) -> None:
    """Raise DP-ENGINE-005 if the buffers of text files alone exceed the engine's memory limit.

    Otherwise the engine would fail at the first row, after the budget is charged. The memory that
    the engine needs was measured, with an error of a few MiB. Compressed files are assumed to have
    at least their compressed size when they are decompressed.
    """
    for given in (leaf for one in inputs for leaf in one.leaves):
        reader = reader_of(given.source_type)
        if given.opened is None or not isinstance(reader, TextFilesReader):
            continue
        limit = memory_limit(link)
        needed = reader.least_memory_bytes(given.opened.sizes, thread_count(link))
        if limit is not None and needed > limit:
            raise DataError("DP-ENGINE-005", **source_fields(given.declared), format=given.kind)
