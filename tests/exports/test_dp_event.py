"""Events for dp-accounting: its own classes, with at least the privacy loss of the release."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dprelease.documents.manifest import ExactRecord, Manifest
from dprelease.documents.release_manifest import NoiseRecord
from dprelease.exports import dp_event as exported
from dprelease.exports.dp_event import accountant_events, event_tree
from dprelease.exports.dp_event import dp_event as event_of
from dprelease.ledger.account import vectors_of
from dprelease.mechanisms import registry
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from tests.exports import full_release

DELTA = Fraction(1, 10**6)
ONE = Sensitivity(1, (Move(1, 1),))
SENSITIVITIES = {
    "one cell by one step": ONE,
    "two cells by three": Sensitivity(1, (Move(3, 2),)),
    "three parts": Sensitivity(3, (Move(2, 1), Move(1, 2))),
    "parts that meet": Sensitivity(2, (Move(1, 1),), meeting=2),
}
ITSELF = {
    "gaussian": "GaussianDpEvent",
    "laplace": "LaplaceDpEvent",
    "discrete_laplace": "DiscreteLaplaceDpEvent",
}
SAME_PRICE = {("gaussian", name) for name in SENSITIVITIES} | {
    (name, "one cell by one step") for name in ("laplace", "discrete_laplace")
}
"""Where the event is the law itself, and no other law of the same norms costs more."""


def events() -> dict[tuple[str, str], Event]:
    """Return an event of every mechanism at every sensitivity that it accepts."""
    found = {}
    for name in (*registry.names(), *registry.selection_names()):
        kind = registry.randomizer_class(name)
        for words, sensitivity in SENSITIVITIES.items():
            shape = kind.example_shapes[0] if name in registry.names() else {"candidates": 8}
            if not kind.admits(4.0, sensitivity, **shape):
                continue
            law = kind.design(4.0, sensitivity, **shape)
            found[name, words] = Event("q", "n", law.name, law.parameters, sensitivity)
    selection = {"scale": "1.0", "delta": "1e-07"}
    held = tuple(sorted(selection.items()))
    found["partition_selection", "keys"] = Event("q", "n", "partition_selection", held, ONE)
    return found


EVENTS = events()


def dp_accounting_epsilon(tree: dict[str, Any], delta: Fraction = DELTA) -> float | None:
    """Return the epsilon that dp-accounting finds; None if no accountant takes the event."""
    event = event_of(json.loads(json.dumps(tree)))
    relation = NeighboringRelation[exported.RELATION]
    found = [
        accountant.compose(event).get_epsilon(float(delta))
        for accountant in (PLDAccountant(relation), RdpAccountant(neighboring_relation=relation))
        if accountant.supports(event)
    ]
    return min(found) if found else None


def test_every_mechanism_has_events() -> None:
    assert {name for name, _ in EVENTS} >= set(registry.names()) | set(registry.selection_names())


@pytest.mark.parametrize(("name", "words"), list(EVENTS))
def test_no_event_has_less_loss_than_its_mechanism(name: str, words: str) -> None:
    """Exact classes have the same loss; no accountant accepts a mechanism without an event."""
    event = EVENTS[name, words]
    (one,) = accountant_events([event])
    vectors = vectors_of([event])
    found = dp_accounting_epsilon(event_tree([one]))
    if one.kind == "UnsupportedDpEvent":
        assert found is None
        assert pure_epsilon(vectors) is None
        return
    ours = epsilon_at(vectors, DELTA)
    assert one.kind == ITSELF.get(name, one.kind)
    assert found is not None
    assert found >= ours * (1 - 2e-3)
    if (name, words) in SAME_PRICE:
        assert found <= ours * (1 + 2e-3)


def test_event_classes_of_mechanisms() -> None:
    kinds = {
        name: accountant_events([event])[0].kind for (name, _), event in reversed(EVENTS.items())
    }
    assert kinds == {
        "asymmetric_laplace": "DiscreteLaplaceDpEvent",
        "discrete_gaussian": "ZCDpEvent",
        "discrete_laplace": "DiscreteLaplaceDpEvent",
        "discrete_offset_symmetric_gaussian": "ZCDpEvent",
        "exponential": "DiscreteLaplaceDpEvent",
        "gaussian": "GaussianDpEvent",
        "generalized_gaussian": "UnsupportedDpEvent",
        "laplace": "LaplaceDpEvent",
        "offset_symmetric_gaussian": "ZCDpEvent",
        "optimal": "UnsupportedDpEvent",
        "partition_selection": "UnsupportedDpEvent",
        "permute_and_flip": "DiscreteLaplaceDpEvent",
        "staircase": "DiscreteLaplaceDpEvent",
        "symmetric_alpha_stable": "DiscreteLaplaceDpEvent",
        "truncated_laplace": "UnsupportedDpEvent",
    }


def test_event_parameters_are_on_the_safe_side() -> None:
    """Exactly: at least the loss of the mechanism, and almost the nearest float."""
    for (name, _), event in EVENTS.items():
        (one,) = accountant_events([event])
        scale, s = Fraction(float(dict(event.parameters)["scale"])), event.sensitivity
        if name == "gaussian":
            assert Fraction(one.fields["noise_multiplier"]) ** 2 * s.l2_squared <= scale**2
        elif name == "laplace":
            assert Fraction(one.fields["noise_multiplier"]) * s.l1 <= scale
        elif name == "discrete_laplace":
            assert Fraction(one.fields["noise_parameter"]) * scale >= 1
            assert one.fields["sensitivity"] == s.l1


@pytest.mark.parametrize("name", list(ITSELF))
def test_event_parameters_at_many_scales_are_safe(name: str) -> None:
    """Where the last digit of a root or a quotient is rounded up or down."""
    for step in range(1, 300):
        scale = step * 0.37
        event = Event("q", "n", name, (("scale", repr(scale)),), Sensitivity(3, (Move(5, 2),)))
        ((_, first), *_) = accountant_events([event])[0].fields.items()
        exact = Fraction(scale)
        if name == "gaussian":
            assert 0 <= exact**2 - Fraction(first) ** 2 * 150 < exact**2 / 2**49
        elif name == "laplace":
            assert 0 <= exact - Fraction(first) * 30 < exact / 2**50
        else:
            assert 0 <= Fraction(first) * exact - 1 < Fraction(1, 2**50)


def test_event_tree_equals_that_of_dp_accounting() -> None:
    """As from `to_named_tuple`, so that its reader gives equal events."""
    several = accountant_events([event for (name, _), event in EVENTS.items() if name in ITSELF])
    event = event_of(event_tree(several))
    classes = [getattr(dp_event, one.kind)(**one.fields) for one in several]
    assert event == dp_event.ComposedDpEvent(classes)
    named = event.to_named_tuple()
    assert as_json(named) == event_tree(several)


def as_json(named: Any) -> Any:
    if isinstance(named, list):
        return [as_json(one) for one in named]
    if hasattr(named, "_asdict"):
        return {name: as_json(value) for name, value in named._asdict().items()}
    return named


def test_event_tree_loads_no_other_module() -> None:
    with pytest.raises(ValueError, match="dp-accounting alone"):
        event_of({"module_name": "subprocess", "class_name": "Popen", "args": "true"})


def test_mixed_events_fit_one_accountant() -> None:
    both = [
        EVENTS[name, "one cell by one step"] for name in ("discrete_laplace", "discrete_gaussian")
    ]
    assert [one.kind for one in accountant_events(both)] == ["ZCDpEvent", "ZCDpEvent"]
    found = dp_accounting_epsilon(event_tree(accountant_events(both)))
    assert found is not None
    assert found >= epsilon_at(vectors_of(both), DELTA) * (1 - 2e-3)


def test_dp_accounting_composes_a_release(tmp_path: Path) -> None:
    release = full_release.publish_release(tmp_path)
    (name,) = exported.EXPORT.write(release, tmp_path)
    record = json.loads((tmp_path / name).read_text())
    assert record["accountant"] == "RdpAccountant"
    assert [(m["query"], m["column"], m["mechanism"]) for m in record["measurements"]] == [
        (m["query"], m["column"], m["mechanism"]) for m in release.record.to_json()["measurements"]
    ]
    kinds = [m["class_name"] for m in record["measurements"]]
    assert [one["class_name"] for one in record["event"]["events"]] == kinds
    delta = Fraction(release.record.to_json()["guarantee"]["delta"])
    every = [Event.from_json(m) for m in release.record.to_json()["measurements"]]
    apart = [event for event in every if event.sensitivity.meeting == 1]
    assert 4 < len(apart) < len(every)
    found, of_these = (
        dp_accounting_epsilon(record["event"], delta),
        dp_accounting_epsilon(event_tree(accountant_events(apart)), delta),
    )
    assert found is not None
    assert of_these is not None
    # Of parts that meet a rho is all that is known, and then our price of the whole may be higher.
    assert found >= of_these >= epsilon_at(vectors_of(apart), delta) * (1 - 2e-3)
    assert found <= float(release.record.to_json()["guarantee"]["epsilon"]) * 1.2


def manifest_of(event: Event, *invariants: ExactRecord) -> Manifest:
    measured = NoiseRecord(**event.to_json(), step="1", unit="rows", chosen_by="declared")
    return Manifest.model_construct(measurements=[measured], invariants=list(invariants))


def test_mechanisms_without_an_event_are_reported(tmp_path: Path) -> None:
    event = EVENTS["truncated_laplace", "one cell by one step"]
    record = exported.event_record(manifest_of(event))
    assert record["accountant"] is None
    assert record["measurements"][0]["words"].startswith("dp-accounting has no class")
    assert dp_accounting_epsilon(record["event"]) is None


def test_values_without_noise_are_listed_with_events() -> None:
    event = EVENTS["gaussian", "one cell by one step"]
    invariant = ExactRecord(query="q", column="n", exact="declared", name="q.n", cells=1, step="1")
    record = exported.event_record(manifest_of(event, invariant))
    assert record["outside_the_guarantee"] == ["q.n"]
    assert exported.event_record(manifest_of(event))["outside_the_guarantee"] == []
