"""An invented nation: areas within areas, persons and housing units, with the skew of a real one.

`python -m examples.census.nation.generate FOLDER` writes one small state; `--states`, `--counties`
and the like make it larger. Nobody in it exists: numbers of areas, empty blocks, household sizes
and shares of races are of the order of published ones, everything else is drawn.

What comes out, all of it public but for the last two files: the values of each level with the level
above (`states.csv`, ... `blocks.csv`), races and group quarters (`races.csv`, `quarters.csv`), and
the tables of `persons.parquet` (block, quarters, adult, hispanic, race) and `units.parquet` (block,
occupied).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Whole = NDArray[np.int64]

SINGLE_RACES = ("white", "black", "native", "asian", "pacific", "other")
SINGLE_SHARES = (0.62, 0.124, 0.011, 0.06, 0.002, 0.084)
QUARTERS = (
    "household",
    "adult_correctional",
    "juvenile",
    "nursing",
    "other_institution",
    "college",
    "military",
    "other_group",
)
ADULTS_ALONE = ("adult_correctional", "nursing", "military")
"""Group quarters that hold nobody below 18: structural zeros of the release."""

LEVELS = ("state", "county", "tract", "block_group", "block")
DIGITS = (2, 3, 6, 1, 4)
EMPTY_BLOCKS = 0.28
CODE = pa.dictionary(pa.int32(), pa.string())
PERSONS = pa.schema(
    [("block", CODE), ("quarters", CODE), ("adult", pa.bool_()), ("hispanic", pa.bool_()),
     ("race", CODE)]
)  # fmt: skip
UNITS = pa.schema([("block", CODE), ("occupied", pa.bool_())])
BLOCKS_WITH_QUARTERS = 0.02


@dataclass(frozen=True)
class Size:
    """How many areas there are: of each level on average in one of the level above."""

    states: int = 1
    counties: float = 4.0
    tracts: float = 6.0
    block_groups: float = 2.8
    blocks: float = 16.0

    @property
    def fans(self) -> tuple[float, ...]:
        """Return the average number of children, level by level, of the whole first."""
        return (self.states, self.counties, self.tracts, self.block_groups, self.blocks)


def races() -> list[str]:
    """Return the 63 sets of one to six races, as names joined by '+'."""
    sizes = range(1, len(SINGLE_RACES) + 1)
    return ["+".join(chosen) for n in sizes for chosen in combinations(SINGLE_RACES, n)]


def shares_of_races() -> NDArray[np.float64]:
    """Return the share of each set of races: rarer the more there are, and the rarer they are."""
    single = dict(zip(SINGLE_RACES, SINGLE_SHARES, strict=True))
    weights = [
        math.prod(single[race] for race in name.split("+")) ** (1 / (1 + name.count("+") / 2))
        * 0.12 ** name.count("+")
        for name in races()
    ]
    return np.array(weights) / sum(weights)


def codes(rng: np.random.Generator, size: Size) -> list[tuple[list[str], Whole]]:
    """Return for each level the codes of its areas, and which area of the level above each is in.

    A code begins with that of the area above, as census codes do.
    """
    above, by_level = [""], []
    for fan, digits in zip(size.fans, DIGITS, strict=True):
        spread = rng.gamma(3.0, fan / 3.0, len(above)) if by_level else np.array([fan])
        most = 10**digits - 1
        children = np.clip(np.rint(spread), 1, most).astype(np.int64)
        parents = np.repeat(np.arange(len(above)), children)
        within = np.arange(len(parents)) - np.repeat(np.cumsum(children) - children, children)
        above = [
            f"{above[p]}{i + 1:0{digits}d}"
            for p, i in zip(parents.tolist(), within.tolist(), strict=True)
        ]
        by_level.append((above, parents))
    return by_level


def households(rng: np.random.Generator, blocks: int) -> Whole:
    """Return the number of housing units of each block: many blocks have none, a few very many."""
    expected = rng.lognormal(2.3, 0.95, blocks)
    return np.where(rng.random(blocks) < EMPTY_BLOCKS, 0, rng.poisson(expected))


def persons(
    rng: np.random.Generator, tract_of: Whole, occupied: Whole
) -> dict[str, NDArray[np.int64] | NDArray[np.bool_]]:
    """Return one row for each person: block, quarters, adult, hispanic and race, as numbers.

    `tract_of`: the tract of each block, whose people are like each other. `occupied`: the number of
    households of each block.
    """
    of_household = np.repeat(np.arange(len(occupied)), occupied)
    sizes = 1 + rng.poisson(1.5, len(of_household))
    at_home = np.repeat(of_household, sizes)
    with_quarters = np.flatnonzero(rng.random(len(occupied)) < BLOCKS_WITH_QUARTERS)
    in_quarters = 1 + rng.poisson(rng.lognormal(3.0, 1.0, len(with_quarters)))
    kinds = rng.choice(np.arange(1, len(QUARTERS)), len(with_quarters))
    block = np.concatenate([at_home, np.repeat(with_quarters, in_quarters)])
    quarters = np.concatenate(
        [np.zeros(len(at_home), np.int64), np.repeat(kinds, in_quarters).astype(np.int64)]
    )
    tracts = int(tract_of.max()) + 1
    of_tract = rng.dirichlet(20 * shares_of_races(), tracts)
    edges = np.cumsum(of_tract, axis=1)
    draws = rng.random(len(block))
    race = np.empty(len(block), np.int64)
    order = np.argsort(tract_of[block], kind="stable")
    ends = np.cumsum(np.bincount(tract_of[block], minlength=tracts))
    for tract, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        own = order[start:stop]
        race[own] = np.minimum(np.searchsorted(edges[tract], draws[own]), edges.shape[1] - 1)
    hispanic = rng.random(len(block)) < rng.beta(1.0, 4.5, tracts)[tract_of[block]]
    adult = rng.random(len(block)) < 0.77
    adult |= np.isin(quarters, [QUARTERS.index(kind) for kind in ADULTS_ALONE])
    return {
        "block": block,
        "quarters": quarters,
        "adult": adult,
        "hispanic": hispanic,
        "race": race,
    }


def generate(folder: Path, size: Size, seed: int = 2020) -> None:
    """Write the invented nation into a folder, people and units state after state."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    by_level = codes(rng, size)
    _write_levels(folder, by_level)
    _write_list(folder / "races.csv", "race", races())
    _write_list(folder / "quarters.csv", "quarters", QUARTERS)
    blocks, group_of = by_level[-1]
    tract_of = by_level[-2][1][group_of]
    state_of = by_level[1][1][by_level[2][1][tract_of]]
    ends = np.searchsorted(state_of, np.arange(len(by_level[0][0]) + 1))
    with ExitStack() as files:
        writers = [
            files.enter_context(pq.ParquetWriter(folder / f"{name}.parquet", schema))
            for name, schema in (("persons", PERSONS), ("units", UNITS))
        ]
        for start, stop in pairwise(ends.tolist()):
            tables = _people(rng, blocks[start:stop], tract_of[start:stop] - tract_of[start])
            for writer, table in zip(writers, tables, strict=True):
                writer.write_table(table)


