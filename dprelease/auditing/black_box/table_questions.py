"""Define questions about noisy tables: about each measurement, and about all of them together.

Some answers are drawn as in releases: one call of the noise stage for each answer, with new random
bits. A table with many equal cells shows only the noise of a cell. It can't show whether the next
release gets new noise, or whether the noise of one query is repeated in another query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dprelease.auditing.black_box.cell_sampling import QueryCells, Sides, distance, query_cells
from dprelease.auditing.black_box.drawn_answers import (
    Bits,
    ChoicesInCells,
    CombinedSources,
    Feature,
    NoisedCells,
    NumbersUnderKeys,
    SelectedKeys,
    Source,
    Stream,
    cell_differs,
    choice_names,
    choices_of,
    vectors_of,
)
from dprelease.auditing.black_box.noise_questions import (
    CHOICES,
    REPETITION,
    Claim,
    Question,
    make_question,
)
from dprelease.auditing.black_box.proven_bounds import Group
from dprelease.auditing.black_box.tiled_tables import KnownCells
from dprelease.noise.noised_answers import answer_query
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.query.aggregates.frequent import Frequent
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, eq=False)
class ReleasedCells:
    """The source of answers to one query in some cells, computed as in a release."""

    columns: tuple[PlannedColumn, ...]
    sides: tuple[KnownCells, KnownCells]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each number and cell, after those for the selection of keys."""
        one, moved = self.sides[0], self._keys_moved()
        found = []
        name = self.columns[0].query.name
        if one.names:
            found += [
                Feature(name, PRIVATE_KEYS, i, has_moved) for i, has_moved in enumerate(moved)
            ]
        for measurement, names in self._number_names():
            for _ in names:
                found += [
                    Feature(name, measurement, i, moved[i] or self._differ(measurement, i))
                    for i in range(one.cells)
                ]
        return tuple(found)

    def _number_names(self) -> list[tuple[str, list[str]]]:
        """Return the names of measurements, each with the names of its noisy numbers."""
        vectors = [(c.measurement.name, [c.measurement.name]) for c in vectors_of(self.columns)]
        return vectors + [(c.measurement.name, choice_names(c)) for c in choices_of(self.columns)]

    def _keys_moved(self) -> list[bool]:
        one, other = (side.units for side in self.sides)
        if one is None or other is None:
            return [False] * self.sides[0].cells
        moved: list[bool] = (one != other).tolist()
        return moved

    def _differ(self, measurement: str, cell: int) -> bool:
        one, other = self.sides
        if measurement in one.profiles:
            return cell_differs(one.profiles, other.profiles, measurement, cell)
        return bool(one.vectors[measurement][cell] != other.vectors[measurement][cell])

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n answers; 0 for keys that are not selected."""
        rows = [self._row(side, bits) for _ in range(n)]
        return np.stack(rows, axis=1)

    def _row(self, side: int, bits: Stream) -> Integers:
        known = self.sides[side]
        answer = answer_query(known, self.columns, bits)
        places: Integers = np.arange(known.cells, dtype=np.int64)
        parts = []
        if known.names:
            place = {name: i for i, name in enumerate(known.names)}
            (key,) = answer.query.keys.keys
            places = np.array([place[str(name)] for name in key.values], dtype=np.int64)
            appears: Integers = np.zeros(known.cells, dtype=np.int64)
            appears[places] = 1
            parts.append(appears)
        for measurement, names in self._number_names():
            base = self.sides[0].vectors.get(measurement, np.zeros(known.cells, dtype=np.int64))
            for name in names:
                row: Integers = np.zeros(known.cells, dtype=np.int64)
                row[places] = answer.noisy.columns[name] - base[places]
                parts.append(row)
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Releases:
    """The source of whole releases: all queries of a release use one stream of random bits."""

    queries: tuple[ReleasedCells, ...]
    bits: Bits

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of all queries."""
        return tuple(feature for query in self.queries for feature in query.features)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n releases, each with fresh bits."""
        columns = []
        for _ in range(n):
            own = self.bits()
            columns.append(np.concatenate([query.draw(1, side, own) for query in self.queries]))
        return np.concatenate(columns, axis=1)


DRAWS, CHOSEN, RELEASES = 10**6, 10**5, 4000
"""The target numbers of answers of each table, for noisy vectors, choices and whole releases."""

MOST_CELLS, MOST_CHOSEN = 16, 4
"""The maximum number of differing cells that are drawn for a query, and for its choices."""

MOST_NUMBERS = 160
"""The approximate maximum of numbers in a score."""

MOST_COLUMNS = 256
"""The maximum number of tested columns of one pair of tables."""

Names = frozenset[tuple[str, str]]


@dataclass(frozen=True, eq=False, slots=True)
class TestedPair:
    """A pair of tables, and the measurements that it tests."""

    sides: Sides
    measurements: Names
    fewer: int = 1
    """The factor by which fewer answers are drawn than for pairs with the largest changes."""


@dataclass(frozen=True, eq=False)
class TableQuestions:
    """The questions about a release of tables."""

    plan: Plan
    bits: Bits

    def groups(self, pairs: Sequence[TestedPair]) -> Iterator[Group]:
        """Yield the questions about every pair, and about whole releases for one of the pairs."""
        largest = max(
            pairs, key=lambda one: distance(one.sides, self.plan.noisy_columns), default=None
        )
        for one in pairs:
            yield from self._vector_questions(one, all_cells=one is largest)
            yield from self._questions_about_choices(one)
        if largest is not None:
            yield from self._release_questions(largest.sides)

    def _cells(
        self,
        sides: Sides,
        names: Names | None,
        is_included: Callable[[PlannedColumn], bool],
        most: int,
        *,
        neighbours: bool = False,
    ) -> list[QueryCells]:
        """Return the cells of all queries with included columns; only for `names`, if present."""
        columns = [
            c
            for c in self.plan.noisy_columns
            if is_included(c) and (names is None or _measurement_name(c) in names)
        ]
        queries: dict[str, list[PlannedColumn]] = {}
        for column in columns[:MOST_COLUMNS]:
            queries.setdefault(column.query.name, []).append(column)
        room = max(1, MOST_NUMBERS // max(1, len(columns)))
        found = (
            query_cells(sides, of_query, min(most, room), neighbours=neighbours and room > most)
            for of_query in queries.values()
            if of_query[0].query.name in sides[0].tables
        )
        return [cells for cells in found if cells is not None]

    def _claim_of_columns(self, columns: Sequence[PlannedColumn]) -> Claim:
        return Claim.of([column.accounting_input for column in columns], self.plan.guarantee.delta)

    @cached_property
    def _release_claim(self) -> Claim:
        """Return the guarantee of the release as a claim."""
        promise = self.plan.guarantee
        priced = [column.accounting_input for column in self.plan.noisy_columns]
        return Claim.of(priced, promise.delta, promise.epsilon)

    def _vector_questions(self, one: TestedPair, *, all_cells: bool) -> Iterator[Group]:
        names = None if all_cells else one.measurements
        parts = self._cells(one.sides, names, is_vector, MOST_CELLS, neighbours=True)
        source = CombinedSources(tuple(noise_source(cells) for cells in parts))
        columns = [column for cells in parts for column in vectors_of(cells.columns)]
        questions = [
            make_question(
                source.features,
                frozenset({_measurement_name(c)}),
                self._claim_of_columns([c]),
                _question_labels(c),
            )
            for c in columns
            if _measurement_name(c) in one.measurements
        ]
        if all_cells and len(columns) > 1:
            label = ("", "", "all noised numbers")
            questions.append(
                make_question(source.features, None, self._claim_of_columns(columns), label)
            )
        yield from _group(source, questions, DRAWS // one.fewer)

    def _questions_about_choices(self, one: TestedPair) -> Iterator[Group]:
        def is_choice_column(column: PlannedColumn) -> bool:
            # The numbers of units by key may be published with noise, and are then a vector, too.
            return not is_vector(column) or column.measurement.name == PRIVATE_KEYS

        names = frozenset(
            _measurement_name(part)
            for column in self.plan.noisy_columns
            if _measurement_name(column) in one.measurements and is_choice_column(column)
            for part in self._with_lower_ranks(column)
        )
        for cells in self._cells(one.sides, names, is_choice_column, MOST_CHOSEN):
            own = [c for c in cells.columns if _measurement_name(c) in one.measurements]
            if choices_of(cells.columns):
                yield from self._choice_questions(cells, own, CHOSEN // one.fewer)
            if cells.selecting is not None:
                yield from self._key_questions(cells, cells.selecting, DRAWS // one.fewer)

    def _choice_questions(
        self, cells: QueryCells, own: Sequence[PlannedColumn], draws: int
    ) -> Iterator[Group]:
        source = choice_source(cells)
        questions = []
        for column in choices_of(own):
            ranks = self._with_lower_ranks(column)
            names = frozenset(map(_measurement_name, ranks))
            claim = self._claim_of_columns(ranks)
            questions.append(
                make_question(source.features, names, claim, _question_labels(column), CHOICES)
            )
        yield from _group(source, questions, draws)

    def _key_questions(
        self, cells: QueryCells, column: PlannedColumn, draws: int
    ) -> Iterator[Group]:
        source = key_source(cells, column)
        question = make_question(
            source.features,
            None,
            self._claim_of_columns([column]),
            _question_labels(column),
            CHOICES,
        )
        yield from _group(source, [question], draws)

    def _with_lower_ranks(self, column: PlannedColumn) -> list[PlannedColumn]:
        """Return a choice and the choices of lower rank, whose candidates it can't select again."""
        aggregate = column.measurement.aggregate
        if not isinstance(aggregate, Frequent):
            return [column]
        lower = {replace(aggregate, rank=rank) for rank in range(1, aggregate.rank + 1)}
        kind = column.measurement.mechanism, column.measurement.own
        return [
            other
            for other in self.plan.of_query(column.query.name)
            if other.measurement.aggregate in lower
            and (other.measurement.mechanism, other.measurement.own) == kind
        ]

    def _release_questions(self, sides: Sides) -> Iterator[Group]:
        """Yield questions about whole releases: about all numbers together, and about
        repetitions."""
        parts = self._cells(sides, None, lambda _column: True, MOST_CHOSEN)
        label = "", "", "whole releases"
        if any(choices_of(cells.columns) or cells.selecting for cells in parts):
            source = CombinedSources(tuple(all_numbers_source(cells) for cells in parts))
            question = make_question(source.features, None, self._release_claim, label)
            yield from _group(source, [question], CHOSEN)
        drawn = Releases(tuple(release_source(cells) for cells in parts), self.bits)
        features = drawn.features
        claim = self._release_claim
        one_by_one = "", "", "releases one by one"
        questions = [make_question(features, None, claim, one_by_one, REPETITION)]
        for cells in parts:
            questions += self._repetition_questions(features, cells)
        yield from _group(drawn, questions, RELEASES)

    def _repetition_questions(
        self, features: Sequence[Feature], cells: QueryCells
    ) -> Iterator[Question | None]:
        """Yield a question about repeated answers for each measurement, with non-public keys."""
        keys = [] if cells.selecting is None else [cells.selecting]
        for column in cells.columns:
            if column is not cells.selecting:
                repeated = [*keys, *self._with_lower_ranks(column)]
                names = frozenset(map(_measurement_name, repeated))
                yield make_question(
                    features,
                    names,
                    self._claim_of_columns(repeated),
                    _question_labels(column),
                    REPETITION,
                )


