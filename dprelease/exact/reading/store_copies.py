"""Copy the objects of a store into a private folder, once for each run, before anything is charged.

Objects may be replaced at any time. The engines of a run read the same copies, and after the ledger
was charged, no network is needed.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from dprelease.errors import DataError
from dprelease.exact.reading.sources import source_fields, unreadable_error
from dprelease.exact.settings import Settings
from dprelease.schema.load import Declared
from dprelease.schema.source_files import match_objects, problem_of_objects
from dprelease.schema.source_types.source import Source
from dprelease.system.deferred_signals import reraise_handler_errors
from dprelease.system.stores import objects
from dprelease.system.stores.address import WEB, StoreAddress
from dprelease.system.stores.failure import Cause, StoreError
from dprelease.system.stores.web import download

MOST_NAME_BYTES = 200


class StoreCopies:
    """The copies of a run, in a folder that is removed when the run ends."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._copied: dict[str, tuple[Path, ...]] = {}

    def close(self) -> None:
        """Remove the folder with all copies."""
        self._stack.close()

    def files(self, declared: Declared, source: Source) -> tuple[Path, ...]:
        """Return the copies of all objects of a source, in the order of their keys.

        Raises DataError: DP-DATA-001 if there is no object, 024 if the objects can't be copied, or
        are no complete table, 025 without the package that reads stores.
        """
        address = source.store
        if address is None:
            raise TypeError("the source is not in a store")
        if address.url not in self._copied:
            self._copied[address.url] = self._copy_source(declared, source, address)
        return self._copied[address.url]

    def _copy_source(
        self, declared: Declared, source: Source, address: StoreAddress
    ) -> tuple[Path, ...]:
        if address.scheme != WEB and not objects.is_installed():
            table = declared.table.name
            raise DataError("DP-DATA-025", table=table, package=objects.PACKAGE, extra="stores")
        cause: Cause | None = None
        copies: tuple[Path, ...] = ()
        with reraise_handler_errors():
            try:
                copies = _copy_objects(declared, source, address, self._new_folder())
            except StoreError as problem:
                cause = problem.cause
            except OSError:
                cause = Cause.NO_SPACE
        if cause is not None and cause is not Cause.MISSING:
            raise unreadable_error(declared, *cause.value)
        if not copies:
            raise DataError("DP-DATA-001", **source_fields(declared), format=source.type.label)
        return copies

    def _new_folder(self) -> Path:
        """Return a new folder for the copies of one source."""
        if self._folder is None:
            self._folder = self._stack.enter_context(self._settings.scratch())
        folder = self._folder / str(len(self._copied))
        folder.mkdir(exist_ok=True)
        return folder


def _copy_objects(
    declared: Declared, source: Source, address: StoreAddress, folder: Path
) -> tuple[Path, ...]:
    """Copy all objects of a source into a folder, and return the paths of the copies.

    Raises DataError: DP-DATA-024 if the objects are no complete table. Raises StoreError or OSError
    if an object can't be read, or its copy can't be written.
    """
    if address.scheme == WEB:
        copy = folder / _local_name(address.key)
        with _new_file(copy) as file:
            download(address, file)
        return (copy,)
    store = objects.Store(address)
    found = _find_objects(store, source, address)
    keys = [one.key for one in found]
    problem = problem_of_objects(source, address, keys, objects.StoreTree(store))
    if problem is not None:
        raise unreadable_error(declared, *problem)
    copies = []
    for i, one in enumerate(found):
        # A folder for each, because objects in different folders may have the same name.
        (folder / str(i)).mkdir()
        copies.append(folder / str(i) / _local_name(one.key))
        with _new_file(copies[i]) as file:
            store.copy(one, file)
    # Objects that came or went during the copy would make a table that never existed.
    if _find_objects(store, source, address) != found:
        raise StoreError(Cause.CHANGED)
    return tuple(copies)


def _find_objects(
    store: objects.Store, source: Source, address: StoreAddress
) -> list[objects.StoredObject]:
    """Return the objects of a source, in the order of their keys."""
    exact = None if source.is_folder else store.find(address.key)
    if exact is not None or not (source.is_folder or address.has_pattern):
        return [] if exact is None else [exact]
    found = {one.key: one for one in store.list(address.fixed_folder)}
    return [found[key] for key in match_objects(source, found)]


def _local_name(key: str) -> str:
    """Return the name of a copy: the name of the object, shortened if files can't have it."""
    # The end of a long name is kept: it has the ending by which the format is recognized.
    return key.rpartition("/")[2].encode()[-MOST_NAME_BYTES:].decode(errors="ignore")


def _new_file(path: Path) -> BinaryIO:
    """Create a file that only this user can read, and open it for writing."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
