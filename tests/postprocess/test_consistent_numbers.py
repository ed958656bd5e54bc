"""For all noisy integers, consistent tables are computed, add up, and don't depend on pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.consistency.fixed_point import value_bits
from dprelease.numerics.lattice import LIMIT, Integers
from dprelease.planning.prepare import prepare
from dprelease.postprocess.consistent import reading
from dprelease.postprocess.consistent.family_columns import consistent_columns
from dprelease.postprocess.consistent.family_shape import Shape
from dprelease.postprocess.consistent.reading import MeasuredColumn, Slices, on_lattice
from dprelease.postprocess.consistent.values import required_tables
from dprelease.postprocess.families import Family, NoisedTable
from dprelease.tables.family_tables import step_tables
from tests.release.area_family import GROUPED, TREE, read_family

WHOLE = "{non_negative: true}"
MEASURED_GROUPINGS = {
    **GROUPED,
    "asked": f"{TREE}\n    marginals_at: {{market: [[], [sex]], size: [[band, sex]]}}",
    "consistent": "{groupings: [size, market]}",
}


def family_of(folder: Path, **asked: Any) -> Family:
    declaration = read_family(folder, **asked)
    (family,) = prepare(declaration)[1].families
    return family


def noisy_family_tables(family: Family, draw: Callable[[int], Integers]) -> list[NoisedTable]:
    """Return a family's tables with integers that are drawn for as many cells."""
    found = []
    for table in family.tables:
        held = draw(table.query.keys.size)
        found.append(NoisedTable(table, lambda _, held=held: iter(np.array_split(held, 3))))
    return found


def publish_tables(family: Family, tables: Sequence[NoisedTable]) -> dict[str, Any]:
    assert family.step is not None
    made: dict[str, list[Any]] = {}
    for piece in step_tables(family.outputs, family.step.values(tables), {}):
        made.setdefault(piece.name, []).append(piece.rows.to_pydict())
    return {name: tables[0] for name, tables in made.items()}


def totals(made: dict[str, Any], kind: str) -> set[int]:
    """Return the totals of all tables, as exact numbers."""
    tables = (table["n"] for name, table in made.items() if name.startswith(kind))
    return {sum(int(value * 2**20) for value in held) for held in tables}


