"""The role of a published column: a key, a value, or an addition to a value."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The role of a published column."""

    KEY = "key"
    VALUE = "value"
    MARGIN = "margin"
    LOWER = "lower"
    UPPER = "upper"
    STANDARD_ERROR = "standard_error"
    FLAG = "flag"
    LABEL = "label"
    QUALITY = "quality"
    MEASUREMENT = "measurement"


WITH_COMPANIONS = ("", "_moe", "_lower", "_upper", "_label", "_unreliable", "_quality")
"""The endings of the names of a published column and of its companion columns."""
