"""Compute custom areas from the estimates of a release, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.reporting import AsJson, Wide, print_result, report_failures
from dprelease.cli.shown.shown_tables import table_text
from dprelease.errors.printable import count_text, one_line

if TYPE_CHECKING:
    import pandas as pd

FORMS = (".csv", ".parquet")


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
    if output is not None and output.suffix not in FORMS:
        raise typer.BadParameter(f"a name ends with {' or '.join(FORMS)}.")
    with report_failures(as_json):
        from dprelease.verification.after_publication.area_sums import areas as drawn

        found = drawn(folder, districts, query=query)
        if output is not None:
            _write_totals(found, output)
            words = f"Wrote {count_text(len(found), 'row', 'rows')} into {one_line(str(output))}."
            print_result(as_json, {"output": str(output), "rows": len(found)}, words)
            return
        rows = json.loads(found.to_json(orient="records", date_format="iso"))
        print_result(as_json, rows, table_text(_text_rows(found), wide=wide))


def _write_totals(found: pd.DataFrame, output: Path) -> None:
    """Write a frame to a new file, which must not exist yet."""
    from dprelease.errors import OutputError

    try:
        with output.open("xb") as file:
            if output.suffix == ".csv":
                file.write(found.to_csv(index=False, lineterminator="\n").encode())
            else:
                found.to_parquet(file, index=False)
    except FileExistsError:
        raise OutputError("DP-OUTPUT-014", name=output.name) from None
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=output.name, reason=reason, refused_by=problem
        ) from None


def _text_rows(found: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a frame as rows of texts, the column names first."""
    rows = [tuple(map(str, found.columns))]
    for held in found.itertuples(index=False):
        rows.append(tuple(_value_text(value) for value in held))
    return rows


def _value_text(value: Any) -> str:
    """Return a value of a frame as text; empty for a missing value."""
    if value is None or value != value:
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
