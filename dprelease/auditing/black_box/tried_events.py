"""Events by which two tables may be told apart, and which of them tells most.

A view is a number that is computed of each answer, and intervals of that number. Events are unions
of its intervals: all above or all below some edge, one alone, or those in which one table's answers
were the more frequent ones. Both are settled on draws that take part in nothing else, so that which
event is tested afterwards is no function of the draws that it is tested on.
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
"""Different values up to which each is an interval of its own."""

EVEN, DOUBLINGS = 192, 24
"""Intervals of equal shares, and how often the outermost are halved."""

THRESHOLD, VALUES = "threshold", "values"


class Statistic(Protocol):
    """A number of every answer."""

    @property
    def kind(self) -> str:
        """Return what it is, in a word."""
        ...

    def __call__(self, drawn: Integers) -> Floats:
        """Return (n,) numbers of (features, n) answers."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A statistic and the edges of its intervals, the k-th of which begins at the edge before it.

    `order`: the intervals, those first that the first table's answers had the larger share of.
    """

    statistic: Statistic
    edges: Floats
    order: Integers

    @classmethod
    def fit(cls, statistic: Statistic, one: Integers, other: Integers) -> View:
        """Return the view of a statistic whose intervals fit these answers of both tables."""
        both = statistic(one), statistic(other)
        edges = _edges(np.concatenate(both))
        counts = [_counts(values, edges) for values in both]
        ratios = (counts[0] + 0.5) / (counts[1] + 0.5)
        return cls(statistic, edges, np.argsort(-ratios, kind="stable"))

    def counts(self, drawn: Integers) -> Integers:
        """Return how many of (features, n) answers lie in each interval."""
        return _counts(self.statistic(drawn), self.edges)


def _counts(values: Floats, edges: Floats) -> Integers:
    places = np.searchsorted(edges, values, side="right")
    return np.bincount(places, minlength=len(edges) + 1).astype(np.int64)


def _edges(values: Floats) -> Floats:
    """Return the values, if they are few; else quantiles, and the ends of frequent values."""
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
    """Answers whose statistic lies in one of some intervals."""

    view: View
    held: Flags
    kind: str

    def hits(self, drawn: Integers) -> int:
        """Return how many of (features, n) answers it is true of."""
        return int(self.view.counts(drawn)[self.held].sum())


@dataclass(frozen=True, eq=False, slots=True)
class Hopeful:
    """An event, and the epsilon at some delta that the draws it was chosen on would show."""

    epsilon: float
    event: Event


def hopefuls(
    view: View,
    counts: tuple[Integers, Integers],
    deltas: Sequence[Fraction],
    miss: float,
    *,
    swapped: bool,
) -> list[Hopeful]:
    """Return the best event of a view at each delta, by limits at a miss.

    `counts`: of both tables' answers in each interval. `swapped`: the second table is the one that
    the event is to be more frequent on.
    """
    more, less = (counts[1], counts[0]) if swapped else counts
    best: list[Hopeful | None] = [None] * len(deltas)
    for kind, places, ends in _families(view, len(more), swapped=swapped):
        low, high = _limits(more, less, places, ends=ends, miss=miss)
        for i, delta in enumerate(deltas):
            with np.errstate(divide="ignore"):
                epsilons = np.log(np.maximum(low - float(delta), 0.0) / high)
            at = int(np.argmax(epsilons))
            known = best[i]
            if known is None or float(epsilons[at]) > known.epsilon:
                held = np.zeros(len(more), dtype=np.bool_)
                held[places[: at + 1] if ends else places[at]] = True
                best[i] = Hopeful(float(epsilons[at]), Event(view, held, kind))
    return [found for found in best if found is not None]


def _families(view: View, size: int, *, swapped: bool) -> Iterator[tuple[str, Integers, bool]]:
    """Yield a kind, an order of intervals, and whether events are its beginnings or its members."""
    ascending: Integers = np.arange(size, dtype=np.int64)
    own = view.statistic.kind
    yield own or THRESHOLD, ascending, True
    yield own or THRESHOLD, ascending[::-1], True
    yield own or VALUES, ascending, False
    yield own or VALUES, view.order[::-1] if swapped else view.order, True


def _limits(
    more: Integers, less: Integers, places: Integers, *, ends: bool, miss: float
) -> tuple[Floats, Floats]:
    """Return lower limits of the one's chances and upper limits of the other's, as floats.

    By them an event is only chosen: what is told of it comes from `clopper_pearson`.
    """
    hits = [np.cumsum(side[places]) if ends else side[places] for side in (more, less)]
    draws = [max(int(side.sum()), 1) for side in (more, less)]
    some = betaincinv(np.maximum(hits[0], 1), draws[0] - hits[0] + 1, miss)
    low: Floats = np.where(hits[0] > 0, some, 0.0).astype(np.float64)
    most = betainccinv(hits[1] + 1, np.maximum(draws[1] - hits[1], 1), miss)
    high: Floats = np.where(hits[1] < draws[1], most, 1.0).astype(np.float64)
    return low, np.maximum(high, 1e-300)
