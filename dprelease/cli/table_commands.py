"""Compute custom areas, and compare releases or cells of one, on the command line."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.reporting import AsJson, Wide, print_text, report_failures
from dprelease.cli.texts.frame_output import print_frame, refuse_other_formats, value_text
from dprelease.cli.texts.text_tables import table_text

if TYPE_CHECKING:
    import pandas as pd

CellsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Only cells with this value of a key; can be repeated."),
]


def compare(
    old: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    new: Annotated[
        Path,
        typer.Argument(
            help="The folder of a later release, or the same folder.", show_default=False
        ),
    ],
    table: Annotated[
        str | None, typer.Option(help="The table, if both releases have several in common.")
    ] = None,
    old_cells: CellsOption = None,
    new_cells: CellsOption = None,
    codes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=FILE[,OLD,NEW]",
            help="A CSV file for a key whose codes changed, with the columns old and new or with "
            "columns of other names.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the changes to this new file, .csv or .parquet.")
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Compare two releases, or cells of one, with intervals; opens no data, costs nothing."""
    refuse_other_formats(output)
    cells = [_selected_cells(words) for words in (old_cells, new_cells)]
    with report_failures(as_json):
        from dprelease.verification.after_publication.changes import compare as changes

        found = changes(
            old, new, table=table, old_cells=cells[0], new_cells=cells[1],
            codes={key: _code_table(str(words)) for key, words in _selected_cells(codes).items()},
        )  # fmt: skip
        if as_json or output is not None:
            print_frame(found, output, as_json=as_json, wide=wide)
            return
        print_text(table_text(_text_rows(found), wide=wide))
        for difference in found.attrs["dprelease"]["differences"]:
            print_text(difference)


def _text_rows(changes: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return changes as rows of texts, with each interval after its value."""
    from dprelease.verification.after_publication.changes import RESULT_COLUMNS

    keys = [str(name) for name in changes.columns if name not in RESULT_COLUMNS]
    rows = [(*keys, "column", "old", "new", "change", "change in percent", "confidence")]
    for row in changes.to_dict("records"):
        numbers = (value_text(row["old"]), value_text(row["new"]))
        spans = (_with_interval(row, "change"), _with_interval(row, "percent"))
        label = (*(value_text(row[key]) for key in keys), str(row["column"]))
        rows.append((*label, *numbers, *spans, f"{100 * row['confidence']:g} %"))
    return rows


def _with_interval(row: dict[Hashable, Any], name: str) -> str:
    """Return a value with its interval, as `12 (-3 to 27)`."""
    value, lower, upper = (value_text(row[name + end]) for end in ("", "_lower", "_upper"))
    return f"{value} ({lower} to {upper})" if value and lower and upper else value


def _selected_cells(words: list[str] | None) -> dict[str, object]:
    """Return the values by key of options such as `sex=f`."""
    cells: dict[str, object] = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r} is not of the form KEY=VALUE or KEY=FILE.")
        cells[key] = value
    return cells


def _code_table(words: str) -> object:
    """Return a correspondence table of an option, such as `codes.csv,code_2019,code_2020`."""
    file, *names = words.rsplit(",", 2)
    if len(names) < 2 or Path(words).exists():
        return words
    return {"file": file, "old": names[0], "new": names[1]}


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
        from dprelease.verification.after_publication.area_sums import areas as custom_areas

        found = custom_areas(folder, districts, query=query)
        print_frame(found, output, as_json=as_json, wide=wide)
