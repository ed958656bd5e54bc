"""The report on a release, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, reporting, respond
from dprelease.errors.printable import one_line


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(help="Write into this HTML file instead of one beside the release."),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="The language of labels, one of the release's.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file that is there.")
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Also check that this ledger paid for the release.")
    ] = None,
    signers: Annotated[
        Path | None, typer.Option(help="Who may sign it, as OpenSSH's allowed_signers lists them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a release, and write a report on its privacy and quality as one HTML file."""
    with reporting(as_json):
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
        respond(as_json, answer, one_line(f"Wrote {target}."))
