"""Copy a published release into an object store or a database.

A store can't rename a folder, so the manifest is the mark of a complete copy: it is removed before
any other object of the folder changes, and written after all of them, only if there is none. While
objects are copied, the folder holds the object `CLAIM`, which names the release; after an
interruption it shows which release to complete, and a copy of another release is refused.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.documents.encoding import NAME, SIGNATURE, canonical
from dprelease.documents.file_records import listed_files
from dprelease.errors import OutputError
from dprelease.errors.argument_types import checked_arguments
from dprelease.errors.local_paths import check_paths
from dprelease.exports.export import PublishedRelease
from dprelease.release.folder import lock_target, refuse_inside_release
from dprelease.schema.server_address import KEYS, has_password, has_unknown_key, is_server
from dprelease.schema.source_types.registry import type_of_suffix
from dprelease.system.files import reason_of
from dprelease.system.stores.address import WEB, StoreAddress, address_problem, store_address
from dprelease.system.stores.failure import Cause, StoreError
from dprelease.system.stores.objects import Store, StoredObject, is_installed
from dprelease.verification.after_publication.export_copy import (
    checked_release,
    refuse_changed_files,
)

if TYPE_CHECKING:
    from dprelease.exports.databases.database import Database


CLAIM = "dprelease-copy.json"
"""The name of the object that names the release while it is copied."""


@dataclass(frozen=True, slots=True)
class StoreResult:
    """The result of a copy into a store: the names of the files that were written."""

    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {"files": list(self.files)}


@checked_arguments
def export_to_store(folder: str | Path, uri: str, *, overwrite: bool = False) -> StoreResult:
    """Copy all files of a release into a folder of an object store; its manifest comes last.

    If the same release is already there, nothing is written. A copy that was interrupted is
    completed.

    Parameters
    ----------
    folder
        The folder of the release. The digests of its files are compared with the manifest first.
    uri
        The folder in the store, such as "s3://bucket/folder". Credentials are read from the
        environment.
    overwrite
        Whether to replace another release in that folder. Until the copy is complete, the folder
        holds no manifest.

    Raises
    ------
    OutputError
        DP-OUTPUT-011 if there is no such folder; DP-EXPORT-014 if the URI is wrong, the store
        refuses, or another program writes there; 015 if the folder holds other objects.
    VerificationError, Findings
        As in `export`.
    """
    check_paths(folder)
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError("DP-OUTPUT-011", path=folder)
    address = _address(uri)
    record, _ = checked_release(folder)
    with _store_failures():
        target = _StoreFolder(Store(address), address.key.rstrip("/"))
        names = sorted(listed_files(record.to_json()))
        manifest = (folder / NAME).read_bytes()
        if (folder / SIGNATURE).is_file():
            names.append(SIGNATURE)
        if target.is_complete(manifest, names):
            return StoreResult(())
        target.claim(manifest, names, overwrite)
        for name in names:
            target.write(name, folder / name)
        # Last, so that the manifest vouches for no file that changed while it was copied.
        refuse_changed_files(folder, record)
        target.complete(manifest)
    return StoreResult((*names, NAME))


def _address(uri: object) -> StoreAddress:
    """Return the address of a folder in a store; raise DP-EXPORT-014 for any other text."""
    way = "write s3://bucket/folder, gs://bucket/folder or az://container/folder"
    address = store_address(uri if isinstance(uri, str) else None)
    if address is None or address.scheme == WEB:
        raise OutputError("DP-EXPORT-014", problem="its URI is not that of a store", way=way)
    problem = address_problem(address)
    if problem is not None:
        raise OutputError("DP-EXPORT-014", problem=problem[0], way=problem[1])
    if not address.key.rstrip("/") or address.has_pattern:
        raise OutputError("DP-EXPORT-014", problem="its URI names no single folder", way=way)
    if not is_installed():
        problem_text, way = "a package is missing", "run: pip install 'dprelease[stores]'"
        raise OutputError("DP-EXPORT-014", problem=problem_text, way=way)
    return address


@contextmanager
def _store_failures() -> Iterator[None]:
    """Raise DP-EXPORT-014 for a failure of the store during the block."""
    cause: Cause | None = None
    try:
        yield
    except StoreError as problem:
        cause = problem.cause
    if cause is None:
        return
    reason, way = cause.value
    if cause is Cause.CHANGED:
        reason = "another program writes there, or the store can't write only new objects"
    elif cause is Cause.DENIED:
        way = "check the credentials, and their permission to list, read, write and delete"
    raise OutputError("DP-EXPORT-014", problem=reason, way=way)


class _StoreFolder:
    """A folder of a store that receives a release, with the objects found there at the start."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._start = store, f"{key}/"
        self._found: dict[str, StoredObject] = {
            one.key.removeprefix(self._start): one
            for one in store.list(key)
            if one.key.startswith(self._start)
        }

    def is_complete(self, manifest: bytes, names: Collection[str]) -> bool:
        """Return whether this release is there with all its files, and nobody is copying."""
        if CLAIM in self._found or not self._found.keys() >= {NAME, *names}:
            return False
        return self._store.read(self._found[NAME]) == manifest

    def claim(self, manifest: bytes, names: Collection[str], overwrite: bool) -> None:
        """Claim the folder for a release, and remove the manifest and files of another one.

        Raises
        ------
        OutputError
            DP-EXPORT-015 if the folder holds files of no release; or, unless `overwrite`, another
            release or an unfinished copy of one.
        """
        digest = json.loads(manifest)["digest"]
        begun, there = self._read(CLAIM), self._read(NAME)
        old = {*_names(begun.get("files")), *_names(_file_names(there))}
        others = self._found.keys() - {NAME, SIGNATURE, CLAIM} - old
        if others or (NAME in self._found and not there):
            raise OutputError("DP-EXPORT-015", found="files that are not of a release", way="")
        is_other = (there and there.get("digest") != digest) or (
            CLAIM in self._found and begun.get("digest") != digest
        )
        if is_other and not overwrite:
            found = "another release, or a part of one that is being copied or was interrupted"
            raise OutputError("DP-EXPORT-015", found=found, way=", or replace it with --overwrite")
        self._mine = json.dumps({"digest": digest, "files": sorted({*names, *old})}).encode()
        # Of two programs that start at the same time, only one gets the claim.
        self._store.write_if_unchanged(self._start + CLAIM, self._mine, self._found.get(CLAIM))
        stale = [NAME, *sorted(self._found.keys() - {NAME, CLAIM, *names})]
        self._store.remove([self._start + name for name in stale if name in self._found])

    def write(self, name: str, file: Path) -> None:
        """Write one file of the release."""
        self._store.write(self._start + name, file)

    def complete(self, manifest: bytes) -> None:
        """Write the manifest if the folder is still claimed for this release, and end the claim."""
        claim = self._store.find(self._start + CLAIM)
        # Meanwhile, another program may have begun to replace this release.
        if claim is None or self._store.read(claim) != self._mine:
            raise StoreError(Cause.CHANGED)
        self._store.write_if_unchanged(self._start + NAME, manifest, None)
        self._store.remove([self._start + CLAIM])

    def _read(self, name: str) -> dict[str, Any]:
        """Return an object of the folder that holds a JSON object; empty if there is none."""
        if name not in self._found:
            return {}
        try:
            found = json.loads(self._store.read(self._found[name]))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _file_names(manifest: Mapping[str, Any]) -> object:
    """Return the names of the files that a manifest lists; None if it is no manifest."""
    try:
        return list(listed_files(manifest))
    except (KeyError, TypeError, AttributeError):
        return None


