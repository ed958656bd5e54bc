"""A version of a table of a lakehouse format: its columns, and the files that have its rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from dprelease.query import quoting

UNUSABLE = "BLOB"
"""The engine's type for columns from which no declared type is read, such as lists."""

MOST_BYTES = 1 << 30
"""The maximum bytes of a file of a log."""

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


class LakeProblem(Exception):
    """A version can't be read exactly; the arguments say why and what to do, without values."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a version.

    `type`: the engine's type. `stored`: the name of the column in the files; None if no file has
    it. `field_id`: the number by which files name the column, instead of `stored`.
    """

    type: str
    stored: str | None
    field_id: int | None = None


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file with rows, and SQL of the values that some columns have in all its rows.

    The SQL of a value that can't be read exactly is None.
    """

    path: Path
    size: int
    constants: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LakeVersion:
    """A version of a table. `collations`: as in `OpenedSource`."""

    version: int
    columns: Mapping[str, LakeColumn]
    files: tuple[LakeFile, ...]
    collations: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the paths of all files."""
        return tuple(file.path for file in self.files)


def find_data_files(folder: Path, listed: Iterable[LakeFile], advice: str) -> tuple[LakeFile, ...]:
    """Return the listed files of a table with resolved paths, in the order of their paths.

    `advice`: what to do if a file is missing.

    Raises LakeProblem if a file is missing, is outside of the folder, has another size, or is
    listed twice.
    """
    root, found = os.path.realpath(folder), dict[Path, LakeFile]()
    for one in listed:
        path = Path(os.path.realpath(folder / one.path))
        if not path.is_relative_to(root):
            way = "copy the table with all its files into one folder"
            raise LakeProblem("some of its files are outside of its folder", way)
        if not path.is_file():
            raise LakeProblem("some files of this version do not exist any more", advice)
        if path.stat().st_size != one.size:
            reason = "a file has another size than the log of the table states"
            raise LakeProblem(reason, "restore the files of the table, or copy the table again")
        if path in found:
            raise LakeProblem("it lists a file twice", "write the table again")
        found[path] = LakeFile(path, one.size, one.constants)
    return tuple(found[path] for path in sorted(found))


def null_sql(kind: str) -> str:
    """Return SQL of a missing value of one of the engine's types."""
    return f"CAST(NULL AS {kind})"


def constant_sql(text: str | None, kind: str) -> str | None:
    """Return SQL of a value that a log writes as a text; None if it can't be read exactly."""
    if text is None:
        return null_sql(kind)
    try:
        value = _literal(text, kind)
    except ValueError:  # no date, or half of a pair of surrogates
        return None
    return None if value is None else f"CAST({value} AS {kind})"


def _literal(text: str, kind: str) -> str | None:
    """Return a text of a log as a literal of one of the engine's types; None if it is none."""
    sizes = DECIMAL.fullmatch(kind)
    if sizes is not None:
        return _decimal(text, int(sizes[1]), int(sizes[2]))
    if kind in INTEGERS:
        return _integer(text, 8 << INTEGERS.index(kind))
    if kind == "DATE":
        return quoting.day(date.fromisoformat(text))
    if kind == "BOOLEAN":
        return text if text in ("true", "false") else None
    return quoting.text(text) if kind == "VARCHAR" and text.encode() and "\0" not in text else None


def _integer(text: str, bits: int) -> str | None:
    """Return a whole number as a literal; None if it does not have this form, or so few bits."""
    is_plain = re.fullmatch(r"-?\d{1,19}", text, re.ASCII) is not None
    inside = is_plain and -(1 << bits - 1) <= int(text) < 1 << bits - 1
    return quoting.integer(int(text)) if inside else None


def _decimal(text: str, width: int, scale: int) -> str | None:
    """Return a decimal as a literal; None if it does not have this form, or so few digits."""
    parts = re.fullmatch(r"-?0*(\d*)(?:\.(\d*))?", text, re.ASCII)
    if parts is None or not re.search(r"\d", text):
        return None
    fits = len(parts[2] or "") <= scale and len(parts[1]) <= width - scale
    return quoting.text(text) if fits else None
