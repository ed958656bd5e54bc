"""Faults planted in the noise exceed the claim, and sound noise does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dprelease.auditing.black_box.drawn_answers import (
    Feature,
    NoisedCells,
    Source,
)
from dprelease.auditing.black_box.noise_questions import REPETITION
from dprelease.auditing.black_box.table_questions import ReleasedCells, Releases
from dprelease.auditing.black_box.tiled_tables import FixedAnswers
from dprelease.noise import noised_vectors
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers, SampledDistribution, sample
from dprelease.planning.plan import PlannedColumn
from tests.auditing.black_box.build import (
    bounds_of,
    cells,
    count_with_noise,
    is_refuted,
    plan_query,
    streams,
)
from tests.replay import Keyed

DRAWS = 40_000

Plant = Callable[[pytest.MonkeyPatch], None]


# Vectors: a count of large noise in four cells, one of which a unit moves.


def vector(mechanism: str = "discrete_laplace", **more: Any) -> tuple[PlannedColumn, NoisedCells]:
    column = count_with_noise(mechanism, epsilon="0.5", **more)
    differing = {"n": [5, 1, 0, 7]}, {"n": [5, 0, 0, 7]}
    return column, cells([column], *differing)


def in_pairs(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    """Draw once for every two cells."""
    return np.repeat(sample(law, (n + 1) // 2, bits), 2)[:n]


def opposite(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    drawn = in_pairs(law, n, bits)
    drawn[::2] *= -1
    return drawn


def coarse(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    """Draw multiples of 3: noise with a third of the scale, times 3."""
    return 3 * (sample(law, n, bits) // 3)


def mostly_coarse(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    """Lose the last bits of large numbers, as floats do."""
    drawn = sample(law, n, bits)
    return np.where(np.abs(drawn) > 2, drawn & ~1, drawn)


def clipped_draws(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    return np.clip(sample(law, n, bits), -6, 6)


def never_zero(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
    drawn = sample(law, n, bits)
    return np.where(drawn == 0, 1, drawn)


DRAWN_WRONG = [in_pairs, opposite, coarse, mostly_coarse, clipped_draws, never_zero]


@pytest.mark.parametrize(
    "mechanism", ["discrete_laplace", "discrete_gaussian", "symmetric_alpha_stable"]
)
def test_sound_noise_is_not_accused(mechanism: str) -> None:
    delta = "1e-5" if mechanism == "discrete_gaussian" else "0"
    column, source = vector(mechanism, delta=delta)
    assert not is_refuted(bounds_of(source, [column], delta, DRAWS, "sound"))


@pytest.mark.parametrize("wrong", DRAWN_WRONG, ids=lambda f: f.__name__)
def test_wrong_draws_are_found(
    wrong: Callable[..., Integers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noised_vectors, "sample", wrong)
    column, source = vector()
    assert is_refuted(bounds_of(source, [column], "0", DRAWS, wrong.__name__))


def test_noise_that_depends_on_the_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The truth is the same in the other cells; their noise is not."""

    def noised(true: Integers, law: Any, bits: BitSource) -> Integers:
        drawn = sample(law, len(true), bits)
        tables = true.reshape(-1, 4)
        return (
            true
            + np.where(tables[:, 1:2] > 0, drawn.reshape(-1, 4) // 2, drawn.reshape(-1, 4)).ravel()
        )

    monkeypatch.setattr(noised_vectors, "_add_noise", noised)
    monkeypatch.setattr(noised_vectors, "CHUNK", 4 * DRAWS)
    column, source = vector()
    assert is_refuted(bounds_of(source, [column], "0", DRAWS, "depends"))


@dataclass(frozen=True, eq=False)
class UnroundedAnswers:
    """Answers that are made of true numbers which are no whole ones, and rounded by nobody."""

    inner: Source

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.inner.features

    def draw(self, n: int, side: int, bits: BitSource) -> Any:
        truth = np.array([0.0, 0.3 if side == 0 else 0.0, 0.0, 0.0])
        return self.inner.draw(n, 1, bits) + truth[:, None]


def test_unrounded_answers_are_found() -> None:
    column, source = vector()
    assert is_refuted(bounds_of(UnroundedAnswers(source), [column], "0", DRAWS, "rounded"))


def test_two_columns_with_the_same_noise_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both measurements begin with the same words: by many cells at once nobody would see it."""
    _, columns = plan_query({"n": {"count": "*"}, "s": {"sum": "n"}})
    names = [column.measurement.name for column in columns]
    row = {"n": 1, "s": 3}
    sides = [{name: np.array([there * row[name], 0]) for name in names} for there in (1, 0)]
    known = tuple(FixedAnswers(side, {}, 2) for side in sides)
    answers = ReleasedCells(columns, (known[0], known[1]))

    def shown(key: str) -> bool:
        source = Releases((answers,), streams(key))
        return is_refuted(bounds_of(source, columns, "0", 1600, key, REPETITION))

    assert not shown("sound")

    def again(law: SampledDistribution, n: int, bits: BitSource) -> Integers:
        if not hasattr(bits, "kept"):
            bits.kept = bits.words(n)  # type: ignore[attr-defined]
        words = bits.kept  # type: ignore[attr-defined]
        return sample(law, n, Fixed(words))

    monkeypatch.setattr(noised_vectors, "sample", again)
    assert shown("again")


class Fixed(Keyed):
    """The same words at first."""

    def __init__(self, words: Any) -> None:
        super().__init__("fixed")
        self._first = words

    def words(self, n: int) -> Any:
        first, self._first = self._first[:n], self._first[:0]
        return first if len(first) == n else super().words(n)


@pytest.mark.share(0.4)
@pytest.mark.parametrize("number", [1, 20])
def test_repeated_noise_is_found(number: int) -> None:
    """Releases have bits of a few streams: each answer by itself looks like noise."""
    _, columns = plan_query({"n": {"count": "*"}, "s": {"sum": "n"}})
    row = {"n": 1, "s": 3}
    known = tuple(
        FixedAnswers({name: there * np.array([by] * 4) for name, by in row.items()}, {}, 4)
        for there in (1, 0)
    )
    answers = ReleasedCells(columns, (known[0], known[1]))
    numbers = iter(range(10**6))

    def few() -> BitSource:
        return Keyed(str(next(numbers) % number))

    assert is_refuted(bounds_of(Releases((answers,), few), columns, "0", 1600, "few", REPETITION))
    sound = Releases((answers,), streams("own"))
    assert not is_refuted(bounds_of(sound, columns, "0", 400, "own", REPETITION))
