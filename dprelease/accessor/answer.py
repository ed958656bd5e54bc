"""Answer one query of a session: resolve it, plan it, charge it, then draw the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from dprelease.accessor.frame_notes import ATTRIBUTE, TOKEN, note_of
from dprelease.accessor.frame_shapes import names_of_answers
from dprelease.accessor.pricing import (
    budget_of,
    charge_before_answer,
    check_option_types,
    check_options,
    column_declaration,
    confidence_of,
    plan_and_cost,
    private_keys_of,
)
from dprelease.accessor.query_options import Options, SharedOptions
from dprelease.accessor.row_selection import RowSelection
from dprelease.accessor.session import Session, Spending
from dprelease.errors import DataError, QueryError
from dprelease.errors.argument_types import wrong_argument
from dprelease.exact.engine_api import QueryEngine
from dprelease.exact.engines import (
    frame_of,
    open_engines,
    refuse_frame_about_people,
    refuse_unknown_frames,
)
from dprelease.exact.post_view import to_pandas
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.plan import Plan
from dprelease.query.outer_sql.parameters import Params
from dprelease.query.outer_sql.statement import SplitStatement, split_statement
from dprelease.query.resolve import Query, resolve_one
from dprelease.query.select import PrivateCore
from dprelease.query.view import PRIVATE_SOURCE
from dprelease.release import execute
from dprelease.release.after_noise import (
    COUNT_ROWS,
    NO_KEYS,
    DeclaredKeys,
    answer_attributes,
    answer_of,
    declared_values,
    explained,
    prepare_intervals,
    try_statement,
    without_declared_keys,
)
from dprelease.release.charging import charges_of
from dprelease.release.ledger_forecast import charge_outlooks
from dprelease.release.public_tables import PublicValues, blank_public_tables, read_public_tables
from dprelease.release.question import cores_with_private_keys, without_explain
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.table import Table
from dprelease.schema.yaml_text.reader import Document, Plain

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "answer"


Specs = Mapping[str, Mapping[str, Plain]]
"""Aggregates as in a release file, by the name of their column."""


def answer_query(
    rows: RowSelection,
    what: str,
    specs: Specs,
    keys: Sequence[str],
    options: Options,
    shape: Callable[[pd.DataFrame, list[str]], pd.DataFrame],
    *,
    margins: bool = True,
    shape_with_noise: Callable[[pd.DataFrame, Randomizer | None], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Charge the session, then return the noisy answer of one query in the requested shape.

    If `rows.dry` is set, nothing is charged, and the plan is returned.

    Parameters
    ----------
    rows
        The rows to read. Every step of the query updates their state.
    what
        The name of the query in messages.
    specs
        The aggregates by column name. A column with the name of a key is renamed.
    keys
        The keys; the answer has one row for each of their cells.
    options
        The budget, noise and margins.
    shape
        A function that returns the answer in the final shape. Its arguments are a frame, which has
        the keys in declared order and then each column, followed by its companion columns such as
        `<name>_moe`; and the names of these columns.
    margins
        Whether margins of error are computed.
    shape_with_noise
        Used in place of `shape`, for an answer that is computed from one noisy number of each cell:
        a function of the frame and of the noise of this number, None if cells were selected by it.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        All are raised before the charge, except an error of the engine while it reads rows.
    """
    check_options(options, what)
    _ = budget_of(rows.session, options)  # raises for an impossible budget, before planning
    names = names_of_answers(list(specs), keys)
    columns = {
        name: column_declaration(spec, options, margins=margins)
        for name, spec in zip(names, specs.values(), strict=True)
    }
    query = _resolved_query(rows, columns, keys, options)
    plan, price = plan_and_cost(rows.session, [query], options)
    if rows.dry:
        return explain_plan(rows.session, plan, price)
    charged = charge_before_answer(rows.session, plan, price, f"this {what}", rows.state)
    answer = to_pandas(
        execute.answer_single_query(plan.columns, rows.session._engine(rows.token), charged)
    )
    answer.attrs[ATTRIBUTE] = answer_attributes(plan)
    if shape_with_noise is not None:
        part = query.columns[0].parts[0]
        noise = {one.measurement.name: one.mechanism for one in plan.columns}[part.name]
        # Selected private keys have large counts, whose noise isn't that of all counts.
        return shape_with_noise(answer, None if query.private else noise)
    return shape(answer, names)


