"""Lower bounds of epsilon for the measurements of a release, and for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dprelease.auditing.black_box.asked_of_people import AskedRecord, of_parties, of_records
from dprelease.auditing.black_box.asked_of_tables import Asked, TableQuestions
from dprelease.auditing.black_box.drawn_answers import FRESH, Bits
from dprelease.auditing.black_box.proven_bounds import Group, Shown, prove_bounds
from dprelease.auditing.exact_pairs import Side, exact_sides
from dprelease.auditing.pairs import Pair
from dprelease.auditing.stage import Stage, Unanswered
from dprelease.documents.audits.audit_record import Bounded, Untried
from dprelease.planning.federated_plan import FederatedPlan
from dprelease.planning.local_plan import LocalPlan
from dprelease.planning.plan import Plan
from dprelease.query.resolve import Query

Named = tuple[str, str]
Worst = Mapping[Named, Pair]
Alone = Mapping[Named, Sequence[Pair]]

FEWER = 5
"""How many times fewer answers are drawn of pairs with nobody else there."""


def lower_bounds(
    stage: Stage,
    worst: Worst,
    until: float,
    progress: Callable[[str], None] = lambda _step: None,
    bits: Bits = FRESH,
    at_once: Sequence[Pair] = (),
    alone: Alone | None = None,
) -> tuple[list[Bounded], list[Untried], list[str]]:
    """Return lower bounds of epsilon, the questions that the time did not reach, and what failed.

    All bounds hold together at a confidence of 1 - 1e-9. What failed was left out as the engine
    does not answer.

    Parameters
    ----------
    worst
        The pair of tables that moved a measurement most, by names of query and measurement.
    at_once
        Pairs that moved many measurements together, for what is asked about whole releases.
    alone
        Of every measurement that is audited, pairs with nobody else there: true values of 0, next
        to the least and to the largest that a unit makes of them. Of single records, values all
        over those that a column can have.
    until
        `time.monotonic()` by which to be done: fewer answers are drawn where it is near, and what
        it does not reach has no bound.
    bits
        What gives every run of the noise stage its bits.
    """
    left_out: list[str] = []
    alone = alone or {}
    groups = list(_groups(stage, worst, at_once, alone, bits, left_out))
    number = sum(len(group.questions) for group in groups)
    progress(f"black box: {number} questions")
    found = list(prove_bounds(groups, until, bits))
    reached = {id(one.question) for one in found}
    left = dict.fromkeys(
        (question.query, question.column, question.mechanism)
        for group in groups
        for question in group.questions
        if id(question) not in reached
    ) | dict.fromkeys(_untested_measurements(stage, {*worst, *alone}, groups))
    untried = [Untried(query=q, column=column, mechanism=law) for q, column, law in left]
    return [_bound_record(one) for one in found], untried, left_out


def _untested_measurements(
    stage: Stage, names: set[Named], groups: Sequence[Group]
) -> Iterator[tuple[str, str, str]]:
    """Yield the measurements that no question is about, as no pair that is drawn moves them."""
    plan = stage.plan
    asked = {(one.query, one.column) for group in groups for one in group.questions}
    for column in plan.shares if isinstance(plan, FederatedPlan) else plan.noisy_columns:
        name = column.query.name, column.measurement.name
        if name in names and name not in asked:
            yield *name, column.measurement.mechanism.name


def _merge_pairs(
    worst: Worst, at_once: Sequence[Pair], alone: Alone
) -> list[tuple[Pair, set[Named], int]]:
    """Return each pair once: what it is drawn for, and how many times fewer answers."""
    merged: list[tuple[Pair, set[Named], int]] = []
    each = [(name, pair, 1) for name, pair in worst.items()]
    each += [(name, pair, FEWER) for name, pairs in alone.items() for pair in pairs]
    for name, pair, fewer in each:
        known = [names for other, names, _ in merged if other == pair]
        if known:
            known[0].add(name)
        else:
            merged.append((pair, {name}, fewer))
    pairs = [pair for pair, *_ in merged]
    return merged + [(pair, set(), 1) for pair in at_once if pair not in pairs]


def _groups(
    stage: Stage,
    worst: Worst,
    at_once: Sequence[Pair],
    alone: Alone,
    bits: Bits,
    left_out: list[str],
) -> Iterator[Group]:
    plan = stage.plan
    if isinstance(plan, LocalPlan):
        asked_records = [_record(stage, name, pair, 1) for name, pair in worst.items()]
        asked_records += [
            _record(stage, name, pair, FEWER) for name, pairs in alone.items() for pair in pairs
        ]
        yield from of_records(plan, asked_records)
        return
    pairs = _merge_pairs(worst, at_once, alone)
    exact = {column.query.name for column in plan.columns if column.measurement.exact}
    queries = {name for name, _ in worst} | exact
    asked = [query for query in stage.queries if query.name in queries]
    found: list[Asked] = []
    for pair, names, fewer in pairs:
        try:
            both = exact_sides(stage, pair, [q for q in asked if _reads(q, pair)])
        except Unanswered:
            left_out.append(f"draws about {pair.words}: the engine fails on it")
        else:
            found.append(Asked(both, frozenset(names), fewer))
    found = [one for one in found if _agree(one.sides, plan)]
    if isinstance(plan, FederatedPlan):
        federated = stage.declaration.spec.federated
        least = plan.parties if federated is None else federated.least
        yield from of_parties(plan, found, least)
        return
    yield from TableQuestions(plan, bits).groups(found)


def _reads(query: Query, pair: Pair) -> bool:
    """Return whether a pair has all tables that a query reads."""
    joined = [] if query.join is None else [query.join.declared.table]
    return all(table.name in pair.one for table in (query.declared.table, *joined))


def _agree(sides: tuple[Side, Side], plan: Plan) -> bool:
    """Return whether two tables are equal in all invariants: of others nothing is promised."""
    one, other = sides
    exact = [c for c in plan.columns if c.measurement.exact and c.query.name in one.tables]
    named = [(c.query.name, c.measurement.name) for c in exact]
    return all(np.array_equal(one.vector(*name), other.vector(*name)) for name in named)


def _record(stage: Stage, name: Named, pair: Pair, fewer: int) -> AskedRecord:
    """Return the values of two single records, by column."""
    (part,) = (part for part in stage.records if part.name == name[0])
    sides = []
    for tables in pair.sides:
        exact = stage.exact_records(part, tables)
        sides.append({c.name: int(exact.vector(c.name)[0]) for c in part.columns})
    return AskedRecord(*name, (sides[0], sides[1]), fewer)


def _bound_record(one: Shown) -> Bounded:
    question = one.question
    return Bounded(
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
