"""Check what --overwrite may replace: a release, and nothing else that is stored in its folder."""

from __future__ import annotations

from pathlib import Path

from dprelease.documents.encoding import NAME, SIGNATURE
from dprelease.documents.listed_files import listed_files
from dprelease.errors import OutputError
from dprelease.system.entries import entries
from dprelease.system.files import NotRegularFile, TooLarge, read_file
from dprelease.system.json_text import MOST_BYTES, parse_json
from dprelease.system.mounts import is_mounted


def refuse_irreplaceable(target: Path) -> None:
    """Raise OutputError unless the target is exactly one release, which can be replaced.

    Replacing a folder deletes everything in it: another release, the ledger, the source.

    Raises OutputError: DP-OUTPUT-003 if it is not a release, 009 if it holds more than one, 010 if
    it is a mount point.
    """
    names = _release_file_names(target)
    if names is None:
        raise OutputError("DP-OUTPUT-003", name=target.name)
    if target.is_symlink():
        return  # only the link is replaced, and its target stays
    if is_mounted(target):
        raise OutputError("DP-OUTPUT-010", name=target.name)
    others = sorted(
        name
        for name, entry in entries(target, names, is_mounted)
        if name not in names or entry.is_dir()
    )
    if others:
        raise OutputError("DP-OUTPUT-009", name=target.name, other=others[0])


def _release_file_names(target: Path) -> set[str] | None:
    """Return the names of the files of a release; None if the folder is not a release."""
    try:
        record = parse_json(read_file(target / NAME, MOST_BYTES))
        return {NAME, SIGNATURE, *listed_files(record)}
    except (NotRegularFile, TooLarge, FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
