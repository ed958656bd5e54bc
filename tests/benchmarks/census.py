"""`make bench ARGS=--census`: both layers of one large state, and releases from rows to files.

The layers: 418,000 blocks in the tree of a large state, 2 x 2 x 63 cells, the finest table measured
at blocks and eight tables above; noise stands in from NumPy, so that only the layers are timed. The
releases are of invented people (`examples/census/nation`): a small state with all of its tables,
then verified; and eight tables of up to 252 cells at each level of several states, at blocks the
finest alone, in files by state, with `--nation` of 51, by which it is told what each block costs.
Each runs in a process of its own, whose peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path

import numpy as np

from dprelease.consistency.algebra import Table, cell_count
from dprelease.consistency.family import integer_pieces
from dprelease.consistency.integer_tables.decisions import refinement
from dprelease.consistency.structure import NoiseMoments, Structure
from dprelease.consistency.tree import Tree
from dprelease.consistency.variances import Variances
from examples.census.nation.generate import Size, codes, generate

NATION = Path(__file__).parents[2] / "examples" / "census" / "nation"
SIZES = (2, 2, 63)
AT_ONCE = 10_000
TABLES: list[Table] = [*chain.from_iterable(combinations(range(3), n) for n in range(4))]
LARGE = Size(counties=254, tracts=27, block_groups=2.7, blocks=28.3)
"""About 418,000 blocks: as many as the largest states have."""

RELEASED = Size(counties=20, tracts=20, blocks=20)
"""Of the release with its 25 tables of persons: about 30,000 blocks, 19 million measured cells."""


STATES = Size(states=4, counties=62, tracts=26, block_groups=2.8, blocks=32.5)
"""About 590,000 blocks: more cells than are held at once."""

NATION_WIDE = Size(states=51, counties=62, tracts=26, block_groups=2.8, blocks=32.5)
"""About 7.3 million blocks, 1.8 billion cells."""

ONE_AT_BLOCKS = """\
title: Eight tables at every level of a nation, and one of them at blocks
about: {languages: [en, es]}
tables: [schemas/persons.yaml]
budget: {rho: 2.5562, delta: 1e-10}
mechanism: discrete_gaussian
queries:
  population:
    from: persons
    hierarchy: [state, county, tract, block_group, block]
    cube: [adult, hispanic, race]
    marginals_at: {block: [[adult, hispanic, race]]}
    columns: {persons: {count: "*"}}
    consistent: {non_negative: true, publish: {down_to: block_group, partition: state}}
