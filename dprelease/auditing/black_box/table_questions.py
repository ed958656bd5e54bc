"""Define questions about noisy tables: about each measurement, and about all measurements together.

For some questions, answers are drawn as in releases: each answer is one call of the noise stage,
with new random bits. The many equal cells of a tiled table show only the noise of a cell. They
can't show whether the next release gets new noise, or whether the noise of one query is repeated in
another query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dprelease.auditing.black_box.cell_sampling import (
    QueryCells,
    Sides,
    all_numbers_source,
    choice_source,
    distinguishability,
    key_source,
    noise_source,
    query_cells,
)
from dprelease.auditing.black_box.drawn_answers import (
    BitFactory,
    CombinedSources,
    Feature,
    Source,
    Stream,
    cell_differs,
    choice_columns,
    choice_names,
    vector_columns,
)
from dprelease.auditing.black_box.noise_questions import (
    CHOICES,
    REPETITION,
    Claim,
    Question,
    make_question,
)
from dprelease.auditing.black_box.proven_bounds import QuestionGroup
from dprelease.auditing.black_box.tiled_tables import FixedAnswers
from dprelease.noise.noised_answers import answer_query
from dprelease.numerics.lattice import Integers
from dprelease.planning.plan import Plan, PlannedColumn
from dprelease.query.aggregates.frequent import Frequent
from dprelease.schema.release import PRIVATE_KEYS


@dataclass(frozen=True, eq=False)
class ReleasedCells:
    """The source of answers to one query in some cells, each drawn as in a release."""

    columns: tuple[PlannedColumn, ...]
    sides: tuple[FixedAnswers, FixedAnswers]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for the selection of each key, then one for each number and cell."""
        one, differing = self.sides[0], self._differing_keys()
        found = []
        name = self.columns[0].query.name
        if one.names:
            found += [
                Feature(name, PRIVATE_KEYS, i, differs) for i, differs in enumerate(differing)
            ]
        for measurement, names in self._number_names():
            for _ in names:
                found += [
                    Feature(name, measurement, i, differing[i] or self._differs(measurement, i))
                    for i in range(one.cells)
                ]
        return tuple(found)

    def _number_names(self) -> list[tuple[str, list[str]]]:
        """Return the name of each measurement, with the names of its noisy numbers."""
        vectors = [(c.measurement.name, [c.measurement.name]) for c in vector_columns(self.columns)]
        return vectors + [
            (c.measurement.name, choice_names(c)) for c in choice_columns(self.columns)
        ]

    def _differing_keys(self) -> list[bool]:
        """Return, for each cell, whether its number of units differs between the two tables."""
        one, other = (side.units for side in self.sides)
        if one is None or other is None:
            return [False] * self.sides[0].cells
        differing: list[bool] = (one != other).tolist()
        return differing

    def _differs(self, measurement: str, cell: int) -> bool:
        """Return whether a measurement of a cell has different true values in the two tables."""
        one, other = self.sides
        if measurement in one.profiles:
            return cell_differs(one.profiles, other.profiles, measurement, cell)
        return bool(one.vectors[measurement][cell] != other.vectors[measurement][cell])

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n answers, which are 0 for keys that are not selected."""
        rows = [self._draw_answer(side, bits) for _ in range(n)]
        return np.stack(rows, axis=1)

    def _draw_answer(self, side: int, bits: Stream) -> Integers:
        """Return the numbers of one new answer."""
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
    """The source of whole releases, in which all queries use one stream of random bits."""

    queries: tuple[ReleasedCells, ...]
    bits: BitFactory

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return the features of all queries."""
        return tuple(feature for query in self.queries for feature in query.features)

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the numbers of n releases, each of which is drawn with new random bits."""
        columns = []
        for _ in range(n):
            own = self.bits()
            columns.append(np.concatenate([query.draw(1, side, own) for query in self.queries]))
        return np.concatenate(columns, axis=1)


DRAWS, CHOICE_DRAWS, RELEASE_DRAWS = 10**6, 10**5, 4000
"""The target numbers of answers of each table: for noisy vectors, choices and whole releases."""

MOST_CELLS, MOST_CHOICE_CELLS = 16, 4
"""The maximum numbers of differing cells that are drawn: for a query, and for its choices."""

MOST_NUMBERS = 160
"""The approximate maximum number of an answer's numbers in a score."""

MOST_COLUMNS = 256
"""The maximum number of tested columns of one pair of tables."""

MeasurementNames = frozenset[tuple[str, str]]


@dataclass(frozen=True, eq=False, slots=True)
class TestedPair:
    """A pair of tables, and the measurements that are tested on it."""

    sides: Sides
    measurements: MeasurementNames
    draws_divisor: int = 1
    """The number by which the target numbers of answers are divided."""


