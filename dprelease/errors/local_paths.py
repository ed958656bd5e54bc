"""Check the path arguments of people, before anything is read or charged.

`Path("s3://bucket/out")` is the folder `bucket/out` in a folder `s3:` of the current folder. A
release there would be charged, and lost for anyone who expects it in the bucket. `~` is a home
folder for a shell and for Arrow, but not for the system. Arrow accepts only names in UTF-8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dprelease.errors.error_tree import DeclarationError

LONGEST_NAME = 255
"""Maximum number of bytes of a name in a path, on all common file systems."""

URI_CODE, HOME_CODE, ENCODING_CODE = "DP-PATH-001", "DP-PATH-002", "DP-PATH-003"

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""The start of a URI, with at least one slash, because pathlib removes the second slash.

`C:/` is not the start of a URI, because a scheme has at least two letters.
"""

OF_A_FILE = "give the path alone, as in /data/people"
OF_A_STORE = (
    "give a path of this machine; `dprelease export FOLDER --to s3://bucket/folder` copies a "
    "release into a store, and the `source` of a table can be in a store"
)


def uri_fields(text: str) -> dict[str, Any] | None:
    """Return the fields of DP-PATH-001 for a URI; None for a path.

    The fields contain the scheme and the last part of the path, because the rest may hold a
    password or a token.
    """
    begin = URI.match(text)
    if begin is None:
        return None
    scheme = begin[1]
    last = re.split(r"[?#]", text[begin.end() :])[0].rstrip("/").rpartition("/")[2]
    # What stands in front of an @ may be a password.
    last = last.rpartition("@")[2][:100]
    parts_of_uri = OF_A_FILE if scheme.lower() == "file" else OF_A_STORE
    return {"uri": f"{scheme}://.../{last}", "scheme": scheme, "way": parts_of_uri}


def check_paths(*value: object) -> None:
    """Raise DeclarationError if an argument is not a local path.

    Other arguments, such as a frame in place of a file, are accepted, because other code checks
    their types.

    Raises DeclarationError: DP-PATH-001 for a URI, 002 for `~` at its start, 003 for a name that is
    not UTF-8, 005 for a path that no file can have.
    """
    for path in _paths_in(value):
        fields = uri_fields(path)
        if fields is not None:
            raise DeclarationError(URI_CODE, **fields)
        if path.startswith("~"):
            raise DeclarationError(HOME_CODE, path=path)
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in path):
            raise DeclarationError(ENCODING_CODE, path=path)
        problem = _system_problem(path)
        if problem:
            raise DeclarationError("DP-PATH-005", path=path[:60], problem=problem)


def _system_problem(path: str) -> str:
    """Return the reason why no file can have this path; empty if one can."""
    if "\0" in path:
        return "it contains the character NUL"
    longest = max(len(part.encode()) for part in path.split("/"))
    return "" if longest <= LONGEST_NAME else f"a name in it has more than {LONGEST_NAME} bytes"


def _paths_in(value: object) -> Iterator[str]:
    """Yield the texts of all paths in a value, also in nested lists and mappings."""
    if isinstance(value, str | os.PathLike):
        yield str(value)
    elif isinstance(value, Mapping):
        yield from _paths_in([*value.values()])
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for one in value:
            yield from _paths_in(one)
