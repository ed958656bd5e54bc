"""Shape parameters that a release file may declare for a mechanism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShapeParameter:
    """One shape parameter of a mechanism, as written in a release file.

    `choices` are the allowed texts of a parameter that is not a number. `in_units` is whether the
    parameter is a length in the unit of the column, which the plan converts to steps.
    """

    name: str
    meaning: str
    admissible: str
    choices: tuple[str, ...] = ()
    in_units: bool = False


DEBIAS = ShapeParameter(
    "debias",
    "whether the mean of the noise, to the nearest step, is taken away (the default)",
    "true or false",
    choices=("true", "false"),
)