def _names(listed: object) -> set[str]:
    """Return the texts in a list, which anybody may have written."""
    return {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()


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

    problem, refused_by = "", None
    try:
        with _open_database(where, schema) as target:
            manifest = canonical(record.to_json()).decode()
            words = language or metadata.language
            tables = write_release(target, release, manifest, overwrite=overwrite, language=words)
            # Last, so that nothing is committed of a release that was replaced meanwhile.
            refuse_changed_files(folder, record)
            target.commit()
    except DatabaseError as refused:
        problem, refused_by = str(refused), refused.refused_by
    except OSError as refused:
        problem, refused_by = reason_of(refused), refused
    if problem:
        raise OutputError("DP-EXPORT-011", problem=problem.rstrip("."), refused_by=refused_by)
    return DatabaseResult(tuple(tables))


@contextmanager
def _open_database(where: str, schema: str | None) -> Iterator[Database]:
    """Yield an open database; if the block fails, a file that is new is removed.

    The file is locked, so that no other export has written to it when it is removed. Raises the
    errors of `export_to_database`, and OSError if the file can't be locked.
    """
    from dprelease.exports.databases.database import DatabaseError

    if not is_server(where):
        refuse_inside_release(Path(where))
    with nullcontext() if is_server(where) else lock_target(Path(where)):
        is_new = not is_server(where) and not os.path.lexists(where)
        target: Database | None = None
        done = False
        try:
            target = _open(where, schema)  # DuckDB creates the file, and may fail afterwards
            yield target
            done = True
        finally:
            with suppress(DatabaseError):
                if target is not None:
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
    from dprelease.exports.databases.database import DuckDBFile, SQLiteFile

    return DuckDBFile(where) if kind.name == "duckdb" else SQLiteFile(where)
