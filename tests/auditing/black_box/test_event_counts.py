"""Events are chosen and tested on different draws, and all limits share one error probability."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.auditing.black_box import proven_bounds
from dprelease.auditing.black_box.answer_statistics import (
    SingleNumber,
    additive_score,
    fisher_discriminant,
)
from dprelease.auditing.black_box.drawn_answers import Feature
from dprelease.auditing.black_box.noise_questions import Claim, Question
from dprelease.auditing.black_box.proven_bounds import (
    ERROR_PROBABILITY,
    QuestionGroup,
    prove_bounds,
)
from dprelease.auditing.black_box.tried_events import BinnedStatistic, event_candidates
from dprelease.numerics.entropy import BitSource
from dprelease.numerics.lattice import Integers
from tests.auditing.black_box.build import streams

MOVED = np.array([0, 1, 2])


def question(delta: str = "0") -> Question:
    claim = Claim(Fraction(delta), 1.0, lambda other: float(1 - other))
    return Question("q", "n", "law", MOVED, MOVED, claim)


@dataclass(eq=False)
class ChangingTables:
    """Tables that every answer distinguishes, up to an answer from which on they are equal."""

    turn: int
    drawn: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def features(self) -> tuple[Feature, ...]:
        return tuple(Feature("q", "n", i, True) for i in range(3))

    def draw(self, n: int, side: int, bits: BitSource) -> Integers:
        noise = (bits.words(3 * n) % np.uint64(7)).astype(np.int64).reshape(3, n)
        first = self.drawn[side]
        self.drawn[side] += n
        told = np.arange(first, first + n) < self.turn
        return noise + np.where(told & (side == 1), 10, 0)


@pytest.fixture(autouse=True)
def no_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing to learn how long it takes."""
    monkeypatch.setattr(proven_bounds, "_seconds_per_answer", lambda group, bits: 1e-6)


def test_draws_that_choose_an_event_do_not_test_it() -> None:
    """By the quarter that chooses the tables could not be farther apart; afterwards they are equal."""
    apart, turned = ChangingTables(10**9), ChangingTables(2000)
    (one, *_) = prove_bounds([QuestionGroup(apart, (question(),), 8000)], math.inf, streams("a"))
    assert one.epsilon > 3
    found = list(prove_bounds([QuestionGroup(turned, (question(),), 8000)], math.inf, streams("a")))
    assert turned.drawn == [8000, 8000]
    assert all(one.epsilon == 0.0 for one in found)
    assert all((one.draws, one.tested) == (8000, 6000) for one in found)


def test_limits_share_one_error_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two for every event that is counted, of all groups together."""
    events: list[int] = []
    misses: set[Fraction] = set()
    hits = proven_bounds._GroupTest._hits
    least, greatest = proven_bounds.lower_limit, proven_bounds.upper_limit

    def counted(self: proven_bounds._GroupTest, tests: Any, n: int) -> Any:
        events.append(len(tests))
        return hits(self, tests, n)

    def noted(limit: Any) -> Any:
        def noting(hits: int, draws: int, error_probability: Fraction) -> Fraction:
            misses.add(error_probability)
            return limit(hits, draws, error_probability)

        return noting

    monkeypatch.setattr(proven_bounds._GroupTest, "_hits", counted)
    monkeypatch.setattr(proven_bounds, "lower_limit", noted(least))
    monkeypatch.setattr(proven_bounds, "upper_limit", noted(greatest))
    groups = [
        QuestionGroup(ChangingTables(10**9), (question(), question("1e-9")), 2000),
        QuestionGroup(ChangingTables(10**9), (question("1e-5"),), 2000),
    ]
    found = list(prove_bounds(groups, math.inf, streams("b")))
    assert {one.question for one in found} == {q for group in groups for q in group.questions}
    (each,) = misses
    assert sum(events) == 12
    assert 2 * sum(events) * each == ERROR_PROBABILITY


def test_best_event_is_chosen_in_both_directions() -> None:
    """For probabilities 1/8, 3/8, 1/2 and 3/8, 1/8, 1/2: the first interval, and the second."""
    masses = [1000, 3000, 4000], [3000, 1000, 4000]
    drawn = [np.repeat([0, 1, 2], mass)[None] for mass in masses]
    view = BinnedStatistic.fit(SingleNumber(0), drawn[0], drawn[1])
    counts = view.counts(drawn[0]), view.counts(drawn[1])
    more, less = (
        event_candidates(view, counts, [Fraction(0)], 1e-6, swapped=swapped)[0]
        for swapped in (False, True)
    )
    assert more.event.in_event.tolist()[1:] == [False, True, False]
    assert less.event.in_event.tolist()[1:] == [True, False, False]
    assert more.expected_epsilon == pytest.approx(less.expected_epsilon)
    assert 0.7 * math.log(3) < more.expected_epsilon < math.log(3)


def test_clearest_difference_is_chosen_without_signal() -> None:
    """Not the event of all answers, which is as likely on both tables."""
    drawn = [np.repeat([0, 1, 2], masses)[None] for masses in ([330, 340, 330], [300, 340, 360])]
    view = BinnedStatistic.fit(SingleNumber(0), drawn[0], drawn[1])
    counts = view.counts(drawn[0]), view.counts(drawn[1])
    few, many = (
        event_candidates(view, counts, [Fraction(0)], 1e-9, swapped=True, test_factor=test_factor)[
            0
        ]
        for test_factor in (1.0, 1000.0)
    )
    assert few.expected_epsilon < 0 < many.expected_epsilon
    assert few.event.in_event.tolist()[1:] == [False, True, True]
    assert many.event.in_event.tolist()[1:] == [False, False, True]


def test_linear_score_uses_inverse_covariance() -> None:
    """Two numbers have nearly the same noise; one that the tables agree in takes it away."""
    rng = np.random.default_rng(5)
    shared = np.round(rng.normal(0, 1000, (2, 4000)))
    sides = [
        np.stack((noise + differing, noise + rng.integers(0, 3, 4000), rng.integers(0, 3, 4000)))
        for noise, differing in zip(shared, (4.0, 0.0), strict=True)
    ]
    score = fisher_discriminant(MOVED, sides[0], sides[1])
    weights = score.weights / score.weights[0]
    assert weights[1] == pytest.approx(-1.0, abs=0.05)
    assert abs(weights[2]) < 0.2


def test_additive_score_approximates_likelihood_ratio() -> None:
    rng = np.random.default_rng(6)
    sides = [rng.laplace(0, 2, (3, 60_000)).round().astype(np.int64) for _ in range(2)]
    sides[0][0] += 1
    score = additive_score(MOVED, sides[0], sides[1])
    at = np.array([[-9, 9], [0, 0], [0, 0]])
    low, high = score(at).tolist()
    assert low == pytest.approx(-0.5, abs=0.15)
    assert high == pytest.approx(0.5, abs=0.15)
    assert all(np.count_nonzero(weights) <= 1 for weights in score.weights[1:])
