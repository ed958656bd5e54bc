"""The numbers of units by which keys that are not public are selected."""

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
    """Which keys are selected; the score of a key is the number of units that have it."""

    is_vector: ClassVar[bool] = False
    selects_keys: ClassVar[bool] = True
    error_unit: ClassVar[str] = UNITS

    column: None = None

    def sensitivity(self, unit: PrivacyUnit, neighbours: Neighbours, cells: int) -> Sensitivity:
        """Return one unit for each of the unit's groups; within a group nothing changes."""
        return Sensitivity.of(
            per_group=1, within_group=1, unit=unit, neighbours=neighbours, cells=cells
        )

    @property
    def words(self) -> str:
        """Return which keys are selected."""
        return "keys that enough units have"

    def unit(self, columns: Mapping[str, Column]) -> str:
        """Return units, which are counted."""
        return UNITS
