"""Numbers of privacy units, by which private keys are selected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dprelease.privacy.unit import Neighbours, PrivacyUnit, Sensitivity
from dprelease.query.aggregates.aggregate import Aggregate
from dprelease.schema.columns import Column

UNITS = "units"


@dataclass(frozen=True, slots=True)
class Partitions(Aggregate):
    """Selection of keys; the score of a key is its number of privacy units."""

    is_vector: ClassVar[bool] = False
    selects_keys: ClassVar[bool] = True
    error_unit: ClassVar[str] = UNITS

    column: None = None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return the sensitivity: a privacy unit counts once in each of its groups."""
        return Sensitivity.of(
            per_group=1, within_group=1, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def description(self) -> str:
        """Return the description of the selected keys."""
        return "keys that enough privacy units have"

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return the name of the counted privacy units."""
        return UNITS
