"""One side of a comparison: the cells of a published table, with what is known of their noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dprelease.documents.encoding import NAME
from dprelease.documents.metadata import Role, TableMetadata, code_text
from dprelease.errors import Place, QueryError
from dprelease.errors.suggestions import nearest
from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.common.invariant import Invariant
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.consistent.derived import derived_columns
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import PlacedTable, Shape, key_texts
from dprelease.postprocess.consistent.outputs import ESTIMATES, TABLES
from dprelease.postprocess.consistent.step import Consistent
from dprelease.postprocess.derived_values import WHOLE, whole_margin
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.group_keys import Key
from dprelease.query.measurement import OutputColumn
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.query.quality import CONFIDENCE
from dprelease.query.resolve import Query
from dprelease.verification.after_publication.comparison_errors import (
    Estimates,
    JointErrors,
    sum_width,
)
from dprelease.verification.after_publication.release_tables import ReleaseTables

if TYPE_CHECKING:
    import pandas as pd

ONE_OF_TWO = (1 + CONFIDENCE) / 2
"""The confidence of each of two margins that both hold with probability `CONFIDENCE`."""

Cells = Mapping[str, object]
"""Values by key: only the cells with these values are compared."""

NO_NUMBERS = ("string", "bool", "date32[day]", "timestamp[us]")
"""The Arrow types of columns without changes."""

ADDED = "cells added up"
"""A column of frames: over how many published cells a row extends; no key has spaces."""


def comparable_tables(release: ReleaseTables) -> dict[str, TableMetadata]:
    """Return the tables with margins by name: published queries, and estimates of families.

    Integer tables of families are left out, but not the counts of which summaries are computed.
    """
    queries = _queries_by_table(release)
    tables = {table.name: table for table in release.metadata.tables_for_readers}
    found = {}
    for full_name, table in tables.items():
        folder, _, name = full_name.rpartition("/")
        is_integer = f"{ESTIMATES}/{name}" in tables
        if name in queries and (folder in ("", ESTIMATES) or (folder == TABLES and not is_integer)):
            found[full_name] = table
    return found


def _queries_by_table(release: ReleaseTables) -> dict[str, Query]:
    """Return the queries of a release by table, also those of the groupings of families."""
    found = {query.name: query for query in release.queries}
    for family in release.families:
        if isinstance(family.step, Consistent):
            grouped = Shape.of(family.tables).grouped
            found |= {one.name: one.table.query for tables in grouped for one, _ in tables}
    return found


class TableOfCells:
    """A published table, or its cells with some values of keys: keys, columns and their noise."""

    def __init__(self, release: ReleaseTables, name: str, cells: Cells) -> None:
        self.release, self.cells = release, {key: _code(value) for key, value in cells.items()}
        self.table = comparable_tables(release)[name]
        query_name = name.rpartition("/")[2]
        self.query: Query = _queries_by_table(release)[query_name]
        known = [key.name for key in self.table.keys]
        for key in cells:
            if key not in known:
                refuse(f"'{key}' is not one of its keys ({', '.join(known) or 'it has none'})")
        self.keys = [key for key in known if key not in cells]
        self._links: dict[str, Mapping[str, str]] = {}

    def codes_of(self, key: str) -> list[str]:
        """Return the codes of a key of texts, in the order of the table."""
        if key not in self.keys or self.query.private is not None:
            refuse(f"'{key}' is not one of its public keys ({', '.join(self.keys) or 'none'})")
        kinds = [one.kind for one in self.query.key_columns if one.column == key]
        if kinds != ["text"]:
            refuse(f"the values of '{key}' are not codes, but numbers, days or truth values")
        return [str(code) for code in self.frame[key].drop_duplicates()]

    def link(self, key: str, codes: Mapping[str, str]) -> None:
        """Add up the cells whose codes of a key have the same code in `codes`."""
        self._links[key] = codes

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows of the selected cells."""
        import pyarrow as pa

        self.release.refuse_changed_files({self.table.name})
        frame: pd.DataFrame = pa.Table.from_batches(
            list(self.release.batches(self.table.name))
        ).to_pandas()
        for key, value in self.cells.items():
            codes = frame[key].map(_code)
            frame = frame[codes == value]
            if frame.empty:
                close = nearest(value, codes)
                refuse(f"no cell has the value '{value}' of '{key}'{close}")
        return frame.drop(columns=list(self.cells)).reset_index(drop=True)

    def values_of(self, key: str) -> list[object]:
        """Return the values of a key of these cells; raise DP-COMPARE-002 unless it has several."""
        if key not in self.keys:
            refuse(f"'{key}' is not one of its keys ({', '.join(self.keys) or 'it has none'})")
        values = self.frame[key].drop_duplicates().tolist()
        if len(values) < 2:
            refuse(f"'{key}' has a single value")
        return values

    @property
    def condition(self) -> str:
        """The declared condition of the table, as a phrase."""
        declared = self.query.declared_family
        where = None if declared is None else declared.where
        return "all rows" if where is None else f"rows with {where}"

    @cached_property
    def columns(self) -> dict[str, OutputColumn]:
        """The columns of numbers by name."""
        published = {column.name for column in self.table.values if column.kind not in NO_NUMBERS}
        return {one.name: one for one in self.query.columns if one.name in published}

    @cached_property
    def noise(self) -> dict[str, Randomizer]:
        """The noise of each measurement of the query, by name."""
        columns = (one for one in self.release.columns if one.query.name == self.query.name)
        return {one.measurement.name: one.mechanism for one in columns}

    @cached_property
    def _family_place(self) -> tuple[Shape, PlacedTable] | None:
        """The family of a table of estimates, and its place there; None for other tables."""
        if not self.table.name.startswith(f"{ESTIMATES}/"):
            return None
        family = next(one for one in self.release.families if one.name == self.query.family)
        shape = Shape.of(family.tables)
        every = [*shape.placed, *(table for tables in shape.grouped for table, _ in tables)]
        return shape, next(one for one in every if one.name == self.query.name)

    @cached_property
    def quantiles(self) -> dict[str, float]:
        """The number of standard errors of a margin, by column of consistent tables."""
        assert self._family_place is not None
        shape = self._family_place[0]
        found = {one.name: one.at(CONFIDENCE).quantile for one in consistent_columns(shape)}
        return {one.name: one.quantile for one in derived_columns(shape)} | found

    @cached_property
    def joint_errors(self) -> dict[str, JointErrors]:
        """The errors of sums and differences of cells, by count or sum of consistent tables."""
        if self._family_place is None:
            return {}
        shape, placed = self._family_place
        return {one.name: JointErrors(one, placed) for one in consistent_columns(shape)}

    @property
    def adds_up_persons(self) -> bool:
        """Whether a person may count in several of the cells that are added up."""
        unit = self.query.unit
        return bool(self._links) and unit.id is not None and unit.most_rows > 1

    @cached_property
    def linked_frame(self) -> pd.DataFrame:
        """The rows of the selected cells, added up by linked codes; the column `ADDED` says how.

        Sums of values that are no counts or sums, or were changed after noise, are missing.
        """
        labels = self.frame.assign(**{ADDED: 1})
        for key, codes in self._links.items():
            labels[key] = labels[key].map(codes)
        if not self._links:
            return labels
        groups = labels.groupby(self.keys, sort=False)
        found = groups.first()
        found[ADDED] = groups[ADDED].sum()
        several = found[ADDED] > 1
        for name, column in self.columns.items():
            additive = column.form == MEASURED and column.post == NO_POST_PROCESSING
            sums = groups[name].sum()[several] if additive else None
            found[name] = found[name].astype("float64")
            found.loc[several, name] = np.nan if sums is None else sums
            end = self.table.companion_of(name, Role.STANDARD_ERROR)
            if end is not None and additive:
                exact = groups[end.name].max()[several] == 0  # invariants
                errors = self._errors_of_sums(name, found.index[several])
                found.loc[several, end.name] = np.where(exact, 0.0, errors)
        return found.reset_index()

    def _errors_of_sums(self, name: str, rows: pd.Index) -> list[float]:
        """Return the standard errors of sums of consistent cells with these linked codes."""
        errors, found = self.joint_errors[name], []
        known: dict[tuple[object, ...], float] = {}
        for row in rows:
            codes = dict(zip(self.keys, row if isinstance(row, tuple) else (row,), strict=True))
            areas = self._positions(errors.area_key, codes)
            numbers = [len(self._positions(key, codes)) for key in errors.attributes]
            known_as = (*areas, None, *numbers)
            if known_as not in known:
                known[known_as] = errors.of_sum(areas, numbers)
            found.append(known[known_as])
        return found

    def _positions(self, key: Key | None, codes: Mapping[str, object]) -> list[int]:
        """Return the positions of the values of a key that are added up in a cell."""
        if key is None:
            return [0]
        code, links = _code({**codes, **self.cells}[key.column]), self._links.get(key.column)
        texts = key_texts(key)
        if links is None:
            return [texts.index(code)]
        return [i for i, text in enumerate(texts) if links[text] == code]

    def errors_of_differences(
        self, name: str, other: TableOfCells, keys: pd.DataFrame
    ) -> Floats | None:
        """Return the standard errors of differences to cells of the same table of estimates.

        `other` has other values of the selected keys, and `keys` has the keys of each row. The
        result is None for values whose covariance is not known.
        """
        if name not in self.joint_errors or self._links:
            return None
        errors, found = self.joint_errors[name], np.empty(len(keys))
        same = [self.cells.get(k.column) == other.cells.get(k.column) for k in errors.attributes]
        known: dict[tuple[int, ...], float] = {}
        for i, row in enumerate(keys.to_dict("records")):
            codes = {str(key): code for key, code in row.items()}
            areas = tuple(side._positions(errors.area_key, codes)[0] for side in (self, other))
            if areas not in known:
                known[areas] = errors.of_difference(areas[0], areas[1], same)
            found[i] = known[areas]
        return found

    def estimates(self, name: str, frame: pd.DataFrame, suffix: str) -> Estimates:
        """Return the values of a column in a frame that has this suffix after its columns."""
        column = self.columns[name]

        def companion(role: Role) -> Floats | None:
            """Return the values of a companion column; None if there is none."""
            found = self.table.companion_of(name, role)
            return None if found is None else _floats(frame[found.name + suffix])

        values = _floats(frame[name + suffix])
        lower, upper = companion(Role.LOWER), companion(Role.UPPER)
        errors = companion(Role.STANDARD_ERROR)
        if lower is not None and upper is not None:
            lower, upper = (np.where(np.isnan(values), np.nan, end) for end in (lower, upper))
            confidence = Fraction(self._confidence(name))
            return Estimates(values, lower, upper, confidence)
        if errors is not None:
            quantile = self.quantiles[name]
            width = quantile * errors
            return Estimates(
                values,
                values - width,
                values + width,
                CONFIDENCE,
                errors=errors,
                quantile=quantile,
            )
        return self._noisy_values(column, values, frame[ADDED + suffix].to_numpy())

    def _confidence(self, name: str) -> str:
        """Return the confidence of the interval of a column, as a decimal text."""
        end = self.table.companion_of(name, Role.LOWER)
        return (end.confidence if end is not None else "") or str(float(CONFIDENCE))

    def _noisy_values(self, column: OutputColumn, values: Floats, added: Floats) -> Estimates:
        """Return the values of a count or sum, with margins that follow from its noise.

        `added` has the number of published cells of each value.
        """
        step, post = float(column.step or 1), column.post
        noise = self.noise[column.parts[0].name]
        width = self._half_width(column) * step + float(post.round_to or 0) / 2
        lower, upper = values - width, values + width
        if post.bottom_code is not None:  # the value before coding may be any number below
            lower = np.where(values <= float(post.bottom_code), -np.inf, lower)
        if post.non_negative and column.parts[0].aggregate.lowest < 0:
            lower = np.where(values <= 0, -np.inf, lower)
        if post.top_code is not None:
            upper = np.where(values >= float(post.top_code), np.inf, upper)
        found = Estimates(values, lower, upper, ONE_OF_TWO, step=step)
        is_plain = column.form not in WHOLE and column.post == NO_POST_PROCESSING
        if is_plain and isinstance(noise, Mechanism) and not isinstance(noise, Invariant):
            several = np.nan_to_num(added, nan=1.0)
            if (several > 1).any():
                widths = step * sum_width([noise], several[np.newaxis], float(ONE_OF_TWO))
                found = replace(found, lower=values - widths, upper=values + widths)
            return replace(found, noise=noise, added=several)
        return found

    def _half_width(self, column: OutputColumn) -> float:
        """Return a margin in steps that holds together with another one."""
        if column.form in WHOLE:
            return whole_margin(column, self.noise, float(ONE_OF_TWO))
        return self.noise[column.parts[0].name].half_width(float(ONE_OF_TWO))


def _code(value: Any) -> str:
    """Return a value of a key as text; values of NumPy are those of Python.

    A timestamp at midnight is its date.
    """
    if isinstance(value, np.datetime64):  # the item of nanoseconds would be an integer
        value = value.astype("M8[us]")
    text = code_text(value.item() if isinstance(value, np.generic) else value)
    return text.removesuffix(" 00:00:00")


def _floats(values: Any) -> Floats:
    """Return a column of numbers as floats (n,); NaN for missing values."""
    floats: Floats = values.astype("float64").to_numpy()
    return floats


def refuse(reason: str) -> NoReturn:
    """Raise DP-COMPARE-002 with a reason."""
    raise QueryError("DP-COMPARE-002", place=Place(NAME), reason=reason)
