"""Report all errors in a declaration at once: errors in its form, its queries and its noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from dprelease.errors import DeclarationError, DpReleaseError, Findings, Place, raise_all
from dprelease.mechanisms import registry
from dprelease.planning.guarantees import budget_findings, budget_of
from dprelease.planning.largest_totals import too_large_total_errors
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.query.resolve import Query, resolve_with_findings
from dprelease.schema.load import Declaration, read_declaration
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.mistakes.partial_validation import (
    ValidParts,
    faulty_columns,
    valid_parts,
    without_columns,
)
from dprelease.schema.release import PRIVATE_KEYS
from dprelease.schema.yaml_text.reader import dotted_path

ENOUGH_ERRORS = 100
"""With so many errors in its form, a declaration is not searched for further errors."""

KEYS_OF_ERRORS = {
    "DP-BUDGET-003": ("mechanism",),
    "DP-BUDGET-005": ("epsilon", "rho"),
    "DP-BUDGET-007": ("epsilon", "rho", "moe", "relative_moe"),
    "DP-BUDGET-008": ("moe", "relative_moe"),
    "DP-BUDGET-010": ("mechanism",),
    **dict.fromkeys([f"DP-MECH-00{i}" for i in range(1, 6)], ("mechanism",)),
}
"""Keys of a column to which an error about its noise can refer, by the code of the error. The error
refers to the first of these keys that is declared."""


def load_declaration(
    path: Path,
    variables: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Declaration:
    """Return the release that a file declares; arguments as in `read_declaration`.

    Raises DeclarationError, QueryError, BudgetError or Findings: the errors of `read_declaration`,
    together with the errors in the valid parts of the file.
    """
    errors: list[DpReleaseError] = []
    try:
        return read_declaration(path, variables, texts)
    except DpReleaseError as error:
        errors += single_errors(error)
    if len(errors) < ENOUGH_ERRORS:
        left = valid_parts(path, variables, texts)
        errors = _with_errors_elsewhere(errors, [*left.findings, *_errors_of_valid_parts(left)])
    files = list(dict.fromkeys(error.place.file for error in errors))
    errors.sort(key=lambda error: (files.index(error.place.file), error.place.line or 0))
    raise_all(errors)
    raise AssertionError("a rejected declaration has findings")


def single_errors(error: DpReleaseError) -> tuple[DpReleaseError, ...]:
    """Return the errors in `Findings`, or any other error alone."""
    return error.errors if isinstance(error, Findings) else (error,)


def queries_and_findings(
    declaration: Declaration,
) -> tuple[tuple[Query, ...], list[DpReleaseError]]:
    """Return the queries without errors, and all errors that are found without planning noise."""
    queries, errors = _resolve_without_faults(declaration)
    places = {error.place for error in errors}
    noise_errors = [*_unknown_mechanisms(declaration), *_check_noise_requests(declaration, queries)]
    for error in noise_errors:
        if error.place not in places:
            places.add(error.place)
            errors.append(error)
    budget = declaration.spec.budget
    errors += budget_findings(budget, lambda key: declaration.place("budget", key))
    release_file = declaration.document.path.name
    errors.sort(key=lambda error: (error.place.file == release_file, error.place.line or 0))
    return queries, errors  # errors in the files of tables come first


def missing_owner_errors(
    declaration: Declaration, queries: Iterable[Query]
) -> list[DeclarationError]:
    """Return DP-RELEASE-011 for each table that a ledger would charge but that has no owner.

    Rehearsals charge no ledger, so their tables need no owner.
    """
    if declaration.spec.ledger is None:
        return []
    charged = dict.fromkeys(
        table.name for query in queries for table in query.charged_tables if table.owner is None
    )
    place = declaration.place("ledger")
    return [DeclarationError("DP-RELEASE-011", place=place, name=name) for name in charged]


def _errors_of_valid_parts(left: ValidParts) -> list[DpReleaseError]:
    """Return the errors in the valid parts of a declaration; the budget is checked in any case."""
    if left.declaration is not None:
        found = queries_and_findings(left.declaration)[1]
        # With an invalid budget, errors about the budget of valid parts may be wrong.
        known = left.budget is not None
        return [error for error in found if known or not error.code.startswith("DP-BUDGET")]
    document = left.document
    if document is None or left.budget is None:
        return []
    return [*budget_findings(left.budget, lambda key: document.place("budget", key))]


def _resolve_without_faults(
    declaration: Declaration,
) -> tuple[tuple[Query, ...], list[DpReleaseError]]:
    """Return the queries without errors, and the errors of all other queries.

    A faulty formula in the schema of a table makes all queries of the table fail. So the queries
    that don't need the formula are resolved again without it, to find their own errors.
    """
    queries, errors = resolve_with_findings(declaration)
    faulty = {name: faulty_columns(table, errors) for name, table in declaration.tables.items()}
    left = without_columns(declaration, faulty) if any(faulty.values()) else None
    return queries, errors if left is None else _with_errors_elsewhere(
        errors, resolve_with_findings(left)[1]
    )


def _with_errors_elsewhere(
    errors: Iterable[DpReleaseError], more: Iterable[DpReleaseError]
) -> list[DpReleaseError]:
    """Return `errors`, and each error of `more` at a position where `errors` has none."""
    all_errors = [*errors]
    places = {error.place for error in all_errors}
    return all_errors + [error for error in more if error.place not in places]


def relocate_findings(errors: Iterable[DpReleaseError], declaration: Declaration) -> None:
    """Give each error about the noise of a column the position of the key that it refers to."""
    document = declaration.document
    lines = {dotted_path(keys): line for keys, line in document.lines.items()}
    for error in errors:
        if error.place.file != document.path.name:
            continue
        keys_of_error = KEYS_OF_ERRORS.get(error.code, ())
        keys = [f"{error.place.key}.{key}" for key in keys_of_error]
        # The last one is the mechanism of the whole release.
        keys += [key for key in keys_of_error if key == "mechanism"]
        key_with_line = next((key for key in keys if key in lines), None)
        if key_with_line is not None and ".columns." in error.place.key:
            error.set_place(Place(document.path.name, lines[key_with_line], key_with_line))


def _unknown_mechanisms(declaration: Declaration) -> Iterator[DpReleaseError]:
    """Yield an error for every declared mechanism that does not exist."""
    mechanisms = [(declaration.spec.mechanism, declaration.place("mechanism"))]
    for name, query in declaration.spec.queries.items():
        for column, spec in query.columns.items():
            if spec.mechanism is not None:
                place = declaration.place("queries", name, "columns", column, "mechanism")
                mechanisms.append((spec.mechanism, place))
    for mechanism, place in mechanisms:
        if _is_auto_or_selection(mechanism):
            continue
        try:
            registry.require_known_name(mechanism.name, place)
        except DpReleaseError as error:
            yield error


def _is_auto_or_selection(mechanism: MechanismSpec) -> bool:
    """Return whether a mechanism is `auto` or a selection mechanism."""
    return mechanism.name == AUTO or mechanism.name in registry.selection_names()


def _column_places(declaration: Declaration, query: str) -> Callable[[str], Place]:
    """Return a function that tells where a column of this query stands in the release file."""
    return lambda column: declaration.place("queries", query, "columns", column)


def _check_noise_requests(
    declaration: Declaration, queries: Iterable[Query]
) -> Iterator[DpReleaseError]:
    """Yield the errors in declared noise that do not depend on the scale of the noise."""
    spec = declaration.spec
    budget, query_of = budget_of(spec.budget), spec.query_of_table
    for query in queries:
        yield from too_large_total_errors(query, _column_places(declaration, query_of[query.name]))
        for measurement in query.measurements:
            is_key = measurement.finds_keys
            within = (PRIVATE_KEYS,) if is_key else ("columns", measurement.charged_column)
            column = ("queries", query_of[query.name], *within)
            keys: tuple[str, ...] = (*column, "mechanism")
            if keys not in declaration.document.lines:
                keys = column if is_key or spec.mechanism.name == AUTO else ("mechanism",)

            def place_in_mechanism(key: str, keys: tuple[str, ...] = keys) -> Place:
                """Return the position of a key of the declared mechanism."""
                return declaration.place(*keys, key)

            request = NoiseRequest(measurement, declaration.place(*keys), place_in_mechanism)
            try:
                request.check(budget)
                _ = request.shape
            except DpReleaseError as error:
                yield error
