"""The plan of a federated release: the share of noise of each party, and trust assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from flint import ctx

from dprelease.errors import BudgetError, DpReleaseError, Place, QueryError, raise_all
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import LIMIT
from dprelease.numerics.rounding import plain_text, round_down, round_up
from dprelease.planning.budget_shares import shares_of
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.families.family_plan import refuse_families
from dprelease.planning.guarantees import budget_findings, guarantee_of
from dprelease.planning.largest_totals import too_large_total_errors
from dprelease.planning.plan import PlaceOfColumn, Plan, PlannedColumn, make_plan
from dprelease.privacy.guarantee import Event, Guarantee
from dprelease.privacy.losses.stable import rounding_exponent
from dprelease.privacy.unit import Sensitivity
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.measurement import Measurement
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.query.resolve import Query, resolve
from dprelease.schema.load import Declaration
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.release import BudgetSpec
from dprelease.schema.release_parts.local_and_federated import FederatedSpec

NOISE_FRACTION = Fraction(1023, 1024)
"""Fraction of the budget that the noise of the honest parties spends; the parties' rounding may
cost the rest."""

MOST_REFINED = 2**40


@dataclass(frozen=True, slots=True)
class ShareColumn:
    """One column of messages, to which every party adds its share of the noise.

    Each party adds noise by `mechanism`, in steps of 1 / `refined` of a column's step.
    """

    query: Query
    measurement: Measurement
    mechanism: SymmetricAlphaStable
    refined: int
    chosen_by: str

    def sum_mechanism(self, parties: int) -> SymmetricAlphaStable:
        """Return the noise of the sum of so many shares, with its scale rounded down."""
        if parties == 1:
            return self.mechanism
        with ctx.workprec(128):
            scale = ball(self.mechanism.scale) * ball(parties) ** (1 / ball(self.mechanism.alpha))
            mantissa, exponent = (int(part) for part in scale.lower().man_exp())
        # Rounded down: the guarantee is computed for at most the noise that the sum has.
        lower = round_down(Fraction(mantissa) * Fraction(2) ** exponent)
        return SymmetricAlphaStable(lower, self.mechanism.alpha)

    @property
    def fine_sensitivity(self) -> Sensitivity:
        """Return how far one privacy unit can move the messages, in the finer steps of parties."""
        sensitivity = self.measurement.sensitivity
        moves = tuple(replace(move, shift=move.shift * self.refined) for move in sensitivity.moves)
        return replace(sensitivity, moves=moves)

    @property
    def fine_event(self) -> Event:
        """Return the record of the noise in one party's messages, in the finer steps of parties."""
        name, mechanism = self.measurement.name, self.mechanism
        return Event(
            self.query.name, name, mechanism.name, mechanism.parameters, self.fine_sensitivity
        )

    @property
    def cells_of_unit(self) -> int:
        """Return how many cells one privacy unit can move."""
        sensitivity = self.measurement.sensitivity
        return sensitivity.slots * max(move.cells for move in sensitivity.moves)

    def clamping_bound(self, parties: int) -> int:
        """Return the value at which each party clamps its true values, in steps of the column.

        With this value, the true sum over all parties is at most 2^62 of the finer steps. A sum
        modulo 2^64 is then unambiguous as long as the noise is at most as large.
        """
        return LIMIT // (parties * self.refined)

    def margin(self, parties: int, confidence: float = 0.95) -> Fraction:
        """Return the margin of error of a sum over all parties, in the column's unit.

        The rounding of each party moves the sum by at most half of one finer step.
        """
        width = self.sum_mechanism(parties).half_width(confidence) + Fraction(parties, 2)
        return width * self.measurement.step / self.refined


