"""Assignment of cells to parts of a table, and names of folders."""

from __future__ import annotations

from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.postprocess.partition import Parts, folder_of, parts_of, wrong_folders
from dprelease.query.grouping.group_keys import Key, KeySpace, Places
from tests.covering import examples

WHOLE = Places([0, 0, 0])
STATE = Key("state", "text", ("b", "a", "c"), level=1, parents=WHOLE, leaf="block")
COUNTY = Key("county", "text", (*"wxyz",), level=2, parents=Places([0, 0, 1, 2]), leaf="block")
BLOCK = Key(
    "block", "text", tuple("123456"), level=3, parents=Places([0, 0, 1, 2, 3, 3]), leaf="block"
)
SEX = Key("sex", "text", ("f", "m"))
LEVELS = [STATE, COUNTY, BLOCK]


@pytest.mark.parametrize(
    ("keys", "level", "edges"),
    [
        ((BLOCK, SEX), "state", [0, 6, 8, 12]),
        ((COUNTY,), "state", [0, 2, 3, 4]),
        ((BLOCK, SEX), "county", [0, 4, 6, 8, 12]),
        ((STATE, SEX), "state", None),
        ((SEX,), "state", None),
        ((), "state", None),
        ((BLOCK,), None, None),
    ],
)
def test_cells_are_in_the_part_of_their_area(
    keys: tuple[Key, ...], level: str | None, edges: list[int] | None
) -> None:
    parts = parts_of(KeySpace(keys), level, LEVELS)
    assert (None if parts is None else parts.edges.tolist()) == edges
    if parts is not None and level == "state":
        assert parts.names == ("state=b/part-00000", "state=a/part-00001", "state=c/part-00002")


@examples(40)
@given(st.sets(st.integers(0, 11)), st.integers(0, 12), st.integers(0, 12))
def test_cuts_between_parts_match_each_cell(some: set[int], start: int, stop: int) -> None:
    parts = parts_of(KeySpace((BLOCK, SEX)), "state", LEVELS)
    assert parts is not None
    for cells, cuts in (
        (np.array(sorted(some), np.int64), Parts.cut),
        (np.arange(start, stop), lambda own, _: own.between(start, stop)),
    ):
        found = [part for part, rows in cuts(parts, cells) for _ in cells[rows]]
        assert found == [0 if cell < 6 else 1 if cell < 8 else 2 for cell in cells.tolist()]


@pytest.mark.parametrize("text", ["01", "Nord/Süd", "..", "a=b", "50 %", "x" * 80, "a:b?*"])
def test_folders_have_the_names_of_areas(text: str) -> None:
    folder = folder_of("state", text)
    assert "/" not in folder
    assert unquote(folder) == f"state={text}"
    assert not list(wrong_folders(Key("state", "text", (text,))))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (("a", "A"), "case"),
        (("a", ""), "no value"),
        (("ü" * 60,), "too long"),
        (("a", "__HIVE_DEFAULT_PARTITION__"), "no value"),
    ],
)
def test_areas_that_can_not_be_folders_are_refused(values: tuple[str, ...], reason: str) -> None:
    (problem,) = wrong_folders(Key("state", "text", values))
    assert reason in problem
