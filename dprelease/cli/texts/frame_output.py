"""Print a frame of results as a table or JSON; write results to a new file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from dprelease.cli.reporting import print_result
from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import count_text, one_line

if TYPE_CHECKING:
    import pandas as pd

FORMS = (".csv", ".parquet")


def refuse_other_formats(output: Path | None) -> None:
    """Refuse an output file whose name does not end with the ending of a format."""
    if output is not None and output.suffix not in FORMS:
        raise typer.BadParameter(f"a name ends with {' or '.join(FORMS)}.")


def print_frame(frame: pd.DataFrame, output: Path | None, *, as_json: bool, wide: bool) -> None:
    """Print a frame; if there is an output file, write the frame to it instead."""
    if output is not None:
        _write_frame(frame, output)
        words = f"Wrote {count_text(len(frame), 'row', 'rows')} into {one_line(str(output))}."
        print_result(as_json, {"output": str(output), "rows": len(frame)}, words)
        return
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    print_result(as_json, rows, table_text(_text_rows(frame), wide=wide))


def _write_frame(found: pd.DataFrame, output: Path) -> None:
    """Write a frame to a new file, which must not exist yet."""
    with new_file(output) as file:
        if output.suffix == ".csv":
            file.write(found.to_csv(index=False, lineterminator="\n").encode())
        else:
            found.to_parquet(file, index=False)


@contextmanager
def new_file(path: Path, *, is_confidential: bool = False) -> Iterator[BinaryIO]:
    """Open a file that must not exist yet; only its owner can read a confidential file."""
    from dprelease.errors import OutputError

    refuse_taken_path(path)
    try:
        with path.open("xb") as file:
            if is_confidential:
                # Before the first byte is written.
                path.chmod(0o600)
            yield file
    except FileExistsError:
        raise OutputError("DP-OUTPUT-014", name=path.name, remedy="remove the file first") from None
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise OutputError(
            "DP-OUTPUT-002", name=path.name, reason=reason, refused_by=problem
        ) from None


def refuse_taken_path(path: Path) -> None:
    """Raise OutputError for a path that exists, DP-OUTPUT-014, or is in a release, 024."""
    from dprelease.errors import OutputError
    from dprelease.release.folder import refuse_inside_release

    refuse_inside_release(path)
    if os.path.lexists(path):
        raise OutputError("DP-OUTPUT-014", name=path.name, remedy="remove the file first")


def check_chart_path(path: Path) -> None:
    """Raise OutputError for a chart that can't be drawn, or would be in a release, 024."""
    from dprelease.planning.charts import require_drawable
    from dprelease.release.folder import refuse_inside_release

    require_drawable(path)
    refuse_inside_release(path)


def _text_rows(found: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a frame as rows of texts, the column names first."""
    rows = [tuple(map(str, found.columns))]
    for held in found.itertuples(index=False):
        rows.append(tuple(value_text(value) for value in held))
    return rows


def value_text(value: Any) -> str:
    """Return a value of a frame as text; empty for a missing value."""
    if value is None or value != value:
        return ""
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
