"""Answer one SQL statement: declare it, plan it, charge it and release it like any other query."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dprelease.errors import DpReleaseError, Place, RunState
from dprelease.errors.argument_types import checked_arguments, wrong_argument
from dprelease.errors.local_paths import check_paths
from dprelease.exact.engines import open_engines, refuse_unknown_frames
from dprelease.exact.settings import Settings
from dprelease.numerics.rounding import Number, exact_of, plain_text
from dprelease.planning.declaration_findings import single_errors
from dprelease.planning.guarantees import release_budget
from dprelease.planning.notes.notes import refuse_comparisons_with_others
from dprelease.planning.prepare import prepare
from dprelease.privacy.unit import Neighbours
from dprelease.query.outer_sql.parameters import Params
from dprelease.query.outer_sql.statement import ANSWER, SplitStatement, split_statement
from dprelease.query.resolve import Query, resolve_one
from dprelease.query.select import PrivateCore
from dprelease.query.sql_rewrites.row_sources import declared_name
from dprelease.query.sql_rewrites.unanswerable import LONGEST, refuse
from dprelease.release.after_noise import (
    COUNT_ROWS,
    DeclaredKeys,
    answer_attributes,
    answer_of,
    explained,
    prepare_intervals,
    try_statement,
    without_declared_keys,
)
from dprelease.release.execute import answer_queries, charge_answer
from dprelease.release.public_tables import PublicValues, blank_public_tables, read_public_tables
from dprelease.release.run_options import with_signing_key, with_table_versions
from dprelease.release.runs.pipeline import run
from dprelease.schema.field_types import LARGEST
from dprelease.schema.load import Declaration, Declared, declaration_of, read_table
from dprelease.schema.model import Files, relative_reader, validate
from dprelease.schema.release import Limits, QuerySpec
from dprelease.schema.yaml_text.reader import Document
from dprelease.tables import formats

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.signatures.keys import SigningKey

Schemas = str | Path | Sequence[str | Path]


FILE = "sql.yaml"
PARTS = (
    (f"queries.{ANSWER}.where", "WHERE"),
    (f"queries.{ANSWER}.group_by", "GROUP BY"),
    (f"queries.{ANSWER}.from", "FROM"),
    (f"queries.{ANSWER}", "aggregate"),
    ("budget.delta", "delta"),
    ("budget", "epsilon"),
)
"""Parts of a statement, by the keys of the release file that they become."""


@checked_arguments
def sql(
    statement: str,
    schema: Schemas,
    *,
    epsilon: Number,
    delta: Number = 0,
    neighbours: str = "add_remove",
    mechanism: str | Mapping[str, str | float] = "auto",
    ledger: str | Path | None = None,
    key: str | Path | SigningKey | None = None,
    private_keys: bool | str | Sequence[str] = False,
    output: str | Path | None = None,
    overwrite: bool = False,
    frames: Mapping[str, object] | None = None,
    params: Params = None,
    margins: bool = False,
    state: RunState | None = None,
) -> pd.DataFrame:
    """Return the noised answer of one SELECT statement over declared tables.

    Each SELECT that aggregates rows about people is measured with noise, and has every declared
    cell, also empty ones. Everything around it is computed by DuckDB from noised values alone, and
    costs nothing. `attrs["dprelease"]` holds the guarantee, and the margins of error (95 %) of the
    noised columns. For EXPLAIN SELECT ..., nothing is read or charged, and the plan is returned.

    Parameters
    ----------
    statement
        The SQL text.
    schema
        Path of a table schema, or several paths.
    epsilon, delta
        The budget of this answer. A float stands for the decimal that it prints as.
    ledger
        A ledger to which the answer is charged.
    key
        The key that signs the manifest, and the entries of a ledger with signers: an Ed25519 key of
        OpenSSH, or the result of `signing_key`.
    private_keys
        Columns of GROUP BY whose values are not public; True stands for all of them. All keys of
        their GROUP BY are then found in the data, and published only if enough people have them,
        which needs a delta.
    output
        A folder in which to publish the noised table and its manifest; without it, the answer is
        only returned.
    overwrite
        Whether to replace a release that exists in this folder.
    frames
        Frames that replace declared sources, by table name or by the name in `source: {frame:
        name}`.
    params
        The values of the parameters of the statement: of `$name` by name, or of `?` in order.
    margins
        Whether each column that is an aggregate is followed by its margin of error (95 %), or by
        the ends of its interval, and each sum, difference, product, quotient or square root of
        aggregates too.
    state
        The state of the run. Every step updates it, and it is valid even after an exception.

    Raises
    ------
    DpReleaseError
        Any of its subclasses; nothing is charged for a statement without a bounded sensitivity.
    """
    check_paths(schema, ledger, key, output)
    statement, is_explained = without_explain(statement)
    state = RunState() if state is None else state
    with state.add_state_to_errors(), _errors_at_statement():
        declaration, split, keys = declaration_of_statement(
            statement, schema, epsilon=epsilon, delta=delta, neighbours=neighbours,
            mechanism=mechanism, ledger=ledger, params=params, margins=margins,
            private_keys=private_keys, frames=frames,
        )  # fmt: skip
        if declaration is None:
            if output is not None:
                refuse("Publishing declared keys", "they are in the schema", "leave out the output")
            return _answer_of_keys(split, keys, is_explained=is_explained)
        declaration = with_signing_key(declaration, key)
        given = {} if frames is None else frames
        queries, plan = prepare(declaration)
        refuse_comparisons_with_others(queries, Place("sql", None, "WHERE"))
        public = {**blank_public_tables(declaration.tables, split), **keys.tables}
        try_statement(queries, split, public)
        if is_explained:
            return explained(plan, split.public_names, keys)
        pinned = with_table_versions(declaration, given)
        if pinned is not declaration:  # all parts of the answer read the same versions
            declaration = pinned
            queries, plan = prepare(declaration)
        settings = Settings.of(declaration)
        found = read_public_tables(declaration.tables, split, given, settings)
        public = {**found, **keys.tables}
        # Again with the public rows themselves: an error that their values cause must come
        # before the charge.
        try_statement(queries, split, public)
        intervals = prepare_intervals(split, plan)
        if output is None:
            opening = open_engines(queries, given, declaration.spec, settings)
            noised = answer_queries(plan, opening, charge_answer(declaration, plan, state))
        else:
            folder = run(
                declaration, output=Path(output), overwrite=overwrite, frames=frames, state=state
            )
            noised = {
                name: formats.PUBLISHED_FORMAT.read(folder / formats.table_file_name(name))
                for name in split.cores
            }
        shown = answer_of(split, noised, intervals, public)
        shown.attrs["dprelease"] = {**answer_attributes(plan, split.public_names), **keys.note()}
    return shown


def _answer_of_keys(
    split: SplitStatement, keys: DeclaredKeys, *, is_explained: bool
) -> pd.DataFrame:
    """Return the answer of a statement that lists declared keys, or its plan."""
    shown = keys.answer(split)
    if is_explained:
        return explained(None, keys=keys)
    shown.attrs["dprelease"] = keys.attributes()
    return shown


def without_explain(statement: str) -> tuple[str, bool]:
    """Return a statement without a leading EXPLAIN, and whether it has one."""
    explained_statement = re.fullmatch(r"\s*EXPLAIN\s+(.*)", statement, re.DOTALL | re.IGNORECASE)
    if explained_statement is None:
        return statement, False
    return explained_statement[1], True


@contextmanager
def _errors_at_statement() -> Iterator[None]:
    """Set the position of errors to the SQL statement, because its declaration has no file."""
    try:
        yield
    except DpReleaseError as error:
        for finding in single_errors(error):
            if finding.place.file == FILE:
                key = finding.place.key
                part = next((part for start, part in PARTS if key.startswith(start)), key)
                finding.set_place(Place("sql", None, part))
        error.set_place(single_errors(error)[0].place)  # if there are several errors, the first one
        raise


def declaration_of_statement(
    statement: str,
    schema: Schemas,
    *,
    epsilon: Number,
    delta: Number,
    neighbours: str,
    mechanism: str | Mapping[str, str | float],
    ledger: str | Path | None,
    params: Params = None,
    margins: bool = False,
    private_keys: bool | str | Sequence[str] = False,
    frames: Mapping[str, object] | None = None,
) -> tuple[Declaration | None, SplitStatement, DeclaredKeys]:
    """Return the release that a statement declares, and the computations on its answer.

    `frames`: frames of public tables, whose values the release may contain. A statement that lists
    declared keys only declares no release.
    """
    _refuse_huge_numbers(epsilon=epsilon, delta=delta)
    paths = [Path(schema)] if isinstance(schema, str | Path) else [Path(path) for path in schema]
    folder = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    tables = [read_table(path) for path in paths]
    by_name = {declared.table.name: declared for declared in tables}
    known = {name: declared.table for name, declared in by_name.items()}
    given = {} if frames is None else frames
    refuse_unknown_frames(known.values(), given)
    values = PublicValues(by_name, given)
    split = split_statement(statement, known, params, rows_of=values.rows, margins=margins)
    split.public_values = tuple(values.names)
    private = cores_with_private_keys(split.cores, private_keys)
    resolve = partial(_query_of_keys, tables=by_name)
    split, keys = without_declared_keys(split, private, resolve)
    if not split.cores:
        return None, split, keys
    release: dict[str, Any] = {
        "title": statement[:1000],
        "tables": [os.path.relpath(path.absolute(), folder) for path in paths],
        "budget": {
            "epsilon": _number_text(epsilon),
            "delta": _number_text(delta),
            "neighbours": neighbours,
        },
        "mechanism": mechanism
        if isinstance(mechanism, str)
        else {name: str(value) for name, value in mechanism.items()},
        "queries": _declared_queries(split.cores, private),
        "output": "out/sql",
    }
    notes = _public_notes(split)
    if notes:
        release["about"] = {"notes": notes}
    if ledger is not None:
        release["ledger"] = os.path.relpath(Path(ledger).absolute(), folder)
    text = yaml.safe_dump(release, sort_keys=False, allow_unicode=True)
    return declaration_of(text, folder / FILE), split, keys


def _public_notes(split: SplitStatement) -> str:
    """Return sentences that name the public tables of a statement."""
    found = []
    for names, sentence in (
        (split.public, "The statement also reads the public data of {}, after the noise."),
        (split.public_values, "Conditions and computed columns contain public values of {}."),
    ):
        listed = " and ".join(f"'{name}'" for name in names)
        found += [sentence.format(listed)] if names else []
    return " ".join(found)


def _query_of_keys(core: PrivateCore, tables: Mapping[str, Declared]) -> Query:
    """Return the query of a core with `COUNT_ROWS` in place of its columns."""
    values = {**_declared_query(core), "columns": COUNT_ROWS}
    document = Document(Path(FILE), "", values, {})
    spec = validate(QuerySpec, document, Files(relative_reader(Path())))
    return resolve_one(
        tables[core.source], core.name, spec, Neighbours.ADD_REMOVE, Limits(), tables
    )


def _declared_queries(
    cores: Mapping[str, PrivateCore], private: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return the queries of all cores, as in a release file."""
    queries = {name: _declared_query(core) for name, core in cores.items()}
    for name in private:
        queries[name]["private_keys"] = "true"
    return queries


