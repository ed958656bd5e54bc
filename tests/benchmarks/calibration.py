"""Milliseconds to find the scale of every mechanism for a budget, the first time and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import Place
from dprelease.mechanisms import registry
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.release.calibration import shapes_of
from dprelease.release.draft import Draft, solve

SENSITIVITY = Sensitivity(1, (Move(1, 16),))
DELTA = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Milliseconds of one mechanism at 16 answers, delta 1e-9; `warm` at another epsilon."""

    mechanism: str
    cold: float
    warm: float


def run() -> list[Calibration]:
    """Measure, print and return the table; libraries are loaded before."""
    _solve("laplace", Fraction(1))
    found = []
    print(f"{'calibration':<36}{'cold ms':>10}{'warm ms':>10}")
    for name in registry.names():
        times = []
        for epsilon in (Fraction(1), Fraction(101, 100)):
            start = time.perf_counter()
            _solve(name, epsilon)
            times.append(1e3 * (time.perf_counter() - start))
        found.append(Calibration(name, *times))
        print(f"{name:<36}{times[0]:>10.1f}{times[1]:>10.1f}")
    return found


def _solve(name: str, epsilon: Fraction) -> None:
    kind = registry.get(name)
    shape = next(iter(shapes_of(kind, DELTA, SENSITIVITY)))
    solve([Draft(kind, shape, SENSITIVITY, Fraction(1), Place())], epsilon, DELTA)