def _people(
    rng: np.random.Generator, blocks: list[str], tract_of: Whole
) -> tuple[pa.Table, pa.Table]:
    """Return the persons and the housing units of a state, a row each."""
    units = households(rng, len(blocks))
    occupied = rng.binomial(units, 0.9)
    labels = {"block": blocks, "quarters": list(QUARTERS), "race": races()}
    columns = persons(rng, tract_of, occupied)
    table = {
        name: _text(values, labels[name]) if name in labels else pa.array(values)
        for name, values in columns.items()
    }
    of_unit = np.repeat(np.arange(len(blocks)), units)
    rank = np.arange(len(of_unit)) - np.repeat(np.cumsum(units) - units, units)
    columns_of_units = {
        "block": _text(of_unit, blocks),
        "occupied": pa.array(rank < np.repeat(occupied, units)),
    }
    return pa.table(table, PERSONS), pa.table(columns_of_units, UNITS)


def _text(numbers: NDArray[np.int64] | NDArray[np.bool_], labels: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), labels)


def _write_levels(folder: Path, by_level: list[tuple[list[str], Whole]]) -> None:
    above: list[str] = []
    for i, (level, (names, parents)) in enumerate(zip(LEVELS, by_level, strict=True)):
        plural = "counties" if level == "county" else f"{level}s"
        rows: Iterator[str] = iter([level, *names])
        if i:
            pairs = zip(names, parents.tolist(), strict=True)
            rows = iter([f"{level},{LEVELS[i - 1]}", *(f"{n},{above[p]}" for n, p in pairs)])
        (folder / f"{plural}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        above = names


def _write_list(path: Path, header: str, values: list[str] | tuple[str, ...]) -> None:
    path.write_text("\n".join([header, *values]) + "\n", encoding="utf-8")


def main() -> None:
    """Write the nation that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    for name, default in vars(Size()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = vars(parser.parse_args())
    generate(given.pop("folder"), Size(**given))


if __name__ == "__main__":
    main()
