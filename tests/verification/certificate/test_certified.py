"""Honest claims of every mechanism and privacy unit are proved; claims that are too low are refused."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.cli.texts.check_text import certificate_text
from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.calibration import make_accounting_input
from dprelease.planning.guarantees import guarantee_of
from dprelease.privacy.guarantee import Event
from dprelease.privacy.unit import Move, Sensitivity
from dprelease.schema.release import BudgetSpec
from dprelease.verification.certificate import composed_losses
from dprelease.verification.certificate import proven_losses as proven
from dprelease.verification.certificate.certify import certify, claims_of
from dprelease.verification.certificate.proven_losses import KNOWN
from dprelease.verification.certificate.verdicts import Certificate, Claim, Verdict
from dprelease.verification.verify import verify
from tests.covering import thinned
from tests.mechanisms.laws import KINDS, exists, law_of
from tests.verification.forging import publish, read, seal

BUDGETS = {
    "pure": BudgetSpec(epsilon=Fraction(100)),
    "approximate": BudgetSpec(epsilon=Fraction(100), delta=Fraction(1, 10**4)),
    "rho": BudgetSpec(rho=Fraction(100), delta=Fraction(1, 10**6)),
}
UNITS = {
    "one cell": Sensitivity(1, (Move(1, 1),)),
    "few cells": Sensitivity(3, (Move(4, 1),)),
    "replaced": Sensitivity(2, (Move(5, 1), Move(3, 2))),
    "many cells": Sensitivity(40, (Move(7, 1),)),
    "meeting": Sensitivity(3, (Move(4, 1),), 2),
}
SCALES = (7.0, 20.0, 300.0)
Claimed = tuple[list[Event], dict[str, Any]]


def recorded(guarantee: dict[str, Any]) -> GuaranteeRecord:
    return GuaranteeRecord.model_construct(**guarantee)


def events_and_claim(laws: Sequence[Mechanism], unit: Sensitivity, budget: str) -> Claimed | None:
    """Return events with what the planner says of them; None where it says nothing."""
    vectors = [make_accounting_input(law, unit) for law in laws]
    guarantee = guarantee_of(vectors, BUDGETS[budget])
    prices = (guarantee.epsilon, guarantee.rho or 0.0)
    if not all(math.isfinite(price) and price < 60 for price in prices):
        return None
    events = [Event("q", f"c{i}", law.name, law.parameters, unit) for i, law in enumerate(laws)]
    return events, guarantee.to_json()


def proof(found: Claimed) -> Certificate:
    events, guarantee = found
    return certify(events, claims_of(recorded(guarantee)))


def of_kind(name: str, shape: int, unit: str, budget: str, scale: float) -> Claimed | None:
    shift = max(move.shift for move in UNITS[unit].moves) * UNITS[unit].meeting
    if not exists(name, scale, shape, shift):
        return None
    return events_and_claim([law_of(name, scale, shape, shift)], UNITS[unit], budget)


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    ("kind", "unit", "budget", "scale"), thinned(KINDS, [*UNITS], [*BUDGETS], SCALES)
)
def test_honest_claims_are_proved(
    kind: tuple[str, int], unit: str, budget: str, scale: float
) -> None:
    found = of_kind(*kind, unit, budget, scale)
    if found is None:  # such noise has no such price
        return
    for certified in proof(found).claims:
        assert certified.verdict is Verdict.PROVED, certified


@pytest.mark.share(0.25)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("name", "shape"), KINDS)
def test_claims_one_percent_too_low_are_refused(name: str, shape: int, budget: str) -> None:
    """Also claims for noise that is one percent smaller than the recorded noise."""
    found = of_kind(name, shape, "few cells", budget, 20.0)
    if found is None:
        return
    events, guarantee = found
    for certified in proof(found).claims:
        assert certified.at_most is not None
        least = Fraction(certified.at_most)
        low = replace(certified.claim, claimed=least * Fraction(99, 100))
        (again,) = certify(events, [low]).claims
        assert again.verdict is Verdict.REFUSED, again
    if not guarantee["pure_epsilon"] and guarantee["rho"] is None:
        less = replace(low, claimed=least, delta=low.delta * Fraction(8, 10))
        (again,) = certify(events, [less]).claims
        assert again.verdict in (Verdict.REFUSED, Verdict.OPEN), again


def test_claims_of_rho_stay_open_if_no_grid_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid that is too short shows nothing, so the claim is not called wrong."""
    found = of_kind("staircase", 1, "few cells", "rho", 20.0)
    assert found is not None
    (honest,) = [one for one in proof(found).claims if one.claim.counted == "rho"]
    assert honest.verdict is Verdict.PROVED
    monkeypatch.setattr(composed_losses, "LONGEST_CELL", 1)
    (open_claim,) = certify(found[0], [honest.claim]).claims
    assert open_claim.verdict is Verdict.OPEN
    assert open_claim.rests_on


