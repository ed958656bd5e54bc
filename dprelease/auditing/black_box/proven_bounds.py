"""Prove lower bounds of epsilon: select events on some draws, and count them on all others.

The first quarter of the draws selects statistics, intervals and events, in any way. Then the number
of remaining draws is fixed, and they are used only to count the hits of the events. There is one
event for each question, order of the two tables, and delta. Each count gives a lower and an upper
confidence limit of a probability (`least_chance` and `greatest_chance`). All limits hold together
except with the probability `MISS`, which is divided evenly among all limits that the audit may
compute. Their number is known in advance.

The confidence limits, and the bounds of epsilon computed from them, are rounded to the safe side.

Source: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika 26(4). The lower limit of a probability, after h hits among n draws, is
the p at which P(X >= h) equals the allowed probability of an error (the miss), for X binomial with
n and p.

That tail is bounded here, not computed. From each k to the next one the binomial probability is
multiplied by (n - k) p / ((k + 1) (1 - p)), which decreases with k. So, if the factor at h is below
1,

    P(X >= h) <= P(X = h) / (1 - (n - h) p / ((h + 1) (1 - p))).

A ball encloses the right side. The tail increases with p. So if the right side is certainly at most
the miss, then p is certainly at or below the limit. For a small miss, probabilities decrease so
fast near the limit that the bound is nearly exact; the tests compare it with the exact limit.
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
from dprelease.auditing.black_box.drawn_answers import Bits, Source
from dprelease.auditing.black_box.noise_questions import Question
from dprelease.auditing.black_box.tried_events import Event, EventCandidate, View, event_candidates
from dprelease.mechanisms.base import ball_upper_float
from dprelease.numerics.balls import ball
from dprelease.numerics.lattice import Integers

PRECISION = 128
STEPS = 400
CLOSE = 2.0**-30
"""A search ends at this relative width of the probability and of its complement."""


def least_chance(hits: int, draws: int, miss: Fraction) -> Fraction:
    """Return a lower limit of the probability of a hit, wrong with probability at most `miss`.

    The limit is an exact fraction, at or just below the lower limit of Clopper and Pearson.

    Raises
    ------
    ValueError
        For more hits than draws, or a miss that is not between 0 and 1/2.
    """
    if not (0 <= hits <= draws and draws > 0 and 0 < miss < Fraction(1, 2)):
        raise ValueError("hits are some of the draws, and a miss is between 0 and 1/2")
    if hits == 0:
        return Fraction(0)
    low, high = 0.0, hits / draws
    with ctx.workprec(PRECISION):
        log_counts = _log_ways(hits, draws)
        limit = ball(miss).log()
        for _ in range(STEPS):
            middle = (low + high) / 2
            if not low < middle < high or high - low <= CLOSE * min(low, 1.0 - high):
                break
            tail = log_counts + _log_tail(middle, hits, draws)
            low, high = (middle, high) if tail <= limit else (low, middle)
    return Fraction(low)


def greatest_chance(hits: int, draws: int, miss: Fraction) -> Fraction:
    """Return an upper limit of the probability of a hit, wrong with probability at most `miss`.

    The limit is 1 minus the lower limit for draws without a hit, so it is at or just above the
    upper limit of Clopper and Pearson.
    """
    return 1 - least_chance(draws - hits, draws, miss)


def _log_ways(hits: int, draws: int) -> arb:
    """Return the logarithm of the binomial coefficient."""
    parts = [arb(n + 1).lgamma() for n in (draws, hits, draws - hits)]
    return parts[0] - parts[1] - parts[2]


def _log_tail(chance: float, hits: int, draws: int) -> arb:
    """Return the logarithm of the bound divided by the binomial coefficient."""
    p = arb(chance)
    q = 1 - p
    factor = (draws - hits) * p / ((hits + 1) * q)
    return hits * p.log() + (draws - hits) * q.log() - (1 - factor).log()


def epsilon_between(one: Fraction, other: Fraction, delta: Fraction) -> float:
    """Return ln((one - delta) / other) rounded down, or 0 if it is not positive.

    An event with a probability of at least `one` on one table, and at most `other` on its
    neighbour, proves that no smaller epsilon holds at `delta`.
    """
    gain = one - delta
    if gain <= other:
        return 0.0
    with ctx.workprec(PRECISION):
        return max(0.0, -ball_upper_float((ball(other) / ball(gain)).log()))


MISS = Fraction(1, 10**9)
"""The maximum probability that any of the confidence limits of an audit is wrong."""

AT_ONCE = 2**20
"""The approximate number of integers that are drawn at once."""

TRAINED, KEPT = 2**17, 2**22
"""The number of answers of each table for training, and of their integers held in memory."""

PILOT = 0.02
"""The seconds of a trial draw, which measures how long draws take."""

BREATH, LOOKS = 1.0, 20
"""The maximum seconds between two checks of the clock, and how often it is checked."""

OVERHEAD, FIRST = 2.0, 0.35
"""The time for an answer as a multiple of its draw, and the share of time for selecting events."""

LEAST = 200
"""The minimum number of answers of each table for a test."""

CHOOSING, MOST_TIMES = 4, 8.0
"""One in this many answers serves to select events; this many times as many answers are expected at
most."""


Counts = tuple[Integers, Integers]
"""The numbers of answers of both tables in each interval."""


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Questions about the same source, which are answered by the same draws."""

    source: Source
    questions: tuple[Question, ...]
    draws: int
    """The target number of answers of each table."""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The bound that the answers to one question prove at a delta.

    `draws` is the number of answers of each table, and `tested` the number of these answers among
    which hits were counted. `hits` are the hits of the event, first in the table for which it was
    selected.
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
    question: Question
    delta: Fraction
    swapped: bool
    event: Event


