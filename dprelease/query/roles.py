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
