"""Compute statistics of answers: single numbers, residues, and trained scores over many numbers.

Scores are trained on answers that are used for nothing else. Whatever the training does, a score is
a function of an answer, so that a bound which is proved with the score is valid: a bad score makes
the bound smaller, but never false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprelease.auditing.black_box.noise_questions import CHOICES, REPETITION, Question
from dprelease.auditing.black_box.tried_events import MOST_VALUES, Statistic
from dprelease.numerics.lattice import Floats, Integers

RIDGE = 1e-9
"""The share of the largest variance that is added to all variances.

Without this addition, the covariance matrix of linearly dependent numbers has no inverse.
"""

OUTLIER_SHARE = 0.05
"""The approximate share of answers that are treated as outliers and excluded from averages."""

INTERVALS, FEW_INTERVALS = 48, 12
"""The numbers of intervals of one number in an additive score.

Numbers in which the tables are known to differ have fewer intervals, because all of these intervals
contribute to the score.
"""

LEAST_STANDARD_ERRORS = 3.0
"""The number of standard errors within which the logarithm of a ratio counts as 0."""


@dataclass(frozen=True, eq=False, slots=True)
class SingleNumber:
    """The statistic that is one number of an answer."""

    feature: int
    kind: str = ""

    def __call__(self, drawn: Integers) -> Floats:
        numbers: Floats = drawn[self.feature].astype(np.float64)
        return numbers


@dataclass(frozen=True, eq=False, slots=True)
class Residue:
    """The statistic that is the remainder of one number.

    If the step of the noise is too coarse, the remainder modulo this step reveals the value.
    """

    feature: int
    modulus: int
    kind: ClassVar[str] = "residue"

    def __call__(self, drawn: Integers) -> Floats:
        residues: Floats = np.mod(drawn[self.feature], self.modulus).astype(np.float64)
        return residues


@dataclass(frozen=True, eq=False, slots=True)
class LinearScore:
    """The statistic that is a weighted sum of numbers."""

    features: Integers
    weights: Floats
    kind: ClassVar[str] = "linear score"

    def __call__(self, drawn: Integers) -> Floats:
        total: Floats = np.zeros(drawn.shape[1])
        for feature, weight in zip(self.features.tolist(), self.weights.tolist(), strict=True):
            if weight:
                total += weight * drawn[feature]
        return total


@dataclass(frozen=True, eq=False, slots=True)
class AdditiveScore:
    """The statistic that is a sum of weights: each number adds the weight of its interval."""

    features: Integers
    edges: tuple[Floats, ...]
    weights: tuple[Floats, ...]
    kind: ClassVar[str] = "additive score"

    def __call__(self, drawn: Integers) -> Floats:
        total: Floats = np.zeros(drawn.shape[1])
        for feature, edges, weights in zip(
            self.features.tolist(), self.edges, self.weights, strict=True
        ):
            total += weights[np.searchsorted(edges, drawn[feature], side="right")]
        return total


@dataclass(frozen=True, eq=False, slots=True)
class SeveralNumbers:
    """The statistic that combines several numbers with few values into one number."""

    features: Integers
    lowest: Integers
    sizes: Integers
    kind: ClassVar[str] = "choice"

    def __call__(self, drawn: Integers) -> Floats:
        """Return (n,) combined numbers.

        A number outside the range of the training answers is replaced by the nearest end.
        """
        code: Integers = np.zeros(drawn.shape[1], dtype=np.int64)
        for feature, low, size in zip(
            self.features.tolist(), self.lowest.tolist(), self.sizes.tolist(), strict=True
        ):
            code = code * size + np.clip(drawn[feature] - low, 0, size - 1).astype(np.int64)
        return code.astype(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class RepeatedAnswer:
    """The statistic that says for which tables an answer occurred in training.

    It is 0 for no table, 1 for the first table, 2 for the second, and 3 for both tables.
    """

    features: Integers
    seen: tuple[frozenset[bytes], frozenset[bytes]]
    kind: ClassVar[str] = "repetition"

    @classmethod
    def from_answers(cls, features: Integers, one: Integers, other: Integers) -> RepeatedAnswer:
        """Return the statistic that is trained on answers of both tables."""
        seen = [frozenset(_bytes_of_answers(side, features)) for side in (one, other)]
        return cls(features, (seen[0], seen[1]))

    def __call__(self, drawn: Integers) -> Floats:
        """Return (n,) numbers from 0 to 3."""
        rows = _bytes_of_answers(drawn, self.features)
        return np.array([(row in self.seen[0]) + 2 * (row in self.seen[1]) for row in rows], float)


def _bytes_of_answers(drawn: Integers, features: Integers) -> list[bytes]:
    """Return the bytes of some numbers of each answer, so that equal answers have equal bytes."""
    return [row.tobytes() for row in np.ascontiguousarray(drawn[features].T)]


def combined_numbers(
    features: Integers, one: Integers, other: Integers, most: int
) -> SeveralNumbers | None:
    """Return the statistic that combines numbers; None if it might have more than `most` values."""
    both = [np.concatenate((one[f], other[f])) for f in features.tolist()]
    lowest = [int(values.min()) for values in both]
    sizes = [int(values.max()) - low + 1 for values, low in zip(both, lowest, strict=True)]
    product = 1
    for size in sizes:
        # In Python's integers: ranges of noisy numbers may multiply to more than 64 bits.
        product *= size
    if product > most:
        return None
    return SeveralNumbers(features, np.array(lowest), np.array(sizes))


def fisher_discriminant(features: Integers, one: Integers, other: Integers) -> LinearScore:
    """Return Fisher's linear discriminant, a weighted sum that best separates two sets of answers.

    The weights are the inverse covariance times the difference of the means. Source: Fisher 1936,
    "The use of multiple measurements in taxonomic problems", Annals of Eugenics 7(2). The numbers
    are first centred and scaled by quantiles, which also exist for distributions without a
    variance. Outliers are left out of means and covariances.
    """
    both = [side[features].astype(np.float64) for side in (one, other)]
    quartiles = np.quantile(np.concatenate(both, axis=1), (0.25, 0.5, 0.75), axis=1)
    # Half of the answers may be equal, and a spread of 0 would divide by 0.
    spread = np.maximum(quartiles[2] - quartiles[0], 1.0)
    scaled = [(side - quartiles[1][:, None]) / spread[:, None] for side in both]
    inner = _without_outliers(scaled, len(features))
    means = [side.mean(axis=1) for side in inner]
    centred = [side - mean[:, None] for side, mean in zip(inner, means, strict=True)]
    covariance = sum((side @ side.T / side.shape[1] for side in centred), np.zeros(()))
    ridge = RIDGE * float(np.max(np.diag(covariance))) or 1.0
    with_ridge = covariance + ridge * np.eye(len(features))
    weights: Floats = np.linalg.solve(with_ridge, means[0] - means[1]) / spread
    largest = float(np.max(np.abs(weights)))
    return LinearScore(features, weights / largest if largest > 0 else weights)


def _without_outliers(scaled: Sequence[Floats], features: int) -> list[Floats]:
    """Return the scaled answers that have no outlying number."""
    sizes = [np.abs(side) for side in scaled]
    cut = np.quantile(np.concatenate(sizes, axis=1), 1.0 - OUTLIER_SHARE / features, axis=1)
    inside = [np.all(size <= cut[:, None], axis=0) for size in sizes]
    if any(np.count_nonzero(keep) < 2 for keep in inside):
        return list(scaled)
    return [side[:, keep] for side, keep in zip(scaled, inside, strict=True)]


def additive_score(
    features: Integers, one: Integers, other: Integers, *, differing: bool = False
) -> AdditiveScore:
    """Return the additive score whose weights are log ratios of the two tables' shares.

    For independent numbers, the score is approximately the logarithm of the likelihood ratio, which
    is the best of all statistics (Neyman and Pearson 1933). A log ratio within a few standard
    errors counts as 0. This does not hold for numbers in which the tables are known to differ
    (`differing`), because many small log ratios add up there.
    """
    parts, sure = (FEW_INTERVALS, 0.0) if differing else (INTERVALS, LEAST_STANDARD_ERRORS)
    edges, weights = [], []
    for feature in features.tolist():
        both = one[feature], other[feature]
        pooled = np.sort(np.concatenate(both))
        places = np.linspace(0, len(pooled) - 1, parts).astype(np.int64)
        found = np.unique(pooled[places]).astype(np.float64)
        counts = [
            # Half an answer more in each interval, so that no empty one has an infinite logarithm.
            np.bincount(np.searchsorted(found, side, side="right"), minlength=len(found) + 1) + 0.5
            for side in both
        ]
        shares = [count / count.sum() for count in counts]
        ratios = np.log(shares[0] / shares[1])
        error = np.sqrt(1.0 / counts[0] + 1.0 / counts[1])
        edges.append(found)
        weights.append(np.where(np.abs(ratios) > sure * error, ratios, 0.0))
    return AdditiveScore(features, tuple(edges), tuple(weights))


def common_step(feature: int, drawn: Integers) -> int:
    """Return the largest integer that divides all differences of one number."""
    values = drawn[feature]
    if values.dtype.kind != "i":
        return 1
    return int(np.gcd.reduce(values - values[0]))


MOST_SINGLE_NUMBERS = 8
"""The maximum number of an answer's numbers that are tested one by one."""

