"""Find events that distinguish two tables, and select the best events.

A binned statistic is a statistic (a number that is computed from each answer) with intervals of its
values. Events are unions of these intervals: all intervals above or below an edge, a single
interval, or the intervals in which answers of one table were more frequent. The intervals and the
events are fixed with answers that are used for nothing else, so that a selected event is
independent of the answers that test it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy.special import betainccinv, betaincinv

from dprelease.numerics.lattice import Flags, Floats, Integers

MOST_VALUES = 512
"""The maximum number of different values for which each value has its own interval."""

EVEN_INTERVALS, DOUBLINGS = 192, 24
"""The number of intervals with equal shares, and how often the outermost intervals are halved."""

THRESHOLD, VALUES = "threshold", "values"


class Statistic(Protocol):
    """A function that computes a number from every answer."""

    @property
    def kind(self) -> str:
        """Return the name of the kind of statistic."""
        ...

    def __call__(self, drawn: Integers) -> Floats:
        """Return (n,) numbers of (features, n) answers."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class BinnedStatistic:
    """A statistic with intervals of its values.

    `edges` has the values at which intervals begin; the first interval is below all edges. `order`
    has the intervals in descending order of the share of answers that belong to the first table.
    """

    statistic: Statistic
    edges: Floats
    order: Integers

    @classmethod
    def fit(cls, statistic: Statistic, one: Integers, other: Integers) -> BinnedStatistic:
        """Return a statistic with intervals that are fitted to answers of both tables."""
        both = statistic(one), statistic(other)
        edges = _interval_edges(np.concatenate(both))
        counts = [_counts_by_interval(values, edges) for values in both]
        ratios = (counts[0] + 0.5) / (counts[1] + 0.5)
        return cls(statistic, edges, np.argsort(-ratios, kind="stable"))

    def counts(self, drawn: Integers) -> Integers:
        """Return the number of answers in each interval, from (features, n) answers."""
        return _counts_by_interval(self.statistic(drawn), self.edges)


def _counts_by_interval(values: Floats, edges: Floats) -> Integers:
    """Return the number of values in each interval between edges, and beyond both last edges."""
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, minlength=len(edges) + 1).astype(np.int64)


def _interval_edges(values: Floats) -> Floats:
    """Return the different values as edges if they are few, and quantiles otherwise."""
    found = np.unique(values)
    if len(found) <= MOST_VALUES:
        return found
    ordered, n = np.sort(values), len(values)
    outer = 0.5 ** np.arange(8, DOUBLINGS)
    parts = np.concatenate((np.linspace(0.0, 1.0, EVEN_INTERVALS), outer, 1.0 - outer))
    picked = np.sort(ordered[np.minimum((parts * n).astype(np.int64), n - 1)])
    frequent = np.unique(picked[1:][picked[1:] == picked[:-1]])
    return np.unique(np.concatenate((picked, np.nextafter(frequent, np.inf))))


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """The event that the statistic of an answer is in one of the intervals `in_event`."""

    binned: BinnedStatistic
    in_event: Flags
    kind: str

    def count_hits(self, drawn: Integers) -> int:
        """Return the number of (features, n) answers for which the event occurs."""
        return int(self.binned.counts(drawn)[self.in_event].sum())


@dataclass(frozen=True, eq=False, slots=True)
class EventCandidate:
    """An event, and the bound of epsilon that it is expected to prove at a delta.

    If the event is not expected to prove any bound, `expected_epsilon` is a negative score, of
    which a larger one is better.
    """

    expected_epsilon: float
    event: Event


def event_candidates(
    binned: BinnedStatistic,
    counts: tuple[Integers, Integers],
    deltas: Sequence[Fraction],
    error_probability: float,
    *,
    swapped: bool,
    test_factor: float = 1.0,
) -> list[EventCandidate]:
    """Return the best event of a binned statistic at each delta.

    `counts` has the numbers of answers of both tables in each interval. `error_probability` is that
    of each confidence limit. With `swapped`, the event must be more frequent on the second table.
    `test_factor` is the number of answers that will test the event, as a multiple of the number of
    answers in `counts`.
    """
    more, less = (counts[1], counts[0]) if swapped else counts
    best: list[EventCandidate | None] = [None] * len(deltas)
    for kind, places, ends in _kinds_of_events(binned, len(more), swapped=swapped):
        hits = [_hits(side[places], ends=ends) for side in (more, less)]
        draws = max(int(more.sum()), 1)
        low, high = _confidence_limits(
            test_factor * hits[0], test_factor * hits[1], test_factor * draws, error_probability
        )
        for i, delta in enumerate(deltas):
            expected_epsilons = _expected_bounds(
                low, high, hits[0] / draws, hits[1] / draws, float(delta)
            )
            at = int(np.argmax(expected_epsilons))
            known = best[i]
            if known is None or float(expected_epsilons[at]) > known.expected_epsilon:
                in_event = np.zeros(len(more), dtype=np.bool_)
                in_event[places[: at + 1] if ends else places[at]] = True
                best[i] = EventCandidate(
                    float(expected_epsilons[at]), Event(binned, in_event, kind)
                )
    return [found for found in best if found is not None]


def _hits(counts: Integers, *, ends: bool) -> Floats:
    """Return the hits of each interval or, with `ends`, of all intervals up to each interval."""
    return (np.cumsum(counts) if ends else counts).astype(np.float64)


def _expected_bounds(low: Floats, high: Floats, one: Floats, other: Floats, delta: float) -> Floats:
    """Return the bound of epsilon that each event is expected to prove, or else a negative score.

    The score is a small multiple of the difference of the probabilities, divided by its error,
    minus 1. So the event of all answers, which never proves a bound, does not get the best score.
    """
    with np.errstate(divide="ignore"):
        epsilons = np.log(np.maximum(low - delta, 0.0) / high)
    error = np.sqrt(one * (1.0 - one) + other * (1.0 - other)) + 1e-6
    near = 1e-9 * (one - delta - other) / error
    expected_epsilons: Floats = np.where(epsilons > 0.0, epsilons, near - 1.0)
    return expected_epsilons


def _kinds_of_events(
    binned: BinnedStatistic, size: int, *, swapped: bool
) -> Iterator[tuple[str, Integers, bool]]:
    """Yield kinds of events, each with an order of the intervals.

    The third item says whether the events are the unions of the first intervals in this order, or
    else the single intervals.
    """
    ascending: Integers = np.arange(size, dtype=np.int64)
    own = binned.statistic.kind
    yield own or THRESHOLD, ascending, True
    yield own or THRESHOLD, ascending[::-1], True
    yield own or VALUES, ascending, False
    yield own or VALUES, binned.order[::-1] if swapped else binned.order, True


def _confidence_limits(
    more: Floats, less: Floats, draws: float, error_probability: float
) -> tuple[Floats, Floats]:
    """Return lower limits of probabilities on one table, and upper limits on the other, as floats.

    These limits only select an event. The limits of the selected event are computed by
    `lower_limit` and `upper_limit`.
    """
    some = betaincinv(np.maximum(more, 1.0), draws - more + 1.0, error_probability)
    low: Floats = np.where(more > 0, some, 0.0).astype(np.float64)
    most = betainccinv(less + 1.0, np.maximum(draws - less, 1.0), error_probability)
    high: Floats = np.where(less < draws, most, 1.0).astype(np.float64)
    return low, np.maximum(high, 1e-300)
