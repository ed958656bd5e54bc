"""Compute custom areas from the estimates of a release, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, Wide, report_failures
from dprelease.cli.texts.frame_output import print_frame, refuse_other_formats


def areas(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    districts: Annotated[
        Path,
        typer.Argument(
            help="A CSV file with the columns leaf, area and optionally share.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="Write the totals to this new file, .csv or .parquet.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="The query, if several queries of the release have areas.")
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Compute totals of custom areas, with exact standard errors; opens no data, costs nothing."""
    refuse_other_formats(output)
    with report_failures(as_json):
        from dprelease.verification.after_publication.area_sums import areas as drawn

        found = drawn(folder, districts, query=query)
        print_frame(found, output, as_json=as_json, wide=wide)
