"""Find the whole numbers that are nearest to estimates and have a given sum: in closed form.

    minimise sum_c (x_c - z_c)^2    over whole x_c, 0 <= x_c <= cap_c, sum_c x_c = H.

For real x the optimum is y_c = z_c - theta cut to [0, cap_c], where theta makes the sum H (water
filling; Held, Wolfe, Crowder 1974 for the simplex). For whole x: the m-th unit in c costs 2 (m -
z_c) - 1, which rises in m, so the optimum is the H cheapest units. Those with m <= y_c cost at most
-2 theta - 1, and every (floor(y_c) + 1)-th unit costs more than that and, where 0 < y_c < cap_c,
less than 1 - 2 theta: so x_c is floor(y_c) or one more, and the missing D = H - sum floor(y_c) go
to the largest z_c - floor(y_c) among those below their cap. Theta may be a little larger (rounded
up to a unit of z): then the floors only fall, and the missing units are given back in the same
order of cost. Of tied entries the first gets the unit. Hence the result is the first of the exact
integer optima, and does not depend on other problems in the batch.

Problems are rows of padded matrices, and the solution of each depends on its row alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import FixedPointRangeError, Whole

_EXCLUDED = -(1 << 60)
Mask = NDArray[np.bool_]


def nearest_integers(
    z: Whole, valid: Mask, total: Whole, bits: int, cap: Whole | None = None
) -> Whole:
    """Return the whole numbers with given sums that are nearest to the estimates: (problems, n).

    - `z`: (problems, n) estimates in units of 2**-bits.
    - `valid`: which entries exist; entries that don't exist get 0.
    - `total`: (problems,) the sum of each row, at least 0; it must be 0 if the row has no valid
      entry.
    - `bits`: the exponent of the unit 2**-bits of `z`.
    - `cap`: the largest allowed value of each entry; the caps of a row must sum to at least its
      total.

    Raises ValueError if the caps of a row sum to less than its total. Raises FixedPointRangeError
    if sums don't fit 64 bits even in units of 1.

    Sums stay below n * 2**bits times the total (with caps, below 2**bits times the sum of the
    caps). Rows for which this bound exceeds 2**61 are solved in a coarser unit: the result is then
    the optimum for z rounded down to this unit.
    """
    shares = np.zeros(z.shape, np.int64)
    if not z.size:
        return shares
    if cap is None:
        lengths = _bit_lengths(total) + _bit_lengths(valid.sum(axis=1))  # without padding
    else:
        cap = np.where(valid, np.minimum(cap, total[:, None]), 0)
        lengths = _bit_lengths(cap.sum(axis=1))
    # Per row and not for all of them: the unit of one problem must not depend on the others in its
    # batch.
    excess = np.maximum(lengths + bits - 61, 0)
    if not excess.any():
        return _nearest_integers(z, valid, total, bits, cap)
    if excess.max() > bits:
        raise FixedPointRangeError
    for shift in np.unique(excess):
        rows = excess == shift
        shares[rows] = _nearest_integers(
            z[rows] >> shift,
            valid[rows],
            total[rows],
            bits - int(shift),
            None if cap is None else cap[rows],
        )
    return shares


def _bit_lengths(x: Whole) -> Whole:
    """Return the bit lengths of numbers, or one more where the conversion to a float rounds up."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _nearest_integers(z: Whole, valid: Mask, total: Whole, bits: int, cap: Whole | None) -> Whole:
    target = total << bits
    if cap is None:
        level, z = _simplex_level(z, valid, target)
    else:
        level = _capped_level(z, valid, target, cap << bits)
    shares = z - level[:, None]
    shares >>= bits
    np.maximum(shares, 0, out=shares)
    if cap is not None:
        np.minimum(shares, cap, out=shares)
    shares[~valid] = 0
    left = total - shares.sum(axis=1)
    while left.any():
        rows = np.flatnonzero(left)
        has_room = valid[rows] if cap is None else valid[rows] & (shares[rows] < cap[rows])
        gain = z[rows] - level[rows, None] - (shares[rows] << bits)
        taken = _mark_largest(np.where(has_room, gain, _EXCLUDED), has_room, left[rows])
        if not taken.any(axis=1).all():
            raise ValueError("what can be allotted does not reach the total")
        shares[rows] += taken
        left[rows] -= taken.sum(axis=1)
    return shares


def _simplex_level(z: Whole, valid: Mask, target: Whole) -> tuple[Whole, Whole]:
    """Return theta, rounded up, for rows without caps; and z, raised where this has no effect."""
    top = np.where(valid, z, _EXCLUDED).max(axis=1)
    floor = top - target  # a lower bound of theta: entries below it get nothing
    z = np.where(valid, np.maximum(z, floor[:, None]), floor[:, None])
    falling = top[:, None] - z
    falling.sort(axis=1)  # rising distances from the top
    summed = np.cumsum(falling, axis=1)
    ranks = np.arange(1, z.shape[1] + 1)
    support = np.maximum((falling * ranks - summed < target[:, None]).sum(axis=1), 1)
    reach = np.take_along_axis(summed, support[:, None] - 1, axis=1)[:, 0]
    # theta = top - (aim + reach) / support
    return top - (target + reach) // support, z


def _capped_level(z: Whole, valid: Mask, target: Whole, cap: Whole) -> Whole:
    """Return theta, rounded up, for rows with caps, by a search of breakpoints from the highest."""
    top = np.where(valid, z, _EXCLUDED).max(axis=1)
    full = np.where(valid, cap, 0)
    first = np.where(valid, top[:, None] - z, 0)  # where an entry becomes positive
    # The last bit tells the kinds of breakpoints apart, so that one sort orders both. At equal
    # places, openings come before ends.
    marks = np.concatenate((first << 1, ((first + full) << 1) | 1), axis=1)
    marks.sort(axis=1)
    slopes = np.cumsum(1 - 2 * (marks & 1), axis=1)
    marks >>= 1
    gaps = np.diff(marks, axis=1)
    given = np.zeros(marks.shape, np.int64)
    # Sums behind the target may overflow; only the first one at or above it counts.
    with np.errstate(over="ignore"):
        np.cumsum(slopes[:, :-1] * gaps, axis=1, out=given[:, 1:])
    at = np.minimum((given < target[:, None]).sum(axis=1), marks.shape[1] - 1)
    before = np.maximum(at - 1, 0)[:, None]
    slope = np.maximum(np.take_along_axis(slopes, before, axis=1)[:, 0], 1)
    missing = target - np.take_along_axis(given, before, axis=1)[:, 0]
    level: Whole = top - np.take_along_axis(marks, before, axis=1)[:, 0] - missing // slope
    return level


def _mark_largest(gain: Whole, has_room: Mask, number: Whole) -> Whole:
    """Return 1 for the entries with the `number` largest gains of each row, and 0 for the others.

    Only entries with `room` are selected.
    """
    n = gain.shape[1]
    width = max(1, (n - 1).bit_length())
    low = -(1 << (60 - width))
    # The place is part of the key, in falling order: of equal gains, the first entry wins.
    key = (np.maximum(gain, low) << width) | np.arange(n - 1, -1, -1)
    key[~has_room] = np.iinfo(np.int64).min
    number = np.minimum(number, has_room.sum(axis=1))
    ordered = np.sort(key, axis=1)
    least = np.take_along_axis(ordered, n - np.maximum(number, 1)[:, None], axis=1)
    taken: Whole = ((key >= least) & has_room & (number > 0)[:, None]).astype(np.int64)
    return taken
