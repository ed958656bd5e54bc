"""Find events that distinguish two tables, and select the best events.

A view is a statistic (a number computed from each answer) with intervals of its values. Events are
unions of these intervals: all intervals above or below an edge, a single interval, or the intervals
in which answers of one table were more frequent. Views and events are fixed on draws that are used
for nothing else, so the selected event is independent of the draws that test it.
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
"""The maximum number of different values for which each value is a separate interval."""

EVEN, DOUBLINGS = 192, 24
"""The number of intervals with equal shares, and how often the outermost ones are halved."""

THRESHOLD, VALUES = "threshold", "values"


class Statistic(Protocol):
    """A number of every answer."""

    @property
    def kind(self) -> str:
        """Return the name of the kind of statistic."""
        ...

    def __call__(self, drawn: Integers) -> Floats:
        """Return (n,) numbers of (features, n) answers."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A statistic and the edges of its intervals; the k-th interval begins at the edge before it.

    `order` has the intervals in descending order of the share of the first table's answers.
    """

    statistic: Statistic
    edges: Floats
    order: Integers

    @classmethod
    def fit(cls, statistic: Statistic, one: Integers, other: Integers) -> View:
        """Return the view of a statistic with intervals fitted to these answers of both tables."""
        both = statistic(one), statistic(other)
        edges = _interval_edges(np.concatenate(both))
        counts = [_counts(values, edges) for values in both]
        ratios = (counts[0] + 0.5) / (counts[1] + 0.5)
        return cls(statistic, edges, np.argsort(-ratios, kind="stable"))

    def counts(self, drawn: Integers) -> Integers:
        """Return the number of answers in each interval, from (features, n) answers."""
        return _counts(self.statistic(drawn), self.edges)


def _counts(values: Floats, edges: Floats) -> Integers:
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, minlength=len(edges) + 1).astype(np.int64)


def _interval_edges(values: Floats) -> Floats:
    """Return the different values as edges if they are few, otherwise quantiles."""
    found = np.unique(values)
    if len(found) <= MOST_VALUES:
        return found
    ordered, n = np.sort(values), len(values)
    outer = 0.5 ** np.arange(8, DOUBLINGS)
    parts = np.concatenate((np.linspace(0.0, 1.0, EVEN), outer, 1.0 - outer))
    picked = np.sort(ordered[np.minimum((parts * n).astype(np.int64), n - 1)])
    frequent = np.unique(picked[1:][picked[1:] == picked[:-1]])
    return np.unique(np.concatenate((picked, np.nextafter(frequent, np.inf))))


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """An event: the statistic of an answer is in one of some intervals."""

    view: View
    in_event: Flags
    kind: str

    def hits(self, drawn: Integers) -> int:
        """Return the number of answers, among (features, n) answers, for which the event occurs."""
        return int(self.view.counts(drawn)[self.in_event].sum())


@dataclass(frozen=True, eq=False, slots=True)
class EventCandidate:
    """An event, and the bound of epsilon that it is expected to prove at a delta.

    The value is negative if the event is not expected to prove any bound; then a value nearer to 0
    is better.
    """

    promise: float
    event: Event


def event_candidates(
    view: View,
    counts: tuple[Integers, Integers],
    deltas: Sequence[Fraction],
    miss: float,
    *,
    swapped: bool,
    times: float = 1.0,
) -> list[EventCandidate]:
    """Return the best event of a view at each delta, by confidence limits that `miss` allows.

    `counts` are the numbers of answers of both tables in each interval. With `swapped`, the event
    must be more frequent on the second table. `times` is the number of answers that will be counted
    later, as a multiple of the number of answers in `counts`.
    """
    more, less = (counts[1], counts[0]) if swapped else counts
    best: list[EventCandidate | None] = [None] * len(deltas)
    for kind, places, ends in _event_families(view, len(more), swapped=swapped):
        hits = [_hits(side[places], ends=ends) for side in (more, less)]
        draws = max(int(more.sum()), 1)
        low, high = _confidence_limits(times * hits[0], times * hits[1], times * draws, miss)
        for i, delta in enumerate(deltas):
            promises = _expected_bounds(low, high, hits[0] / draws, hits[1] / draws, float(delta))
            at = int(np.argmax(promises))
            known = best[i]
            if known is None or float(promises[at]) > known.promise:
                in_event = np.zeros(len(more), dtype=np.bool_)
                in_event[places[: at + 1] if ends else places[at]] = True
                best[i] = EventCandidate(float(promises[at]), Event(view, in_event, kind))
    return [found for found in best if found is not None]


def _hits(counts: Integers, *, ends: bool) -> Floats:
    """Return the hits of all single intervals, or (`ends`) of all intervals up to each one."""
    return (np.cumsum(counts) if ends else counts).astype(np.float64)


def _expected_bounds(low: Floats, high: Floats, one: Floats, other: Floats, delta: float) -> Floats:
    """Return the bound of epsilon that each event is expected to prove, or else a negative score.

    The score is the difference of the probabilities divided by its error, minus a large number. So
    the event of all answers, which never proves a bound, does not get the best score.
    """
    with np.errstate(divide="ignore"):
        epsilons = np.log(np.maximum(low - delta, 0.0) / high)
    error = np.sqrt(one * (1.0 - one) + other * (1.0 - other)) + 1e-6
    near = 1e-9 * (one - delta - other) / error
    promises: Floats = np.where(epsilons > 0.0, epsilons, near - 1.0)
    return promises


def _event_families(
    view: View, size: int, *, swapped: bool
) -> Iterator[tuple[str, Integers, bool]]:
    """Yield a kind of events, an order of intervals, and whether events are prefixes of it."""
    ascending: Integers = np.arange(size, dtype=np.int64)
    own = view.statistic.kind
    yield own or THRESHOLD, ascending, True
    yield own or THRESHOLD, ascending[::-1], True
    yield own or VALUES, ascending, False
    yield own or VALUES, view.order[::-1] if swapped else view.order, True


def _confidence_limits(
    more: Floats, less: Floats, draws: float, miss: float
) -> tuple[Floats, Floats]:
    """Return lower limits of probabilities on one table, and upper limits on the other, in floats.

    These limits only select an event. The reported limits of the event come from `least_chance` and
    `greatest_chance`.
    """
    some = betaincinv(np.maximum(more, 1.0), draws - more + 1.0, miss)
    low: Floats = np.where(more > 0, some, 0.0).astype(np.float64)
    most = betainccinv(less + 1.0, np.maximum(draws - less, 1.0), miss)
    high: Floats = np.where(less < draws, most, 1.0).astype(np.float64)
    return low, np.maximum(high, 1e-300)
