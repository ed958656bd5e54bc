"""The invented state: its files are what the release declares, and its story can be told."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import dprelease
from examples.census import story
from examples.census.nation.generate import ADULTS_ALONE, LEVELS, Size, codes, generate, races

TINY = Size(counties=2, tracts=2, block_groups=2, blocks=5)


def test_codes_start_with_the_code_of_the_parent_area() -> None:
    by_level = codes(np.random.default_rng(1), Size(states=3, blocks=4))
    for (above, _), (names, parents) in zip(by_level, by_level[1:], strict=False):
        assert all(name.startswith(above[p]) for name, p in zip(names, parents, strict=True))
        assert len(set(names)) == len(names)
        assert (np.diff(parents) >= 0).all()
        assert set(parents.tolist()) == set(range(len(above)))


def test_state_is_reproducible_and_plausible(tmp_path: Path) -> None:
    for name in ("one", "two"):
        generate(tmp_path / name, TINY)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    persons = pq.read_table(tmp_path / "one" / "persons.parquet").to_pandas()
    assert persons["adult"][persons["quarters"].isin(ADULTS_ALONE)].all()
    assert set(persons["race"].astype(str)) <= set(races())
    assert len(races()) == 63


def test_story_runs(tmp_path: Path) -> None:
    story.tell(tmp_path, TINY)
    assert dprelease.verify(tmp_path / "out" / "redistricting").ok
    with (tmp_path / "errors.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(LEVELS) * len(story.TABLES)
    cells = list(story.all_cells(tmp_path))
    people = len(pq.read_table(tmp_path / "data" / "persons.parquet", columns=["race"]))
    assert {one.truth.sum() for one in cells} == {people}
    for stage in ("estimates", "tables"):
        totals = {one.published[stage].sum() for one in cells}
        assert max(totals) - min(totals) < 1e-6
    for name in ("errors.svg", "sizes.svg"):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<?xml")
