"""`dprelease audit`: test a release on neighbouring tables of invented rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.releases import ReleaseFile, Set, _check_engine
from dprelease.cli.reporting import (
    AsJson,
    Wide,
    exit_with_error,
    print_result,
    print_text,
    progress_bar,
    report_failures,
)
from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import one_line
from dprelease.schema.release_parts.extension_names import ENGINES

if TYPE_CHECKING:
    from dprelease.documents.audit_record import Audit

FINDING_EXIT_CODE = 4
"""Exit code of an audit with a finding."""


def audit(
    release: ReleaseFile,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write audit.json, and files that reproduce each finding, to this folder."
        ),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", help="Audit only this query; can be repeated.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(help="Start no further check after this many seconds.", min=1, max=86400),
    ] = 240,
    engine: Annotated[
        str | None,
        typer.Option(
            help="The engine that reads the invented rows, instead of the declared one.",
            metavar=f"[{'|'.join(ENGINES)}]",
            callback=_check_engine,
        ),
    ] = None,
    draws: Annotated[
        bool,
        typer.Option(
            "--draws/--no-draws", help="Also draw millions of results, as a black-box test."
        ),
    ] = True,
    variables: Set = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Put a release to the test on invented neighbouring tables; opens no declared source."""
    with report_failures(as_json):
        from dprelease.auditing.breach_files import refuse_folder, write_outcome
        from dprelease.auditing.whole_audit import run_audit
        from dprelease.errors import Findings
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.schema.release_parts.variables import parse_assignments

        declaration = load_declaration(release, parse_assignments(variables))
        if output is not None:
            # Before the audit, because minutes of work would be lost otherwise.
            refuse_folder(output)
        with progress_bar(4) as progress:
            outcome = run_audit(
                declaration, engine=engine, names=query or (), time_limit=time_limit,
                draws=draws, progress=progress,
            )  # fmt: skip
        if not as_json:  # print the result of minutes of work before writing files, which may fail
            print_result(False, None, "\n\n".join(audit_texts(outcome.audit, wide=wide)))
        written = None if output is None else write_outcome(outcome, output)
        if as_json:
            print_text(json.dumps(json.loads(outcome.audit.model_dump_json()), indent=2))
            raise typer.Exit(0 if outcome.audit.holds else FINDING_EXIT_CODE)
        if written is not None:
            print_text(f"\nWritten to {one_line(str(written))}.")
        if not outcome.audit.holds:
            exit_with_error(Findings(outcome.errors), as_json)


def audit_texts(result: Audit, *, wide: bool) -> list[str]:
    """Return the outcome of an audit as paragraphs for people."""
    heads = ("column", "claimed", "pairs", "used", "by")
    rows: list[tuple[str, ...]] = [heads]
    for one in result.sensitivities:
        used = f"{100 * one.ratio:.4g} %"
        rows.append((f"{one.query}.{one.column}", one.claimed, f"{one.pairs:,}", used, one.worst))
    words = ["The largest change of each measurement between neighbours, relative to the claim:"]
    words.append(table_text(rows, wide=wide, more=("by",)))
    if result.twins is not None:
        words.append(
            f"Twin runs: {result.twins.runs} whole runs, {result.twins.silent} of them byte for "
            f"byte the same; {_verdict_text(result.twins.holds)}."
        )
        words += [f"Excepted: {one_line(what)}." for what in result.twins.excepted]
    if result.canaries is not None:
        words.append(
            f"Canaries: of {result.canaries.columns} columns, in {result.canaries.searched} files "
            f"and {result.canaries.failures} failures; {_verdict_text(result.canaries.holds)}."
        )
    if result.black_box or result.not_tried:
        words.append(_epsilon_bounds_text(result, wide=wide))
    if result.not_tried:
        words.append("The audit says nothing about anything that was not tried.")
    if result.left_out:
        words.append("Skipped, because the time was up or the engine fails on it:")
        words.append("\n".join(f"  {one_line(what)}" for what in result.left_out))
    if result.holds:
        words.append("All held.")
    return words


def _verdict_text(holds: bool) -> str:
    """Return whether all checks of an audit held, in words."""
    return "all held" if holds else "something did not hold"


def _epsilon_bounds_text(result: Audit, *, wide: bool) -> str:
    """Return a table of the claimed epsilons, and of their lower bounds from draws."""
    rows: list[tuple[str, ...]] = [("column", "claimed", "at least", "delta", "draws", "statistic")]
    for one in result.black_box or ():
        name = f"{one.query}.{one.column}" if one.query else "the release"
        figures = f"{one.claimed:.4g}", f"{one.bound:.4g}", f"{one.delta:.3g}", f"{one.draws:,}"
        rows.append((name, *figures, one.statistic))
    for left in result.not_tried:
        name = f"{left.query}.{left.column}" if left.query else "the release"
        rows.append((name, "", "not tried", "", "0", left.mechanism))
    heading = "The claimed epsilon, and a lower bound of it from many draws:"
    return f"{heading}\n\n{table_text(rows, wide=wide, more=('statistic',))}"
