"""Read Avro files, in which Iceberg writes lists of files.

Source: Apache Avro 1.11 Specification, "Binary encoding" and "Object Container Files".
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from dprelease.exact.lakes.lake_version import MOST_BYTES
from dprelease.system.files import read_file

Reader = Callable[[BytesIO], Any]
"""A function that reads a value of one schema from the bytes of a block."""

MAGIC, SYNC_BYTES = b"Obj\x01", 16


def read_records(path: Path) -> Iterator[Any]:
    """Yield the records of an Avro file, with mappings for records.

    Raises OSError, ValueError, LookupError, TypeError or RecursionError if the file can't be read,
    or is not such a file.
    """
    held = BytesIO(read_file(path, MOST_BYTES))
    if held.read(4) != MAGIC:
        raise ValueError("no Avro file")
    header = _map(_bytes)(held)
    sync = _exactly(held, SYNC_BYTES)
    read = _reader(json.loads(header["avro.schema"]), {})
    unpack = _unpacker(header.get("avro.codec", b"null").decode())
    while held.tell() < len(held.getbuffer()):
        count = _long(held)
        block = BytesIO(unpack(_exactly(held, _long(held))))
        for _ in range(count):
            yield read(block)
        if block.read(1) or _exactly(held, SYNC_BYTES) != sync:
            raise ValueError("a damaged block")


def _unpacker(codec: str) -> Callable[[bytes], bytes]:
    """Return the function that unpacks the blocks of a file."""
    if codec == "null":
        return bytes
    if codec == "deflate":
        return _inflate
    if codec == "zstandard":
        return _unpack_zstandard
    raise ValueError("a codec that is not known")


def _inflate(packed: bytes) -> bytes:
    """Return the content of a deflated block."""
    try:
        # Negative: Avro's blocks are bare deflate data, without the header and the checksum of
        # zlib.
        return zlib.decompress(packed, -zlib.MAX_WBITS)
    except zlib.error:
        raise ValueError("a damaged block") from None


def _unpack_zstandard(packed: bytes) -> bytes:
    """Return the content of a block that Zstandard has compressed."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content: bytes = stream.read()
        return content


def _exactly(held: BytesIO, size: int) -> bytes:
    """Return the next bytes; raise ValueError if there are fewer."""
    read = held.read(size) if size >= 0 else b""
    if len(read) != size:
        raise ValueError("the file ends too early")
    return read


def _long(held: BytesIO) -> int:
    """Return the next whole number: seven bits in each byte, and the sign in the last bit."""
    number = shift = 0
    while True:
        (byte,) = _exactly(held, 1)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _bytes(held: BytesIO) -> bytes:
    """Return the next bytes, which begin with their number."""
    return _exactly(held, _long(held))


def _blocks(held: BytesIO) -> Iterator[int]:
    """Yield the number of items in each block of an array or a map."""
    while count := _long(held):
        if count < 0:
            _long(held)  # the number of bytes, by which readers could skip the block
        yield abs(count)


def _array(item: Reader) -> Reader:
    return lambda held: [item(held) for count in _blocks(held) for _ in range(count)]


def _map(value: Reader) -> Reader:
    """Return the reader of a mapping with texts as keys."""
    return lambda held: {
        _bytes(held).decode(): value(held) for count in _blocks(held) for _ in range(count)
    }


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    return lambda held: {name: read(held) for name, read in fields}


PRIMITIVES: dict[str, Reader] = {
    "null": lambda _: None,
    "boolean": lambda held: _exactly(held, 1) == b"\x01",
    "int": _long,
    "long": _long,
    "float": lambda held: struct.unpack("<f", _exactly(held, 4))[0],
    "double": lambda held: struct.unpack("<d", _exactly(held, 8))[0],
    "bytes": _bytes,
    "string": lambda held: _bytes(held).decode(),
}


def _reader(schema: Any, named: dict[str, Reader]) -> Reader:
    """Return the reader of a schema. `named`: the readers of the names that were defined before."""
    if isinstance(schema, list):
        branches = [_reader(one, named) for one in schema]
        return lambda held: branches[_index(held, len(branches))](held)
    if isinstance(schema, str):
        return PRIMITIVES.get(schema) or named[schema]
    kind = schema["type"]
    if kind == "array":
        return _array(_reader(schema["items"], named))
    if kind == "map":
        return _map(_reader(schema["values"], named))
    if kind in ("record", "fixed", "enum"):
        read = _named_reader(schema, named)
        named[schema["name"]] = read
        return read
    return _reader(kind, named)


def _named_reader(schema: Any, named: dict[str, Reader]) -> Reader:
    """Return the reader of a schema with a name: a record, bytes of a fixed number, or an enum."""
    if schema["type"] == "record":
        return _record([(one["name"], _reader(one["type"], named)) for one in schema["fields"]])
    if schema["type"] == "fixed":
        size = int(schema["size"])
        return lambda held: _exactly(held, size)
    symbols = schema["symbols"]
    return lambda held: symbols[_index(held, len(symbols))]


def _index(held: BytesIO, count: int) -> int:
    """Return the next position in a list of branches or symbols."""
    index = _long(held)
    if not 0 <= index < count:
        raise ValueError("a branch that the schema does not have")
    return index
