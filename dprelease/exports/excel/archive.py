"""A workbook's archive with nothing of the hour or the machine in it; two of them compared."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

WRITTEN = (1980, 1, 1, 0, 0, 0)
"""When every part of an archive was written: the first time that the format knows."""

CORE = "docProps/core.xml"
TIMES = re.compile(rb"(<dcterms:(created|modified)\b[^>]*>)[^<]*")

IO = "IO_"
"""How errors of the system begin, as the library of XML calls them."""

MOST_TIMES = 4
"""Times as large as what it is compared with, a workbook is not looked into."""


def without_times(source: Path, target: Path) -> None:
    """Write an archive again, its parts in their order, without the times in it."""
    with ZipFile(source) as read, ZipFile(target, "w", ZIP_DEFLATED) as write:
        for part in read.infolist():
            info = ZipInfo(part.filename, WRITTEN)
            info.compress_type, info.file_size = ZIP_DEFLATED, part.file_size
            info.create_system, info.external_attr = 3, 0o600 << 16
            with read.open(part) as one, write.open(info, "w") as other:
                if part.filename == CORE:
                    other.write(TIMES.sub(rb"\g<1>1980-01-01T00:00:00Z", one.read()))
                else:
                    shutil.copyfileobj(one, other)


def reads_same(one: Path, other: Path) -> bool:
    """Return whether a workbook has the parts of another, and the same in every cell.

    Raises
    ------
    OSError, ValueError, KeyError
        If one is no workbook.
    """
    try:
        with ZipFile(one) as held, ZipFile(other) as made:
            sizes = [sum(part.file_size for part in each.infolist()) for each in (held, made)]
            if sorted(held.namelist()) != sorted(made.namelist()):
                return False
        if sizes[0] > MOST_TIMES * sizes[1]:
            return False
        return all(left == right for left, right in _side_by_side(one, other))
    except BadZipFile as problem:
        raise ValueError("no archive") from problem


def _side_by_side(one: Path, other: Path) -> Iterator[tuple[Any, Any]]:
    from itertools import zip_longest

    yield from zip_longest(_cells(one), _cells(other))


def _cells(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield what every sheet says, in order: its name and state, then each cell."""
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True)
    try:
        for sheet in book.worksheets:
            yield sheet.title, sheet.sheet_state
            for row in sheet.iter_rows():
                yield tuple((c.value, c.data_type) for c in row)
    finally:
        book.close()


@contextmanager
def system_errors() -> Iterator[None]:
    """Let what the library of XML says of a disk be the system's own error, as of other files.

    Raises
    ------
    OSError
        With the number that its name stands for: IO_ENOSPC is a full disk.
    """
    from lxml.etree import SerialisationError

    number = 0
    try:
        yield
    except SerialisationError as problem:
        told = str(problem)
        if not told.startswith(IO):
            raise
        number = getattr(errno, told.removeprefix(IO), errno.EIO)
    if number:
        raise OSError(number, os.strerror(number))
