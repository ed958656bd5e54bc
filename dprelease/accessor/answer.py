"""One question to a session: resolved, planned, charged, and only then answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.accessor.session import Session, Spending, amount, spending
from dprelease.accessor.terms import Noise, Terms, keys_of
from dprelease.errors import BudgetError, RunState, SessionError, UsageError
from dprelease.errors import Charge as Spent
from dprelease.exact.post_view import computed
from dprelease.ledger.account import Charge
from dprelease.planning.auto.ledger_cost import counted_by
from dprelease.planning.bounded_words import counted_words
from dprelease.planning.plan import Plan, make_plan
from dprelease.privacy.renyi import rho_of
from dprelease.query.resolve import Query, resolve_one
from dprelease.query.select import NOISED, select
from dprelease.release import execute
from dprelease.release.charging import ROWS, charges_of
from dprelease.release.outlook import left_for
from dprelease.release.question import attributes
from dprelease.schema.asked import CHOSEN
from dprelease.schema.model import Files, read_beside, validate
from dprelease.schema.release import BudgetSpec, Limits, QuerySpec
from dprelease.schema.yaml_text.reader import Document, Plain

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ATTRIBUTE = "dprelease_answer"
"""Key in `DataFrame.attrs` of an answer: its guarantee, margins, mechanisms, as plain values."""

COLUMN = "answer"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, before it is known whether it has a bounded meaning.

    `columns`: aggregates by name, as a release file has them. `derive`: columns computed for this
    question, likewise.
    """

    columns: Mapping[str, Mapping[str, Plain]]
    predicates: tuple[str, ...] = ()
    derive: Mapping[str, Plain] = field(default_factory=dict)
    what: str = "question"


def answer(
    session: Session, frame: pd.DataFrame, question: Question, terms: Terms, state: RunState
) -> tuple[pd.DataFrame, Plan]:
    """Return the noisy answer over every cell of the keys, and its plan; charged first.

    The frame has the keys in declared order, then each column and its margin of error if it has
    one, `<name>_moe`. `state` is advanced with every step.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        Before the charge unless the engine fails while it reads.
    """
    plan, price = planned(session, question, terms)
    charged = _charged(session, plan, price, f"this {question.what}", state)
    shown = to_pandas(execute.answer(plan.columns, frame, charged))
    shown.attrs[ATTRIBUTE] = attributes(plan)
    return shown, plan


def planned(session: Session, question: Question, terms: Terms) -> tuple[Plan, Spending]:
    """Return the plan of a question, and what it will be charged; reads no row."""
    check_terms(terms, question.what)
    _ = _budget(session, terms)  # a price that can't be is refused first
    return _priced(session, _query(session, question, terms), terms)


