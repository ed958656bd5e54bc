"""Read the true numbers of one table; the method depends on the number of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import duckdb
import numpy as np

from dprelease.exact.results.stored import BYTES_PER_CELL
from dprelease.exact.results.true_table import DenseProfile, Integers, Profile, VectorBlock
from dprelease.exact.results.vectors import (
    MOST_HELD_BYTES,
    MOST_ROWS,
    count_pairs,
    read_vectors,
    sum_rows,
)
from dprelease.statements.compiled_statements import CompiledQuery, KeyTable, ProfileSql

MOST_COUNTS = 2**25
"""Maximum number of pairs of a cell and a candidate for which rows are counted in memory."""

MANY_CELLS = 2**16
"""Number of cells from which on rows are summed in memory instead of being grouped by the
engine."""

Result = TypeVar("Result")


class Attempt(Protocol):
    """A function that does work on a connection, and drops the engine's message if it fails."""

    def __call__(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Return the result of the work; raise DP-DATA-006 if the engine fails."""


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads vectors and profiles; `scratch` is a folder for data that does not fit into memory."""

    attempt: Attempt
    scratch: Path

    def tables(self, compiled: CompiledQuery, size: int) -> list[KeyTable]:
        """Return the tables of public values that must exist before the query's statements run."""
        return compiled.tables(by_row=size >= MANY_CELLS)

    def vectors(
        self, compiled: CompiledQuery, added: dict[str, int], size: int
    ) -> Mapping[str, VectorBlock]:
        """Return all vectors of a query; `added`: the most that one row adds to each vector."""
        if not compiled.columns:
            return {}
        most = {name: added[name] for name in compiled.columns}
        if size >= MANY_CELLS:
            return self._vectors_of_many_cells(compiled, most, size)
        columns = self._fetch_vectors(compiled.sql)
        cells = columns["cell"]
        vectors: dict[str, VectorBlock] = {}
        for i, name in enumerate(compiled.columns):
            # The statement may return one more cell, of rows that count nowhere.
            vector = np.zeros(size + 1, dtype=np.int64)
            vector[cells] = columns[f"m{i}"]
            vectors[name] = vector[:size]
        return vectors

    def _vectors_of_many_cells(
        self, compiled: CompiledQuery, most: dict[str, int], size: int
    ) -> Mapping[str, VectorBlock]:
        """Return all vectors of a table with too many cells to fetch them at once."""
        if compiled.rows and max(most.values()) < 2**62 // MOST_ROWS:
            sums = self.attempt(
                lambda link: sum_rows(link, compiled.rows, most, size, self.scratch),
            )
            if sums is not None:
                return sums
        if size * len(compiled.columns) * BYTES_PER_CELL > MOST_HELD_BYTES:
            from dprelease.exact.ascending import ascending_vectors

            # Vectors that exceed the memory are read while they are noised, in the order of their
            # cells.
            return ascending_vectors(self.attempt, compiled.sql, compiled.columns, size)
        return self.attempt(
            lambda link: read_vectors(link, compiled.sql, compiled.columns, size, self.scratch),
        )

    def profiles(self, compiled: CompiledQuery, size: int) -> dict[str, Profile | DenseProfile]:
        """Return, for each measurement, how often each candidate occurs in each cell."""
        statements = dict.fromkeys(compiled.profiles.values())
        by_statement = {statement: self._read_profile(statement, size) for statement in statements}
        return {name: by_statement[statement] for name, statement in compiled.profiles.items()}

    def _read_profile(self, profile_sql: ProfileSql, size: int) -> Profile | DenseProfile:
        """Return the count of each candidate in each cell, for the selection mechanisms."""
        pair_count = size * profile_sql.candidates
        if pair_count > MOST_COUNTS:
            columns = self._fetch_vectors(profile_sql.grouped)
            return Profile.of(columns["cell"], columns["v"], columns["n"], size)
        counts = self.attempt(lambda link: count_pairs(link, profile_sql, size))
        # `own`: the counts are overwritten, because a copy would double the memory.
        return DenseProfile.of(counts.reshape(size, profile_sql.candidates), own=True)

    def _fetch_vectors(self, sql: str) -> dict[str, Integers]:
        """Return the columns of a statement's result as integers, by name."""
        # Rows are fetched inside the attempt: the engine is lazy, and may fail only now.
        columns = self.attempt(lambda link: link.execute(sql).fetchnumpy())
        return {name: np.asarray(column, dtype=np.int64) for name, column in columns.items()}