@dataclass(frozen=True, slots=True)
class Trust:
    """The guarantee if `honest` parties add noise and keep it secret, and only sums are known."""

    honest: int
    guarantee: Guarantee
    rounding: float
    """The part of epsilon that covers the rounding of all parties."""

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee and its assumption as JSON values."""
        return {
            "honest": self.honest,
            "guarantee": self.guarantee.to_json(),
            "rounding_epsilon": self.rounding,
        }


@dataclass(frozen=True, repr=False)
class FederatedPlan(Plan):
    """The plan of a federated release.

    `columns` have the combined noise of the honest parties, and `shares` the noise of one party.
    """

    shares: tuple[ShareColumn, ...] = ()
    trusts: tuple[Trust, ...] = ()
    parties: int = 0

    def of_shares(self, query: str) -> tuple[ShareColumn, ...]:
        """Return the columns of one query, in declared order."""
        return tuple(share for share in self.shares if share.query.name == query)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            **Plan.to_json(self),
            "federated": {
                "parties": self.parties,
                "trust": [trust.to_json() for trust in self.trusts],
                "shares": [
                    {
                        "query": share.query.name,
                        "column": share.measurement.name,
                        "parameters": dict(share.mechanism.parameters),
                        "refined": share.refined,
                        "margin_95_of_the_sum": plain_text(share.margin(self.parties)),
                        "largest": plain_text(
                            share.clamping_bound(self.parties) * share.measurement.step
                        ),
                    }
                    for share in self.shares
                ],
            },
        }


def resolve_federated(declaration: Declaration) -> tuple[Query, ...]:
    """Return the queries of a federated release, with stable noise in place of `auto`.

    Raises QueryError, BudgetError or Findings: the errors of `resolve`; DP-FED-001 for other noise,
    DP-FED-002 for results that parties can't compute from their own rows.
    """
    errors: list[DpReleaseError] = []
    queries = []
    for query in resolve(declaration):
        measurements = []
        for measurement in query.measurements:
            declared_query = declaration.spec.query_of_table[query.name]
            place = declaration.place(
                "queries", declared_query, "columns", measurement.charged_column
            )
            errors += _column_errors(measurement, query, place)
            spec = measurement.mechanism
            if spec.name == AUTO:
                # Only sums of stable noise are stable noise again, so there is nothing to choose.
                spec = MechanismSpec(name=SymmetricAlphaStable.name)
            measurements.append(replace(measurement, mechanism=spec))
        queries.append(replace(query, measurements=tuple(measurements)))
    raise_all(errors)
    return tuple(queries)


def _column_errors(measurement: Measurement, query: Query, place: Place) -> Iterator[BudgetError]:
    """Yield the reasons why a column can't be in a federated release, as errors."""
    name = measurement.mechanism.name
    if name not in (AUTO, SymmetricAlphaStable.name):
        reason = "nothing is proved about its rounded sums"
        yield BudgetError("DP-FED-001", place=place, mechanism=name, reason=reason)
    if name == AUTO and measurement.mechanism.shape:
        reason = "there is no choice"
        yield BudgetError("DP-FED-001", place=place, mechanism=name, reason=reason)
    excluded = {
        "a margin": measurement.confidence is not None or measurement.wanted is not None,
        "post-processing": any(
            c.post != NO_POST_PROCESSING for c in query.columns if measurement in c.parts
        ),
        "a value computed from sums": any(
            c.form != MEASURED for c in query.columns if measurement in c.parts
        ),
        "keys that are not public": query.private is not None,
        "an aggregate that parties can't add up": not measurement.aggregate.adds_up,
    }
    for description, wrong in excluded.items():
        if wrong:
            yield BudgetError("DP-FED-002", place=place, column=measurement.name, found=description)


def prepare_federated(declaration: Declaration) -> FederatedPlan:
    """Return the plan in which the noise of the honest parties spends the budget.

    Raises QueryError, BudgetError or Findings: the errors of `resolve_federated` and `make_plan`;
    DP-QUERY-013 for tables that a step, such as consistent tables, publishes; DP-MECH-001 if a
    share can't be certified.
    """
    spec = declaration.spec.federated
    if spec is None:
        raise TypeError("the release has no parties")
    queries = resolve_federated(declaration)

    def place(query: str, column: str) -> Place:
        """Return the position of a column of a query, or of the budget if `query` is empty."""
        query_of = declaration.spec.query_of_table
        keys = ("queries", query_of[query], "columns", column) if query else ("budget",)
        return declaration.place(*keys)

    budget = declaration.spec.budget
    raise_all(budget_findings(budget, lambda key: declaration.place("budget", key)))
    inner = make_plan(queries, noise_budget(budget), place, shares_of(declaration.spec, queries))
    refuse_families(declaration, inner.families)
    shares = _share_columns(inner.columns, spec, budget)
    raise_all([*_saturation_errors(shares, spec.parties, place)])
    trusts = trusts_of(shares, spec, budget)
    return FederatedPlan(
        inner.columns,
        next(trust.guarantee for trust in trusts if trust.honest == spec.least),
        inner.budget,
        inner.warnings,
        shares,
        trusts,
        spec.parties,
    )