limits: {max_cells: 10000000000}
duckdb: {memory_limit: 2GB}
output: out/nation
"""


@dataclass(frozen=True, slots=True)
class Timed:
    """One piece of work: what it was of, seconds by the clock and of processors, peak megabytes."""

    work: str
    blocks: int
    cells: int
    seconds: float
    processor: float
    megabytes: int


def layers(size: Size) -> Timed:
    """Return what both layers of a state take, from noised numbers to whole tables."""
    rng = np.random.default_rng(7)
    parents = [level[1] for level in codes(rng, size)[1:]]
    tree = Tree(1, parents)
    last = tree.levels - 1
    laws: list[dict[Table, NoiseMoments]] = [
        {table: NoiseMoments(Fraction(10)) for table in (TABLES if level < last else TABLES[-1:])}
        for level in range(tree.levels)
    ]
    structure = Structure(SIZES, tree, laws)
    truth = _truth(rng, tree)
    noised = {
        (level, table): _noisy_table(rng, truth[level], table)
        for level in range(tree.levels)
        for table in laws[level]
    }
    del truth
    begun, used = time.perf_counter(), time.process_time()
    variances = Variances(structure)
    how = [refinement(variances, TABLES[-1])]

    def read(level: int, table: Table, start: int, stop: int) -> np.ndarray:
        return noised[level, table][start:stop].astype(np.int64)

    total = 0
    for piece in integer_pieces(variances, read, how):
        total += sum(
            len(level[TABLES[-1]]) for level in piece.whole[0 if piece.estimates.top else 1 :]
        )
    assert total == sum(tree.counts)
    return _measure("layers 1 and 2", tree.counts[-1], cell_count(SIZES, TABLES[-1]), begun, used)


def _truth(rng: np.random.Generator, tree: Tree) -> list[np.ndarray]:
    """Return counts of every level, those above sums of those below."""
    shares = rng.dirichlet(np.full(cell_count(SIZES, TABLES[-1]), 0.2))
    people = np.where(rng.random(tree.counts[-1]) < 0.28, 0, rng.poisson(30, tree.counts[-1]))
    leaves = np.empty((len(people), len(shares)), np.int32)
    for some in _slices(len(people)):
        leaves[some] = rng.poisson(people[some, None] * shares)
    levels = [leaves.reshape(-1, *SIZES)]
    for parents, count in zip(reversed(tree.parents), reversed(tree.counts[:-1]), strict=True):
        above = np.zeros((count, *SIZES), np.int32)
        np.add.at(above, parents, levels[0])
        levels.insert(0, above)
    return levels


def _noisy_table(rng: np.random.Generator, truth: np.ndarray, table: Table) -> np.ndarray:
    left = tuple(1 + i for i in range(len(SIZES)) if i not in table)
    margin = truth.sum(axis=left, dtype=np.int32) if left else truth.copy()
    for some in _slices(len(margin)):
        noise = rng.normal(0, 10**0.5, margin[some].shape)
        margin[some] += np.rint(noise).astype(np.int32)
    return margin


def _slices(size: int) -> Iterator[slice]:
    """Yield some areas at a time, so that what is measured is not the memory of making them."""
    yield from (slice(first, first + AT_ONCE) for first in range(0, size, AT_ONCE))


def release(folder: Path, size: Size) -> list[Timed]:
    """Return what a release of a state takes, and what verifying it does."""
    import dprelease

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NATION, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    generate(folder / "data", size)
    blocks = len((folder / "data" / "blocks.csv").read_text(encoding="utf-8").splitlines()) - 1
    begun, used = time.perf_counter(), time.process_time()
    published = dprelease.read_release(folder / "release.yaml").run()
    ran = _measure("a release of 50 tables", blocks, 568 + 25 + 3, begun, used)
    begun, used = time.perf_counter(), time.process_time()
    assert dprelease.verify(published).ok
    return [ran, _measure("verify", blocks, 568 + 25 + 3, begun, used)]


def nation(folder: Path, size: Size) -> list[Timed]:
    """Return what a release of one table at every level takes, its people made beforehand."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NATION, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    begun, used = time.perf_counter(), time.process_time()
    made = subprocess.run(
        [sys.executable, "-m", "examples.census.nation.generate", str(folder / "data")]
        + [f"--{name}={value}" for name, value in asdict(size).items()],
        check=True,
    )
    assert made.returncode == 0
    with (folder / "data" / "blocks.csv").open(encoding="utf-8") as file:
        blocks = sum(1 for _ in file) - 1
    generated = _measure("people made", blocks, 252, begun, used)
    schema = folder / "schemas" / "persons.yaml"  # how much disk is asked for follows from it
    declared_size = f"table: persons\nsize: {_rows(folder / 'data' / 'persons.parquet')}\n"
    text = schema.read_text(encoding="utf-8").replace("table: persons\n", declared_size)
    schema.write_text(text, encoding="utf-8")
    (folder / "nation.yaml").write_text(ONE_AT_BLOCKS, encoding="utf-8")
    import dprelease

    begun, used = time.perf_counter(), time.process_time()
    release = dprelease.read_release(folder / "nation.yaml")
    release.plan()
    declared = _measure("declared and planned", blocks, 252, begun, used)
    begun, used = time.perf_counter(), time.process_time()
    release.run()
    return [generated, declared, _measure("a table at blocks, 8 above", blocks, 252, begun, used)]


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    rows: int = pq.read_metadata(file).num_rows
    return rows


def _measure(work: str, blocks: int, cells_of_a_block: int, begun: float, used: float) -> Timed:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    return Timed(work, blocks, blocks * cells_of_a_block, seconds, processor, peak)


def run(
    folder: Path, large: Size = LARGE, released: Size = RELEASED, states: Size = STATES
) -> list[Timed]:
    """Print and return the figures, each piece of work in a process of its own."""
    found = _apart("layers", None, large) + _apart("release", folder, released)
    found += _apart("nation", folder, states)
    heads = f"{'census':24}{'blocks':>10}{'cells, M':>10}{'seconds':>9}{'CPU s':>8}"
    print(f"{heads}{'us/block':>10}{'MB':>7}")
    for one in found:
        numbers = f"{one.cells / 1e6:10.1f}{one.seconds:9.1f}{one.processor:8.1f}"
        each = f"{1e6 * one.processor / one.blocks:10.1f}"
        print(f"{one.work:24}{one.blocks:10,}{numbers}{each}{one.megabytes:7,}")
    return found


def _apart(work: str, folder: Path | None, size: Size) -> list[Timed]:
    asked = json.dumps([work, None if folder is None else str(folder), asdict(size)])
    command = [sys.executable, "-m", "tests.benchmarks.census", asked]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [Timed(**one) for one in json.loads(told)]


def main(asked: str) -> None:
    """Do one piece of work, and print its figures as JSON."""
    work, folder, size = json.loads(asked)
    done: Sequence[Timed]
    if work == "layers":
        done = [layers(Size(**size))]
    else:
        done = {"release": release, "nation": nation}[work](Path(folder), Size(**size))
    print(json.dumps([asdict(one) for one in done]))


if __name__ == "__main__":
    main(sys.argv[1])
