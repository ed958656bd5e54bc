"""Certify the claims of a release, and add the results to a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dprelease.documents.release_manifest import GuaranteeRecord
from dprelease.privacy.event import Event
from dprelease.verification.report import Report

PRICES = frozenset({"DP-VERIFY-008", "DP-VERIFY-011"})
"""Codes of findings on costs that a certificate replaces by more precise findings."""


def certify_claims(
    report: Report,
    guarantee: GuaranteeRecord,
    events: Sequence[Event],
    *,
    beside: tuple[str, ...] = (),
) -> None:
    """Prove upper bounds of the claims of a recorded guarantee.

    A claim below the proven cost gets the finding DP-VERIFY-024, and an unproved claim
    DP-VERIFY-026. A release that differs from its declaration is not certified.

    - `guarantee`: the guarantee as the manifest records it.
    - `events`: the drawn noise, with the sensitivities that follow from the declaration.
    - `beside`: other claims, which the certificate does not cover: each gets the finding
      DP-VERIFY-026.
    """
    from dprelease.verification.certificate.certify import certify, claims_of
    from dprelease.verification.certificate.verdicts import Verdict

    if any(finding.code not in PRICES for finding in report.findings):
        return
    try:
        claims = claims_of(guarantee)
    except ValueError:
        report.add_finding("DP-VERIFY-002", "guarantee", problem="a price or a delta can be none")
        return
    certificate = replace(certify(events, claims, report.opinion), beside=beside)
    report.certificate = certificate
    for certified in certificate.claims:
        claim = certified.claim
        told = {"claimed": f"{float(claim.claimed):.9g}", "counted": claim.words}
        if certified.verdict is Verdict.REFUSED:
            found = "nothing" if certified.at_most is None else f"at most {certified.at_most:.9g}"
            report.add_finding("DP-VERIFY-024", "guarantee", **told, found=found)
        elif certified.verdict is not Verdict.PROVED:
            reason = "; ".join(certified.rests_on)
            report.add_finding("DP-VERIFY-026", "guarantee", **told, reason=f"it rests on {reason}")
    for words in beside:
        whole = {"claimed": "a sum", "counted": "of several parties"}
        report.add_finding(
            "DP-VERIFY-026", "trust", **whole, reason=f"no certificate is about {words}"
        )
