"""Small worlds: a release over a few columns, the people in it, and all people that tables admit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dprelease
from dprelease.planning.prepare import prepare
from dprelease.reconstruction.counted_tables import CountedTables, counted_tables
from dprelease.reconstruction.programs import Program
from dprelease.reconstruction.record_combinations import Combinations, combinations_of
from dprelease.rehearsal.rehearse import write_rehearsal
from dprelease.schema.load import read_declaration
from tests.replay import Keyed

Integers = NDArray[np.int64]

SCHEMA = """\
table: people
source: nowhere.csv
columns:
  town: {type: category, values: [u, v], fill: u, others: u}
  sex: {type: category, values: [f, m], fill: f, others: f}
  work: {type: boolean, fill: false}
  age: {type: integer, lower: 0, upper: 99, fill: 0}
"""
RELEASE = """\
title: A small world
tables: [people.yaml]
budget: {epsilon: EPSILON}
mechanism: discrete_laplace
queries:
  people:
    from: people
    marginals: MARGINALS
    columns: {n: {count: "*"}}
output: out/people
"""
PAIRS = "[[town, sex], [town, work], [sex, work]]"


def write(folder: Path, marginals: str = PAIRS, epsilon: float = 1) -> Path:
    """Write the declarations of a world, and return the release file."""
    (folder / "people.yaml").write_text(SCHEMA)
    path = folder / "release.yaml"
    text = RELEASE.replace("MARGINALS", marginals).replace("EPSILON", f"{epsilon:g}")
    path.write_text(text)
    return path


def tables(path: Path) -> tuple[CountedTables, Combinations]:
    """Return what of a release is attacked."""
    declaration = read_declaration(path)
    _, plan = prepare(declaration)
    found = counted_tables(plan.families)
    return found, combinations_of(found.used)


def cells(
    found: CountedTables, combinations: Combinations, records: Integers
) -> dict[str, Integers]:
    """Return the cells of all tables, counted in another way than the package does."""
    counted = {}
    for one in found.used:
        cell = np.zeros(one.query.keys.size, dtype=np.int64)
        for place, n in zip(combinations.cells[one.name], records, strict=True):
            if place >= 0:
                cell[place] += n
        counted[one.name] = cell
    return counted


def admitted(asked: Program) -> list[Integers]:
    """Return all whole numbers of records within a program's bounds, by trying them."""
    matrix = asked.matrix.toarray().astype(np.int64)

    def tried(done: list[int], sums: Integers) -> Iterator[Integers]:
        i = len(done)
        if i == matrix.shape[1]:
            if (sums >= asked.lower).all():
                yield np.array(done, dtype=np.int64)
            return
        n = 0
        while (sums + n * matrix[:, i] <= asked.upper).all() and n <= asked.most[i]:
            yield from tried([*done, n], sums + n * matrix[:, i])
            n += 1

    return list(tried([], np.zeros(len(matrix), dtype=np.int64)))


def grid(most: int, combinations: int) -> Integers:
    """Return all numbers of records up to some number for each combination."""
    return np.array(list(product(range(most + 1), repeat=combinations)), dtype=np.int64)


def rehearsed(
    folder: Path, rows: Sequence[str], marginals: str, epsilon: float
) -> tuple[Path, Path]:
    """Rehearse a world on a public file of rows; return the rehearsal and the file."""
    public = folder / "public.csv"
    public.write_text("\n".join(["town,sex,work,age", *rows]) + "\n")
    path = write(folder, marginals, epsilon)
    declaration = read_declaration(path)
    made = write_rehearsal(
        declaration, on={"people": public}, bits=Keyed("world"), output=folder / "made"
    )
    assert dprelease.verify(made, rehearsal=True).ok
    return made, public
