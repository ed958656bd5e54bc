"""Check whether the tables of each family suit the step that publishes the family."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dprelease.errors import DpReleaseError, Place, QueryError, raise_all
from dprelease.postprocess.families import Family, step_of
from dprelease.query.family_members import NOT_PUBLIC
from dprelease.schema.load import Declaration
from dprelease.schema.release import ReleaseSpec


def first_query(spec: ReleaseSpec, family: str) -> str:
    """Return the first query of a family; all queries of the family have the same columns."""
    return spec.families.get(family, [family])[0]


def tables_with_step(spec: ReleaseSpec) -> frozenset[str]:
    """Return the names of the tables that a step, such as consistent tables, publishes."""
    names = (query.tables(name) for name, query in spec.queries.items() if step_of(name, query))
    return frozenset(table for tables in names for table in tables)


def refuse_families(declaration: Declaration, families: Sequence[Family]) -> None:
    """Raise errors for families with tables that do not suit their step, without opening data.

    Raises QueryError or Findings: DP-QUERY-013, and the errors of the steps themselves.
    """
    findings: list[DpReleaseError] = []
    for family in families:
        if family.step is None:
            continue  # most of perhaps thousands of families need no check

        first_name = first_query(declaration.spec, family.name)

        def place(*keys: str | int, query: str = first_name) -> Place:
            """Return the position of these keys below a query of the family."""
            return declaration.place("queries", query, *keys)

        for problem in _problem_texts(declaration.spec, family):
            fields: dict[str, Any] = {"query": family.name, "step": family.step.name}
            findings.append(QueryError("DP-QUERY-013", place=place(), problem=problem, **fields))
        findings += family.step.findings(family.tables, place) if not findings else ()
    raise_all(findings)


def _problem_texts(spec: ReleaseSpec, family: Family) -> Iterator[str]:
    """Yield the reasons why no step can process the tables of a family.

    A step needs tables with public keys whose columns are all numbers with noise.
    """
    if spec.federated is not None:
        yield "a federated release publishes shares of integers"
    for table in family.tables:
        query = table.query
        if query.private is not None:
            yield NOT_PUBLIC
        for measurement in query.measurements:
            if query.private is None and measurement not in table.vectors:
                yield f"'{measurement.name}' is selected, not a number with noise"
        for name in {key.column for key in query.key_columns} & {*table.mechanisms}:
            yield f"'{name}' is the name of a key and of a measurement"
