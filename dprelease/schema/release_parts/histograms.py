"""Histograms of a query: intervals of a number as an additional key."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from dprelease.schema.columns import CutColumn, CutLabels
from dprelease.schema.field_types import Exact, Text
from dprelease.schema.localized_text import Documented


class HistogramSpec(Documented):
    """Bands of one column as an additional key, after the keys of `group_by`.

    `name`: the name of the key instead of `<column>_band`.
    """

    column: Text
    edges: tuple[Exact, ...]
    closed: Literal["left", "right"] = "left"
    labels: CutLabels = None
    name: Text | None = None

    @property
    def key(self) -> str:
        """The name of the key."""
        return self.name or f"{self.column}_band"

    @property
    def cut(self) -> CutColumn:
        """The intervals as a cut column."""
        documentation = {name: getattr(self, name) for name in Documented.model_fields}
        edges = {"edges": self.edges, "closed": self.closed, "labels": self.labels}
        return CutColumn.model_validate({"cut": self.column, **edges, **documentation})

    @model_validator(mode="after")
    def _refuse_invalid_edges(self) -> Self:
        """Refuse edges that are not valid for a cut column."""
        _ = self.cut  # the validators of the cut check the edges
        return self
