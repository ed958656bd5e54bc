"""Describe in sentences what a certificate proves about a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.shown.shown_tables import table_text

if TYPE_CHECKING:
    from dprelease.verification.certificate.verdicts import Certificate, CertifiedClaim

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
