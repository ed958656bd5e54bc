"""Where the rows of tables are stored, to find a public table that reads rows about people.

A public table is read without noise, so its source must not be that of a table about people, by
whatever path or name. Files are compared as the system compares them: a link, a pattern or a folder
that reaches a file is that file. URIs are compared by host and path, without users, passwords,
default ports and parameters. A copy of a file can't be recognized, and neither can another name of
a server.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dprelease.schema.load import Declared
from dprelease.schema.source_types.source import Source

SCHEMES = {"s3a": "s3", "s3n": "s3", "postgres": "postgresql", "gcs": "gs", "abfs": "abfss"}
"""Schemes with the same meaning as others."""
DEFAULT_PORTS = {"postgresql": {5432}, "hdfs": {8020, 9000}, "http": {80}, "https": {443}}
PATTERN = re.compile(r"[*?\[{]")
URI = "uri"


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A place of rows: a file, a name or a URI, and in it a table or a sheet.

    `part`: the name of the table or sheet; None for all of the place, for instance a workbook
    whose sheet is not named. `reaches_more`: whether `where` is only the beginning of a URI, as for
    a folder or a pattern.
    """

    kind: str
    where: tuple[object, ...]
    part: str | None
    reaches_more: bool = False

    def shares_rows_with(self, other: RowPlace) -> bool:
        """Return whether both places may have a row in common."""
        if self.kind != other.kind:
            return False
        if self.part is not None and other.part is not None and self.part != other.part:
            return False
        if self.kind != URI:
            return self.where == other.where
        (*host, path), (*other_host, other_path) = self.where, other.where
        return host == other_host and (
            path == other_path
            or (self.reaches_more and str(other_path).startswith(str(path)))
            or (other.reaches_more and str(path).startswith(str(other_path)))
        )


def have_common_rows(some: Iterable[RowPlace], others: Iterable[RowPlace]) -> bool:
    """Return whether some places may have a row in common with other ones."""
    others = list(others)
    return any(one.shares_rows_with(other) for one in some for other in others)


def places_of(declared: Declared) -> set[RowPlace]:
    """Return the places of a table's rows.

    The tables of one database are different places. Their names are compared without case, quotes
    and the names of schemas, so that no spelling hides a table. The lines of a correspondence table
    are also rows about people.
    """
    source, lookup = declared.table.source, declared.lookup
    more = set() if lookup is None else places_of(lookup)
    if source is None:
        return {RowPlace("frame", (declared.table.name,), None), *more}
    if source.frame is not None:
        return {RowPlace("frame", (source.frame,), None), *more}
    files = source.files or (source,)
    return more.union(*(_places_of_path(declared.folder, one) for one in files))


def _places_of_path(folder: Path, source: Source) -> set[RowPlace]:
    """Return the places of a source with a path, or of a table of a catalogue."""
    name = source.table or source.sheet
    part = None if name is None else name.rpartition(".")[2].strip('"`[]').casefold()
    path = source.table_folder or source.path or ""
    if source.path is None or source.is_uri:
        address = urlsplit(path)
        if address.scheme.lower() != "file":
            return {_uri_place(path, part)}
        path = unquote(address.path)
    path = os.path.normpath(folder / path)
    files = {RowPlace("file", one, part) for one in _files(path)}
    # By its path as well, for a file that does not exist yet.
    return {RowPlace("path", (path,), part), *files}


def _uri_place(uri: str, part: str | None) -> RowPlace:
    """Return the place of a URI, whose path may be a folder or a pattern."""
    address = urlsplit(uri)
    scheme = SCHEMES.get(address.scheme.lower(), address.scheme.lower())
    host = address.netloc.lower()
    if scheme in DEFAULT_PORTS:
        server, _, port = host.rpartition("@")[2].partition(":")
        # The same server without a port and with its default port must be the same place.
        is_default = not port.isdecimal() or int(port) in DEFAULT_PORTS[scheme]
        host = server if is_default else f"{server}:{port}"
    whole = os.path.normpath(f"/{unquote(address.path)}").lstrip("/")
    beginning = PATTERN.split(whole, maxsplit=1)[0]
    is_folder = address.path.endswith("/")
    path = f"{whole}/" if whole and is_folder and beginning == whole else beginning
    return RowPlace(URI, (scheme, host, path), part, is_folder or beginning != whole)


def _files(path: str) -> Iterator[tuple[int, int]]:
    """Yield device and number of each file that a path, a pattern or a folder reaches."""
    for found in [path, *glob.iglob(path, recursive=True, include_hidden=True)]:
        inside = (
            os.path.join(folder, name)
            for folder, _, names in os.walk(found, followlinks=True)
            for name in names
        )
        for file in (found, *inside):
            try:
                status = os.stat(file)
            except (OSError, ValueError):
                continue  # a file that is not there is found missing when it is read
            if not os.path.isdir(file):
                # Not the path: links and hard links are other paths of the same file.
                yield status.st_dev, status.st_ino
