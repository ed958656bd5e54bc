"""Describe all noise of a release as one dp-accounting event, for use with its accountants.

Each noisy vector becomes an event; their composition is written as a JSON tree.

Where dp-accounting has a class for the noise mechanism, the event is that mechanism. Where it has
none, the event costs at least as much, so that no accountant finds too little:

- A pure mechanism of epsilon: randomized response between two answers, of which every such
  mechanism is a post-processing (Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4, proof of
  Theorem 3.4). As an event it is discrete Laplace noise of parameter epsilon on one step, whose
  loss is epsilon or -epsilon at every output, with the same probabilities.
  (`RandomizedResponseDpEvent` differs from noise here: for a removed record its answer is drawn
  uniformly, which costs less.)
- A mechanism with a zero-concentrated guarantee: `ZCDpEvent` with its rho, rounded up.
- All others: `UnsupportedDpEvent`, which every accountant refuses.

Parameters are rounded to the safe side: never to more noise than was drawn.
"""

from __future__ import annotations

import importlib
import json
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.manifest import CentralManifest
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.exports.export import Export, PublishedRelease
from dprelease.ledger.account import vectors_of
from dprelease.numerics.rounding import round_down, round_up
from dprelease.privacy.accounting import pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import rho_of

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


MODULE = "dp_accounting.dp_event"
DISCRETE_LAPLACE, CONCENTRATED = "DiscreteLaplaceDpEvent", "ZCDpEvent"


@dataclass(frozen=True, slots=True)
class EventClass:
    """The event of one noisy vector: its class, its fields, and how it relates to the mechanism."""

    kind: str
    fields: Mapping[str, float]
    words: str


def accountant_events(events: Sequence[Event]) -> list[EventClass]:
    """Return the dp-accounting event of each noisy vector of a release.

    The accountant for privacy loss distributions takes no `ZCDpEvent`; the accountant for Rényi
    divergences takes no discrete Laplace noise. If a release has both, its discrete Laplace noise
    is described by its rho, so that one accountant takes the whole release.
    """
    found = [_accountant_event(event) for event in events]
    if not any(one.kind == CONCENTRATED for one in found):
        return found
    return [
        _zcdp_event(vectors_of([event])[0]) if one.kind == DISCRETE_LAPLACE else one
        for event, one in zip(events, found, strict=True)
    ]


def _accountant_event(event: Event) -> EventClass:
    """Return the dp-accounting event of one noisy vector."""
    sensitivity = event.sensitivity
    scale = Fraction(
        float(dict(event.parameters)["scale"])
    )  # exactly the float that the sampler used
    if event.mechanism == "gaussian":
        multiplier = _square_root_rounded_down(scale**2 / sensitivity.l2_squared)
        words = "The law itself, then rounded to the lattice."
        return EventClass("GaussianDpEvent", {"noise_multiplier": multiplier}, words)
    if event.mechanism == "laplace":
        multiplier = round_down(scale / sensitivity.l1)
        words = "The law itself, then rounded to the lattice."
        return EventClass("LaplaceDpEvent", {"noise_multiplier": multiplier}, words)
    if event.mechanism == "discrete_laplace":
        held = {
            "noise_parameter": round_up(1 / scale),
            "sensitivity": sensitivity.l1,
        }
        return EventClass(DISCRETE_LAPLACE, held, "The law itself.")
    return _upper_bound_event(vectors_of([event])[0])


def _square_root_rounded_down(square: Fraction) -> float:
    """Return a float whose square is at most `square`; it is nearly the largest such float."""
    root = math.sqrt(round_down(square))
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    return root


def _upper_bound_event(vector: PricedVector) -> EventClass:
    """Return an event that costs at least as much as the noise of a vector."""
    pure = pure_epsilon([vector])
    if pure is not None:
        epsilon = round_up(pure)
        words = f"Randomized response of epsilon {epsilon!r}, the dearest of all such laws."
        return EventClass(DISCRETE_LAPLACE, {"noise_parameter": epsilon, "sensitivity": 1}, words)
    if math.isfinite(rho_of([vector])):
        return _zcdp_event(vector)
    return EventClass("UnsupportedDpEvent", {}, "dp-accounting has no class for such a law.")


def _zcdp_event(vector: PricedVector) -> EventClass:
    """Return the event of a zero-concentrated guarantee."""
    words = "The zero-concentrated guarantee of the law, rounded up."
    return EventClass(CONCENTRATED, {"rho": rho_of([vector]), "xi": 0.0}, words)


def event_tree(events_of_release: Sequence[EventClass]) -> dict[str, Any]:
    """Return the composition of all events as JSON values.

    The fields are those of dp-accounting's `to_named_tuple`: the names of module and class, and the
    attributes of the class.
    """
    return _tree_node(
        "ComposedDpEvent",
        {"events": [_tree_node(one.kind, one.fields) for one in events_of_release]},
    )


def _tree_node(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return one event as JSON values."""
    return {"module_name": MODULE, "class_name": kind, **fields}


def dp_event(tree: Mapping[str, Any]) -> DpEvent:
    """Return the dp-accounting event of a tree from `event_tree`; the tree may come from a file.

    Raises ValueError for a tree with a class of another module.
    """
    event: DpEvent = _dp_accounting_events().DpEvent.from_named_tuple(_named_tuple(tree))
    return event


def _named_tuple(tree: Any) -> Any:
    """Return a tree as the named tuples from which dp-accounting builds its events."""
    if isinstance(tree, Mapping):
        # dp-accounting imports the module that a tree names, so a file could run any code.
        if tree.get("module_name") != MODULE:
            raise ValueError("a tree has events of dp-accounting alone")
        values = {name: _named_tuple(value) for name, value in tree.items()}
        return namedtuple("Event", list(values))(**values)
    if isinstance(tree, list):
        return [_named_tuple(value) for value in tree]
    return tree


def _dp_accounting_events() -> Any:
    return importlib.import_module(MODULE)


FILE = "dp-event.json"
FORMAT = "dprelease-dp-event/1"
RELATION = "ADD_OR_REMOVE_ONE"
"""The neighbouring relation for the accountant, whatever the release's own relation is.

The noise of an event already accounts for the whole change under the release's relation.
"""


class DpEventTree(Export):
    """The format with the tree of events, and with the vector that each event stands for."""

    name = "dp-event"

    def write(self, release: PublishedRelease, folder: Path) -> list[str]:
        """Write the tree of events, and return the name of its file."""
        text = json.dumps(event_record(release.record), indent=2) + "\n"
        with (folder / FILE).open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        return [FILE]


def event_record(record: ReleaseManifest) -> dict[str, Any]:
    """Return the tree of a release's noise and, in the same order, what each event stands for.

    Values that are published without noise, outside the guarantee, have no event; they are listed.
    """
    measurements = record.noise_of_all
    events_of_release = accountant_events([one.event for one in measurements])
    exact = record.invariants if isinstance(record, CentralManifest) else []
    kinds = {one.kind for one in events_of_release}
    accountant = "RdpAccountant" if "ZCDpEvent" in kinds else "PLDAccountant"
    return {
        "format": FORMAT,
        "accountant": None if "UnsupportedDpEvent" in kinds else accountant,
        "neighboring_relation": RELATION,
        "event": event_tree(events_of_release),
        "outside_the_guarantee": [one.name for one in exact],
        "measurements": [
            {
                "query": measurement.query,
                "column": measurement.column,
                "mechanism": measurement.mechanism,
                "class_name": one.kind,
                "words": one.words,
            }
            for measurement, one in zip(measurements, events_of_release, strict=True)
        ],
    }


EXPORT = DpEventTree()