def prove_bounds(
    groups: Sequence[Group], until: float, bits: Bits, miss: Fraction = MISS
) -> Iterator[QuestionResult]:
    """Yield the result of each question, at the delta of the release and possibly at another.

    `until` is the deadline, by `time.monotonic()`: near it fewer answers are drawn, and after it
    none. All limits together hold except with the probability `miss`.
    """
    limits = 2 * sum(_events(question) for group in groups for question in group.questions)
    each = miss / max(1, limits)
    seconds_each = [_seconds(group, bits) * group.draws for group in groups]
    for i, group in enumerate(groups):
        left = until - time.monotonic()
        if left <= 0:
            return
        share = left * seconds_each[i] / sum(seconds_each[i:])
        seconds, breath = seconds_each[i] / group.draws, min(BREATH, share / LOOKS)
        trial = _Trial(group, bits, each, int(breath / seconds))
        yield from trial.epsilon_bounds(group.draws, time.monotonic() + share)


def _events(question: Question) -> int:
    """Return the maximum number of counted events: for two orders of the tables, and two deltas."""
    return 2 * min(2, len(question.deltas))


def _seconds(group: Group, bits: Bits) -> float:
    """Return the approximate processor seconds per answer of each table."""
    group.source.draw(1, 0, bits())  # noise mechanisms build their tables at their first draw
    n, spent = 4, 0.0
    while spent < PILOT and n <= group.draws:
        begun = time.process_time()
        group.source.draw(n, 0, bits())
        spent, n = time.process_time() - begun, 4 * n
    return OVERHEAD * 2 * max(spent, 1e-6) / (n // 4)


class _Trial:
    """The draws of one group: first for training, then for selecting events, then for tests."""

    def __init__(self, group: Group, bits: Bits, each: Fraction, at_once: int) -> None:
        self._source, self._questions, self._bits = group.source, group.questions, bits
        self._each = each
        most = max(1, AT_ONCE // len(group.source.features))
        self._at_once = min(most, max(LEAST, at_once))

    def epsilon_bounds(self, draws: int, until: float) -> Iterator[QuestionResult]:
        """Yield the results of all questions from a number of answers, or fewer near the
        deadline."""
        begun, choosing = time.monotonic(), draws // CHOOSING
        training_draws = min(
            choosing // 2, TRAINED, max(LEAST // 8, KEPT // len(self._source.features))
        )
        first = begun + FIRST * (until - begun)
        views, trained = self._fitted_views(training_draws, first)
        chosen_from = time.monotonic()
        counts, selection_draws = self._interval_counts(views, choosing - training_draws, first)
        now = time.monotonic()
        speed = selection_draws / max(now - chosen_from, 1e-9)
        times = min(draws - choosing, max(0.0, until - now) * speed) / max(selection_draws, 1)
        times = min(max(times, 1.0), MOST_TIMES)
        tests = [
            test
            for question, fitted, counted in zip(self._questions, views, counts, strict=True)
            for test in self._selected_events(question, fitted, counted, times)
        ]
        # From here on the number of draws is fixed.
        room = max(0.0, until - time.monotonic()) * speed
        tested = max(LEAST // 2, int(min(draws - choosing, room)))
        hits = self._hits(tests, tested)
        for question in self._questions:
            own = [
                (test, hit)
                for test, hit in zip(tests, hits, strict=True)
                if test.question is question
            ]
            for delta in dict.fromkeys((question.claim.delta, *_further_deltas(question, own))):
                yield self._best_bound(
                    question, delta, own, (trained + selection_draws + tested, tested)
                )

    def _draw_pairs(self, n: int, until: float = math.inf) -> Iterator[tuple[Integers, Integers]]:
        """Yield answers of both tables in parts: n of each table in total, fewer near the deadline.

        Every part is drawn with new random bits.
        """
        for first in range(0, n, self._at_once):
            size = min(self._at_once, n - first)
            one, other = (self._source.draw(size, side, self._bits()) for side in (0, 1))
            yield one, other
            if time.monotonic() > until:
                return

    def _fitted_views(self, n: int, until: float) -> tuple[list[list[View]], int]:
        """Return the views of every question, and the number of answers that they are trained
        on."""
        drawn = list(self._draw_pairs(n, until))
        one, other = (np.concatenate([both[side] for both in drawn], axis=1) for side in (0, 1))
        views = [
            [View.fit(statistic, one, other) for statistic in statistics(question, one, other)]
            for question in self._questions
        ]
        return views, one.shape[1]

    def _interval_counts(
        self, views: list[list[View]], n: int, until: float
    ) -> tuple[list[list[Counts]], int]:
        """Return the counts in the intervals of every view, and the number of counted answers."""
        counts = [
            [(np.zeros_like(view.order), np.zeros_like(view.order)) for view in fitted]
            for fitted in views
        ]
        drawn = 0
        for both in self._draw_pairs(n, until):
            for fitted, counted in zip(views, counts, strict=True):
                for view, sides in zip(fitted, counted, strict=True):
                    for side, answers in zip(sides, both, strict=True):
                        side += view.counts(answers)
            drawn += both[0].shape[1]
        return counts, drawn

    def _selected_events(
        self, question: Question, views: list[View], counts: list[Counts], times: float
    ) -> Iterator[_TestedQuestion]:
        """Yield the best events for each order of the tables: at the release's delta, and another.

        The other delta is the one at which the expected epsilon exceeds the claimed epsilon most,
        or is nearest to it.
        """
        deltas = question.deltas
        for swapped in (False, True):
            best: dict[Fraction, EventCandidate] = {}
            for view, counted in zip(views, counts, strict=True):
                found = event_candidates(
                    view, counted, deltas, float(self._each), swapped=swapped, times=times
                )
                for delta, one in zip(deltas, found, strict=True):
                    if delta not in best or one.promise > best[delta].promise:
                        best[delta] = one
            own = question.claim.delta
            yield _TestedQuestion(question, own, swapped, best.pop(own).event)
            hoped = {delta: one for delta, one in best.items() if one.promise > 0}
            if hoped:
                most = max(hoped, key=lambda d: hoped[d].promise - question.claim.at(d))
                yield _TestedQuestion(question, most, swapped, hoped[most].event)

    def _hits(self, tests: Sequence[_TestedQuestion], n: int) -> list[tuple[int, int]]:
        """Return the hits of every event among n answers, first in the table of its selection."""
        hits: Integers = np.zeros((len(tests), 2), dtype=np.int64)
        for both in self._draw_pairs(n):
            for i, test in enumerate(tests):
                order = both[::-1] if test.swapped else both
                hits[i] += [test.event.hits(answers) for answers in order]
        return [(int(more), int(less)) for more, less in hits.tolist()]

    def _best_bound(
        self,
        question: Question,
        delta: Fraction,
        own: Sequence[tuple[_TestedQuestion, tuple[int, int]]],
        draws: tuple[int, int],
    ) -> QuestionResult:
        """Return the result with the largest bound among the events of a question at a delta."""
        total, tested = draws
        bounds = [
            epsilon_between(
                least_chance(more, tested, self._each),
                greatest_chance(less, tested, self._each),
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
    """Yield the deltas for which an event was selected, except the delta of the release."""
    yield from sorted({test.delta for test, _ in own if test.delta != question.claim.delta})
