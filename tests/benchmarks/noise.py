"""Exact draws a second on one core, beside NumPy's own generators, which are not safe for privacy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.lattice import sample

DRAWS = 2_000_000
ROUNDS = 5
PEERS_SCALE = 10.0


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


def run(peers: dict[str, dict[str, float]]) -> list[Speed]:
    """Measure every mechanism at three scales, print and return the table; peers beside the first.

    `peers`: million draws a second by peer and law.
    """
    bits, unsafe = Entropy(), np.random.default_rng()
    found = []
    heads = "".join(f"{'x ' + peer:>16}" for peer in peers)
    print(
        f"{'exact draws, one core':<36}{'scale':>9}{'ours M/s':>10}{'NumPy M/s':>11}{'ratio':>7}"
        f"{heads}"
    )
    for name in registry.names():
        plain = unsafe.normal if "gaussian" in name else unsafe.laplace
        for scale in (10.0, 1000.0, 2.0**20):
            kind = registry.get(name)
            try:
                law = kind.design(scale, **kind.examples[0])
            except BudgetError:
                continue  # longer than its table may be
            ours = _rate(lambda law=law: sample(law, DRAWS, bits))
            theirs = _rate(lambda s=scale, plain=plain: np.rint(plain(0.0, s, DRAWS)))
            found.append(Speed(name, scale, ours, theirs))
            row = found[-1]
            beside = ""
            if scale == PEERS_SCALE:
                speeds = [found_there.get(name) for found_there in peers.values()]
                beside = "".join(f"{ours / x:>16,.0f}" if x else f"{'-':>16}" for x in speeds)
            print(f"{name:<36}{scale:>9g}{ours:>10.1f}{theirs:>11.1f}{row.ratio:>7.2f}{beside}")
    return found
