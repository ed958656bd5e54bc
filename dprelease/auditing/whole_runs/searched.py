"""Looks for planted values in all that a run wrote or said, packed and encoded as it may be."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.query.resolve import Query
from dprelease.tables import formats

if TYPE_CHECKING:
    import pyarrow as pa

MANY_BYTES = 8
"""Of a number as it is stored: fewer would be met by chance."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A value that stands in one column and nowhere else."""

    table: str
    column: str
    value: object

    @property
    def marks(self) -> tuple[bytes, ...]:
        """Return the bytes by which it is told wherever it is written."""
        value = self.value
        if isinstance(value, str):
            return (value.encode(), value.encode("utf-16-le"), value.lower().encode())
        if isinstance(value, datetime):
            return (value.isoformat().encode(), value.isoformat(" ").encode())
        if isinstance(value, date):
            return (
                value.isoformat().encode(),
                f"{value:%Y%m%d}".encode(),
                f"{value:%d/%m/%Y}".encode(),
            )
        if isinstance(value, int | float):
            whole = int(value)
            texts = {f"{whole}", f"{whole:,}", f"{value!r}", f"{whole:x}"}
            stored = (struct.pack("<q", whole), struct.pack(">q", whole), struct.pack("<d", value))
            return (*(text.encode() for text in sorted(texts)), *stored)
        raise TypeError("a canary is a text, a number or a day")


def found_in_folder(folder: Path, canaries: Sequence[Canary]) -> Iterator[tuple[str, Canary]]:
    """Yield the names of files that hold a canary, in their names, bytes or values."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        yield from ((name, canary) for canary in found_in(name.encode(), canaries))
        if path.is_file():
            yield from ((name, canary) for canary in _found_in_file(path, canaries))


def found_in_keys(folder: Path, query: Query, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that are keys which are not public, of a query's published table."""
    path = folder / formats.file_of(query.name)
    if query.private is not None and path.is_file():
        keys = [name for name, _ in query.private.columns]
        yield from _found_in_table(formats.PUBLISHED.read(path, keys), canaries)


def found_in(raw: bytes, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that some bytes hold."""
    lower = raw.lower()
    for canary in canaries:
        if any(mark in raw or mark in lower for mark in canary.marks):
            yield canary


def _found_in_file(path: Path, canaries: Sequence[Canary]) -> Iterator[Canary]:
    raw = path.read_bytes()
    yield from found_in(raw, canaries)
    if raw[:4] == b"PAR1":
        import pyarrow.parquet as pq

        yield from _found_in_table(pq.read_table(path), canaries)
    elif raw[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for name in archive.namelist():
                yield from found_in(archive.read(name), canaries)


def _found_in_table(table: pa.Table, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that are values of a table, or stand in what it says of itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for column in table.columns:
        held = pc.unique(column.combine_chunks())
        if pa.types.is_dictionary(held.type):
            held = held.dictionary_decode()
        if pa.types.is_floating(held.type) or pa.types.is_integer(held.type):
            numbers = set(held.to_pylist())
            for canary in canaries:
                if isinstance(canary.value, int | float) and canary.value in numbers:
                    yield canary
        else:
            said = "\n".join(map(str, held.to_pylist())).encode()
            yield from found_in(said, canaries)


def found_in_failure(error: BaseException, canaries: Sequence[Canary]) -> Iterator[Canary]:
    """Yield the canaries that an error says, or one that it came from."""
    seen: BaseException | None = error
    while seen is not None:
        said: Mapping[str, object] = vars(seen)
        yield from found_in(f"{seen} {seen!r} {seen.args!r} {said!r}".encode(), canaries)
        seen = seen.__cause__ or seen.__context__