def _saturation_errors(
    shares: Sequence[ShareColumn], parties: int, place: PlaceOfColumn
) -> Iterator[QueryError]:
    """Yield DP-QUERY-014 for columns whose values one party may have to clamp.

    Only tables with a declared size are checked.
    """
    for query in {share.query.name: share.query for share in shares}.values():
        reach = {
            share.measurement.name: share.clamping_bound(parties)
            for share in shares
            if share.query is query
        }
        if query.table.size is not None:
            yield from too_large_total_errors(
                query,
                partial(place, query.name),
                lambda column, reach=reach: reach[column.parts[0].name],  # type: ignore[misc]
            )


def noise_budget(budget: BudgetSpec) -> BudgetSpec:
    """Return the part of a budget that the noise spends; rounding may spend the rest."""
    epsilon = None if budget.epsilon is None else budget.epsilon * NOISE_FRACTION
    return budget.model_copy(update={"epsilon": epsilon, "delta": budget.delta * NOISE_FRACTION})


def _share_columns(
    columns: Sequence[PlannedColumn], spec: FederatedSpec, budget: BudgetSpec
) -> tuple[ShareColumn, ...]:
    """Return the share of each party, in steps so fine that the budget also covers rounding."""
    shares = []
    for column in columns:
        mechanism = column.mechanism
        assert isinstance(mechanism, SymmetricAlphaStable)  # the queries request no other noise
        noise_of_party = mechanism.federated(spec.least)
        shares.append(
            ShareColumn(column.query, column.measurement, noise_of_party, 1, column.chosen_by)
        )
    # Rounding costs twice the sum of the exponents of all moved cells (`_trust_in_honest`). Half of
    # its part of the budget is used, and no more than half of the limit there.
    moved_cells = sum(share.cells_of_unit for share in shares)
    largest_exponent = (
        min(float(budget.epsilon or 0), 1.0) * float(1 - NOISE_FRACTION) / (4 * moved_cells)
    )
    return tuple(_with_finer_steps(share, largest_exponent, spec.parties) for share in shares)


def _with_finer_steps(share: ShareColumn, largest_exponent: float, parties: int) -> ShareColumn:
    """Return a share with steps so fine that rounding costs at most the largest exponent."""
    mechanism, refined = share.mechanism, 1
    while rounding_exponent(mechanism.alpha, mechanism.scale * refined, parties) > largest_exponent:
        refined *= 2  # a power of two, so that the scale stays an exact float
        if refined > MOST_REFINED:
            raise BudgetError(
                "DP-MECH-001",
                mechanism=mechanism.name,
                least=mechanism.scale,
                largest="what is finer",
            )
    fine = SymmetricAlphaStable(mechanism.scale * refined, mechanism.alpha)
    return replace(share, mechanism=fine, refined=refined)


def trusts_of(
    shares: Sequence[ShareColumn], spec: FederatedSpec, budget: BudgetSpec
) -> tuple[Trust, ...]:
    """Return the guarantees for three numbers of honest parties.

    These are all parties, the declared minimum number, and one party.
    """
    numbers = sorted({spec.parties, spec.least, 1}, reverse=True)
    return tuple(_trust_in_honest(shares, honest, budget) for honest in numbers)


def _trust_in_honest(shares: Sequence[ShareColumn], honest: int, budget: BudgetSpec) -> Trust:
    """Return what is guaranteed if only so many parties add their noise honestly."""
    vectors = [
        make_accounting_input(share.sum_mechanism(honest), share.fine_sensitivity)
        for share in shares
    ]
    guarantee = guarantee_of(vectors, noise_budget(budget))
    # Each cell that a privacy unit moves is rounded, so the exponents of all of them add up.
    exponent = sum(
        share.cells_of_unit
        * Fraction(rounding_exponent(share.mechanism.alpha, share.mechanism.scale, honest))
        for share in shares
    )
    # With a larger exponent, exp(exponent) times the delta of the noise could exceed the budget's.
    if exponent > (1 - NOISE_FRACTION) / 2:
        raise BudgetError("DP-BUDGET-004", reason="rounding needs more than its part of the budget")
    rounding_epsilon = round_up(2 * Fraction(exponent))
    return Trust(
        honest,
        replace(
            guarantee,
            epsilon=round_up(Fraction(guarantee.epsilon) + Fraction(rounding_epsilon)),
            pure_epsilon=round_up(Fraction(guarantee.pure_epsilon) + Fraction(rounding_epsilon)),
            delta=budget.delta,
        ),
        rounding_epsilon,
    )
