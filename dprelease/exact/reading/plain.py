"""Text files as the engine reads them: plain, in UTF-8, and CSV with line feeds alone.

What is compressed, in another encoding or has other ends of lines is first written anew into a
private folder, by the same code wherever it is read: the engine itself takes half of a broken
archive for all of it. Bytes that the encoding does not know become one that UTF-8 does not know
either, so their line is treated as such lines are.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.schema.source_texts import UTF_8, Compression
from dprelease.schema.table import Source

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 20
MARK = "\ufeff"
"""What may stand before the first character, and is none."""

UNKNOWN = "dprelease-unknown"


def _unknown(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    return "\udcff", problem.end  # becomes the byte FF, which is nowhere in UTF-8


codecs.register_error(UNKNOWN, _unknown)


@dataclass(frozen=True, slots=True)
class Packing:
    """How the bytes of a text file are to be understood."""

    encoding: str = UTF_8
    compression: Compression = "none"
    returns: bool = True
    """Whether carriage returns are left as they are. In CSV, one that is not like the others would
    stop the engine, in whoever's row it stands."""

    @classmethod
    def of(cls, source: Source) -> Packing:
        """Return that of a declared source."""
        return cls(source.encoding, source.effective_compression, source.kind != "csv")

    @property
    def is_plain(self) -> bool:
        """Return whether the engine can read any such file as it is."""
        return self == Packing()

    def chunks(self, raw: pa.NativeFile) -> Iterator[bytes]:
        """Yield the file in UTF-8, piece by piece.

        Raises
        ------
        OSError
            If it is not whole, or not compressed as declared.
        """
        parts = _decompress(raw, self.compression)
        utf_8 = self.encoding == UTF_8
        parts = _strip_byte_order_mark(parts) if utf_8 else _in_utf_8(parts, self.encoding)
        return parts if self.returns else _by_line_feeds(parts)

    def write(self, file: Path, target: Path) -> None:
        """Write a file in UTF-8, readable by its owner alone as its folder is.

        Of CSV that the engine can read as it is, a link takes the place of the target. Which of
        them it is rests on every row, and nothing that is read does.

        Raises
        ------
        OSError
            As `chunks`, or if there is no room.
        """
        if self._is_as_written(file):
            target.unlink(missing_ok=True)
            target.symlink_to(file)
            return
        with open_file(file) as raw, target.open("wb") as plain:
            for chunk in self.chunks(raw):
                plain.write(chunk)

    def _is_as_written(self, file: Path) -> bool:
        if self.returns or not Packing(self.encoding, self.compression).is_plain:
            return False
        with open_file(file) as raw:
            return not any(b"\r" in part for part in _decompress(raw, "none"))


def is_marked(file: Path) -> bool:
    """Return whether a file begins with the mark of UTF-8; nobody's row is looked at.

    The engine skips it before CSV, and takes it for a part of the first of JSON lines.
    """
    try:
        with open_file(file) as raw:
            return bytes(raw.read(len(codecs.BOM_UTF8))) == codecs.BOM_UTF8
    except OSError:
        return False  # who reads the rest says so


def open_file(file: Path) -> pa.NativeFile:
    """Return a file's bytes, opened for reading."""
    import pyarrow as pa

    return pa.OSFile(str(file.absolute()))


def _decompress(raw: Any, compression: Compression) -> Iterator[bytes]:
    import pyarrow as pa

    if compression != "none":
        raw = pa.CompressedInputStream(raw, compression)
    while chunk := raw.read(CHUNK):
        yield chunk


def _strip_byte_order_mark(parts: Iterator[bytes]) -> Iterator[bytes]:
    yield _first(parts, len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
    yield from parts


def _first(parts: Iterator[bytes], size: int) -> bytes:
    """Return what is taken from the front: at least `size` bytes, or all that there are."""
    first = b""
    while len(first) < size and (part := next(parts, b"")):
        first += part
    return first


def _by_line_feeds(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts in which a line feed stands for each end of a line."""
    held = b""
    for read in parts:
        part = held + read
        held = part[-1:] if part.endswith(b"\r") else b""  # its line feed may be in the next one
        part = part.removesuffix(held)
        yield part.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in part else part
    yield held.replace(b"\r", b"\n")


def _in_utf_8(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    first = _first(parts, len(codecs.BOM_UTF16))
    if encoding == "utf-16":  # without a mark it is what most writers mean
        encoding = "utf-16-be" if first[:2] == codecs.BOM_UTF16_BE else "utf-16-le"
    decoder = codecs.getincrementaldecoder(encoding)(UNKNOWN)
    yield decoder.decode(first).removeprefix(MARK).encode(UTF_8, "surrogateescape")
    for part in parts:
        yield decoder.decode(part).encode(UTF_8, "surrogateescape")
    yield decoder.decode(b"", final=True).encode(UTF_8, "surrogateescape")
