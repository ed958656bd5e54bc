"""The memory limit of the engine, and the memory that text files need before any row is read."""

from __future__ import annotations

import re
from collections.abc import Iterable

import duckdb

from dprelease.errors import DataError
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import source_fields
from dprelease.exact.sources.source_reader import reader_of
from dprelease.exact.sources.text_files_reader import TextFilesReader

SHORT_OF_MEMORY = (MemoryError, duckdb.OutOfMemoryException)
"""Exceptions for exhausted memory, which are no error of a source."""

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


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
        reader = reader_of(given.source_type)
        if given.opened is None or not isinstance(reader, TextFilesReader):
            continue
        limit = memory_limit(link)
        taken = reader.memory(given.opened.sizes, threads_of(link))
        if limit is not None and taken > limit:
            raise DataError("DP-ENGINE-005", **source_fields(given.declared), format=given.kind)
