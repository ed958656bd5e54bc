"""Exact draws a second on one core, beside NumPy's own generators, which are not safe for privacy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms import registry
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.lattice import sample

DRAWS = 2_000_000
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Speed:
    """Million draws a second of one law, ours and NumPy's nearest."""

    mechanism: str
    scale: float
    ours: float
    numpy: float

    @property
    def ratio(self) -> float:
        """Return ours / NumPy's."""
        return self.ours / self.numpy


def _rate(draw: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        draw()
        times.append(time.perf_counter() - start)
    return DRAWS / statistics.median(times[1:]) / 1e6


def run() -> list[Speed]:
    """Measure every mechanism at a small and a large scale; print and return the table."""
    bits, unsafe = Entropy(), np.random.default_rng()
    found = []
    print(
        f"{'exact draws, one core':<22}{'scale':>12}{'ours M/s':>10}{'NumPy M/s':>11}{'ratio':>7}"
    )
    for name in registry.names():
        plain = unsafe.normal if "gaussian" in name else unsafe.laplace
        for scale in (10.0, 1000.0, 2.0**20):
            kind = registry.get(name)
            law = kind.design(scale, **kind.examples[0])
            ours = _rate(lambda law=law: sample(law, DRAWS, bits))
            theirs = _rate(lambda s=scale, plain=plain: np.rint(plain(0.0, s, DRAWS)))
            found.append(Speed(name, scale, ours, theirs))
            row = found[-1]
            print(f"{name:<22}{scale:>12g}{ours:>10.1f}{theirs:>11.1f}{row.ratio:>7.2f}")
    return found
