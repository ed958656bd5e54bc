"""Reasons why the summaries of a query can't be computed, from the declaration alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dprelease.errors.printable import count_text
from dprelease.postprocess.families import FamilyTable
from dprelease.query.forms.single_part import MEASURED
from dprelease.query.grouping.group_keys import Key, KeySpace
from dprelease.query.measurement import WITH_COMPANIONS
from dprelease.query.post import NO_POST_PROCESSING
from dprelease.schema.columns import CutColumn
from dprelease.schema.model import shorten
from dprelease.schema.release_parts.summaries import GiniSpec, PublicNumbers, RateSpec, SummarySpec

MOST_CELLS = 10_000_000
"""Maximum number of cells of a table with summaries, whose numbers are in memory at once."""

Finding = tuple[tuple[str, ...], str]
"""The key path in the query, and the problem."""


def summary_findings(
    tables: Sequence[FamilyTable], specs: Mapping[str, SummarySpec]
) -> Iterator[Finding]:
    """Yield the reasons why summaries can't be computed, with their key paths."""
    found = list(_table_findings(tables, specs))
    yield from found
    if found:
        return
    table = tables[0]
    for name, spec in specs.items():
        if spec.gini is not None:
            for key, problem in _gini_problems(table, spec.gini):
                yield ("summaries", name, "gini", key), problem
        if spec.standardised_rate is not None:
            for key, problem in _rate_problems(table, spec.standardised_rate):
                yield ("summaries", name, "standardised_rate", key), problem


def _table_findings(
    tables: Sequence[FamilyTable], specs: Mapping[str, SummarySpec]
) -> Iterator[Finding]:
    """Yield the reasons why no summary of a query can be computed."""
    if len(tables) > 1:
        yield ("summaries",), "it declares several tables; declare one query for each"
        return
    query = tables[0].query
    if query.keys.size > MOST_CELLS:
        yield ("summaries",), f"its table has more than {MOST_CELLS:,} cells"
    for column in query.columns:
        if column.form != MEASURED:
            yield ("columns", column.name), f"'{column.name}' is not a count or sum"
        elif column.post != NO_POST_PROCESSING:
            yield ("columns", column.name), f"'{column.name}' is rounded, coded or suppressed"
    taken = {key.column.casefold() for key in query.keys.keys}
    for name in specs:
        if {f"{name}{end}".casefold() for end in WITH_COMPANIONS} & taken:
            yield ("summaries", name), f"'{name}' is the name of a key"


def _key(table: FamilyTable, over: str) -> Key | None:
    """Return the key of a table with this name; None if it has none."""
    return next((key for key in table.query.keys.keys if key.column == over), None)


def _column_problems(table: FamilyTable, key: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield why a column can't be used: it is unknown, or may be negative."""
    known = {column.name: column.parts[0].aggregate for column in table.query.columns}
    if name not in known:
        yield key, f"'{name}' is not a column of the query; its columns are {', '.join(known)}"
        return
    lattice = known[name].lattice
    if lattice is not None and lattice.lower < 0:
        yield key, f"'{name}' may be negative"


def _over_problem(table: FamilyTable, over: str) -> str | None:
    """Return why a key can't be summarised; None if it is a key of the table."""
    names = [key.column for key in table.query.keys.keys]
    known = f"its keys are {', '.join(names)}" if names else "it has no keys"
    return None if over in names else f"'{over}' is not a key of the table; {known}"


def _gini_problems(table: FamilyTable, spec: GiniSpec) -> Iterator[tuple[str, str]]:
    """Yield the key and the problem of everything that is wrong with a Gini coefficient."""
    yield from _column_problems(table, "count", spec.count)
    problem = _over_problem(table, spec.over)
    if problem is not None:
        yield "over", problem
        return
    column, key = table.query.table.columns[spec.over], _key(table, spec.over)
    if not isinstance(column, CutColumn) or key is None or key.size != len(column.intervals):
        yield "over", f"'{spec.over}' is not a cut column without unallocated values"
    elif column.edges[0] < 0:
        yield "over", f"the bands of '{spec.over}' begin below 0"


def _rate_problems(table: FamilyTable, spec: RateSpec) -> Iterator[tuple[str, str]]:
    """Yield the key and the problem of everything that is wrong with a standardised rate."""
    yield from _column_problems(table, "events", spec.events)
    if spec.population is not None:
        yield from _column_problems(table, "population", spec.population)
    if spec.population is not None and spec.population == spec.events:
        yield "population", "events and population are the same column"
    problem, key = _over_problem(table, spec.over), _key(table, spec.over)
    if problem is not None or key is None:
        yield "over", problem or ""
        return
    yield from _standard_problems(key, spec.standard)
    if spec.population_from is not None:
        yield from _population_problems(table.query.keys, spec.population_from)


def _standard_problems(key: Key, standard: PublicNumbers) -> Iterator[tuple[str, str]]:
    """Yield why a standard population doesn't have exactly the values of the key of the strata."""
    if any(len(values) != 1 for values in standard.by_values):
        yield "standard", "its file must have one column of values and one of numbers"
        return
    known, wanted = {value for (value,) in standard.by_values}, {*key.texts}
    if known - wanted:
        yield "standard", f"'{shorten(min(known - wanted))}' is not a value of '{key.column}'"
    elif wanted - known:
        yield "standard", f"it has no number for '{shorten(min(wanted - known))}'"


def _population_problems(keys: KeySpace, numbers: PublicNumbers) -> Iterator[tuple[str, str]]:
    """Yield why a public population doesn't have exactly one number for each cell."""
    names = [key.column for key in keys.keys]
    if sorted(numbers.keys) != sorted(names):
        yield "population_from", f"its columns before the last one must be {', '.join(names)}"
        return
    allowed = [{*next(k.texts for k in keys.keys if k.column == name)} for name in numbers.keys]
    for values, number in numbers.rows:
        wrong = [text for text, texts in zip(values, allowed, strict=True) if text not in texts]
        if wrong:
            yield "population_from", f"'{shorten(wrong[0])}' is not a value of a key"
            return
        if not number:
            yield "population_from", "its numbers must be above 0"
            return
    if len(numbers.rows) != keys.size:
        found = count_text(len(numbers.rows), "number", "numbers")
        yield "population_from", f"it has {found} for {count_text(keys.size, 'cell', 'cells')}"
