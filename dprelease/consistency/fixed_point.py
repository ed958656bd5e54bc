"""Arithmetic with the same bits for any order, chunks, number of threads and NumPy version.

Every sum runs over 64-bit whole numbers; every product or quotient is one correctly rounded float64
operation between conversions that are exact or correctly rounded, then rint. IEEE 754 fixes the
result of each, so the result doesn't depend on a BLAS, on fused multiply-adds or on the order of a
sum.

- **Values** are whole multiples of 2**-bits (`bits` is 20 unless values are large, see
  `value_bits`).
- **Variances** of level l and residual space T are whole multiples of 2**-h, with h selected from
  the tree and the noise so that sums over siblings stay below 2**62 (`variance_bits`). One unit for
  all levels would overflow: 7.7 million leaves under one node, variance 10 each, are 2**66 units of
  2**-40.
- **Guard**: a contrast of c attributes stays below 2**c times the declared largest number, which is
  below 2**53 units: every conversion to a float is exact. Larger numbers raise an error, they never
  wrap.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]

_HIGH = 20  # bits that the check of a long sum ignores


class FixedPointRangeError(ValueError):
    """Measured numbers are too large for the declared largest number."""

    def __init__(self) -> None:
        super().__init__("a measured number is out of the range that the declared largest one sets")


def value_bits(sizes: tuple[int, ...], largest: int) -> int:
    """Return how many binary digits after the point values have; at most 20, perhaps below 0.

    Parameters
    ----------
    sizes
        Numbers of values of the attributes of the largest table.
    largest
        A public, conservative bound of any cell or total, noise included.

    Notes
    -----
    Contrasts of c attributes are at most 2**c cells, so 2**(k + bits) largest has to be within the
    guard; N times a cell, N the number of cells, has to be below 2**62.
    """
    magnitude = max(0, largest - 1).bit_length()
    room = min(53 - len(sizes), 61 - math.prod(sizes).bit_length()) - magnitude
    return min(20, room)


def variance_bits(largest: float, terms: int) -> int:
    """Return h such that `terms` variances up to `largest` sum to less than 2**62 / 2**h."""
    if largest == 0:
        return 0
    return 61 - math.frexp(largest)[1] - terms.bit_length()


def whole(x: Floats) -> Whole:
    """Return the nearest whole numbers, ties to even."""
    rounded: Whole = np.rint(x).astype(np.int64)
    return rounded


def within(x: Whole, limit: int) -> Whole:
    """Return `x`; raise FixedPointRangeError where a number reaches the limit."""
    if x.size and (int(x.max()) >= limit or int(x.min()) <= -limit):
        raise FixedPointRangeError
    return x


def sibling_sums(x: Whole, starts: Whole) -> Whole:
    """Return the sums over the children of each parent: (parents, ...); 0 for one without children.

    Parameters
    ----------
    x
        (children, ...), siblings consecutive.
    starts
        (parents + 1,) where each parent's children start in `x`.

    Raises
    ------
    FixedPointRangeError
        If a sum, without the last 20 bits of each child, reaches 2**61: no sum wraps silently.
    """
    out = np.zeros((len(starts) - 1, *x.shape[1:]), np.int64)
    filled = np.flatnonzero(np.diff(starts))
    if not len(filled) or not x.size:
        return out
    most = int(np.diff(starts).max())
    if max(int(x.max()), -int(x.min())) * most >= 1 << 61:  # otherwise no sum is so large
        high = np.add.reduceat(x >> _HIGH, starts[filled], axis=0)
        if (np.abs(high) >= 1 << (61 - _HIGH)).any():
            raise FixedPointRangeError
    out[filled] = np.add.reduceat(x, starts[filled], axis=0)
    return out


def running_sums(x: Whole, starts: Whole) -> Whole:
    """Return for each child the sum over its elder siblings and itself (exact modulo 2**64)."""
    total = np.cumsum(x, axis=0)
    before = np.concatenate((np.zeros((1, *x.shape[1:]), np.int64), total))[starts[:-1]]
    apart: Whole = total - np.repeat(before, np.diff(starts), axis=0)
    return apart


def differences(x: Whole, starts: Whole) -> Whole:
    """Return each child's number minus the previous sibling's; the first is unchanged."""
    out = x.copy()
    out[1:] -= x[:-1]
    first = starts[:-1][np.diff(starts) > 0]
    out[first] = x[first]
    return out
