"""Check the unpacked size of ZIP packages with XML parts, such as workbooks, before reading."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

MOST_UNPACKED = 1 << 32
"""Maximum bytes of a sheet, which is read row by row."""

MOST_HELD = 1 << 29
"""Maximum bytes of all other XML parts together, which are held in memory: texts, styles and the
list of sheets."""

PROLOG_BYTES = 1 << 16
"""Number of first bytes of a part in which its root element must begin."""

SHEETS = ("xl/worksheets/", "content.xml")
XML_ENDINGS = (".xml", ".rels")

PROTECTED_MAGIC = b"\xd0\xcf\x11\xe0"
"""First bytes of files that Excel has encrypted, and of files before Excel 2007."""


class UnreadableWorkbook(Exception):
    """A workbook can't be read; the arguments say why, and what to do, without quoting the file."""


DAMAGED = UnreadableWorkbook("a part of it is damaged or not supported", "save it again as .xlsx")


class _PartRoot(Exception):
    """The root element of a part begins, or a declaration that may not come before it."""


def refuse_large_packages(file: Path) -> None:
    """Raise `UnreadableWorkbook` for a file that is not a package, or is too large when unpacked.

    A part is never longer than the size in the package, because Python's `zipfile` reads no more.
    """
    with file.open("rb") as raw:
        begin = raw.read(4)
    if begin == PROTECTED_MAGIC:
        raise UnreadableWorkbook(
            "it is protected by a password, or in the format before Excel 2007",
            "save it as .xlsx without a password, in a place where it is safe",
        )
    if not zipfile.is_zipfile(file):
        raise UnreadableWorkbook(
            "it is not an .xlsx file", "save it as .xlsx, or declare its `format`"
        )
    held = 0
    with zipfile.ZipFile(file) as package:
        for part in package.infolist():
            if not part.filename.lower().endswith(XML_ENDINGS):
                continue  # pictures and macros are not opened
            is_sheet = part.filename.startswith(SHEETS) and "/_rels/" not in part.filename
            held += 0 if is_sheet else part.file_size
            if held > MOST_HELD or part.file_size > MOST_UNPACKED:
                raise UnreadableWorkbook(
                    "it is larger, when unpacked, than the limit for workbooks",
                    "store it as Parquet or CSV",
                )
            with package.open(part) as opened:
                _refuse_entities(opened.read(PROLOG_BYTES))


def _refuse_entities(begin: bytes) -> None:
    """Raise `UnreadableWorkbook` for a part that declares entities.

    Entities can expand to very long texts.
    """
    parser = expat.ParserCreate()
    begun: list[bool] = []

    def root(*_: object) -> NoReturn:
        """Note that the root element has begun, and stop the parser."""
        begun.append(True)
        raise _PartRoot

    def declaration(*_: object) -> NoReturn:
        """Stop the parser at a declaration of the document type."""
        raise _PartRoot

    parser.StartElementHandler = root
    parser.StartDoctypeDeclHandler = declaration
    with suppress(_PartRoot, expat.ExpatError, ValueError):  # the part read so far decides
        parser.Parse(begin, False)
    if not begun:
        raise DAMAGED


@contextmanager
def refuse_damaged() -> Iterator[None]:
    """Raise `UnreadableWorkbook` for any exception of a library that fails at a damaged file."""
    problem: UnreadableWorkbook | None = None
    try:
        yield
    except UnreadableWorkbook as found:
        problem = found
    except Exception:  # noqa: BLE001 - libraries raise any exception for a damaged part
        problem = DAMAGED
    if problem is not None:
        raise UnreadableWorkbook(*problem.args)
