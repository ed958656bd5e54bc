"""Report all errors in a declaration at once: its form, its queries, its noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from dprelease.errors import DeclarationError, DpReleaseError, Findings, Place, raise_all
from dprelease.mechanisms import registry
from dprelease.planning.guarantees import budget_findings, budget_of
from dprelease.planning.largest_totals import too_large_totals
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.query.resolve import Query, resolve_with_findings
from dprelease.schema.load import Declaration, read_declaration
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.mistakes.partial_validation import (
    ValidParts,
    faulty_columns,
    what_is_left,
    without_columns,
)
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.yaml_text.reader import dotted_path

MANY = 100
"""Number of errors from which on no more are searched."""

KEYS = {
    "DP-BUDGET-003": ("mechanism",),
    "DP-BUDGET-005": ("epsilon", "rho"),
    "DP-BUDGET-007": ("epsilon", "rho", "moe", "relative_moe"),
    "DP-BUDGET-008": ("moe", "relative_moe"),
    "DP-BUDGET-010": ("mechanism",),
    **dict.fromkeys([f"DP-MECH-00{i}" for i in range(1, 6)], ("mechanism",)),
}
"""The key of a column that an error about its noise refers to: the first one that exists."""


def load_declaration(path: Path, variables: Mapping[str, str] | None = None) -> Declaration:
    """Return the release that a file declares, with the values of its variables.

    Raises
    ------
    DeclarationError, QueryError, BudgetError, Findings
        As `read_declaration`, together with errors in the queries that remain valid.
    """
    errors: list[DpReleaseError] = []
    try:
        return read_declaration(path, variables)
    except DpReleaseError as error:
        errors += several(error)
    if len(errors) < MANY:
        left = what_is_left(path, variables)
        errors = _with_unplaced(errors, [*left.findings, *_of_what_is_left(left)])
    files = list(dict.fromkeys(error.place.file for error in errors))
    errors.sort(key=lambda error: (files.index(error.place.file), error.place.line or 0))
    raise_all(errors)
    raise AssertionError("what is refused has findings")


def several(error: DpReleaseError) -> tuple[DpReleaseError, ...]:
    """Return the errors that an error stands for."""
    return error.errors if isinstance(error, Findings) else (error,)


def queries_and_findings(
    declaration: Declaration,
) -> tuple[tuple[Query, ...], list[DpReleaseError]]:
    """Return the queries without errors, and all errors that need no search for noise."""
    queries, errors = _resolve_without_faults(declaration)
    places = {error.place for error in errors}
    noise = [*_unknown_mechanisms(declaration), *_check_noise_requests(declaration, queries)]
    for error in noise:
        if error.place not in places:
            places.add(error.place)
            errors.append(error)
    budget = declaration.spec.budget
    errors += budget_findings(budget, lambda key: declaration.place("budget", key))
    own = declaration.document.path.name
    errors.sort(key=lambda error: (error.place.file == own, error.place.line or 0))
    return queries, errors  # those of the tables first


def nameless(declaration: Declaration, queries: Iterable[Query]) -> list[DeclarationError]:
    """Return DP-RELEASE-011 for each table that would be charged but has no name for ledgers.

    Rehearsals charge none, and need no such name.
    """
    if declaration.spec.ledger is None:
        return []
    charged = dict.fromkeys(
        table.name for query in queries for table in query.charged_tables if table.owner is None
    )
    place = declaration.place("ledger")
    return [DeclarationError("DP-RELEASE-011", place=place, name=name) for name in charged]


def _of_what_is_left(left: ValidParts) -> list[DpReleaseError]:
    """Return the errors of the valid parts, and of the budget in any case."""
    if left.declaration is not None:
        found = queries_and_findings(left.declaration)[1]
        # otherwise errors next to it may disappear with the declared budget
        known = left.budget is not None
        return [error for error in found if known or not error.code.startswith("DP-BUDGET")]
    document = left.document
    if document is None or left.budget is None:
        return []
    return [*budget_findings(left.budget, lambda key: document.place("budget", key))]


def _resolve_without_faults(
    declaration: Declaration,
) -> tuple[tuple[Query, ...], list[DpReleaseError]]:
    """Return the queries without errors, and all errors of others.

    A faulty formula in a table's schema hides all queries of the table: those that don't need it
    are checked without it.
    """
    queries, errors = resolve_with_findings(declaration)
    faulty = {name: faulty_columns(table, errors) for name, table in declaration.tables.items()}
    left = without_columns(declaration, faulty) if any(faulty.values()) else None
    return queries, errors if left is None else _with_unplaced(
        errors, resolve_with_findings(left)[1]
    )


def _with_unplaced(
    errors: Iterable[DpReleaseError], more: Iterable[DpReleaseError]
) -> list[DpReleaseError]:
    """Return errors, and those of others whose place has no error yet."""
    all_errors = [*errors]
    places = {error.place for error in all_errors}
    return all_errors + [error for error in more if error.place not in places]


def relocate_findings(errors: Iterable[DpReleaseError], declaration: Declaration) -> None:
    """Move errors about a column's noise to the key that they refer to."""
    document = declaration.document
    lines = {dotted_path(keys): line for keys, line in document.lines.items()}
    for error in errors:
        if error.place.file != document.path.name:
            continue
        keys_of_error = KEYS.get(error.code, ())
        spots = [f"{error.place.key}.{key}" for key in keys_of_error]
        spots += [
            key for key in keys_of_error if key == "mechanism"
        ]  # the one of the whole release
        spot = next((key for key in spots if key in lines), None)
        if spot is not None and ".columns." in error.place.key:
            error.stand_at(Place(document.path.name, lines[spot], spot))


