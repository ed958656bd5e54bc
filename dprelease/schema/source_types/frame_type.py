"""Data frames and Arrow tables, which a program passes in place of a declared path."""

from __future__ import annotations

from dprelease.schema.source_types.equality import BY_CHARACTERS
from dprelease.schema.source_types.source_type import SourceType


class Frame(SourceType):
    """A frame."""

    name = "frame"
    label = "a frame"
    comparisons = BY_CHARACTERS


SOURCE_TYPE = Frame()
