"""SQL of the position of a text among declared values, whatever these texts are."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.query import quoting
from dprelease.statements.values.categories import COMPARED, listed_position_sql, position_or_sql

NASTY = ["F", "M", "", " ELSE ", "a ELSE b END", "x' END", "CASE ", "''", "NULL", "é", "f"]


@given(
    st.lists(st.sampled_from(NASTY), unique=True, max_size=COMPARED),
    st.one_of(st.none(), st.sampled_from(NASTY)),
    st.booleans(),
)
def test_positions_of_constant_texts(values: list[str], text: str | None, groups: bool) -> None:
    """Also if they look like SQL; what is missing or none of them is told apart from all."""
    told = "NULL::VARCHAR" if text is None else quoting.text(text)
    position = listed_position_sql(values, "t", groups=groups)
    assert position is not None
    with duckdb.connect() as link:
        sql = f"SELECT {position}, {position_or_sql(position, 77)} FROM (SELECT {told} AS t)"
        found = link.execute(sql).fetchone()
    assert found == _places(values, text)


@given(
    st.lists(st.sampled_from(NASTY), unique=True, max_size=COMPARED),
    st.lists(st.one_of(st.none(), st.sampled_from(NASTY)), min_size=1, max_size=9),
    st.booleans(),
)
def test_positions_of_column_texts(
    values: list[str], texts: list[str | None], groups: bool
) -> None:
    """Engines answer columns by other code than the one that folds constants."""
    position = listed_position_sql(values, "t", groups=groups)
    assert position is not None
    with duckdb.connect() as link:
        link.execute("CREATE TABLE found AS SELECT unnest(?::VARCHAR[]) AS t", [texts])
        sql = f"SELECT {position}, {position_or_sql(position, 77)} FROM found ORDER BY rowid"
        assert link.execute(sql).fetchall() == [_places(values, text) for text in texts]


def _places(values: list[str], text: str | None) -> tuple[int | None, int]:
    """Return the position of a text, None where it has none; and that with 77 for none."""
    place = values.index(text) if text in values else None
    return place, 77 if place is None else place


@pytest.mark.parametrize(
    ("position", "place"), [("NULL", 7), ("3", 3), ("CASE WHEN false THEN 1 ELSE 2 END", 2)]
)
def test_positions_outside_of_lists(position: str, place: int) -> None:
    with duckdb.connect() as link:
        assert link.execute(f"SELECT {position_or_sql(position, 7)}").fetchone() == (place,)


def test_long_lists_use_a_lookup_table() -> None:
    values = [str(i) for i in range(COMPARED + 1)]
    assert listed_position_sql(values, "t", groups=False) is None
    assert listed_position_sql(values, "t", groups=True) is not None
    assert (
        listed_position_sql(["a"], "f(t)", groups=False) is None
    )  # it would be computed for each value