def answer_sql(
    session: Session,
    frame: pd.DataFrame,
    statement: str,
    predicates: Sequence[str],
    derive: Mapping[str, Plain],
    terms: Terms,
    state: RunState,
) -> pd.DataFrame:
    """Return the noisy answer of one SELECT over the session's table; it is charged first.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        As `answer`; DP-SQL-001 to 007 for the statement.
    """
    check_terms(terms, "sql")
    given: object = statement
    if not isinstance(given, str):
        kind = type(given).__name__
        raise UsageError("DP-SESSION-016", name="statement", wanted="one SELECT", kind=kind)
    selected = select(statement, {session.table.name: session.table})
    own = [] if selected.where is None else [selected.where]
    for predicate in predicates:  # each as one expression of its own, before they are joined
        _asked(session, selected.columns, selected.group_by, predicate, derive, terms)
    joined = " AND ".join(f"({predicate})" for predicate in (*predicates, *own)) or None
    query = _asked(session, selected.columns, selected.group_by, joined, derive, terms)
    plan, price = _priced(session, query, terms)
    charged = _charged(session, plan, price, "this statement", state)
    noised = execute.answer(plan.columns, frame, charged)
    shown: pd.DataFrame = computed(noised, selected.view, NOISED).to_pandas()
    shown.attrs[ATTRIBUTE] = attributes(plan)
    return shown


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an answer as pandas has numbers: decimals of a finer step become floats."""
    import pyarrow as pa

    for i, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type):
            floats = table.column(i).cast(pa.float64())
            table = table.set_column(i, column.name, floats)
    frame: pd.DataFrame = table.to_pandas()
    return frame


TAKEN: tuple[tuple[str, str, tuple[type, ...]], ...] = (
    ("by", "a column or a list of columns", (str, Iterable)),
    ("mechanism", "a name, or a mapping of a name and its shape", (str, Mapping)),
    ("confidence", "a number from 0.5 to 0.999999", (int, float, Decimal, Fraction)),
)
"""What terms take, in words and in types; budgets are checked as numbers."""


def check_terms(terms: Terms, call: str) -> None:
    """Raise for terms of other kinds, as Python does, and for a question without a price.

    Raises
    ------
    UsageError
        DP-SESSION-015 without epsilon and rho, 016 for a term of another kind.
    """
    for name, wanted, kinds in TAKEN:
        given = terms.get(name)
        if given is not None and not isinstance(given, kinds):
            kind = type(given).__name__
            raise UsageError("DP-SESSION-016", name=name, wanted=wanted, kind=kind)
    if terms.get("epsilon") is None and terms.get("rho") is None:
        raise UsageError("DP-SESSION-015", what=f"{call}()")


def _budget(session: Session, terms: Terms) -> BudgetSpec:
    """Return the budget of one question."""
    delta = amount(terms.get("delta", 0), "delta", zero=True)
    asked = spending("A question", terms.get("epsilon"), delta, terms.get("rho"))
    if asked.rho is None:
        return BudgetSpec(epsilon=asked.epsilon, delta=delta, neighbours=session.neighbours)
    if session.budget.rho is None:
        given = "a rho, in a session that counts epsilon"
        raise SessionError("DP-SESSION-011", what="A question", found=given)
    told = delta or session.delta
    return BudgetSpec(rho=asked.rho, delta=told, neighbours=session.neighbours)


def _priced(session: Session, query: Query, terms: Terms) -> tuple[Plan, Spending]:
    """Return the plan of a query, and its price in what the session counts.

    Where a session in rho is asked for an epsilon, the price is the rho of the noise itself, at
    most epsilon^2 / 2 for a pure one.

    Raises BudgetError DP-BUDGET-010 if the noise has no rho.
    """
    budget = _budget(session, terms)
    pure = budget.rho is None and budget.delta == 0
    ledger = session.ledger
    charged = None if ledger is None else counted_by(ledger.path, [query], pure=pure)
    plan = make_plan([query], budget, charged=charged)
    if session.budget.rho is None:
        return plan, Spending(budget.epsilon or Fraction(0), budget.delta)
    if budget.rho is not None:
        return plan, Spending(rho=budget.rho)
    for column in plan.columns:
        if math.isinf(rho_of([column.priced])):
            name, mechanism = column.measurement.name, column.mechanism.name
            raise BudgetError("DP-BUDGET-010", column=name, mechanism=mechanism)
    return plan, Spending(rho=Fraction(rho_of([column.priced for column in plan.columns])))


@contextmanager
def _charged(
    session: Session, plan: Plan, price: Spending, what: str, state: RunState
) -> Iterator[None]:
    """Charge the session, and its ledger if it has one, for good before the answer is drawn.

    Whoever asks shares a process with the noise, and could end it after a look: from the first draw
    on nothing is given back. `state` tells what stays charged, whatever ends the block.
    """
    ledger, columns = session.ledger, plan.columns
    if ledger is None:
        session.charge(price, what, state)
        state.rows = True
        yield
        return
    query, events = columns[0].query, tuple(column.event for column in columns)
    charge = Charge(query.table.identity, query.neighbours.value, query.unit.id or ROWS, events)
    own = RunState()  # of the session's charge, which follows the ledger's
    try:
        with ledger.reserved([charge], what, state) as reservation:
            session.charge(price, what, own)
            ledger.read(reservation)
            state.charge, state.rows = Spent.SPENT, True
            yield
            ledger.commit(reservation, "")
    except BaseException:
        if own.charge is Spent.SPENT and state.charge is Spent.NONE:
            session.give_back(price)
        raise


def _query(session: Session, question: Question, terms: Terms) -> Query:
    what = "confidence (from 0.5 to 0.999999)"
    if not 0.5 <= amount(terms.get("confidence", 0.95), what) <= 0.999999:
        raise SessionError("DP-SESSION-006", what=what)
    keys = keys_of(terms)
    columns, derive = question.columns, question.derive
    # Each predicate is checked as one expression of its own before they are joined.
    for predicate in question.predicates:
        _asked(session, columns, keys, predicate, derive, terms)
    joined = " AND ".join(f"({predicate})" for predicate in question.predicates) or None
    return _asked(session, columns, keys, joined, derive, terms)


def _asked(
    session: Session,
    columns: Mapping[str, Mapping[str, Plain]],
    by: Sequence[str],
    where: str | None,
    derive: Mapping[str, Plain],
    terms: Terms,
) -> Query:
    values: dict[str, Plain] = {
        "from": session.table.name,
        "where": where,
        "group_by": list(by),
        "columns": {name: _column(spec, terms) for name, spec in columns.items()},
        "derive": dict(derive),
        "private_keys": "true" if terms.get("private_keys") else "false",
    }
    document = Document(Path("question"), "", values, {})
    asked = validate(QuerySpec, document, Files(read_beside(Path())))
    return resolve_one(session.declared, COLUMN, asked, session.neighbours, Limits())


def _column(spec: Mapping[str, Plain], terms: Terms) -> dict[str, Plain]:
    """Return a column as a release file would hold it, with its noise and its margin."""
    column = dict(spec)
    noise = terms.get("mechanism", "auto")
    chosen = bool(column.keys() & CHOSEN)
    if not chosen or noise != "auto":
        column["mechanism"] = _noise(noise)
    if not chosen:
        column["margin"] = repr(float(terms.get("confidence", 0.95)))
    return column


def _noise(noise: Noise) -> Plain:
    """Return the asked mechanism as a release file would hold it."""
    return noise if isinstance(noise, str) else {key: _text(value) for key, value in noise.items()}


def _text(value: str | float | bool | Sequence[str]) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def explained(session: Session, plan: Plan, price: Spending) -> pd.DataFrame:
    """Return what an answer would be made of: a row for each measurement, then computed columns.

    Its attributes also tell what the session's ledger has left, and for how many like it.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = [
        {
            "column": column.measurement.name,
            "counts": counted_words(column.query, column.measurement),
            "mechanism": column.mechanism.name,
            "cells": column.query.cells,
            "sensitivity": str(column.measurement.sensitivity),
            "mean_error": column.mean_absolute_error,
            "margin": float(column.margin()),
            "unit": column.measurement.error_unit,
            "price_alone": alone,
        }
        for column, alone in zip(plan.columns, plan.alone(), strict=True)
    ]
    rows += [
        {"column": column.name, "mechanism": column.formula, "margin": margin, "unit": column.unit}
        for _, column, margin in plan.computed()
    ]
    frame = pd.DataFrame(rows).set_index("column")
    left = _left(session, plan)
    frame.attrs[ATTRIBUTE] = {**attributes(plan), "price": str(price), "ledger": left}
    return frame


def _left(session: Session, plan: Plan) -> dict[str, Any] | None:
    """Return what the ledger of a session has left for an answer; None without a ledger."""
    ledger = session.ledger
    if ledger is None:
        return None
    (charge,) = charges_of([plan.columns[0].query], plan)
    (left,) = left_for(ledger, ledger.state(), [charge])
    return left.to_json()
