"""The binary form of SSH: strings with their length before them (RFC 4251, section 5)."""

from __future__ import annotations

import base64
import struct


def string(data: bytes) -> bytes:
    """Return some bytes as an SSH string."""
    return struct.pack(">I", len(data)) + data


class Reader:
    """Takes fields from the beginning of untrusted bytes."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def take(self, size: int) -> bytes:
        """Return the next bytes; raise ValueError if there are fewer."""
        if size > len(self._rest):
            raise ValueError("it is cut off")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def number(self) -> int:
        """Return the next 32-bit number; raise ValueError at the end."""
        return int(struct.unpack(">I", self.take(4))[0])

    def string(self) -> bytes:
        """Return the bytes of the next string; raise ValueError if it is truncated."""
        return self.take(self.number())

    def end(self) -> None:
        """Raise ValueError if any bytes are left."""
        if self._rest:
            raise ValueError("more data follows its end")


def from_base64(text: bytes) -> bytes:
    """Return the bytes of a Base64 text, ignoring blanks.

    Raises
    ------
    ValueError
        For any other text than the one that Base64 has for these bytes.
    """
    compact = b"".join(text.split())
    data = base64.b64decode(compact, validate=True)
    if base64.b64encode(data) != compact:
        raise ValueError("it is no Base64")
    return data
