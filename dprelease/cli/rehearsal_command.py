"""`dprelease rehearse` and `attack`: a complete release on invented people, and attacks on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.releases import ReleaseFile, Set
from dprelease.cli.reporting import AsJson, Wide, print_result, progress_bar, report_failures
from dprelease.cli.texts.frame_output import new_file
from dprelease.cli.texts.text_tables import number_text, table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.documents.attack_outcome import AttackOutcome
    from dprelease.documents.rehearsal_manifest import ColumnErrors, Figures


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
        from dprelease.documents.rehearsal_manifest import WORDS, errors_in
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.rehearsal.rehearse import requested_files, requested_rows, write_rehearsal
        from dprelease.schema.release_parts.variables import parse_assignments

        declaration = load_declaration(release, parse_assignments(variables))
        files, sizes = requested_files(declaration, on), requested_rows(declaration, rows)
        with progress_bar(len(declaration.spec.published_tables) + 2) as progress:
            folder = write_rehearsal(
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
        f"{words} Not written in {', '.join(others)}: a rehearsal has only Parquet files and this "
        "page, because other formats can't be marked as a rehearsal."
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


ATTACK_WIDE_HEADS = ("guessed", "named alone", "solved")
"""Column heads of the table that are shown only with `--wide`."""


def attack(
    folder: Annotated[Path, typer.Argument(help="The folder of a rehearsal.", show_default=False)],
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            help="The public file that the rehearsal used for a table.",
            metavar="FILE[=TABLE]",
        ),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option("--table", help="The table of people; by default the one with most counts."),
    ] = None,
    area: Annotated[
        str | None,
        typer.Option(
            help="The column that is solved value by value, and between whose values records swap."
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--time-limit", help="Time limit in seconds for each form of the tables.", min=1
        ),
    ] = 60.0,
    swapped: Annotated[
        float, typer.Option(help="The fraction of records that is swapped.", min=0.0, max=1.0)
    ] = 0.1,
    output: Annotated[
        Path | None, typer.Option(help="Write the result to this new JSON file.")
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Try to reconstruct the people of a rehearsal from its tables, and from coarser ones."""
    with report_failures(as_json):
        from dprelease.documents.attack_outcome import FORMS
        from dprelease.reconstruction.attack import AttackRequest
        from dprelease.reconstruction.attack import attack as run

        request = AttackRequest(about, area, FORMS, seconds, swapped)
        with progress_bar(len(FORMS)) as progress:
            found = run(folder, request, on=on, progress=progress)
        if output is not None:
            with new_file(output) as file:
                file.write(f"{found.model_dump_json(indent=1)}\n".encode())
        print_result(as_json, found.model_dump(mode="json"), attack_text(found, wide=wide))


def attack_text(found: AttackOutcome, *, wide: bool = False) -> str:
    """Return the outcome of an attack as a table and sentences for people."""
    guesses = found.baseline
    heads = ("tables", "error", "withheld", "right", "guessed", "beyond", "named alone",
             "alone right", "certain", "of these right", "solved")  # fmt: skip
    rows: list[tuple[str, ...]] = [heads]
    for one in found.forms:
        rows.append(
            (
                one.form,
                number_text(one.error, digits=3),
                f"{100 * one.withheld:.3g} %",
                f"{one.right:,}",
                f"{max(guesses.drawn, guesses.apportioned):,.0f}",
                f"{one.beyond:+,.0f}",
                f"{one.alone_named:,}",
                f"{one.alone_right:,} of {found.alone:,}",
                f"{one.certain:,}" if one.decided else f"{one.certain:,} or more",
                f"{one.certain_right:,}",
                f"{one.likeliest} of {one.blocks}",
            )
        )
    attributes = ", ".join(f"{a.column} ({a.values:,})" for a in found.attributes) or "none"
    about = (
        f"{found.records:,} records of '{one_line(found.table)}' with {one_line(attributes)}; "
        f"{found.alone:,} are unique. Solved together: {', '.join(found.tables)}."
    )
    out = [f"Left out: {name}: {why}." for name, why in found.left_out.items()]
    guess = (
        f"Guesses from the exact one-way marginals: {guesses.drawn:,.0f} right if each record is "
        f"drawn (deviation {guesses.deviation:,.0f}), {guesses.apportioned:,} if apportioned; "
        f"{guesses.alone:,.0f} of the unique ones."
    )
    parts = [
        about,
        *([one_line(line) for line in out]),
        table_text(rows, wide=wide, more=ATTACK_WIDE_HEADS),
        guess,
    ]
    return "\n\n".join(parts)
