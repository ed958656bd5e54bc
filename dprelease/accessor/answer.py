"""One question to a session: resolved, planned, charged, and only then answered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dprelease.accessor.session import Number, Session, Spending, amount
from dprelease.errors import SessionError
from dprelease.exact.duckdb import Engine
from dprelease.exact.view import computed
from dprelease.ledger.account import Charge
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.lattice import Integers
from dprelease.query.resolve import Query, resolve_one
from dprelease.query.select import NOISED, select
from dprelease.release.answer import answered
from dprelease.release.charging import ROWS
from dprelease.release.plan import PlannedColumn, make_plan
from dprelease.release.question import attributes
from dprelease.release.write import to_arrow
from dprelease.schema.model import Files, read_beside, validate
from dprelease.schema.reader import Document, Plain
from dprelease.schema.release import BudgetSpec, Limits, QuerySpec

if TYPE_CHECKING:
    import pandas as pd

Noise = str | Mapping[str, str | float | bool | Sequence[str]]
"""A mechanism by name, or by name and shape: {"name": "asymmetric_laplace", "k": 1.2}."""

COLUMN, VALUE, MARGIN = "answer", "value", "moe"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, before it is known whether it has a bounded meaning."""

    aggregate: dict[str, str]
    by: tuple[str, ...]
    predicates: tuple[str, ...]
    mechanism: Noise
    confidence: float


def answer(
    session: Session, frame: pd.DataFrame, question: Question, epsilon: Number, delta: Number
) -> pd.DataFrame:
    """Return the noisy answer over every cell of the keys; the session is charged first.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        Before the charge unless the engine fails while it reads.
    """
    price = Spending(amount(epsilon, "epsilon"), amount(delta, "delta", zero=True))
    query = _query(session, question)
    budget = BudgetSpec(epsilon=price.epsilon, delta=price.delta, neighbours=session.neighbours)
    (column,) = make_plan([query], budget).columns
    with Engine.open(session.declared, frame) as engine:
        engine.compile(query)  # a missing column or an unreadable type is refused without a charge
        what = f"this {next(iter(question.aggregate))}"
        with _charged(session, [column], price, what):
            noisy = answered(engine, [column], Entropy()).noisy
    return _frame(column, noisy.columns[column.measure.name], question.confidence)


def answer_sql(
    session: Session,
    frame: pd.DataFrame,
    statement: str,
    predicates: Sequence[str],
    mechanism: Noise,
    epsilon: Number,
    delta: Number,
) -> pd.DataFrame:
    """Return the noisy answer of one SELECT over the session's table; it is charged first.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        As `answer`; DP-SQL-001 to 007 for the statement.
    """
    selected = select(statement, {session.table.name: session.table})
    price = Spending(amount(epsilon, "epsilon"), amount(delta, "delta", zero=True))
    noise = _noise(mechanism)
    columns = {name: {**asked, "mechanism": noise} for name, asked in selected.columns.items()}
    for predicate in predicates:  # each as one expression of its own, before they are joined
        _asked(session, columns, selected.group_by, predicate)
    own = [] if selected.where is None else [selected.where]
    joined = " AND ".join(f"({predicate})" for predicate in (*predicates, *own)) or None
    query = _asked(session, columns, selected.group_by, joined)
    budget = BudgetSpec(epsilon=price.epsilon, delta=price.delta, neighbours=session.neighbours)
    plan = make_plan([query], budget)
    with Engine.open(session.declared, frame) as engine:
        engine.compile(query)
        with _charged(session, plan.columns, price, "this statement"):
            noised = to_arrow(answered(engine, plan.columns, Entropy()))
    shown: pd.DataFrame = computed(noised, selected.view, NOISED).to_pandas()
    shown.attrs["dprelease_answer"] = attributes(plan)
    return shown


@contextmanager
def _charged(
    session: Session, columns: Sequence[PlannedColumn], price: Spending, what: str
) -> Iterator[None]:
    """Charge the session, and its ledger if it has one, for good before the answer is drawn.

    Whoever asks shares a process with the noise, and could end it after a look: from the first draw
    on nothing is given back.
    """
    ledger = session.ledger
    if ledger is None:
        session.charge(price, what)
        yield
        return
    query, events = columns[0].query, tuple(column.event for column in columns)
    charge = Charge(query.table.identity, query.neighbours.value, query.unit.id or ROWS, events)
    reservation = ledger.reserve([charge], what)
    with ledger.holding(reservation):
        session.charge(price, what)
        ledger.publish(reservation)
        yield
    ledger.commit(reservation, "")


def _query(session: Session, question: Question) -> Query:
    if not 0.5 <= question.confidence <= 0.999999:
        raise SessionError("DP-SESSION-006", what="confidence (from 0.5 to 0.999999)")
    # Each predicate is checked as one expression of its own before they are joined.
    for predicate in question.predicates:
        _resolve(session, question, predicate)
    joined = " AND ".join(f"({predicate})" for predicate in question.predicates) or None
    return _resolve(session, question, joined)


def _resolve(session: Session, question: Question, where: str | None) -> Query:
    columns: dict[str, Plain] = {
        COLUMN: {**question.aggregate, "mechanism": _noise(question.mechanism)}
    }
    return _asked(session, columns, question.by, where)


def _asked(
    session: Session, columns: Mapping[str, Plain], by: Sequence[str], where: str | None
) -> Query:
    values: dict[str, Plain] = {
        "from": session.table.name,
        "where": where,
        "group_by": list(by),
        "columns": dict(columns),
    }
    document = Document(Path("question"), "", values, {})
    asked = validate(QuerySpec, document, Files(read_beside(Path())))
    return resolve_one(session.declared, COLUMN, asked, session.neighbours, Limits())


def _noise(noise: Noise) -> Plain:
    """Return the asked mechanism as a release file would hold it."""
    return noise if isinstance(noise, str) else {key: _text(value) for key, value in noise.items()}


def _text(value: str | float | bool | Sequence[str]) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _frame(column: PlannedColumn, steps: Integers, confidence: float) -> pd.DataFrame:
    import pandas as pd

    keys = column.query.keys
    data: dict[str, object] = {}
    for key, stride in zip(keys.keys, keys.strides, strict=True):
        codes = np.arange(keys.size) // stride % len(key.values)
        data[key.column] = pd.Series(list(key.values)).take(codes).reset_index(drop=True)
    step = column.measure.step
    value, moe = (_free(name, data) for name in (VALUE, MARGIN))
    data[value] = steps if step == 1 else steps * float(step)
    margin = column.margin(confidence)
    data[moe] = np.full(keys.size, _plain(margin))
    return pd.DataFrame(data)


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that no key has."""
    return name if name not in taken else _free(f"{name}_", taken)


def _plain(number: Fraction) -> int | float:
    return number.numerator if number.denominator == 1 else float(number)
