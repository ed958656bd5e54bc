"""The model of what a manifest says of tables that agree."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dprelease.schema.document_part import Part


class LevelRecord(Part):
    """A level of areas; the first is the whole."""

    name: str
    areas: int


class GroupingRecord(Part):
    """Another grouping of the last level: its key, the number of its areas, and its tables."""

    name: str
    areas: int
    tables: list[str]


class AttributeRecord(Part):
    """A key other than the areas, and the number of its values."""

    name: str
    values: int


class MeasuredTableRecord(Part):
    """One measured table: the noise of its cells in lattice steps; variances are rounded up."""

    table: str
    level: str
    keys: list[str]
    mechanism: str
    variance: float
    mean: float


class ErrorsRecord(Part):
    """The standard errors of a table's estimates, area by area, in the column's unit."""

    table: str
    least: float | None
    median: float | None
    largest: float | None


class RefinementRecord(Part):
    """How the integer tables of one level are computed, by all keys or by some of them.

    `keys`: the keys of a table of which others are sums. `shared`: the keys that it shares with
    tables before it, in which it has the same numbers; null for the first. `steps`: by their keys,
    the nested tables that are computed one after another, or along which the results of least
    squares are rounded; none if all measured tables are rounded together. `first`: the tables that
    least squares makes non-negative first.
    """

    level: str
    keys: list[str]
    shared: list[str] | None
    method: Literal["least_squares", "fast"]
    first: list[list[str]]
    steps: list[list[str]]
    composed: bool


class ConsistentColumnRecord(Part):
    """One count or sum of the family."""

    name: str
    step: str
    confidence: str
    standard_errors_in_a_margin: float
    measured: list[MeasuredTableRecord]
    standard_errors: list[ErrorsRecord]
    refinement: list[RefinementRecord]


class IntegerTableRecord(Part):
    """An integer table, and whether it has a row for every cell."""

    name: str
    cells: Literal["all", "those that are not 0"]


class SyntheticPersonsRecord(Part):
    """Synthetic persons: their file, and the largest number of rows for which it is written."""

    name: str
    most: int


class ComputedColumnRecord(Part):
    """A column that is computed from the estimates of others."""

    name: str
    formula: str
    parts: list[str]


class ConsistencyRecord(Part):
    """How the tables of a family were made consistent, and the known errors of the result."""

    algorithm: Literal["dprelease-consistency/2"]
    words: list[str]
    levels: list[LevelRecord]
    attributes: list[AttributeRecord]
    columns: list[ConsistentColumnRecord]
    estimates: list[str]
    whole_tables: list[IntegerTableRecord]
    zeros: list[dict[str, list[str]]]
    records: SyntheticPersonsRecord | None
    computed: list[ComputedColumnRecord] = Field(default_factory=list)
    groupings: list[GroupingRecord] = Field(default_factory=list)
