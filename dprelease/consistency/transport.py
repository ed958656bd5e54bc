"""Integer tables with given margins, nearest to estimates: children in rows, cells in columns.

    minimise sum (x_cj - z_cj)^2    over x >= 0, sum_j x_cj = t_c, sum_c x_cj = H_j.

1. **Projection.** The optimum without whole x is max(0, z_cj + a_c + b_j); a and b by alternating
   Newton steps on the rows' and the columns' equations, which are piecewise linear, in whole units
   of 2**-bits. At most _ROUNDS rounds: without convergence the result is less near, but never
   infeasible.
2. **Repair.** The excess of a row or column is cut off, then missing amounts are filled from the
   first row and column on (the north-west corner): a table of multiples of 2**-_FINE with exact
   margins, in which what was 0 because its row or column is 0 stays 0.
3. **Controlled rounding** (`round_table`): bit by bit, from the last. Rows and columns hold an even
   number of entries in which the bit is set, as its sum is whole. Paired along rows and along
   columns they form cycles of even length; going round, entries lose and gain the bit in turn,
   which leaves every sum as it is. After the last bit all entries are whole, and each has moved by
   less than 2**-_FINE (1 + 2 + 4 + ...) < 1: |x - y| < 1 for every entry of what step 2 gives, and
   integer entries of y are preserved.

**Bound.** Let y be the optimum without whole x. Its multipliers of x >= 0 are at least 0 and vanish
where y > 0, so |x - z|^2 = |y - z|^2 + |x - y|^2 + 2 sum(multiplier * x) for every feasible x; for
one that is 0 wherever y is, the last term is 0. So the result of step 3 on an exact y is within the
number of its fractional entries of |y - z|^2, and of every integer table's distance. (Of the two
directions around a cycle, the one with the result nearer to z is used.) Steps 1 and 2 move y; the
tests measure by how much.

Sources: Bacharach, "Matrix rounding problems" (1966), and Cox, "A constructive procedure for
unbiased controlled rounding" (1987), for cycles; the bitwise form, which needs no search, is
derived here.
"""

from __future__ import annotations

import numpy as np

from dprelease.consistency.allotment import Mask
from dprelease.consistency.fixed_point import Whole

_FINE = 10  # bits of a fraction used in rounding
_ROUNDS = 200


def fit_to_margins(z: Whole, live: Mask, rows: Whole, columns: Whole, bits: int) -> Whole:
    """Return integer tables with given margins, near to estimates: (problems, n, k).

    Parameters
    ----------
    z
        (problems, n, k) estimates in units of 2**-bits.
    live
        (problems, n) which rows exist.
    rows, columns
        (problems, n) and (problems, k) whole margins, at least 0, of equal sums; 0 for rows that
        don't exist.
    bits
        Of the unit of `z`.

    Raises
    ------
    ValueError
        If the margins of a table differ in their sums.
    """
    if (rows.sum(axis=1) != columns.sum(axis=1)).any() or rows[~live].any():
        raise ValueError("the rows and the columns of a table have different sums")
    near = _project_to_margins(z, rows, columns, bits)
    shift = max(0, bits - _FINE)
    fine = bits - shift
    return round_table(
        repair_margins(near >> shift, rows << fine, columns << fine), z >> shift, fine
    )


def _project_to_margins(z: Whole, rows: Whole, columns: Whole, bits: int) -> Whole:
    """Return max(0, z + a + b) with nearly the margins, 0 where a margin is."""
    open_ = (rows > 0)[:, :, None] & (columns > 0)[:, None, :]
    never = -(1 << 60)
    moved = np.where(open_, z, never)
    entries = (rows > 0).sum(axis=1) + (columns > 0).sum(axis=1)  # without padding
    enough = np.maximum(1 << max(0, bits - _FINE - 2), entries)
    left = np.arange(len(z))  # each problem stops independently, by its own margins
    for _ in range(_ROUNDS):
        y, shut = moved[left], ~open_[left]
        for axis, aim in ((2, rows[left] << bits), (1, columns[left] << bits)):
            y += np.expand_dims(_newton(y, axis, aim), axis)
            y[shut] = never
        moved[left] = y
        off = np.abs(np.maximum(y, 0).sum(axis=2) - (rows[left] << bits)).max(axis=1)
        left = left[off > enough[left]]
        if not len(left):
            break
    return np.maximum(moved, 0)


