"""True tables of families: equal to a slow reference, and to each other's sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.covering import examples, thinned
from tests.exact.families import (
    ASKED,
    COUNTS,
    NULLS,
    ROW_UNIT,
    ROWS,
    SUMS,
    family,
    found,
    unit_of,
    wanted,
)
from tests.exact.reference import Row

UNITS = [ROW_UNIT, unit_of(1, 1), unit_of(2, 2), unit_of(50, 3)]


@pytest.mark.parametrize(
    ("asked", "columns", "unit", "nulls"), thinned(ASKED, [COUNTS, SUMS], UNITS, NULLS), ids=str
)
@examples(4)
@given(rows=st.lists(ROWS, max_size=24))
def test_tables_equal_the_reference(
    asked: str, columns: str, unit: str, nulls: tuple[str, str], rows: list[Row]
) -> None:
    queries = family(asked, columns, unit, nulls)
    assert found(queries, rows) == wanted(queries, rows)
