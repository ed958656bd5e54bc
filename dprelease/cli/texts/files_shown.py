"""List the files of a release in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

MOST_NAMED = 12
"""Maximum number of files that are listed by name."""


def file_list(files: Sequence[str]) -> str:
    """Return the names of files; if they are too many, the number of files in each folder."""
    if len(files) <= MOST_NAMED:
        return ", ".join(files)
    by_folder = Counter(name.rpartition("/")[0] for name in files)
    several = [f"{n} in {folder}/" for folder, n in sorted(by_folder.items()) if folder]
    own = [name for name in files if "/" not in name]
    named = own if len(own) <= MOST_NAMED else [f"{len(own)} files"]
    return ", ".join([*named, *several])
