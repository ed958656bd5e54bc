"""Make the synthetic public tables that queries join; both sides of a pair have the same ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dprelease.auditing.neighbours.counting_rows import RANDOM_UNITS, QueryGroup
from dprelease.auditing.neighbours.situations import Situation
from dprelease.auditing.neighbours.stacks import situation_pair
from dprelease.rehearsal.people import generate_public_table, join_key_values

if TYPE_CHECKING:
    import pyarrow as pa


def public_tables(group: QueryGroup) -> QueryGroup:
    """Return the group with a synthetic table for each public table that its queries join."""
    joined = {
        query.join.declared.table.name: query.join.declared.table
        for query in group.queries
        if query.join is not None and not query.join.by_unit
    }
    if not joined:
        return group
    people = {
        name: [row for unit in group.invent_units(RANDOM_UNITS) for row in unit[name]]
        for name in group.tables
    }
    known = situation_pair(group.tables, Situation("", people), {}).one
    arrow_tables: dict[str, pa.Table] = {}
    for name, table in joined.items():
        keys = join_key_values(group.queries, known, name)
        arrow_tables[name] = generate_public_table(table, keys, group.draws, group.literals)
    return replace(group, public=arrow_tables)
