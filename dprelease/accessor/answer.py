"""Answer one query of a session: resolve it, plan it, charge it, then draw the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.accessor.pricing import budget_of, charged_for, check_terms, column_of, plan_and_cost
from dprelease.accessor.query_options import Terms, keys_of
from dprelease.accessor.session import Session, Spending
from dprelease.errors import RunState, UsageError
from dprelease.exact.post_view import run_statement, to_pandas
from dprelease.planning.bounded_words import counted_words
from dprelease.planning.plan import Plan
from dprelease.query.resolve import Query, resolve_one
from dprelease.query.select import NOISED, select
from dprelease.release import execute
from dprelease.release.charging import charges_of
from dprelease.release.ledger_forecast import left_for
from dprelease.release.question import attributes, check_view
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.yaml_text.reader import Document, Plain

if TYPE_CHECKING:
    import pandas as pd

ATTRIBUTE = "dprelease_answer"
"""Key in `DataFrame.attrs` of an answer: its guarantee, margins, mechanisms, as plain values."""

COLUMN = "answer"


@dataclass(frozen=True, slots=True)
class Question:
    """A query before it is resolved; it may turn out to have no bounded sensitivity.

    `columns`: aggregates by name, as in a release file. `derive`: computed columns of this query,
    as in a table schema.
    """

    columns: Mapping[str, Mapping[str, Plain]]
    predicates: tuple[str, ...] = ()
    derive: Mapping[str, Plain] = field(default_factory=dict)
    what: str = "question"


def answer(
    session: Session, token: str, question: Question, terms: Terms, state: RunState
) -> tuple[pd.DataFrame, Plan]:
    """Charge the session, then return the noisy answer for every cell of the keys, and its plan.

    `token` is the id of the registered rows.

    The frame holds the keys in declared order, then each column, followed by its margin of error
    `<name>_moe` where it has one. `state` advances with every step.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        Raised before the charge, unless the engine fails while it reads.
    """
    plan, price = plan_question(session, question, terms)
    charged = charged_for(session, plan, price, f"this {question.what}", state)
    shown = to_pandas(execute.answer(plan.columns, session.engine(token), charged))
    shown.attrs[ATTRIBUTE] = attributes(plan)
    return shown, plan


def plan_question(session: Session, question: Question, terms: Terms) -> tuple[Plan, Spending]:
    """Return the plan of a query and its privacy cost; reads no row."""
    check_terms(terms, question.what)
    _ = budget_of(session, terms)  # raises for an impossible budget before anything is planned
    return plan_and_cost(session, [_query(session, question, terms)], terms)


def answer_sql(
    session: Session,
    token: str,
    statement: str,
    predicates: Sequence[str],
    derive: Mapping[str, Plain],
    terms: Terms,
    state: RunState,
) -> pd.DataFrame:
    """Charge the session, then return the noisy answer of one SELECT over its table.

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
    # each predicate must parse as a complete expression before they are joined by AND
    for predicate in predicates:
        _query_of_columns(session, selected.columns, selected.group_by, predicate, derive, terms)
    joined = " AND ".join(f"({predicate})" for predicate in (*predicates, *own)) or None
    query = _query_of_columns(session, selected.columns, selected.group_by, joined, derive, terms)
    check_view(query, selected)
    plan, price = plan_and_cost(session, [query], terms)
    charged = charged_for(session, plan, price, "this statement", state)
    noised = execute.answer(plan.columns, session.engine(token), charged)
    shown = to_pandas(run_statement(noised, selected.view, NOISED))
    shown.attrs[ATTRIBUTE] = attributes(plan)
    return shown


def _query(session: Session, question: Question, terms: Terms) -> Query:
    keys = keys_of(terms)
    columns, derive = question.columns, question.derive
    # Each predicate must parse as a complete expression before they are joined by AND.
    for predicate in question.predicates:
        _query_of_columns(session, columns, keys, predicate, derive, terms)
    joined = " AND ".join(f"({predicate})" for predicate in question.predicates) or None
    return _query_of_columns(session, columns, keys, joined, derive, terms)


def _query_of_columns(
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
        "columns": {name: column_of(spec, terms) for name, spec in columns.items()},
        "derive": dict(derive),
        "private_keys": "true" if terms.get("private_keys") else "false",
    }
    document = Document(Path("question"), "", values, {})
    asked = validate(QuerySpec, document, Files(relative_reader(Path())))
    return resolve_one(session.declared, COLUMN, asked, session.neighbours, Limits())


def explain_plan(session: Session, plan: Plan, price: Spending) -> pd.DataFrame:
    """Return the measurements of an answer, one row each, followed by its computed columns.

    With several tables, the rows are indexed by table as well. The attributes also hold what
    remains in the session's ledger, and how many such answers it would pay for.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = [
        {
            "table": column.query.name,
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
        {
            "table": query.name,
            "column": column.name,
            "mechanism": column.formula,
            "margin": margin,
            "unit": column.unit,
        }
        for query, column, margin in plan.computed_columns()
    ]
    frame = pd.DataFrame(rows)
    if frame["table"].nunique() > 1:
        frame = frame.set_index(["table", "column"])
    else:
        frame = frame.drop(columns="table").set_index("column")
    left = _remaining_budget(session, plan)
    frame.attrs[ATTRIBUTE] = {**attributes(plan), "price": str(price), "ledger": left}
    return frame


def _remaining_budget(session: Session, plan: Plan) -> dict[str, Any] | None:
    """Return what remains in the session's ledger for an answer; None without a ledger."""
    ledger = session.ledger
    if ledger is None:
        return None
    (charge,) = charges_of(plan)
    (left,) = left_for(ledger, ledger.state(), [charge])
    return left.to_json()
