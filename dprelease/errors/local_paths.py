"""Paths that people give: a URI names no file of this machine, and is refused before it is used.

`Path("s3://bucket/out")` is the folder `out` in a folder `s3:` of the current folder: what is
published there is lost for whoever waits for it in the bucket, and has been charged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprelease.errors.error_tree import DeclarationError

CODE = "DP-PATH-001"

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URI begins, with one slash at least: pathlib leaves no more of them. `C:/` is none."""

OF_A_FILE = "give the path alone, as in /data/people"
OF_A_STORE = (
    "give a path of this machine, and copy files from or to the store yourself; or mount the "
    "store, and give the path where it is mounted"
)


def uri_fields(text: str) -> dict[str, Any] | None:
    """Return what DP-PATH-001 says of a URI; None for a path.

    Its scheme and the last part of its path are shown: the rest may hold a password or a token.
    """
    begin = URI.match(text)
    if begin is None:
        return None
    scheme = begin[1]
    last = re.split(r"[?#]", text[begin.end() :])[0].rstrip("/").rpartition("/")[2]
    last = last.rpartition("@")[2][:100]
    way = OF_A_FILE if scheme.lower() == "file" else OF_A_STORE
    return {"uri": f"{scheme}://.../{last}", "scheme": scheme, "way": way}


def refuse_uris(*given: object) -> None:
    """Raise DeclarationError DP-PATH-001 if any of some arguments is a URI.

    What is neither a path nor several of them, such as a frame in place of a file, passes.
    """
    for path in _paths(given):
        fields = uri_fields(path)
        if fields is not None:
            raise DeclarationError(CODE, **fields)


def _paths(given: object) -> Iterator[str]:
    if isinstance(given, str | os.PathLike):
        yield str(given)
    elif isinstance(given, Mapping):
        yield from _paths([*given.values()])
    elif isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        for one in given:
            yield from _paths(one)
