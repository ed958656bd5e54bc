"""What a manifest of single records declares and records, as a report needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.local_plan import LocalColumn
from dprelease.planning.plan import PlannedColumn
from dprelease.privacy.event import Event
from dprelease.query.local_records import Records, resolve_records
from dprelease.query.resolve import Query
from dprelease.report.facts import Facts


@dataclass(frozen=True)
class RecordFacts(Facts):
    """A verified manifest of single records: every record is a unit, and has noise of its own."""

    @cached_property
    def parts(self) -> tuple[Records, ...]:
        """Return what was asked for: columns of records, table by table."""
        return resolve_records(self.declaration)

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Return the records as queries whose measurements are their columns, by name."""
        return {part.name: part.query for part in self.parts}

    @cached_property
    def laws(self) -> Mapping[tuple[str, str], Mechanism]:
        """Return the noise of each column."""
        return {
            name: registry.record_law_of(Event.from_json(held))
            for name, held in self.measurement_records.items()
        }

    @property
    def units(self) -> list[dict[str, Any]]:
        """Return the protected units: each record by itself, which counts as a whole."""
        tables = dict.fromkeys(part.declared.table.name for part in self.parts)
        return [{"table": table, "id": None, "words": ""} for table in tables]

    def planned_columns(self) -> Iterator[PlannedColumn]:
        """Yield every column with its noise."""
        for part in self.parts:
            for column in part.columns:
                name = part.name, column.name
                chosen = self.measurement_records[name]["chosen_by"]
                yield LocalColumn(part.query, column.measurement, self.laws[name], chosen, column)
