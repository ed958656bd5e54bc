"""Guess records from one-way marginals, without solving a program, as a baseline for the attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from dprelease.numerics.lattice import Floats, Integers
from dprelease.reconstruction.attributes import Attribute
from dprelease.reconstruction.cell_likelihoods import ObservedCells
from dprelease.reconstruction.counted_tables import CountedTable
from dprelease.reconstruction.record_combinations import Combinations

LEAST_COUNT = 0.1
"""The minimum number of rows that is assumed for a value, because a published 0 may be noise."""

OUTSIDE_SHARE = 1e-3
"""The share of rows that is assumed to have values outside all cells of an attribute."""

FITTING_CYCLES = 20


def expected_rates(
    combinations: Combinations,
    block: Integers,
    tables: Sequence[CountedTable],
    likelihoods: Mapping[str, ObservedCells],
) -> Floats:
    """Return the number of records of each combination that the one-way marginals predict.

    The result is the total multiplied by the marginal shares of all attributes. The marginal of an
    attribute is the mean of its marginals in the tables with the same cells. If tables have
    different cells for an attribute, its marginal is fitted to all of them.
    """
    totals, weights = [], []
    shares: list[Floats] = [_uniform_shares(one) for one in combinations.attributes]
    targets: dict[tuple[int, tuple[str, ...]], list[Floats]] = {}
    for one in tables:
        cells = np.unique(combinations.cells[one.name][block])
        cells = cells[cells >= 0]
        guess = likelihoods[one.name].guess[cells]
        totals.append(float(guess.sum()))
        weights.append(1.0 / max(1, len(cells)))
        for i, attribute in enumerate(combinations.attributes):
            names = tuple(k.column for k in one.query.keys.keys if k.column in attribute.places)
            if names:
                found = _marginal_shares(names, one, cells, guess)
                targets.setdefault((i, names), []).append(found)
    total = max(1.0, float(np.average(totals, weights=weights)))
    for _ in range(FITTING_CYCLES):
        for (i, names), several in targets.items():
            labels = _joint_cells(combinations.attributes[i], names)
            shares[i] = _scale_to_margin(shares[i], labels, np.mean(several, axis=0))
    rates = np.full(len(block), total)
    for i, share in enumerate(shares):
        rates *= (share / share.sum())[combinations.values[block, i]]
    return rates


def _uniform_shares(attribute: Attribute) -> Floats:
    """Return equal shares for all complete values of an attribute, and small ones for others."""
    complete = attribute.complete
    return np.where(complete, 1.0 / max(1, int(complete.sum())), OUTSIDE_SHARE)


def _joint_cells(attribute: Attribute, names: Sequence[str]) -> Integers:
    """Return the joint cell of some keys for each value; -1 for a value outside their cells."""
    labels = np.zeros(attribute.size, dtype=np.int64)
    sizes = {key.column: key.size for key in attribute.keys}
    for name in names:
        places = attribute.places[name]
        labels = np.where((labels < 0) | (places < 0), -1, labels * sizes[name] + places)
    return labels


def _marginal_shares(
    names: Sequence[str], one: CountedTable, cells: Integers, guess: Floats
) -> Floats:
    """Return the shares of rows in the joint cells of some keys of one table."""
    keys, strides = one.query.keys.keys, one.query.keys.strides
    at = {key.column: (key.size, stride) for key, stride in zip(keys, strides, strict=True)}
    label = np.zeros(len(cells), dtype=np.int64)
    size = 1
    for name in names:
        label = label * at[name][0] + (cells // at[name][1]) % at[name][0]
        size *= at[name][0]
    sums = np.maximum(np.bincount(label, guess, size), LEAST_COUNT)
    present = np.bincount(label, minlength=size) > 0
    sums = np.where(present, sums, 0.0)
    parts: Floats = sums / max(sums.sum(), LEAST_COUNT)
    return parts


def _scale_to_margin(share: Floats, labels: Integers, target: Floats) -> Floats:
    """Return the shares, scaled so that their sums by label are equal to the target."""
    inside = labels >= 0
    sums_by_label = np.bincount(labels[inside], share[inside], len(target))
    factors = np.divide(target, sums_by_label, out=np.zeros_like(target), where=sums_by_label > 0)
    scaled: Floats = np.where(inside, share * factors[np.maximum(labels, 0)], share)
    return scaled


@dataclass(frozen=True, slots=True)
class BaselineGuesses:
    """The score of a guesser who draws all records of a block from its true one-way marginals.

    `right` has the expected number of correctly guessed records of each combination, and `variance`
    the variance of this number. The variance of the sum is at most the sum of the variances,
    because multinomial counts are negatively associated (Joag-Dev and Proschan 1983).
    `drawn_probability` is the probability that a combination is among the drawn records.
    `apportioned` has the records of another guesser, who does not draw, but takes each combination
    as often as expected.
    """

    right: Floats
    variance: Floats
    drawn_probability: Floats
    apportioned: Integers


def guess_records(
    combinations: Combinations, block: Integers, records: Integers
) -> BaselineGuesses:
    """Return the guesses for a block, from the true number of records of each combination.

    The guesser knows more than the tables show: the exact number of records, and the exact
    marginals of all attributes.
    """
    total = int(records.sum())
    parts = np.full(len(block), 1.0)
    for i, attribute in enumerate(combinations.attributes):
        values = combinations.values[block, i]
        parts *= (np.bincount(values, records, attribute.size) / max(1, total))[values]
    right, squares = np.zeros(len(block)), np.zeros(len(block))
    for k in range(1, int(records.max(initial=0)) + 1):
        present = np.flatnonzero(records >= k)
        reached = binom.sf(k - 1, total, parts[present])
        right[present] += reached
        squares[present] += (2 * k - 1) * reached
    drawn_probability: Floats = np.asarray(binom.sf(0, total, parts), dtype=np.float64)
    return BaselineGuesses(
        right, squares - right**2, drawn_probability, apportion(total * parts, total)
    )


def apportion(expected: Floats, total: int) -> Integers:
    """Return integers with the sum `total`, by the method of largest remainders."""
    integers = np.floor(expected).astype(np.int64)
    left = max(0, min(total - int(integers.sum()), len(integers)))
    rest = expected - integers
    integers[np.argsort(-rest, kind="stable")[:left]] += 1
    return integers


def log_rates(rates: Floats) -> Floats:
    """Return the logarithms of expected numbers, the smallest of which are raised to a minimum."""
    # Never minus infinity: a table may show that a combination exists which the marginals exclude.
    found: Floats = np.log(np.maximum(rates, math.exp(-20.0)))
    return found
