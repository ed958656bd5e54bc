"""Privacy loss of one noisy cell that moves by a whole number of lattice steps."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RELATIVE_ERROR = 2.0**-40
"""Bound on the relative error of every mass that `PrivacyLoss.masses` returns."""


class PrivacyLoss(Protocol):
    """The loss `ln P(o)/Q(o)` of an output o, with P and Q the laws of one cell on two neighbours.

    One object covers both directions: (P, Q) is the direction whose curve is the larger one; a
    law whose two directions differ returns two objects from `Mechanism.losses`.
    """

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up; infinity if it has no bound."""
        ...

    def delta(self, epsilon: float) -> float:
        """Return sup over events E of P(E) - exp(epsilon) Q(E), rounded up, for any real epsilon."""
        ...

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the P mass and the Q mass of each interval of losses.

        `edges` (n,) ascending. Result: two arrays (n + 1,): losses in (-inf, e0], (e0, e1], ...,
        (e_{n-1}, inf). Each mass has a relative error of at most `RELATIVE_ERROR`. Every P mass
        where Q is zero is left out of the arrays: it is `1 - sum`, the mass of infinite loss.
        """
        ...