def _unknown_mechanisms(declaration: Declaration) -> Iterator[DpReleaseError]:
    """Yield an error for every unknown mechanism."""
    mechanisms = [(declaration.spec.mechanism, declaration.place("mechanism"))]
    for name, query in declaration.spec.queries.items():
        for column, spec in query.columns.items():
            if spec.mechanism is not None:
                place = declaration.place("queries", name, "columns", column, "mechanism")
                mechanisms.append((spec.mechanism, place))
    for mechanism, place in mechanisms:
        if _is_known(mechanism):
            continue
        try:
            registry.check_name(mechanism.name, place)
        except DpReleaseError as error:
            yield error


def _is_known(mechanism: MechanismSpec) -> bool:
    return mechanism.name == AUTO or mechanism.name in registry.selection_names()


def _columns_of(declaration: Declaration, query: str) -> Callable[[str], Place]:
    """Return the places of a query's columns."""
    return lambda column: declaration.place("queries", query, "columns", column)


def _check_noise_requests(
    declaration: Declaration, queries: Iterable[Query]
) -> Iterator[DpReleaseError]:
    """Yield errors of declared noise that do not depend on its scale."""
    spec = declaration.spec
    budget, asked_by = budget_of(spec.budget), spec.query_of_table
    for query in queries:
        yield from too_large_totals(query, _columns_of(declaration, asked_by[query.name]))
        for measurement in query.measurements:
            is_key = measurement.finds_keys
            within = (PRIVATE_KEYS,) if is_key else ("columns", measurement.asked_by)
            column = ("queries", asked_by[query.name], *within)
            keys: tuple[str, ...] = (*column, "mechanism")
            if keys not in declaration.document.lines:
                keys = column if is_key or spec.mechanism.name == AUTO else ("mechanism",)

            def inside(key: str, keys: tuple[str, ...] = keys) -> Place:
                return declaration.place(*keys, key)

            request = NoiseRequest(measurement, declaration.place(*keys), inside)
            try:
                request.check(budget)
                _ = request.shape
            except DpReleaseError as error:
                yield error
