"""Prove lower bounds of epsilon: some answers select events, and all other answers test them.

The first quarter of the answers serves to select statistics, intervals and events. Then the number
of the remaining answers is fixed, and these serve only to count the hits of the events. There is
one event for each question, each order of the two tables, and each delta. Each count gives a lower
or an upper confidence limit of a probability (`lower_limit` and `upper_limit`). The probability
that any limit is wrong is at most `ERROR_PROBABILITY`, which is divided evenly among all limits
that the audit may compute. The number of these limits is known in advance.

The confidence limits, and the bounds of epsilon from them, are rounded to the safe side.

Source: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika 26(4). The lower limit of a probability, after h hits among n draws, is
the p at which P(X >= h) equals the allowed probability of an error, for X binomial with n and p.

This module bounds that tail instead of computing it. From each k to the next, the binomial
probability is multiplied by (n - k) p / ((k + 1) (1 - p)), which decreases with k. So, if the
factor at h is below 1,

    P(X >= h) <= P(X = h) / (1 - (n - h) p / ((h + 1) (1 - p))).

A ball encloses the right side. The tail increases with p. So if the right side is certainly at most
the allowed probability of an error, then p is certainly at or below the limit. If that probability
is small, binomial probabilities decrease so fast near the limit that the bound is nearly exact; the
tests compare the bound with the exact limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from dprelease.auditing.black_box.answer_statistics import statistics
from dprelease.auditing.black_box.drawn_answers import BitFactory, Source
from dprelease.auditing.black_box.noise_questions import Question
from dprelease.auditing.black_box.tried_events import (
    BinnedStatistic,
    Event,
    EventCandidate,
    event_candidates,
)
from dprelease.mechanisms.base import interval_upper_float
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Integers

PRECISION = 128
MOST_STEPS = 400
CLOSE_WIDTH = 2.0**-30
"""A search ends at this relative width of the probability and of its complement."""


def lower_limit(hits: int, draws: int, error_probability: Fraction) -> Fraction:
    """Return a lower confidence limit of the probability of a hit.

    The limit is wrong with at most the probability `error_probability`. It is an exact fraction, at
    or just below the lower limit of Clopper and Pearson.

    Raises ValueError for more hits than draws, or an error probability that is not between 0 and
    1/2.
    """
    if not (0 <= hits <= draws and draws > 0 and 0 < error_probability < Fraction(1, 2)):
        raise ValueError("hits are some of the draws, and a miss is between 0 and 1/2")
    if hits == 0:
        return Fraction(0)
    low, high = 0.0, hits / draws
    with ctx.workprec(PRECISION):
        log_counts = _log_binomial(hits, draws)
        limit = ball(error_probability).log()
        for _ in range(MOST_STEPS):
            middle = (low + high) / 2
            if not low < middle < high or high - low <= CLOSE_WIDTH * min(low, 1.0 - high):
                break
            tail = log_counts + _log_tail_factor(middle, hits, draws)
            low, high = (middle, high) if tail <= limit else (low, middle)
    return Fraction(low)


def upper_limit(hits: int, draws: int, error_probability: Fraction) -> Fraction:
    """Return an upper confidence limit of the probability of a hit.

    The limit is wrong with at most the probability `error_probability`. It is 1 minus the lower
    limit of the probability of no hit, so it is at or just above the upper limit of Clopper and
    Pearson.
    """
    return 1 - lower_limit(draws - hits, draws, error_probability)


def _log_binomial(hits: int, draws: int) -> arb:
    """Return the logarithm of the binomial coefficient."""
    parts = [arb(n + 1).lgamma() for n in (draws, hits, draws - hits)]
    return parts[0] - parts[1] - parts[2]


def _log_tail_factor(probability: float, hits: int, draws: int) -> arb:
    """Return the logarithm of the bound of the tail, without the binomial coefficient."""
    p = arb(probability)
    q = 1 - p
    factor = (draws - hits) * p / ((hits + 1) * q)
    return hits * p.log() + (draws - hits) * q.log() - (1 - factor).log()


def epsilon_lower_bound(one: Fraction, other: Fraction, delta: Fraction) -> float:
    """Return ln((one - delta) / other) rounded down, or 0 if the logarithm is not positive.

    An event with a probability of at least `one` on one table, and of at most `other` on its
    neighbour, proves that no smaller epsilon holds at `delta`.
    """
    gain = one - delta
    if gain <= other:
        return 0.0
    with ctx.workprec(PRECISION):
        return max(0.0, -interval_upper_float((ball(other) / ball(gain)).log()))


ERROR_PROBABILITY = Fraction(1, 10**9)
"""The maximum probability that any of the confidence limits of an audit is wrong."""

INTEGERS_AT_ONCE = 2**20
"""The approximate maximum number of integers that are drawn at once."""

MOST_TRAINING_ANSWERS, MOST_HELD_INTEGERS = 2**17, 2**22
"""The maximum numbers of each table's training answers, and of their integers in memory."""

PILOT_SECONDS = 0.02
"""The seconds for which answers are drawn to measure how long a draw takes."""

