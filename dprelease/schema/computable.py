"""Columns that are computed from others of the same row."""

from __future__ import annotations

from dprelease.schema.field_types import Text
from dprelease.schema.said import Told


class Computable(Told):
    """A column that a source stores, or, with an `expression`, one computed from other columns."""

    expression: Text | None = None
