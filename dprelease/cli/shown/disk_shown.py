"""What a plan says of the disk, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.plan import Plan
    from dprelease.schema.load import Declaration


def tables_at_most(declaration: Declaration, planned: Plan) -> int | None:
    """Return how many bytes the tables of a release have at most; None of records and parties."""
    spec = declaration.spec
    if spec.mode != "central" or spec.federated is not None:
        return None
    from dprelease.planning.families.family_plan import families_of
    from dprelease.release.disk import most_bytes

    return most_bytes(families_of(spec, planned.columns))


def disk_words(declaration: Declaration, most: int | None) -> list[str]:
    """Return in words how much a release writes at most, and whether its disk has less."""
    if most is None:
        return []
    from dprelease.release.disk import free_bytes, in_words

    name = one_line(declaration.spec.output)
    words = f"On the disk of '{name}': tables of at most {in_words(most)}."
    folder = declaration.folder / declaration.spec.output
    there = next(path for path in (folder, *folder.parents, Path("/")) if path.is_dir())
    free = free_bytes(there)
    if most > free:
        words += f"\nWarning: a run would be refused, for {in_words(free)} are left there."
    return [words]