SELECTIONS_OF_KEYS = {"partition_selection", "gaussian_threshold"}
"""Their claims are tested with private keys, next to the tests of private keys."""


@pytest.mark.parametrize("name", sorted({*KNOWN} - SELECTIONS_OF_KEYS - {"randomized_response"}))
def test_smaller_noise_than_accounted_is_refused(name: str) -> None:
    budget = "pure" if registry.get(name).pure else "approximate"
    found = of_kind(name, 0, "few cells", budget, 20.0)
    assert found is not None
    (event,), guarantee = found
    parameters = dict(event.parameters)
    for text in ("scale", "width") if name == "staircase" else ("scale",):
        parameters[text] = repr(math.floor(float(parameters[text]) * 0.9))
    less = replace(event, parameters=tuple(sorted(parameters.items())))
    if name == "optimal":  # whose masses are the noise, and no scale
        less = replace(event, sensitivity=Sensitivity(3, (Move(5, 1),)))
    verdicts = {claim.verdict for claim in certify([less], claims_of(recorded(guarantee))).claims}
    assert verdicts & {Verdict.REFUSED, Verdict.OPEN}, verdicts


def test_mixed_mechanisms_and_selections_are_proved() -> None:
    """One release of many laws, choices and keys that are not public, under `replace`."""
    unit = UNITS["replaced"]
    laws = [law_of("discrete_gaussian", 60.0), law_of("laplace", 90.0)]
    laws.append(law_of("asymmetric_laplace", 90.0, 2))
    for name, shape in (("exponential", {"candidates": 12}), ("permute_and_flip", {})):
        laws.append(registry.selection_class(name).of(scale=80.0, **shape))  # type: ignore[arg-type]
    events, guarantee = events_and_claim(laws, unit, "approximate") or ([], {})
    keys = registry.randomizer_class("partition_selection").of(scale=20.0, delta=1e-8)
    one = Sensitivity(2, (Move(1, 1),))
    vectors = [make_accounting_input(law, unit) for law in laws] + [
        make_accounting_input(keys, one)
    ]
    events.append(Event("q", "keys", keys.name, keys.parameters, one))
    guarantee = guarantee_of(vectors, BUDGETS["approximate"]).to_json()
    certificate = proof((events, guarantee))
    assert certificate.is_proved, certificate
    assert json.loads(json.dumps(certificate.to_json()))["proved"]
    assert "discrete_gaussian" in certificate_text(certificate)


def test_rho_and_loss_proofs_combine() -> None:
    """Discrete Gaussian noise whose parts meet, and other noise: by a part of delta."""
    meeting, apart = UNITS["meeting"], UNITS["few cells"]
    few, many = law_of("discrete_gaussian", 4000.0), law_of("discrete_laplace", 60.0)
    vectors = [make_accounting_input(few, meeting), make_accounting_input(many, apart)]
    events = [
        Event("q", "few", few.name, few.parameters, meeting),
        Event("q", "many", many.name, many.parameters, apart),
    ]
    guarantee = guarantee_of(vectors, BUDGETS["approximate"]).to_json()
    certificate = proof((events, guarantee))
    assert certificate.is_proved, certificate
    assert "at a part of delta" in certificate.claims[0].by
    low = replace(
        claims_of(recorded(guarantee))[0], claimed=Fraction(guarantee["epsilon"]) * Fraction(9, 10)
    )
    assert certify(events, [low]).claims[0].verdict is Verdict.REFUSED


