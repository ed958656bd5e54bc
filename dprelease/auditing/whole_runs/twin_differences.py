"""What two runs on neighbours with the same bits may not differ in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dprelease.auditing.stage import Stage
from dprelease.auditing.whole_runs.replayed_run import Ran
from dprelease.documents import manifest
from dprelease.tables import formats
from dprelease.verification.rebuilt import differences

COMPARED = [
    "names of files and folders",
    "types, names and order of columns, and what files say of themselves",
    "numbers and order of rows, and keys that are public",
    "the manifest but for digests",
    "messages, exit codes and steps",
    "how many random bits were drawn",
]
EXCEPTED_ALWAYS = (
    "noised values, digests of files that hold them, and what is computed of them alone"
)
EXCEPTED_KEYS = (
    "keys that are not public, their number and the bits drawn for them: which ones are selected "
    "is noised"
)
EXCEPTED_CHOICES = (
    "how many bits the choice of a candidate takes: it follows the scores, shows in the time of a "
    "run alone, and that is unprotected"
)


def allowed_differences(stage: Stage) -> list[str]:
    """Return in words what may differ between twins, and why."""
    private, choices = _kinds(stage)
    return [EXCEPTED_ALWAYS, *[EXCEPTED_KEYS] * private, *[EXCEPTED_CHOICES] * choices]


def _kinds(stage: Stage) -> tuple[bool, bool]:
    """Return whether there are keys that are not public, and whether there are choices."""
    private = any(query.private is not None for query in stage.queries)
    choices = any(m.is_choice for query in stage.queries for m in query.measurements)
    return private, choices


def twin_differences(stage: Stage, one: Ran, other: Ran, *, silent: bool) -> Iterator[str]:
    """Yield in words what differs and may not; of silent twins nothing may, to the byte.

    Nothing of it names a value.
    """
    if (one.exit_code, one.message) != (other.exit_code, other.message):
        yield "the exit code or the message of the run"
        return
    if one.said != other.said:
        yield "what the run says, or in which order"
    if one.drawn != other.drawn and (silent or not any(_kinds(stage))):
        yield "how many random bits are drawn"
    names = [_names(ran.place) for ran in (one, other)]
    if names[0] != names[1]:
        yield "the names of the files"
        return
    if one.failure is None:
        yield from _of_files(stage, one, other, names[0], silent=silent)


def _of_files(
    stage: Stage, one: Ran, other: Ran, names: Sequence[str], *, silent: bool
) -> Iterator[str]:
    if silent:
        for name in names:
            sides = [ran.place / name for ran in (one, other)]
            if sides[0].is_file() and sides[0].read_bytes() != sides[1].read_bytes():
                yield f"the file '{name}', though the exact integers are the same"
        return
    yield from _of_manifests(stage, one.folder, other.folder)
    for name in names:
        if name.endswith(formats.file_of("")):
            yield from _of_tables(stage, one.place / name, other.place / name, name)


def _names(place: Path) -> list[str]:
    """Return the names of all files and folders, those beside the release's own included."""
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


def _of_manifests(stage: Stage, one: Path, other: Path) -> Iterator[str]:
    records = [
        _without_values(stage, json.loads((folder / manifest.NAME).read_bytes()))
        for folder in (one, other)
    ]
    for path in differences(records[0], records[1], "manifest"):
        yield f"`{path}`"


def _without_values(stage: Stage, record: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without digests, and without what is noised or computed of such."""
    public = {query.name for query in stage.queries if query.private is None}
    public |= {part.name for part in stage.records}
    record.pop("digest")
    for file in [*record["files"], *(f for e in record.get("exports", ()) for f in e["files"])]:
        file.pop("sha256")
        if "rows" in file and file.get("query") not in public:
            file.pop("rows")
    for family in record.get("families", ()):
        family.pop("record")
    return record


def _of_tables(stage: Stage, one: Path, other: Path, name: str) -> Iterator[str]:
    sides = [formats.PUBLISHED.read(path) for path in (one, other)]
    if not sides[0].schema.equals(sides[1].schema, check_metadata=True):
        yield f"columns, types or notes of '{name}'"
        return
    query = {query.name: query for query in stage.queries}.get(Path(name).stem)
    records = any(part.name == Path(name).stem for part in stage.records)
    if not records and (query is None or query.private is not None):
        return
    if sides[0].num_rows != sides[1].num_rows:
        yield f"the number of rows of '{name}'"
        return
    if query is None:
        return
    keys = [key.column for key in query.keys.keys]
    if not sides[0].select(keys).equals(sides[1].select(keys)):
        yield f"the keys of '{name}', or their order"
