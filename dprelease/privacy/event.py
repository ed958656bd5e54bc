"""Records of the mechanism and parameters of one noisy vector, without a privacy cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dprelease.privacy.unit import Move, Sensitivity


@dataclass(frozen=True, slots=True)
class Event:
    """A record that `mechanism`, with `parameters`, was used once for every cell of one vector.

    Parameters are decimal texts, in steps, and parsing them yields exactly the floats of the
    sampled distribution. A later accountant can recompute the privacy cost from this record alone.
    """

    query: str
    column: str
    mechanism: str
    parameters: tuple[tuple[str, str], ...]
    sensitivity: Sensitivity

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values; `from_json` restores an equal event."""
        sensitivity = self.sensitivity
        parts: dict[str, Any] = {
            # A program that ignores `meeting` counts more separate parts, which do not cost less.
            "slots": sensitivity.slots * sensitivity.meeting,
            "moves": [{"shift": m.shift, "cells": m.cells} for m in sensitivity.moves],
        }
        # Written only where it says something, so that records without it do not change.
        if sensitivity.meeting > 1:
            parts["meeting"] = sensitivity.meeting
        if sensitivity.of_all_rows:
            parts["of_all_rows"] = True
        return {
            "query": self.query,
            "column": self.column,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "sensitivity": parts,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the event that `to_json` wrote."""
        sensitivity = record["sensitivity"]
        meeting = sensitivity.get("meeting", 1)
        return cls(
            query=record["query"],
            column=record["column"],
            mechanism=record["mechanism"],
            # Sorted as mechanisms sort them, because equal events must have equal tuples.
            parameters=tuple(sorted(record["parameters"].items())),
            sensitivity=Sensitivity(
                slots=sensitivity["slots"] // meeting,
                moves=tuple(Move(m["shift"], m["cells"]) for m in sensitivity["moves"]),
                meeting=meeting,
                of_all_rows=sensitivity.get("of_all_rows", False),
            ),
        )