def test_unknown_mechanism_is_open() -> None:
    """A mechanism without a proof is neither proved nor refused."""
    law = law_of("discrete_laplace", 20.0)
    event = Event("q", "c", law.name, law.parameters, UNITS["one cell"])
    kept = KNOWN.pop("discrete_laplace")
    try:
        claims = [
            Claim("epsilon", Fraction(1), Fraction(0)),
            Claim("rho", Fraction(1), Fraction(0)),
        ]
        claims.append(Claim("epsilon", Fraction(1), Fraction(1, 10**6)))
        assert {c.verdict for c in certify([event], claims).claims} == {Verdict.OPEN}
    finally:
        KNOWN["discrete_laplace"] = kept
    assert certify([], claims).is_proved  # where nothing was noised, nothing is lost


@pytest.fixture(scope="module")
def release_with_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("paid"), "paid")


def test_release_is_certified(release_with_ledger: Path) -> None:
    report = verify(release_with_ledger, certify=True)
    assert report.ok
    assert report.certificate is not None
    assert report.certificate.is_proved
    (claim,) = report.to_json()["certificate"]["claims"]
    assert 0.99 * claim["claimed"] <= claim["at_least"] <= claim["at_most"] <= claim["claimed"]
    assert verify(release_with_ledger).to_json()["certificate"] is None
    for more in ([], ["--certify"]):
        done = CliRunner().invoke(app, ["verify", str(release_with_ledger), *more])
        assert done.exit_code == 0, done.output
        known = " ".join(done.output.split()).replace(Verdict.OPEN.value, "")
        assert (Verdict.PROVED.value in known) is bool(more), done.output


def test_lowered_claim_is_refused(release_with_ledger: Path) -> None:
    """By the manifest that is made again, and by the certificate of what it claims."""
    record = read(release_with_ledger)
    kept = (release_with_ledger / "manifest.json").read_bytes()
    record["guarantee"]["epsilon"] = repr(0.99 * float(record["guarantee"]["epsilon"]))
    seal(release_with_ledger, record)
    try:
        codes = [finding.code for finding in verify(release_with_ledger, certify=True).findings]
    finally:
        (release_with_ledger / "manifest.json").write_bytes(kept)
    assert "DP-VERIFY-008" in codes
    assert "DP-VERIFY-024" in codes


NO_PRICES = ("nan", "inf", "-inf", "1e400", "1e999", "1e99999999", "-1", "1/3", "0x1", "", "x")
GUARANTEE = {"epsilon": "1", "pure_epsilon": "2", "rho": "0.1", "delta": "1e-9"}


@pytest.mark.parametrize("leaf", GUARANTEE)
def test_invalid_texts_of_claims_are_refused(leaf: str) -> None:
    """Each is refused before any number is computed of it."""
    assert len(claims_of(recorded(GUARANTEE))) == 3
    start = time.process_time()
    for text in (*NO_PRICES, *(["1", "2", "1e300"] if leaf == "delta" else [])):
        with pytest.raises(ValueError, match=r"."):
            claims_of(recorded({**GUARANTEE, leaf: text}))
    assert time.process_time() - start < 5


@pytest.mark.parametrize(("leaf", "text"), [("epsilon", "1e400"), ("delta", "1e300")])
def test_manifest_with_invalid_claim_is_refused(
    leaf: str, text: str, release_with_ledger: Path
) -> None:
    kept = (release_with_ledger / "manifest.json").read_bytes()
    record = read(release_with_ledger)
    record["guarantee"][leaf] = text
    seal(release_with_ledger, record)
    try:
        report = verify(release_with_ledger, certify=True)
    finally:
        (release_with_ledger / "manifest.json").write_bytes(kept)
    assert report.certificate is None
    assert {"DP-VERIFY-002"} <= {finding.code for finding in report.findings}
    json.dumps(report.to_json(), allow_nan=False)


