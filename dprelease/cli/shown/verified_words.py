"""Describe in sentences what a verification checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.cli.shown.certificate_shown import certificate_text
from dprelease.errors.printable import one_line
from dprelease.privacy.guarantee import INVARIANTS_SENTENCE

if TYPE_CHECKING:
    from dprelease.privacy.guarantee import Guarantee
    from dprelease.verification.report import Report


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
