"""Compute lower bounds of epsilon for each measurement of a release, and for the whole release.

This module also defines the questions about single records, and about the messages of parties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.auditing.black_box.cell_sampling import query_cells
from dprelease.auditing.black_box.drawn_answers import (
    FRESH_BITS,
    BitFactory,
    CombinedSources,
    Feature,
    Stream,
)
from dprelease.auditing.black_box.noise_questions import (
    CHOICES,
    NUMBERS,
    Claim,
    Question,
    make_question,
)
from dprelease.auditing.black_box.proven_bounds import QuestionGroup, QuestionResult, prove_bounds
from dprelease.auditing.black_box.table_questions import TableQuestions, TestedPair
from dprelease.auditing.black_box.tiled_tables import tiled_records, tiled_table
from dprelease.auditing.exact_pairs import Side, exact_sides
from dprelease.auditing.pairs import Pair
from dprelease.auditing.stage import AuditedRelease, EngineFailure
from dprelease.documents.audit_record import EpsilonBound, UntestedPart
from dprelease.noise.noised_vectors import noised_messages, perturb_records
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import round_up
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.federated_plan import NOISE_FRACTION, FederatedPlan, ShareColumn, Trust
from dprelease.planning.local_plan import LocalColumn, LocalPlan
from dprelease.planning.plan import Plan
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.losses.stable import rounding_exponent
from dprelease.query.resolve import Query

DRAWS = 10**6
MOST_CELLS = 16


@dataclass(frozen=True, eq=False, slots=True)
class RecordPair:
    """Two single records, as values by column, and the column that is tested on them.

    The target number of answers is divided by `draws_divisor`.
    """

    name: str
    column: str
    sides: tuple[Mapping[str, int], Mapping[str, int]]
    draws_divisor: int = 1


@dataclass(frozen=True, eq=False)
class NoisedRecord:
    """The source of noisy copies of one record, and of noisy copies of its replacement."""

    columns: tuple[LocalColumn, ...]
    sides: tuple[Mapping[str, int], Mapping[str, int]]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each column."""
        one, other = self.sides
        return tuple(
            Feature(c.query.name, c.column.name, 0, one[c.column.name] != other[c.column.name])
            for c in self.columns
        )

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return noisy values of each column.

        For randomized response, these are indices of declared values. For other mechanisms, these
        are differences between the noisy value and the true value of the first record.
        """
        exact = tiled_records(self.columns[0].query.name, self.sides[side], n)
        noisy = perturb_records(exact, self.columns, bits)
        rows = []
        for column in self.columns:
            own = column.column
            center = 0 if own.is_response else self.sides[0][own.name]
            rows.append(noisy[own.name] - center)
        return np.stack(rows)


def record_questions(plan: LocalPlan, pairs: Sequence[RecordPair]) -> Iterator[QuestionGroup]:
    """Yield questions about each column of single records, and about all columns together."""
    delta = plan.guarantee.delta
    for pair in pairs:
        name, column_name = pair.name, pair.column
        columns = tuple(c for c in plan.of_records(name) if c.column.name in pair.sides[0])
        source = NoisedRecord(columns, pair.sides)
        questions = []
        for column in columns:
            if column.column.name == column_name:
                names = frozenset({(name, column_name)})
                style = CHOICES if column.column.is_response else NUMBERS
                label = name, column_name, column.mechanism.name
                claim = Claim.of([column.accounting_input], delta)
                questions.append(make_question(source.features, names, claim, label, style))
        if (
            len(columns) > 1
            and pair.draws_divisor == 1
            and len({other.column for other in pairs if other.name == name}) > 1
        ):
            claim = Claim.of([column.accounting_input for column in columns], delta)
            questions.append(
                make_question(source.features, None, claim, (name, "", "whole records"))
            )
        tested_questions = tuple(question for question in questions if question is not None)
        if tested_questions:
            yield QuestionGroup(source, tested_questions, DRAWS // pair.draws_divisor)


@dataclass(frozen=True, eq=False)
class SumsOfParties:
    """The source of sums of the messages of several parties, of which one party's table differs."""

    shares: tuple[ShareColumn, ...]
    parties: int
    honest: int
    cells: Integers
    sides: tuple[Mapping[str, Integers], Mapping[str, Integers]]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Return a feature for each measurement and cell."""
        one, other = self.sides
        return tuple(
            Feature(share.query.name, share.measurement.name, cell, bool(a != b))
            for share in self.shares
            for cell, a, b in zip(
                self.cells.tolist(),
                one[share.measurement.name].tolist(),
                other[share.measurement.name].tolist(),
                strict=True,
            )
        )

    def draw(self, n: int, side: int, bits: Stream) -> Integers:
        """Return the differences between the sums and the first table's values, modulo 2^64."""
        empty = {name: np.zeros_like(vector) for name, vector in self.sides[0].items()}
        totals: dict[str, Integers] = {}
        for party in range(self.honest):
            vectors = self.sides[side] if party == 0 else empty
            exact = tiled_table(self.shares[0].query.name, vectors, {}, n)
            for name, sent in noised_messages(exact, self.shares, self.parties, bits).items():
                totals[name] = totals[name] + sent if name in totals else sent
        rows = []
        for share in self.shares:
            name = share.measurement.name
            drawn = totals[name].reshape(n, len(self.cells)).T
            rows.append(drawn - (self.sides[0][name] * share.refined)[:, None])
        return np.concatenate(rows)


