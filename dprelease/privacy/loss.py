"""Privacy loss of one noisy cell that moves by a whole number of lattice steps."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RELATIVE_ERROR = 2.0**-30
"""Bound on the relative error of every mass that `PrivacyLoss.masses` returns."""

SLACK = 1.0 + 2.0**-38
"""Factor that turns a float delta, whose error is below 2**-39 of it, into an upper bound."""


class PrivacyLoss(Protocol):
    """The loss `ln P(o)/Q(o)` of an output o, with P and Q the laws of one cell on two neighbours.

    P is the law without the shift, Q the law moved by `shift` steps. For a symmetric law both
    directions of the shift, and both orders of P and Q, have the same curve.
    """

    @property
    def pure_epsilon(self) -> float:
        """Return the largest loss, rounded up; infinity if it has no bound."""
        ...

    @property
    def normal_mu(self) -> float | None:
        """Return mu if the loss is exactly normal, N(mu^2/2, mu^2) under P; else None."""
        ...

    @property
    def span(self) -> float:
        """Return a loss beyond which, on either side, P has a mass below 1e-40."""
        ...

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of sup over events E of P(E) - exp(epsilon) Q(E)."""
        ...

    def masses(self, edges: Floats) -> tuple[Floats, Floats]:
        """Return the P mass and the Q mass of each interval of losses.

        `edges` (n,) ascending. Result: two arrays (n + 1,): losses in (-inf, e0], (e0, e1], ...,
        (e_{n-1}, inf), each with a relative error of at most `RELATIVE_ERROR`.
        """
        ...
