"""Describe in sentences what a verification checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.shown.certificate_shown import certificate_text
from dprelease.errors.printable import one_line
from dprelease.privacy.guarantee import INVARIANTS_SENTENCE

if TYPE_CHECKING:
    from dprelease.verification.report import Report


def verification_text(report: Report) -> str:
    """Return what was checked, what the release guarantees, and what was found but not checked."""
    lines = [f"ok  {one_line(line)}" for line in report.checked]
    guarantee = report.guarantee
    if guarantee is not None:
        delta = float(guarantee.delta)
        what = "A release like this one would be" if report.rehearsal else "The release is"
        lines.append(
            f"{what} ({guarantee.epsilon:.6g}, {delta:g})-private{_guarantee_basis_text(report)}."
        )
        if guarantee.rho is not None and not report.rehearsal:
            lines.append(f"It is {guarantee.rho:.6g}-zero-concentrated private.")
        if guarantee.invariants:
            lines.append(f"This does not cover its invariants. {INVARIANTS_SENTENCE}")
    if report.rehearsal:
        lines.append("This is a rehearsal, not a release.")
    lines += [f"Note: {one_line(note)}." for note in report.notes]
    if report.certificate is not None:
        lines += ["", certificate_text(report.certificate)]
    return "\n".join(lines)


def _guarantee_basis_text(report: Report) -> str:
    """Return a sentence on how the guarantee was checked: proved, or recomputed.

    A claim that should be proved and is not proved is reported as a finding.
    """
    if report.certificate is None:
        return ", recomputed from its recorded noise; --certify also proves it, or fails"
    return (
        ", which is proved"
        if report.certificate.is_proved
        else ", proved, except for the assumptions below"
    )
