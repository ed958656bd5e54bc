"""Convert text files to plain ones: uncompressed, in UTF-8, CSV with line feeds only.

Files that are compressed, in another encoding or with other line ends are first rewritten into a
private folder, always by the same code: the engine itself would take half of a broken archive for
all of it. Bytes that are invalid in the encoding become a byte that is invalid in UTF-8, so their
line is treated like other invalid lines.
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
"""The byte order mark, which is not part of the text."""

UNKNOWN = "dprelease-unknown"


def _unknown(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    return "\udcff", problem.end  # becomes the byte FF, which never occurs in UTF-8


codecs.register_error(UNKNOWN, _unknown)


@dataclass(frozen=True, slots=True)
class Packing:
    """How the bytes of a text file are decoded."""

    encoding: str = UTF_8
    compression: Compression = "none"
    returns: bool = True
    """Whether carriage returns are left unchanged. In CSV, one that differs from the others would
    stop the engine, depending on one person's row."""

    @classmethod
    def of(cls, source: Source, *, returns: bool = True) -> Packing:
        """Return that of a declared source."""
        return cls(source.encoding, source.effective_compression, returns)

    @property
    def is_plain(self) -> bool:
        """Return whether the engine can read every such file unchanged."""
        return self == Packing()

    def chunks(self, raw: pa.NativeFile) -> Iterator[bytes]:
        """Yield the file in UTF-8, piece by piece.

        Raises
        ------
        OSError
            If it is incomplete, or not compressed as declared.
        """
        parts = _decompress(raw, self.compression)
        utf_8 = self.encoding == UTF_8
        parts = _strip_byte_order_mark(parts) if utf_8 else _in_utf_8(parts, self.encoding)
        return parts if self.returns else _by_line_feeds(parts)

    def write(self, file: Path, target: Path) -> None:
        """Write a file in UTF-8, readable by its owner alone, like its folder.

        If the engine can read a CSV file unchanged, a link replaces the target. Which of the two
        happens depends on all rows, but no result depends on it.

        Raises
        ------
        OSError
            As `chunks`, or if there is no space.
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
    """Return whether a file begins with the UTF-8 byte order mark; reads no row.

    The engine skips it before CSV, and takes it for a part of the first line of JSON lines.
    """
    try:
        with open_file(file) as raw:
            return bytes(raw.read(len(codecs.BOM_UTF8))) == codecs.BOM_UTF8
    except OSError:
        return False  # reading the rest reports the error


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
    """Return bytes from the front: at least `size`, or all that there are."""
    first = b""
    while len(first) < size and (part := next(parts, b"")):
        first += part
    return first


def _by_line_feeds(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts in which a line feed replaces each end of a line."""
    held = b""
    for read in parts:
        part = held + read
        held = part[-1:] if part.endswith(b"\r") else b""  # its line feed may be in the next one
        part = part.removesuffix(held)
        yield part.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in part else part
    yield held.replace(b"\r", b"\n")


def _in_utf_8(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    first = _first(parts, len(codecs.BOM_UTF16))
    if encoding == "utf-16":  # without a mark, most programs mean this
        encoding = "utf-16-be" if first[:2] == codecs.BOM_UTF16_BE else "utf-16-le"
    decoder = codecs.getincrementaldecoder(encoding)(UNKNOWN)
    yield decoder.decode(first).removeprefix(MARK).encode(UTF_8, "surrogateescape")
    for part in parts:
        yield decoder.decode(part).encode(UTF_8, "surrogateescape")
    yield decoder.decode(b"", final=True).encode(UTF_8, "surrogateescape")
