"""Check that a declaration allows the noise in a manifest, and certify its privacy cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from dprelease.documents.release_manifest import GuaranteeRecord, NoiseRecord
from dprelease.errors import DpReleaseError, Place
from dprelease.mechanisms import registry
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.planning.noise_requests import NoiseRequest
from dprelease.privacy.guarantee import Event
from dprelease.query.measurement import Measurement
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.verification.report import Report

AnyRandomizer = TypeVar("AnyRandomizer", bound=Randomizer)

CHOSEN_SHAPE = "declared; its parameters: least expected error"
WORDS = frozenset(
    {"auto", "error", "errors", "of", "others", "the", "release", "smaller", "than", "with"}
    | {"least", "for", "rho", "epsilon", "that", "ledger", "counts"}
)
"""The fixed text of the explanation by `auto`, without numbers, errors and mechanisms."""

NUMBER = re.compile(r"[+-]?([0-9.]{1,320}|inf)(e[+-]?[0-9]{1,3})?%?|%")


def recorded_mechanism(
    held: NoiseRecord, mechanism_of: Callable[[Event], AnyRandomizer]
) -> AnyRandomizer | None:
    """Return the noise mechanism of a recorded measurement; None for an invalid record."""
    try:
        return mechanism_of(held.event)
    except DpReleaseError:
        return None


def is_declared_noise(mechanism: Randomizer, measurement: Measurement) -> bool:
    """Return whether a column may have this noise: the declared one, or one that `auto` may choose.

    The noise must have the declared shape, if its record has a shape, and keep a declared margin of
    error.
    """
    request = NoiseRequest(measurement, Place())
    try:
        if request.is_auto:
            allowed = mechanism.name in registry.names() and request.options.admits(type(mechanism))
            allowed = allowed and math.isfinite(request.options.error(mechanism))
        else:
            allowed = mechanism.name == measurement.mechanism.name and _has_shape(
                mechanism, request
            )
    except DpReleaseError:
        return False
    return allowed and is_accurate(mechanism, measurement)


def _has_shape(mechanism: Randomizer, request: NoiseRequest) -> bool:
    """Return whether recorded shape parameters are equal to the declared ones."""
    recorded = dict(mechanism.parameters)
    return all(
        math.isclose(float(wanted), float(recorded[name]), rel_tol=1e-12)
        for name, wanted in request.shape.items()
        if name in recorded
    )


def is_accurate(mechanism: Randomizer, measurement: Measurement) -> bool:
    """Return whether noise keeps the margin of error that its column declares, if any."""
    if measurement.wanted is None:
        return True
    confidence = float(measurement.confidence or DEFAULT_CONFIDENCE)
    return mechanism.half_width(confidence) <= measurement.wanted / measurement.step


def is_recorded_choice(words: str, mechanism: Randomizer, measurement: Measurement) -> bool:
    """Return whether `chosen_by` is consistent with the declaration.

    The explanation of `auto` also has the errors of other mechanisms. They are not computed again,
    because this would need a second plan, and no guarantee depends on them.
    """
    request = NoiseRequest(measurement, Place())
    if not request.is_auto:
        searched = {name for shape in type(mechanism).searched_shapes for name in shape}
        is_fixed = searched <= set(measurement.mechanism.shape)
        return words == ("declared" if is_fixed else CHOSEN_SHAPE)
    # A text that is not computed again could say anything, so it may have these words only.
    said = re.sub(r"[;:,]", " ", words).split()
    known = {*WORDS, *registry.names()}
    start = f"auto: least {request.options.measure}"
    is_started = words == start or words.startswith(f"{start};")
    return is_started and all(
        word in known or NUMBER.fullmatch(word) for word in said if word != request.options.measure
    )


PRICES = frozenset({"DP-VERIFY-008", "DP-VERIFY-011"})
"""Codes of findings on costs that a certificate replaces by more precise findings."""


def certify_claims(
    report: Report,
    guarantee: GuaranteeRecord,
    events: Sequence[Event],
    *,
    not_covered: tuple[str, ...] = (),
) -> None:
    """Prove upper bounds of the claims of a recorded guarantee.

    A claim below the proven cost gets the finding DP-VERIFY-024, and an unproved claim
    DP-VERIFY-026. A release that differs from its declaration is not certified.

    - `guarantee`: the guarantee as the manifest records it.
    - `events`: the drawn noise, with the sensitivities that follow from the declaration.
    - `not_covered`: other claims, which the certificate does not cover: each gets the finding
      DP-VERIFY-026.
    """
    from dprelease.verification.certificate.certify import certify, claims_of
    from dprelease.verification.certificate.verdicts import Verdict

    # A proof about noise that the declaration does not allow would prove nothing about the release.
    if any(finding.code not in PRICES for finding in report.findings):
        return
    try:
        claims = claims_of(guarantee)
    except ValueError:
        report.add_finding("DP-VERIFY-002", "guarantee", problem="a price or a delta can be none")
        return
    certificate = replace(certify(events, claims, report.opinion), not_covered=not_covered)
    report.certificate = certificate
    for certified in certificate.claims:
        claim = certified.claim
        fields = {"claimed": f"{float(claim.claimed):.9g}", "counted": claim.words}
        if certified.verdict is Verdict.REFUSED:
            found = "nothing" if certified.at_most is None else f"at most {certified.at_most:.9g}"
            report.add_finding("DP-VERIFY-024", "guarantee", **fields, found=found)
        elif certified.verdict is not Verdict.PROVED:
            reason = "; ".join(certified.rests_on)
            report.add_finding(
                "DP-VERIFY-026", "guarantee", **fields, reason=f"it rests on {reason}"
            )
    for words in not_covered:
        whole = {"claimed": "a sum", "counted": "of several parties"}
        report.add_finding(
            "DP-VERIFY-026", "trust", **whole, reason=f"no certificate is about {words}"
        )
