"""The immutable record of the noise in one vector: its mechanism and parameters, without a cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dprelease.privacy.unit import Move, Sensitivity


@dataclass(frozen=True, slots=True)
class Event:
    """Noise of `mechanism` with `parameters` was added once to every cell of one vector.

    Parameters are decimal texts, in steps, which read back to exactly the floats of the sampled
    distribution. A later accountant can recompute the privacy cost from this record alone.
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
            # A reader that ignores `meeting` counts more separate parts, which cost at least as
            # much.
            "slots": sensitivity.slots * sensitivity.meeting,
            "moves": [{"shift": m.shift, "cells": m.cells} for m in sensitivity.moves],
        }
        if sensitivity.meeting > 1:
            parts["meeting"] = sensitivity.meeting
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
            parameters=tuple(sorted(record["parameters"].items())),
            sensitivity=Sensitivity(
                slots=sensitivity["slots"] // meeting,
                moves=tuple(Move(m["shift"], m["cells"]) for m in sensitivity["moves"]),
                meeting=meeting,
            ),
        )
