"""Declared post-processing of noised values, in the column's unit, without privacy cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from dprelease.numerics.rounding import plain_text

LEFT_EMPTY = "are left empty"


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """The steps of post-processing, in the order of the fields; None skips a step.

    Noised values below `suppress_below` become null, and so do values of cells in which the noised
    number of people is below `suppress_people`, or whose margin of error exceeds the fraction
    `suppress_above` of the published value. With `non_negative`, negative values become 0.
    Every value is rounded to the nearest multiple of `round_to`, halves away from zero. Values
    below `bottom_code` or above `top_code` are replaced by these numbers, and `labels` marks them.
    """

    suppress_below: Fraction | None = None
    non_negative: bool = False
    round_to: Fraction | None = None
    bottom_code: Fraction | None = None
    top_code: Fraction | None = None
    labels: bool = False
    suppress_people: Fraction | None = None
    suppress_above: Fraction | None = None

    @property
    def changes_values(self) -> bool:
        """Return whether published values may differ from the noised ones."""
        codes = self.bottom_code is not None or self.top_code is not None
        return self.non_negative or codes or self.round_to is not None

    @property
    def leaves_small_empty(self) -> bool:
        """Whether cells with small values or few people are left empty."""
        return self.suppress_below is not None or self.suppress_people is not None

    @property
    def leaves_cells_empty(self) -> bool:
        """Whether any rule leaves cells empty."""
        return self.leaves_small_empty or self.suppress_above is not None

    def descriptions(self, unit: str) -> Iterator[str]:
        """Yield descriptions of the steps, for the manifest."""
        if self.suppress_below is not None:
            yield (
                f"Noised values below {_amount_text(self.suppress_below, unit)} {LEFT_EMPTY}; only "
                "the value with noise decides."
            )
        if self.non_negative:
            yield "Noised values below 0 are published as 0: averages of small cells are too high."
        if self.round_to is not None:
            yield f"Noised values are rounded to multiples of {_amount_text(self.round_to, unit)}."
        if self.bottom_code is not None:
            limit = _amount_text(self.bottom_code, unit)
            yield f"Noised values below {limit} are published as that number."
        if self.top_code is not None:
            limit = _amount_text(self.top_code, unit)
            yield f"Noised values above {limit} are published as that number."
        if self.suppress_people is not None:
            yield (
                f"Cells in which the noised number of people is below "
                f"{plain_text(self.suppress_people)} {LEFT_EMPTY}."
            )
        if self.suppress_above is not None:
            yield (
                "Cells whose margin of error is above "
                f"{plain_text(100 * self.suppress_above)} % of the value {LEFT_EMPTY}."
            )


def suppresses_cells(descriptions: Iterable[str]) -> bool:
    """Return whether the descriptions of a column in a manifest name the suppression step."""
    return any(LEFT_EMPTY in description for description in descriptions)


def _amount_text(number: Fraction, unit: str) -> str:
    """Return a number with its unit, if there is one."""
    return f"{plain_text(number)} {unit}".strip()


NO_POST_PROCESSING = PostProcessing()