POWER_OF_TWO = 256
"""A modulus that is tried, because large noise from floats is a multiple of a power of two."""


def statistics(question: Question, one: Integers, other: Integers) -> Iterator[Statistic]:
    """Yield the statistics of a question, trained on (features, n) answers of both tables."""
    differing, numbers = question.differing, question.numbers
    if question.style == REPETITION:
        yield RepeatedAnswer.from_answers(differing, one, other)
    elif question.style == CHOICES:
        for place in differing[:MOST_SINGLE_NUMBERS].tolist():
            yield SingleNumber(place, "choice")
        as_one = combined_numbers(differing, one, other, MOST_VALUES)
        if len(differing) > 1 and as_one is not None:
            yield as_one
    else:
        for place in differing[:MOST_SINGLE_NUMBERS].tolist():
            yield SingleNumber(place)
            for modulus in {POWER_OF_TWO, *_common_moduli(place, one, other)}:
                yield Residue(place, modulus)
    if len(differing) > 1:
        yield fisher_discriminant(differing, one, other)
        yield additive_score(differing, one, other)
        yield additive_score(differing, one, other, differing=True)
    if len(numbers) > len(differing):
        yield fisher_discriminant(numbers, one, other)
        yield additive_score(numbers, one, other)


def _common_moduli(place: int, one: Integers, other: Integers) -> Iterator[int]:
    """Yield the moduli for which all numbers of one of the tables have the same remainder."""
    if one.dtype.kind != "i":
        yield 1
        return
    for drawn in (one, other):
        step = common_step(place, drawn)
        if step > 1:
            yield step
