"""The files that a release writes, and the disk space they need, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.schema.load import Declaration


def has_unknown_rows(planned: Plan) -> bool:
    """Return whether a table has private keys, so that its number of rows is unknown beforehand."""
    return any(column.query.cells is None for column in planned.columns)


def disk_space_texts(
    declaration: Declaration, planned: Plan, most: int | None, *, explain: bool
) -> list[str]:
    """Return a warning if the disk is too small, and the maximum bytes if they are explained."""
    if most is None:
        return []
    from dprelease.errors import OutputError
    from dprelease.release.disk import ROOM, refuse_full_disk, size_text, temporary_space

    name = one_line(declaration.spec.output)
    tables = [f"tables of at most {size_text(most)}"] if most else []
    found = ["a row for each key that is found in the data, an unknown number"]
    text = f"On the disk of '{name}': {', and '.join(tables + found * has_unknown_rows(planned))}."
    text += f" A run also needs room for its manifest and {size_text(ROOM)} more."
    scratch = temporary_space(declaration, planned.queries)
    if scratch is not None:
        text += f" In the temporary folder it uses at most {size_text(scratch[1])} while it runs."
    folder = declaration.folder / declaration.spec.output
    existing = next(path for path in (folder, *folder.parents, Path("/")) if path.is_dir())
    try:
        refuse_full_disk(existing, name, most + ROOM, declaration.place("output"), scratch)
    except OutputError as refused:
        warning = f"Warning: a run would fail. {refused.cause}"
        return [f"{text}\n{warning}" if explain else warning]
    return [text] if explain else []


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
