"""Set the status and the confidentiality of an observation.

Codes and meanings come from the cross-domain lists CL_OBS_STATUS 2.2 and CL_CONF_STATUS 1.3 of
SDMX; only the codes that a release needs are defined.
"""

from __future__ import annotations

from typing import Final

NORMAL, UNRELIABLE, SUPPRESSED, MISSING = "A", "U", "Q", "O"
FREE, WITHHELD = "F", "N"

OBS_STATUS: Final = {
    NORMAL: ("Normal value", "The noised value, as the release declares it."),
    UNRELIABLE: (
        "Low reliability",
        "The margin of error is larger than the part of the value that the release declares.",
    ),
    SUPPRESSED: (
        "Missing value; suppressed",
        "Left empty because the noised value is below the declared threshold, or not defined; "
        "the true value decides nothing.",
    ),
    MISSING: (
        "Missing value",
        "Not defined, such as a mean if the noised count is below 1.",
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


def status_of(value: str | None, unreliable: bool, may_be_empty: bool) -> tuple[str, str]:
    """Return the observation status and the confidentiality status of an observation.

    `value`: the value as it is written; None if the cell is empty. `may_be_empty`: whether the
    release declares that small values of the column are suppressed.
    """
    if value is None:
        return (SUPPRESSED, WITHHELD) if may_be_empty else (MISSING, FREE)
    return (UNRELIABLE if unreliable else NORMAL), FREE
