"""What a release file may declare beside a mechanism's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One parameter of a mechanism's shape, as a release file writes it.

    `choices`: the words it may be, for a parameter that is no number. `in_units`: a length in the
    column's own unit, which the plan turns into lattice steps.
    """

    name: str
    meaning: str
    admissible: str
    choices: tuple[str, ...] = ()
    in_units: bool = False


DEBIAS = Shape(
    "debias",
    "whether the mean of the noise, to the nearest step, is taken away (the default)",
    "true or false",
    choices=("true", "false"),
)
