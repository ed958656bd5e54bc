"""Read and write the binary form of SSH: each string follows its length (RFC 4251, section 5)."""

from __future__ import annotations

import base64
import struct


def to_ssh_string(data: bytes) -> bytes:
    """Return bytes as an SSH string: their length, and then the bytes."""
    return struct.pack(">I", len(data)) + data


class SshReader:
    """Reads fields of SSH's binary form one after the other from untrusted bytes."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes; raise ValueError if fewer are left."""
        if size > len(self._rest):
            raise ValueError("it is cut off")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def number(self) -> int:
        """Return the next 32-bit number; raise ValueError if fewer bytes are left."""
        return int(struct.unpack(">I", self.take(4))[0])

    def string(self) -> bytes:
        """Return the bytes of the next string; raise ValueError if it is truncated."""
        return self.take(self.number())

    def end(self) -> None:
        """Raise ValueError if any bytes are left."""
        if self._rest:
            raise ValueError("more data follows its end")


def parse_base64(text: bytes) -> bytes:
    """Return the bytes of a Base64 text, ignoring blanks.

    Raises ValueError if the text is not the canonical Base64 encoding of the bytes.
    """
    compact = b"".join(text.split())
    data = base64.b64decode(compact, validate=True)
    if base64.b64encode(data) != compact:
        raise ValueError("it is no Base64")
    return data
