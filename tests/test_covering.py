"""What is left out of a product hides no pair of values."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.covering import cover, thinned


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(4,), (3, 5), (4, 6, 2), (2, 2, 2, 2), (7, 3, 3, 2)])
def test_any_values_of_different_axes_occur_together(sizes: tuple[int, ...], together: int) -> None:
    found = cover(sizes, together)
    for axes in combinations(range(len(sizes)), together):
        wanted = set(product(*(range(sizes[axis]) for axis in axes)))
        assert {tuple(cell[axis] for axis in axes) for cell in found} == wanted
    whole = len(list(product(*map(range, sizes))))
    assert len(found) == whole if together >= len(sizes) else len(found) < whole


def test_the_whole_product_is_there_for_audits() -> None:
    cells = thinned("abcd", range(6), [True, False])
    assert [cell.values for cell in cells] == list(product("abcd", range(6), [True, False]))
    assert [bool(cell.marks) for cell in cells].count(False) == 24
