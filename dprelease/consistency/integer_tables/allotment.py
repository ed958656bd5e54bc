"""Find the integers nearest to estimates with one given sum, or integer tables with given margins.

Find the whole numbers that are nearest to estimates and have a given sum: in closed form.

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

Find integer tables with given margins near to estimates: children in rows, cells in columns.

    minimise sum (x_cj - z_cj)^2    over x >= 0, sum_j x_cj = t_c, sum_c x_cj = H_j.

1. **Projection.** The optimum for real x is max(0, z_cj + a_c + b_j). The shifts a and b are
   computed by alternating Newton steps on the equations of rows and of columns, which are piecewise
   linear, in whole units of 2**-bits. There are at most _MAX_ROUNDS rounds: if they don't converge,
   the result is farther from the estimates, but never infeasible.
2. **Repair.** The excess of a row or column is cut off, then missing amounts are filled in from the
   first row and column on (the north-west corner rule). The result is a table of multiples of
   2**-_FRACTION_BITS with exact margins. Entries stay 0 if their row or column sums to 0.
3. **Controlled rounding** (`round_table`): bit by bit, from the last. Rows and columns have an even
   number of entries in which the bit is set, as its sum is whole. Paired along rows and along
   columns they form cycles of even length; going round, entries lose and gain the bit in turn,
   which leaves every sum as it is. After the last bit all entries are whole, and each has moved by
   less than 2**-_FRACTION_BITS (1 + 2 + 4 + ...) < 1. So |x - y| < 1 for every entry y of the
   result of step 2, and integer entries of y don't change.

**Bound.** Let y be the optimum for real x. Its multipliers of x >= 0 are at least 0 and vanish
where y > 0, so |x - z|^2 = |y - z|^2 + |x - y|^2 + 2 sum(multiplier * x) for every feasible x. If x
is 0 wherever y is 0, the last term is 0. So the result of step 3 on an exact y is within the number
of its fractional entries of |y - z|^2, and of the squared distance of the best integer table. (Of
the two directions around a cycle, the one with the result nearer to z is used.) Steps 1 and 2 move
y; the tests measure by how much.

Sources: Bacharach, "Matrix rounding problems" (1966), and Cox, "A constructive procedure for
unbiased controlled rounding" (1987), for cycles; the bitwise form, which needs no search, is
derived here.
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


_FRACTION_BITS = 10  # bits of a fraction used in rounding
_MAX_ROUNDS = 200


def fit_to_margins(z: Whole, live: Mask, rows: Whole, columns: Whole, bits: int) -> Whole:
    """Return integer tables with given margins, near to estimates: (problems, n, k).

    - `z`: (problems, n, k) estimates in units of 2**-bits.
    - `live`: (problems, n) the rows that exist.
    - `rows`, `columns`: (problems, n) and (problems, k) whole margins from 0 up, with equal sums; 0
      for rows that don't exist.
    - `bits`: the exponent of the unit 2**-bits of `z`.

    Raises ValueError if the sums of the rows and of the columns of a table differ.
    """
    if (rows.sum(axis=1) != columns.sum(axis=1)).any() or rows[~live].any():
        raise ValueError("the rows and the columns of a table have different sums")
    near = _project_to_margins(z, rows, columns, bits)
    shift = max(0, bits - _FRACTION_BITS)
    fine = bits - shift
    return round_table(
        repair_margins(near >> shift, rows << fine, columns << fine), z >> shift, fine
    )


def _project_to_margins(z: Whole, rows: Whole, columns: Whole, bits: int) -> Whole:
    """Return max(0, z + a + b) with nearly the given margins; entries of margins of 0 are 0."""
    is_open = (rows > 0)[:, :, None] & (columns > 0)[:, None, :]
    excluded = -(1 << 60)
    shifted = np.where(is_open, z, excluded)
    entries = (rows > 0).sum(axis=1) + (columns > 0).sum(axis=1)  # without padding
    # Every quotient is rounded down, so a sum may stay below its target by a unit for each entry.
    tolerance = np.maximum(1 << max(0, bits - _FRACTION_BITS - 2), entries)
    unfinished = np.arange(len(z))  # each problem stops independently, by its own margins
    for _ in range(_MAX_ROUNDS):
        y, closed = shifted[unfinished], ~is_open[unfinished]
        for axis, target in ((2, rows[unfinished] << bits), (1, columns[unfinished] << bits)):
            y += np.expand_dims(_newton_shifts(y, axis, target), axis)
            y[closed] = excluded
        shifted[unfinished] = y
        excess = np.abs(np.maximum(y, 0).sum(axis=2) - (rows[unfinished] << bits)).max(axis=1)
        unfinished = unfinished[excess > tolerance[unfinished]]
        if not len(unfinished):
            break
    return np.maximum(shifted, 0)


def _newton_shifts(y: Whole, axis: int, target: Whole) -> Whole:
    """Return shifts that bring sums of positive parts to their targets, by two Newton steps."""
    step = np.zeros(target.shape, np.int64)
    for _ in range(2):
        shifted = y + np.expand_dims(step, axis)
        number = (shifted > 0).sum(axis=axis)
        missing = target - np.maximum(shifted, 0).sum(axis=axis)
        empty = (number == 0) & (target > 0)
        change = missing // np.maximum(number, 1)
        if empty.any():
            highest = shifted.max(axis=axis)
            change = np.where(empty, target - highest, change)
        step += np.where(target > 0, change, 0)
    step[target == 0] = 0
    return step


def repair_margins(y: Whole, rows: Whole, columns: Whole) -> Whole:
    """Return `y`, cut and filled so that it has exactly these margins."""
    for axis, target in ((1, columns), (2, rows)):
        # Cuts the end of a row or column that is too large, and leaves all others as they are.
        running = np.minimum(np.cumsum(y, axis=axis), np.expand_dims(target, axis))
        y = np.diff(running, axis=axis, prepend=0)
    missing_rows = rows - y.sum(axis=2)
    missing_columns = columns - y.sum(axis=1)
    row_ends, column_ends = np.cumsum(missing_rows, axis=1), np.cumsum(missing_columns, axis=1)
    high = np.minimum(row_ends[:, :, None], column_ends[:, None, :])
    low = np.maximum(
        (row_ends - missing_rows)[:, :, None], (column_ends - missing_columns)[:, None, :]
    )
    filled: Whole = y + np.maximum(high - low, 0)
    return filled


def round_table(y: Whole, z: Whole, bits: int) -> Whole:
    """Return integer tables with the margins of `y`, whose entries differ from `y` by less than 1.

    - `y`: (problems, n, k) at least 0, in units of 2**-bits, all margins whole.
    - `z`: the estimates to approximate, in the same units.
    """
    flat = y.ravel()
    positions = np.flatnonzero(flat & ((1 << bits) - 1))  # integer entries don't change
    entries = flat[positions]
    differences = entries - z.ravel()[positions]
    by_column = _column_order(positions, y.shape)
    for bit in range(bits):
        odd = entries >> bit & 1 > 0
        if not odd.any():
            continue
        rank = np.cumsum(odd) - 1
        pairs = rank[by_column[odd[by_column]]].reshape(-1, 2)
        column_mate = np.empty(pairs.size, np.int64)
        column_mate[pairs] = pairs[:, ::-1]
        up = _entries_rounded_up(column_mate, differences[odd])
        moves = np.where(up, 1 << bit, -(1 << bit))
        entries[odd] += moves
        differences[odd] += moves
    whole = flat >> bits
    whole[positions] = entries >> bits
    return whole.reshape(y.shape)


def _column_order(positions: Whole, shape: tuple[int, ...]) -> Whole:
    """Return the permutation of entries from row order to column order within each problem."""
    _problems, n, k = shape
    above, column = np.divmod(positions, k)
    problem, row = np.divmod(above, n)
    found: Whole = np.argsort((problem * k + column) * n + row, kind="stable")
    return found


def _entries_rounded_up(column_mate: Whole, differences: Whole) -> Mask:
    """Return the entries that gain the bit.

    Entries 2i and 2i + 1 are a pair along a row; an entry and its `column_mate` are a pair along a
    column.
    """
    here = np.arange(len(column_mate))
    step = column_mate[here ^ 1]  # two along the cycle
    label = here.copy()
    while True:
        lower = np.minimum(label, label[step])
        if (lower == label).all():
            break
        # Each turn doubles the reach of `step`, so that a cycle of n entries takes log2(n) turns
        # and no search.
        label, step = lower, step[step]
    first = label < label[here ^ 1]  # one half of each cycle: it has the cycle's first entry
    cycle = np.minimum(label, label[here ^ 1])
    order = np.argsort(cycle, kind="stable")
    starts = np.flatnonzero(np.diff(cycle[order], prepend=-1))
    cost = np.add.reduceat(np.where(first, differences, -differences)[order], starts)
    gains = np.empty(len(here), bool)
    gains[order] = np.repeat(cost <= 0, np.diff(np.append(starts, len(here))))
    taken: Mask = first == gains
    return taken