def test_release_of_unknown_noise_is_not_proved(
    release_with_ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proven, "KNOWN", {})
    report = verify(release_with_ledger, certify=True)
    assert {finding.code for finding in report.findings} == {"DP-VERIFY-026"}
    assert report.to_json()["guarantee_status"] == "not proved"


@pytest.mark.share(0.25)
@pytest.mark.parametrize(
    "kind", ["central", "local", pytest.param("party", marks=pytest.mark.audit)]
)
def test_releases_of_every_kind_are_certified(kind: str, tmp_path: Path) -> None:
    """All claims are proved; those about sums of parties have no proof, which is a finding."""
    folder = publish(tmp_path, kind)
    report = verify(folder, certify=True)
    certificate = report.certificate
    assert certificate is not None
    assert {claim.verdict for claim in certificate.claims} == {Verdict.PROVED}
    assert bool(certificate.not_covered) is (kind == "party")
    codes = {finding.code for finding in report.findings}
    assert codes == ({"DP-VERIFY-026"} if certificate.not_covered else set())
    ended = [
        CliRunner().invoke(app, ["verify", str(folder), *more]) for more in ([], ["--certify"])
    ]
    assert [one.exit_code for one in ended] == [0, 4 if codes else 0]
    plain = verify(folder).to_json()
    assert plain["guarantee_status"] == "claimed"
    assert report.to_json()["guarantee_status"] == ("not proved" if codes else "proved")
    for text in (ended[0].output, json.dumps(plain)):
        assert "ertified" not in text.replace("ertified: false", "")
        assert "is proved" not in text
    assert "it was not proved" in ended[0].output
    assert certificate.parts[0].noise.partition(" ")[0] in ended[1].output  # what is proved


def claimed_of(name: str, scales: Sequence[float], slots: int) -> Claimed:
    found = events_and_claim(
        [law_of(name, scale, 0, 4) for scale in scales],
        Sensitivity(slots, (Move(4, 1),)),
        "approximate",
    )
    assert found is not None
    return found


def test_many_scales_of_noise_are_proved() -> None:
    """Discrete Gaussian noise of 300 scales, by itself and beside other noise; and narrow one."""
    scales = [500.0 + i / 3 for i in range(300)]
    start = time.process_time()
    (claim,) = proof(claimed_of("discrete_gaussian", scales, 1)).claims
    assert claim.verdict is Verdict.PROVED
    assert "at integers" in claim.by
    laws = [law_of("discrete_gaussian", scale, 0, 4) for scale in [8.0, 9.0, *scales[:40]]]
    laws += [law_of("discrete_laplace", scale, 0, 4) for scale in (300.0, 310.0)]
    found = events_and_claim(laws, UNITS["one cell"], "approximate")
    assert found is not None
    (claim, *_) = proof(found).claims
    assert claim.verdict is Verdict.PROVED
    assert "normal ones as one" in claim.by
    assert time.process_time() - start < 20
    low = replace(claims_of(recorded(found[1]))[0], claimed=claim.claim.claimed * Fraction(99, 100))
    assert certify(found[0], [low]).claims[0].verdict is Verdict.REFUSED


@pytest.mark.audit
@pytest.mark.parametrize("kinds", [1, 100, 1000])
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("discrete_laplace", 500.0),
        ("discrete_gaussian", 500.0),
        ("discrete_gaussian", 40.0),
        ("discrete_offset_symmetric_gaussian", 500.0),
        ("laplace", 500.0),
        ("staircase", 500.0),
    ],
)
def test_thousand_slots_take_less_than_a_minute(name: str, least: float, kinds: int) -> None:
    """Of one kind, of a hundred, and each of its own."""
    scales = [least * (1 + i / kinds) for i in range(kinds)]
    found = claimed_of(name, scales, 1000 // kinds)
    start = time.process_time()
    assert proof(found).is_proved
    assert time.process_time() - start < 60