def is_vector(column: PlannedColumn) -> bool:
    """Return whether the column has additive noise."""
    return column.measurement.is_vector


def _measurement_name(column: PlannedColumn) -> tuple[str, str]:
    return column.query.name, column.measurement.name


def _question_labels(column: PlannedColumn) -> tuple[str, str, str]:
    return (*_measurement_name(column), column.mechanism.name)


def _group(source: Source, questions: Sequence[Question | None], draws: int) -> Iterator[Group]:
    tested_questions = tuple(question for question in questions if question is not None)
    if tested_questions:
        yield Group(source, tested_questions, draws)


def noise_source(cells: QueryCells) -> NoisedCells:
    """Return the source of the noisy vectors of some cells."""
    places = tuple(cells.cells.tolist())
    return NoisedCells(vectors_of(cells.columns), places, cells.vectors)


def choice_source(cells: QueryCells) -> ChoicesInCells:
    """Return the source of the choices in some cells."""
    places = tuple(cells.cells.tolist())
    return ChoicesInCells(choices_of(cells.columns), places, cells.profiles)


def key_source(cells: QueryCells, selecting: PlannedColumn) -> SelectedKeys:
    """Return the source of the selection of non-public keys."""
    if cells.units is None:
        raise TypeError("public keys are not selected")
    return SelectedKeys(selecting, cells.units)


def all_numbers_source(cells: QueryCells) -> Source:
    """Return the source of all numbers that a release publishes about some cells."""
    parts: list[Source] = []
    if vectors_of(cells.columns):
        parts.append(noise_source(cells))
    if choices_of(cells.columns):
        parts.append(choice_source(cells))
    if cells.selecting is None:
        return CombinedSources(tuple(parts))
    return NumbersUnderKeys(key_source(cells, cells.selecting), tuple(parts))


def release_source(cells: QueryCells) -> ReleasedCells:
    """Return the source of answers about some cells, computed as in a release."""
    number = len(cells.cells)
    known: list[KnownCells] = []
    for side in (0, 1):
        units = None if cells.units is None else cells.units[side]
        known.append(
            KnownCells(cells.vectors[side], cells.profiles[side], number, cells.names, units)
        )
    return ReleasedCells(cells.columns, (known[0], known[1]))
