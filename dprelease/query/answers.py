"""Convert the declared columns of one query to measurements; columns share equal measurements.

The aggregate keyword of a column determines its measurements. Any file in `query/aggregates` and
`query/forms` may define `BY_WORD`, which has keywords, and for each keyword the function that
returns its measurements.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from dprelease.numerics.rounding import plain_text, round_down
from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query import aggregates, forms
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.query.aggregates.count import Count, Partitions
from dprelease.query.aggregates.count_distinct import CountDistinct
from dprelease.query.declared_columns import ColumnParts, DeclaredColumn, DeclaredColumns
from dprelease.query.expressions.used_columns import unknown_column
from dprelease.query.measurement import Form, Measurement, OutputColumn
from dprelease.query.post import PostProcessing
from dprelease.schema.aggregate_keywords import WORDS
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.release_parts.limits import SuppressionSpec
from dprelease.schema.release_parts.query_parts import PrivateKeysSpec

# Which noisy vector of a query counts people, so that cells with few people can be left empty.


def people_vector(
    column: OutputColumn, others: Sequence[OutputColumn], unit: PrivacyUnit
) -> str | None:
    """Return the name of the noisy vector that counts the people of a column's cells.

    This is a vector of the column itself, or else of another column that counts all people of a
    cell; None if there is none.
    """
    own = next((part for part in column.parts if part.aggregate.counts_people(unit)), None)
    if own is not None:
        return own.name
    for other in others:
        (*several, part) = other.parts
        counts_all = part.aggregate.column in (None, unit.id)
        if not several and counts_all and part.aggregate.counts_people(unit):
            return part.name
    return None


def people_column_text(unit: PrivacyUnit) -> str:
    """Return the declaration of a column that counts people, as in a release file."""
    return 'count: "*"' if unit.id is None else f"count_distinct: {unit.id}"


ColumnParser = Callable[[DeclaredColumns, DeclaredColumn], ColumnParts | None]


@cache
def keyword_functions() -> dict[str, ColumnParser]:
    """Return, for each aggregate keyword, the function that turns a column into measurements.

    The functions come from `BY_WORD` in all files that define it.
    """
    by_word: dict[str, ColumnParser] = {}
    for folder in (aggregates, forms):
        for file in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{file.name}")
            by_word |= getattr(module, "BY_WORD", {})
    return by_word


def column_parts(columns: DeclaredColumns, name: str, spec: ColumnSpec) -> ColumnParts | None:
    """Return the form of a declared column and its aggregates; None if the column is refused."""
    declared = DeclaredColumn.of(name, spec)
    if not (declared.column == "*" and WORDS[declared.kind].of_rows):
        for column in declared.columns:
            if column not in columns.table.columns:
                unknown = unknown_column(columns.table, column)
                unknown["nearest"] = _published_hint(columns, column) or unknown["nearest"]
                columns.refuse("DP-QUERY-001", "columns", name, declared.kind, **unknown)
                return None
    return keyword_functions()[declared.kind](columns, declared)


def _published_hint(columns: DeclaredColumns, name: str) -> str:
    """Return the text that a name is one of the query's columns; empty if it is not."""
    spec = columns.specs.get(name)
    if spec is None:
        return ""
    of = DeclaredColumn.of(name, spec).column
    return f" ('{name}' is a column of this query; name what it reads, '{of}')"


LARGEST_BASE = 2**61
"""Maximum base of rounding and of codes, in steps: noised values saturate at twice this number."""

SELECTION_MECHANISMS = ("exponential", "permute_and_flip")
"""The mechanisms that select among candidates; all other mechanisms add noise."""

COUNT_SPEC = ColumnSpec.model_validate({"count": "*"})


