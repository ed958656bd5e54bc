"""Convert text files to plain ones: uncompressed, in UTF-8, CSV with line feeds and rows only.

Files that are compressed, in another encoding or with other line ends are first rewritten into a
private folder, always by the same code: the engine itself would read the first half of a truncated
archive as if it were complete. Bytes that are invalid in the encoding become a byte that is invalid
in UTF-8, so the line with these bytes is treated like every other invalid line.
"""

from __future__ import annotations

import codecs
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.exact.reading.line_selection import LineSelection
from dprelease.schema.source_texts import UTF_8, Compression
from dprelease.schema.source_types.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 20
BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark, which is not a part of the text."""

ERROR_HANDLER = "dprelease-unknown"

NO_ARCHIVE = "it is no ZIP archive of one file"


def _replace_invalid_bytes(problem: UnicodeError) -> tuple[str, int]:
    """Return the replacement of invalid bytes, and where decoding continues."""
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    return "\udcff", problem.end  # becomes the byte FF, which never occurs in UTF-8


codecs.register_error(ERROR_HANDLER, _replace_invalid_bytes)


@dataclass(frozen=True, slots=True)
class TextDecoding:
    """How the bytes of a text file are decoded."""

    encoding: str = UTF_8
    compression: Compression = "none"
    keeps_carriage_returns: bool = True
    """Whether carriage returns are left unchanged. In a CSV file, one line end that differs from
    the others would stop the engine, so one person's row would decide whether a run succeeds."""
    lines: LineSelection | None = None
    """The lines that hold rows; None if the engine reads all lines, and a header in the first."""

    @classmethod
    def of(cls, source: Source, *, keeps_carriage_returns: bool = True) -> TextDecoding:
        """Return how the bytes of the files of a declared source are decoded."""
        selection = LineSelection.of(source)
        lines = None if keeps_carriage_returns or selection.is_whole else selection
        return cls(source.encoding, source.effective_compression, keeps_carriage_returns, lines)

    @property
    def is_plain(self) -> bool:
        """Return whether the engine can read every file with this encoding unchanged."""
        return self == TextDecoding()

    def chunks(self, raw: pa.NativeFile) -> Iterator[bytes]:
        """Yield the text that the engine reads in UTF-8, one piece after the other.

        Raises
        ------
        OSError
            If the file is incomplete, or not compressed as declared, or lacks the declared end.
        """
        text = self.text(raw)
        return text if self.lines is None else self.lines.rows(text)

    def text(self, raw: pa.NativeFile) -> Iterator[bytes]:
        """Yield the whole text of a file in UTF-8; raises as `chunks`."""
        parts = _decompress(raw, self.compression)
        utf_8 = self.encoding == UTF_8
        parts = _strip_byte_order_mark(parts) if utf_8 else _recode_to_utf_8(parts, self.encoding)
        return parts if self.keeps_carriage_returns else _normalize_line_ends(parts)

    def write(self, file: Path, target: Path) -> None:
        """Write a plain copy of a file to `target`; like its folder, only its owner can read it.

        If the engine can read a CSV file unchanged, `target` becomes a link to the file instead.
        Whether a copy or a link is made depends on all rows, but no result of a run depends on it.

        Raises OSError as `chunks`, or if there is no space.
        """
        if self._is_readable_unchanged(file):
            # The empty file that has held the name of the copy since the engine's view was defined.
            target.unlink(missing_ok=True)
            target.symlink_to(file)
            return
        with open_file(file) as raw, target.open("wb") as plain:
            for chunk in self.chunks(raw):
                plain.write(chunk)

    def _is_readable_unchanged(self, file: Path) -> bool:
        """Return whether a CSV file is plain UTF-8 without carriage returns; reads all of it."""
        if self.keeps_carriage_returns or self != TextDecoding(keeps_carriage_returns=False):
            return False
        with open_file(file) as raw:
            return not any(b"\r" in part for part in _decompress(raw, "none"))


def has_byte_order_mark(file: Path) -> bool:
    """Return whether a file begins with the UTF-8 byte order mark; reads no row.

    The engine skips this mark in CSV files, but in JSON lines it reads the mark as a part of the
    first line.
    """
    try:
        with open_file(file) as raw:
            return bytes(raw.read(len(codecs.BOM_UTF8))) == codecs.BOM_UTF8
    except OSError:
        return False  # reading the rest reports the error


def open_file(file: Path) -> pa.NativeFile:
    """Return a file that is opened for reading its bytes."""
    import pyarrow as pa

    return pa.OSFile(str(file.absolute()))


def _decompress(raw: Any, compression: Compression) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, in chunks.

    A ZIP archive must contain one file; folders and the notes of macOS do not count.
    """
    import pyarrow as pa

    if compression == "zip":
        yield from _unzip(raw)
        return
    if compression != "none":
        raw = pa.CompressedInputStream(raw, compression)
    while chunk := raw.read(CHUNK):
        yield chunk


def _unzip(raw: Any) -> Iterator[bytes]:
    """Yield the bytes of the only file in a ZIP archive."""
    failed = False
    try:
        with zipfile.ZipFile(raw) as archive:
            names = [one for one in archive.namelist() if not one.endswith("/")]
            (name,) = [one for one in names if not one.startswith("__MACOSX/")]
            with archive.open(name) as member:
                while chunk := member.read(CHUNK):
                    yield chunk
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        ValueError,
        RuntimeError,
        NotImplementedError,
    ):
        failed = True
    if failed:
        raise OSError(NO_ARCHIVE)


def _strip_byte_order_mark(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes without a byte order mark of UTF-8."""
    yield _take_first_bytes(parts, len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
    yield from parts


def _take_first_bytes(parts: Iterator[bytes], size: int) -> bytes:
    """Return the first bytes of parts: at least `size` bytes, or all bytes if there are fewer."""
    first = b""
    while len(first) < size and (part := next(parts, b"")):
        first += part
    return first


def _normalize_line_ends(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts in which a line feed replaces each end of a line."""
    held = b""
    for read in parts:
        part = held + read
        held = part[-1:] if part.endswith(b"\r") else b""  # its line feed may be in the next one
        part = part.removesuffix(held)
        yield part.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in part else part
    yield held.replace(b"\r", b"\n")


def _recode_to_utf_8(parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the text of these bytes, decoded from its encoding, as UTF-8."""
    first = _take_first_bytes(parts, len(codecs.BOM_UTF16))
    if encoding == "utf-16":  # without a mark, most programs mean this
        encoding = "utf-16-be" if first[:2] == codecs.BOM_UTF16_BE else "utf-16-le"
    decoder = codecs.getincrementaldecoder(encoding)(ERROR_HANDLER)
    yield decoder.decode(first).removeprefix(BYTE_ORDER_MARK).encode(UTF_8, "surrogateescape")
    for part in parts:
        yield decoder.decode(part).encode(UTF_8, "surrogateescape")
    yield decoder.decode(b"", final=True).encode(UTF_8, "surrogateescape")
