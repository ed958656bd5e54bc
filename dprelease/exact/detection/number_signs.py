"""Find signs around the numbers of a column, such as 27.79% and (123): proposals of `init`.

Only signs of a fixed list are ever found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

SIGNS = (
    "%", "\u2030", "$", "\u20ac", "\u00a3", "\u00a5", "*", "\u2020", "+", "<", ">", "~", "r", "p",
    "e", "b", "(r)", "(p)", "(e)", "(b)", "(c)", "[r]", "[p]", "[e]", "[b]", "[c]", "EUR", "USD",
    "CHF", "GBP",
)  # fmt: skip
BY_LENGTH = sorted(SIGNS, key=len, reverse=True)
BEFORE = ("$", "\u20ac", "\u00a3", "\u00a5", "*", "<", ">", "~", "EUR", "USD", "CHF", "GBP")
"""The signs that also stand before a number."""
MARKS = tuple(sign for sign in SIGNS if len(sign) == 1 and sign.isalpha())
"""Letters that mark few numbers, such as those that were revised."""
MINUS = "\u2212"
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
    if cell.startswith(MINUS):
        forms.add(f"{MINUS}1")
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
