"""What a manifest of one party's messages declares and records, as a report needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dprelease.mechanisms import registry
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning.federated_plan import (
    ShareColumn,
    Trust,
    resolve_federated,
    trusts_of,
)
from dprelease.planning.guarantees import reading
from dprelease.planning.plan import PlannedColumn
from dprelease.privacy.event import Event
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.report.facts import Facts


@dataclass(frozen=True)
class PartyFacts(Facts):
    """A verified manifest of messages: what holds of the sum, if enough parties are honest."""

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Return every table that was asked for, by name."""
        return {query.name: query for query in resolve_federated(self.declaration)}

    @cached_property
    def shares(self) -> tuple[ShareColumn, ...]:
        """Return each column of messages with the noise that one party adds."""
        found = []
        for (query, name), held in self.measurement_records.items():
            law = registry.law_of(Event.from_json(held))
            asked = self.queries[query]
            measurement = next(one for one in asked.measurements if one.name == name)
            if not isinstance(law, SymmetricAlphaStable):
                raise TypeError("shares of noise are stable")
            found.append(ShareColumn(asked, measurement, law, held["refined"], held["chosen_by"]))
        return tuple(found)

    @cached_property
    def assumed_trust(self) -> Trust:
        """Return what holds with as many honest parties as the release counts on."""
        spec = self.declaration.spec.federated
        if spec is None:
            raise TypeError("the release declares no parties")
        trusts = trusts_of(self.shares, spec, self.declaration.spec.budget)
        return next(trust for trust in trusts if trust.honest == spec.least)

    @cached_property
    def as_label(self) -> dict[str, Any]:
        """Return what a label is made of, which a manifest of messages tells by trust alone."""
        guarantee = self.assumed_trust.guarantee
        told = {**guarantee.to_json(), "neighbours": guarantee.neighbours.value}
        return {**self.record, "guarantee": told, "reading": reading(guarantee), "ledger": None}

    @property
    def protects_values_alone(self) -> bool:
        """Return whether it is known who is in the data, and how many there are."""
        return self.assumed_trust.guarantee.neighbours is Neighbours.REPLACE

    def planned_columns(self) -> Iterator[PlannedColumn]:
        """Yield every column with the noise that one party adds to it."""
        for share in self.shares:
            yield PlannedColumn(share.query, share.measurement, share.law, share.chosen_by)
