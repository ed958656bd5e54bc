"""Write a published release in other formats, or a report on it, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import (
    AsJson,
    LedgerToCheck,
    SignersToCheck,
    print_result,
    report_failures,
)
from dprelease.errors.local_paths import uri_fields
from dprelease.errors.printable import count_text, one_line
from dprelease.schema.release_parts.extension_names import FORMATS, format_name


def _check_formats(names: list[str]) -> list[str]:
    """Return the names of formats, or a database or store alone; refuse an unknown name."""
    places = [name for name in names if _is_database(name) or _is_store(name)]
    if places and len(names) > 1:
        raise typer.BadParameter("a database or store can't be used together with other formats.")
    for name in names:
        if format_name(name) not in (*FORMATS, *places):
            from dprelease.errors.suggestions import nearest

            known = ", ".join(FORMATS)
            raise typer.BadParameter(f"{name!r} is not one of {known}{nearest(name, FORMATS)}.")
    return names


def _is_database(name: str) -> bool:
    """Return whether a name is that of a database file, or the address of a server."""
    from dprelease.schema.server_address import is_server
    from dprelease.schema.source_types.registry import type_of_suffix

    kind = type_of_suffix(Path(name).suffix.lower())
    return is_server(name) or (kind is not None and kind.name in ("duckdb", "sqlite"))


def _is_store(name: str) -> bool:
    """Return whether a name is the URI of a folder in an object store."""
    return uri_fields(name) is not None and not _is_database(name)


def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    to: Annotated[
        list[str],
        typer.Option(
            help="A format, which can be repeated; or a database: FILE.duckdb, FILE.sqlite or "
            "postgresql://...; or a folder in a store: s3://, gs:// or az://",
            metavar=f"[{'|'.join(FORMATS)}|DATABASE|URI]",
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
    schema: Annotated[
        str | None, typer.Option(help="The schema on a server, which must exist.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace releases in the database, or in the folder."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a release in other formats, into a database or a store; it is not changed itself."""
    is_place = _is_database(to[0]) or _is_store(to[0])
    if is_place and (output is not None or wide or len(language or ()) > 1):
        raise typer.BadParameter("--output, --wide and several languages need files.")
    if _is_store(to[0]) and (language or schema is not None):
        raise typer.BadParameter("--language and --schema can't be used with a store.")
    if not is_place and (overwrite or schema is not None):
        raise typer.BadParameter("--overwrite and --schema need a database.")
    with report_failures(as_json) as state:
        if _is_store(to[0]):
            from dprelease.verification.after_publication.store_export import export_to_store

            copied = export_to_store(folder, to[0], overwrite=overwrite)
            files = count_text(len(copied.files), "file", "files")
            text = f"Copied {files} into the store." if copied.files else "It is already there."
            print_result(as_json, copied.to_json(), text)
            return
        if _is_database(to[0]):
            from dprelease.verification.after_publication.store_export import export_to_database

            found = export_to_database(
                folder,
                to[0],
                schema=schema,
                overwrite=overwrite,
                language=language[0] if language else None,
            )
            tables = count_text(len(found.tables), "table", "tables")
            text = f"Wrote {tables} into the database." if found.tables else "It is already there."
            print_result(as_json, found.to_json(), text)
            return
        from dprelease.verification.after_publication.export_copy import export as write

        result = write(
            folder, to, wide=wide or None, languages=language or None, output=output, state=state
        )
        files = count_text(len(result.files), "file", "files")
        print_result(as_json, result.to_json(), one_line(f"Wrote {files} in {result.folder}."))


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
    ledger: LedgerToCheck = None,
    signers: SignersToCheck = None,
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
