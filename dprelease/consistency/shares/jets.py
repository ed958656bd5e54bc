"""Numbers with their first and second derivatives, many at once: forward differentiation.

A jet holds f at (nodes, spaces) and, for each of the tree's levels l, how it moves with the
precision lambda_l of the same space: df / dlambda_l, and optionally d2f / dlambda_l dlambda_m.
Spaces are independent, so that all derivatives fit a small block for each.

Source: Griewank and Walther, "Evaluating Derivatives" (SIAM, 2nd ed. 2008), chapter 13.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprelease.consistency.fixed_point import Floats, Whole

VALUES, SLOPES, BENDS = 0, 1, 2  # how many derivatives


@dataclass(frozen=True)
class Jet:
    """Values with derivatives.

    Parameters
    ----------
    value
        (nodes, spaces).
    slope
        (nodes, spaces, levels), or None.
    bend
        (nodes, spaces, levels, levels), or None.
    """

    value: Floats
    slope: Floats | None = None
    bend: Floats | None = None

    def __add__(self, other: Jet) -> Jet:
        return Jet(
            self.value + other.value,
            None if self.slope is None or other.slope is None else self.slope + other.slope,
            None if self.bend is None or other.bend is None else self.bend + other.bend,
        )

    def __sub__(self, other: Jet) -> Jet:
        return self + other.times(np.array(-1.0))

    def __mul__(self, other: Jet) -> Jet:
        slope = bend = None
        if self.slope is not None and other.slope is not None:
            slope = other.value[..., None] * self.slope + self.value[..., None] * other.slope
        if (
            self.slope is not None
            and other.slope is not None
            and self.bend is not None
            and other.bend is not None
        ):
            both = self.slope[..., :, None] * other.slope[..., None, :]
            bend = other.value[..., None, None] * self.bend
            bend += self.value[..., None, None] * other.bend
            bend += both
            bend += np.swapaxes(both, -1, -2)
        return Jet(self.value * other.value, slope, bend)

    def inverse(self) -> Jet:
        """Return 1 / f."""
        value = 1.0 / self.value
        slope = bend = None
        if self.slope is not None:
            slope = -(value * value)[..., None] * self.slope
        if self.slope is not None and slope is not None and self.bend is not None:
            # d2(1/f) = 2 f'f' / f^3 - f'' / f^2, and slope = -f' / f^2
            bend = (-2.0 * value)[..., None, None] * (
                slope[..., :, None] * self.slope[..., None, :]
            ) - (value * value)[..., None, None] * self.bend
        return Jet(value, slope, bend)

    def times(self, factor: Floats) -> Jet:
        """Return f times a constant, one number or one for each node."""
        by = [factor.reshape(-1, *[1] * (1 + n)) if factor.ndim else factor for n in range(3)]
        return Jet(
            self.value * by[0],
            None if self.slope is None else self.slope * by[1],
            None if self.bend is None else self.bend * by[2],
        )

    def take(self, nodes: Whole) -> Jet:
        """Return f at some nodes, which may repeat."""
        return Jet(
            self.value[nodes],
            None if self.slope is None else self.slope[nodes],
            None if self.bend is None else self.bend[nodes],
        )

    def segment_sums(self, starts: Whole) -> Jet:
        """Return sums over consecutive nodes; `starts` has the first node of each sum."""
        return Jet(
            np.add.reduceat(self.value, starts, axis=0),
            None if self.slope is None else np.add.reduceat(self.slope, starts, axis=0),
            None if self.bend is None else np.add.reduceat(self.bend, starts, axis=0),
        )

    def all_summed(self) -> Jet:
        """Return the sum over all nodes: a jet of one node."""
        return self.segment_sums(np.zeros(1, np.int64))

    def spread(self, nodes: int, places: Whole) -> Jet:
        """Return f at `places` among more nodes, 0 at all others."""
        value = np.zeros((nodes, self.value.shape[1]))
        value[places] = self.value
        return Jet(value, _spread(self.slope, nodes, places), _spread(self.bend, nodes, places))

    def where(self, mask: NDArray[np.bool_], other: Jet) -> Jet:
        """Return f where the mask (nodes, spaces) holds, elsewhere another jet."""
        return Jet(
            np.where(mask, self.value, other.value),
            _where(mask[..., None], self.slope, other.slope),
            _where(mask[..., None, None], self.bend, other.bend),
        )


def _where(mask: NDArray[np.bool_], one: Floats | None, other: Floats | None) -> Floats | None:
    return None if one is None or other is None else np.where(mask, one, other)


def _spread(part: Floats | None, nodes: int, places: Whole) -> Floats | None:
    if part is None:
        return None
    found = np.zeros((nodes, *part.shape[1:]))
    found[places] = part
    return found


def variable(values: Floats, level: int, levels: int, order: int) -> Jet:
    """Return the precisions of a level as variables of differentiation: (1, spaces).

    Parameters
    ----------
    values
        (spaces,) of that level.
    order
        How many derivatives are wanted: VALUES, SLOPES or BENDS.
    """
    slope = np.zeros((1, len(values), levels)) if order >= SLOPES else None
    if slope is not None:
        slope[..., level] = 1.0
    bend = np.zeros((1, len(values), levels, levels)) if order >= BENDS else None
    return Jet(values[None, :], slope, bend)


def constant(value: float, spaces: int, levels: int, order: int) -> Jet:
    """Return a constant, with zero derivatives: (1, spaces)."""
    return Jet(
        np.full((1, spaces), value),
        np.zeros((1, spaces, levels)) if order >= SLOPES else None,
        np.zeros((1, spaces, levels, levels)) if order >= BENDS else None,
    )
