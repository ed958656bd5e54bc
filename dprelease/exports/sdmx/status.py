"""Set the status and the confidentiality of an observation.

Codes and meanings come from the cross-domain lists CL_OBS_STATUS 2.2 and CL_CONF_STATUS 1.3 of
SDMX; only the codes that a release needs are defined.
"""

from __future__ import annotations

from typing import Final

from dprelease.query import quality

NORMAL, UNRELIABLE, SUPPRESSED, MISSING = "A", "U", "Q", "O"
FREE, WITHHELD = "F", "N"

OBS_STATUS: Final = {
    NORMAL: ("Normal value", "The noised value, as the release declares it."),
    UNRELIABLE: (
        "Low reliability",
        "The quality is D or at_bound: the value should not be quoted.",
    ),
    SUPPRESSED: (
        "Missing value; suppressed",
        "Left empty by a rule that the release declares, or not defined; the true value decides "
        "nothing.",
    ),
    MISSING: (
        "Missing value",
        "Not defined, such as a mean whose noised count is not clearly above 0.",
    ),
}
"""Name and meaning of each observation status."""

CONF_STATUS: Final = {
    FREE: ("Free (free for publication)", "Published."),
    WITHHELD: (
        "Not for publication, restricted for internal use only",
        "Withheld by the rule that the release declares; no other table may tell it.",
    ),
}
"""Name and meaning of each confidentiality status."""


BY_QUALITY: Final = {
    **dict.fromkeys(quality.RELIABLE, (NORMAL, FREE)),
    **dict.fromkeys(quality.TO_AVOID, (UNRELIABLE, FREE)),
    quality.UNSURE_DIVISOR: (MISSING, FREE),
    quality.SUPPRESSED: (SUPPRESSED, FREE),
    quality.FEW_PEOPLE: (SUPPRESSED, WITHHELD),
    quality.UNDEFINED: (MISSING, FREE),
}
"""Observation status and confidentiality status of every quality code."""


def status_of(value: str | None, code: str | None, may_be_empty: bool) -> tuple[str, str]:
    """Return the observation status and the confidentiality status of an observation.

    `value`: the value as it is written; None if the cell is empty. `code`: its quality; None if the
    release publishes none. `may_be_empty`: whether the release declares that small values of the
    column are suppressed.
    """
    if code is not None:
        return BY_QUALITY[code]
    if value is None:
        return (SUPPRESSED, WITHHELD) if may_be_empty else (MISSING, FREE)
    return NORMAL, FREE
