"""The rank of a quantile in a cell, the distance of candidates from it, and expected errors."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.mechanisms.base import Mechanism
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.lattice import Integers
from dprelease.numerics.rounding import plain_text
from dprelease.postprocess.noise_table import table_of
from dprelease.postprocess.quantile_order import at_of, has_ends
from dprelease.query.aggregates.aggregate import Aggregate, narrow_aggregate
from dprelease.query.aggregates.quantile import Quantile
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE

# Bound how far a quantile read from a tree of noised counts may lie from its rank.
#
# A node holds B rows in its left half and A rows in its right half, with noise x and y. The
# quantile lies at a part p of the node, and at a part q of the half into which the path descends.
# Counted in true rows, its position moves by p y - (q - p) x, with q >= p, if the path goes left,
# and by -(1 - p) x + (p - q) y, with q <= p, if the path goes right. Both are at most (1 - p) |x| +
# p |y|. Such a mean of two draws is nearer to zero than a single draw (Proschan 1965, for symmetric
# log-concave distributions). So the reported error of the path through all levels is the sum of one
# draw for each level. The sum overestimates the error two to four times on most columns. In small
# counts q depends on the same noise, and tests cover this case. In the last node, the value of the
# node holds every rank.
#
# The ends of an interval descend by b L - a n, where L of n rows lie below the middle of a node,
# and a / b is the fraction of the quantile. The noised b L - a n has the noise of the halves of the
# node, and of one node on each level above: at most d + 1 draws in a tree of d levels, with factors
# of at most m = max(a, b - a). The path to the smallest true quantile q doesn't depend on the
# noise. A lower end leaves it to the right only at one of its d nodes, where q is on the left, so b
# L - a n >= 0, but the noised number is below -w. So the end exceeds q with a probability of at
# most d times that of noise beyond w. Symmetric unimodal noise with factors up to m is at least as
# near to zero as noise with m as all factors. Upper ends are the reverse.

BINS = 2**12


def end_width(mechanism: Mechanism, levels: int, at: Fraction, confidence: float) -> int:
    """Return the number of points w by which the ends of an interval move away from a quantile.

    Each end misses the quantile with a probability of at most (1 - confidence) / 2.
    """
    factors = at.numerator, at.denominator - at.numerator
    width = path_width(mechanism, levels + 1, 1.0 - (1.0 - confidence) / (2 * levels))
    # Noise is rounded: unequal factors of rounded noise may add up to one more point per draw.
    rounding = levels + 1 if width and factors[0] != factors[1] else 0
    return max(factors) * (width + rounding)


@lru_cache(maxsize=256)
def path_width(mechanism: Mechanism, levels: int, confidence: float) -> int:
    """Return a width w with P(|sum of `levels` draws| <= w) >= confidence.

    The width exceeds the least such width by less than one bin for each draw.
    """
    miss = 1.0 - confidence
    largest_draw = mechanism.half_width(1.0 - miss / (4 * levels))
    if levels == 1 or largest_draw == 0:
        return mechanism.half_width(confidence)
    bin_width = -(-(2 * largest_draw + 1) // BINS)
    bins = np.arange(-(-largest_draw // bin_width) + 1)
    bins = np.concatenate((-bins[:0:-1], bins))
    tails = table_of(mechanism).probability_above(np.append(bins - 0.5, bins[-1] + 0.5) * bin_width)
    size = 1 << (levels * len(bins)).bit_length()
    probabilities = np.zeros(size)
    # The probability outside all bins is left out, as if these sums exceeded the width.
    probabilities[bins] = np.maximum(-np.diff(tails), 0.0)
    # of_sum[i] is the probability of the sum i; negative sums stand at the end of the array.
    of_sum = np.fft.irfft(np.fft.rfft(probabilities) ** levels, size)
    within = np.cumsum(of_sum[: size // 2] + np.append(0.0, of_sum[: size // 2 : -1]))
    last_bin = int(np.searchsorted(within, confidence))
    return min(last_bin * bin_width + levels * (bin_width - 1), math.ceil(levels * largest_draw))


def rank_shift(aggregate: Aggregate, mechanism: Randomizer) -> int:
    """Return by how many points the target of an end lies above the quantile's rank; otherwise 0.

    The shift of an upper end is positive, and that of a lower end negative; a point is 1 / b of a
    rank. The end misses the quantile with a probability of at most `Quantile.miss`, whatever the
    data, and however many rows the cell has:

    * Let q be the largest true quantile of a cell of n rows. A candidate below q has L + E <= a n /
      b values up to it. Its distance from the rank (a n + s) / b of the upper end is at least s
      points, so its score is at most -s.
    * A candidate has the score 0: the first value with at least (a n + s) / b values up to it, if
      this is at most n, and otherwise the additional candidate above all values (`RankTarget`).
    * So a candidate below q is selected with a probability of at most e^(-s / scale), and all N of
      them together with at most N e^(-s / scale), which s = `half_width` makes at most `miss`.

    For lower ends, the same holds in reverse order. A minimum is the upper end of the quantile 0,
    and a maximum the lower end of the quantile 1: so the published minimum is smaller than the true
    minimum with a probability of at most 5 %, in cells of any size.
    """
    if aggregate.interval_end is None:
        return 0
    side, miss = aggregate.interval_end
    return side * max(1, mechanism.half_width(1.0 - float(miss)))


def least_rows_inside(aggregate: Quantile, mechanism: Randomizer) -> int:
    """Return from how many rows on a minimum or maximum lies within the values of its cell.

    It is the least number of rows with which the probability of a value outside, on either side, is
    at most `Quantile.miss` in every cell. A minimum is selected for the rank s. In a cell of n >= s
    rows, one candidate within its values has the score 0, the candidates below all values have the
    score -s, and those above, with the additional candidate, the score s - 1 - n. The values of the
    worst cell are all the same: at the lower bound, with all N candidates above, the probability p
    of a value outside is p / (1 - p) = N e^((s - 1 - n) / scale). Maxima are the reverse.
    """
    odds = float(aggregate.miss / (1 - aggregate.miss))
    # The last factor covers the rounding of floats, so that the number of rows is never too small.
    distance = math.log(aggregate.candidates / odds) * mechanism.scale * (1 + 2**-40)
    return abs(rank_shift(aggregate, mechanism)) - 1 + math.ceil(distance)


@dataclass(frozen=True, slots=True)
class QuantileError:
    """The error of a published quantile before any data is read.

    Both numbers hold in a cell of `rows` rows with values spread evenly between the bounds. `ranks`
    is the number of rows between the quantile and the farther end of its interval. `in_unit` is
    half of the width of the interval in the column's unit. The interval is cut at the bounds, so
    `in_unit` is at most half of their distance. A minimum or maximum, whose interval has one
    measured end, has the whole width; a quantile without an interval the error of its value.
    """

    ranks: Fraction
    in_unit: float
    rows: int


def quantile_error(
    column: OutputColumn, mechanisms: Mapping[str, Randomizer], rows: int = 1000
) -> QuantileError:
    """Return the error of a published quantile in a cell of so many rows, in ranks and in its unit.

    `mechanisms` has the noise of each measurement by name.
    """
    ranks = _uncut_ranks(column, mechanisms)
    below, above = (min(ranks, part * rows) for part in (at_of(column), 1 - at_of(column)))
    farther = max(below, above)
    error = (below + above) / 2 if has_ends(column) else farther
    lattice = column.parts[0].aggregate.lattice
    if lattice is None:
        raise TypeError("a quantile has bounds")
    width = (lattice.upper - lattice.lower) * lattice.step
    return QuantileError(farther, float(error * width / rows), rows)


def _uncut_ranks(column: OutputColumn, mechanisms: Mapping[str, Randomizer]) -> Fraction:
    """Return how many ranks an end, or a value without ends, lies away in a cell of many rows."""
    value, *ends = column.parts
    mechanism, aggregate = mechanisms[value.name], value.aggregate
    confidence = float(column.interval or value.confidence or DEFAULT_CONFIDENCE)
    if isinstance(mechanism, Mechanism):
        if column.at is None or column.interval is None:
            return Fraction(path_width(mechanism, aggregate.levels, confidence))
        points = end_width(mechanism, aggregate.levels, column.at, confidence)
        return Fraction(points, column.at.denominator)
    shifts = [rank_shift(part.aggregate, mechanisms[part.name]) for part in (value, *ends)]
    points = max(map(abs, shifts)) or mechanism.half_width(confidence)
    return points * value.error_step


def rows_inside_texts(queries: Iterable[tuple[Query, Mapping[str, Randomizer]]]) -> Iterator[str]:
    """Yield what each minimum and maximum promises in small groups, from the noise of its query."""
    for query, mechanisms in queries:
        for column in query.columns:
            if column.parts[0].aggregate.part in (0, 1):
                aggregate = narrow_aggregate(column.parts[0].aggregate, Quantile)
                percent = plain_text(100 * aggregate.confidence)
                side, empty = ("above", "maximum") if aggregate.at else ("below", "minimum")
                least = least_rows_inside(aggregate, mechanisms[column.parts[0].name])
                yield (
                    f"{query.name}.{column.name}: not {side} the true {empty} with {percent} % "
                    f"confidence in groups of any size, and within the values of a group with "
                    f"{percent} % confidence from {least:,} rows on; in smaller groups it may be "
                    "empty, or any value within the bounds."
                )


@dataclass(frozen=True, slots=True)
class RankTarget:
    """The rank a n / b among n values, or the rank of an end, with the scores of `Quantile`.

    A candidate with `below` values below it, and `upto` values below or equal to it, holds the rank
    if b `below` - a n <= `least` and b `upto` - a n >= `most`. For ends, `least` is less than
    `most`: the rank lies between two values, of which the outer one holds it.

    The rank of an end may lie below 0 or above n. For this case, a lower end (`side` -1) has an
    additional candidate below all values, and an upper end (`side` 1) has one above all values.
    They stand for the column's bounds.
    """

    a: int
    b: int
    least: int = 0
    most: int = 0
    side: int = 0

    @classmethod
    def of(cls, aggregate: Quantile, shift: int = 0) -> RankTarget:
        """Return the target of a quantile or of an end, which is shifted by a number of points."""
        least, most = {-1: (shift, shift + 1), 0: (0, 0), 1: (shift - 1, shift)}[aggregate.side]
        return cls(aggregate.at.numerator, aggregate.at.denominator, least, most, aggregate.side)

    def scores(
        self, below: Integers | int, upto: Integers | int, total: Integers | int
    ) -> Integers:
        """Return minus the distances of candidates from the rank, with b points for each row."""
        points_above_rank = self.b * below - self.a * total - self.least
        points_below_rank = self.a * total + self.most - self.b * upto
        scores: Integers = -np.maximum(np.maximum(points_above_rank, points_below_rank), 0)
        return scores

    def scores_outside(self, total: Integers | int) -> Integers:
        """Return the scores of the additional candidate of an end, in cells of `total` rows."""
        points_below_rank = self.a * total + self.most
        points_above_rank = self.b * total - self.a * total - self.least
        distance = points_below_rank if self.side < 0 else points_above_rank
        scores: Integers = -np.maximum(distance, 0)
        return scores

    def indexes_near_best(self, upto: Integers, total: int, reach: int) -> tuple[int, int]:
        """Return the first index, and the last index + 1, of the candidates near the best score.

        All other candidates have scores at least `reach` below the best score. `upto`, of shape
        (candidates,), is sorted. So scores rise up to the first candidate that reaches the rank
        from below, and never rise after it.
        """
        crossing = self._first_reaching(upto, self.a * total + self.most)
        neighbours = [i for i in (crossing - 1, crossing) if 0 <= i < len(upto)]
        best = max(
            int(self.scores(int(upto[i - 1]) if i else 0, int(upto[i]), total)) for i in neighbours
        )
        far = reach - best
        first = self._first_reaching(upto, self.a * total + self.most + 1 - far)
        points_above_rank = self.a * total + self.least + far
        last = 1 + self._first_reaching(upto, points_above_rank) if points_above_rank > 0 else 0
        return first, min(last, len(upto))

    def _first_reaching(self, upto: Integers, points: int) -> int:
        """Return the index of the first candidate for which b `upto` is at least `points`."""
        return bisect_left(upto, -(-points // self.b))  # numpy would convert the whole array