def _newton(y: Whole, axis: int, aim: Whole) -> Whole:
    """Return the shifts that move the sums of positive parts to their aims; two Newton steps."""
    step = np.zeros(aim.shape, np.int64)
    for _ in range(2):
        moved = y + np.expand_dims(step, axis)
        number = (moved > 0).sum(axis=axis)
        missing = aim - np.maximum(moved, 0).sum(axis=axis)
        empty = (number == 0) & (aim > 0)
        change = missing // np.maximum(number, 1)
        if empty.any():
            highest = moved.max(axis=axis)
            change = np.where(empty, aim - highest, change)
        step += np.where(aim > 0, change, 0)
    step[aim == 0] = 0
    return step


def repair_margins(y: Whole, rows: Whole, columns: Whole) -> Whole:
    """Return `y`, cut and filled to have exactly these margins."""
    for axis, aim in ((1, columns), (2, rows)):
        running = np.minimum(np.cumsum(y, axis=axis), np.expand_dims(aim, axis))
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
    """Return integer tables with the margins of `y`, every entry less than 1 from it.

    Parameters
    ----------
    y
        (problems, n, k) at least 0, in units of 2**-bits, all margins whole.
    z
        The estimates to approximate, in the same units.
    """
    flat = y.ravel()
    places = np.flatnonzero(flat & ((1 << bits) - 1))  # integer entries don't change
    entries = flat[places]
    apart = entries - z.ravel()[places]
    by_column = _by_column(places, y.shape)
    for bit in range(bits):
        odd = entries >> bit & 1 > 0
        if not odd.any():
            continue
        rank = np.cumsum(odd) - 1
        pairs = rank[by_column[odd[by_column]]].reshape(-1, 2)
        column_mate = np.empty(pairs.size, np.int64)
        column_mate[pairs] = pairs[:, ::-1]
        up = _turns(column_mate, apart[odd])
        moves = np.where(up, 1 << bit, -(1 << bit))
        entries[odd] += moves
        apart[odd] += moves
    whole = flat >> bits
    whole[places] = entries >> bits
    return whole.reshape(y.shape)


def _by_column(places: Whole, shape: tuple[int, ...]) -> Whole:
    """Return the permutation of entries from row order to column order within each problem."""
    _problems, n, k = shape
    above, column = np.divmod(places, k)
    problem, row = np.divmod(above, n)
    found: Whole = np.argsort((problem * k + column) * n + row, kind="stable")
    return found


def _turns(column_mate: Whole, apart: Whole) -> Mask:
    """Return which entries gain; 2i and 2i + 1 are a row's pair, `column_mate` a column's."""
    here = np.arange(len(column_mate))
    step = column_mate[here ^ 1]  # two along the cycle
    label = here.copy()
    while True:
        lower = np.minimum(label, label[step])
        if (lower == label).all():
            break
        label, step = lower, step[step]
    first = label < label[here ^ 1]  # one half of each cycle: it has the cycle's first entry
    cycle = np.minimum(label, label[here ^ 1])
    order = np.argsort(cycle, kind="stable")
    starts = np.flatnonzero(np.diff(cycle[order], prepend=-1))
    cost = np.add.reduceat(np.where(first, apart, -apart)[order], starts)
    gains = np.empty(len(here), bool)
    gains[order] = np.repeat(cost <= 0, np.diff(np.append(starts, len(here))))
    taken: Mask = first == gains
    return taken