def answer_sql(
    rows: RowSelection,
    statement: str,
    options: SharedOptions,
    params: Params = None,
    *,
    margins: bool = False,
    private_keys: bool | str | Sequence[str] = False,
    frames: Mapping[str, object] = MappingProxyType({}),
) -> pd.DataFrame:
    """Charge the session, then return the noisy answer of one SELECT statement over its tables.

    `private_keys`: whether the keys of each GROUP BY are found in the data, or names of such keys.
    `frames`: frames of public tables, by name.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        The same errors as `answer_query`; also DP-SQL-001 to 007 for an invalid statement, and
        DP-JOIN-003 or DP-DATA-016 for a frame that is not that of a public table.
    """
    plain = cast("Options", options)
    check_options(plain, "sql")
    session = rows.session
    _refuse_private_frames(session, frames)
    statement, is_explained = without_explain(statement)
    tables = {name: one.table for name, one in session.tables.items()}
    tables[session.table.name] = _table_of_rows(rows)
    values = PublicValues(session.tables, frames)
    split = split_statement(
        statement, tables, params, rows_of=values.rows, margins=margins,
        confidence=confidence_of(plain),
    )  # fmt: skip
    split.public_values = tuple(values.names)
    private = cores_with_private_keys(split.cores, private_keys)

    def resolve(core: PrivateCore, columns: Specs) -> Query:
        """Return the query of a core with these columns."""
        derived = {**rows.derived, **core.rows.derive}
        wide = replace(rows, derived=derived, join=core.rows.join)
        known = cast("Options", {**plain, "private_keys": core.name in private})
        return _resolved_query(wide, columns, core.group_by, known, core.where, core.name)

    split, keys = without_declared_keys(
        split,
        private,
        lambda core: resolve(core, COUNT_ROWS),
        is_filtered=bool(rows.predicates),
    )
    if not split.cores:
        return _answer_of_keys(split, keys, is_explained=is_explained)
    queries = [
        resolve(core, _declared_columns(core.columns, plain)) for core in split.cores.values()
    ]
    # With empty public tables, so that neither an invalid statement nor EXPLAIN reads a file.
    try_statement(queries, split, {**blank_public_tables(session.tables, split), **keys.tables})
    plan, price = plan_and_cost(session, queries, plain)
    if is_explained:
        return explain_plan(session, plan, price, keys, split.public_names)
    public = {**read_public_tables(session.tables, split, frames), **keys.tables}
    try_statement(queries, split, public)
    intervals = prepare_intervals(split, plan)
    charged = charge_before_answer(session, plan, price, "this statement", rows.state)
    noised = execute.answer_queries(plan, _engine_of_all(rows, queries, frames), charged)
    shown = answer_of(split, noised, intervals, public)
    shown.attrs[ATTRIBUTE] = {**answer_attributes(plan, split.public_names), **keys.note()}
    return shown


def _refuse_private_frames(session: Session, frames: Mapping[str, object]) -> None:
    """Raise for frames of other tables than public ones, or with the rows of a session."""
    public = [one.table for one in session.tables.values() if one.table.public]
    is_mapping, own = isinstance(frames, Mapping), session.table.name
    if not public and (not is_mapping or frames):
        wanted = "frames of public tables that the session has, as in Session(schema=[...])"
        raise wrong_argument("frames", wanted, frames)
    if is_mapping and own in frames:
        problem = "is the table whose rows the session has"
        known = ", ".join(table.name for table in public)
        raise DataError("DP-DATA-016", name=own, problem=problem, known=known)
    refuse_unknown_frames(public, frames)
    for table in public:
        frame = frame_of(table, frames)
        if frame is not None and note_of(frame, TOKEN) is not None:
            raise QueryError("DP-JOIN-003", table=table.name, reason=PRIVATE_SOURCE)
        refuse_frame_about_people(table, [session.table], frames)


def _answer_of_keys(
    split: SplitStatement, keys: DeclaredKeys, *, is_explained: bool
) -> pd.DataFrame:
    """Return the answer of a statement that lists declared keys, or its plan."""
    shown = explained(None, keys=keys) if is_explained else keys.answer(split)
    shown.attrs[ATTRIBUTE] = keys.attributes()
    return shown


