"""`dprelease rehearse`: run a complete release on invented people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.releases import ReleaseFile, Set
from dprelease.cli.reporting import AsJson, Wide, print_result, progress_bar, report_failures
from dprelease.cli.texts.text_tables import number_text, table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.documents.rehearsal_truth import ColumnErrors, Figures

REPORT = "report"

WIDE_HEADS = ("bias", "largest")
"""Column heads of the table of errors that are shown only with `--wide`."""


def rehearse(
    release: ReleaseFile,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on", help="A public file that replaces the rows of a table.", metavar="FILE[=TABLE]"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The folder; by default the declared one followed by -rehearsal."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", help="The number of invented rows.", metavar="[TABLE=]N"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the rehearsal that is already there.")
    ] = False,
    variables: Set = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Run a release on invented people, and print its true errors; opens no declared source."""
    with report_failures(as_json) as state:
        from dprelease.documents.rehearsal_manifest import WORDS
        from dprelease.documents.rehearsal_truth import errors_in
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.rehearsal.rehearse import requested_files, requested_rows
        from dprelease.rehearsal.run import rehearse as run
        from dprelease.schema.release_parts.variables import parse_assignments

        declaration = load_declaration(release, parse_assignments(variables))
        files, sizes = requested_files(declaration, on), requested_rows(declaration, rows)
        with progress_bar(len(declaration.spec.published_tables) + 2) as progress:
            folder = run(
                declaration,
                output=output,
                overwrite=overwrite,
                on=files,
                rows=sizes,
                progress=progress,
                state=state,
            )
        errors = errors_in(folder)
        unwritten = list(declaration.spec.extra_formats)
        answer = {
            "output": str(folder),
            "rehearsal": True,
            "errors": [one.to_json() for one in errors],
        }
        words = [WORDS, error_table_text(errors, wide=wide), _output_summary(folder, unwritten)]
        print_result(as_json, {**answer, "formats_not_written": unwritten}, "\n\n".join(words))


def _output_summary(folder: Path, unwritten: list[str]) -> str:
    """Return the folder of a rehearsal, the commands to view it, and the formats that it lacks."""
    shown = one_line(str(folder))
    words = f"Written to {shown}; `dprelease report {shown}` makes a page of it."
    others = [name for name in unwritten if name != REPORT]
    if not others:
        return words
    return (
        f"{words} Not written in {', '.join(others)}: beside that page a rehearsal is Parquet "
        "alone, since no other file could say that it is one."
    )


def error_table_text(errors: list[ColumnErrors], *, wide: bool) -> str:
    """Return the errors of a rehearsal as a table for people."""
    heads = ("column", "rows", "cells", "mean error", "bias", "largest", "covered", "unit")
    lines: list[tuple[str, ...]] = [heads]
    for column in errors:
        classes: list[tuple[str, Figures]] = [(one.rows, one) for one in column.classes]
        for rows, one in (*classes, *([] if len(classes) == 1 else [("all", column)])):
            lines.append(
                (
                    f"{column.table}.{column.column}",
                    rows,
                    f"{one.cells:,}",
                    number_text(one.mean_absolute_error),
                    number_text(one.bias),
                    number_text(one.largest_error),
                    "" if one.covered is None else f"{100 * one.covered:.4g} %",
                    column.unit,
                )
            )
    return table_text(lines, wide=wide, more=WIDE_HEADS)
