"""Describe in sentences what a verification checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import one_line
from dprelease.privacy.guarantee import INVARIANTS_SENTENCE

if TYPE_CHECKING:
    from dprelease.privacy.guarantee import Guarantee
    from dprelease.verification.certificate.verdicts import Certificate, CertifiedClaim
    from dprelease.verification.report import Report


# Describe in sentences what a certificate proves about a release.

MOST_NAMED_COLUMNS = 3
"""Maximum number of columns that a line lists by name."""


def certificate_text(certificate: Certificate) -> str:
    """Return claims, proved costs, noise and theorems of a certificate as text."""
    claims: list[tuple[str, ...]] = [("claim", "at least", "at most", "claimed", "verdict")]
    claims += [_claim_row(certified) for certified in certificate.claims]
    parts = [("noise", "columns", "cells of a unit")]
    parts += [
        (part.noise, _column_names(part.columns), f"{part.touched:,}") for part in certificate.parts
    ]
    lines = [table_text(claims), "", table_text(parts), ""]
    by = {certified.by: None for certified in certificate.claims if certified.by}
    of = {part.theorem: None for part in certificate.parts}
    lines += [f"Theorem: {theorem}." for theorem in (*by, *of)]
    rests = {ground: None for claim in certificate.claims for ground in claim.rests_on}
    lines += [f"Not proved: {ground}." for ground in rests]
    lines += [f"Not covered by the proof: {limitation}." for limitation in certificate.beside]
    return "\n".join(lines)


def _claim_row(certified: CertifiedClaim) -> tuple[str, ...]:
    """Return a claim, its lower and its upper bound, the claimed cost and the verdict as texts."""
    least, most = (_cost_text(cost) for cost in (certified.at_least, certified.at_most))
    claimed = _cost_text(float(certified.claim.claimed))
    return (certified.claim.words, least, most, claimed, certified.verdict.value)


def _cost_text(cost: float | None) -> str:
    """Return a cost with nine significant digits; empty if there is none."""
    return "" if cost is None else f"{cost:.9g}"


def _column_names(columns: tuple[str, ...]) -> str:
    """Return the names of a few columns, or the number of many columns."""
    return ", ".join(columns) if len(columns) <= MOST_NAMED_COLUMNS else f"{len(columns):,} columns"


def verification_text(report: Report) -> str:
    """Return what was checked, what the release guarantees, and what was found but not checked."""
    lines = [f"ok  {one_line(line)}" for line in report.checked]
    guarantee = report.guarantee
    if guarantee is not None:
        lines.append(_guarantee_text(report, guarantee))
        if guarantee.invariants:
            lines.append(f"This does not cover its invariants. {INVARIANTS_SENTENCE}")
    if report.rehearsal:
        lines.append("This is a rehearsal, not a release.")
    lines += [f"Note: {one_line(note)}." for note in report.notes]
    if report.certificate is not None:
        lines += ["", certificate_text(report.certificate)]
    return "\n".join(lines)


def _guarantee_text(report: Report, guarantee: Guarantee) -> str:
    """Return the guarantee, and whether it is proved or only claimed.

    A claim that should be proved and is not proved is reported as a finding.
    """
    private = f"({guarantee.epsilon:.6g}, {float(guarantee.delta):g})-private"
    if guarantee.rho is not None:
        private += f" and {guarantee.rho:.6g}-zero-concentrated private"
        private += f" up to a delta of {guarantee.rho_delta:.3g}" if guarantee.rho_delta else ""
    if report.rehearsal:
        return f"A release like this one would claim to be {private}."
    if report.certificate is None:
        return (
            f"The release claims to be {private}. The claim was computed again from the recorded "
            "noise; it was not proved (--certify proves it, or fails)."
        )
    return f"The release is {private}, which is proved."
