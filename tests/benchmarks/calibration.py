"""Milliseconds to find the scale of every mechanism for a budget, the first time and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

from dprelease.errors import Place
from dprelease.mechanisms import registry
from dprelease.planning.auto.single_mechanism import shapes_of
from dprelease.planning.calibration import UnscaledNoise, solve_scales
from dprelease.privacy.budget import Budget
from dprelease.privacy.unit import Move, Sensitivity

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
    budget = Budget.of(epsilon=epsilon, delta=DELTA)
    solve_scales([UnscaledNoise(kind, shape, SENSITIVITY, Fraction(1), Place())], budget)


@dataclass(frozen=True, slots=True)
class Planning:
    """Seconds to solve the common factor of many columns, in this process."""

    name: str
    seconds: float


def plan_many() -> list[Planning]:
    """Measure 100 columns that all differ, and 1,000 of five kinds; print and return."""
    names = ("discrete_gaussian", "discrete_laplace", "laplace", "gaussian", "staircase")
    budget = Budget.of(epsilon=Fraction(1), delta=DELTA)
    found = []
    for title, columns, kinds in (("100 different", 100, 100), ("1,000 of 5 kinds", 1000, 5)):
        noises = [
            UnscaledNoise(
                registry.get(names[i % 5]),
                {},
                Sensitivity(3, (Move(1 + 7 * (i % kinds), 1),)),
                Fraction(1),
                Place(),
            )
            for i in range(columns)
        ]
        start = time.perf_counter()
        solve_scales(noises, budget)
        found.append(Planning(title, time.perf_counter() - start))
        print(f"plan {title:<31}{found[-1].seconds:>10.2f} s")
    return found
