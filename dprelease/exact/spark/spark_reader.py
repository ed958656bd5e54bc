"""Inspect sources on the driver: DuckDB reads names, types and sizes.

The driver inspects sources with DuckDB exactly as the engine duckdb does, and reads no row of a
table about people.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import duckdb

from dprelease.errors import State
from dprelease.exact.duckdb import Engine
from dprelease.exact.inputs import Input
from dprelease.exact.reading.sources import escape_pattern
from dprelease.exact.spark.executors.task_files import ROW_NUMBER
from dprelease.exact.spark.executors.task_rows import to_ipc_bytes
from dprelease.query import quoting


class DriverReader(Engine):
    """The engine on the driver, which reads names and types, and the keys of public tables."""

    _can_use_arrow: ClassVar[bool] = False

    def __init__(self, inputs: list[Input], scratch: Path, link: duckdb.DuckDBPyConnection) -> None:
        super().__init__(inputs, scratch, link)
        self._lengths: dict[int, tuple[list[int], bool]] = {}

    @property
    def inputs(self) -> list[Input]:
        """Return the inputs: the query's table, and then the joined table."""
        return self._inputs

    def public_rows(self, names: Sequence[str]) -> bytes:
        """Return the rows of a joined public table, as bytes of Arrow.

        Raises DataError: DP-DATA-006 if the engine fails.
        """
        given = self._inputs[1]
        column_list = ", ".join(map(quoting.identifier, names)) or "1 AS one"
        sql = f"SELECT {column_list} FROM {given.relation}"
        table = self._attempt(
            "DP-DATA-006", State.READ, lambda link: link.sql(sql).to_arrow_table(), given
        )
        return to_ipc_bytes(table)

    def lengths(self, place: int) -> tuple[list[int], bool]:
        """Return the number of rows of each Parquet file, and whether files can't be divided.

        `place`: the index of the input that has the files. Files can't be divided if a column has
        the name that the engine uses for the row number.

        Raises DataError: DP-DATA-001 if a file has no such number.
        """
        if place not in self._lengths:  # safe to cache: a file that changes meanwhile is refused
            self._lengths[place] = self._read_lengths(self._inputs[place])
        return self._lengths[place]

    def _read_lengths(self, given: Input) -> tuple[list[int], bool]:
        """Return the number of rows of each file, and whether the files can't be divided."""
        lengths, is_indivisible = [], False
        for file in given.files:
            file_literal = quoting.text(escape_pattern(file))
            ((rows,),) = self._query_metadata(
                f"SELECT num_rows FROM parquet_file_metadata({file_literal})", given
            )
            lengths.append(int(rows))
            names = self._query_metadata(f"SELECT name FROM parquet_schema({file_literal})", given)
            is_indivisible = is_indivisible or any(
                str(name).casefold() == ROW_NUMBER for (name,) in names
            )
        return lengths, is_indivisible
