"""The release that chooses the contribution limits of another release privately.

It is an ordinary release of one quantile for each limit. The rows of its queries are persons. The
value of a person is the number of groups in which the person has rows, or the largest number of
rows that the person has in one group, and at most the highest limit.

Proof of its sensitivity. Only persons with a row that counts have a value: a row that meets the
condition, has an id, and has a declared value of each key. The value of a person depends on the
rows of this person alone, because conditions and cells are computed row by row, and a joined table
is public or adds only rows of the same person. So if a person is added to the data or removed from
it, at most one value is added or removed. If the rows of a person are replaced, at most one value
changes, appears or disappears. This is a table in which each person has at most one row, for which
`Quantile.sensitivity` is proved, with both limits 1.

Proof of the guarantee of both releases together. The first release has its guarantee. For each of
its outputs, the second release is planned for the published limits before it reads a row, and its
guarantee holds whatever the limits are. So both are an adaptive composition of two releases.
Epsilons and deltas add up (Dwork and Roth 2014, The Algorithmic Foundations of Differential
Privacy, Theorem B.1), and so do rhos (Bun and Steinke 2016, arXiv 1605.02065, Lemma 2.3, and for a
rho with exceptions Section 8; also Feldman and Zrnic 2021, arXiv 2008.11193v4). The budgets of both
releases are the shares s and 1 - s of the declared epsilon or rho. The whole delta belongs to the
second release, because the exponential mechanism of the first one has a pure epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dprelease.numerics.rounding import plain_text
from dprelease.schema.amounts import ShareSpec
from dprelease.schema.columns import IntegerColumn
from dprelease.schema.load import Declaration, Declared
from dprelease.schema.mechanism import AUTO, MechanismSpec
from dprelease.schema.model import normalized_name
from dprelease.schema.release import QuerySpec
from dprelease.schema.release_parts.limit_choice import (
    LIMITS,
    TOTAL,
    ChosenLimits,
    LimitChoice,
    LimitChoices,
    with_limits,
)

SUFFIX = "-limits"
"""What the folder of the release of the limits is named after that of the other release."""


def limit_release(declaration: Declaration) -> Declaration:
    """Return the release that chooses the limits of a release privately; it has the same texts."""
    choices = _choices_of(declaration)
    spec, tables = declaration.spec, dict(declaration.tables)
    queries = {}
    for one in choices.limits:
        query = spec.queries[one.queries[0]]
        column = _unused_column(one.name, query, tables)
        tables[query.source] = _table_of_persons(tables[query.source], column, one.up_to)
        queries[one.name] = _query_of_persons(query, column, one)
    changes = {
        "title": f"Contribution limits of: {spec.title}",
        "about": None,
        "budget": choices.budget,
        "mechanism": MechanismSpec(name=AUTO),
        "queries": queries,
        "output": f"{spec.output.rstrip('/')}{SUFFIX}",
        "quality": None,
        "formats": (),
        "wide": (),
    }
    return replace(
        declaration,
        spec=spec.model_copy(update=changes),
        tables=tables,
        audit=None,
        choices=None,
        chosen=None,
        chooses_for=declaration,
    )


def with_chosen_limits(declaration: Declaration, chosen: ChosenLimits) -> Declaration:
    """Return a release with the limits that were chosen privately for it."""
    spec = with_limits(declaration.spec, _choices_of(declaration), chosen.values)
    return replace(declaration, spec=spec, chosen=chosen)


def _choices_of(declaration: Declaration) -> LimitChoices:
    if declaration.choices is None:
        raise TypeError("the release chooses no limits")
    return declaration.choices


def _unused_column(name: str, query: QuerySpec, tables: Mapping[str, Declared]) -> str:
    """Return a name that no column of a query has, for the column of the values of persons."""
    used = [*query.derive, *(column for one in tables.values() for column in one.table.columns)]
    taken = {normalized_name(column) for column in used}
    while normalized_name(name) in taken:
        name += "_"
    return name


def _table_of_persons(declared: Declared, column: str, up_to: int) -> Declared:
    """Return a table with a column of the values of persons, each of whom has at most one row."""
    table = declared.table
    values = IntegerColumn(type="integer", lower=1, upper=up_to)
    # The proof above is for persons with one row in one group, so the limits of the rows from which
    # the values come must not apply here.
    unit = table.privacy_unit.model_copy(update={**dict.fromkeys(LIMITS, 1), TOTAL: None})
    columns = {**table.columns, column: values}
    changed = table.model_copy(update={"columns": columns, "privacy_unit": unit})
    return replace(declared, table=changed)


def _query_of_persons(query: QuerySpec, column: str, choice: LimitChoice) -> QuerySpec:
    """Return the query of the quantile of a limit, over the rows that a declared query counts."""
    join = query.join
    if join is not None:
        join = join.model_copy(update=dict.fromkeys((*LIMITS, TOTAL)))
    quantile = {"of": column, "at": plain_text(choice.persons)}
    published = {choice.limit: {"quantile": quantile, "interval": "false"}}
    made = QuerySpec.model_validate({"from": query.source, "columns": published})
    rows = {"join": join, "derive": query.derive, "where": query.where}
    return made.model_copy(update={**rows, "share": ShareSpec(weight=choice.share)})
