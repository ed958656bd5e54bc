"""Write a published release into a database: all tables and the manifest, or nothing."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.encoding import canonical
from dprelease.errors import OutputError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exports.export import PublishedRelease
from dprelease.release.folder import lock_target, refuse_inside_release
from dprelease.schema.server_address import KEYS, has_password, has_unknown_key, is_server
from dprelease.schema.source_types.registry import type_of_suffix
from dprelease.system.files import reason_of
from dprelease.verification.after_publication.export_copy import (
    checked_release,
    refuse_changed_files,
)

if TYPE_CHECKING:
    from dprelease.exports.databases.database import Database


@dataclass(frozen=True, slots=True)
class DatabaseResult:
    """The result of an export into a database: the names of the tables that were written."""

    tables: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {"tables": list(self.tables)}


@checked_arguments
def export_to_database(
    folder: str | Path,
    database: str | Path,
    *,
    schema: str | None = None,
    overwrite: bool = False,
    language: str | None = None,
) -> DatabaseResult:
    """Write the tables of a release and its manifest into a database, in one transaction.

    If the same release is already there, nothing is written, unless `overwrite` is set.

    Parameters
    ----------
    folder
        The folder of the release. The digests of its files are compared with the manifest first.
    database
        The path of a DuckDB or SQLite file, which may be new, or the address postgresql://... of a
        database of a server, whose password libpq finds elsewhere.
    schema
        The schema of the tables on a server, which must exist; by default public.
    overwrite
        Whether to replace the releases in the database that have tables of the same names.
    language
        The language of labels in comments; by default the first language of the release.

    Raises
    ------
    OutputError
        DP-OUTPUT-011 if there is no such folder; DP-EXPORT-011 if the database can't be opened or
        refuses a statement; 012 for a table that exists already; 013 for a name that is too long;
        DP-OUTPUT-006 if another export is writing to the file, 024 if it would be in a release;
        DP-REPORT-003 if the release has no texts in the language.
    VerificationError, Findings
        As in `export`.
    """
    check_paths(folder, None if is_server(str(database)) else database)
    folder, where = Path(folder), str(database)
    if not folder.is_dir():
        raise OutputError("DP-OUTPUT-011", path=folder)
    record, metadata = checked_release(folder)
    if language is not None and language not in metadata.languages:
        known = ", ".join(metadata.languages)
        raise OutputError("DP-REPORT-003", language=language, known=known)
    release = PublishedRelease(folder, record, metadata)
    from dprelease.exports.databases.database import DatabaseError, write_release

    problem = ""
    try:
        with _opened(where, schema) as target:
            manifest = canonical(record.to_json()).decode()
            words = language or metadata.language
            tables = write_release(target, release, manifest, overwrite=overwrite, language=words)
            # Last, so that nothing is committed of a release that was replaced meanwhile.
            refuse_changed_files(folder, record)
            target.commit()
    except DatabaseError as refused:
        problem = str(refused)
    except OSError as refused:
        problem = reason_of(refused)
    if problem:
        raise OutputError("DP-EXPORT-011", problem=problem.rstrip("."))
    return DatabaseResult(tuple(tables))


@contextmanager
def _opened(where: str, schema: str | None) -> Iterator[Database]:
    """Yield an open database; if the block fails, a file that is new is removed.

    The file is locked, so that no other export has written to it when it is removed. Raises the
    errors of `export_to_database`, and OSError if the file can't be locked.
    """
    from dprelease.exports.databases.database import DatabaseError

    if not is_server(where):
        refuse_inside_release(Path(where))
    with nullcontext() if is_server(where) else lock_target(Path(where)):
        is_new = not is_server(where) and not os.path.lexists(where)
        target = _open(where, schema)
        done = False
        try:
            yield target
            done = True
        finally:
            with suppress(DatabaseError):
                target.close()
            # A file that was there before may hold other tables, and stays.
            for end in ("", ".wal", "-journal") if is_new and not done else ():
                with suppress(OSError):
                    os.unlink(f"{where}{end}")


def _open(where: str, schema: str | None) -> Database:
    """Return an open database; raise the errors of `export_to_database`."""
    if is_server(where):
        if has_password(where) or has_unknown_key(where):
            problem = (
                f"its address may have no password, and only these parameters: {', '.join(KEYS)}"
            )
            raise OutputError("DP-EXPORT-011", problem=problem)
        if importlib.util.find_spec("adbc_driver_postgresql") is None:
            problem = "the driver is not installed: pip install 'dprelease[postgres]'"
            raise OutputError("DP-EXPORT-011", problem=problem)
        from dprelease.exports.databases.postgres_server import PUBLIC, PostgresServer

        return PostgresServer(where, schema or PUBLIC)
    kind = type_of_suffix(Path(where).suffix.lower())
    if kind is None or kind.name not in ("duckdb", "sqlite"):
        problem = "its name has no ending of a DuckDB or SQLite file, such as .duckdb or .sqlite"
        raise OutputError("DP-EXPORT-011", problem=problem)
    if schema is not None:
        raise OutputError("DP-EXPORT-011", problem="only a server has schemas")
    from dprelease.exports.databases.database_files import DuckDBFile, SQLiteFile

    return DuckDBFile(where) if kind.name == "duckdb" else SQLiteFile(where)
