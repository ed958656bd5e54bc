"""Cells of upper levels are added up once for all tables with some of their keys."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from dprelease.exact.duckdb import Engine
from dprelease.query.resolve import Query
from dprelease.statements.coarser import FINEST_RELATION, LEVEL_RELATION
from tests.exact.families import SUMS, TYPES, family, reference_vectors, unit_of
from tests.exact.reference import Row

ASKED = (
    "hierarchy: [state, county, tract]\n    cube: [sex, old]\n"
    "    marginals_at: {county: [[], [sex, old]], tract: [[sex]]}"
)
ROWS: list[Row] = [
    {
        "id": i % 7,
        "tract": f"t{1 + i % 9}",
        "sex": "fm"[i % 2],
        "race": "a",
        "day": date(2020, 2, 28),
        "old": i % 3 == 0,
        "size": 1,
        "n": i,
        "x": i / 4,
        "state": None,
    }
    for i in range(20)
]


def numbers(engine: Engine, query: Query) -> dict[tuple[str, str], list[int]]:
    table = engine.run(query)
    return {(query.name, m.name): table.vector(m.name).tolist() for m in query.measurements}


def tables(engine: Engine) -> set[str]:
    """Return the engine's own tables, by name."""
    held = engine._connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return {name for (name,) in held}


@pytest.mark.parametrize("unit", ["", unit_of(2, 2)])
def test_levels_are_added_up_once_and_then_dropped(unit: str) -> None:
    """In any order of tables, and again after all temporary tables are dropped."""
    made: list[tuple[str, ...]] = []
    queries = family(ASKED, SUMS, unit)
    expected = reference_vectors(queries, ROWS)
    rows = pa.Table.from_pylist(
        [{k: row.get(k) for k in TYPES.names} for row in ROWS], schema=TYPES
    )
    with Engine.open(queries[0].declared, rows) as engine:
        engine.expect(queries)
        found: dict[tuple[str, str], list[int]] = {}
        for query in queries:
            found |= numbers(engine, query)
            made.append(engine._families._level or ())
        assert found == expected
        # The whole, states, and counties; the last level is the finest cells' own.
        levels = [("sex", "old"), ("state", "sex", "old"), ("county", "sex", "old")]
        assert list(dict.fromkeys(made)) == levels
        assert {FINEST_RELATION, LEVEL_RELATION} <= tables(engine)
        engine.drop_shared_data()
        assert not tables(engine)
        engine.drop_shared_data()
        found = {}
        for query in reversed(queries):
            found |= numbers(engine, query)
        assert found == expected
