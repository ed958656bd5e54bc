"""Every word of the stream makes the noise of one cell of one column, and of no other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.exact.results.true_table import ExactTable
from dprelease.mechanisms.base import Mechanism
from dprelease.noise.noised_vectors import _noisy_chunks, perturb_in_batches
from dprelease.numerics import lattice
from dprelease.numerics.lattice import sample
from dprelease.planning.plan import make_plan
from dprelease.schema.release import BudgetSpec
from tests.exact.build import ask, declare
from tests.mechanisms.laws import KINDS, law_of
from tests.replay import Keyed, Replay

N = 12


@pytest.mark.parametrize("scale", [5.0, 2.0**40])
@pytest.mark.parametrize(("name", "shape"), [kind for kind in KINDS if kind[0] != "optimal"])
def test_each_random_word_changes_exactly_one_draw(
    name: str, shape: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turning one word over changes exactly one draw: no word is used twice, none is idle."""
    law: Mechanism = law_of(name, scale if name != "truncated_laplace" else 5.0, shape)
    monkeypatch.setattr(lattice, "CHUNK", 5)
    drawn = N * (2 if law.segment_sampler else 1)
    words = [int(word) for word in Keyed(f"influence {name}").words(drawn)]
    plain = sample(law, N, Replay(words))
    moved = []
    for i in range(drawn):
        turned = [word ^ (2**64 - 1 if j == i else 0) for j, word in enumerate(words)]
        changed = np.flatnonzero(sample(law, N, Replay(turned, fill=1)) != plain)
        assert len(changed) <= 1
        moved += changed.tolist()
    assert sorted(moved) == sorted([*range(N)] * (drawn // N))


def test_columns_of_a_query_have_independent_noise() -> None:
    """Columns follow each other in the stream, chunk by chunk, and are not correlated."""
    laws = {name: law_of("discrete_laplace", 30.0) for name in ("rows", "pay", "again")}
    size = 2**14 + 1000  # two chunks
    exact = ExactTable("all", size, {name: np.zeros(size, dtype=np.int64) for name in laws})
    chunks = list(_noisy_chunks(exact, laws, Keyed("columns")))
    noise = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in laws}
    stream = Keyed("columns")
    for first, last in ((0, 2**14), (2**14, size)):
        for name, law in laws.items():
            assert np.array_equal(noise[name][first:last], sample(law, last - first, stream))
    between = np.corrcoef(list(noise.values()))[np.triu_indices(3, 1)]
    assert np.max(np.abs(between)) < 7 / size**0.5


@pytest.mark.parametrize("epsilon", [1, 12])
@pytest.mark.parametrize("most", [7, 10**6])
def test_every_cell_gets_noise(epsilon: int, most: int) -> None:
    """Whatever is true of a cell, and however small the noise is: no number goes without."""
    declared = declare({"n": {"type": "integer", "lower": -5, "upper": 20}})
    query = ask(declared, {"rows": {"count": "*"}, "total": {"sum": "n"}, "mean": {"mean": "n"}})
    budget = BudgetSpec(epsilon=Fraction(epsilon))
    columns = make_plan([query], budget).columns
    names = [column.measurement.name for column in columns]
    assert len(names) == 3
    true = np.array([0, 1, -1, 7, -(10**12)] * 100)
    exact = ExactTable("q", len(true), dict.fromkeys(names, true))
    batches = list(perturb_in_batches(exact, columns, Keyed("all of it"), most))
    stream = Keyed("all of it")
    for column in columns:
        name = column.measurement.name
        found = np.concatenate([batch.columns[name] for batch in batches])
        assert isinstance(column.mechanism, Mechanism)
        drawn = sample(column.mechanism.noise_distribution, len(true), stream)
        assert (found - true).tolist() == drawn.tolist()
        assert np.any(drawn)