@dataclass(frozen=True, eq=False)
class TableQuestions:
    """The questions about a release of tables."""

    plan: Plan
    bits: BitFactory

    def groups(self, pairs: Sequence[TestedPair]) -> Iterator[QuestionGroup]:
        """Yield the questions about every pair, and the questions about whole releases.

        Whole releases are drawn for the pair whose tables can be distinguished best.
        """
        largest = max(
            pairs,
            key=lambda one: distinguishability(one.sides, self.plan.noisy_columns),
            default=None,
        )
        for one in pairs:
            yield from self._vector_questions(one, all_cells=one is largest)
            yield from self._choice_and_key_questions(one)
        if largest is not None:
            yield from self._release_questions(largest.sides)

    def _cells(
        self,
        sides: Sides,
        names: MeasurementNames | None,
        is_included: Callable[[PlannedColumn], bool],
        most: int,
        *,
        with_equal_cells: bool = False,
    ) -> list[QueryCells]:
        """Return the cells of all queries with included columns.

        With `names`, only the columns with these names are included.
        """
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
            query_cells(
                sides, of_query, min(most, room), with_equal_cells=with_equal_cells and room > most
            )
            for of_query in queries.values()
            if of_query[0].query.name in sides[0].tables
        )
        return [cells for cells in found if cells is not None]

    def _claim_of_columns(self, columns: Sequence[PlannedColumn]) -> Claim:
        """Return the claim of the accountant about some columns together."""
        return Claim.of([column.accounting_input for column in columns], self.plan.guarantee.delta)

    @cached_property
    def _release_claim(self) -> Claim:
        guarantee = self.plan.guarantee
        priced = [column.accounting_input for column in self.plan.noisy_columns]
        return Claim.of(priced, guarantee.delta, guarantee.epsilon)

    def _vector_questions(self, one: TestedPair, *, all_cells: bool) -> Iterator[QuestionGroup]:
        """Yield the questions about noisy vectors, one by one and possibly all together."""
        names = None if all_cells else one.measurements
        parts = self._cells(one.sides, names, is_vector, MOST_CELLS, with_equal_cells=True)
        source = CombinedSources(tuple(noise_source(cells) for cells in parts))
        columns = [column for cells in parts for column in vector_columns(cells.columns)]
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
        yield from _question_groups(source, questions, DRAWS // one.draws_divisor)

    def _choice_and_key_questions(self, one: TestedPair) -> Iterator[QuestionGroup]:
        """Yield the questions about choices and about selections of keys."""

        def is_choice_column(column: PlannedColumn) -> bool:
            """Return whether a column has choices, or the numbers of units of keys."""
            # If the numbers of units of keys are published with noise, they are also a vector.
            return not is_vector(column) or column.measurement.name == PRIVATE_KEYS

        names = frozenset(
            _measurement_name(part)
            for column in self.plan.noisy_columns
            if _measurement_name(column) in one.measurements and is_choice_column(column)
            for part in self._with_lower_ranks(column)
        )
        for cells in self._cells(one.sides, names, is_choice_column, MOST_CHOICE_CELLS):
            own = [c for c in cells.columns if _measurement_name(c) in one.measurements]
            if choice_columns(cells.columns):
                yield from self._choice_questions(cells, own, CHOICE_DRAWS // one.draws_divisor)
            if cells.key_selection is not None:
                yield from self._key_questions(
                    cells, cells.key_selection, DRAWS // one.draws_divisor
                )

    def _choice_questions(
        self, cells: QueryCells, own: Sequence[PlannedColumn], draws: int
    ) -> Iterator[QuestionGroup]:
        """Yield a question about each column of choices."""
        source = choice_source(cells)
        questions = []
        for column in choice_columns(own):
            ranks = self._with_lower_ranks(column)
            names = frozenset(map(_measurement_name, ranks))
            claim = self._claim_of_columns(ranks)
            questions.append(
                make_question(source.features, names, claim, _question_labels(column), CHOICES)
            )
        yield from _question_groups(source, questions, draws)

    def _key_questions(
        self, cells: QueryCells, column: PlannedColumn, draws: int
    ) -> Iterator[QuestionGroup]:
        """Yield the question about the selection of keys by a column."""
        source = key_source(cells, column)
        question = make_question(
            source.features,
            None,
            self._claim_of_columns([column]),
            _question_labels(column),
            CHOICES,
        )
        yield from _question_groups(source, [question], draws)

    def _with_lower_ranks(self, column: PlannedColumn) -> list[PlannedColumn]:
        """Return a choice with the choices of lower rank, whose candidates it can't select."""
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

    def _release_questions(self, sides: Sides) -> Iterator[QuestionGroup]:
        """Yield questions about all numbers of a release together, and about repeated answers."""
        parts = self._cells(sides, None, lambda _column: True, MOST_CHOICE_CELLS)
        label = "", "", "whole releases"
        if any(choice_columns(cells.columns) or cells.key_selection for cells in parts):
            source = CombinedSources(tuple(all_numbers_source(cells) for cells in parts))
            question = make_question(source.features, None, self._release_claim, label)
            yield from _question_groups(source, [question], CHOICE_DRAWS)
        drawn = Releases(tuple(release_source(cells) for cells in parts), self.bits)
        features = drawn.features
        claim = self._release_claim
        one_by_one = "", "", "releases one by one"
        questions = [make_question(features, None, claim, one_by_one, REPETITION)]
        for cells in parts:
            questions += self._repetition_questions(features, cells)
        yield from _question_groups(drawn, questions, RELEASE_DRAWS)

    def _repetition_questions(
        self, features: Sequence[Feature], cells: QueryCells
    ) -> Iterator[Question | None]:
        """Yield a question about repeated answers for each measurement; None if it has none.

        A question also includes the selection of non-public keys.
        """
        keys = [] if cells.key_selection is None else [cells.key_selection]
        for column in cells.columns:
            if column is not cells.key_selection:
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


def _question_groups(
    source: Source, questions: Sequence[Question | None], draws: int
) -> Iterator[QuestionGroup]:
    """Yield the group of all questions that are not None, if there are any."""
    tested_questions = tuple(question for question in questions if question is not None)
    if tested_questions:
        yield QuestionGroup(source, tested_questions, draws)


def release_source(cells: QueryCells) -> ReleasedCells:
    """Return the source of answers about some cells, which are drawn as in a release."""
    number = len(cells.cells)
    known: list[FixedAnswers] = []
    for side in (0, 1):
        units = None if cells.units is None else cells.units[side]
        known.append(
            FixedAnswers(cells.vectors[side], cells.profiles[side], number, cells.names, units)
        )
    return ReleasedCells(cells.columns, (known[0], known[1]))
