"""Write the OpenDocument spreadsheets of a release, and compare two spreadsheets."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from dprelease.exports.workbooks.book import Book
from dprelease.exports.workbooks.ods_book import OpenDocumentBook
from dprelease.exports.workbooks.workbook import Workbooks

CHUNK = 1 << 20
"""Bytes of a part that are compared at once."""


class OpenDocument(Workbooks):
    """The format with OpenDocument spreadsheets."""

    name = ending = "ods"
    packages = ("zlib",)

    def new_book(self, title: str, author: str, language: str, scratch: Path | None) -> Book:
        """Return an empty workbook; `scratch`: a folder for the rows of a large workbook."""
        return OpenDocumentBook(title, author, language, scratch)

    def has_same_content(self, one: Path, other: Path) -> bool:
        """Return whether two spreadsheets have the same parts, whatever their compression is."""
        try:
            with ZipFile(one) as left, ZipFile(other) as right:
                sizes = [
                    [(part.filename, part.file_size) for part in each.infolist()]
                    for each in (left, right)
                ]
                return sizes[0] == sizes[1] and all(
                    mine == theirs
                    for name, _ in sizes[0]
                    for mine, theirs in zip_longest(_chunks(left, name), _chunks(right, name))
                )
        except (BadZipFile, zlib.error) as problem:
            raise ValueError("no archive") from problem


def _chunks(archive: ZipFile, name: str) -> Iterator[bytes]:
    """Yield the content of a part in pieces."""
    with archive.open(name) as part:
        while chunk := part.read(CHUNK):
            yield chunk


EXPORT = OpenDocument()