CLOCK_SECONDS, CLOCK_CHECKS = 1.0, 20
"""The maximum number of seconds between two checks of the clock, and the number of checks."""

OVERHEAD, SELECTION_TIME = 2.0, 0.35
"""The time for an answer as a multiple of its draw, and the share of time for selecting events."""

LEAST_ANSWERS = 200
"""The minimum number of answers of each table for a test."""

SELECTION_DIVISOR, MOST_TEST_FACTOR = 4, 8.0
"""The number by which the answers are divided for selecting events, and the maximum number of test
answers that is assumed, as a multiple of the selecting answers."""


Counts = tuple[Integers, Integers]
"""The numbers of answers of both tables in each interval."""


@dataclass(frozen=True, eq=False, slots=True)
class QuestionGroup:
    """Questions about the same source, which the same answers can decide."""

    source: Source
    questions: tuple[Question, ...]
    draws: int
    """The target number of answers of each table."""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The bound that the answers to one question prove at a delta.

    `draws` is the number of answers of each table, and `tested` the number of these answers that
    tested the event. `hits` has the hits of the event in both tables, first in the table for which
    the event was selected.
    """

    question: Question
    delta: Fraction
    claimed: float
    epsilon: float
    statistic: str
    draws: int
    tested: int
    hits: tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class _TestedQuestion:
    """An event that was selected to answer a question at a delta."""

    question: Question
    delta: Fraction
    swapped: bool
    event: Event


def prove_bounds(
    groups: Sequence[QuestionGroup],
    until: float,
    bits: BitFactory,
    error_probability: Fraction = ERROR_PROBABILITY,
) -> Iterator[QuestionResult]:
    """Yield the results of each question, at the release's delta and possibly at another delta.

    `until` is the deadline, by `time.monotonic()`: near the deadline fewer answers are drawn, and
    after it none. All confidence limits hold together, except with the probability
    `error_probability`.
    """
    limits = 2 * sum(_most_events(question) for group in groups for question in group.questions)
    error_per_limit = error_probability / max(1, limits)
    seconds_each = [_seconds_per_answer(group, bits) * group.draws for group in groups]
    for i, group in enumerate(groups):
        left = until - time.monotonic()
        if left <= 0:
            return
        share = left * seconds_each[i] / sum(seconds_each[i:])
        seconds = seconds_each[i] / group.draws
        clock_seconds = min(CLOCK_SECONDS, share / CLOCK_CHECKS)
        trial = _GroupTest(group, bits, error_per_limit, int(clock_seconds / seconds))
        yield from trial.epsilon_bounds(group.draws, time.monotonic() + share)


def _most_events(question: Question) -> int:
    """Return the maximum number of tested events: for two orders of the tables, and two deltas."""
    return 2 * min(2, len(question.deltas))


def _seconds_per_answer(group: QuestionGroup, bits: BitFactory) -> float:
    """Return the approximate processor seconds per answer of each table."""
    group.source.draw(1, 0, bits())  # mechanisms compute their tables at the first noise draw
    n, spent = 4, 0.0
    while spent < PILOT_SECONDS and n <= group.draws:
        begun = time.process_time()
        group.source.draw(n, 0, bits())
        spent, n = time.process_time() - begun, 4 * n
    return OVERHEAD * 2 * max(spent, 1e-6) / (n // 4)


class _GroupTest:
    """The answers of one group: they train statistics, then select events, and then test them."""

    def __init__(
        self, group: QuestionGroup, bits: BitFactory, error_per_limit: Fraction, at_once: int
    ) -> None:
        self._source, self._questions, self._bits = group.source, group.questions, bits
        self._error_per_limit = error_per_limit
        most = max(1, INTEGERS_AT_ONCE // len(group.source.features))
        self._at_once = min(most, max(LEAST_ANSWERS, at_once))

    def epsilon_bounds(self, draws: int, until: float) -> Iterator[QuestionResult]:
        """Yield the results of all questions from `draws` answers, or from fewer near `until`."""
        begun, selecting_draws = time.monotonic(), draws // SELECTION_DIVISOR
        training_draws = min(
            selecting_draws // 2,
            MOST_TRAINING_ANSWERS,
            max(LEAST_ANSWERS // 8, MOST_HELD_INTEGERS // len(self._source.features)),
        )
        first = begun + SELECTION_TIME * (until - begun)
        binned_statistics, trained = self._fit_statistics(training_draws, first)
        chosen_from = time.monotonic()
        counts, selection_draws = self._interval_counts(
            binned_statistics, selecting_draws - training_draws, first
        )
        now = time.monotonic()
        speed = selection_draws / max(now - chosen_from, 1e-9)
        test_factor = min(draws - selecting_draws, max(0.0, until - now) * speed) / max(
            selection_draws, 1
        )
        test_factor = min(max(test_factor, 1.0), MOST_TEST_FACTOR)
        tests = [
            test
            for question, fitted, counted in zip(
                self._questions, binned_statistics, counts, strict=True
            )
            for test in self._selected_events(question, fitted, counted, test_factor)
        ]
        # From here on the number of test answers is fixed.
        room = max(0.0, until - time.monotonic()) * speed
        tested = max(LEAST_ANSWERS // 2, int(min(draws - selecting_draws, room)))
        hits = self._hits(tests, tested)
        for question in self._questions:
            own = [
                (test, hit)
                for test, hit in zip(tests, hits, strict=True)
                if test.question is question
            ]
            for delta in dict.fromkeys((question.claim.delta, *_further_deltas(question, own))):
                yield self._largest_lower_bound(
                    question, delta, own, (trained + selection_draws + tested, tested)
                )

    def _draw_pairs(self, n: int, until: float = math.inf) -> Iterator[tuple[Integers, Integers]]:
        """Yield n answers of each table in parts, or fewer answers near the deadline `until`.

        Every part is drawn with new random bits.
        """
        for first in range(0, n, self._at_once):
            size = min(self._at_once, n - first)
            one, other = (self._source.draw(size, side, self._bits()) for side in (0, 1))
            yield one, other
            if time.monotonic() > until:
                return

    def _fit_statistics(self, n: int, until: float) -> tuple[list[list[BinnedStatistic]], int]:
        """Return the binned statistics of every question, and the number of training answers."""
        drawn = list(self._draw_pairs(n, until))
        one, other = (np.concatenate([both[side] for both in drawn], axis=1) for side in (0, 1))
        binned_statistics = [
            [
                BinnedStatistic.fit(statistic, one, other)
                for statistic in statistics(question, one, other)
            ]
            for question in self._questions
        ]
        return binned_statistics, one.shape[1]

    def _interval_counts(
        self, binned_statistics: list[list[BinnedStatistic]], n: int, until: float
    ) -> tuple[list[list[Counts]], int]:
        counts = [
            [(np.zeros_like(binned.order), np.zeros_like(binned.order)) for binned in fitted]
            for fitted in binned_statistics
        ]
        drawn = 0
        for both in self._draw_pairs(n, until):
            for fitted, counted in zip(binned_statistics, counts, strict=True):
                for binned, sides in zip(fitted, counted, strict=True):
                    for side, answers in zip(sides, both, strict=True):
                        side += binned.counts(answers)
            drawn += both[0].shape[1]
        return counts, drawn

    def _selected_events(
        self,
        question: Question,
        binned_statistics: list[BinnedStatistic],
        counts: list[Counts],
        test_factor: float,
    ) -> Iterator[_TestedQuestion]:
        """Yield the best events for each order of the tables, at the release's delta and another.

        At the other delta, the expected epsilon minus the claimed epsilon is largest.
        """
        deltas = question.deltas
        for swapped in (False, True):
            best: dict[Fraction, EventCandidate] = {}
            for binned, counted in zip(binned_statistics, counts, strict=True):
                found = event_candidates(
                    binned,
                    counted,
                    deltas,
                    float(self._error_per_limit),
                    swapped=swapped,
                    test_factor=test_factor,
                )
                for delta, one in zip(deltas, found, strict=True):
                    if delta not in best or one.expected_epsilon > best[delta].expected_epsilon:
                        best[delta] = one
            own = question.claim.delta
            yield _TestedQuestion(question, own, swapped, best.pop(own).event)
            hoped = {delta: one for delta, one in best.items() if one.expected_epsilon > 0}
            if hoped:
                most = max(hoped, key=lambda d: hoped[d].expected_epsilon - question.claim.at(d))
                yield _TestedQuestion(question, most, swapped, hoped[most].event)

    def _hits(self, tests: Sequence[_TestedQuestion], n: int) -> list[tuple[int, int]]:
        """Return the hits of every event among n answers, first in the table of its selection."""
        hits: Integers = np.zeros((len(tests), 2), dtype=np.int64)
        for both in self._draw_pairs(n):
            for i, test in enumerate(tests):
                order = both[::-1] if test.swapped else both
                hits[i] += [test.event.count_hits(answers) for answers in order]
        return [(int(more), int(less)) for more, less in hits.tolist()]

    def _largest_lower_bound(
        self,
        question: Question,
        delta: Fraction,
        own: Sequence[tuple[_TestedQuestion, tuple[int, int]]],
        draws: tuple[int, int],
    ) -> QuestionResult:
        """Among the tested events, return the result that proves the largest epsilon at a delta."""
        total, tested = draws
        bounds = [
            epsilon_lower_bound(
                lower_limit(more, tested, self._error_per_limit),
                upper_limit(less, tested, self._error_per_limit),
                delta,
            )
            for _, (more, less) in own
        ]
        i = int(np.argmax(bounds))
        test, hits = own[i]
        claimed = question.claim.at(delta)
        return QuestionResult(
            question, delta, claimed, bounds[i], test.event.kind, total, tested, hits
        )


def _further_deltas(
    question: Question, own: Sequence[tuple[_TestedQuestion, tuple[int, int]]]
) -> Iterator[Fraction]:
    """Yield the deltas at which an event was selected, except the delta of the release."""
    yield from sorted({test.delta for test, _ in own if test.delta != question.claim.delta})
