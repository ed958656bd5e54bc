"""Offset-symmetric Gaussian mechanism on the integers.

Release    q + K, P(K = k) proportional to exp(-k^2 / (2 scale^2) - ratio |k| / scale), drawn
           independently for every cell.
Guarantee  The exact curve delta(epsilon) of the integer noise.
Source     Named as future work by Sadeghi and Korki, "Offset-symmetric Gaussians for differential
           privacy". The loss of an integer is the loss in their paper, and the probabilities are
           sums over integers.
Limits     For ratio 0 the noise is discrete Gaussian noise. As the ratio grows, it approaches
           discrete Laplace noise with the scale `scale / ratio`.
Units      q, K and scale in steps; ratio has none.
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
    use_case: ClassVar[str] = "whole answers, a few to some hundred: between Laplace and Gaussian"
    has_integer_noise: ClassVar[bool] = True
    pure: ClassVar[bool] = False
    costs_most_in_few_cells: ClassVar[bool] = True
    sensitivity_norm: ClassVar[int] = 2
    shape_parameters = (RATIO,)
    example_shapes = ({"ratio": 0.5}, {"ratio": 4.0})
    searched_shapes: ClassVar[tuple[Mapping[str, float], ...]] = tuple({"ratio": r} for r in RATIOS)
    parameter_ranges = {"ratio": (LEAST_RATIO, LARGEST_RATIO)}  # noqa: RUF012

    ratio: float

    @property
    def offset(self) -> float:
        """Return the ratio, which is the offset of the weights in scales."""
        return self.ratio


MECHANISM = DiscreteOffsetSymmetricGaussian
