"""What a published column is: a key, a value that is read, or what stands beside one."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a published column is."""

    KEY = "key"
    VALUE = "value"
    MARGIN = "margin"
    LOWER = "lower"
    UPPER = "upper"
    STANDARD_ERROR = "standard_error"
    FLAG = "flag"
    LABEL = "label"
    MEASUREMENT = "measurement"
