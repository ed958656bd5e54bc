"""`dprelease init`: write a first draft of a table schema."""

from __future__ import annotations

import glob
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, print_text, report_failures
from dprelease.cli.texts.frame_output import new_file, refuse_taken_path
from dprelease.errors.local_paths import check_paths
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.errors import RunState
    from dprelease.schema.source_texts import HeaderRows


def init(
    source: Annotated[
        str | None,
        typer.Argument(
            help="A file of CSV, fixed-width text, JSON lines, Parquet, Excel, OpenDocument, "
            "SPSS, Stata, SAS, DuckDB or SQLite, a pattern of such in quotes, a folder of "
            "Parquet, Delta Lake or Iceberg, or postgresql://...",
            show_default=False,
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that identifies the privacy units.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the schema to this new file.")] = None,
    peek: Annotated[
        bool,
        typer.Option("--peek", help="READ THE VALUES, and propose bounds and keys from them."),
    ] = False,
    described: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Metadata in JSON or YAML: CSVW, Frictionless, SmartNoise, a list."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="Which table of a server, a DuckDB or SQLite file or a description, or which "
            "sheet of a workbook."
        ),
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(
            help="The row or line of the column names, or several (4,5), or one of these names; 0 "
            "for a text file without names."
        ),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Option(
            help="Write also a release file of the table to this new file; without --output, the "
            "schema is written next to it, and is named like the table."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sketch a table schema from the names and types of a file, or from a description.

    Without --peek the output contains no value but codes that look like missing values, such as 99,
    and of a server only the catalogue is read. With --from no file of rows is opened.
    """
    if peek and (source is None or described is not None):
        raise typer.BadParameter("--peek needs the file itself, and can't be used with --from")
    if header is not None and (peek or described is not None):
        raise typer.BadParameter("--header can't be used with --peek or --from")
    place = _header_place(header)
    folder = next((path.parent for path in (output, release) if path is not None), None)
    with report_failures(as_json) as state:
        text = _sketch_schema(
            source, unit, folder, table, described, state if peek else None, place
        )
        if release is not None and output is None:
            output = _schema_path(text, release)
        if peek:
            from dprelease.scaffold.proposals import WARNING

            typer.echo(WARNING, err=True)
        if output is None:
            if as_json:
                print_result(True, {"schema": text}, "")
                return
            print_text(text, end=False)
            return
        for path in filter(None, (output, release)):  # neither file is written without the other
            refuse_taken_path(path)
        with new_file(output, is_confidential=peek) as file:
            file.write(text.encode())
        words = f"Wrote {one_line(str(output))}: complete the marked lines."
        written = {"output": str(output)}
        if release is not None:
            from dprelease.scaffold.release_sketch import release_sketch

            sketch = release_sketch(text, output, release)
            with new_file(release) as file:
                file.write(sketch.encode())
            written["release"] = str(release)
            written_files = " and ".join(one_line(str(path)) for path in (output, release))
            words = f"Wrote {written_files}: complete the marked lines."
            words += f" Then run: dprelease check {one_line(shlex.quote(str(release)))}"
        print_result(as_json, written, words)


def _header_place(text: str | None) -> HeaderRows | None:
    """Return the place of a header, from the text of the option; 0 for a file without a header."""
    from pydantic import TypeAdapter, ValidationError

    from dprelease.schema.source_texts import HeaderPlace

    if text is None or text == "0":
        return None if text is None else 0
    numbers = text.split(",")
    is_list = len(numbers) > 1 and all(number.strip().isdecimal() for number in numbers)
    rows = [number.strip() for number in numbers] if is_list else text
    try:
        place: HeaderRows = TypeAdapter(HeaderPlace).validate_python(rows)
    except ValidationError:
        raise typer.BadParameter(
            "--header needs the number of a row from 1 on, or of two to five rows, a name, or 0"
        ) from None
    return place


def _schema_path(schema: str, release: Path) -> Path:
    """Return a path next to a release file for a schema, named like its table."""
    import yaml

    path = release.with_name(f"{yaml.safe_load(schema)['table']}.yaml")
    return path if path.name != release.name else path.with_stem(f"{path.stem}_schema")


def _sketch_schema(
    source: str | None,
    unit: str | None,
    folder: Path | None,
    table: str | None,
    described: Path | None,
    peeked: RunState | None,
    header: HeaderRows | None,
) -> str:
    """Return the text of the schema; `peeked` records that values are read, if `--peek` is set.

    `folder`: the folder in which the schema will be, if that is known.
    """
    from dprelease.schema.server_address import is_server

    if source is not None and not is_server(source):
        check_paths(source)
    if described is not None:
        from dprelease.scaffold.metadata_sketch import translate_description

        return translate_description(
            described, None if source is None else Path(source), unit, folder, table
        )
    if source is None:
        raise typer.BadParameter("name a file to sketch, or a description of one with --from")
    if is_server(source):
        from dprelease.scaffold.server_sketch import server_sketch

        return server_sketch(source, table, unit, peek=peeked is not None, state=peeked)
    if peeked is not None:
        from dprelease.schema.source_files import source_of_path

        is_table = source_of_path(Path(source)).table_folder is not None
        # Values of the first file alone would look like those of all files.
        if not is_table and not Path(source).is_file() and glob.glob(source):
            raise typer.BadParameter("--peek reads only one file: name one of them")
        from dprelease.scaffold.proposals import peeked_sketch

        return peeked_sketch(Path(source), unit, folder, peeked, table)
    from dprelease.scaffold.sketch import sketch

    return sketch(Path(source), unit, folder, table=table, header=header)
