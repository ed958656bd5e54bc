"""The step that publishes summaries: the table of a query, and a table for each summary.

All numbers are computed from the noisy counts and sums of the table, which are published as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dprelease.errors import DpReleaseError, QueryError
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.lattice import Floats
from dprelease.postprocess.families import (
    Batch,
    FamilyStep,
    FamilyTable,
    Kind,
    Lattice,
    NoisedTable,
    Output,
    Placer,
    QualityCodes,
    Real,
)
from dprelease.postprocess.margins import Estimates
from dprelease.postprocess.summaries.findings import summary_findings
from dprelease.postprocess.summaries.inequality import gini_estimates, portable_factor
from dprelease.query.grouping.group_keys import KeySpace
from dprelease.query.measurement import OutputColumn, Role
from dprelease.query.quality import CONFIDENCE, UNSURE_DIVISOR, quality_codes
from dprelease.schema.columns import CutColumn
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.limits import QUALITY_LIMITS
from dprelease.schema.release_parts.summaries import GiniSpec, RateSpec, SummarySpec
from dprelease.system.prefetch import Spread, in_threads

# Directly standardised rates with intervals: post-processing only.
#
# The rate of a group is R = sum of w_a E_a / P_a over the strata a, such as ages, with the events
# E, the population P and the weights w of a public standard population, which add up to 1. The
# ratio r of a stratum is compatible with the noisy E and P if
#
#     (E - r P)^2 <= c_E^2 + r^2 c_P^2,
#
# where c_E and c_P are the margins of `margin_factor` (Fieller 1954). The strata have independent
# noise. Their intervals (l_a, u_a) are combined as by Zou and Donner (Statistics in Medicine 27,
# 2008, "MOVER"): the lower end is R - sqrt(sum of w_a^2 (r_a - l_a)^2), and the upper end likewise.
# Without noise of P, this is the margin of a weighted sum. Below 0, a rate has no meaning, so the
# lower end is at least 0.


def rate_estimates(
    events: Floats, population: Floats, weights: Floats, margins: tuple[float, float]
) -> Estimates:
    """Return the standardised rates of groups with their intervals.

    If the population of a stratum is not clearly above 0, the rate is unsure. Its interval then has
    no upper end, and the lower end is that of the other strata.

    - `events`, `population`: the noisy numbers (groups, strata), and the noisy or public ones.
    - `weights`: the weights (strata,), which add up to 1; strata with weight 0 don't count.
    - `margins`: the margins of one event count and of one population count; 0 for public numbers.
    """
    over, under = margins
    groups = len(events)
    values, below, above = (np.zeros(groups) for _ in range(3))
    unsure = np.zeros(groups, dtype=np.bool_)
    for e, p, w in zip(events.T, population.T, weights, strict=True):
        if w == 0.0:
            continue
        is_unsure = ~(p > under)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, a, half = e / p, p**2 - under**2, e * p
            root = np.sqrt(np.maximum(half**2 - a * (e**2 - over**2), 0.0))
            low, high = (half - root) / a, (half + root) / a
        sure = ~is_unsure
        values = values + np.where(sure, w * ratio, 0.0)
        below = below + np.where(sure, (w * (ratio - low)) ** 2, 0.0)
        above = above + np.where(sure, (w * (high - ratio)) ** 2, 0.0)
        unsure = unsure | is_unsure
    lower = np.maximum(values - np.sqrt(below), 0.0)
    upper = np.where(unsure, np.inf, np.maximum(values + np.sqrt(above), 0.0))
    values = np.maximum(values, 0.0)
    moved = ~unsure & (values == 0.0)
    return Estimates(np.where(unsure, np.nan, values), lower, upper, unsure, moved)


LEVEL = float(CONFIDENCE)


@dataclass(frozen=True)
class Summaries:
    """The summaries of one query; see `FamilyStep`."""

    query: str
    specs: Mapping[str, SummarySpec]

    @property
    def name(self) -> str:
        """Return the name of the step in the release file."""
        return "summaries"

    def findings(self, tables: Sequence[FamilyTable], place: Placer) -> Iterator[DpReleaseError]:
        """See `FamilyStep.findings`."""
        for keys, problem in summary_findings(tables, self.specs):
            yield QueryError("DP-QUERY-022", place=place(*keys), query=self.query, problem=problem)

    def outputs(self, tables: Sequence[FamilyTable]) -> tuple[Output, ...]:
        """See `FamilyStep.outputs`."""
        (table,) = tables
        return (
            _table_output(table),
            *(_summary_output(self.query, name, spec, table) for name, spec in self.specs.items()),
        )

    def record(self, tables: Sequence[FamilyTable]) -> dict[str, Any]:
        """See `FamilyStep.record`."""
        return {name: _formula(spec) for name, spec in self.specs.items()}

    def values(
        self, noised: Sequence[NoisedTable], spread: Spread = in_threads
    ) -> Iterator[tuple[str, Batch]]:
        """See `FamilyStep.values`."""
        (held,) = noised
        table = held.table
        yield f"tables/{self.query}", _table_batch(held)
        for name, spec in self.specs.items():
            found = _estimates(spec, held)
            groups = np.arange(len(found.values), dtype=np.int64)
            yield f"summaries/{self.query}_{name}", Batch(groups, _columns(name, found, table))

    def problems(
        self, noised: Sequence[NoisedTable], published: Mapping[str, Callable[[], Iterator[Any]]]
    ) -> Iterator[str]:
        """See `FamilyStep.problems`: a value lies in its interval, and is empty if it is unsure."""
        for name in self.specs:
            for batch in published[f"summaries/{self.query}_{name}"]():
                values, low, high = (
                    batch.column(f"{name}{end}").to_numpy(zero_copy_only=False)
                    for end in ("", "_lower", "_upper")
                )
                if ((values < low) | (values > high)).any():
                    yield f"a value of '{name}' is not in its interval"


def make_step(name: str, spec: QuerySpec) -> FamilyStep | None:
    """Return the step for a query with summaries."""
    return Summaries(name, spec.summaries) if spec.summaries else None


def _limits(table: FamilyTable) -> Sequence[Any]:
    """Return the limits of the quality classes; those of the first column that publishes one."""
    return next((c.quality for c in table.query.columns if c.quality), QUALITY_LIMITS)


def _moe_steps(table: FamilyTable, column: OutputColumn, level: float) -> int:
    """Return the margin of error of a column in steps, at a confidence."""
    return int(table.mechanisms[column.parts[0].name].half_width(level))


def _table_output(table: FamilyTable) -> Output:
    """Return the table of the query: counts and sums with their margins and their quality."""
    columns: dict[str, Kind] = {}
    roles: dict[str, tuple[Role, str]] = {}
    for column in table.query.columns:
        name, step = column.name, Lattice(column.parts[0].step)
        columns |= {name: step, f"{name}_moe": step}
        roles[f"{name}_moe"] = (Role.MARGIN, name)
        if column.quality:
            columns[f"{name}_quality"] = QualityCodes()
            roles[f"{name}_quality"] = (Role.QUALITY, name)
    computed = {column.name: column.formula for column in table.query.columns}
    return Output(f"tables/{table.query.name}", table.query.keys, columns, computed, roles=roles)


def _table_batch(held: NoisedTable) -> Batch:
    """Return all rows of the table of the query."""
    table = held.table
    values: dict[str, Any] = {}
    for column in table.query.columns:
        part, name = column.parts[0], column.name
        steps = held.vector(part.name)
        width = _moe_steps(table, column, float(column.margin or CONFIDENCE))
        values |= {name: steps, f"{name}_moe": np.full_like(steps, width)}
        if column.quality:
            numbers, quality = steps.astype(np.float64), _moe_steps(table, column, LEVEL)
            values[f"{name}_quality"] = quality_codes(
                numbers, numbers - quality, numbers + quality, column.quality
            )
    return Batch(np.arange(table.query.keys.size, dtype=np.int64), values)


def _summary_output(query: str, name: str, spec: SummarySpec, table: FamilyTable) -> Output:
    keys = KeySpace(tuple(key for key in table.query.keys.keys if key.column != spec.over))
    ends = {f"{name}_lower": Role.LOWER, f"{name}_upper": Role.UPPER}
    columns: dict[str, Kind] = {name: Real(), **dict.fromkeys(ends, Real())}
    columns[f"{name}_quality"] = QualityCodes()
    roles = {end: (role, name) for end, role in ends.items()}
    roles[f"{name}_quality"] = (Role.QUALITY, name)
    return Output(f"summaries/{query}_{name}", keys, columns, {name: _formula(spec)}, roles=roles)


def _columns(name: str, found: Estimates, table: FamilyTable) -> dict[str, Any]:
    """Return the published columns of a summary."""
    codes = quality_codes(
        found.values, found.lower, found.upper, _limits(table),
        at_bound=found.moved, emptied={UNSURE_DIVISOR: found.unsure},
    )  # fmt: skip
    ends = {f"{name}_lower": found.lower, f"{name}_upper": found.upper}
    return {name: found.values, **ends, f"{name}_quality": codes}


def _formula(spec: SummarySpec) -> str:
    """Return how a summary is computed, as text."""
    if spec.gini is not None:
        return (
            f"Gini coefficient of values in the bands of '{spec.gini.over}', from "
            f"[{spec.gini.count}], as if values were spread evenly in each band; the interval "
            "holds for any values in the bands"
        )
    rate = spec.standardised_rate
    if rate is None:
        return ""
    under = f"[{rate.population}]" if rate.population else "the public population"
    return (
        f"{rate.per} x the sum over '{rate.over}' of the standard population's share x "
        f"[{rate.events}] / {under}"
    )


def _estimates(spec: SummarySpec, held: NoisedTable) -> Estimates:
    """Return the values of a summary with their intervals, for every group of cells."""
    if spec.gini is not None:
        return _gini(spec.gini, held)
    if spec.standardised_rate is None:
        raise TypeError("a summary is one number")
    return _rate(spec.standardised_rate, held)


def _gini(spec: GiniSpec, held: NoisedTable) -> Estimates:
    """Return the Gini coefficients of all groups."""
    table, (name, noise, _) = held.table, _part(held.table, spec.count)
    column = table.query.table.columns[spec.over]
    if not isinstance(column, CutColumn):
        raise TypeError("bands have edges")
    edges = np.array([float(edge) for edge in column.edges])
    counts = _by_group(held.vector(name).astype(np.float64), table.query.keys, spec.over)
    return gini_estimates(counts, edges, noise, LEVEL)


def _rate(spec: RateSpec, held: NoisedTable) -> Estimates:
    """Return the standardised rates of all groups."""
    table, keys = held.table, held.table.query.keys
    (over,) = (key for key in keys.keys if key.column == spec.over)
    standard = spec.standard.by_values
    total = sum(standard[(text,)] for text in over.texts)
    weights = np.array([float(standard[(text,)] / total) for text in over.texts])
    name, noise, step = _part(table, spec.events)
    events = _by_group(held.vector(name).astype(np.float64) * step, keys, spec.over)
    margins = portable_factor(noise, LEVEL) * step
    if spec.population is not None:
        name, noise, step = _part(table, spec.population)
        people = held.vector(name).astype(np.float64) * step
        population = _by_group(people, keys, spec.over)
        both = (margins, portable_factor(noise, LEVEL) * step)
    else:
        population, both = _by_group(public_population(spec, keys), keys, spec.over), (margins, 0.0)
    return rate_estimates(events, population, weights, both).scaled(float(spec.per))


def public_population(spec: RateSpec, keys: KeySpace) -> Floats:
    """Return the public population of every cell (cells,)."""
    numbers = spec.population_from
    if numbers is None:
        raise TypeError("there is no public population")
    found = np.zeros([key.size for key in keys.keys])
    places = [{text: i for i, text in enumerate(key.texts)} for key in keys.keys]
    order = [numbers.keys.index(key.column) for key in keys.keys]
    for values, number in numbers.rows:
        found[tuple(place[values[i]] for place, i in zip(places, order, strict=True))] = number
    return found.ravel()


def _part(table: FamilyTable, column: str) -> tuple[str, Mechanism, float]:
    """Return the measurement of a column, its noise, and its step."""
    (part,) = next(one.parts for one in table.query.columns if one.name == column)
    noise = table.mechanisms[part.name]
    if not isinstance(noise, Mechanism):
        raise TypeError("a count has noise")
    return part.name, noise, float(part.step)


def _by_group(vector: Floats, keys: KeySpace, over: str) -> Floats:
    """Return the numbers of all cells as a table (groups, values of the key `over`)."""
    axis = [key.column for key in keys.keys].index(over)
    table = np.moveaxis(vector.reshape([key.size for key in keys.keys]), axis, -1)
    return np.ascontiguousarray(table.reshape(-1, keys.keys[axis].size))
