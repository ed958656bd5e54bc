"""The guarantee of a release, whether it meets its budget, and what a ledger counts of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.errors import BudgetError, LedgerError, Place
from dprelease.numerics.rounding import exact_of, plain_text, round_down, round_up
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.budget import Budget, Variant
from dprelease.privacy.guarantee import INVARIANTS_SENTENCE, Guarantee
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import approximate_rho_of, zcdp_epsilon
from dprelease.query.resolve import Query
from dprelease.schema.mechanism import AUTO
from dprelease.schema.release import BudgetSpec

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 10**9), Fraction(100)
LEAST_DELTA, LARGEST_DELTA = Fraction(1, 10**300), Fraction(1, 100)
LEAST_RHO, LARGEST_RHO = Fraction(1, 10**12), Fraction(100)
RANGES: dict[str, tuple[str, Fraction, Fraction, str, str]] = {
    "epsilon": ("DP-BUDGET-001", LEAST_EPSILON, LARGEST_EPSILON, "1e-9", "100"),
    "delta": ("DP-BUDGET-002", LEAST_DELTA, LARGEST_DELTA, "1e-300", "0.01"),
    "rho": ("DP-BUDGET-009", LEAST_RHO, LARGEST_RHO, "1e-12", "100"),
}
"""Valid ranges of the numbers of a budget: the error code, the two limits as numbers, and both
limits as texts; a delta may also be 0."""

REPORTED_DELTA = Fraction(1, 10**9)
"""The delta at which epsilon is reported for a budget in rho that declares no delta."""


LONGEST_NUMBER = 60
"""Maximum length of a number that an error message repeats in full."""


def budget_of(spec: BudgetSpec) -> Budget:
    """Return the declared budget; its amount is 0 if the budget declares no amount."""
    if spec.rho is not None:
        delta = spec.delta or REPORTED_DELTA
        return Budget(Variant.ZERO_CONCENTRATED, spec.rho, delta, bool(spec.delta))
    return Budget.of(epsilon=spec.epsilon or Fraction(0), delta=spec.delta)


def has_no_amount(spec: BudgetSpec) -> bool:
    """Return whether a budget declares no amount, so that every column must declare its own."""
    return spec.epsilon is None and spec.rho is None


def guarantee_of(vectors: Sequence[PricedVector], spec: BudgetSpec) -> Guarantee:
    """Return the guarantee of all vectors together.

    An epsilon of delta-approximate rho-zCDP is that of rho-zCDP at the rest of the budget's delta
    (Bun and Steinke 2016, arXiv 1605.02065v1, Lemma 8.8).
    """
    budget = budget_of(spec)
    pure = pure_epsilon(vectors)
    epsilon = epsilon_at(vectors, budget.delta)
    rho, exempt = None, Fraction(0)
    accountant = "pld" if budget.delta else "pure"
    if budget.needs_concentration:
        accountant = "zcdp"
        rho, exempt = approximate_rho_of(vectors)
        if math.isfinite(rho) and exempt < budget.delta:
            # Both bounds hold. The rest of delta is rounded down, because a delta that is too large
            # would give an epsilon that is too small.
            epsilon = min(epsilon, zcdp_epsilon(rho, round_down(budget.delta - exempt)))
    return Guarantee(
        epsilon=epsilon,
        delta=budget.delta,
        neighbours=spec.neighbours,
        accountant=accountant,
        pure_epsilon=math.inf if pure is None else round_up(pure),
        rho=rho,
        rho_delta=round_up(exempt),
    )


def add_guarantee(first: Guarantee, second: Guarantee) -> Guarantee:
    """Return the guarantee of two releases, the second of which may depend on the first result.

    The first guarantee must have a finite pure epsilon, and its rho must hold without exception.
    The epsilons add up at the delta of the second release, and so do the rhos, except for the
    `rho_delta` of the second release (the proof is in `query/limit_release.py`).
    """
    added = Fraction(first.pure_epsilon)
    epsilon = round_up(added + Fraction(second.epsilon))
    pure, rho = second.pure_epsilon, None
    if math.isfinite(pure):
        pure = round_up(added + Fraction(pure))
    if first.rho is not None and second.rho is not None:
        rho = round_up(Fraction(first.rho) + Fraction(second.rho))
        delta = second.delta - Fraction(second.rho_delta)
        # Without any delta left, rho gives no epsilon.
        if delta > 0:
            epsilon = min(epsilon, zcdp_epsilon(rho, round_down(delta)))
    return replace(second, epsilon=epsilon, pure_epsilon=pure, rho=rho)


def meets_budget(guarantee: Guarantee, spec: BudgetSpec) -> bool:
    """Return whether a guarantee meets the declared budget."""
    if spec.rho is not None:
        # Epsilon is reported at what is left of delta, so something must be left.
        if guarantee.rho_delta and not guarantee.rho_delta < spec.delta:
            return False
        return guarantee.rho is not None and guarantee.rho <= spec.rho
    if spec.epsilon is not None:
        return guarantee.epsilon <= spec.epsilon
    # Without an amount, columns declare their own, which may add up to more than any budget.
    return guarantee.epsilon <= LARGEST_EPSILON


def check_budget(budget: BudgetSpec, place: Place) -> None:
    """Raise BudgetError DP-BUDGET-001, 002 or 009 for an epsilon, a delta or a rho out of range."""
    for error in budget_findings(budget, lambda _key: place):
        raise error


def budget_findings(budget: BudgetSpec, at: Callable[[str], Place]) -> Iterator[BudgetError]:
    """Yield BudgetError DP-BUDGET-001, 002 or 009 for each number that is out of range.

    `at` returns the position of a key of the budget.
    """
    for name, (_, least, largest, *_) in RANGES.items():
        number = getattr(budget, name)
        if number is None or (name == "delta" and number == 0) or least <= number <= largest:
            continue
        yield _out_of_range_error(name, plain_text(number), at(name))


def budget_number(name: str, value: object) -> Fraction | None:
    """Return an epsilon, a delta or a rho; None for a value that is invalid in any budget.

    An epsilon and a rho must be above 0. A delta must be at least 0, and below 1: a delta of 1
    would protect nobody.
    """
    try:
        number = exact_of(value)
    except ValueError:
        return None
    is_valid = 0 <= number < 1 if name == "delta" else number > 0
    return number if is_valid else None


def release_budget(place: Place, **numbers: object) -> BudgetSpec:
    """Return the budget of one release, from numbers of any type; a number may be None.

    Raises BudgetError: DP-BUDGET-001, 002 or 009 for a value that is not a number, or out of range.
    """
    amounts = {name: value for name, value in numbers.items() if value is not None}
    known = {name: budget_number(name, value) for name, value in amounts.items()}
    for name, number in known.items():
        if number is None or number > RANGES[name][2]:
            raise _out_of_range_error(name, _number_text(amounts[name]), place)
    spec = BudgetSpec.model_validate(known)
    check_budget(spec, place)
    return spec


def _number_text(value: object) -> str:
    """Return the digits of a number; "not a number" for anything else."""
    try:
        return plain_text(exact_of(value))
    except ValueError:
        return "not a number"


def _out_of_range_error(name: str, found: str, place: Place) -> BudgetError:
    """Return the error of a number of the budget that is outside of its range."""
    code, _, _, least, largest = RANGES[name]
    # A number may have thousands of digits, which would hide the rest of the message.
    found = found if len(found) <= LONGEST_NUMBER else f"a number of {len(found)} characters"
    return BudgetError(code, place=place, found=found, least=least, largest=largest)


def except_for_delta(guarantee: Guarantee) -> str:
    """Return that a statement may fail with a probability of about delta; empty without a delta."""
    return ", except with a probability of about delta" if guarantee.delta else ""


def interpretation_of(guarantee: Guarantee) -> dict[str, Any]:
    """Return what the guarantee means for an attacker who knows everyone except one person."""
    likelihood_ratio = math.exp(guarantee.epsilon)
    priors = (0.01, 0.1, 0.5)
    return {
        "least_total_error": 2.0 * (1.0 - float(guarantee.delta)) / (1.0 + likelihood_ratio),
        "least_total_error_words": (
            "An attacker who guesses from the release whether a privacy unit is in the data errs "
            "by at least this much: the rates of false alarms and of misses, added; 1 is blind "
            "guessing, 0 certainty."
        ),
        "largest_posterior": [
            {
                "prior": prior,
                "posterior": likelihood_ratio * prior / (1.0 - prior + likelihood_ratio * prior),
            }
            for prior in priors
        ],
        "largest_posterior_words": (
            "The release can raise this prior belief in a statement about a privacy unit at most "
            f"to the posterior{except_for_delta(guarantee)}."
        ),
        **({"invariants_words": INVARIANTS_SENTENCE} if guarantee.invariants else {}),
    }


class LedgerCost(StrEnum):
    """The measure in which a ledger charges a release, which may differ from its guarantee."""

    RHO = "rho"
    EPSILON = "epsilon"

    def charge_size(self, vectors: Sequence[PricedVector], *, rough: bool) -> float:
        """Return the size of the charge, to which the error of noise is about inversely related.

        Doubling a scale halves the epsilon, and divides the rho by four, so its root is returned.
        """
        if self is LedgerCost.RHO:
            return math.sqrt(approximate_rho_of(vectors, rough=rough)[0])
        pure = pure_epsilon(vectors)
        return math.inf if pure is None else float(pure)


def extra_ledger_cost(charged: LedgerCost | None, budget: Budget) -> LedgerCost | None:
    """Return the ledger's measure; None if the budget has the same measure."""
    same = {Variant.PURE: LedgerCost.EPSILON, Variant.ZERO_CONCENTRATED: LedgerCost.RHO}
    return None if charged is same.get(budget.variant) else charged


def ledger_cost_of(ledger: Path, queries: Sequence[Query], *, pure: bool) -> LedgerCost | None:
    """Return the ledger's measure for the tables of queries; None if nothing depends on it.

    The measure is rho if one of the tables has a budget in rho or in (epsilon, delta). If the
    ledger can't be read, or has no budget for the tables, the result is the usual measure for such
    releases: a run rejects that ledger with an error before it reads a row.
    """
    if all(m.mechanism.name != AUTO for query in queries for m in query.measurements):
        return None
    from dprelease.ledger.ledger import Ledger

    try:
        accounts = Ledger(ledger).state().accounts
    except LedgerError:
        accounts = {}
    names = {table.identity for query in queries for table in query.charged_tables}
    measures = {accounts[name].privacy_measure for name in names & accounts.keys()}
    if not measures:
        return None if pure else LedgerCost.RHO
    return LedgerCost.RHO if LedgerCost.RHO in measures else LedgerCost.EPSILON
