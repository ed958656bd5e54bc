"""Read and write objects of S3, Google Cloud Storage and Azure.

The credentials come from the environment.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dprelease.system.stores.address import StoreAddress
from dprelease.system.stores.failure import Cause, StoreError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PACKAGE = "obstore"
CHUNK_BYTES = 16 << 20
"""Bytes of an object that one request reads."""

MOST_RETRIES, RETRY_SECONDS = 4, 60


@dataclass(frozen=True, slots=True, order=True)
class StoredObject:
    """An object of a store, with values that change when it is replaced."""

    key: str
    size: int
    tag: str | None
    version: str | None
    modified: datetime


def is_installed() -> bool:
    """Return whether the package is installed that reads stores."""
    return importlib.util.find_spec(PACKAGE) is not None


class Store:
    """One bucket or container."""

    def __init__(self, address: StoreAddress) -> None:
        with _failures():
            self._store = _open_store(address)

    def find(self, key: str) -> StoredObject | None:
        """Return the object with this key; None if there is none."""
        import obstore

        try:
            with _failures():
                return _stored_object(obstore.head(self._store, key))
        except StoreError as problem:
            if problem.cause is not Cause.MISSING:
                raise
        return None

    def list(self, folder: str, after: str | None = None) -> Iterator[StoredObject]:
        """Yield all objects in a folder and in the folders inside it, in the order of their keys.

        `after`: a text; only objects whose keys come after it are listed.
        """
        import obstore

        with _failures():
            for batch in obstore.list(self._store, folder or None, offset=after, chunk_size=1000):
                yield from map(_stored_object, batch)

    def copy(self, stored: StoredObject, target: BinaryIO) -> None:
        """Write the bytes of an object into a file.

        Each request names the tag of the object, so that all bytes are of the same version.
        """
        import obstore

        for start in range(0, stored.size, CHUNK_BYTES):
            end = min(start + CHUNK_BYTES, stored.size)
            options: Any = {"range": (start, end), "if_match": stored.tag}
            with _failures(missing=Cause.CHANGED):
                chunk = obstore.get(self._store, stored.key, options=options).bytes()
            # A server that ignores the range or the tag must not pass for one that respects them.
            if len(chunk) != end - start:
                raise StoreError(Cause.CHANGED)
            target.write(chunk)

    def read(self, stored: StoredObject) -> bytes:
        """Return the bytes of an object."""
        target = io.BytesIO()
        self.copy(stored, target)
        return target.getvalue()

    def write(self, key: str, content: bytes | Path) -> None:
        """Write an object, from bytes or from a file, in place of any object with this key."""
        import obstore

        with _failures():
            obstore.put(self._store, key, content)

    def write_if_unchanged(self, key: str, content: bytes, before: StoredObject | None) -> None:
        """Write an object if it is still `before`; None if it may not exist.

        Raises StoreError with the cause CHANGED if another program wrote or removed it since.
        """
        import obstore

        version = {} if before is None else {"e_tag": before.tag, "version": before.version}
        known = {name: value for name, value in version.items() if value is not None}
        mode: Any = "create" if before is None else known
        with _failures(missing=Cause.CHANGED):
            obstore.put(self._store, key, content, mode=mode, use_multipart=False)

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; those that do not exist are left out."""
        import obstore

        for key in keys:
            with contextlib.suppress(FileNotFoundError), _failures():
                obstore.delete(self._store, key)


class StoreTree:
    """The names of the objects of a store, as files in folders (`lake_tables.FolderTree`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def places(self, file: Path) -> Iterable[Path]:
        """Return the path of an object; stores have no links."""
        return (file,)

    def is_folder(self, path: Path) -> bool:
        """Return whether a key begins with the path and a slash."""
        return next(self._list(path, ""), None) is not None

    def is_file(self, path: Path) -> bool:
        """Return whether there is an object with this key."""
        with contextlib.suppress(StoreError):
            return self._store.find(path.as_posix()) is not None
        return False

    def names(self, folder: Path, start: str = "") -> Sequence[str]:
        """Return the names in a folder that begin with a text.

        There are none if the store refuses to list them.
        """
        depth = len(folder.parts)
        return sorted({Path(one.key).parts[depth] for one in self._list(folder, start)})

    def _list(self, folder: Path, start: str) -> Iterator[StoredObject]:
        """Yield the objects in a folder whose names, or whose folder there, begin with a text."""
        key = "" if folder == Path() else f"{folder.as_posix()}/"
        with contextlib.suppress(StoreError):
            for one in self._store.list(key.rstrip("/"), f"{key}{start}" if start else None):
                if not one.key.startswith(f"{key}{start}"):
                    return  # keys are in order
                yield one


def _open_store(address: StoreAddress) -> ObjectStore:
    """Return the client of a bucket, configured by the environment."""
    from obstore.store import AzureStore, GCSStore, S3Store

    retries: Any = {
        "max_retries": MOST_RETRIES,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
    }
    if address.scheme == "s3":
        return S3Store(address.container, retry_config=retries)
    if address.scheme == "gs":
        return GCSStore(address.container, retry_config=retries)
    account: Any = {"account_name": address.account} if address.account else {}
    return AzureStore(address.container, retry_config=retries, **account)


def _stored_object(found: Any) -> StoredObject:
    """Return an object as a listing of the store describes it."""
    return StoredObject(
        found["path"], found["size"], found["e_tag"], found["version"], found["last_modified"]
    )


@contextmanager
def _failures(missing: Cause = Cause.MISSING) -> Iterator[None]:
    """Raise StoreError, without the client's message, for each error of the client.

    `missing`: the cause if there is no such object.
    """
    from obstore import exceptions

    cause: Cause | None = None
    try:
        yield
    except FileNotFoundError:
        cause = missing
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
        cause = Cause.DENIED
    except (
        exceptions.AlreadyExistsError,
        exceptions.PreconditionError,
        exceptions.NotModifiedError,
    ):
        cause = Cause.CHANGED
    except (exceptions.BaseError, OSError, ValueError):
        cause = Cause.UNREACHABLE
    except BaseException as problem:
        # The client panics at an endpoint that is no address; this error is no Exception.
        if type(problem).__name__ != "PanicException":
            raise
        cause = Cause.UNREACHABLE
    if cause is not None:
        raise StoreError(cause)
