"""All noise of a release as one event of dp-accounting, for whoever wants to price it there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dprelease.documents.metadata import Metadata
from dprelease.exports.accountants.events import accountant_events, tree_of
from dprelease.exports.export import Problem, PublishedRelease
from dprelease.privacy.event import Event

FILE = "dp-event.json"
FORMAT = "dprelease-dp-event/1"
RELATION = "ADD_OR_REMOVE_ONE"
"""The relation to account for, whatever the release's own is: an event's noise is in terms of the
whole change that the release's relation allows, and this one adds nothing to it."""


class DpEventTree:
    """The tree, and what each of its events stands for."""

    name: str = "dp-event"
    extra: str | None = None

    def problems(self, metadata: Metadata) -> Iterator[Problem]:
        """Yield nothing: what has no event is told as unsupported, which no accountant takes."""
        yield from ()

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the tree; see `Export.write`."""
        text = json.dumps(event_record(release.record), indent=2) + "\n"
        with (folder / FILE).open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        return [FILE]


def event_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of a release's noise, with what each event stands for, in their order.

    What is published without noise, outside of the guarantee, is in no event, and listed.
    """
    measurements = record["measurements"]
    several = accountant_events([Event.from_json(one) for one in measurements])
    kinds = {one.kind for one in several}
    accountant = "RdpAccountant" if "ZCDpEvent" in kinds else "PLDAccountant"
    return {
        "format": FORMAT,
        "accountant": None if "UnsupportedDpEvent" in kinds else accountant,
        "neighboring_relation": RELATION,
        "event": tree_of(several),
        "outside_the_guarantee": [one["name"] for one in record.get("invariants", ())],
        "measurements": [
            {
                "query": measurement["query"],
                "column": measurement["column"],
                "mechanism": measurement["mechanism"],
                "class_name": one.kind,
                "words": one.words,
            }
            for measurement, one in zip(measurements, several, strict=True)
        ],
    }


EXPORT = DpEventTree()
