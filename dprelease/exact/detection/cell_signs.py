"""Find signs around numbers, such as 27.79% and (123), and numbers that look like codes for missing
values, such as 9, 99 or -1: proposals of `init`.

Only signs and numbers of fixed lists are ever found, and numbers only where they look like codes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from dprelease.schema.public_values.text_signs import MINUS_SIGNS

SIGNS = (
    "%", "\u2030", "$", "\u20ac", "\u00a3", "\u00a5", "*", "\u2020", "+", "<", ">", "~", "r", "p",
    "e", "b", "(r)", "(p)", "(e)", "(b)", "(c)", "[r]", "[p]", "[e]", "[b]", "[c]", "EUR", "USD",
    "CHF", "GBP", "\u00b9", "\u00b2", "\u00b3",
)  # fmt: skip
BY_LENGTH = sorted(SIGNS, key=len, reverse=True)
BEFORE = ("$", "\u20ac", "\u00a3", "\u00a5", "*", "<", ">", "~", "EUR", "USD", "CHF", "GBP")
"""The signs that also stand before a number."""
MARKS = tuple(sign for sign in SIGNS if len(sign) == 1 and sign.isalpha())
"""Letters that mark few numbers, such as those that were revised."""
IN_BRACKETS = re.compile(r"[(](.*[0-9].*)[)]")
TRAILING = re.compile(r"([^-+]*[0-9].*)-")


@dataclass(frozen=True, slots=True)
class SignedCells:
    """The cells of a column without signs, the signs that were found, and forms of negatives."""

    cells: list[str]
    signs: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()


def without_signs(cells: Sequence[str]) -> SignedCells:
    """Return cells without the signs around them; cells that are signs alone are left out."""
    signs: Counter[str] = Counter()
    forms: set[str] = set()
    plain = [_plain_cell(cell, signs, forms) for cell in cells]
    if 2 * sum(signs[sign] for sign in MARKS) > len(cells):  # they are codes, such as 12b
        return SignedCells([*cells])
    return SignedCells([cell for cell in plain if cell], tuple(sorted(signs)), tuple(sorted(forms)))


def _plain_cell(cell: str, signs: Counter[str], forms: set[str]) -> str:
    """Return the number in a cell; add its signs and the form of a negative number."""
    cell = _peel(cell, signs)
    if cell.startswith(MINUS_SIGNS) and cell[1:].strip():
        forms.add(f"{cell[0]}1")
        cell = f"-{cell[1:]}"
    for form, shape in (("(1)", IN_BRACKETS), ("1-", TRAILING)):
        found = shape.fullmatch(cell)
        if found is not None:
            forms.add(form)
            cell = f"-{found[1]}"
    return f"-{_peel(cell[1:], signs)}" if cell.startswith("-") and cell != "-" else cell


def _peel(cell: str, signs: Counter[str]) -> str:
    """Return a cell without the signs at its ends, and add them."""
    while True:
        cell = cell.strip()
        before = next((one for one in BEFORE if cell.startswith(one)), "")
        after = next((one for one in BY_LENGTH if cell.endswith(one)), "") if not before else ""
        if not before and not after:
            return cell
        cell = cell.removeprefix(before).removesuffix(after)
        signs[before or after] += 1


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
