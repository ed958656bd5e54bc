"""Exact draws a second on one core, beside NumPy's own generators, which are not safe for privacy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dprelease.errors import BudgetError
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.numerics.entropy import Entropy
from dprelease.numerics.lattice import sample
from dprelease.privacy.unit import Move, Sensitivity

DRAWS = 1_000_000
ROUNDS = 5
PEERS_SCALE = 10.0
SCALES = (PEERS_SCALE, 2.0**10, 2.0**33, 2.0**45)
"""Lattice steps. 2**33 cents are 86 million in a currency's unit."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Million draws a second of one distribution, ours and NumPy's nearest."""

    mechanism: str
    shape: str
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


def _laws(scale: float) -> Iterator[tuple[str, Mapping[str, str | float], Mechanism]]:
    """Yield every mechanism at every example shape, for cells that move by up to a scale."""
    shift = Sensitivity(1, (Move(int(scale), 1),))
    for name in registry.names():
        kind = registry.get(name)
        for shape in kind.example_shapes:
            try:
                yield name, shape, kind.design(scale, shift, **shape)
            except BudgetError:
                continue  # longer than its table may be


def run(peers: dict[str, dict[str, float]]) -> list[Speed]:
    """Measure every mechanism and shape at all scales, print and return the table.

    `peers`: million draws a second by peer and law, shown beside the first scale and shape.
    """
    bits, unsafe = Entropy(), np.random.default_rng()
    found: list[Speed] = []
    heads = "".join(f"{'x ' + peer:>16}" for peer in peers)
    print(
        f"{'exact draws, one core':<36}{'shape':<22}{'scale':>9}{'ours M/s':>10}{'NumPy M/s':>11}"
        f"{'ratio':>7}{heads}"
    )
    for scale in SCALES:
        for name, shape, law in _laws(scale):
            plain = unsafe.normal if "gaussian" in name else unsafe.laplace
            ours = _rate(lambda law=law: sample(law, DRAWS, bits))
            theirs = _rate(lambda s=scale, plain=plain: np.rint(plain(0.0, s, DRAWS)))
            first = scale == PEERS_SCALE and name not in {row.mechanism for row in found}
            words = " ".join(str(value) for value in shape.values())
            found.append(Speed(name, words, scale, ours, theirs))
            speeds = [found_there.get(name) for found_there in peers.values() if first]
            beside = "".join(f"{ours / x:>16,.0f}" if x else f"{'-':>16}" for x in speeds)
            print(
                f"{name:<36}{words:<22}{scale:>9.3g}{ours:>10.1f}{theirs:>11.1f}"
                f"{found[-1].ratio:>7.2f}{beside}"
            )
    slowest = min(found, key=lambda row: row.ours)
    print(
        f"the slowest: {slowest.ours:.1f} M/s, {slowest.mechanism} {slowest.shape} "
        f"at scale {slowest.scale:g}"
    )
    return found