def party_questions(
    plan: FederatedPlan, pairs: Sequence[TestedPair], least: int
) -> Iterator[QuestionGroup]:
    """Yield questions about sums of messages with `least` honest parties.

    The function also yields the questions about a single honest party, for which the plan has
    another guarantee.
    """
    for trust in plan.trusts:
        if trust.honest not in (least, 1):
            continue
        for pair in pairs:
            yield from _questions_about_trust(plan, trust, pair)


def _questions_about_trust(
    plan: FederatedPlan, trust: Trust, pair: TestedPair
) -> Iterator[QuestionGroup]:
    """Yield the questions about sums of messages for one number of honest parties."""
    sources, sides = [], pair.sides
    for name in dict.fromkeys(column.query.name for column in plan.columns):
        if name in sides[0].tables:
            cells = query_cells(sides, plan.of_query(name), MOST_CELLS, with_equal_cells=False)
            if cells is not None:
                shares = plan.of_shares(name)
                sources.append(
                    SumsOfParties(shares, plan.parties, trust.honest, cells.cells, cells.vectors)
                )
    source = CombinedSources(tuple(sources))
    honest = f"sums, {trust.honest} honest"
    questions = [
        make_question(
            source.features,
            frozenset({(share.query.name, share.measurement.name)}),
            _claim_of_share(share, trust),
            (share.query.name, share.measurement.name, honest),
        )
        for one in sources
        for share in one.shares
    ]
    guarantee = trust.guarantee
    claim = Claim(guarantee.delta, guarantee.epsilon)
    questions.append(make_question(source.features, None, claim, ("", "", honest)))
    held_questions: list[Question] = [question for question in questions if question is not None]
    if held_questions:
        yield QuestionGroup(source, tuple(held_questions), DRAWS // pair.draws_divisor)


def _claim_of_share(share: ShareColumn, trust: Trust) -> Claim:
    """Return the claim about the sums of one measurement, as in `privacy/losses/stable.py`."""
    mechanism, delta = share.sum_mechanism(trust.honest), trust.guarantee.delta
    alone = epsilon_at(
        [make_accounting_input(mechanism, share.fine_sensitivity)], delta * NOISE_FRACTION
    )
    exponent = rounding_exponent(share.mechanism.alpha, share.mechanism.scale, trust.honest)
    more = 2 * share.cells_of_unit * Fraction(exponent)
    return Claim(delta, round_up(Fraction(alone) + more))


MeasurementName = tuple[str, str]
WorstPairs = Mapping[MeasurementName, Pair]
PairsAlone = Mapping[MeasurementName, Sequence[Pair]]

DRAWS_DIVISOR = 5
"""The number by which the target numbers of answers are divided for pairs without other units."""


def lower_bounds(
    audited: AuditedRelease,
    worst: WorstPairs,
    until: float,
    progress: Callable[[str], None] = lambda _step: None,
    bits: BitFactory = FRESH_BITS,
    joint_pairs: Sequence[Pair] = (),
    alone: PairsAlone | None = None,
) -> tuple[list[EpsilonBound], list[UntestedPart], list[str]]:
    """Return lower bounds of epsilon, the untested parts of the release, and texts on failures.

    All bounds hold together with a confidence of 1 - 1e-9. Pairs on which the engine fails are left
    out.

    - `worst`: the pair of tables with the largest change of each measurement, by the names of its
      query and of the measurement.
    - `joint_pairs`: pairs that change many measurements together, for questions about whole
      releases.
    - `alone`: pairs without other units, by measurement. In these pairs, a true value of 0 changes
      to the smallest or to the largest value that one unit can cause. For single records, the pairs
      have values across the range of each column.
    - `until`: the deadline, by `time.monotonic()`. Near the deadline fewer answers are drawn, and
      questions that are left after it have no bound.
    - `bits`: a function that returns a stream of random bits for each run of the noise stage.
    """
    left_out: list[str] = []
    alone = alone or {}
    groups = list(_question_groups(audited, worst, joint_pairs, alone, bits, left_out))
    number = sum(len(group.questions) for group in groups)
    progress(f"black box: {number} questions")
    found = list(prove_bounds(groups, until, bits))
    reached = {id(one.question) for one in found}
    left = dict.fromkeys(
        (question.query, question.column, question.mechanism)
        for group in groups
        for question in group.questions
        if id(question) not in reached
    ) | dict.fromkeys(_untested_measurements(audited, {*worst, *alone}, groups))
    untried = [
        UntestedPart(query=q, column=column, mechanism=mechanism) for q, column, mechanism in left
    ]
    return [_epsilon_bound(one) for one in found], untried, left_out


def _untested_measurements(
    audited: AuditedRelease, names: set[MeasurementName], groups: Sequence[QuestionGroup]
) -> Iterator[tuple[str, str, str]]:
    """Yield the measurements without a question, which no pair changes."""
    plan = audited.plan
    tested_columns = {(one.query, one.column) for group in groups for one in group.questions}
    for column in plan.shares if isinstance(plan, FederatedPlan) else plan.noisy_columns:
        name = column.query.name, column.measurement.name
        if name in names and name not in tested_columns:
            yield *name, column.measurement.mechanism.name


def _merge_pairs(
    worst: WorstPairs, joint_pairs: Sequence[Pair], alone: PairsAlone
) -> list[tuple[Pair, set[MeasurementName], int]]:
    """Return each pair of tables once, with its measurements and its divisor.

    The divisor is the number by which the target number of answers for the pair is divided.
    """
    merged: list[tuple[Pair, set[MeasurementName], int]] = []
    each = [(name, pair, 1) for name, pair in worst.items()]
    each += [(name, pair, DRAWS_DIVISOR) for name, pairs in alone.items() for pair in pairs]
    for name, pair, draws_divisor in each:
        known = [names for other, names, _ in merged if other == pair]
        if known:
            known[0].add(name)
        else:
            merged.append((pair, {name}, draws_divisor))
    pairs = [pair for pair, *_ in merged]
    return merged + [(pair, set(), 1) for pair in joint_pairs if pair not in pairs]


def _question_groups(
    audited: AuditedRelease,
    worst: WorstPairs,
    joint_pairs: Sequence[Pair],
    alone: PairsAlone,
    bits: BitFactory,
    left_out: list[str],
) -> Iterator[QuestionGroup]:
    """Yield the questions about the release, and add texts on failures to `left_out`."""
    plan = audited.plan
    if isinstance(plan, LocalPlan):
        record_pairs = [_record_pair(audited, name, pair, 1) for name, pair in worst.items()]
        record_pairs += [
            _record_pair(audited, name, pair, DRAWS_DIVISOR)
            for name, pairs in alone.items()
            for pair in pairs
        ]
        yield from record_questions(plan, record_pairs)
        return
    pairs = _merge_pairs(worst, joint_pairs, alone)
    exact = {column.query.name for column in plan.columns if column.measurement.exact}
    queries = {name for name, _ in worst} | exact
    queries_of_group = [query for query in audited.queries if query.name in queries]
    found: list[TestedPair] = []
    for pair, names, draws_divisor in pairs:
        try:
            both = exact_sides(
                audited, pair, [q for q in queries_of_group if _has_tables_of(q, pair)]
            )
        except EngineFailure:
            left_out.append(f"draws about {pair.description}: the engine fails on it")
        else:
            found.append(TestedPair(both, frozenset(names), draws_divisor))
    found = [one for one in found if _have_equal_invariants(one.sides, plan)]
    if isinstance(plan, FederatedPlan):
        federated = audited.declaration.spec.federated
        least = plan.parties if federated is None else federated.least
        yield from party_questions(plan, found, least)
        return
    yield from TableQuestions(plan, bits).groups(found)


def _has_tables_of(query: Query, pair: Pair) -> bool:
    joined = [] if query.join is None else [query.join.declared.table]
    return all(table.name in pair.one for table in (query.declared.table, *joined))


def _have_equal_invariants(sides: tuple[Side, Side], plan: Plan) -> bool:
    """Return whether both sides have equal invariants, as the guarantee requires."""
    one, other = sides
    exact = [c for c in plan.columns if c.measurement.exact and c.query.name in one.tables]
    named = [(c.query.name, c.measurement.name) for c in exact]
    return all(np.array_equal(one.vector(*name), other.vector(*name)) for name in named)


def _record_pair(
    audited: AuditedRelease, name: MeasurementName, pair: Pair, draws_divisor: int
) -> RecordPair:
    """Return the values of two single records, by column."""
    (part,) = (part for part in audited.records if part.name == name[0])
    sides = []
    for tables in pair.sides:
        exact = audited.exact_records(part, tables)
        sides.append({c.name: int(exact.vector(c.name)[0]) for c in part.columns})
    return RecordPair(*name, (sides[0], sides[1]), draws_divisor)


def _epsilon_bound(one: QuestionResult) -> EpsilonBound:
    """Return the bound of epsilon as it is recorded in the outcome of the audit."""
    question = one.question
    return EpsilonBound(
        query=question.query,
        column=question.column,
        mechanism=question.mechanism,
        draws=one.draws,
        tested=one.tested,
        hits=list(one.hits),
        claimed=one.claimed,
        delta=float(one.delta),
        bound=one.epsilon,
        statistic=one.statistic,
        holds=one.epsilon <= one.claimed,
    )