def answer_unique(rows: RowSelection, keys: list[str], options: Options) -> pd.DataFrame:
    """Return the values of keys: the declared ones, or private keys, for which it is charged.

    Raises
    ------
    QueryError, BudgetError, DataError, SessionError
        The same errors as `answer_query`; also DP-SQL-006 for declared keys of some rows.
    """
    if not keys:
        raise wrong_argument("columns", "a column name or a list of at least one column name", [])
    check_option_types(options)
    if options.get("private_keys"):
        return answer_query(rows, "unique", {}, keys, options, lambda answer, _: answer[keys])
    query = _resolved_query(rows, COUNT_ROWS, keys, {**options, "private_keys": False})
    found = DeclaredKeys(names=keys)
    answer = to_pandas(declared_values(query, is_filtered=bool(rows.predicates)))
    answer = explained(None, keys=found) if rows.dry else answer
    answer.attrs[ATTRIBUTE] = found.attributes()
    return answer


def _table_of_rows(rows: RowSelection) -> Table:
    """Return the declared table with the computed columns of some rows."""
    table = rows.session.table
    values: dict[str, Plain] = {"from": table.name, "columns": {"n": {"count": "*"}}}
    # Without a text, errors name the key, and no line of a file that does not exist.
    document = Document(Path("question"), "", {**values, "derive": dict(rows.derived)}, {})
    spec = validate(QuerySpec, document, Files(relative_reader(Path())))
    return table.model_copy(update={"columns": {**table.columns, **spec.derive}})


def _declared_columns(specs: Specs, options: Options) -> dict[str, dict[str, Plain]]:
    """Return aggregates as in a release file, with their noise and margins."""
    return {name: column_declaration(spec, options) for name, spec in specs.items()}


@contextmanager
def _engine_of_all(
    rows: RowSelection, queries: Sequence[Query], frames: Mapping[str, object]
) -> Iterator[dict[str, QueryEngine]]:
    """Yield the engine over some rows for each query, after it has compiled all of them.

    `frames`: frames of public tables, by name.
    """
    session = rows.session
    if any(query.join is not None for query in queries):
        # The session's engine has only its own table, so a join needs another engine.
        own = {session.table.name: session._snapshot(rows.token)}
        with open_engines(queries, {**frames, **own}) as engines:
            yield engines
        return
    with session._engine(rows.token) as engine:
        for query in queries:  # raises for a missing column before the charge
            engine.compile(query)
        yield {query.name: engine for query in queries}


def _resolved_query(
    rows: RowSelection,
    columns: Specs,
    keys: Sequence[str],
    options: Options,
    condition: str | None = None,
    name: str = COLUMN,
) -> Query:
    """Return the resolved query over some rows.

    `condition`: one more predicate, which is already parsed. `name`: the name of the query.
    """

    def resolve_with_condition(where: str | None) -> Query:
        """Return the query with a condition in SQL, or with no condition."""
        values: dict[str, Plain] = {
            "from": rows.session.table.name,
            "where": where,
            "group_by": list(keys),
            "columns": {name: dict(spec) for name, spec in columns.items()},
            "derive": dict(rows.derived),
            "private_keys": private_keys_of(rows.session, options),
        }
        values |= {} if rows.join is None else {"join": dict(rows.join)}
        document = Document(Path("question"), "", values, {})
        spec = validate(QuerySpec, document, Files(relative_reader(Path())))
        session = rows.session
        tables = session.tables
        return resolve_one(session.declared, name, spec, session.neighbours, Limits(), tables)

    for predicate in rows.predicates:  # each must be complete before AND joins them
        resolve_with_condition(predicate)
    predicates = [*rows.predicates, *([] if condition is None else [condition])]
    return resolve_with_condition(
        " AND ".join(f"({predicate})" for predicate in predicates) or None
    )


def explain_plan(
    session: Session,
    plan: Plan,
    price: Spending,
    keys: DeclaredKeys = NO_KEYS,
    public: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the plan of an answer: a row for each measurement, then one for each computed column.

    With several tables, the rows are also indexed by table. The attributes also hold the remaining
    budget in the session's ledger, and for how many such answers that budget would be enough.
    """
    frame = explained(plan, public, keys)
    if frame["table"].nunique() > 1:
        frame = frame.set_index(["table", "column"])
    else:
        frame = frame.drop(columns="table").set_index("column")
    more = {"price": str(price), "ledger": _remaining_budget(session, plan)}
    frame.attrs[ATTRIBUTE] = {**answer_attributes(plan, public), **more}
    return frame


def _remaining_budget(session: Session, plan: Plan) -> dict[str, Any] | None:
    """Return the remaining budget in the session's ledger for an answer; None without a ledger."""
    ledger = session.ledger
    if ledger is None:
        return None
    (charge,) = charges_of(plan)
    (left,) = charge_outlooks(ledger, ledger.state(), [charge])
    return left.to_json()
