"""Compute the privacy cost of a query, and charge it to the session and its ledger."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

from dprelease.accessor.query_options import Noise, Options, option_value
from dprelease.accessor.session import Session, Spending, declared_spending, exact_amount
from dprelease.errors import BudgetError, ChargeState, Place, RunState, SessionError, UsageError
from dprelease.errors.argument_types import wrong_argument
from dprelease.planning.budget_shares import Share
from dprelease.planning.guarantees import LedgerCost, ledger_cost_of
from dprelease.planning.notes.notes import refuse_comparisons_with_others
from dprelease.planning.plan import Plan, make_plan
from dprelease.privacy.renyi import approximate_rho_of
from dprelease.query.resolve import Query
from dprelease.release.charging import charges_of
from dprelease.schema.amounts import confidence_level
from dprelease.schema.column_spec import CHOSEN, DEFAULT_CONFIDENCE, QUANTILES
from dprelease.schema.release import BudgetSpec
from dprelease.schema.yaml_text.reader import Plain

OPTION_TYPES: tuple[tuple[str, str, tuple[type, ...]], ...] = (
    ("mechanism", "a name, or a mapping of a name and its shape", (str, Mapping)),
    ("confidence", "a number from 0.5 to 0.999999", (int, float, Decimal, Fraction)),
    ("private_keys", "True or False", (bool,)),
)
"""Types that options accept, as text and as Python types; budgets are checked as numbers."""


def check_options(options: Options, call: str) -> None:
    """Raise for an option of another type, as Python does, and for a query without a budget.

    Raises
    ------
    UsageError
        DP-SESSION-015 without epsilon and rho, 016 for an option of another type.
    SessionError
        DP-SESSION-006 for a confidence out of range.
    """
    check_option_types(options)
    if options.get("epsilon") is None and options.get("rho") is None:
        raise UsageError("DP-SESSION-015", what=f"{call}()")
    confidence_of(options)


def check_option_types(options: Options) -> None:
    """Raise UsageError DP-SESSION-016 for an option of another type."""
    for name, wanted, kinds in OPTION_TYPES:
        given = options.get(name)
        if given is not None and not isinstance(given, kinds):
            raise wrong_argument(name, wanted, given)


def confidence_of(options: Options) -> Fraction:
    """Return the confidence of margins of error; raise SessionError DP-SESSION-006 if invalid."""
    number = confidence_level(option_value(options, "confidence"))
    if number is None:
        wanted = "number from 0.5 to 0.999999"
        raise SessionError("DP-SESSION-006", what="confidence", wanted=wanted, example="0.95")
    return number


def budget_of(session: Session, options: Options) -> BudgetSpec:
    """Return the budget of one query."""
    delta = exact_amount(option_value(options, "delta"), "delta")
    budget = declared_spending("A query", options.get("epsilon"), delta, options.get("rho"))
    if budget.rho is None:
        return BudgetSpec(epsilon=budget.epsilon, delta=delta, neighbours=session.neighbours)
    if session.budget.rho is None:
        given = "a rho, but the session's budget is an epsilon"
        raise SessionError("DP-SESSION-011", what="A query", found=given)
    answer_delta = delta or session.delta
    return BudgetSpec(rho=budget.rho, delta=answer_delta, neighbours=session.neighbours)


def private_keys_of(session: Session, options: Options) -> Plain:
    """Return the declaration of private keys, as in a release file; "false" for public keys."""
    if not options.get("private_keys"):
        return "false"
    # The optimal selection has no rho, so a session in rho needs noise that has one.
    return {"mechanism": "auto" if session.budget.rho is None else "gaussian_threshold"}


def plan_queries(
    session: Session, queries: Sequence[Query], options: Options, share: Share | None = None
) -> Plan:
    """Return the plan of queries that are charged together."""
    budget = budget_of(session, options)
    pure = budget.rho is None and budget.delta == 0
    ledger = session.ledger
    charged = None if ledger is None else ledger_cost_of(ledger.path, queries, pure=pure)
    if charged is None and session.budget.rho is not None:
        # A session in rho charges rho, so `auto` selects only noise that has a rho.
        charged = LedgerCost.RHO
    return make_plan(queries, budget, share=share, charged=charged)


def privacy_cost_of(session: Session, plan: Plan, options: Options) -> Spending:
    """Return the privacy cost of a plan, in the measure of the session.

    If the session counts in rho and the query has an epsilon, the cost is the rho of the noise in
    the plan, which is at most epsilon^2 / 2 for pure noise. So two plans with the same epsilon may
    have different costs.
    """
    budget = budget_of(session, options)
    if session.budget.rho is None:
        return Spending(budget.epsilon or Fraction(0), budget.delta)
    rho, delta = approximate_rho_of([column.accounting_input for column in plan.columns])
    if budget.rho is not None:
        return Spending(delta=delta, rho=budget.rho)
    for column in plan.columns:
        if math.isinf(approximate_rho_of([column.accounting_input])[0]):
            name, mechanism = column.measurement.name, column.mechanism.name
            raise BudgetError("DP-BUDGET-010", column=name, mechanism=mechanism)
    return Spending(delta=delta, rho=Fraction(rho))


def plan_and_cost(
    session: Session, queries: Sequence[Query], options: Options
) -> tuple[Plan, Spending]:
    """Return the plan of queries that are charged together, and its privacy cost."""
    refuse_comparisons_with_others(queries, Place(key="where"))
    plan = plan_queries(session, queries, options)
    return plan, privacy_cost_of(session, plan, options)


@contextmanager
def charge_before_answer(
    session: Session, plan: Plan, price: Spending, what: str, state: RunState
) -> Iterator[None]:
    """Charge the session, and its ledger if it has one, permanently before the answer is drawn.

    The caller runs in the same process as the noise, and could end the process after looking at the
    noise. So no charge is refunded once drawing has begun. `state` records what stays charged,
    however the block ends.
    """
    ledger = session.ledger
    if ledger is None:
        session._charge(price, what, state)
        state.rows = True
        yield
        return
    charges = charges_of(plan)
    session_state = RunState()  # the state of the session's charge, which comes after the ledger's
    try:
        with ledger.reserve_for_block(charges, what, state) as reservation:
            session._charge(price, what, session_state)
            ledger.read(reservation)
            state.charge, state.rows = ChargeState.SPENT, True
            yield
            ledger.commit(reservation, "")
    except BaseException:
        # Nothing was read, and the ledger has released its reservation: the session gives its
        # charge back.
        if session_state.charge is ChargeState.SPENT and state.charge is ChargeState.NONE:
            session._refund(price)
        raise


def column_declaration(
    spec: Mapping[str, Plain], options: Options, *, margins: bool = True
) -> dict[str, Plain]:
    """Return a column as in a release file, with its mechanism and, if requested, its margin."""
    column = dict(spec)
    noise = option_value(options, "mechanism")
    chosen = bool(column.keys() & CHOSEN)
    if not chosen or noise != "auto":
        column["mechanism"] = _noise_declaration(noise)
    confidence = repr(float(confidence_of(options)))
    if not chosen:
        if margins:
            column.setdefault("margin", confidence)
    elif QUANTILES & column.keys() and confidence_of(options) > DEFAULT_CONFIDENCE:
        column.setdefault("interval", confidence)
    return column


def _noise_declaration(noise: Noise) -> Plain:
    """Return the requested mechanism as in a release file."""
    return (
        noise
        if isinstance(noise, str)
        else {key: _declared_text(value) for key, value in noise.items()}
    )


def _declared_text(value: str | float | bool | Sequence[str]) -> str:
    """Return the text of a noise parameter in a release file."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
