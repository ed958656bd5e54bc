"""The guarantee of a release and records of its noise; other modules compute the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dprelease.numerics.rounding import plain_text
from dprelease.privacy.unit import Move, Neighbours, Sensitivity

INVARIANTS_SENTENCE = (
    "The guarantee holds between tables that differ by one replaced privacy unit, and whose "
    "invariants are equal. It does not limit what the invariants reveal about a privacy unit."
)
"""Description of a guarantee for releases with invariants."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A guarantee (epsilon, delta), with a rho for zero-concentrated releases, all rounded up.

    If `rho_delta` is above 0, the release is only approximately zero-concentrated: rho does not
    hold for events of this probability, such as the selection of a key that only one person has.
    """

    epsilon: float
    delta: Fraction
    neighbours: Neighbours
    accountant: str
    pure_epsilon: float
    rho: float | None = None
    rho_delta: float = 0.0
    invariants: tuple[str, ...] = ()
    """Names of exactly published values, which must be equal in both neighbouring tables."""

    def __repr__(self) -> str:
        rho = "" if self.rho is None else f", rho {self.rho:g}"
        rho += f" except with probability {self.rho_delta:g}" if self.rho_delta else ""
        return f"<Guarantee: epsilon {self.epsilon:g}, delta {float(self.delta):g}{rho}>"

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values; an infinite pure epsilon is null."""
        invariants_json = (
            {"invariants": [*self.invariants], "holds": INVARIANTS_SENTENCE}
            if self.invariants
            else {}
        )
        return {
            "epsilon": repr(self.epsilon),
            "delta": plain_text(self.delta),
            "neighbours": self.neighbours.value,
            "accountant": self.accountant,
            "pure_epsilon": None if math.isinf(self.pure_epsilon) else repr(self.pure_epsilon),
            "rho": None if self.rho is None else repr(self.rho),
            **({"rho_delta": repr(self.rho_delta)} if self.rho_delta else {}),
            **invariants_json,
        }


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
