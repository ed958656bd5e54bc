"""ZIP packages of XML parts, as workbooks are: what they unpack to is told before any is read."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

MOST_UNPACKED = 1 << 32
"""Bytes of a sheet, which is read row by row."""

MOST_HELD = 1 << 29
"""Bytes of all other XML parts together, which are held: texts, styles, the list of sheets."""

PROLOG = 1 << 16
"""Bytes in which the root of a part has to begin."""

SHEETS = "xl/worksheets/"
ENDINGS = (".xml", ".rels")

PROTECTED = b"\xd0\xcf\x11\xe0"
"""How files begin that Excel has encrypted, and those of Excel before 2007."""


class Unreadable(Exception):
    """Why a workbook can't be read, and what to do: words of ours, none of the file's."""


DAMAGED = Unreadable("a part of it is damaged, or in a form of its own", "save it anew as .xlsx")


class _PartRoot(Exception):
    """The root of a part begins, or what may not stand before it."""


def refuse_bombs(file: Path) -> None:
    """Raise `Unreadable` for what is no package, or unpacks to more than can be read.

    A part is never longer than the package says: Python's `zipfile` reads no further.
    """
    with file.open("rb") as raw:
        begin = raw.read(4)
    if begin == PROTECTED:
        raise Unreadable(
            "it is protected by a password, or of Excel before 2007",
            "save it as .xlsx without a password, in a place where it is safe",
        )
    if not zipfile.is_zipfile(file):
        raise Unreadable("it is no .xlsx file", "save it as .xlsx, or declare its `format`")
    held = 0
    with zipfile.ZipFile(file) as package:
        for part in package.infolist():
            if not part.filename.lower().endswith(ENDINGS):
                continue  # pictures and macros are not opened
            is_sheet = part.filename.startswith(SHEETS) and "/_rels/" not in part.filename
            held += 0 if is_sheet else part.file_size
            if held > MOST_HELD or part.file_size > MOST_UNPACKED:
                raise Unreadable(
                    "it unpacks to more than is read of a workbook", "store it as Parquet or CSV"
                )
            with package.open(part) as opened:
                _refuse_entities(opened.read(PROLOG))


def _refuse_entities(begin: bytes) -> None:
    """Raise `Unreadable` for a part that declares its own marks: a few can stand for very many."""
    parser = expat.ParserCreate()
    begun: list[bool] = []

    def root(*_: object) -> NoReturn:
        begun.append(True)
        raise _PartRoot

    def declaration(*_: object) -> NoReturn:
        raise _PartRoot

    parser.StartElementHandler = root
    parser.StartDoctypeDeclHandler = declaration
    with suppress(_PartRoot, expat.ExpatError, ValueError):  # told by what had begun
        parser.Parse(begin, False)
    if not begun:
        raise DAMAGED