def cores_with_private_keys(
    cores: Mapping[str, PrivateCore], private_keys: bool | str | Sequence[str]
) -> set[str]:
    """Return the names of the cores whose keys are found in the data.

    `private_keys`: names of keys, or True for the keys of each GROUP BY.

    Raises
    ------
    QueryError
        DP-SQL-006 for private keys that are no keys of the statement.
    UsageError
        DP-SESSION-016 if they are no names.
    """
    if isinstance(private_keys, bool | None):
        return {name for name, core in cores.items() if private_keys and core.group_by}
    private: Sequence[str] = [private_keys] if isinstance(private_keys, str) else private_keys
    if not isinstance(private, Sequence) or not all(isinstance(name, str) for name in private):
        raise wrong_argument("private_keys", "True, False or the names of keys", private_keys)
    keys = dict.fromkeys(key for core in cores.values() for key in core.group_by)
    private = [declared_name(name, keys) or name for name in private]
    for name in private:
        if name not in keys:
            reason = "no GROUP BY of the statement has this column"
            fix = f"name one of {', '.join(keys)}" if keys else "leave out private_keys"
            refuse(f"private_keys '{name[:LONGEST]}'", reason, fix)
    return {name for name, core in cores.items() if {*private} & {*core.group_by}}


def _declared_query(core: PrivateCore) -> dict[str, Any]:
    """Return the query of a core as in a release file."""
    query: dict[str, Any] = {"from": core.source, "columns": core.columns}
    if core.rows.derive:
        query["derive"] = core.rows.derive
    if core.rows.join is not None:
        query["join"] = core.rows.join
    if core.where is not None:
        query["where"] = core.where
    if core.group_by:
        query["group_by"] = core.group_by
    return query


def _refuse_huge_numbers(**numbers: Number) -> None:
    """Raise BudgetError DP-BUDGET-001 or 002 for a number that is too long for a release file."""
    for name, number in numbers.items():
        try:
            is_huge = exact_of(number) > LARGEST
        except ValueError:
            continue  # the number is refused when the release file is read
        if is_huge:
            release_budget(Place("sql", None, name), **{name: number})


def _number_text(number: object) -> str:
    """Return a number as in a release file; other values are refused when the file is read."""
    try:
        return plain_text(exact_of(number))
    except ValueError:
        return number if isinstance(number, str) else type(number).__name__
