"""Write the report on a release, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.errors.printable import one_line


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(help="Write to this HTML file, instead of one next to the release."),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="The language of labels, one of the languages of the release."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it already exists.")
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Also check that the release was charged to this ledger.")
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(help="A list of who may sign, an allowed_signers file of OpenSSH."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a release, and write a report on its privacy and quality as one HTML file."""
    with report_failures(as_json):
        from dprelease.verification.after_publication.report_writing import write_report

        target = write_report(
            folder,
            output,
            language=language,
            overwrite=overwrite,
            ledger=ledger,
            signers=signers,
        )
        answer = {"report": str(target), "bytes": target.stat().st_size}
        print_result(as_json, answer, one_line(f"Wrote {target}."))
