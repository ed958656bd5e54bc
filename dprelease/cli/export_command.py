"""Write a published release in other formats, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.errors.printable import count_text, one_line
from dprelease.schema.release_parts.format_names import FORMATS


def _check_formats(names: list[str]) -> list[str]:
    """Return the names of formats; refuse an unknown name."""
    for name in names:
        if name not in FORMATS:
            from dprelease.schema.mistakes.suggestions import nearest

            known = ", ".join(FORMATS)
            raise typer.BadParameter(f"{name!r} is not one of {known}{nearest(name, FORMATS)}.")
    return names


def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    to: Annotated[
        list[str],
        typer.Option(
            help="A format; can be repeated.",
            metavar=f"[{'|'.join(FORMATS)}]",
            callback=_check_formats,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="Write to this new folder, instead of one next to the release."),
    ] = None,
    wide: Annotated[
        list[str] | None,
        typer.Option(help="A key whose values become columns; can be repeated.", metavar="KEY"),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="A language of the release, instead of all; can be repeated.", metavar="TAG"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a release in other formats; the release itself is not changed."""
    with report_failures(as_json) as state:
        from dprelease.verification.after_publication.export_copy import export as write

        result = write(
            folder, to, wide=wide or None, languages=language or None, output=output, state=state
        )
        files = count_text(len(result.files), "file", "files")
        print_result(as_json, result.to_json(), one_line(f"Wrote {files} in {result.folder}."))
