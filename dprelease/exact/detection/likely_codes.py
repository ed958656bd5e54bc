"""Find numbers that look like codes for missing values, such as 9, 99 or -1: proposals of `init`.

Only numbers of a fixed list are ever found, and only where they look like codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

FEWEST = 3
"""Fewest occurrences of a code: a code stands for the missing answers of several people."""

FIRST_OF_TWO_DIGITS = 10
"""Codes below this number are found only among whole numbers from 0 on, such as those of scales."""

FEWEST_VALUES = 2
"""Fewest different numbers besides codes in a column."""

HIGH_CODES = frozenset(
    {float(digit * length) for digit in "789" for length in range(1, 6)}
    | {float("9" * length + digit) for digit in "678" for length in range(1, 5)}
)
LOW_CODES = frozenset(
    {-float(digit * length) for digit in "789" for length in range(1, 6)} | {-1.0}
)
NINES = frozenset(float("9" * length) for length in range(2, 6))
"""Codes for missing values above and below all values; `NINES` need no gap below them."""


def likely_codes(numbers: Iterable[float]) -> list[int]:
    """Return the numbers that look like codes for missing values, in ascending order.

    Codes above the other numbers are separated from them by a gap, or consist of nines alone. Codes
    below them are the only negative numbers.
    """
    counts = Counter(numbers)
    values = sorted(counts)
    low = [value for value in values if value < 0]
    codes = low if all(v in LOW_CODES and counts[v] >= FEWEST for v in low) else []
    values = values[len(codes) :]
    high: list[float] = []
    while values and values[-1] in HIGH_CODES and counts[values[-1]] >= FEWEST:
        high.insert(0, values.pop())
    if len(values) < FEWEST_VALUES:
        return []
    if values[0] < 0 or not all(map(float.is_integer, values)):
        high = [code for code in high if code >= FIRST_OF_TWO_DIGITS]
    distances = [b - a for a, b in pairwise(values)]
    if high and high[0] - values[-1] <= median(distances):
        high = [code for code in high if code in NINES and code == high[-1]]
    return [int(code) for code in (*codes, *high)]
