"""Optimal lattice noise: the masses of the record over their sum."""

from flint import arb

from dprelease.mechanisms.base import Mechanism


def mass(law: Mechanism, k: int) -> arb:
    found: list[int] = []
    for part in dict(law.parameters)["masses"].split():
        digits, _, times = part.partition("*")
        found.extend([int(digits, 16)] * int(times or "1"))
    total = found[0] + 2 * sum(found[1:])
    return arb(found[abs(k)] if abs(k) < len(found) else 0) / total
