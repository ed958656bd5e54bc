"""The questions about single records, and about the messages of parties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.auditing.black_box.asked_cells import query_cells
from dprelease.auditing.black_box.asked_of_noise import (
    CHOICES,
    NUMBERS,
    Claim,
    Question,
    make_question,
)
from dprelease.auditing.black_box.asked_of_tables import Asked
from dprelease.auditing.black_box.drawn_answers import Feature, Several, Stream
from dprelease.auditing.black_box.proven_bounds import Group
from dprelease.auditing.black_box.tiled_tables import tiled_records, tiled_table
from dprelease.noise.noise_shares import messages
from dprelease.noise.noised_records import perturb_records
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import round_up
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.federated_plan import ROOM, FederatedPlan, ShareColumn, Trust
from dprelease.planning.local_plan import LocalColumn, LocalPlan
from dprelease.privacy.accounting import epsilon_at
from dprelease.privacy.rounded_shares import rounding_exponent

DRAWS = 10**6
MOST_CELLS = 16


@dataclass(frozen=True, eq=False, slots=True)
class AskedRecord:
    """Two single records by their values, and the column that they are asked about.

    `fewer`: as of `Asked`.
    """

    name: str
    column: str
    sides: tuple[Mapping[str, int], Mapping[str, int]]
    fewer: int = 1


@dataclass(frozen=True, eq=False)
class NoisedRecord:
    """One record, as it is and as another one in its place."""

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
        """Return how far noised numbers lie from the first record's, or the places answered."""
        exact = tiled_records(self.columns[0].query.name, self.sides[side], n)
        noisy = perturb_records(exact, self.columns, bits)
        rows = []
        for column in self.columns:
            own = column.column
            center = 0 if own.is_response else self.sides[0][own.name]
            rows.append(noisy[own.name] - center)
        return np.stack(rows)


def of_records(plan: LocalPlan, pairs: Sequence[AskedRecord]) -> Iterator[Group]:
    """Yield the questions about single records: each column, and all columns of a record."""
    delta = plan.guarantee.delta
    for pair in pairs:
        name, wanted = pair.name, pair.column
        columns = tuple(c for c in plan.of_records(name) if c.column.name in pair.sides[0])
        source = NoisedRecord(columns, pair.sides)
        questions = []
        for column in columns:
            if column.column.name == wanted:
                names = frozenset({(name, wanted)})
                style = CHOICES if column.column.is_response else NUMBERS
                told = name, wanted, column.mechanism.name
                claim = Claim.of([column.accounting_input], delta)
                questions.append(make_question(source.features, names, claim, told, style))
        if (
            len(columns) > 1
            and pair.fewer == 1
            and len({other.column for other in pairs if other.name == name}) > 1
        ):
            claim = Claim.of([column.accounting_input for column in columns], delta)
            questions.append(
                make_question(source.features, None, claim, (name, "", "whole records"))
            )
        held = tuple(question for question in questions if question is not None)
        if held:
            yield Group(source, held, DRAWS // pair.fewer)


@dataclass(frozen=True, eq=False)
class SumsOfParties:
    """The sum of the messages of parties that add noise; one of them has the tables that differ."""

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
        """Return how far the sums lie, modulo 2^64, from the first table's true values."""
        empty = {name: np.zeros_like(vector) for name, vector in self.sides[0].items()}
        totals: dict[str, Integers] = {}
        for party in range(self.honest):
            vectors = self.sides[side] if party == 0 else empty
            exact = tiled_table(self.shares[0].query.name, vectors, {}, n)
            for name, sent in messages(exact, self.shares, self.parties, bits).items():
                totals[name] = totals[name] + sent if name in totals else sent
        rows = []
        for share in self.shares:
            name = share.measurement.name
            drawn = totals[name].reshape(n, len(self.cells)).T
            rows.append(drawn - (self.sides[0][name] * share.refined)[:, None])
        return np.concatenate(rows)


def of_parties(plan: FederatedPlan, pairs: Sequence[Asked], least: int) -> Iterator[Group]:
    """Yield the questions about sums of messages: with as few honest parties as the budget needs.

    And of one alone, whose promise the plan tells as well.
    """
    for trust in plan.trusts:
        if trust.honest not in (least, 1):
            continue
        for pair in pairs:
            yield from _of_trust(plan, trust, pair)


def _of_trust(plan: FederatedPlan, trust: Trust, pair: Asked) -> Iterator[Group]:
    sources, sides = [], pair.sides
    for name in dict.fromkeys(column.query.name for column in plan.columns):
        if name in sides[0].tables:
            held = query_cells(sides, plan.of_query(name), MOST_CELLS, beside=False)
            if held is not None:
                shares = plan.of_shares(name)
                sources.append(
                    SumsOfParties(shares, plan.parties, trust.honest, held.cells, held.vectors)
                )
    source = Several(tuple(sources))
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
    promise = trust.guarantee
    claim = Claim(promise.delta, promise.epsilon)
    questions.append(make_question(source.features, None, claim, ("", "", honest)))
    held_questions: list[Question] = [question for question in questions if question is not None]
    if held_questions:
        yield Group(source, tuple(held_questions), DRAWS // pair.fewer)


def _claim_of_share(share: ShareColumn, trust: Trust) -> Claim:
    """Return what one measurement's sums cost; see `privacy/rounded_shares.py`."""
    law, delta = share.sum_law(trust.honest), trust.guarantee.delta
    alone = epsilon_at([make_accounting_input(law, share.fine_sensitivity)], delta * ROOM)
    exponent = rounding_exponent(share.law.alpha, share.law.scale, trust.honest)
    more = 2 * share.cells_of_unit * Fraction(exponent)
    return Claim(delta, round_up(Fraction(alone) + more))