RANDOM = np.random.default_rng(7)
DRAWS: dict[str, Callable[[int], Integers]] = {
    "nothing": lambda size: np.zeros(size, np.int64),
    "people": lambda size: RANDOM.integers(-30, 1000, size),
    "a nation": lambda size: RANDOM.integers(0, 10**9, size),
    "more than all": lambda size: RANDOM.integers(-(10**12), 10**12, size),
    "huge noise": lambda size: RANDOM.integers(-(2**50), 2**50, size),
    "all largest": lambda size: np.full(size, LIMIT),
    "all least": lambda size: np.full(size, -LIMIT),
    "both ends": lambda size: RANDOM.choice([-LIMIT, LIMIT], size),
    "one end": lambda size: np.where(np.arange(size) == size // 2, LIMIT, 0),
    "every size": lambda size: RANDOM.choice([1, -1], size) << RANDOM.integers(0, 62, size),
}


@pytest.mark.each
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("consistent", ["true", WHOLE, "measured groupings"])
def test_consistent_tables_add_up_for_any_integers(
    draw: str, consistent: str, tmp_path: Path
) -> None:
    grouped = consistent == "measured groupings"
    family = family_of(tmp_path, **(MEASURED_GROUPINGS if grouped else {"consistent": consistent}))
    made = publish_tables(family, noisy_family_tables(family, DRAWS[draw]))
    assert len(totals(made, "estimates")) == 1
    if consistent == WHOLE:
        assert len(totals(made, "tables")) == 1
        assert all(min(table["n"]) >= 0 for name, table in made.items() if "tables/" in name)


@pytest.mark.parametrize("draw", ["people", "a nation", "more than all"])
def test_grid_follows_from_the_measurements(draw: str, tmp_path: Path) -> None:
    """The finest grid without overflow; nothing is cut while one exists."""
    family = family_of(tmp_path)
    shape = Shape.of(family.tables)
    (column,) = consistent_columns(shape)
    measured = MeasuredColumn(column, noisy_family_tables(family, DRAWS[draw]))
    assert family.step is not None
    found = on_lattice(measured, required_tables(shape, family.step.spec))  # type: ignore[attr-defined]
    bits = {"people": 20, "a nation": 12, "more than all": 4}[draw]
    assert (found.structure.bits >= bits, measured.cap) == (True, LIMIT), found.structure.bits
    assert found.of is column.variances.of


def test_coarser_grids_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no bound is known in advance; numbers that fit no grid are cut."""
    family = family_of(tmp_path)
    tables = noisy_family_tables(family, DRAWS["a nation"])
    whole = publish_tables(family, tables)
    largest = noisy_family_tables(family, lambda size: np.full(size, 10**12))
    before = publish_tables(family, largest)
    monkeypatch.setattr(reading, "FINEST", 11)
    tried: list[int] = []
    fits = reading._can_compute_estimates

    def seen(measured: MeasuredColumn, found: Any, wanted: Any, first: Any) -> bool:
        tried.append(found.structure.bits)
        return fits(measured, found, wanted, first) and found.structure.bits <= 4

    monkeypatch.setattr(reading, "_can_compute_estimates", seen)
    monkeypatch.setattr(reading, "estimates_fit", lambda *_: False)
    coarse = publish_tables(family, tables)
    assert tried == [12, 8, 4]
    assert len(totals(coarse, "estimates")) == 1
    for name, table in whole.items():
        assert table["n"] == pytest.approx(coarse[name]["n"], abs=1.0)
    monkeypatch.setattr(reading, "_can_compute_estimates", lambda *_: False)
    cut = publish_tables(family, largest)
    assert len(totals(cut, "estimates")) == 1
    assert cut["estimates/pop_total"]["n"][0] < 0.9 * before["estimates/pop_total"]["n"][0]


@pytest.mark.parametrize("draw", ["people", "a nation"])
def test_one_pass_suffices_with_known_bounds(
    draw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are the same as when all grids are tried."""
    monkeypatch.setattr(reading, "FINEST", 11)
    family = family_of(tmp_path, consistent=WHOLE)
    tables = noisy_family_tables(family, DRAWS[draw])
    with monkeypatch.context() as changed:
        changed.setattr(
            reading, "_can_compute_estimates", lambda *_: pytest.fail("all of them were tried out")
        )
        one = publish_tables(family, tables)
    monkeypatch.setattr(reading, "estimates_fit", lambda *_: False)
    assert publish_tables(family, tables) == one


def test_cut_numbers_have_no_standard_errors(tmp_path: Path) -> None:
    """Numbers that fit no grid have no standard error, and intervals that contain everything."""
    family = family_of(tmp_path, consistent=WHOLE, columns='{n: {count: "*", margin: true}}')
    tables = noisy_family_tables(family, DRAWS["huge noise"])
    made = publish_tables(family, tables)
    for name, table in made.items():
        if name.startswith("estimates"):
            assert {*table["n_se"], *table["n_moe"]} == {None}
        else:
            assert (set(table["n_lower"]), set(table["n_upper"])) == ({0}, {LIMIT})
    assert family.step is not None
    for draw in ("huge noise", "more than all", "every size"):
        tables = noisy_family_tables(family, DRAWS[draw])
        files: dict[str, Any] = {}
        for piece in step_tables(family.outputs, family.step.values(tables), {}):
            files[piece.name] = lambda table=piece.rows: iter(table.to_batches())
        assert list(family.step.problems(tables, files)) == []


def test_grids_have_the_requested_bits() -> None:
    for sizes in ((), (2,), (2, 63), (8, 2, 2, 63)):
        for bits in range(value_bits(sizes, 2) + 1):
            largest = reading._largest_number(sizes, bits)
            assert value_bits(sizes, largest) >= bits
            assert bits == 20 or value_bits(sizes, 2 * largest) < max(bits, 1) or largest == 2**53


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_slices_of_a_stream_equal_slices_of_an_array(size: int) -> None:
    """Any slices, ascending or again from the start, for all piece sizes."""
    whole = np.arange(50)
    opened = 0

    def pieces() -> Iterator[Integers]:
        nonlocal opened
        opened += 1
        yield from (whole[i : i + size] for i in range(0, 50, size))

    slices = Slices(pieces)
    for start, stop in [(0, 5), (5, 6), (6, 6), (20, 31), (31, 50), (50, 50), (3, 4), (10, 50)]:
        assert slices.between(start, stop).tolist() == list(range(start, stop))
    assert opened == 2


def test_absolute_sums_may_exceed_64_bits() -> None:
    piece = np.array([LIMIT, -LIMIT, LIMIT, -LIMIT, 3])
    assert reading._absolute_sum(piece) == 4 * LIMIT + 3
