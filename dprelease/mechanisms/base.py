"""What a mechanism is: a law on the integers, its privacy loss and its errors."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self

from dprelease.numerics.lattice import LatticeLaw
from dprelease.privacy.loss import PrivacyLoss


class Mechanism(Protocol):
    """Integer noise K, in lattice steps, added independently to every cell of a vector.

    Instances are frozen dataclasses whose fields are floats: exact dyadic rationals, so that
    the law in the manifest is the law that was sampled, to the bit. `scale` is in lattice steps
    and grows with the noise. The file name, the YAML name and `name` are the same word.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    pure: ClassVar[bool]
    """Whether the privacy loss of one cell is bounded."""
    norm: ClassVar[int]
    """1 or 2: the norm of the sensitivity that the scale follows, for sharing a budget."""
    shapes: ClassVar[tuple[str, ...]]
    """Names of the parameters beside `scale`."""
    examples: ClassVar[tuple[dict[str, float], ...]]

    scale: float

    @classmethod
    def of(cls, scale: float, **shape: float) -> Self:
        """Return the mechanism; raise BudgetError DP-MECH-* outside the admissible domain."""
        ...

    @property
    def parameters(self) -> dict[str, float]:
        """Return every field by name; `of(**parameters)` gives an equal mechanism."""
        ...

    @property
    def law(self) -> LatticeLaw:
        """Return the exact law of K."""
        ...

    def losses(self, shift: int) -> tuple[PrivacyLoss, ...]:
        """Return the loss of one cell that moves by up to `shift` >= 1 steps, in each direction
        that differs (one object for a symmetric law)."""
        ...

    @property
    def mean(self) -> float:
        """Return E K, lattice steps."""
        ...

    @property
    def mean_absolute_error(self) -> float:
        """Return E |K|, lattice steps; infinity if there is none."""
        ...

    @property
    def standard_deviation(self) -> float:
        """Return the standard deviation of K, lattice steps; infinity if there is none."""
        ...

    def half_width(self, confidence: float) -> int:
        """Return the least w with P(|K| <= w) >= confidence (never too small), lattice steps."""
        ...