@dataclass
class AnswerCollector:
    """Collects the measurements and published columns of one query, and all its errors."""

    default: MechanismSpec
    neighbours: Neighbours
    cells: int
    declared: DeclaredColumns
    finest: tuple[int, int] | None = None
    """In a family: the number of finest cells, and the largest number of them in one cell."""
    quality: tuple[Fraction, ...] = ()
    """The limits of the quality classes; empty if no quality is published."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """The columns with published true values, and why they are published (`Measurement.exact`)."""
    measurements: list[Measurement] = field(default_factory=list)
    columns: list[OutputColumn] = field(default_factory=list)
    _shared: dict[object, int] = field(default_factory=dict)

    def add(self, name: str, spec: ColumnSpec) -> None:
        """Add one declared column, or an error if the column can't be measured."""
        computed = column_parts(self.declared, name, spec)
        if computed is None or any(
            self._refuse_column(name, spec, part) for _, part in computed.parts
        ):
            return
        form = computed.form
        shares = computed.shares or (Fraction(1),) * len(computed.parts)
        measurements = [
            self._find_or_add_measurement(
                name, spec, f"{name}.{label}" if label else name, aggregate, spec.weight * share
            )
            for (label, aggregate), share in zip(computed.parts, shares, strict=True)
        ]
        post = self._post_processing(name, spec, form, measurements[0])
        if form.separates_parts and len(measurements) > 1:
            for rank, measurement in enumerate(measurements, 1):
                self.columns.append(OutputColumn(f"{name}_{rank}", form, (measurement,), ""))
            return
        unit = computed.unit
        if unit is None:
            unit = form.unit([self._unit_of(aggregate) for _, aggregate in computed.parts])
        parts = tuple(measurements)
        has_quality = spec.has_quality and not parts[0].aggregate.time_unit
        quality = self.quality if has_quality else ()
        interval = spec.interval if spec.has_interval else None
        column = OutputColumn(name, form, parts, unit, spec.margin, post, computed.at, quality)
        is_weighted = WORDS[spec.aggregate_and_options[0]].is_weighted
        column = replace(
            column, groups=computed.groups, scale=computed.scale, is_weighted=is_weighted
        )
        self.columns.append(replace(column, interval=interval))

    def finish(self, *, has_summaries: bool) -> None:
        """Complete columns and measurements by what follows from all columns together.

        `has_summaries`: whether summaries are computed from all columns.
        """
        self._find_people()
        self._mark_sums_of_cells(
            {
                part.name
                for column in self.columns
                if has_summaries or column.form.needs_all_cells
                for part in column.parts
            }
        )

    def _mark_sums_of_cells(self, names: Set[str]) -> None:
        """Mark the measurements with these names as such whose cells are added up."""
        for place, one in enumerate(self.measurements):
            if one.name in names:
                self.measurements[place] = marked = replace(one, adds_cells=True)
                self.columns = [_with_measurement(column, marked) for column in self.columns]

    def _find_people(self) -> None:
        """Find the counts of people that suppression needs; refuse columns without one."""
        unit = self.declared.table.unit
        for i, column in enumerate(self.columns):
            if column.post.suppress_people is None:
                continue
            people = people_vector(column, self.columns, unit)
            if people is None:
                added = people_column_text(unit)
                self.declared.refuse(
                    "DP-QUERY-015", "columns", column.name, "suppress_below",
                    column=column.name, count=added,
                )  # fmt: skip
            else:
                self.columns[i] = replace(column, people=people)

    def add_keys(self, spec: PrivateKeysSpec, automatic: str) -> None:
        """Add the selection of private keys; `automatic` is the mechanism that `auto` stands for.

        If the selection adds noise to the number of privacy units, a column that counts privacy
        units publishes the same noised number.
        """
        unit = self.declared.table.unit.id
        aggregate: Aggregate = Partitions()
        shape = {} if spec.delta is None else {"delta": str(self._delta_of_cell(spec.delta))}
        mechanism = automatic if spec.mechanism == AUTO else spec.mechanism
        if mechanism != "partition_selection":
            aggregate = Count() if unit is None else CountDistinct(unit, None)
            # 0, because keys are added before any column.
            self._shared[aggregate, repr(self._mechanism_of(COUNT_SPEC, aggregate)), ""] = 0
        self.measurements.append(
            Measurement(
                name=PRIVATE_KEYS,
                aggregate=aggregate,
                sensitivity=self._sensitivity_of(aggregate),
                unit="units",
                mechanism=MechanismSpec.model_validate({"name": mechanism, **shape}),
                weight=spec.weight,
                charged_column=PRIVATE_KEYS,
                own=PRIVATE_KEYS,
                finds_keys=True,
            )
        )

    def _delta_of_cell(self, delta: Fraction) -> float:
        """Return the share of `delta` for each cell that one unit can change, rounded down."""
        sensitivity = self._sensitivity_of(Partitions())
        cells = sensitivity.slots * max(move.cells for move in sensitivity.moves)
        return round_down(delta / cells)

    def _find_or_add_measurement(
        self,
        charged_column: str,
        spec: ColumnSpec,
        name: str,
        aggregate: Aggregate,
        weight: Fraction,
    ) -> Measurement:
        """Return the measurement of an aggregate: an equal measurement, or else a new one.

        A column that declares its own share of the budget, or an accuracy, shares no measurement.
        """
        mechanism = self._mechanism_of(spec, aggregate)
        own = any(x is not None for x in (spec.epsilon, spec.rho, spec.margin_wanted))
        exact = self.exact.get(charged_column, "")
        # An exact column shares no measurement: a column with noise that read the same vector would
        # be published without noise.
        key = (aggregate, repr(mechanism), charged_column if own or exact else "")
        place = self._shared.setdefault(key, len(self.measurements))
        if place < len(self.measurements):
            known = self.measurements[place]
            together = known.weight + weight
            # Noise that serves several columns has to serve the one that needs most.
            weight = together if aggregate.sums_weights else max(known.weight, weight)
            if weight != known.weight:
                known = replace(known, weight=weight)
                self.measurements[place] = known
                self.columns = [_with_measurement(column, known) for column in self.columns]
            return known
        self.measurements.append(
            Measurement(
                name=name,
                aggregate=aggregate,
                sensitivity=self._sensitivity_of(aggregate),
                unit=self._unit_of(aggregate),
                mechanism=mechanism,
                weight=weight,
                charged_column=charged_column,
                confidence=spec.margin,
                wanted=spec.margin_wanted,
                own=charged_column if own else "",
                of_family=self.finest is not None,
                exact=exact,
            )
        )
        return self.measurements[-1]

    def _sensitivity_of(self, aggregate: Aggregate) -> Sensitivity:
        """Return how far one unit can change the cells of an aggregate."""
        unit = self.declared.table.unit
        if self.finest is None:
            return aggregate.sensitivity(unit, self.neighbours, self.cells)
        finest, most = self.finest
        return aggregate.sensitivity(unit, self.neighbours, finest).of_sums(self.cells, most)

    def _refuse_column(self, name: str, spec: ColumnSpec, aggregate: Aggregate) -> bool:
        """Return whether a column was refused: it never changes, or its mechanism doesn't fit."""
        if self._sensitivity_of(aggregate).largest_shift == 0:
            self.declared.refuse("DP-QUERY-005", "columns", name, column=name)
            return True
        if spec.mechanism is None or spec.mechanism.name == AUTO:
            return False
        if (aggregate.mechanisms or spec.mechanism.name in SELECTION_MECHANISMS) and (
            spec.mechanism.name not in aggregate.mechanisms
        ):
            known = ", ".join(sorted(aggregate.mechanisms)) or "a noise mechanism"
            self.declared.refuse(
                "DP-QUERY-011", "columns", name, "mechanism", column=name, known=known
            )
            return True
        return False

    def _mechanism_of(self, spec: ColumnSpec, aggregate: Aggregate) -> MechanismSpec:
        """Return the declared mechanism of a column, or that of its aggregate, or the default."""
        declared = spec.mechanism
        if aggregate.mechanisms:
            if declared is None or declared.name == AUTO:
                declared = MechanismSpec(name=aggregate.mechanisms[0])
            size = {"candidates": str(aggregate.candidates)}
            return MechanismSpec.model_validate({"name": declared.name, **declared.shape, **size})
        if declared is None and self.default.name in SELECTION_MECHANISMS:
            return MechanismSpec(name=AUTO)
        return declared or self.default

    def _post_processing(
        self, name: str, spec: ColumnSpec, form: Form, measurement: Measurement
    ) -> PostProcessing:
        """Return the declared post-processing of a column; refuse bases that are no whole steps."""
        for key in ("round_to", "bottom_code", "top_code") if form.on_lattice else ():
            value = getattr(spec, key)
            base = Fraction(1) if value is None else value / measurement.step
            if base.denominator != 1 or abs(base) > LARGEST_BASE:
                step = plain_text(measurement.step)
                self.declared.refuse(
                    "DP-QUERY-010", "columns", name, key, column=name, key=key, step=step
                )
        rule = spec.suppress_below or SuppressionSpec.model_construct()
        return PostProcessing(
            rule.value, spec.non_negative, spec.round_to, spec.bottom_code, spec.top_code,
            spec.labels, rule.people, spec.suppress_above,
        )  # fmt: skip

    def _unit_of(self, aggregate: Aggregate) -> str:
        """Return the unit in which an aggregate is published."""
        return aggregate.unit(self.declared.table.columns)


def _with_measurement(column: OutputColumn, measurement: Measurement) -> OutputColumn:
    """Return the column with the part of the same name replaced by this measurement."""
    parts = tuple(measurement if part.name == measurement.name else part for part in column.parts)
    return replace(column, parts=parts)
