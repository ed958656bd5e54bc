"""What `check` and `verify` found, as texts for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.cli.texts.text_tables import table_text
from dprelease.errors import DataError, DeclarationError, DpReleaseError, Findings, LedgerError
from dprelease.errors.printable import count_text, one_line
from dprelease.privacy.guarantee import INVARIANTS_SENTENCE

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.privacy.guarantee import Guarantee
    from dprelease.query.resolve import Query
    from dprelease.release.check_result import CheckResult
    from dprelease.schema.load import Declaration
    from dprelease.verification.certificate.verdicts import Certificate, CertifiedClaim
    from dprelease.verification.report import Report


# The part of a plan on the release's ledger, for a terminal.


@dataclass(frozen=True, slots=True)
class ForecastTexts:
    """The remaining budget in a ledger as JSON values and as text; empty without a ledger."""

    answer: Mapping[str, object] | None = None
    words: tuple[str, ...] = ()


def refusal_text(refusal: DataError) -> str:
    """Return a text that a run would be refused for a table that its engine can't read."""
    run = "a run would fail"
    if refusal.code != "DP-SPARK-005":  # persons are looked up for frames, too
        run += ", unless a frame is passed instead of the table"
    return f"{run}. {_sentence(refusal)}"


def warning_text(warning: DeclarationError) -> str:
    """Return the text of a warning with its position in a declaration."""
    return f"{warning.place}: {_sentence(warning)}"


def _sentence(error: DpReleaseError) -> str:
    return f"{error.code}  {error.cause} {error.fix[:1].upper()}{error.fix[1:]}"


def ledger_forecast_texts(
    declaration: Declaration, queries: Sequence[Query], plan: Plan
) -> ForecastTexts:
    """Return the forecast of a release's ledger for a plan.

    A plan needs no ledger. If the ledger is on another machine, or would refuse a run, the text
    reports this as a problem.
    """
    if declaration.spec.ledger is None:
        return ForecastTexts()
    from dprelease.release.ledger_forecast import ledger_outlooks

    name = Path(declaration.spec.ledger).name
    try:
        tables = ledger_outlooks(declaration, queries, plan) or ()
    except LedgerError as error:
        problem = f"Warning: the ledger would refuse a run. {error.code}  {error.cause}"
        return ForecastTexts(
            {"file": name, "problem": error.code, "tables": []}, (one_line(problem),)
        )
    answer = {"file": name, "problem": None, "tables": [one.to_json() for one in tables]}
    return ForecastTexts(answer, ("\n".join(one_line(f"{name}, {one.words}") for one in tables),))


def together(errors: Sequence[DpReleaseError]) -> DpReleaseError:
    """Return a single error, or several errors as one."""
    return errors[0] if len(errors) == 1 else Findings(errors)


def in_folder(error: DpReleaseError, path: Path) -> DpReleaseError:
    """Return an error whose position names the file with the folder of the checked file."""
    named = path if error.place.file is None else path.parent / error.place.file
    error.set_place(replace(error.place, file=str(named)))
    return error


def several_texts(files: Sequence[Path], results: Sequence[CheckResult]) -> str:
    """Return one line for each file, and then the details of files with notes or warnings."""
    lines, details = [], []
    for path, result in zip(files, results, strict=True):
        name = one_line(str(path))
        if result.findings:
            errors = count_text(len(result.findings), "error", "errors")
            lines.append(f"wrong  {name}: {errors}")
            continue
        lines.append(f"ok     {name}: {_contents_text(result)}")
        more = _detail_lines(result)
        details += ["\n".join([f"{name}:", *(f"  {line}" for line in more)])] if more else []
    return "\n\n".join(["\n".join(lines), *details])


def result_text(result: CheckResult) -> str:
    """Return the text for one file without errors."""
    first = f"{one_line(result.name)} is in order: {_contents_text(result)}."
    return "\n".join([first, *_detail_lines(result)])


def _contents_text(result: CheckResult) -> str:
    """Return the numbers of tables and columns of a file."""
    columns = count_text(result.columns, "column", "columns")
    if result.is_schema:
        return f"a table schema with {columns}"
    return f"{count_text(result.tables, 'table', 'tables')}, {columns}"


def _detail_lines(result: CheckResult) -> list[str]:
    """Return what is not checked, warnings and notes, each in one line."""
    lines = [f"Not checked until Spark runs: {one_line(what)}." for what in result.left_open]
    warnings = [*map(refusal_text, result.unread), *result.invariants]
    warnings += map(warning_text, result.warnings)
    lines += [f"Warning: {one_line(warning)}" for warning in warnings]
    lines += [one_line(str(note)) for note in result.notes if note.items]
    if result.without_label:
        bare = one_line(", ".join(result.without_label))
        lines.append(f"Without a label, although others have one: {bare}.")
    return lines


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
    lines += [f"Not covered by the proof: {limitation}." for limitation in certificate.not_covered]
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
