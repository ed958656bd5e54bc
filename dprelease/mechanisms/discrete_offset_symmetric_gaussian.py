"""Offset-symmetric Gaussian tails on the integers.

Release    q + K, P(K = k) proportional to exp(-k^2 / (2 scale^2) - ratio |k| / scale), drawn
           independently for every cell.
Guarantee  The curve delta(epsilon) of the integers themselves.
Source     Named as future work by Sadeghi and Korki, "Offset-symmetric Gaussians for differential
           privacy"; the loss at an integer is theirs, the probabilities are sums over integers.
Limits     ratio 0 is discrete Gaussian noise; as ratio grows, discrete Laplace of scale / ratio.
Units      q, K and scale in lattice steps; ratio has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.mechanisms.common.offset_lattice import OffsetLattice
from dprelease.mechanisms.offset_symmetric_gaussian import LARGEST_RATIO, LEAST_RATIO, RATIO, RATIOS


@dataclass(frozen=True)
class DiscreteOffsetSymmetricGaussian(OffsetLattice):
    """Noise on the integers, proportional to exp(-(k / scale)^2 / 2 - ratio |k| / scale)."""

    name: ClassVar[str] = "discrete_offset_symmetric_gaussian"
    summary: ClassVar[str] = "Gaussian tails with a Laplace-like peak on the integers; approximate"
    use: ClassVar[str] = "whole answers, a few to some hundred: between Laplace and Gaussian"
    integers: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    norm: ClassVar[int] = 2
    shapes = (RATIO,)
    examples = ({"ratio": 0.5}, {"ratio": 4.0})
    search: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"ratio": r} for r in RATIOS)
    domains = {"ratio": (LEAST_RATIO, LARGEST_RATIO)}  # noqa: RUF012

    ratio: float

    @property
    def offset(self) -> float:
        """Return the ratio."""
        return self.ratio


MECHANISM = DiscreteOffsetSymmetricGaussian
