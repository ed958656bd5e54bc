"""What is done to noised values, and says nothing new about anyone: declared, in lattice steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """In this order: small cells are left empty, negative ones become 0, all are rounded.

    `suppress_below`: noised values below it, in steps, become null; None keeps all.
    `round_to`: a number of steps, of which every value becomes the nearest multiple, halves away
    from zero; 1 changes nothing.
    """

    suppress_below: int | None = None
    non_negative: bool = False
    round_to: int = 1

    def words(self, unit: str, step: str) -> Iterator[str]:
        """Yield what is done, for the manifest."""
        if self.suppress_below is not None:
            yield (
                f"Noised values below {self.suppress_below} steps of {step} {unit} are left empty; "
                "the true value decides nothing."
            )
        if self.non_negative:
            yield "Noised values below 0 are published as 0: averages of small cells lie too high."
        if self.round_to > 1:
            yield f"Noised values are rounded to {self.round_to} steps of {step} {unit}."


NOTHING = PostProcessing()
