"""Arithmetic whose bits don't depend on order, chunks, number of threads or NumPy version.

Every sum is a sum of 64-bit integers. Every product or quotient is one correctly rounded float64
operation between conversions that are exact or correctly rounded; the result is rounded by rint.
IEEE 754 fixes the result of each, so the result doesn't depend on a BLAS, on fused multiply-adds or
on the order of a sum.

- **Values** are whole multiples of 2**-bits (`bits` is 20 unless values are large, see
  `value_bits`).
- **Variances** of level l and residual space T are whole multiples of 2**-h, with h selected from
  the tree and the noise so that sums over siblings stay below 2**62 (`variance_bits`). With one
  unit for all levels, sums would overflow: 7.7 million leaves under one node, each of variance 10,
  have a total variance of 2**66 units of 2**-40.
- **Guard**: a contrast of c attributes stays below 2**c times the declared largest number, which is
  below 2**53 units: every conversion to a float is exact. Larger numbers raise an error, and
  never wrap.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Floats = NDArray[np.float64]

_HIGH = 20  # low bits that the check of a long sum ignores


class FixedPointRangeError(ValueError):
    """Measured numbers are too large for the declared largest number."""

    def __init__(self) -> None:
        super().__init__("a measured number is out of the range that the declared largest one sets")


def value_bits(sizes: tuple[int, ...], largest: int) -> int:
    """Return the number of binary digits after the point of values: at most 20, perhaps below 0.

    - `sizes`: numbers of values of the attributes of the largest table.
    - `largest`: a public, conservative bound of every cell and total, noise included.

    Contrasts of c attributes are at most 2**c cells, so 2**(k + bits) largest has to be below
    2**53. The product of a cell and the number of cells has to be below 2**62.
    """
    magnitude = max(0, largest - 1).bit_length()
    room = min(53 - len(sizes), 61 - math.prod(sizes).bit_length()) - magnitude
    return min(20, room)


def variance_bits(largest: float, terms: int) -> int:
    """Return h such that `terms` variances up to `largest` sum to less than 2**62 / 2**h."""
    if largest == 0:
        return 0
    return 61 - math.frexp(largest)[1] - terms.bit_length()


def round_half_even(x: Floats) -> Whole:
    """Return the nearest integers; halves are rounded to even ones."""
    # Not floor(x + 0.5): the addition itself may round, and would move halves in one direction.
    rounded: Whole = np.rint(x).astype(np.int64)
    return rounded


def require_below(x: Whole, limit: int) -> Whole:
    """Return `x`; raise FixedPointRangeError if an absolute value reaches the limit."""
    if x.size and (int(x.max()) >= limit or int(x.min()) <= -limit):
        raise FixedPointRangeError
    return x


def sibling_sums(x: Whole, starts: Whole) -> Whole:
    """Return the sum over the children of each parent: (parents, ...); 0 if it has no children.

    - `x`: (children, ...) numbers of the children; siblings are consecutive.
    - `starts`: (parents + 1,) where each parent's children start in `x`.

    Raises FixedPointRangeError if a sum, without the last 20 bits of each child, reaches 2**61: no
    sum wraps silently.
    """
    out = np.zeros((len(starts) - 1, *x.shape[1:]), np.int64)
    filled = np.flatnonzero(np.diff(starts))
    if not len(filled) or not x.size:
        return out
    most = int(np.diff(starts).max())
    # In Python's integers: the product of two 64-bit numbers may overflow.
    if max(int(x.max()), -int(x.min())) * most >= 1 << 61:  # otherwise no sum is so large
        high = np.add.reduceat(x >> _HIGH, starts[filled], axis=0)
        if (np.abs(high) >= 1 << (61 - _HIGH)).any():
            raise FixedPointRangeError
    # Only parents with children: for an empty range, `reduceat` returns the next element and not 0.
    out[filled] = np.add.reduceat(x, starts[filled], axis=0)
    return out


def running_sums(x: Whole, starts: Whole) -> Whole:
    """Return for each child the sum over its preceding siblings and itself (modulo 2**64)."""
    # The cumulative sum over all families may wrap. The difference of two of its values is right
    # again, because both wrap modulo 2**64.
    total = np.cumsum(x, axis=0)
    before = np.concatenate((np.zeros((1, *x.shape[1:]), np.int64), total))[starts[:-1]]
    sums: Whole = total - np.repeat(before, np.diff(starts), axis=0)
    return sums


def sibling_differences(x: Whole, starts: Whole) -> Whole:
    """Return each child's number minus that of the previous sibling; the first is unchanged."""
    out = x.copy()
    out[1:] -= x[:-1]
    first = starts[:-1][np.diff(starts) > 0]
    # Otherwise the last child of the previous family would be subtracted.
    out[first] = x[first]
    return out
